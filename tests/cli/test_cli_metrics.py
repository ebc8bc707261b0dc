"""Figures of a server of several processes: every scrape has the sums of all, and no gauge of one that has died."""

from __future__ import annotations

import os
import signal
import socket
import urllib.request
from pathlib import Path

import pytest
from tests.cli.commands import script
from tests.cli.serving import Started
from tests.server.features.test_metrics import read
from tests.timeouts import TIMEOUT


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def figures(url: str) -> dict[tuple[str, ...], float]:
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
        return read(answer.read().decode())


def test_workers_add_up_and_a_dead_ones_gauges_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = Started(tmp_path)
    words = ["--model", script(tmp_path, "Hello."), "--workers", "2", "--metrics", "--metrics-port", str(port)]
    request = ("method=POST", "model=" + words[1], "path=/v1/chat/completions", "status=200")
    with started.serving(*words) as served:
        for _ in range(6):
            served.client.chat.completions.create(model="default", messages=[{"role": "user", "content": "hi"}])
        for url in (f"http://127.0.0.1:{port}/metrics", f"{served.url}/metrics"):
            assert figures(url)["http_requests_total", *request] == 6
        (folder,) = temporary.glob("ronda-metrics-*")
        victim = children(served.process.pid)[0]
        assert list(folder.glob(f"gauge_livesum_{victim}.db"))
        os.kill(victim, signal.SIGKILL)
        assert served.process.stderr is not None
        assert "it is started again" in served.process.stderr.readline()
        assert not list(folder.glob(f"gauge_livesum_{victim}.db"))
        assert figures(f"{served.url}/metrics")["http_requests_total", *request] == 6
        code, _ = served.end()

    assert code == 0
    assert not folder.exists()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = ("--port", "0", "--model", script(tmp_path, "Hello."), "--metrics-port", str(port))
        code, said = Started(tmp_path).fails(*words)

    assert code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert "--metrics-port" in said

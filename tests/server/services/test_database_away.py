"""While the database is away, a server says so: at /ready, and to new requests within seconds, in words that name no address.
Runs under way go on when it is back, as if nothing had been."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from tests.chaos.cut import Cut
from tests.server.restarts import Folder, call
from tests.server.services.test_replicas import Replica, replicas
from tests.timeouts import TIMEOUT

WAITED = 15.0  # seconds, on a busy machine: an outage itself is waited for 45


@pytest.fixture
def cut(postgres: str) -> Iterator[Cut]:
    with Cut(postgres).open() as cut:
        yield cut


class Told(NamedTuple):
    status: int
    body: str
    retry_after: str | None
    seconds: float


def ask(replica: Replica, path: str, body: Any = None, method: str | None = None) -> Told:
    root = replica.serving.url.removesuffix("/v1")
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(root + path, data, {"content-type": "application/json"}, method=method)
    began = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return Told(answer.status, answer.read().decode(), answer.headers["retry-after"], time.monotonic() - began)
    except urllib.error.HTTPError as error:
        with error:
            said = error.read().decode()
            return Told(error.code, said, error.headers["retry-after"], time.monotonic() - began)


def until_ready(replica: Replica, status: int) -> Told:
    end = time.monotonic() + TIMEOUT
    while (told := ask(replica, "/ready")).status != status:
        assert time.monotonic() < end
        time.sleep(0.02)
    return told


NEW_REQUESTS = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "go"}]}),
    ("/v1/responses", {"input": "go", "background": True}),
    ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "go"}]}),
    ("/v1/conversations", {"inputs": "go"}),
    ("/v1/runs", {"input": "go"}),
    ("/v1/files", None),
    ("/v1/runs/run_x", None),
    ("/v1/file-links/abc", None),
]


@pytest.mark.parametrize("fail", [Cut.cut, Cut.refuse], ids=["cut off", "stopped"])
def test_new_requests_are_refused_soon_and_told_when_to_come_again(tmp_path: Path, cut: Cut, fail: Any) -> None:
    with replicas(Folder(tmp_path), cut.url, 1) as (server,), ThreadPoolExecutor() as threads:
        assert until_ready(server, 200).retry_after is None
        fail(cut)
        early = threads.submit(ask, server, "/v1/runs")  # before any process can know of the outage
        opening = threads.submit(ask, server, *NEW_REQUESTS[0])
        not_ready, health = until_ready(server, 503), ask(server, "/health")
        late = {path: ask(server, path, body) for path, body in NEW_REQUESTS}
        first = [early.result(), opening.result()]

    address = urlsplit(cut.url)
    for told in [*late.values(), *first, not_ready]:
        assert (told.status, told.retry_after) == (503, "2"), told
        assert not any(part in told.body for part in (str(address.hostname), str(address.port), "postgres")), told.body
    assert (health.status, health.body) == (200, "OK")
    assert max(told.seconds for told in [*first, *late.values()]) < WAITED
    assert json.loads(not_ready.body)["checks"]["model"] == "ok"


def test_a_run_under_way_waits_for_its_database_and_new_requests_come_through_when_it_is_back(
    tmp_path: Path, cut: Cut
) -> None:
    folder = Folder(tmp_path, call("wait"), "over", "hello")
    with replicas(folder, cut.url, 1, "--database-patience", "0.5") as (server,), ThreadPoolExecutor() as threads:
        until_ready(server, 200)
        under_way = threads.submit(ask, server, "/v1/responses", {"input": "go"})
        folder.until("waiting")
        cut.cut()
        until_ready(server, 503)
        (folder.path / "go on").touch()  # its tool ends, and its barrier waits
        refused = ask(server, *NEW_REQUESTS[0])
        cut.mend()
        until_ready(server, 200)
        through = ask(server, *NEW_REQUESTS[0])
        finished = under_way.result()

    assert refused.status == 503
    assert (finished.status, json.loads(finished.body)["status"]) == (200, "completed")
    assert through.status == 200

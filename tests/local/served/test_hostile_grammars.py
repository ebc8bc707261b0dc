"""Requests that ask too much of the local engine, beside one that does not: refused by name, unseen by other owners."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2 as httpx
import pytest
from tests.local.hostile import ENDLESS, HOSTILE
from tests.local.served.local_server import NEEDS_THE_MODEL, LocalServer, ends
from tests.timeouts import TIMEOUT

pytestmark = NEEDS_THE_MODEL

HI: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    served = LocalServer(tmp_path_factory.mktemp("local"))
    yield served
    served.close()


def post(served: LocalServer, path: str, body: Any) -> httpx.Response:
    return httpx.post(f"{served.url}{path}", json=body, timeout=TIMEOUT)


@pytest.mark.parametrize("stream", [False, True])
def test_each_door_refuses_it_in_its_own_words(served: LocalServer, stream: bool) -> None:
    tool: dict[str, Any] = {"name": "count", "strict": True}
    chat = {**HI, "tools": [{"type": "function", "function": {**tool, "parameters": ENDLESS}}]}
    responses = {"input": "Hi", "tools": [{"type": "function", **tool, "parameters": ENDLESS}]}
    messages = {**HI, "model": "default", "tools": [{**tool, "input_schema": ENDLESS}]}
    said = "`tools: count`: `maxItems` is 1000000000; a local model takes at most 10000"

    answers = [
        post(served, path, {**body, "stream": stream})
        for path, body in {
            "/v1/chat/completions": chat,
            "/v1/responses": responses,
            "/v1/messages": messages,
        }.items()
    ]

    assert [answer.status_code for answer in answers] == [400, 400, 400]
    assert [answer.json()["error"]["message"] for answer in answers] == [said, said, said]
    assert answers[2].json()["type"] == "error"


def test_another_client_gets_its_answers_and_memory_stays_within_bounds(served: LocalServer) -> None:
    engine = served.engine
    most = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.05):
            most = max(most, served.memory())

    watching = threading.Thread(target=watch)
    watching.start()
    with ThreadPoolExecutor(len(HOSTILE)) as pool:
        hostile = [pool.submit(post, served, "/v1/chat/completions", HI | body) for body, _, _ in HOSTILE.values()]
        answers = [served.ask() for _ in range(3)]
        statuses = {name: asked.result().status_code for name, asked in zip(HOSTILE, hostile, strict=True)}
    done.set()
    watching.join()

    # The server itself finds two of them too large to read.
    assert statuses == dict.fromkeys(HOSTILE, 400) | dict.fromkeys(
        ["an enum of 5 MB", "100,000 sequence breakers"], 413
    )
    assert all(answers)
    assert most < 1500
    assert served.engine == engine  # which has seen none of them


def test_it_ends_when_it_is_told_to_whatever_was_asked(tmp_path_factory: pytest.TempPathFactory) -> None:
    served = LocalServer(tmp_path_factory.mktemp("ended"))
    engine = served.engine
    with ThreadPoolExecutor(len(HOSTILE)) as pool:
        for body, _, _ in HOSTILE.values():
            pool.submit(post, served, "/v1/chat/completions", HI | body)
        served.process.terminate()
        assert served.process.wait(TIMEOUT) == 0
    assert ends(engine)
    served.close()

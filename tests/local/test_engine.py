"""The engine under load: cancelled, cut, shared, and left behind."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.local.hostile import ENDLESS, lark_json, rules
from tests.timeouts import TIMEOUT, soon

from ronda.errors import BadRequest, UpstreamError
from ronda.local.calls import Completion, Piece
from ronda.local.engine import Engine
from ronda.local.engine_http import Door
from ronda.local.files import ModelFile
from ronda.local.machine import Sizing

LONG = list(range(1000, 1250))


async def complete(engine: Engine, prompt: list[int], tokens: int, **body: Any) -> tuple[str, Completion]:
    await engine.load()
    said: list[Piece] = []
    async with soon():
        done = await engine.complete({"prompt": prompt, "n_predict": tokens, "temperature": 0, **body}, said.extend)
    return "".join([piece.text for piece in said]), done


async def test_a_cancelled_answer_gives_its_slot_to_the_next(narrow: Engine) -> None:
    await narrow.load()
    began = asyncio.Event()
    body = {"prompt": [1000], "n_predict": 900, "ignore_eos": True}
    endless = asyncio.create_task(narrow.complete(body, lambda _: began.set()))
    async with soon():
        await began.wait()

    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless
    _, done = await complete(narrow, [1001], 2)

    assert done.completion == 2


async def test_a_prompt_is_not_worked_out_to_its_end_for_nobody(narrow: Engine) -> None:
    await narrow.load()
    endless = asyncio.create_task(narrow.complete({"prompt": LONG, "n_predict": 1}, lambda _: None))
    await asyncio.sleep(0)  # it has the slot

    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless
    _, done = await complete(narrow, LONG, 1)

    assert done.cached < len(LONG) - 100


async def test_who_waits_for_a_slot_can_leave_the_queue(narrow: Engine) -> None:
    await narrow.load()
    began = asyncio.Event()
    body = {"prompt": [1000], "n_predict": 900, "ignore_eos": True}
    endless = asyncio.create_task(narrow.complete(body, lambda _: began.set()))
    async with soon():
        await began.wait()
    second = asyncio.create_task(complete(narrow, [1001], 1))
    third = asyncio.create_task(complete(narrow, [1002], 1))
    await asyncio.sleep(0)

    second.cancel()
    endless.cancel()

    _, done = await third
    assert done.completion == 1
    assert second.cancelled()


async def test_the_event_loop_goes_on_while_a_model_decodes(engine: Engine) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    _, done = await complete(engine, [1000], 20, ignore_eos=True)
    ticking.cancel()

    assert ticks > done.completion  # a tick between one token and the next: the worst gap is measured by `make bench`


async def test_what_a_reader_raises_ends_the_answer(engine: Engine) -> None:
    await engine.load()

    def refuse(pieces: list[Piece]) -> None:
        raise KeyError("no")

    with pytest.raises(KeyError):
        await engine.complete({"prompt": [1000], "n_predict": 50, "ignore_eos": True}, refuse)


async def test_a_grammar_binds(engine: Engine) -> None:
    said, done = await complete(engine, [1000, 1001], 12, grammar='%llguidance {}\nstart: "yes" | "no"')

    assert said in ("yes", "no")
    assert done.stop == "stop"


async def test_a_grammar_that_cannot_be_read_is_refused(engine: Engine) -> None:
    with pytest.raises(BadRequest, match="cannot enforce"):
        await complete(engine, [1000], 4, grammar="%llguidance {}\nstart: nowhere")


async def test_what_the_engine_refuses_is_an_error_with_its_words(engine: Engine) -> None:
    with pytest.raises(UpstreamError, match="invalid tokens"):
        await complete(engine, [10**8], 1)


def test_one_engine_serves_one_event_loop_after_the_other(engine: Engine) -> None:
    said = [asyncio.run(complete(engine, [1000], 2))[1].completion for _ in range(2)]

    assert said == [2, 2]


def test_a_process_can_end_in_the_middle_of_an_answer(engine: Engine) -> None:
    """A thread that came back from the engine into a dead interpreter would take the process down with a signal."""
    script = """
        import asyncio
        from ronda.local.engine import Engine
        from ronda.local.files import find_model
        from ronda.local.machine import Sizing

        async def main():
            engine = Engine(find_model("smollm2"), Sizing(1, 512, 512))
            await engine.load()
            began = asyncio.Event()
            body = {"prompt": [1000], "n_predict": 500, "ignore_eos": True}
            task = asyncio.create_task(engine.complete(body, lambda _: began.set()))
            await began.wait()
            print("began", flush=True)

        asyncio.run(main())
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "began\n", "")


async def test_the_engine_writes_the_models_own_template(engine: Engine) -> None:
    await engine.load()

    prompt = await engine.aside(lambda: engine.apply_template({"messages": [{"role": "user", "content": "Hi"}]}))

    assert prompt.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


@pytest.fixture
def short_path() -> Iterator[str]:
    """The name of a socket has room for 108 characters, and pytest's folders are named after user, worker and test."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


def test_a_door_left_by_a_killed_process_is_removed(short_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", short_path)
    left, live, new = [Door() for _ in range(3)]
    for door in (left, live, new):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(door.host)
    for door in (left, live):
        os.utime(door.host, (0, 0))
    os.unlink(live.host)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(live.host)
        listener.listen()
        os.utime(live.host, (0, 0))

        Door()

    assert [Path(door.host).exists() for door in (left, live, new)] == [False, True, True]


@pytest.mark.parametrize("text", [rules(3000), lark_json(ENDLESS)], ids=["crashes it", "eats its memory"])
async def test_a_grammar_that_gets_through_to_the_engine_ends_nothing_but_its_own_request(
    model_file: ModelFile, text: str
) -> None:
    """Past the bounds, as an unknown bomb would be."""
    mortal = Engine(model_file, Sizing(slots=2, context=512, tokens=512, batch=32))
    await mortal.load()
    began = asyncio.Event()
    body = {"prompt": [1000], "n_predict": 150, "ignore_eos": True}
    honest = asyncio.create_task(mortal.complete(body, lambda _: began.set()))
    async with soon():
        await began.wait()

    with pytest.raises(BadRequest, match="broke down"):
        await complete(mortal, [1001], 4, grammar=f"%llguidance {{}}\n{text}")

    async with soon():
        assert (await honest).completion == 150
    assert (await complete(mortal, [1000], 4))[1].completion == 4
    mortal.close()

"""The engine's process dies, hangs and swells: who is told what, and who goes on. No model: a script stands for the engine."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.local import fake_engine
from tests.local.fake_engine import ANSWER, DIE, EAT, SHOW_AND_DIE, SLEEP, SPIN
from tests.local.test_files import gguf
from tests.timeouts import TIMEOUT, soon

from ronda.errors import BadConfig, BadRequest
from ronda.local.calls import Piece
from ronda.local.engine import Engine, EngineDied
from ronda.local.files import ModelFile
from ronda.local.machine import Sizing
from ronda.local.process import EngineProcess, Watch
from ronda.local.supervisor import PAUSE, EngineDown, Supervisor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory and time are watched on Linux")

WATCH = Watch(interval=0.02, memory=64 * 2**20, seconds=0.5, seconds_alone=0.2)
SIZING = Sizing(slots=4, context=512, tokens=512)


@pytest.fixture
def file(tmp_path: Path) -> ModelFile:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf())
    return ModelFile("fake", path)


@pytest.fixture
def command(tmp_path: Path) -> tuple[str, ...]:
    return (sys.executable, str(Path(fake_engine.__file__)), str(tmp_path))


@pytest.fixture
def engine(file: ModelFile, command: tuple[str, ...]) -> Iterator[Engine]:
    engine = Engine(file, SIZING, command=command, watch=WATCH, trial_watch=WATCH)
    yield engine
    engine.close()


async def ask(engine: Engine, *prompt: int, pieces: list[Piece] | None = None, **body: Any) -> str:
    """The answer; `pieces` is what was shown of it."""
    pieces = [] if pieces is None else pieces
    async with soon():
        await engine.complete({"prompt": [*prompt], "n_predict": 8} | body, pieces.extend)
    return "".join([piece.text for piece in pieces])


async def test_a_request_whose_process_died_before_it_said_anything_is_asked_again(engine: Engine) -> None:
    assert await ask(engine, ANSWER, 1) == "hello"


async def test_a_request_of_which_something_was_shown_ends_there(engine: Engine) -> None:
    pieces: list[Piece] = []

    with pytest.raises(EngineDied, match="SIGSEGV"):
        await engine.complete({"prompt": [SHOW_AND_DIE], "n_predict": 8}, pieces.extend)

    assert [piece.text for piece in pieces] == ["hello"]
    assert await ask(engine, ANSWER) == "hello"


async def test_a_request_that_is_the_end_of_the_process_twice_is_not_asked_a_third_time(engine: Engine) -> None:
    with pytest.raises(EngineDied, match="SIGSEGV"):
        await ask(engine, DIE)

    assert await ask(engine, ANSWER) == "hello"


@pytest.mark.parametrize(("what", "why"), [(EAT, "MB of memory"), (SPIN, "said nothing")])
async def test_a_process_that_takes_too_much_is_ended(engine: Engine, what: int, why: str) -> None:
    with pytest.raises(EngineDied, match=why):
        await ask(engine, what)


async def test_a_process_that_only_waits_is_left_alone(engine: Engine) -> None:
    waiting = asyncio.create_task(ask(engine, SLEEP))
    for _ in range(20):
        assert await ask(engine, ANSWER) == "hello"

    assert not waiting.done()
    waiting.cancel()


async def test_a_process_that_is_only_asked_for_tokens_is_left_alone(engine: Engine) -> None:
    """That takes its CPU time, too, and no answer is under way."""
    process = await engine._live()
    tokens = 0
    while process._cpu() < 3 * WATCH.seconds_alone:  # type: ignore[operator]  # known on Linux
        tokens += await engine.aside(lambda: len(engine.tokenize("word " * 20_000)))

    assert tokens > 0
    assert not process.is_over


async def test_a_process_that_reads_the_prompt_of_a_short_answer_for_long_is_left_alone(engine: Engine) -> None:
    """As that of a large model does: it takes longer than a process may work, and says how far it is."""
    process = await engine._live()

    answer = await engine.aside(lambda: engine.answer({"messages": []}))

    assert answer == b"hello"
    assert process._cpu() > WATCH.seconds  # type: ignore[operator]  # known on Linux
    assert not process.is_over


def test_a_large_model_has_time_for_what_the_default_one_does_in_a_second() -> None:
    usual, small, large = Watch(), Watch().at_least(98_000_000, 64), Watch().at_least(4_700_000_000, 64)

    assert small == usual
    assert large.memory == usual.memory
    # Measured of the default model: 64 tokens in 0.6 s of a core. This one has 48 times as much to go through for each.
    assert large.seconds_alone == large.seconds > 3 * 48 * 0.6


async def test_a_process_that_goes_on_for_nobody_is_ended(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    await engine.load()
    process = engine._supervisor.live()
    left = asyncio.create_task(ask(engine, SPIN))
    await asyncio.sleep(0.1)  # long enough to be asked; if it was not, the test is only weaker

    left.cancel()

    async with soon():
        await asyncio.wrap_future(process.ended)
    assert "said nothing" in caplog.text


@pytest.mark.parametrize("word", ["die", "eat", "spin"])
async def test_a_grammar_that_is_the_end_of_the_process_is_refused_from_then_on(engine: Engine, word: str) -> None:
    with pytest.raises(BadRequest, match="broke down"):
        await ask(engine, ANSWER, grammar=f"start: {word}")
    await engine.load()
    process = engine._supervisor.live()

    with pytest.raises(BadRequest, match="broke down"):
        await ask(engine, ANSWER, grammar=f"start: {word}")

    assert not process.is_over
    assert await ask(engine, ANSWER, grammar="start: good") == "hello"


async def test_a_grammar_is_blamed_though_whoever_sent_it_has_left(engine: Engine) -> None:
    left = asyncio.create_task(ask(engine, ANSWER, grammar="start: spin"))
    process = await engine._live(engine._prover)
    assert engine._running_trials

    left.cancel()
    async with soon():
        await asyncio.wait(engine._running_trials)

    assert process.is_over
    with pytest.raises(BadRequest, match="broke down"):
        await ask(engine, ANSWER, grammar="start: spin")


async def test_a_grammar_that_kills_later_is_found_among_those_that_were_under_way(engine: Engine) -> None:
    shown: list[Piece] = []
    answers = await asyncio.gather(
        ask(engine, ANSWER, pieces=shown, grammar="start: innocent"),
        ask(engine, ANSWER, grammar="start: late-die"),
        return_exceptions=True,
    )

    # What was shown when the second was the end of both is not asked for again; what was not, is, and is answered.
    is_cut_off = isinstance(answers[0], EngineDied)
    assert is_cut_off or answers[0] == "hello"
    assert not is_cut_off or shown
    assert isinstance(answers[1], BadRequest)
    assert await ask(engine, ANSWER, grammar="start: innocent") == "hello"


async def test_answers_that_would_fill_the_cache_together_come_one_after_the_other(engine: Engine) -> None:
    await engine.load()
    body: dict[str, Any] = {"n_predict": SIZING.tokens - 100}
    first = asyncio.create_task(ask(engine, SLEEP, **body))
    second = asyncio.create_task(ask(engine, ANSWER, **body))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [waiting.tokens for waiting in engine._room._waiting] == [SIZING.tokens - 99]

    first.cancel()

    async with soon():
        assert await second == "hello"


async def test_others_get_their_answers_while_a_grammar_eats(engine: Engine) -> None:
    process = await engine._live()
    hostile = asyncio.create_task(ask(engine, ANSWER, grammar="start: eat"))

    answers = await asyncio.gather(*[ask(engine, ANSWER) for _ in range(8)])

    assert answers == ["hello"] * 8
    assert not process.is_over
    with pytest.raises(BadRequest):
        await hostile


async def test_questions_are_asked_again_too(engine: Engine) -> None:
    await engine.load()
    pid = engine._supervisor.live()._process
    assert pid is not None

    def dies_first() -> int:
        if pid.poll() is None:
            pid.kill()
            pid.wait()
        return engine.count("abc")

    assert await engine.aside(dies_first) == 3


async def test_a_process_that_dies_again_and_again_is_left_down_for_a_while(
    file: ModelFile, command: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    supervisor = Supervisor(lambda: EngineProcess(file.path, "", SIZING, command=command, watch=WATCH), lambda: now)
    for _ in range(3):
        process = supervisor.live()
        process.ready.result(TIMEOUT)
        assert process._process is not None
        os.kill(process._process.pid, signal.SIGKILL)
        process.ended.result(TIMEOUT)
        process._thread.join(TIMEOUT)

    with pytest.raises(EngineDown, match="30 seconds") as refused:
        supervisor.live()
    assert (refused.value.status_hint, refused.value.retry_after) == (503, PAUSE)
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1
    assert "SIGKILL" in caplog.text

    now += PAUSE
    supervisor.live().ready.result(TIMEOUT)
    supervisor.close()


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        ('{"not_imported": "libgomp.so.1: cannot open shared object file: No such file"}', "apt-get install libgomp1"),
        ('{"not_loaded": "no"}', "cannot load the model file .*model.gguf"),
    ],
)
async def test_why_it_could_not_start_is_said(
    file: ModelFile, command: tuple[str, ...], report: str, sentence: str
) -> None:
    engine = Engine(file, SIZING, command=(*command, report), watch=WATCH)

    with pytest.raises(BadConfig, match=sentence):
        await engine.load()


async def test_a_process_that_ends_while_it_loads_is_an_error_that_says_so(file: ModelFile) -> None:
    command = (sys.executable, "-c", "import sys; sys.stdin.readline(); sys.exit('no such luck')")
    engine = Engine(file, SIZING, command=command, watch=WATCH)

    with pytest.raises(BadConfig, match="exit code 1; it said: no such luck"):
        await engine.load()


def test_one_that_is_ended_on_purpose_is_no_death(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(engine.load())
    process = engine._supervisor.live()
    engine.close()

    assert process.is_over
    assert caplog.records == []
    assert not os.path.exists(process.door.host)

"""A log is the same for all who follow it, from wherever and however fast they read."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.core.events import (
    Event,
    ModelFinished,
    ModelStarted,
    Preview,
    RunFinished,
    RunStarted,
    TextDelta,
    Warned,
)
from ronda.core.parts import AssistantTurn, Text
from ronda.core.plan import Plan
from ronda.errors import BadRequest
from ronda.host import log as module
from ronda.host.log import START, FellBehind, Follower, Log, Logs, Position, read_position, write_position

RUN = RunStarted("run_1", Plan("m"), ())


def _round(at: int, texts: list[str]) -> list[list[Event]]:
    said: list[list[Event]] = [[TextDelta(text)] for text in texts]
    return [[ModelStarted(at)], *said, [ModelFinished(AssistantTurn((Text("".join(texts)),)))]]


rounds = st.lists(st.lists(st.text(max_size=5) | st.just("x" * 5_000), max_size=30), max_size=4)


def batches_of(texts: list[list[str]]) -> list[list[Event]]:
    batches = [batch for at, one in enumerate(texts) for batch in _round(at, one)]
    return [*batches, [Warned("so long"), RunFinished("stop")]]


def drained(follower: Follower) -> list[Event]:
    seen: list[Event] = []
    while events := follower.pull():
        seen += events
    return seen


@given(rounds, st.randoms(use_true_random=False), st.integers(1, 300))
def test_whoever_follows_from_any_position_sees_what_an_uninterrupted_one_sees_from_there(
    texts: list[list[str]], chance: random.Random, most: int
) -> None:
    log = Log(RUN)
    first = log.follow()
    positions: list[Position] = []
    followers: list[tuple[Follower, list[Event]]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PULL_BYTES", most)
        for batch in batches_of(texts):
            log.append(batch)
            for follower, seen in followers:
                if chance.random() < 0.4:
                    seen += follower.pull()
            if positions and chance.random() < 0.3:
                followers.append((log.follow(chance.choice(positions)), []))
            positions.append(first.position)
            first.pull()
        log.close()
        whole = drained(log.follow())
        for follower, seen in followers:
            seen += drained(follower)
            assert follower.is_over

    facts = [event for event in whole if not isinstance(event, Preview)]
    assert whole == [RUN, *[event for batch in batches_of(texts) for event in batch]]
    assert facts == log.facts
    for follower, seen in followers:
        assert seen == whole[len(whole) - len(seen) :]
        assert follower.position == (len(facts) - 1, 0)


@given(rounds)
def test_a_position_names_the_same_event_whoever_follows(texts: list[list[str]]) -> None:
    log = Log(RUN)
    for batch in batches_of(texts):
        log.append(batch)
    log.close()
    whole = drained(log.follow())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PULL_BYTES", 1)  # one event at a time
        stepping = log.follow()
        stepping._cursor.taken -= 1_000_000  # far behind
        for at in range(len(whole)):
            assert stepping.pull() == [whole[at]]
            assert drained(log.follow(stepping.position)) == whole[at + 1 :]


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_position_is_read_as_it_is_written(fact: int, preview: int) -> None:
    assert read_position(write_position((fact, preview)), "after") == (fact, preview)


@pytest.mark.parametrize("text", ["", "x", "1.", ".1", "-1", "1.2.3", "1 2", "١", "9" * 50])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"a position is written as 12 or 12\.345"):
        read_position(text, "after")


async def test_a_follower_is_woken_by_what_happens_and_by_the_end() -> None:
    log = Log(RUN)
    follower = log.follow(START)
    seen: list[Event] = []

    async def read() -> None:
        while not follower.is_over:
            if events := follower.pull():
                seen.extend(events)
            else:
                await follower.wait()

    reading = asyncio.create_task(read())
    for batch in batches_of([["a", "b"]]):
        await asyncio.sleep(0)
        log.append(batch)
    await asyncio.sleep(0)
    log.close()
    await reading

    assert seen == [event for batch in batches_of([["a", "b"]]) for event in batch]


# ---- room ------------------------------------------------------------------------------------------------------------

LONG = TextDelta("x" * 100_000)


def test_there_is_room_while_the_fastest_follower_is_not_far_behind() -> None:
    log = Log(RUN)
    assert all(log.append([LONG]) for _ in range(20))  # without a follower
    slow = log.follow((0, 20))
    fast = log.follow((0, 20))
    for _ in range(30):
        assert log.append([LONG])
        fast.pull()
    fast.close()

    assert not log.append([LONG])
    slow.close()
    assert log.append([LONG])


async def test_who_waits_for_room_goes_on_when_somebody_has_caught_up_or_nobody_is_left() -> None:
    for end in ("pulls", "leaves", "log"):
        log = Log(RUN)
        follower = log.follow(START)
        while log.append([LONG]):
            pass
        waiting = asyncio.create_task(log.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        if end == "pulls":
            follower.pull()
        elif end == "leaves":
            follower.close()
        else:
            log.close()
        await waiting


# ---- what is kept -----------------------------------------------------------------------------------------------------


def _logs(patch: pytest.MonkeyPatch, most: int) -> Logs:
    patch.setattr(module, "KEPT_BYTES", most)
    return Logs()


def test_previews_are_dropped_by_whole_rounds_that_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    log = _logs(monkeypatch, 5 * 100_096).open(RUN)
    for batch in _round(0, ["x" * 100_000] * 3):
        log.append(batch)
    log.append([ModelStarted(1)])
    for _ in range(8):
        log.append([LONG])

    seen = drained(log.follow(START))
    assert [event for event in seen if isinstance(event, Preview)] == [LONG] * 8
    assert [event for event in seen if not isinstance(event, Preview)] == log.facts[1:]


def test_a_follower_in_the_middle_of_what_is_dropped_is_told_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    log = _logs(monkeypatch, 5 * 100_096).open(RUN)
    behind, before, ahead = log.follow(START), log.follow(START), log.follow(START)
    log.append([ModelStarted(0)])
    log.append([LONG])
    behind.pull()
    behind.pull()
    for _ in range(3):
        log.append([LONG])
        drained(ahead)
    log.append([ModelFinished(AssistantTurn(()))])
    log.append([ModelStarted(1)])
    drained(ahead)
    log.append([LONG])
    log.append([LONG])

    with pytest.raises(FellBehind):
        behind.pull()
    assert drained(ahead) == [LONG, LONG]
    assert drained(before) == [*log.facts[1:], LONG, LONG]  # ModelFinished says what it has not seen


def test_the_bytes_of_what_is_gone_count_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = _logs(monkeypatch, 5 * 100_096)
    for at in range(10):
        log = logs.open(RunStarted(f"run_{at}", Plan("m"), ()))
        for batch in batches_of([["x" * 100_000] * 2, ["y"]]):
            log.append(batch)
        log.close(is_broken=at == 4)

    assert not logs.previews("run_6")
    assert {at: len(kept) for at, kept in logs.previews("run_9").items()} == {1: 2, 3: 1}
    for at in range(10):
        logs.forget(f"run_{at}")
    assert logs.size == 0

"""How many at once, with how much context: the same at every start, more where a setting says so."""

from __future__ import annotations

from ronda._cores import count_cores
from ronda.local.gguf import Header
from ronda.local.machine import choose

SMALL = Header("small", "llama", 98 * 10**6, 8192, 23_040, "", {})
SHORT = Header("short", "llama", 98 * 10**6, 2048, 23_040, "", {})


def test_sizes_are_constants_that_fit_into_a_small_machine() -> None:
    sizing = choose(SMALL, 2)

    assert (sizing.slots, sizing.context, sizing.tokens, sizing.cache_mb) == (8, 8192, 8192, 180)


def test_more_is_had_by_asking_for_it() -> None:
    sizing = choose(SMALL, 2, slots=3, context=20_000)

    assert (sizing.slots, sizing.context, sizing.tokens) == (
        3,
        8192,
        19_968,
    )  # no conversation is longer than the model can read


def test_a_conversation_has_no_more_than_the_model_was_made_for() -> None:
    sizing = choose(SHORT, 2)

    assert (sizing.context, sizing.tokens) == (2048, 8192)


def test_the_cache_has_room_for_what_a_cancelled_request_leaves_behind() -> None:
    sizing = choose(SMALL, 2)

    assert sizing.cache >= sizing.tokens + 4 * sizing.batch


def test_what_was_chosen_is_said_in_a_line() -> None:
    line = "smollm2: up to 8 requests at a time, 8192 tokens of context in all (180 MB of cache), 2 threads"

    assert choose(SMALL, 2).line("smollm2") == line


def test_this_machine_has_cores() -> None:
    assert count_cores() >= 1

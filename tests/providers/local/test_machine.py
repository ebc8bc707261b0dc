"""How many at once, with how much context: what a machine of a given size carries."""

from __future__ import annotations

import pytest

from ronda.providers.local.gguf import Header
from ronda.providers.local.machine import choose, count_cores, free_memory

GB = 2**30
SMALL = Header("small", "llama", 98 * 10**6, 8192, 23_040, "", {})
LARGE = Header("large", "qwen2", 4_700 * 10**6, 131_072, 57_344, "", {})


@pytest.mark.parametrize(
    ("header", "cores", "memory", "slots", "context"),
    [
        (SMALL, 2, 22 * GB, 8, 8192),  # all it can use
        (SMALL, 1, 22 * GB, 4, 8192),
        (SMALL, 2, 12 * GB, 8, 4096),  # less context first
        (SMALL, 2, 3 * GB, 2, 4096),  # then fewer slots
        (SMALL, 2, GB // 3, 1, 4096),
        (SMALL, 2, GB // 16, 1, 512),  # and then as little as there is
        (LARGE, 8, 64 * GB, 8, 8192),
        (LARGE, 4, 8 * GB, 2, 4096),
    ],
)
def test_what_fits(header: Header, cores: int, memory: int, slots: int, context: int) -> None:
    sizing = choose(header, cores, memory)

    assert (sizing.slots, sizing.context) == (slots, context)


def test_what_was_chosen_is_said_in_a_line() -> None:
    assert choose(SMALL, 2, 22 * GB).line("smollm2") == "smollm2: 8 slots of 8192 tokens (1440 MB of cache), 2 threads"


def test_this_machine_has_cores_and_memory() -> None:
    assert count_cores() >= 1
    assert free_memory() > 0

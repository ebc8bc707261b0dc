"""How far a run may go, and how often a model call may be tried. Data: who enforces it is elsewhere."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

# What can end a run early, named in the response and in the run's last event.
LimitName: TypeAlias = Literal[
    "max_tool_rounds",
    "max_tool_calls",
    "max_tokens",
    "max_seconds",
    "unknown_tool",
    "unreadable_calls",
    "repeated_call",
]

# Of one answer as it arrives, with everything around its text: more than any model writes at once (128,000 tokens, each in a
# chunk of its own, come to about 30 MB), and little enough for a client that never reads it.
ANSWER_BYTES = 32 * 1024 * 1024

# Characters of a tool's result, some 16,000 tokens: as many as a model may read of a file at a time.
RESULT_CHARS = 65_536
LEAST_RESULT_CHARS = 1_000  # of which half would be the note that says how to read on

SERVER_ROUNDS = 256
MAX_ITERATIONS = 10  # tool rounds of a run of the library: Prompty's figure, by Prompty's name

# A model that asks for tools that are not there, or writes calls that cannot be read, gets this many chances in a row.
UNKNOWN_IN_A_ROW = 3
CUT_IN_A_ROW = 3

# The same call with the same arguments and the same result: the model is told after this many.
REPEATS_BEFORE_TOLD = 3
SERVER_REPEATS = 16


class Limits(Struct, frozen=True, omit_defaults=True):
    """`rounds` counts tool rounds. `seconds` counts the time a run is driven, not the time it waits for people; a question
    stays open for `approval_seconds`. What happens at a limit is `on_limit`: one last answer with tools off, or an error.

    `repeats`: so many identical calls with identical results end a run; None for no number. (The default is that of old journals,
    which leave it out.)

    A tool's result of more than `result_chars` becomes a file, of which the model is shown the beginning and the end; None: it is
    shown all of any result.
    """

    rounds: int = SERVER_ROUNDS
    tool_calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    repeats: int | None = 6
    on_limit: Literal["answer", "error"] = "answer"
    answer_bytes: int = ANSWER_BYTES
    approval_seconds: float | None = None
    result_chars: int | None = RESULT_CHARS


class Retry(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """When a model call fails. Times in seconds.

    The wait before try n+1 is initial_interval × exponent^n with jitter, at most max_interval. A provider's Retry-After wins;
    one longer than max_interval ends the tries, since calling earlier would only fail again.

    All that is for calls that fail before anything was shown. An answer that breaks off after part of it was shown ends the
    run; with `on_interrupt` "again" the model is asked again, as often, and followers see a second attempt begin.
    """

    initial_interval: float = 0.5
    max_interval: float = 60.0
    exponent: float = 2.0
    max_elapsed_time: float | None = None
    retry_connection_errors: bool = True
    tries: int = 3
    on_interrupt: Literal["end", "again"] = "end"

    def __post_init__(self) -> None:
        times = (self.initial_interval, self.max_interval, self.exponent, self.max_elapsed_time or 0.0)
        if self.tries < 1 or not all(0 <= time < 1e9 for time in times):
            raise ValueError("a Retry has at least one try, and times that are neither negative nor infinite")

    def wait(self, failures: int, jitter: float) -> float:
        """Seconds before the next try, after `failures` of them; `jitter` is a random number from 0 to 1."""
        wait = self.initial_interval * self.exponent ** (failures - 1)
        return min(wait * (1 + jitter / 4), self.max_interval)


RETRY = Retry()  # one object: what has the default for its default is not journaled


class Timeouts(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Of a model call, in seconds: to connect, until the answer begins, and between two pieces of it."""

    connect: float = 10.0
    first_byte: float = 600.0
    silence: float = 120.0

"""How much a local model takes: how many requests at once, with how much context among them, in how many threads.

The memory of a local model is mostly its cache: so many bytes for every token, taken when the model is loaded. The sizes are
constants that fit into a small machine; who has more says so (`--slots`, `--context`). `Sizing` says in a line what it came to.
"""

from __future__ import annotations

from msgspec import Struct

from ronda.local.gguf import Header
from ronda.providers import LEAST_CONTEXT

SLOTS = 8  # beyond that two cores only divide the same speed among more
CONTEXT = 8192  # tokens that all slots share: with the default model 186 MB
STEP = 256

# One token at a time, a thread needs this much of the model to be worth waking: with less, two were slower than one
# (135 million weights in 98 MB: 57 tokens a second with one thread, 38 with two; a prompt 109 against 168).
WORTH_A_THREAD = 256 * 2**20


class Sizing(Struct, frozen=True):
    """`tokens` are those that all slots share, `context` the most of them that one conversation may have.

    `batch` prompt tokens are worked on at a time: what a cancellation waits for, and other streams.
    """

    slots: int
    context: int
    tokens: int
    cache_mb: int = 0
    threads: int = 1  # for prompts and for several streams
    threads_alone: int = 1  # for one stream
    batch: int = 64

    @property
    def cache(self) -> int:
        """Tokens the engine has room for. A request that was given up keeps its own for a batch or two, while the next begins."""
        return _round_context(self.tokens + 4 * self.batch + STEP - 1)

    def line(self, name: str) -> str:
        slots = f"up to {self.slots} requests" if self.slots > 1 else "one request"
        return (
            f"{name}: {slots} at a time, {self.tokens} tokens of context in all ({self.cache_mb} MB of cache), "
            f"{_plural(self.threads, 'thread')}"
        )


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def choose(header: Header, cores: int, slots: int | None = None, context: int | None = None) -> Sizing:
    """The same on every machine but for threads and batches: what is free at some moment says little about the next."""
    slots = SLOTS if slots is None else slots
    tokens = _round_context(CONTEXT if context is None else context)
    return Sizing(
        slots=slots,
        context=min(tokens, _round_context(header.context)),
        tokens=tokens,
        cache_mb=tokens * header.cache_bytes // 2**20,
        threads=cores,
        threads_alone=min(cores, -(-header.size // WORTH_A_THREAD)),
        batch=max(64, min(512, 32 * cores)),
    )


def _round_context(tokens: int) -> int:
    """The engine takes a context in steps."""
    return max(LEAST_CONTEXT, tokens // STEP * STEP)

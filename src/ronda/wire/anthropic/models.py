"""A model's name → what that model takes. Facts of autumn 2026 with their source; an unknown name is a new model.

A name without "claude" in it belongs to another vendor's server that speaks this dialect: it gets what all of them understand.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

_NAME: Final = re.compile(
    r"claude-(?:(?P<major>\d)(?:[-.](?P<minor>\d))?(?!\d)-?)?(?P<family>opus|sonnet|haiku|fable|mythos|instant)?"
    r"(?:-(?P<major2>\d)(?!\d)(?:[-.](?P<minor2>\d{1,2})(?!\d))?)?"
)
_NEWEST: Final = (99, 0)


class Model(Struct, frozen=True):
    # Thinking: `adaptive` with an effort from 4.6 on, a budget of tokens before; 4.7 and later refuse a budget. Some think
    # unless told not to, some cannot be told. https://platform.claude.com/docs/en/build-with-claude/thinking
    adaptive: bool = False
    thinks_unasked: bool = False
    always_thinks: bool = False
    hides_thinking: bool = False  # unless asked to show a summary
    xhigh: bool = False  # an effort of that name; before, what is above "high" is "max"
    # `output_config.format` and strict tools: https://platform.claude.com/docs/en/build-with-claude/structured-outputs
    formats: bool = False
    # A conversation that ends with the assistant: "does not support assistant message prefill" from 4.6 on (opencode#14772)
    prefill: bool = True
    # tool_choice any or tool: refused by Fable and Mythos 5.1 (pydantic-ai profiles/anthropic.py)
    forced_choice: bool = True
    # {"role": "system"} behind a user message: https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
    inline_system: bool = False
    # Arguments as they are written, not parameter by parameter:
    # https://platform.claude.com/docs/en/agents-and-tools/tool-use/fine-grained-tool-streaming
    eager_input: bool = False
    max_tokens: int = 4096  # asked for where the request does not say: what every model of its time allows


@lru_cache(maxsize=64)
def facts(name: str) -> Model:
    if "claude" not in name:
        return Model()
    version, family = _version(name)
    is_mythical = family in ("fable", "mythos")
    return Model(
        adaptive=version >= (4, 6),
        thinks_unasked=version >= (5, 0),
        always_thinks=is_mythical or (family == "opus" and version >= (5, 5)),
        hides_thinking=version >= (4, 7),
        xhigh=version >= (4, 7),
        formats=version >= (4, 5) or (family == "opus" and version == (4, 1)),
        prefill=version < (4, 6),
        forced_choice=not (is_mythical and version >= (5, 1)),
        inline_system=is_mythical or version >= (5, 5) or (family == "opus" and version >= (4, 8)),
        eager_input=version >= (4, 5),
        max_tokens=32_000 if version >= (4, 5) else 4096,
    )


def _version(name: str) -> tuple[tuple[int, int], str]:
    found = _NAME.search(name)
    if found is None:
        return _NEWEST, ""
    major, minor = found["major"] or found["major2"], found["minor"] or found["minor2"]
    return (int(major), int(minor or 0)) if major else _NEWEST, found["family"] or ""

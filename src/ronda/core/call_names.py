"""The name that a model wrote in a call → the name of the tool it was offered.

Some models write the namespace of their training before it: `functions.` (GPT), `default_api.` (Gemini), `tools.`. Nothing else
is guessed.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

_PREFIXES: Final = ("functions.", "default_api.", "tools.")


def offered_name(name: str, offered: Container[str]) -> str:
    """For a name that is not offered as it is; the same where no prefix hides one that is."""
    for prefix in _PREFIXES:
        if name.startswith(prefix) and (bare := name.removeprefix(prefix)) in offered:
            return bare
    return name

"""What tools are called over there: names and properties the API takes, and the way back to the tool's own.

And ids of calls: the API wants `^[a-zA-Z0-9_-]+$`, no two the same in a message. Calls from elsewhere are renamed the same
way every time, and so are their results.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ronda.core.plan import ToolSpec
from ronda.wire.codec.json import decode_or, encode
from ronda.wire.upstream.fitting import fitting_id
from ronda.wire.upstream.projection import UNREPORTED, Changes

if TYPE_CHECKING:
    from ronda.schema.lower import LoweredSchema

_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Names(Struct, frozen=True):
    called: dict[str, str] = {}  # the tool's own name → the API's
    own: dict[str, str] = {}
    # By the API's name: tools with properties that are called something else there.
    changed: dict[str, LoweredSchema] = {}

    def wire(self, name: str) -> str:
        """Also of a tool that is not there any more."""
        return self.called.get(name) or _call([name])[name]

    def tool(self, wire: str) -> str:
        return self.own.get(wire, wire)

    def restore(self, wire: str, arguments: str) -> str:
        """Arguments under the tool's own names, where they are not so already."""
        lowered = self.changed.get(wire)
        if lowered is None:
            return arguments
        decoded = decode_or(None, dict, arguments)
        return arguments if decoded is None else encode(lowered.restore(decoded)).decode()


NO_NAMES: Final = Names()


def _call(names: list[str]) -> dict[str, str]:
    """The name of each over there."""
    # For calls of Anthropic's models; a door of its dialect has none.
    from ronda.schema.lower import ANTHROPIC, lower_names

    return lower_names(names, ANTHROPIC)


def names_of(tools: Iterable[ToolSpec]) -> Names:
    from ronda.schema.lower import ANTHROPIC, lower_json

    specs = {tool.name: tool for tool in tools}
    called = _call(list(specs))
    changed = {}
    for name, tool in specs.items():
        schema = lower_json(bytes(tool.parameters), ANTHROPIC)
        if schema.names:
            changed[called[name]] = schema
    return Names(called, {wire: name for name, wire in called.items()}, changed)


class Ids:
    """Ids of the calls of one turn after another, in the order they come."""

    __slots__ = ("_changes", "_open", "_seen")

    def __init__(self, changes: Changes = UNREPORTED) -> None:
        self._changes = changes
        self._seen: set[str] = set()
        self._open: dict[str, list[str]] = {}  # its own id → ours

    def begin(self) -> None:
        """Another turn with calls."""
        self._seen = set()
        self._open = {}

    def keep(self, call_id: str) -> None:
        """A call that goes back as the API gave it."""
        self._seen.add(call_id)
        self._open.setdefault(call_id, []).append(call_id)

    def call(self, call_id: str) -> str:
        made = fitting_id(
            call_id,
            lambda candidate: candidate not in self._seen and _ID.fullmatch(candidate) is not None,
            "toolu_",
            24,
        )
        if made != call_id:
            why = "ids match [a-zA-Z0-9_-] here, 64 at most, and no two are the same in a message"
            self._changes.tell("id_rewritten", f"the id '{call_id}' of a call becomes '{made}'", why)
        self._seen.add(made)
        self._open.setdefault(call_id, []).append(made)
        return made

    def result(self, call_id: str) -> str:
        known = self._open.get(call_id)
        if not known:
            return (
                call_id
                if _ID.fullmatch(call_id)
                else f"toolu_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
            )
        return known.pop(0) if len(known) > 1 else known[0]

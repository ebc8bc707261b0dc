"""What goes out together with a call of the step under way: which trace it is part of.

An extension that traces a run sets it around a model call or a tool call. The code that speaks to a model's server, to an MCP
server or to an address of dispatch sends it along. Nothing else does: a page that is fetched learns nothing of the trace.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final


class Outgoing:
    """A `traceparent` and what vendors add to it, as the W3C has them."""

    __slots__ = ("lines", "members")

    def __init__(self, traceparent: str, tracestate: str = "") -> None:
        self.members = {"traceparent": traceparent, **({"tracestate": tracestate} if tracestate else {})}
        self.lines = "".join([f"{name}: {value}\r\n" for name, value in self.members.items()]).encode(
            "latin-1", "replace"
        )


OUTGOING: Final[ContextVar[Outgoing | None]] = ContextVar("ronda_outgoing", default=None)

"""What a request says of its session: which it continues, how, and what if it is busy. The same on every door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from ronda.core.splice import SessionMode
from ronda.wire.shared.door_request import OnBusy, SessionWish
from ronda.wire.shared.field_table import Field, Reads
from ronda.wire.shared.fields import bad, field

LONGEST_NAME: Final = 256

FIELDS: Final = {
    "session_id": f"read (ours): continues the session of this name, of up to {LONGEST_NAME} printable characters",
    "session_mode": 'read (ours): `"auto"`, `"append"` or `"replace"`; with session_id',
    "on_busy": 'read (ours): `"queue"`, `"reject"` or `"interrupt"`, while another run continues the session; with session_id',
}


def read_session(fields: Mapping[str, Raw]) -> SessionWish | None:
    name: str | None = field(fields, "session_id", str, None)
    if name is None:
        for other in ("session_mode", "on_busy"):
            if other in fields:
                raise bad(other, "is about a session; say which with 'session_id'")
        return None
    if not is_name(name):
        raise bad("session_id", f"must be 1 to {LONGEST_NAME} printable characters")
    mode: SessionMode = field(fields, "session_mode", SessionMode, "auto")
    on_busy: OnBusy = field(fields, "on_busy", OnBusy, "queue")
    return SessionWish(name, mode, on_busy)


_SESSION: Final = Reads(lambda fields, _: read_session(fields))
ROWS: Final = tuple([Field(name, _SESSION, "session", fate) for name, fate in FIELDS.items()])


def is_name(text: str) -> bool:
    return 0 < len(text) <= LONGEST_NAME and text.isprintable()

"""Ids of tool calls as Mistral takes them: nine letters or digits, or it answers 400 with code 3280.

The same id always becomes the same nine characters, so a call and its result agree in every request, and nothing has to be
remembered. Only the wire's copy is changed.
"""

from __future__ import annotations

import re
from typing import Final

from ronda.wire.shared import call_ids

_FITS: Final = re.compile(r"[A-Za-z0-9]{9}")


def nine(call_id: str) -> str:
    """The id as it is if it fits, else nine characters of its hash."""
    if _FITS.fullmatch(call_id):
        return call_id
    return call_ids.nine(call_id)


def wire_ids(ids: list[str]) -> list[str]:
    """The ids of one turn, no two the same: a history from elsewhere may have blank ones, or one twice."""
    found: list[str] = []
    for index, call_id in enumerate(ids):
        fitting = nine(call_id) if call_id else nine(f"#{index}")
        while fitting in found:
            fitting = nine(f"{call_id}#{index}#{fitting}")
        found.append(fitting)
    return found


def made_up_id(run: str, round_index: int, index: int) -> str:
    """For a call that came without one (Mistral's SDKs say "null"). Derived: a replay must name it the same way."""
    return nine(f"{run} {round_index} {index}")

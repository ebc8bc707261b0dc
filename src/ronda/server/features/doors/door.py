"""What the doors of every server have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ronda.server.features.contract import Feature

if TYPE_CHECKING:
    from ronda.server.http.operations import Operation


class Door(Feature):
    is_door = True


def vendor_operations(name: str) -> Mapping[str, Operation]:
    """What the addresses of a vendor's dialect take and answer."""
    from ronda.server.doors import vendor_operations  # few ask for the document

    found: Mapping[str, Operation] = getattr(vendor_operations, name)
    return found

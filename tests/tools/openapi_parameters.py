"""What the tests of operations share."""

from __future__ import annotations

from typing import Any


def parameter(name: str, where: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": where, "schema": {"type": "string"}, **more}

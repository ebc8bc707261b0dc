"""What the tests of lowering share: every provider, and a tool's schema."""

from __future__ import annotations

from typing import Any

import pytest

from ronda.schema.lower import RULES

Json = Any
EVERY_PROVIDER = pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.provider)


def tool(**properties: Json) -> dict[str, Json]:
    return {"type": "object", "properties": properties}


def closed(**properties: Json) -> dict[str, Json]:
    return {**tool(**properties), "required": list(properties), "additionalProperties": False}

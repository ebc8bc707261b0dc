"""The front matter as a JSON Schema (draft 2020-12), for editors: what `ronda schema` prints.

It accepts what `load` accepts, written by hand so that its texts help while one types; a test holds the two together. What a
schema cannot say is left to `check`: that no name stands twice, and where references lead. A reference may stand for any
value, null is the same as nothing, and keys that the format does not have are let through, as the specification wants.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, TypeAlias

import msgspec

Schema: TypeAlias = dict[str, Any]


def schema() -> Schema:
    """A new dict each time: it may be changed."""
    text = files("ronda.prompty").joinpath("front_matter.schema.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, Any])

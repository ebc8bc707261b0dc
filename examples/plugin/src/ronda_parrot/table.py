"""Tools of `kind: table`: a table in a prompty file, in which the model looks things up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ronda.errors import ToolFailed


def look_up(tool: Any, arguments: Mapping[str, Any], agent: Any, inputs: Mapping[str, Any]) -> str:
    """Called with the tool as its file declares it, what the model wrote, the file, and its inputs. It may be async."""
    rows: Mapping[str, Any] = tool.options.get("rows", {})
    name = arguments["name"]
    if name not in rows:
        raise ToolFailed(f"there is no {name!r}; there is {', '.join(rows)}")  # the model reads this
    return str(rows[name])


# What the model may write: a JSON Schema.
look_up.parameters = {  # type: ignore[attr-defined]  # functions take attributes
    "type": "object",
    "properties": {"name": {"type": "string", "description": "What to look up."}},
    "required": ["name"],
}

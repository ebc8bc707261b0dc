"""What an answer has to be: a JSON Schema, or a type that msgspec or pydantic can read. What a model is asked for then, and
its answer read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from ronda.core.plan import ResponseFormat
from ronda.errors import BadConfig
from ronda.schema.signature import is_pydantic


def output_format(output: Any) -> ResponseFormat:
    """Raises BadConfig for what is neither a schema nor a type."""
    if isinstance(output, Mapping):
        schema: Mapping[str, Any] = output
        from ronda.schema.validate import check_schema  # much to import, and text needs none of it

        if (problem := check_schema(dict(output))) is not None:
            raise BadConfig(f"output is not a JSON Schema: {problem}")
    elif is_pydantic(output):
        schema = _adapter(output).json_schema()
    else:
        try:
            schema = msgspec.json.schema(output)
        except (TypeError, NameError) as error:
            raise BadConfig(
                f"output is {output!r:.200}; give a JSON Schema, or a type that msgspec or pydantic can read: {error}"
            ) from error
    name = "answer" if isinstance(output, Mapping) else getattr(output, "__name__", "answer")
    return ResponseFormat("json_schema", name, Raw(msgspec.json.encode(schema)))


def read_output(output: Any, text: str) -> Any:
    """An answer as `output` asked for it. Raises `ValueError` where it does not fit."""
    if isinstance(output, Mapping):
        return msgspec.json.decode(text)
    return _adapter(output).validate_json(text) if is_pydantic(output) else msgspec.json.decode(text, type=output)


def _adapter(output: Any) -> Any:
    import pydantic  # the user's: ours does not need it

    return pydantic.TypeAdapter(output)

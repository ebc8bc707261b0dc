"""What a model said → what a caller gets: text, a structured value, or the calls that the caller is to run.

    result_of(turn, structured=…)    the calls of a turn if it has any; else its text, or the JSON in it
    cast(result, type)               the same as an instance of a type

Text that should have been JSON and is not stays text: an answer is worth more than none.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from ronda.core.parts import AssistantTurn
from ronda.errors import BadRequest
from ronda.schema.output import read_as

T = TypeVar("T")


class StructuredResult(dict[str, Any]):
    """A dict that remembers the JSON it was read from, so that `cast` need not write it again."""

    _raw_json: str

    def __init__(self, value: dict[str, Any], raw_json: str) -> None:
        super().__init__(value)
        self._raw_json = raw_json

    def __reduce__(self) -> tuple[object, ...]:
        return (StructuredResult, (dict(self), self._raw_json))


class ModelRefused(BadRequest):
    """The model would not: `Model refused: …`."""

    def __init__(self, text: str) -> None:
        super().__init__(f"Model refused: {text}", code="refused")
        self.refusal = text


def result_of(turn: AssistantTurn, *, structured: bool) -> Any:
    """Calls go first, whatever was said next to them; a refusal is the answer where there is no other."""
    if calls := turn.calls:
        return list(calls)
    text = turn.text or turn.refusal
    return read_structured(text) if structured else text


def read_structured(text: str) -> Any:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    return StructuredResult(value, text) if isinstance(value, dict) else value


def cast(result: Any, wanted: type[T]) -> T:
    """An instance of `type`: a pydantic model, a dataclass, a msgspec Struct, a TypedDict, a plain type.

    Raises `TypeError` where the result does not fit.
    """
    if wanted is str and isinstance(result, str):
        return result  # type: ignore[return-value]  # T is str, as just seen
    text = _json_of(result)
    name = getattr(wanted, "__name__", str(wanted))
    try:
        return read_as(wanted, text)  # type: ignore[no-any-return]  # which is what a type is read to
    except (ValueError, TypeError, RecursionError) as error:
        raise TypeError(f"the result cannot be cast to {name}: {error}") from error


def _json_of(result: Any) -> str:
    if isinstance(result, StructuredResult):
        return result._raw_json
    if isinstance(result, str):
        return result
    try:
        return msgspec.json.encode(result).decode()
    except (TypeError, ValueError) as error:
        raise TypeError(f"a result of type {type(result).__name__} cannot be cast: {error}") from error

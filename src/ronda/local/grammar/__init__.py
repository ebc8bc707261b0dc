"""A JSON Schema → what a decoder enforces: a schema that llguidance follows to the letter, within a number of tokens.

`BoundedSchema` rewrites a schema: what comes out says only what the decoder understands. Whatever is decoded under it is valid
under the original if that `is_exact`; if not, it nearly always is, and is checked anyway. `fit` also bounds it: strings, arrays,
numbers, extra properties and recursion get limits, so that every instance fits in the tokens there are, whatever the model
does. `Unsupported` says why a schema can be neither.

Separators are fixed (", " and ": ", as models were shown): blanks between tokens would be a way to fill the budget with
nothing. Knows no engine: the text of a grammar is `local.markup`'s.
"""

import re
from typing import Any, Final

import msgspec
from msgspec import Raw

from ronda.local.grammar.bounded_schema import BoundedSchema, FittedSchema, TooSmall
from ronda.local.grammar.cost import Cost
from ronda.local.grammar.shapes import Unsupported
from ronda.local.grammar.write import SEPARATORS, schema_of
from ronda.schema.lower_draft import ANNOTATIONS

# Is all that a schema asks for enforced, or does the decoder only come near to some of it?


_APPROACHED: Final = re.compile(
    rb'"(?:oneOf|not|if|contains|propertyNames|uniqueItems|(?:min|max)Properties|patternProperties'
    rb'|depend[A-Za-z]+|unevaluated[A-Za-z]+)"\s*:'
)
_REFERENCE: Final = re.compile(rb'"\$(?:ref|dynamicRef|recursiveRef)"\s*:')
_COMBINING: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf"})
_ASKING_NOTHING: Final = ANNOTATIONS | {"$anchor", "$defs", "$id", "$schema", "definitions"}
_MAX_SIZE: Final = 64 * 1024  # bytes that are looked through: some milliseconds


def is_exact(schema: Raw) -> bool:
    """In doubt (a property may have the name of a keyword), not."""
    text = bytes(schema)
    if _APPROACHED.search(text) is not None:
        return False
    if _REFERENCE.search(text) is None:
        return True
    return len(text) <= _MAX_SIZE and not _has_combination(msgspec.json.decode(text))


def _has_combination(schema: Any) -> bool:
    """Whether a reference, or alternatives, which may be references, stand next to something else that is asked for."""
    todo = [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, list):
            todo += node
        elif isinstance(node, dict):
            combining = node.keys() & _COMBINING
            both = node.get("allOf")
            several = len(combining) > 1 or (isinstance(both, list) and len(both) > 1)
            if combining and (several or node.keys() - _ASKING_NOTHING - combining):
                return True
            todo += node.values()
    return False


__all__ = [
    "SEPARATORS",
    "BoundedSchema",
    "Cost",
    "FittedSchema",
    "TooSmall",
    "Unsupported",
    "is_exact",
    "schema_of",
]

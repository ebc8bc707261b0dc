"""Is all that a schema asks for enforced, or does the decoder only come near to some of it?

It comes near to words such as `oneOf` and `not`. It also does where a schema that leads back to itself is put together with
another one: the two are only known together, and one of them is enforced.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import Raw

from ronda.schema.lower_draft import ANNOTATIONS

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
    """Whether a reference, or alternatives, which may be references, stand beside something else that is asked for."""
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

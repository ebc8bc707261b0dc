"""A JSON Schema → a shape: everything the schema says, in the forms a decoder can enforce.

Of each keyword it is known how to follow it, or how to be on the safe side: what is decoded must be valid, but need not be
everything that is. `uniqueItems` becomes an array of one, a `oneOf` whose branches overlap the part of each that does not.
Where even that is not known, the schema is refused, with the place.

The same reader makes the other kind of shape (`loose`), which admits at least what the schema does: what is under `not`, and
what the other branches of a `oneOf` would take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from ronda.schema.grammar.algebra import Algebra
from ronda.schema.grammar.combined import shape_at
from ronda.schema.grammar.place import Place
from ronda.schema.grammar.shapes import ANYTHING, NEVER, Anything, Object, Ref, Shape, Unsupported

_LOOSE: Final = "loose "  # before the key of a reference that is read that way


class SchemaReader:
    """One document. `expand` gives the shape of a reference that a shape holds."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._nodes: dict[str, tuple[Any, str, str]] = {}  # key → node, base, pointer
        self._shapes: dict[str, Shape] = {}
        self._reading: set[str] = set()
        self._later: dict[str, Callable[[], Shape]] = {}  # combinations with a reference that is still being read
        named = root.get("$schema") if isinstance(root, dict) else None
        # Up to draft 7 a reference stands for itself alone: whatever is said beside it is not there.
        self._alone = isinstance(named, str) and any(f"draft-0{n}" in named for n in "34567")
        self._id_keyword = "id" if isinstance(named, str) and ("draft-04" in named or "draft-03" in named) else "$id"
        self._resources: dict[str, Any] = {"": root}
        self._anchors: dict[tuple[str, str], Any] = {}
        self.algebra = Algebra(self.expand)
        self._base = self._index(root, "")

    def read(self) -> Shape:
        return self.shape(self._root, self._base, "", loose=False)

    def expand(self, key: str) -> Shape:
        if key not in self._shapes:
            if key in self._reading:
                raise Unsupported(f"{self._nodes[key][2]}: a reference that leads to itself")
            self._reading.add(key)
            try:
                self._shapes[key] = self._read(key)
            finally:
                self._reading.remove(key)
        return self._shapes[key]

    def _read(self, key: str) -> Shape:
        if key in self._later:
            return self._later[key]()
        node, base, pointer = self._nodes[key]
        return self.shape(node, base, pointer, loose=key.startswith(_LOOSE))

    def both(self, shape: Shape, reference: Ref, pointer: str, combine: Callable[[], Shape]) -> Shape:
        """A shape and a reference. One that is being read right now is waited for."""
        if isinstance(shape, Anything) or reference.key not in self._reading:
            return combine()
        key = f"{reference.key} at {pointer}"
        self._nodes[key] = (None, "", pointer)
        self._later[key] = combine
        return Ref(key)

    # ---- references ----------------------------------------------------------------------------------------------------

    def _index(self, node: Any, base: str) -> str:
        """Note where `$id` and anchors are. Returns the base of the node itself."""
        own = base
        if isinstance(node, dict):
            name = self._id(node)
            if name is not None:
                address, fragment = urldefrag(_join(base, name))
                if fragment:
                    self._anchors[base, fragment] = node
                if address and address != base:
                    own = address
                    self._resources[own] = node
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(keyword), str):
                    self._anchors[own, node[keyword]] = node
        children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        for child in children:
            self._index(child, own)
        return own

    def _id(self, node: dict[str, Any]) -> str | None:
        if self._alone and "$ref" in node:
            return None
        name = node.get(self._id_keyword)
        return name if isinstance(name, str) else None

    def reference(self, text: Any, base: str, pointer: str, *, loose: bool) -> Shape:
        if not isinstance(text, str):
            raise Unsupported(f"{pointer}: not a reference")
        address, fragment = urldefrag(_join(base, text))
        if (
            address.startswith(("http://json-schema.org/", "https://json-schema.org/"))
            and address not in self._resources
        ):
            return Object() if loose else Object(rest=NEVER)  # any schema; the empty one is one
        resource = self._resources.get(address, self._root if not address else None)
        fragment = unquote(fragment)
        node = self._anchors.get((address, fragment)) if fragment and not fragment.startswith("/") else resource
        if fragment.startswith("/"):
            node = _follow(resource, fragment)
        if node is None:
            raise Unsupported(f'{pointer}: "{text[:80]}" is not in this schema')
        key = f"{_LOOSE if loose else ''}{address}#{fragment}"
        self._nodes.setdefault(key, (node, address, pointer))
        return Ref(key)

    # ---- a schema --------------------------------------------------------------------------------------------------------

    def shape(self, node: Any, base: str, pointer: str, *, loose: bool) -> Shape:
        if isinstance(node, bool):
            return ANYTHING if node else NEVER
        if not isinstance(node, dict):
            raise Unsupported(f"{pointer or '/'}: not a schema")
        if self._alone and "$ref" in node:
            node = {"$ref": node["$ref"]}
        name = self._id(node)
        if name is not None and (address := urldefrag(_join(base, name))[0]) and address in self._resources:
            base = address
        return shape_at(Place(self, node, base, pointer, loose))


def _join(base: str, reference: str) -> str:
    return base + reference if reference.startswith("#") else urljoin(base, reference)  # a URN can be joined too


def _follow(node: Any, fragment: str) -> Any:
    for step in fragment.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(name)
        elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        else:
            return None
    return node

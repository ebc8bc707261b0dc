"""A JSON Schema in its document: where its references lead.

`$id`, anchors and pointers are followed as the drafts say. The shape of a reference is read when somebody looks inside it.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from ronda.schema.grammar.shapes import ANYTHING, Object, Ref, Shape, Unsupported

_STANDARD: Final = ("http://json-schema.org/", "https://json-schema.org/")


class Target:
    """What a reference stands for: a schema, and the address that the references inside it begin from."""

    __slots__ = ("base", "node", "pointer")

    def __init__(self, node: Any, base: str, pointer: str) -> None:
        self.node = node
        self.base = base
        self.pointer = pointer


class Document:
    def __init__(self, root: Any) -> None:
        self._root = root
        named = root.get("$schema") if isinstance(root, dict) else None
        # Up to draft 7 a reference stands for itself alone: whatever is said beside it is not there.
        self.alone = isinstance(named, str) and any(f"draft-0{n}" in named for n in "34567")
        self._id_keyword = "id" if isinstance(named, str) and ("draft-04" in named or "draft-03" in named) else "$id"
        self._resources: dict[str, Any] = {"": root}
        self._anchors: dict[tuple[str, str], Any] = {}
        self._targets: dict[str, Target] = {}
        self._index()

    def _index(self) -> None:
        """Note where `$id` and anchors are."""
        todo: list[tuple[Any, str]] = [(self._root, "")]
        while todo:
            node, base = todo.pop()
            if isinstance(node, dict):
                base = self._index_names(node, base)
            children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
            todo += [(child, base) for child in children if isinstance(child, (dict, list))]

    def _index_names(self, node: dict[str, Any], base: str) -> str:
        name = self._id(node)
        if name is not None:
            address, fragment = urldefrag(_join(base, name))
            if fragment:
                self._anchors[base, fragment] = node
            if address and address != base:
                base = address
                self._resources[base] = node
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(keyword), str):
                self._anchors[base, node[keyword]] = node
        return base

    def _id(self, node: dict[str, Any]) -> str | None:
        if self.alone and "$ref" in node:
            return None
        name = node.get(self._id_keyword)
        return name if isinstance(name, str) else None

    def base_of(self, node: dict[str, Any], base: str) -> str:
        """The address that the references inside a schema begin from."""
        name = self._id(node)
        if name is not None and (address := urldefrag(_join(base, name))[0]) and address in self._resources:
            return address
        return base

    def reference(self, text: Any, base: str, pointer: str) -> Shape:
        if not isinstance(text, str):
            raise Unsupported("not a reference", pointer)
        address, fragment = urldefrag(_join(base, text))
        if address.startswith(_STANDARD) and address not in self._resources:
            return Object()  # any schema
        resource = self._resources.get(address, self._root if not address else None)
        fragment = unquote(fragment)
        node = self._anchors.get((address, fragment)) if fragment and not fragment.startswith("/") else resource
        if fragment.startswith("/"):
            node = _follow(resource, fragment)
        if node is None:
            raise Unsupported(f'"{text[:80]}" is not in this schema', pointer)
        if node is True:
            return ANYTHING
        key = f"{address}#{fragment}"
        self._targets.setdefault(key, Target(node, address, pointer))
        return Ref(key)

    def target(self, key: str) -> Target:
        return self._targets[key]


def _join(base: str, reference: str) -> str:
    try:
        return base + reference if reference.startswith("#") else urljoin(base, reference)  # a URN can be joined too
    except ValueError:  # not an address
        return reference


def _follow(node: Any, fragment: str) -> Any:
    for step in fragment.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(name)
        elif isinstance(node, list) and name.isdecimal() and len(name) < 10 and int(name) < len(node):
            node = node[int(name)]
        else:
            return None
    return node

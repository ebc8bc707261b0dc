"""A JSON Schema of draft 2020-12 as a document: what its references lead to, by `$id`, anchor and pointer."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote, urldefrag, urljoin

from ronda.schema.subschemas import Schema, direct, follow

BASE: Final = "http://ronda.invalid/schema"  # a scheme that relative addresses are defined for


class Document:
    def __init__(self, root: Schema) -> None:
        self._resources: dict[str, Schema] = {BASE: root}
        self._anchors: dict[tuple[str, str], Schema] = {}
        self._dynamic: dict[str, int] = {}
        todo = [(root, BASE)]
        while todo:
            node, outside = todo.pop()
            base = self.base(node, outside)
            if base != outside:
                self._resources[base] = node
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(name := node.get(keyword), str):
                    self._anchors[base, name] = node
            if isinstance(name := node.get("$dynamicAnchor"), str):
                self._dynamic[name] = self._dynamic.get(name, 0) + 1
            todo += [(sub, base) for sub in direct(node)]

    def find(self, reference: str, base: str) -> tuple[Schema | bool, str] | None:
        """What a reference leads to, and the base of references in there; None when it leads out of the document."""
        if reference.startswith("#"):  # also below a urn:, which nothing can be joined to
            address, fragment = base, reference[1:]
        else:
            address, fragment = _address(base, reference)
        home = self._resources.get(address)
        if home is None:
            return None
        if fragment and not fragment.startswith("/"):
            target: Schema | bool | None = self._anchors.get((address, unquote(fragment)))
        else:
            target = follow(home, fragment)
        return None if target is None else (target, address)

    def base(self, node: Schema, base: str) -> str:
        """What references in a schema are relative to."""
        name = node.get("$id")
        return _address(base, name)[0] if isinstance(name, str) else base

    def is_plain(self, anchor: str) -> bool:
        """Whether a dynamic reference can only mean one thing."""
        return self._dynamic.get(anchor.lstrip("#"), 0) <= 1 and len(self._resources) == 1


def _address(base: str, reference: str) -> tuple[str, str]:
    """The address that a reference means, and the fragment behind it."""
    try:
        return urldefrag(urljoin(base, reference))
    except ValueError:  # no address at all, so nothing is there
        return reference, ""

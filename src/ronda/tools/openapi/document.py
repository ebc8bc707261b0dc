"""An OpenAPI document, and what its references lead to.

References point inside the document, or into other files if the reader of the document can read those too. They may go round
in circles: nothing here is written out in full, so that a circle is only ever as long as it is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from msgspec import Struct

from ronda.errors import BadConfig

MAX_HOPS: Final = 20  # references to references

Json: TypeAlias = Any
Read: TypeAlias = Callable[
    [str, str], tuple[str, Json]
]  # (a file, the file that names it) → what it is called, what it says


class BadDocument(BadConfig):
    """An OpenAPI document that no tools can be made of."""


class Place(Struct, frozen=True):
    """A value, and the file it stands in, where its own references start. `pointer` is where it was found there."""

    value: Json
    file: str = ""
    pointer: str = ""

    def at(self, key: str) -> Place:
        """What stands under a key; nothing where there is none."""
        value = self.value.get(key) if isinstance(self.value, Mapping) else None
        return Place(value, self.file, f"{self.pointer}/{key.replace('~', '~0').replace('/', '~1')}")

    def items(self) -> list[tuple[str, Place]]:
        if not isinstance(self.value, Mapping):
            return []
        return [(key, self.at(key)) for key in self.value if isinstance(key, str)]

    def each(self) -> list[Place]:
        if not isinstance(self.value, list):
            return []
        return [Place(value, self.file, f"{self.pointer}/{n}") for n, value in enumerate(self.value)]

    def text(self, key: str) -> str:
        value = self.value.get(key) if isinstance(self.value, Mapping) else None
        return value if isinstance(value, str) else ""


class Document:
    """`url` is where it was fetched from; a document that was read from a file has none."""

    def __init__(self, value: Json, *, url: str | None = None, read: Read | None = None) -> None:
        if not isinstance(value, Mapping):
            raise BadDocument("an OpenAPI document is an object")
        version = value.get("openapi")
        if not isinstance(version, str) or not version.startswith("3."):
            text = f"Swagger {value['swagger']}" if "swagger" in value else f"openapi: {version!r}"
            raise BadDocument(f"only OpenAPI 3.0 and 3.1 can be read, and this is {text}; convert it first")
        self.url = url
        self.root = Place(value)
        self.is_old = version.startswith("3.0")  # its schemas are a dialect of their own
        self._read = read
        self._files: dict[str, Json] = {"": value}

    def follow(self, place: Place) -> Place:
        """What stands there, or what the reference there leads to."""
        for _ in range(MAX_HOPS):
            reference = place.value.get("$ref") if isinstance(place.value, Mapping) else None
            if not isinstance(reference, str):
                return place
            place = self.find(reference, place.file)
        raise BadDocument(f"the references at {place.pointer or '/'} go round in a circle")

    def find(self, reference: str, file: str) -> Place:
        """What a reference in a file leads to."""
        where, _, pointer = reference.partition("#")
        if where:
            file = self._open(where, file)
        value = self._files[file]
        for token in pointer.split("/")[1:]:
            key = unquote(token).replace("~1", "/").replace("~0", "~")
            if isinstance(value, Mapping) and key in value:
                value = value[key]
            elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                value = value[int(key)]
            else:
                raise BadDocument(f"the reference {reference[:200]!r} leads nowhere")
        return Place(value, file, pointer)

    def _open(self, where: str, file: str) -> str:
        if self._read is None:
            raise BadDocument(f"the reference {where[:200]!r} leads out of the document, and nothing else is read")
        name, value = self._read(where, file)
        self._files.setdefault(name, value)
        return name

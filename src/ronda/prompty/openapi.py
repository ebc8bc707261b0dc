"""A tool of kind `openapi` → its operations as tools: the document found and read, the connection's address and key put in.

    specification   a path in the allowed folders · an http(s) address · the document itself, where `${file:…}` brought it in
    connection      its endpoint comes before the servers of the document; its key is sent there and nowhere else

A document that was fetched may name only servers of its own origin: others must be named by the file that is run, in its
connection, so that no document from elsewhere decides whom this machine calls.
"""

from __future__ import annotations

import asyncio
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec
import yarl

from ronda.drive import Tool
from ronda.prompty.connections import endpoint_of, grant_of, key_of, resolve_connection
from ronda.prompty.errors import BadPrompty
from ronda.prompty.model import Connection, Host, OpenApiTool, Prompty
from ronda.prompty.references import MAX_FILE, Roots, decode_text
from ronda.prompty.tool_specs import without_bound_parameters
from ronda.prompty.yaml_tree import BadYaml, parse_yaml
from ronda.providers.grants import Grant
from ronda.tools.openapi.auth import Key, check_key, schemes_for
from ronda.tools.openapi.document import BadDocument, Document, Json
from ronda.tools.openapi.fetch import fetch
from ronda.tools.openapi.operations import Operation, read_operations, server_url
from ronda.tools.openapi.tool import OperationTool, origin_of

MAX_OPERATIONS: Final = 128  # no provider takes more tools than that
MAX_FILES: Final = 50  # that one document refers to
KEPT: Final = 16  # documents, so that the next run need not read them again
KEPT_SECONDS: Final = 300.0  # of one that was fetched: it does not say when it changes


async def operations_of(declared: OpenApiTool, prompty: Prompty, taken: set[str]) -> list[Tool]:
    """The operations of one tool, under names that are not `taken`. Raises `BadPrompty`."""
    try:
        document, operations = await _find_operations(declared, prompty)
        return _tools(declared, document, _choose_operations(declared, operations), taken)
    except BadDocument as error:
        raise BadPrompty(
            f"the specification of '{declared.name}' cannot be used: {error}",
            path=prompty.path,
            field=f"tools.{declared.name}.specification",
        ) from error


# ---- the document -----------------------------------------------------------------------------------------------------

_Cached = tuple[float, Document, list[Operation]]
_cache: dict[tuple[Any, ...], _Cached] = {}


async def _find_operations(declared: OpenApiTool, prompty: Prompty) -> tuple[Document, list[Operation]]:
    specification, host = declared.specification, prompty.host or Host()
    roots = Roots(Path(prompty.path).parent if prompty.path is not None else None, host.roots, host.files)
    if isinstance(specification, dict):
        document = Document(specification, read=_Files(roots).read)
        return document, read_operations(document)
    if urlsplit(specification).scheme.lower() in ("http", "https"):
        key: tuple[Any, ...] = (specification,)
        if (cached := _cache.get(key)) is not None and cached[0] > time.monotonic():
            return cached[1:]
        data = await fetch(specification)
        made = await asyncio.to_thread(_read_fetched, data, specification)
        return _keep(key, time.monotonic() + KEPT_SECONDS, *made)
    return await asyncio.to_thread(_read_file, specification, roots)


def _keep(
    key: tuple[Any, ...], until: float, document: Document, operations: list[Operation]
) -> tuple[Document, list[Operation]]:
    while len(_cache) >= KEPT:
        _cache.pop(next(iter(_cache)), None)
    _cache[key] = (until, document, operations)
    return document, operations


def _read_fetched(data: bytes, url: str) -> tuple[Document, list[Operation]]:
    document = Document(_parse(data, "the document"), url=url)
    return document, read_operations(document)


def _read_file(text: str, roots: Roots) -> tuple[Document, list[Operation]]:
    path = roots.find(text)
    data = roots.files.read(path, MAX_FILE, text)
    key = (path, blake2b(data, digest_size=20).digest(), tuple(roots.allowed))
    if (cached := _cache.get(key)) is not None:
        return cached[1:]
    files = _Files(roots, path)
    document = Document(_parse(data, text), read=files.read)
    made = document, read_operations(document)
    if not files.opened:  # what it refers to may change while it does not
        _keep(key, 0.0, *made)
    return made


class _Files:
    """Other files that a document refers to: in the allowed folders, and not too many."""

    def __init__(self, roots: Roots, document: Path | None = None) -> None:
        self._roots = roots
        self._document = document
        self.opened: dict[str, Json] = {}

    def read(self, reference: str, file: str) -> tuple[str, Json]:
        if urlsplit(reference).scheme:
            raise BadDocument(f"the reference {reference[:200]!r} leads to another place, which is not read")
        home = Path(file) if file else self._document
        beside = str(home.parent / reference) if home is not None else reference
        path = self._roots.find(beside)
        if self._document is not None and path == self._document:
            return "", None
        if str(path) not in self.opened:
            if len(self.opened) >= MAX_FILES:
                raise BadDocument(f"it refers to more than {MAX_FILES} files")
            self.opened[str(path)] = _parse(self._roots.files.read(path, MAX_FILE, reference), reference)
        return str(path), self.opened[str(path)]


def _parse(data: bytes, label: str) -> Json:
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadDocument(f"{label} is not JSON: {error}") from error
    try:
        tree = parse_yaml(decode_text(data, label))
    except BadYaml as error:
        raise BadDocument(f"{label} is not YAML that can be read: {error} (line {error.line})") from error
    # Status codes are written as numbers in most documents; as keys they are text anyway.
    faults = [fault for fault in tree.faults if not fault.is_non_text_key]
    if faults:
        raise BadDocument(f"{label} is not YAML that can be read: {faults[0].message} (line {faults[0].line})")
    return tree.value


# ---- which operations -------------------------------------------------------------------------------------------------


def _choose_operations(declared: OpenApiTool, operations: list[Operation]) -> list[Operation]:
    """All of them, or those that the file allows: by their name or as `GET /path`."""
    if declared.allowed_tools is None:
        if len(operations) > MAX_OPERATIONS:
            raise BadDocument(
                f"it has {len(operations)} operations, more than {MAX_OPERATIONS}; name those to offer in allowedTools"
            )
        if not operations:
            raise BadDocument("it has no operations")
        return operations
    known: dict[str, Operation] = {}
    for one in operations:
        known[one.spec.name] = known[f"{one.method} {one.path}"] = one
    chosen: dict[str, Operation] = {}
    for name in declared.allowed_tools:
        method, _, path = name.partition(" ")
        found = known.get(name) or known.get(f"{method.lower()} {path}")
        if found is None:
            names = ", ".join(one.spec.name for one in operations[:20])
            raise BadDocument(f"allowedTools names '{name}', which is none of its operations: {names}")
        chosen[found.spec.name] = found
    return [one for one in operations if one.spec.name in chosen]


# ---- where they are called, and as whom -------------------------------------------------------------------------------


def _tools(declared: OpenApiTool, document: Document, operations: list[Operation], taken: set[str]) -> list[Tool]:
    connection = resolve_connection(declared.connection) if declared.connection is not None else None
    if connection is not None and not isinstance(connection, Connection):
        raise BadPrompty(f"the connection of '{declared.name}' is a model's provider, which calls no API")
    address = endpoint_of(connection)
    endpoint = _http(address) if address else None
    base = endpoint or _server(document)
    secret = _secret(connection, declared)
    if isinstance(secret, str):
        check_key(secret)
    home = origin_of(base) if base is not None else ""
    taken = set(taken)
    made: list[Tool] = []
    for one in operations:
        server = base if endpoint is not None or one.server is None else _absolute(one.server, document)
        if server is None:
            raise BadDocument("it names no server with a full address; give the connection an endpoint")
        name = _free(one.spec.name, declared.name, taken)
        taken.add(name)
        spec = without_bound_parameters(msgspec.structs.replace(one.spec, name=name), declared.bindings)
        key = Key(secret, home) if secret is not None else None
        schemes = schemes_for(document, one) if key is not None else ()
        made.append(OperationTool(msgspec.structs.replace(one, spec=spec), server, key, schemes))
    return made


def _free(name: str, prefix: str, taken: set[str]) -> str:
    for one in (name, f"{prefix}_{name}"[:64], *(f"{name[:60]}_{n}" for n in range(2, len(taken) + 3))):
        if one not in taken:
            return one
    return name


def _secret(connection: Connection | None, declared: OpenApiTool) -> str | Grant | None:
    if connection is None or connection.kind == "anonymous":
        return None
    return key_of(connection) or grant_of(connection, f"tools.{declared.name}.connection")


def _server(document: Document) -> str | None:
    """The document's first server. None where it names none, or none with a full address."""
    servers = document.root.at("servers").each()
    return _absolute(server_url(servers[0]) if servers else "/", document)


def _absolute(server: str, document: Document) -> str | None:
    if document.url is None:
        return _http(server) if urlsplit(server).scheme else None
    full = _http(urljoin(document.url, server))
    if origin_of(full) != origin_of(document.url):
        raise BadDocument(
            f"it was fetched from {origin_of(document.url)} and names a server at {origin_of(full)}; "
            "if that is right, say so: make it the endpoint of the connection"
        )
    return full


def _http(address: str) -> str:
    try:
        url = yarl.URL(address)
        if url.scheme not in ("http", "https") or not url.host:
            raise ValueError("not http or https")
        origin_of(str(url))
    except ValueError as error:
        raise BadDocument(f"{address[:200]!r} is not an address that can be called: {error}") from error
    if url.user is not None or url.password is not None:
        raise BadDocument("an address with a name and a password in it; put the key into the connection")
    return str(url.with_fragment(None))

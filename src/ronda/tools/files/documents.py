"""Text of documents that are no text themselves: PDF, Word, Excel and HTML, extracted in a sandbox and within limits."""

from __future__ import annotations

import asyncio
import io
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from ronda._extras import install
from ronda.drive.offload import load
from ronda.errors import RondaError
from ronda.sandbox.folders import remove_tree
from ronda.sandbox.policy import NoNetwork, Policy
from ronda.sandbox.temporary import temporary_prefix
from ronda.sandbox.user import User
from ronda.sandbox.workspace import write_input

_KINDS: Final = {"pdf": "pdf", "docx": "docx", "xlsx": "xlsx", "html": "html", "htm": "html"}
_LARGEST: Final = 32 * 1024 * 1024  # bytes of a document that is read
_LONGEST: Final = 8 * 1024 * 1024  # bytes of text that are taken of it
_SECONDS: Final = 30.0
_AT_ONCE: Final = 2
_MOST_KNOWN: Final = 32 * 1024 * 1024  # characters of texts that are remembered
_PACKAGES: Final = {"pdf": ("pypdf",), "xlsx": ("openpyxl", "et_xmlfile")}  # which read it
_ZIP: Final = "packages.zip"
_NEEDS_PACKAGE: Final = 3  # how `document` ends where one is missing


class ExtractedText(Struct, frozen=True):
    """The text, or why there is none."""

    text: str = ""
    problem: str = ""


def is_document(file_format: str) -> bool:
    return file_format in _KINDS


class Documents:
    """`python` is what runs inside; `outside` is the environment from which a named few variables are passed on."""

    def __init__(self, policy: Policy, python: str, outside: Mapping[str, str]) -> None:
        self._policy = replace(
            policy,
            network=NoNetwork(),
            profile="restricted",
            max_memory_mb=min(policy.max_memory_mb, 1024),
            max_cpu_secs=min(policy.max_cpu_secs, int(_SECONDS)),
            max_procs=min(policy.max_procs, 16),
        )
        self._python = python
        self._outside = outside
        self._known: OrderedDict[str, ExtractedText] = OrderedDict()
        self._size = 0
        # A Runner's requests may each have a loop of their own.
        self._rooms: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def extract(
        self, file_id: str, file_format: str, size: int, read: Callable[[], Awaitable[bytes]]
    ) -> ExtractedText:
        """The text of a document. `id` is the same for the same bytes: a text is extracted once while it is remembered."""
        if size > _LARGEST:
            return ExtractedText(problem=f"its text is not extracted: it has more than {_LARGEST} bytes")
        if (known := self._known.get(file_id)) is not None:
            self._known.move_to_end(file_id)
            return known
        async with self._rooms.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_AT_ONCE)):
            try:
                found = await self._run(_KINDS[file_format], await read())
            except (RondaError, OSError) as error:
                return ExtractedText(problem=f"its text cannot be extracted: {error}")
        self._remember(file_id, found)
        return found

    def _remember(self, file_id: str, found: ExtractedText) -> None:
        self._known[file_id] = found
        self._size += len(found.text)
        while self._size > _MOST_KNOWN:
            _, oldest = self._known.popitem(last=False)
            self._size -= len(oldest.text)

    async def _run(self, kind: str, data: bytes) -> ExtractedText:
        await load("ronda.sandbox.box")
        from ronda.sandbox.box import open_sandbox  # only for servers that are sent documents

        # Named as a sandbox's own, so that the next server removes what one that was killed leaves.
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix=temporary_prefix())
        try:
            async with await open_sandbox(self._policy, folder, outside=self._outside, python=self._python) as sandbox:
                name = f"document.{kind}"
                await asyncio.to_thread(write_input, folder, name, data, sandbox.user)
                if packages := _PACKAGES.get(kind):
                    await asyncio.to_thread(_write_packages, folder, packages, sandbox.user)
                argv = [sandbox.interpreter.executable, "-I", "-c", _program(), name, kind, _ZIP]
                finished = await sandbox.run(argv, timeout=_SECONDS, most_output=_LONGEST)
        finally:
            await asyncio.to_thread(remove_tree, folder)
        if finished.ended.code == _NEEDS_PACKAGE:
            package = finished.stderr.text().strip()[:100]
            advice = f"its text cannot be extracted: the server lacks '{package}'; {install('files')} brings it"
            return ExtractedText(problem=advice)
        if finished.ended.why != "exited" or finished.ended.code != 0:
            return ExtractedText(problem="its text cannot be extracted: the file is damaged, or too much work to read")
        return ExtractedText(finished.stdout.text())


def _write_packages(folder: str, names: tuple[str, ...], user: User) -> None:
    write_input(folder, _ZIP, _pack_packages(names), user)


@cache
def _pack_packages(names: tuple[str, ...]) -> bytes:
    """Packages that are Python only, as a zip from which any Python imports them: where they are may be out of reach inside."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            spec = find_spec(name)
            for place in (spec.submodule_search_locations or ()) if spec is not None else ():
                for path in sorted(Path(place).rglob("*.py")):
                    archive.write(path, f"{name}/{path.relative_to(place).as_posix()}")
    return out.getvalue()


@cache
def _program() -> str:
    return Path(__file__).with_name("document.py").read_text(encoding="utf-8")

"""A folder of documents → results, without any network: SQLite's full-text index, ranked by BM25.

Files that were added, changed or removed are noticed at the next search that is a minute after the last look. Hidden files and
links are left alone: a link may lead out of the folder.
"""

from __future__ import annotations

import mimetypes
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ronda.errors import BadConfig
from ronda.tools.fetch.fetcher import FetchedPage
from ronda.tools.fetch.text import HTML, PDF, Text, Unreadable, to_text
from ronda.tools.function import in_thread
from ronda.tools.search.backend import Query, Result, SearchFailed
from ronda.tools.search.rank import words

MAX_FILES: Final = 100_000
MAX_BYTES: Final = 5 * 1024 * 1024  # of one file
MAX_WORDS: Final = 50  # of a query
DESCRIPTION: Final = 200  # characters
LOOK_AGAIN: Final = 60.0  # seconds
SUFFIXES: Final = frozenset(
    {".txt", ".md", ".rst", ".adoc", ".org", ".tex", ".html", ".htm", ".xhtml", ".pdf", ".json", ".csv"}
)

_VERSION: Final = 1  # of the tables below, and of `rank.words`: an index of another version is made anew
_TABLES: Final = """
DROP TABLE IF EXISTS document;
DROP TABLE IF EXISTS word;
CREATE TABLE document (id INTEGER PRIMARY KEY, path TEXT UNIQUE, stamp TEXT, title TEXT, text TEXT);
CREATE VIRTUAL TABLE word USING fts5(title, body, tokenize = "unicode61 remove_diacritics 2");
"""
_FIND: Final = """
SELECT path, document.title, text FROM word JOIN document ON document.id = word.rowid
WHERE word MATCH ? ORDER BY bm25(word, 5.0, 1.0), path LIMIT ?
"""


class FolderBackend:
    """`index` is a file to keep the index in; without one it is in memory. What is cited is `address` and a document's path."""

    finds_pages = False

    def __init__(
        self, folder: Path, *, index: Path | None = None, address: str = "", now: Callable[[], float] = time.monotonic
    ) -> None:
        if not folder.is_dir():
            raise BadConfig(f"the folder to search in, {str(folder)!r}, is not there")
        self._folder = folder
        self._address = address
        self._now = now
        self._looked: float | None = None
        self._lock = threading.Lock()
        self._database = _open(index)
        self._close = weakref.finalize(
            self, self._database.close
        )  # a program's own tools are never told that they are done

    async def search(self, query: Query) -> list[Result]:
        try:
            found: list[Result] = await in_thread(partial(self._search, query))
            return found
        except (sqlite3.Error, OSError) as error:
            raise SearchFailed(f"the folder cannot be searched: {type(error).__name__}") from error

    def close(self) -> None:
        with self._lock:
            self._close()

    def _search(self, query: Query) -> list[Result]:
        wanted = list(dict.fromkeys(words(query.text)))[:MAX_WORDS]
        with self._lock:
            if self._looked is None or self._now() - self._looked >= LOOK_AGAIN:
                self._look()
                self._looked = self._now()
            if not wanted:
                return []
            # Words are letters and digits, so that nothing of a query can be an operator of the index.
            match = " OR ".join(f'"{word}"' for word in wanted)
            rows = self._database.execute(_FIND, (match, query.count)).fetchall()
        return [
            Result(title, " ".join(text[: 2 * DESCRIPTION].split())[:DESCRIPTION], self._address + quote(path), text)
            for path, title, text in rows
        ]

    # ---- the index ----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        known = dict(self._database.execute("SELECT path, stamp FROM document"))
        present: set[str] = set()
        with self._database:  # all of it or nothing
            for path, stamp in _files(self._folder):
                present.add(path)
                if known.get(path) != stamp:
                    self._forget(path)
                    self._add(path, stamp)
            for path in known.keys() - present:
                self._forget(path)

    def _add(self, path: str, stamp: str) -> None:
        try:
            text = _read(self._folder / path)
        except (OSError, Unreadable):  # one that cannot be read is not looked at again until it changes
            text = Text("", "")
        title = text.title or Path(path).name
        row = self._database.execute(
            "INSERT INTO document (path, stamp, title, text) VALUES (?, ?, ?, ?)", (path, stamp, title, text.text)
        )
        self._database.execute(
            "INSERT INTO word (rowid, title, body) VALUES (?, ?, ?)",
            (row.lastrowid, " ".join(words(f"{title} {path}")), " ".join(words(text.text))),
        )

    def _forget(self, path: str) -> None:
        for (key,) in self._database.execute("SELECT id FROM document WHERE path = ?", (path,)).fetchall():
            self._database.execute("DELETE FROM word WHERE rowid = ?", (key,))
            self._database.execute("DELETE FROM document WHERE id = ?", (key,))


def _open(index: Path | None) -> sqlite3.Connection:
    database: sqlite3.Connection | None = None
    try:
        database = sqlite3.connect(index or ":memory:", check_same_thread=False)
        with closing(database.execute("PRAGMA user_version")) as rows:
            version = rows.fetchone()[0]
        if version != _VERSION:
            database.executescript(f"{_TABLES}PRAGMA user_version = {_VERSION};")
    except sqlite3.Error as error:
        if database is not None:
            database.close()
        raise BadConfig(f"the index of the folder, {str(index)!r}, cannot be used: {error}") from error
    return database


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """`(path, stamp)` of every document; the stamp is another one when the file has changed."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if name.startswith(".") or path.suffix.lower() not in SUFFIXES or path.is_symlink():
                continue
            try:
                stat = path.stat()
            except OSError:  # gone meanwhile
                continue
            if stat.st_size > MAX_BYTES:
                continue
            count += 1
            if count > MAX_FILES:
                return
            yield path.relative_to(folder).as_posix(), f"{stat.st_size}-{stat.st_mtime_ns}"


def _read(path: Path) -> Text:
    kind = mimetypes.guess_type(path.name)[0] or "text/plain"
    data = path.read_bytes()[:MAX_BYTES]
    if kind in (*HTML, PDF):
        return to_text(FetchedPage(path.name, data, kind))
    text = data.decode("utf-8-sig", "replace")
    heading = next((line.strip("#= \t") for line in text[:2_000].splitlines() if line.startswith(("# ", "= "))), "")
    return Text(heading[:300], text)

"""Where a run of the library's keeps results that are too long for its model: for the first of them, a `FileStore`.

    result_files=FOLDER              in this folder, laid out as a server's data folder: one may be shared
    journal=SqliteJournal(path)      in the folder path-files: whoever goes on with the run, in any process, reads them there. The
                                     journal of a server has the server's own files beside it
    neither                          in a temporary folder of this process, which goes with it

Not in the journal itself: its events are read whole to go on with a run, and a result that nobody reads on in would be read each
time. Not in a folder of the run's: the next run that is given its messages as `history` may want to read on.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ronda.drive import LongResults
    from ronda.files.file_store import FileStore
    from ronda.journal import Journal

    Place: TypeAlias = str | os.PathLike[str] | FileStore | None


class ResultFiles:
    """Opens them when there is something to keep or to read: most runs have no such result."""

    __slots__ = ("_journal", "_most", "_opened", "_place")

    def __init__(self, place: Place, journal: Journal | None, most: int | None) -> None:
        """`place` is a folder, a `FileStore`, or None. `most` are the characters that the model is shown of a result."""
        self._place = place
        self._journal = journal
        self._most = most
        self._opened: LongResults | None = None

    def __call__(self) -> LongResults:
        if self._opened is None:
            from ronda.tools.files.long_result import LongResultFiles

            self._opened = LongResultFiles(_store(self._place, self._journal), self._most)
        return self._opened


def _store(place: Place, journal: Journal | None) -> FileStore:
    from ronda.files.file_store import FileStore
    from ronda.files.local_files import folder_files, temporary_files

    if isinstance(place, FileStore):
        return place
    if place is None and journal is not None:
        place = _folder_for(journal)
    return temporary_files() if place is None else folder_files(place)


def _folder_for(journal: Journal) -> str | None:
    from ronda.journal.sqlite import SqliteJournal
    from ronda.store.sqlite import MEMORY

    if not isinstance(journal, SqliteJournal) or journal.path == MEMORY:
        return None
    folder, name = os.path.split(journal.path)
    is_servers = name == "journal.db" and os.path.exists(os.path.join(folder, "catalog.db"))
    return folder if is_servers else f"{journal.path}-files"

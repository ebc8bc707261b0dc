"""Edits of a text: each replaces a piece that must be there as it is written → the new text, or which edit failed and why."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from ronda.tools.page.project import check_size
from ronda.tools.page.tool import PageError
from ronda.wire.app_stream.summaries import shorten

MOST_EDITS: Final = 200
_MOST_LINES: Final = 20_000  # that are compared; difflib takes a second for these
_MOST_CANDIDATES: Final = 2_000  # lines that are measured one by one
_MOST_VOTERS: Final = 100
_LINE: Final = 200  # characters of a line that count, and that are shown
_MOST_DIFF: Final = 20_000  # characters


class Edit(Struct, frozen=True):
    old: str
    new: str
    count: int = 1  # how many occurrences, from the first on; negative: all


class EditResult(Struct, frozen=True):
    text: str
    replaced: tuple[int, ...]  # by edit


def read_edits(arguments: dict[str, Any]) -> list[Edit]:
    """`edits`, or where there are none the edit that the call itself is."""
    edits = arguments.get("edits")
    if edits is not None and not isinstance(edits, list):
        raise PageError("edits must be a list", "Invalid edits payload")
    if not edits:
        return [_read_edit(arguments, "")]
    if len(edits) > MOST_EDITS:
        raise PageError(f"edits has {len(edits)} entries; {MOST_EDITS} are allowed", "Invalid edits payload")
    return [_read_edit(edit, f"edits[{index}]: ") for index, edit in enumerate(edits)]


def _read_edit(edit: Any, place: str) -> Edit:
    if not isinstance(edit, dict):
        raise PageError(f"{place}an edit must be an object with old_text and new_text", "Invalid edits payload")
    old, new, count = edit.get("old_text"), edit.get("new_text"), edit.get("count")
    if not isinstance(old, str) or not old:
        raise PageError(f"{place}edit_file requires old_text", "Missing old_text")
    if new is not None and not isinstance(new, str):
        raise PageError(f"{place}new_text must be a text", "Invalid new_text")
    if isinstance(count, float) and count.is_integer():
        count = int(count)
    if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
        raise PageError(f"{place}count must be an integer", "Invalid count")
    if count == 0:
        raise PageError(f"{place}count must not be 0: it is how many are replaced, or -1 for all", "Invalid count")
    return Edit(old, new or "", 1 if count is None else count)


def apply_edits(text: str, edits: Sequence[Edit]) -> EditResult:
    """One after another, each on what the one before has made. Raises PageError, and then nothing was changed."""
    replaced = []
    for index, edit in enumerate(edits):
        found = text.count(edit.old)
        if not found:
            raise _not_found(text, edit, index, len(edits))
        count = found if edit.count < 0 else min(edit.count, found)
        check_size(len(text) + count * (len(edit.new) - len(edit.old)))  # before: a short edit can ask for terabytes
        text = text.replace(edit.old, edit.new, count)
        replaced.append(count)
    return EditResult(text, tuple(replaced))


def _not_found(text: str, edit: Edit, index: int, total: int) -> PageError:
    result: dict[str, Any] = {"old_text": edit.old}
    if total > 1:
        result["edit_index"] = index
        result["note"] = f"None of the {total} edits was applied."
    if (near := nearest(text, edit.old)) is not None:
        result["nearest_match"] = {"line": near[0], "text": near[1]}
    return PageError("old_text not found", result=result, output={"old_text": shorten(edit.old, 160)})


def nearest(text: str, wanted: str) -> tuple[int, str] | None:
    """(line number, lines) of what is most like the wanted piece: where most of its lines are, or the line most like one."""
    lines = [line[:_LINE] for line in text.splitlines()[:_MOST_LINES]]
    filled = [(index, bare) for index, line in enumerate(lines) if (bare := line.strip())]
    wanted_lines = [bare for line in wanted.splitlines() if (bare := line.strip()[:_LINE])]
    if not filled or not wanted_lines:
        return None
    first = _where_most_agree([bare for _, bare in filled], wanted_lines)
    if first is None:
        longest = max(wanted_lines, key=len)
        known = {bare: index for index, (_, bare) in reversed(list(enumerate(filled[:_MOST_CANDIDATES])))}
        close = difflib.get_close_matches(longest, known, 1, 0.4)
        if not close:
            return None
        first = known[close[0]] - wanted_lines.index(longest)
    start = filled[max(0, first)][0]
    end = filled[min(len(filled) - 1, first + len(wanted_lines) - 1)][0]
    return start + 1, shorten("\n".join(lines[start : end + 1]), 1000)


def _where_most_agree(lines: Sequence[str], wanted_lines: Sequence[str]) -> int | None:
    """Each line that is there votes for where the piece would begin by it; None if none is there."""
    places: dict[str, list[int]] = {}
    for index, line in enumerate(wanted_lines[:_MOST_VOTERS]):
        places.setdefault(line, []).append(index)
    votes = Counter(index - place for index, line in enumerate(lines) for place in places.get(line, ()))
    return max(votes, key=lambda first: votes[first]) if votes else None


def unified_diff(path: str, before: str, after: str) -> tuple[str, int | None]:
    """The difference, and the line at which its first hunk begins, None where nothing has changed."""
    if before == after:
        return "", None
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    if max(len(old), len(new)) > _MOST_LINES:
        same = next((index for index, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), 0)
        return f"--- {path}\n+++ {path}\n(too many lines to compare)\n", same + 1
    first: int | None = None
    pieces: list[str] = []
    size = 0
    for line in difflib.unified_diff(old, new, fromfile=path, tofile=path):
        if first is None and line.startswith("@@"):
            first = int(line.split("+")[1].split(",")[0].split(" ")[0])
        size += len(line)
        if size > _MOST_DIFF:
            pieces.append(f"{line[: max(0, _MOST_DIFF - size + len(line))]}\n... (cut)\n")
            break
        pieces.append(line)
    return "".join(pieces), first

"""Names of files, as clients and models write them → names that no file system, shell or page takes for anything else."""

from __future__ import annotations

import re
import unicodedata


def clean_name(name: str) -> str:
    """The last part of a client's file name, made of letters, digits and `._-`; never empty, hidden or a folder's."""
    last = unicodedata.normalize("NFC", name).replace("\\", "/").rstrip("/").rpartition("/")[2]
    cleaned = re.sub(r"[^A-Za-z0-9._-]", "_", last).lstrip(".-")
    stem, dot, extension = cleaned.rpartition(".")
    if len(cleaned) > 200 and dot and len(extension) <= 16:
        cleaned = stem[: 199 - len(extension)] + "." + extension
    return cleaned[:200] or "file"


def clean_names(names: list[str]) -> list[str]:
    """Several at once: those that would be the same get -2, -3 … before their extension."""
    cleaned: list[str] = []
    for name in names:
        first = candidate = clean_name(name)
        stem, dot, extension = first.rpartition(".")
        count = 2
        while candidate.lower() in (other.lower() for other in cleaned):
            candidate = f"{stem}-{count}.{extension}" if dot and stem else f"{first}-{count}"
            count += 1
        cleaned.append(candidate)
    return cleaned

"""A misspelt name → the one that was meant, for error messages."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 60  # characters that are compared: the time it takes grows with their square
_SHORTEST = 3  # of a beginning that may stand for its name
_CLOSE = 0.7  # of difflib's ratio; at its own default of 0.6 '--json' is close to '--vision'


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """A question that names the closest known word; `otherwise`, where none is close."""
    name = closest(word, known)
    return otherwise if name is None else f"did you mean '{name}'?"


def closest(word: str, known: Iterable[str], cutoff: float = _CLOSE) -> str | None:
    """The known word that this one is most like, if there is one."""
    import difflib  # where nothing is wrong, it is not needed

    names = {_plain(name): name for name in known}
    plain = _plain(word[:_LONGEST])
    close = difflib.get_close_matches(plain, names, 1, cutoff)
    if not close and len(plain) >= _SHORTEST:
        close = [name for name in names if name.startswith(plain)]
    return names[close[0]] if close else None


def _plain(name: str) -> str:
    """Capitals, and the dashes of a flag, make no difference."""
    return name.casefold().replace("_", "-").lstrip("-")

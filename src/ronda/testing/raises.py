"""What the suites of this package need of pytest, so that they can be imported without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def raises(error: type[Exception], part: str = "") -> Iterator[None]:
    """`part`: of what the error says."""
    try:
        yield
    except error as raised:
        if part in str(raised):
            return
        raise AssertionError(f"{part!r} is not in {str(raised)!r}") from raised
    raise AssertionError(f"nothing raised {error.__name__}")

"""A test that hangs where nothing can interrupt it: its process says where, and ends.

pytest has a setting for that (`faulthandler_timeout`), which knows nothing of the time that a test is given by its mark: it
would end the tests that take long by right.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Generator
from typing import Final

import pytest

GRACE: Final = 60.0  # seconds that a test whose time is up may take to tidy up


def last_moment(item: pytest.Item) -> float:
    """Seconds after which a test has had its time, which pytest-timeout gives it, and did not end."""
    mark = item.get_closest_marker("timeout")
    given = mark.args[0] if mark is not None and mark.args else item.config.getini("timeout")
    return float(given) + GRACE


class Hanging:
    def __init__(self) -> None:
        self._stderr = os.dup(2)  # what pytest shows, not what it captures from a test

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        faulthandler.dump_traceback_later(last_moment(item), file=self._stderr, exit=True)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

"""One event loop and one socket for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interaction.doors import on_one_loop
from tests.interaction.fixtures import clients_are_closed as clients_are_closed
from tests.interaction.fixtures import door as door
from tests.interaction.fixtures import stream as stream


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    on_one_loop(items, Path(__file__).parent)

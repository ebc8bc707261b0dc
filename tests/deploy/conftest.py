from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.serving import Started


@pytest.fixture
def start(tmp_path: Path) -> Started:
    return Started(tmp_path)

"""The public document of Open Responses, for tests of what is written in its words."""

from __future__ import annotations

import pytest
from tests.conformance.openresponses_schema import OpenResponses
from tests.server import responses_door


@pytest.fixture(scope="session")
def schemas() -> OpenResponses:
    return responses_door.schemas()

"""The table of addresses of a server with the features that every server has."""

from __future__ import annotations

from typing import Final

from ronda.journal.memory import MemoryJournal
from ronda.server.app import Server, create_app
from ronda.server.config import ServerConfig
from ronda.server.http.routing import Routes
from ronda.testing import ScriptedModel

ROUTES: Final[Routes] = create_app(
    Server(ServerConfig(model="script:test"), MemoryJournal(), provider=ScriptedModel())
).routes

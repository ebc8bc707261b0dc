"""Other processes that have this server's data folder or its database open, as far as there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ronda.server.services.peers import Peers
    from ronda.server.services.replicas import Replicas
    from ronda.store.reach import Reach


class OtherProcesses:
    """Each is None until the server has joined them, and stays so where it is alone."""

    __slots__ = ("peers", "reach", "replicas")

    def __init__(self) -> None:
        self.peers: Peers | Replicas | None = None  # of the data folder, or of the database …
        self.replicas: Replicas | None = None  # … the latter
        self.reach: Reach | None = None  # of that database

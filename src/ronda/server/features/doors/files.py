"""Files, links to them, and containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ronda.server.doors.dialects import FILES
from ronda.server.doors.own.containers import ContainersDoor
from ronda.server.doors.own.file_links import FileLinks
from ronda.server.doors.own.files import TIDY_SECONDS, FilesDoor, tidy_files
from ronda.server.features.contract import Chore, Services
from ronda.server.features.doors.door import Door, vendor_operations
from ronda.server.http.routing import Route

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig
    from ronda.server.http.operations import Operation

_FILE = "/v1/files/{id}"
_CONTAINER = "/v1/containers/{id}"
_CONTAINER_FILE = _CONTAINER + "/files/{file_id}"


class Files(Door):
    """Files, links to them, and containers."""

    name = "files"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._sweeps = {"files": services.files.sweep, "containers": services.containers.sweep}
        self._files = FilesDoor(services.files)
        self._links = FileLinks(services.files, services.catalog, services.callers)
        self._containers = ContainersDoor(
            services.containers, services.files, services.supplier, settings.sandbox, settings.max_body
        )

    def operations(self) -> Mapping[str, Operation]:
        return vendor_operations("FILES")

    def chores(self) -> Sequence[Chore]:
        return [
            Chore(f"the tidying of {what}", TIDY_SECONDS, partial(tidy_files, sweep))
            for what, sweep in self._sweeps.items()
        ]

    def routes(self) -> Sequence[Route]:
        files, links, containers = self._files, self._links, self._containers
        return (
            Route("POST", "/v1/files", FILES, files.upload, "write"),
            Route("GET", "/v1/files", FILES, files.list_files, "read"),
            Route("GET", _FILE, FILES, files.get, "read"),
            Route("DELETE", _FILE, FILES, files.delete, "write"),
            Route("GET", f"{_FILE}/content", FILES, files.content, "read"),
            Route("GET", f"{_FILE}/url", FILES, links.create, "read"),
            Route("GET", "/v1/file-links/{token}", FILES, links.content, "public"),
            Route("POST", "/v1/containers", FILES, containers.create, "write"),
            Route("GET", "/v1/containers", FILES, containers.list_containers, "read"),
            Route("GET", _CONTAINER, FILES, containers.get, "read"),
            Route("DELETE", _CONTAINER, FILES, containers.delete, "write"),
            Route("POST", f"{_CONTAINER}/files", FILES, containers.create_file, "write"),
            Route("GET", f"{_CONTAINER}/files", FILES, containers.list_files, "read"),
            Route("GET", _CONTAINER_FILE, FILES, containers.get_file, "read"),
            Route("DELETE", _CONTAINER_FILE, FILES, containers.delete_file, "write"),
            Route("GET", f"{_CONTAINER_FILE}/content", FILES, containers.file_content, "read"),
        )

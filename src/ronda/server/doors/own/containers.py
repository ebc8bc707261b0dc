"""/v1/containers: sessions that code works in, with their files, as OpenAI's clients know them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, assert_never

from starlette.types import ASGIApp

from ronda.core.containers import StoredContainer
from ronda.core.files import StoredFile
from ronda.drive.offload import load
from ronda.errors import BadRequest, NotFound
from ronda.files.file_store import FileFacts, FileStore
from ronda.sandbox.policy import AllowedHosts, FullNetwork, Loopback, Network, NoNetwork, Policy
from ronda.server.doors.own.files import receive_file, send_file
from ronda.server.http.incoming import Incoming, Json, NoContent
from ronda.server.services.container_host import ContainerHost
from ronda.wire.codec.json import encode
from ronda.wire.resources.container_objects import (
    container_object,
    file_object,
    read_file_id,
    read_new,
)
from ronda.wire.resources.pages import page_of_objects

if TYPE_CHECKING:
    from ronda.server.services.supplies import Supplier


class ContainersDoor:
    """`supplier` is called for the first container that is made."""

    def __init__(
        self,
        containers: ContainerHost,
        files: FileStore,
        supplier: Callable[[], Supplier],
        policy: Policy,
        max_body: int,
    ) -> None:
        self._containers = containers
        self._files = files
        self._supplier = supplier
        self._policy = policy
        self._max_body = max_body

    async def create(self, incoming: Incoming) -> ASGIApp:
        wish = await incoming.read(self._max_body, read_new)
        owner = incoming.owner
        for file_id in wish.file_ids:
            try:
                await self._files.find(owner, file_id)  # all of them, before anything is made
            except NotFound as error:
                raise BadRequest(f"Input file `{file_id[:200]}` was not found.", param="file_ids") from error
        await load("ronda.server.services.supplies", "ronda.tools.code.limits")
        skills = await self._supplier().mounts(owner, wish.skills)
        made = await self._containers.create(owner, wish.name, skills, wish.minutes, wish.limits)
        for file_id in wish.file_ids:
            await self._containers.copy(owner, made.session, file_id)
        return Json(encode(self._container_object(made)))

    def _container_object(self, container: StoredContainer) -> dict[str, Any]:
        """With the limits that hold: the operator's, or what its client wants where that is less."""
        from ronda.tools.code.limits import limit_policy  # most servers run no code, and list no containers

        policy = limit_policy(self._policy, container.limits)
        return container_object(container, policy.max_memory_mb, _hosts(policy.network))

    async def list_containers(self, incoming: Incoming) -> ASGIApp:
        found = await self._containers.of(incoming.owner)
        if names := incoming.query.get("name"):
            found = [one for one in found if one.name == names[-1]]
        containers = [self._container_object(one) for one in found]
        return Json(encode(page_of_objects(containers, incoming.query, 100, "a container")))

    async def get(self, incoming: Incoming) -> ASGIApp:
        return Json(encode(self._container_object(await self._containers.find(incoming.owner, incoming.places["id"]))))

    async def delete(self, incoming: Incoming) -> ASGIApp:
        container = await self._containers.find(incoming.owner, incoming.places["id"])
        await self._containers.delete(incoming.owner, container.session)
        return Json(encode({"id": incoming.places["id"], "object": "container.deleted", "deleted": True}))

    async def create_file(self, incoming: Incoming) -> ASGIApp:
        """From a form, or by the id of a file that is kept."""
        owner, container_id = incoming.owner, incoming.places["id"]
        session = (await self._containers.find(owner, container_id)).session
        if (incoming.header(b"content-type") or "").startswith("multipart/"):
            file = await receive_file(self._files, incoming, lambda facts, fields: _facts(facts, session))
        else:
            named = await incoming.read(self._max_body, read_file_id)
            file = await self._containers.copy(owner, session, named)
        return Json(encode(file_object(file, container_id)))

    async def list_files(self, incoming: Incoming) -> ASGIApp:
        owner, container_id = incoming.owner, incoming.places["id"]
        session = (await self._containers.find(owner, container_id)).session
        files = [file_object(file, container_id) for file in await self._containers.files(owner, session)]
        return Json(encode(page_of_objects(files, incoming.query, 100, "a file")))

    async def _file(self, incoming: Incoming) -> StoredFile:
        places = incoming.places
        session = (await self._containers.find(incoming.owner, places["id"])).session
        return await self._containers.file(incoming.owner, session, places["file_id"])

    async def get_file(self, incoming: Incoming) -> ASGIApp:
        return Json(encode(file_object(await self._file(incoming), incoming.places["id"])))

    async def delete_file(self, incoming: Incoming) -> ASGIApp:
        await self._files.delete(incoming.owner, (await self._file(incoming)).id)
        return NoContent()

    async def file_content(self, incoming: Incoming) -> ASGIApp:
        return send_file(self._files, incoming, await self._file(incoming))


def _hosts(network: Network) -> Sequence[str] | None:
    match network:
        case AllowedHosts(hosts=hosts):
            return hosts
        case FullNetwork():
            return None
        case NoNetwork() | Loopback():
            return ()
        case _:
            assert_never(network)


def _facts(facts: FileFacts, session: str) -> FileFacts:
    return FileFacts(facts.name, "user_data", facts.mime_type, session=session)

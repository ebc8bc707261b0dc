"""/v1/containers: sessions that code works in, with their files, as OpenAI's clients know them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never

from starlette.types import ASGIApp

from ronda.core.containers import StoredContainer
from ronda.core.files import StoredFile
from ronda.drive.offload import load
from ronda.errors import BadRequest, NotFound
from ronda.files.file_store import FileFacts
from ronda.sandbox.policy import AllowedHosts, FullNetwork, Loopback, Network, NoNetwork
from ronda.server.doors.own.files import receive_file, send_file
from ronda.server.http.incoming import Incoming, Json, NoContent
from ronda.wire.container_objects import (
    container_object,
    file_object,
    read_file_id,
    read_new,
)
from ronda.wire.json import encode
from ronda.wire.pages import page_of_objects

if TYPE_CHECKING:
    from ronda.server.app import Server


async def create(server: Server, incoming: Incoming) -> ASGIApp:
    wish = await incoming.read(server.config.max_body, read_new)
    owner = incoming.owner
    for id in wish.file_ids:
        try:
            await server.files.find(owner, id)  # all of them, before anything is made
        except NotFound as error:
            raise BadRequest(f"Input file `{id[:200]}` was not found.", param="file_ids") from error
    await load("ronda.server.services.supplies", "ronda.tools.code.limits")
    from ronda.server.services.supplies import mounts  # few servers see a container

    skills = await mounts(server, owner, wish.skills)
    made = await server.containers.create(owner, wish.name, skills, wish.minutes, wish.limits)
    for id in wish.file_ids:
        await server.containers.copy(owner, made.session, id)
    return Json(encode(_container_object(server, made)))


def _container_object(server: Server, container: StoredContainer) -> dict[str, Any]:
    """With the limits that hold: the operator's, or what its client wants where that is less."""
    from ronda.tools.code.limits import limit_policy  # most servers run no code, and list no containers

    policy = limit_policy(server.config.sandbox, container.limits)
    return container_object(container, policy.max_memory_mb, _hosts(policy.network))


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


async def list_containers(server: Server, incoming: Incoming) -> ASGIApp:
    found = await server.containers.of(incoming.owner)
    if names := incoming.query.get("name"):
        found = [one for one in found if one.name == names[-1]]
    containers = [_container_object(server, one) for one in found]
    return Json(encode(page_of_objects(containers, incoming.query, 100, "a container")))


async def get(server: Server, incoming: Incoming) -> ASGIApp:
    return Json(encode(_container_object(server, await server.containers.find(incoming.owner, incoming.places["id"]))))


async def delete(server: Server, incoming: Incoming) -> ASGIApp:
    container = await server.containers.find(incoming.owner, incoming.places["id"])
    await server.containers.delete(incoming.owner, container.session)
    return Json(encode({"id": incoming.places["id"], "object": "container.deleted", "deleted": True}))


async def create_file(server: Server, incoming: Incoming) -> ASGIApp:
    """From a form, or by the id of a file that is kept."""
    owner, id = incoming.owner, incoming.places["id"]
    session = (await server.containers.find(owner, id)).session
    if (incoming.header(b"content-type") or "").startswith("multipart/"):
        file = await receive_file(server, incoming, lambda facts, fields: _facts(facts, session))
    else:
        named = await incoming.read(server.config.max_body, read_file_id)
        file = await server.containers.copy(owner, session, named)
    return Json(encode(file_object(file, id)))


def _facts(facts: FileFacts, session: str) -> FileFacts:
    return FileFacts(facts.name, "user_data", facts.mime_type, session=session)


async def list_files(server: Server, incoming: Incoming) -> ASGIApp:
    owner, id = incoming.owner, incoming.places["id"]
    session = (await server.containers.find(owner, id)).session
    files = [file_object(file, id) for file in await server.containers.files(owner, session)]
    return Json(encode(page_of_objects(files, incoming.query, 100, "a file")))


async def _file(server: Server, incoming: Incoming) -> StoredFile:
    places = incoming.places
    session = (await server.containers.find(incoming.owner, places["id"])).session
    return await server.containers.file(incoming.owner, session, places["file_id"])


async def get_file(server: Server, incoming: Incoming) -> ASGIApp:
    return Json(encode(file_object(await _file(server, incoming), incoming.places["id"])))


async def delete_file(server: Server, incoming: Incoming) -> ASGIApp:
    await server.files.delete(incoming.owner, (await _file(server, incoming)).id)
    return NoContent()


async def file_content(server: Server, incoming: Incoming) -> ASGIApp:
    return send_file(server, incoming, await _file(server, incoming))

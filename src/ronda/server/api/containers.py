"""/v1/containers: sessions that code works in, with their files, as OpenAI's clients know them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never

from starlette.types import ASGIApp

from ronda.core.containers import StoredContainer
from ronda.errors import BadRequest, NotFound
from ronda.files.file_store import FileFacts
from ronda.sandbox.policy import AllowedHosts, FullNetwork, Loopback, Network, NoNetwork
from ronda.server.api.files import FileContent, content_type_of, receive_file
from ronda.server.http.incoming import Done, Incoming, Json
from ronda.wire.container_objects import (
    Listed,
    container_object,
    file_object,
    read_file_id,
    read_new,
    write_page,
)
from ronda.wire.containers import container_id
from ronda.wire.file_kinds import OCTETS
from ronda.wire.json import encode

if TYPE_CHECKING:
    from ronda.server.app import Server


async def create(server: Server, request: Incoming) -> ASGIApp:
    wish = await request.read(server.config.max_body, read_new)
    owner = request.owner
    for id in wish.file_ids:
        try:
            await server.files.find(owner, id)  # all of them, before anything is made
        except NotFound as error:
            raise BadRequest(f"Input file `{id[:200]}` was not found.", param="file_ids") from error
    from ronda.server.resources.supplies import mounts  # few servers see a container

    skills = await mounts(server, owner, wish.skills)
    made = await server.containers.create(owner, wish.name, skills, wish.minutes, wish.limits)
    for id in wish.file_ids:
        await server.containers.copy(owner, made.session, id)
    return Json(encode(_shown(server, made)))


def _shown(server: Server, container: StoredContainer) -> dict[str, Any]:
    """With the limits that hold: the operator's, or what its client wants where that is less."""
    from ronda.tools.code.limits import limited  # most servers run no code, and list no containers

    policy = limited(server.config.sandbox, container.limits)
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


async def list_containers(server: Server, request: Incoming) -> ASGIApp:
    found = await server.containers.of(request.owner)
    if names := request.query.get("name"):
        found = [one for one in found if one.name == names[-1]]
    rows = [Listed(container_id(one.session), _shown(server, one)) for one in found]
    return Json(encode(write_page(rows, request.query)))


async def get(server: Server, request: Incoming) -> ASGIApp:
    return Json(encode(_shown(server, await server.containers.find(request.owner, request.places["id"]))))


async def delete(server: Server, request: Incoming) -> ASGIApp:
    container = await server.containers.find(request.owner, request.places["id"])
    await server.containers.delete(request.owner, container.session)
    return Json(encode({"id": request.places["id"], "object": "container.deleted", "deleted": True}))


async def create_file(server: Server, request: Incoming) -> ASGIApp:
    """From a form, or by the id of a file that is kept."""
    owner, id = request.owner, request.places["id"]
    session = (await server.containers.find(owner, id)).session
    if (request.header(b"content-type") or "").startswith("multipart/"):
        file = await receive_file(server, request, lambda facts, fields: _facts(facts, session))
    else:
        named = await request.read(server.config.max_body, read_file_id)
        file = await server.containers.copy(owner, session, named)
    return Json(encode(file_object(file, id)))


def _facts(facts: FileFacts, session: str) -> FileFacts:
    return FileFacts(facts.name, "user_data", facts.mime_type, session=session)


async def list_files(server: Server, request: Incoming) -> ASGIApp:
    owner, id = request.owner, request.places["id"]
    session = (await server.containers.find(owner, id)).session
    rows = [Listed(file.id, file_object(file, id)) for file in await server.containers.files(owner, session)]
    return Json(encode(write_page(rows, request.query)))


async def get_file(server: Server, request: Incoming) -> ASGIApp:
    places = request.places
    session = (await server.containers.find(request.owner, places["id"])).session
    file = await server.containers.file(request.owner, session, places["file_id"])
    return Json(encode(file_object(file, places["id"])))


async def delete_file(server: Server, request: Incoming) -> ASGIApp:
    places = request.places
    session = (await server.containers.find(request.owner, places["id"])).session
    await server.containers.file(request.owner, session, places["file_id"])
    await server.files.delete(request.owner, places["file_id"])
    return Done()


async def file_content(server: Server, request: Incoming) -> ASGIApp:
    places = request.places
    session = (await server.containers.find(request.owner, places["id"])).session
    file = await server.containers.file(request.owner, session, places["file_id"])
    wants_octets = (request.header(b"accept") or "").strip().lower() == OCTETS
    return FileContent(server.files, file, OCTETS if wants_octets else content_type_of(file))

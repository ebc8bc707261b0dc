"""What the front end asks for besides the socket: /api and /local-assets."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp

from ronda.drive.offload import aside
from ronda.errors import BadRequest, NotFound, RondaError
from ronda.server.http.incoming import Incoming, Json
from ronda.wire.codec.json import UNREADABLE, encode

if TYPE_CHECKING:
    from ronda.server.features.app_stream.state import AppState

EXPORT_NAME: Final = "screenshot-to-code-export.zip"
MAX_BODY: Final = 20 * 1024 * 1024  # of a page that is exported: pictures in it are data URLs


class Unprocessable(BadRequest):
    """In the words of the framework that the front end's own backend is written with."""

    status_hint = 422

    def __init__(self, message: str, entries: list[dict[str, Any]]) -> None:
        super().__init__(message)
        self.details = entries


class ScreenshotFailed(RondaError):
    """A 4xx or a 502 would say more, but the original answers 500 to each (recorded: an address that is no web page's)."""

    status_hint = 500


async def capabilities(state: AppState, incoming: Incoming) -> ASGIApp:
    return Json(encode({"screenshot_preview": await state.services.can_screenshot()}))


async def screenshot(state: AppState, incoming: Incoming) -> ASGIApp:
    """A picture of a page of the web. The key is for a service of the original's: Ronda looks itself, and passes it over."""
    from ronda.tools.page import capture

    body = await _body(incoming, {"url": str, "apiKey": str})
    try:
        picture = await capture(body["url"], state.services)
    except RondaError as error:  # the front end shows it
        raise ScreenshotFailed(str(error)) from error
    return Json(encode({"url": f"data:image/png;base64,{base64.b64encode(picture).decode()}"}))


async def export(state: AppState, incoming: Incoming) -> ASGIApp:
    """A page as a zip, with its pictures."""
    from ronda.tools.page import export_zip

    body = await _body(incoming, {"code": str}, {"baseUrl": str})
    packed = await export_zip(body["code"], state.services, body.get("baseUrl"))
    headers = {"content-disposition": f'attachment; filename="{EXPORT_NAME}"'}
    return Response(packed, media_type="application/zip", headers=headers)


async def library(state: AppState, incoming: Incoming) -> ASGIApp:
    """What a page would load from a CDN (`?url=`), from the copies that are kept here. Nothing is fetched; 204: there is none."""
    found = await aside(state.services.cdn.find, incoming.query.get("url", [""])[-1])
    if found is None:
        return Response(status_code=204)
    # Previews get its bytes in a data: URL. A browser that opens the address itself gets a file, and no page.
    headers = {
        "cache-control": "private, max-age=3600",
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox",
    }
    return Response(found.body, media_type=found.content_type, headers=headers)


async def local_asset(state: AppState, incoming: Incoming) -> ASGIApp:
    picture = await state.services.assets.open(incoming.places["name"])
    if picture is None:
        raise NotFound("Not Found")
    # Its name is the hash of its bytes; whatever it is, no browser takes it for a page.
    headers = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}
    return Response(picture.data, media_type=picture.content_type, headers=headers)


# ---- design systems --------------------------------------------------------------------------------------------------


async def list_design_systems(state: AppState, incoming: Incoming) -> ASGIApp:
    return Json(encode(await state.design_systems.all(incoming.owner)))


async def create_design_system(state: AppState, incoming: Incoming) -> ASGIApp:
    body = await _body(incoming, {"name": str, "content": str})
    made = await state.design_systems.add(incoming.owner, body["name"], body["content"])
    return Json(encode(made))


async def change_design_system(state: AppState, incoming: Incoming) -> ASGIApp:
    body = await _body(incoming, {}, {"name": str, "content": str})
    systems = state.design_systems
    changed = await systems.change(incoming.owner, incoming.places["id"], body.get("name"), body.get("content"))
    return Json(encode(changed))


async def delete_design_system(state: AppState, incoming: Incoming) -> ASGIApp:
    await state.design_systems.delete(incoming.owner, incoming.places["id"])
    return Response(status_code=204)


# ---- bodies ----------------------------------------------------------------------------------------------------------


async def _body(
    incoming: Incoming, required: dict[str, type], optional: dict[str, type] | None = None
) -> dict[str, Any]:
    """The members of a JSON object. What is wrong with them is a 422 with one entry each."""
    try:
        body = await incoming.read(MAX_BODY, msgspec.json.decode)
    except UNREADABLE as error:
        entry = {
            "type": "json_invalid",
            "loc": ["body", 0],
            "msg": "JSON decode error",
            "input": {},
            "ctx": {"error": str(error)},
        }
        raise Unprocessable("the body is not JSON", [entry]) from error
    if not isinstance(body, dict):
        entry = {"type": "dict_type", "loc": ["body"], "msg": "Input should be a valid dictionary", "input": {}}
        raise Unprocessable("the body is not an object", [entry])
    wrong: list[dict[str, Any]] = []
    for name, kind in {**required, **(optional or {})}.items():
        value = body.get(name)
        if name not in body and name in required:
            wrong.append({"type": "missing", "loc": ["body", name], "msg": "Field required", "input": {}})
        elif name in body and not isinstance(value, kind) and not (value is None and name not in required):
            wrong.append(
                {"type": "string_type", "loc": ["body", name], "msg": "Input should be a valid string", "input": None}
            )
    if wrong:
        raise Unprocessable("the body is not what is asked for", wrong)
    return body

"""The table of addresses is what the server answers at, no more and no less."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import ASGIApp
from tests.interaction.doors import Door
from tests.server.every_route import ROUTES
from yarl import URL

from ronda.server.app import App
from ronda.server.doors.dialects import RESPONSES
from ronda.server.features.app_stream.routes import APP
from ronda.server.http.incoming import Incoming, Json
from ronda.server.http.routing import WEBSOCKET, Route, Routes
from ronda.testing import ScriptedModel
from ronda.wire.shared.failures import Failure

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PATHS = sorted({row.path for row in ROUTES.rows if row.method != WEBSOCKET})


def address(path: str, said: str = "x") -> str:
    return re.sub(r"\{[^}]*\}", said, path)


def methods_of(path: str) -> set[str]:
    """Of all rows that an address fits: `/v1/agents/x` may be any agent's."""
    rows = {row.method for row in ROUTES.rows if row.path == path and row.method != WEBSOCKET}
    return rows | ({"HEAD"} if "GET" in rows else set())


async def test_every_address_takes_the_methods_of_its_rows_and_says_so_of_the_others(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        base = served.url.removesuffix("/v1")
        for path in PATHS:
            takes = methods_of(path)
            for method in METHODS:
                async with served.http.request(method, base + address(path)) as answer:
                    is_endless = answer.content_type == "text/event-stream" and answer.status == 200
                    text = "" if is_endless else await answer.text()
                    if method in takes:
                        assert answer.status != 405, (method, path)
                        assert "there is nothing at" not in text, (method, path)
                        continue
                    assert answer.status == 405, (method, path)
                    assert answer.headers["allow"] == ", ".join(sorted(takes))
                    if ROUTES.dialect_of(path) is APP:  # which has words of its own for it
                        assert text == '{"detail":"Method Not Allowed"}'
                    else:
                        assert f"{address(path)} does not take {method}; it takes {answer.headers['allow']}" in text


@pytest.mark.parametrize(
    "path", ["/" * 5000, "/v1/models" + "/" * 5000, "/v1/nothing" + "/" * 5000, "/v1/" + "a/" * 9000]
)
async def test_no_address_is_too_odd_to_be_answered(door: Door, path: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        url = URL(served.url.removesuffix("/v1") + path, encoded=True)
        async with served.http.get(url) as answer:
            assert answer.status in (200, 404), await answer.text()


async def test_what_is_wrong_with_an_address_is_said_in_the_dialect_of_its_rows(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        base = served.url.removesuffix("/v1")
        for path in PATHS:
            async with served.http.request("TRACE", base + address(path)) as answer:
                row = next(row for row in ROUTES.rows if row.path == path)
                failure = ROUTES.find("TRACE", address(path))
                assert isinstance(failure, Failure)
                assert await answer.read() == row.dialect.error(failure)


@pytest.mark.parametrize("path", ["/v1/models/", "/v1/agents/", "/health/"])
async def test_a_slash_at_the_end_of_an_address_changes_nothing(door: Door, path: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        base = served.url.removesuffix("/v1")
        async with (
            served.http.get(base + path, allow_redirects=False) as slashed,
            served.http.get(base + path[:-1]) as plain,
        ):
            assert (slashed.status, await slashed.read()) == (200, await plain.read())


def test_nothing_but_links_pictures_sign_in_pages_and_the_servers_health_is_open_to_everybody() -> None:
    assert [row.path for row in ROUTES.rows if row.scope == "public"] == [
        "/v1/file-links/{token}", "/health", "/ready", "/", "/ui", "/ui/frame",
        "/ui/{path:path}", "/v1/login", "/v1/login", "/v1/logout", "/openapi.json", "/api-doc/openapi.json", "/docs",
        "/local-assets/{name}",
    ]  # fmt: skip


@pytest.mark.parametrize("has_files", [True, False])
async def test_what_needs_a_capability_is_there_where_the_server_has_it(door: Door, has_files: bool) -> None:
    async def list_files(request: Incoming) -> ASGIApp:
        return Json(b"[]")

    row = Route("GET", "/v1/files", RESPONSES, list_files, "read", capability="files")

    async with door.serving(ScriptedModel(), capabilities={"files": []} if has_files else None) as served:
        door.put(App(served.server, Routes([row], RESPONSES)))
        async with served.http.get(f"{served.url}/files") as answer:
            body = await answer.json()

    if has_files:
        assert (answer.status, body) == (200, [])
    else:
        assert (answer.status, body["error"]["code"]) == (404, "capability_missing")


SEGMENT = st.text(st.characters(exclude_characters="/", codec="utf-8"), min_size=1, max_size=20)


@given(row=st.sampled_from(ROUTES.rows), words=st.lists(SEGMENT, min_size=2, max_size=2))
def test_whatever_stands_in_its_places_is_found_again(row: Route, words: list[str]) -> None:
    names = re.findall(r"\{(\w+)", row.path)
    values = dict(zip(names, words, strict=False))
    path = re.sub(r"\{(\w+)[^}]*\}", lambda place: values[place[1]], row.path)

    found = ROUTES.find(row.method, path)

    if any(path == other.path for other in ROUTES.rows) and names:
        return  # a word that another row has written out
    assert found == (row, values)


@given(st.text(max_size=300), st.sampled_from(METHODS))
def test_any_other_address_is_nothing_there(path: str, method: str) -> None:
    found = ROUTES.find(method, f"/{path}")

    if isinstance(found, Failure):
        assert found.status in (404, 405)
        assert ROUTES.dialect_of(path) in [row.dialect for row in ROUTES.rows]

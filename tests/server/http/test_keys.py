"""API keys over HTTP and WebSocket: who is let in, whose things they find, and that no other owner touches anything."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import aiohttp
import anthropic
import openai
import pytest
from mistralai.client import Mistral
from mistralai.client.errors import SDKError
from tests.interaction.doors import Door, Json, Remembering, Served, soon
from tests.server.features.test_openapi import EVERYTHING, server_with_everything
from tests.server.messages_door import asking

from ronda.files.file_store import FileFacts
from ronda.files.skill_store import SkillStore
from ronda.server.doors.dialects import MESSAGES, MISTRAL
from ronda.server.features.app_stream.routes import APP
from ronda.server.http.auth import FRESH_FOR, KeyAuth, Unauthorized
from ronda.server.http.routing import WEBSOCKET, Route
from ronda.store import StoreError
from ronda.store.keys import KeyRow, hash_key, new_key
from ronda.store.memory import MemoryCatalog
from ronda.store.sql import Sql
from ronda.store.values.sessions import NewNode
from ronda.testing import ScriptedModel, says

ROWS: Final = [row for feature in server_with_everything().features.all for row in feature.routes()]
PRIVATE: Final = [row for row in ROWS if row.scope != "public"]
SETTINGS: Final[Json] = {name: value for name, value in EVERYTHING.items() if name != "model"}
SETTINGS["fetch_allow"] = ("127.0.0.1",)  # of notices
BODIES: Final[dict[str, Json]] = {
    "/v1/conversations/{conversation_id}": {"inputs": "mine now"},
    "/v1/conversations/{conversation_id}/restart": {"inputs": "mine now", "from_entry_id": "x"},
    "/v1/agents/{agent_id}": {"name": "mine now"},
    "/v1/runs/{id}": {"kept": True},
    "/v1/runs/{id}/steer": {"text": "mine now"},
    "/v1/skills/{id}": {"default_version": "1"},
    "/v1/runs/{id}/answer": {"id": "q", "decision": "approve"},
}
QUERIES: Final = {
    "/v1/agents/{agent_id}/version": "?version=0",
    "/v1/agents/{agent_id}/aliases": "?alias=live&version=0",
}


def named(row: Route) -> str:
    return f"{row.method} {row.path}"


@dataclass
class Guarded:
    """A server with keys, and things that ann has made."""

    served: Served
    catalog: MemoryCatalog
    model: ScriptedModel
    keys: dict[str, str]  # by what they are: ann's, bob's, a revoked one of ann's
    ids: dict[str, str]

    async def request(self, row: Route, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        path = row.path.replace("{name:path}", "default")
        kind = path.split("/")[2] if path.count("/") > 1 else ""
        for place, made_id in self.ids.items():
            path = path.replace(f"{{{place}}}", made_id)
        path = path.replace("{id:path}", self.ids["sessions"])
        path = path.replace("{id}", self.ids.get(kind, self.ids["run"])) + QUERIES.get(row.path, "")
        url = self.served.url.removesuffix("/v1") + path
        http = self.served.http
        if row.method == WEBSOCKET:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                async with soon(), http.ws_connect(url, headers=headers):
                    pass
            return refused.value.status, dict(refused.value.headers or {}), b""
        body = json.dumps(BODIES.get(row.path, {})).encode() if row.method in ("POST", "PATCH", "PUT") else None
        sent = {"content-type": "application/json", **headers}
        async with soon(), http.request(row.method, url, data=body, headers=sent) as answer:
            said = await answer.read()
            assert not [key for key in self.keys.values() if key.encode() in said + repr(answer.raw_headers).encode()]
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, said

    async def cookie_of_another_page(self) -> dict[str, str]:
        """What a browser that ann is signed in with sends for a page of another origin, where all pages are let in."""
        body, own = {"key": self.keys["ann"]}, {"sec-fetch-site": "same-origin"}
        async with soon(), self.served.http.post(f"{self.served.url}/login", json=body, headers=own) as answer:
            said = await answer.json()
            cookie = answer.headers["set-cookie"].partition(";")[0]
        return {"cookie": cookie, "sec-fetch-site": "cross-site", "x-ronda-csrf": said["csrf"]}

    async def everything(self) -> Any:
        """All that is kept."""
        journal = self.served.server.runs.journal
        assert isinstance(journal, Remembering)
        agents, talks = self.catalog.agents, self.catalog.conversations
        return (
            {run: await journal.read(run) for run in journal.runs},
            [await agents.of(owner) for owner in ("ann", "bob", "")],
            await agents.aliases("ann", self.ids["agent_id"]),
            [await talks.of(owner) for owner in ("ann", "bob", "")],
            await talks.runs("ann", self.ids["conversation_id"]),
            [await self.catalog.files.of(owner, 0.0) for owner in ("ann", "bob", "")],
            [await self.catalog.skills.of(owner) for owner in ("ann", "bob", "")],
            await self.catalog.sessions.page("ann", 10),
            [await self.catalog.read(partial(_rows, table)) for table in ("notice_address", "notice", "schedule")],
            len(self.model.heard),
        )


def _rows(table: str, db: Sql) -> Any:
    return [tuple(row) for row in db.execute(f"SELECT * FROM {table}").fetchall()]


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@asynccontextmanager
async def guarded(door: Door) -> AsyncIterator[Guarded]:
    catalog = MemoryCatalog()
    model = ScriptedModel(says("one"), says("two"))
    async with soon(), door.serving(model, catalog=catalog, **SETTINGS) as served:
        keys = {}
        for kind, owner in (("ann", "ann"), ("bob", "bob"), ("revoked", "ann")):
            keys[kind], row = new_key(owner, 1.0)
            await catalog.keys.add(row)
        await catalog.keys.revoke(row.id, 2.0)
        for kind, scopes, expires in (
            ("expired", (), 2.0),
            ("nowhere", ("door:none",), None),
            ("seer", ("operate",), None),
        ):
            keys[kind], row = new_key("ann", 1.0, scopes, expires)
            await catalog.keys.add(row)

        async def make(path: str, body: Json, status: int = 200) -> Any:
            async with served.http.post(served.url + path, json=body, headers=bearer(keys["ann"])) as answer:
                assert answer.status == status, await answer.read()
                return await answer.json()

        response = await make("/responses", {"model": "default", "input": "hi"})
        talk = await make("/conversations", {"model": "default", "inputs": "hi"})
        agent = await make("/agents", {"model": "default", "name": "a"})
        await catalog.agents.set_alias("ann", agent["id"], "live", 0, 3.0)
        ids = {"agent_id": agent["id"], "conversation_id": talk["conversation_id"], "version": "0"}
        ids |= {"responses": response["id"], "runs": response["id"].replace("resp_", "run_")}
        file = await served.server.files.add("ann", b"x", FileFacts("a.txt"))
        skills: SkillStore = served.server.features.provided(SkillStore)
        skill = await skills.create("ann", {"SKILL.md": b"---\nname: a\ndescription: b\n---\n"})
        ids |= {"files": file.id, "skills": skill.id}
        await catalog.sessions.add("ann", "trip to Rome", NewNode(0, 0, b"[]", 0, 0), 3.0, stood_at=0)
        body = {"cron": "0 9 * * *", "request": {"model": "default", "input": "go"}}
        ids["schedule_id"] = (await make("/schedules", body, 201))["id"]
        ids["address_id"] = (await make("/notices", {"url": "http://127.0.0.1:1/x"}, 201))["id"]
        ids["sessions"] = "trip to Rome"
        ids["run"] = response["id"].removeprefix("resp_")  # as the ids of other doors end
        yield Guarded(served, catalog, model, keys, ids)


def test_only_links_health_pictures_of_pages_sign_in_and_pages_themselves_need_no_key() -> None:
    public = [named(row) for row in ROWS if row.scope == "public"]

    assert public == [
        "GET /v1/file-links/{token}",
        "GET /health",
        "GET /ready",
        "GET /",
        "GET /ui",
        "GET /ui/frame",
        "GET /ui/{path:path}",
        "GET /v1/login",
        "POST /v1/login",
        "POST /v1/logout",
        "GET /v1/oidc/login",
        "GET /v1/oidc/callback",
        "GET /openapi.json",
        "GET /api-doc/openapi.json",
        "GET /docs",
        "GET /local-assets/{name}",
    ]


@pytest.mark.parametrize(
    "kind", ["no key", "bad key", "revoked key", "expired key", "no bearer", "a cookie that another page sends"]
)
async def test_without_a_good_key_every_address_is_a_401_and_nothing_is_touched(door: Door, kind: str) -> None:
    async with guarded(door) as behind:
        headers = {
            "no key": {},
            "bad key": bearer("rk_" + "x" * 43),
            "revoked key": bearer(behind.keys["revoked"]),
            "expired key": bearer(behind.keys["expired"]),
            "no bearer": {"authorization": f"Basic {behind.keys['ann']}"},
            "a cookie that another page sends": await behind.cookie_of_another_page(),
        }[kind]
        before = await behind.everything()
        for row in PRIVATE:
            status, said, body = await behind.request(row, headers)
            assert status == 401, (named(row), body)
            if row.method == WEBSOCKET:
                continue
            assert said["www-authenticate"] == "Bearer"
            assert_said(row, json.loads(body))
        assert await behind.everything() == before


async def test_a_key_without_the_scope_gets_a_403_at_every_address_and_nothing_is_touched(door: Door) -> None:
    async with guarded(door) as behind:
        before = await behind.everything()
        for row in PRIVATE:
            status, _, body = await behind.request(row, bearer(behind.keys["nowhere"]))
            assert (status == 403) is bool(row.dialect.door), (named(row), body)
        for key in ("ann", "seer"):  # what concerns all owners is for keys that are made for it
            for row in [row for row in PRIVATE if row.right == "operate:write" or (row.right and key == "ann")]:
                status, _, body = await behind.request(row, bearer(behind.keys[key]))
                assert (status, json.loads(body)["error"]["code"]) == (403, "scope_missing"), named(row)
        assert await behind.everything() == before
    assert len([row for row in PRIVATE if row.right]) > 3


def assert_said(row: Route, error: Json) -> None:
    """In the words of the client that asks."""
    if row.dialect is MESSAGES:
        assert (error["type"], error["error"]["type"]) == ("error", "authentication_error")
    elif row.dialect is APP:
        assert error["detail"]
    elif row.dialect is MISTRAL:
        assert (error["object"], error["code"]) == ("error", "invalid_api_key")
    else:
        assert error["error"]["code"] == "invalid_api_key"


async def test_with_another_owners_key_nothing_is_found_and_nothing_is_touched(door: Door) -> None:
    async with guarded(door) as behind:
        before = await behind.everything()
        rows = [row for row in PRIVATE if "{" in row.path.replace("{name:path}", "") and row.right is None]
        for row in rows:
            status, _, body = await behind.request(row, bearer(behind.keys["bob"]))
            own_names = row.path.startswith("/v1/sessions/") and row.method in (
                "PUT",
                "DELETE",
            )  # bob's own, of this name
            assert status == 404 or own_names, (named(row), status, body)
        lists = [
            row
            for row in PRIVATE
            if row.method == "GET"
            and "{" not in row.path
            and row.path not in ("/v1/models", "/mcp", "/v1/events")
            and row.right is None
        ]
        for row in lists:
            status, _, body = await behind.request(row, bearer(behind.keys["bob"]))
            assert status in (200, 204), (named(row), body)
            assert not [made_id for made_id in behind.ids.values() if len(made_id) > 1 and made_id.encode() in body], (
                named(row)
            )
        assert await behind.everything() == before
    assert len(rows) > 15
    assert len(lists) > 2


async def test_an_agent_is_a_model_to_its_owner_alone(door: Door) -> None:
    async with guarded(door) as behind:
        url = f"{behind.served.url}/models/{behind.ids['agent_id']}"
        found = {}
        for owner in ("ann", "bob"):
            async with behind.served.http.get(url, headers=bearer(behind.keys[owner])) as answer:
                found[owner] = answer.status

    assert found == {"ann": 200, "bob": 404}


@pytest.mark.parametrize("path", ["/responses", "/responses/compact", "/responses/input_tokens"])
async def test_nobody_goes_on_from_another_owners_response(door: Door, path: str) -> None:
    async with guarded(door) as behind:
        before = await behind.everything()
        body = {"model": "default", "input": "and?", "previous_response_id": behind.ids["responses"]}
        url, headers = behind.served.url + path, bearer(behind.keys["bob"])
        async with behind.served.http.post(url, json=body, headers=headers) as answer:
            assert (answer.status, "not found" in await answer.text()) == (404, True)
        assert await behind.everything() == before


@pytest.mark.parametrize("header", ["Authorization", "authorization lower", "x-api-key"])
async def test_a_key_is_good_under_each_of_its_names(door: Door, header: str) -> None:
    async with guarded(door) as behind:
        key = behind.keys["ann"]
        headers = {
            "Authorization": {"Authorization": f"Bearer {key}"},
            "authorization lower": {"authorization": f"bearer {key}"},
            "x-api-key": {"x-api-key": key},
        }[header]
        url = f"{behind.served.url}/responses/{behind.ids['responses']}"
        async with behind.served.http.get(url, headers=headers) as answer:
            assert answer.status == 200
        async with behind.served.http.get(behind.served.url.removesuffix("/v1") + "/health") as answer:
            assert (answer.status, await answer.text()) == (200, "OK")


async def test_official_clients_say_that_the_key_is_wrong(door: Door) -> None:
    async with guarded(door) as behind:
        with pytest.raises(openai.AuthenticationError, match="not known here"):
            await behind.served.ask(stream=False, key="wrong")
        async with asking(door, "wrong") as client:
            with pytest.raises(anthropic.AuthenticationError, match="not known here"):
                await client.messages.create(
                    model="default", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
                )
        url = behind.served.url.removesuffix("/v1")
        async with Mistral(api_key="wrong", server_url=url, timeout_ms=10_000) as mistral:
            with pytest.raises(SDKError) as refused:
                await mistral.beta.conversations.list_async()
            assert refused.value.status_code == 401


# ---- keys that come and go ---------------------------------------------------------------------------------------------


async def test_another_key_of_the_same_owner_finds_what_the_first_has_made(door: Door) -> None:
    """So that a key can be changed for a new one."""
    async with guarded(door) as behind:
        other, row = new_key("ann", 5.0)
        await behind.catalog.keys.add(row)
        behind.served.server.callers.auth = KeyAuth(behind.catalog.keys)
        url = f"{behind.served.url}/responses/{behind.ids['responses']}"
        async with behind.served.http.get(url, headers=bearer(other)) as answer:
            assert answer.status == 200


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


HEADERS: Final = {b"host": b"x", b"authorization": b"Bearer rk_mine"}


async def test_a_revoked_key_is_refused_after_a_second_at_most() -> None:
    catalog, clock = MemoryCatalog(), Clock()
    auth = KeyAuth(catalog.keys, clock=clock)
    await catalog.keys.add(KeyRow("key_1", "ann", hash_key(b"rk_mine"), 1.0))
    assert await auth.owner(HEADERS) == "ann"
    await catalog.keys.revoke("key_1", 2.0)
    clock.now += FRESH_FOR
    with pytest.raises(Unauthorized, match="revoked"):
        await auth.owner(HEADERS)
    assert FRESH_FOR <= 1.0


async def test_the_first_key_closes_a_server_that_runs() -> None:
    catalog, clock = MemoryCatalog(), Clock()
    auth = KeyAuth(catalog.keys, clock=clock)
    anybody = await auth.owner(HEADERS)
    assert anybody not in ("", "ann")
    assert await auth.owner({b"x-api-key": b"rk_mine"}) == anybody
    assert await auth.owner({b"host": b"x"}) == ""
    await catalog.keys.add(new_key("ann", 1.0)[1])
    clock.now += 1.0
    for headers in (HEADERS, {}):
        with pytest.raises(Unauthorized):
            await auth.owner(headers)


class Counting(MemoryCatalog):
    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.broken = False
        self._all = self.keys.all
        self.keys.all = self.count  # type: ignore[method-assign]  # what is counted

    async def count(self) -> list[KeyRow]:
        self.reads += 1
        if self.broken:
            raise StoreError("catalog.db", "the disk is gone")
        return await self._all()


async def test_keys_are_not_read_for_every_request_however_many_are_wrong() -> None:
    catalog, clock = Counting(), Clock()
    auth = KeyAuth(catalog.keys, clock=clock)
    key, row = new_key("ann", 1.0)
    await catalog.keys.add(row)
    for number in range(50):
        with pytest.raises(ValueError, match="not known"):
            await auth.owner({b"x-api-key": b"%d" % number})
        assert await auth.owner({b"x-api-key": key.encode()}) == "ann"
    assert catalog.reads == 1


async def test_where_the_keys_cannot_be_read_nobody_is_let_in() -> None:
    catalog, clock = Counting(), Clock()
    auth = KeyAuth(catalog.keys, clock=clock)
    key, row = new_key("ann", 1.0)
    await catalog.keys.add(row)
    headers = {b"x-api-key": key.encode()}
    await auth.owner(headers)
    catalog.broken = True
    clock.now += 1.0
    with pytest.raises(StoreError):
        await auth.owner(headers)
    catalog.broken = False
    assert await auth.owner(headers) == "ann"


async def test_a_connection_that_is_refused_is_no_error_in_the_log(
    door: Door, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else any program that can reach the port fills the log."""
    caplog.set_level(logging.ERROR, logger="uvicorn.error")
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "handlers", [caplog.handler])
    async with guarded(door) as behind:
        [row] = [row for row in ROWS if (row.method, row.path) == (WEBSOCKET, "/v1/responses")]
        status, _, _ = await behind.request(row, bearer("rk_wrong"))
        async with behind.served.http.get(f"{behind.served.url}/models") as answer:  # when the first is over
            assert answer.status == 401
    assert (status, [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]) == (401, [])


async def test_a_connection_does_not_outlive_its_key(door: Door) -> None:
    async with guarded(door) as behind:
        behind.served.server.callers.auth = KeyAuth(behind.catalog.keys, fresh_for=0.0)
        url, headers = f"{behind.served.url}/responses", bearer(behind.keys["ann"])
        async with behind.served.http.ws_connect(url, headers=headers) as socket:
            for row in await behind.catalog.keys.all():
                await behind.catalog.keys.revoke(row.id, 9.0)
            await socket.send_str('{"type": "response.create", "model": "default", "input": "hi"}')
            said = json.loads(await socket.receive_str())
        heard = len(behind.model.heard)

    assert (said["type"], said["status"], said["error"]["code"]) == ("error", 401, "invalid_api_key")
    assert heard == 2

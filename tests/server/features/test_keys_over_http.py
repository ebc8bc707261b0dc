"""Keys over HTTP: made, listed, revoked; what is under way with one that is revoked; and who did what for all owners."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.interaction.doors import Door, Json, soon
from tests.server.features.test_scopes import GO, keyed, send
from tests.server.restarts import Folder, call
from tests.server.services.test_replicas import replicas

from ronda import tool
from ronda.server.features.keys.feature import Keys
from ronda.server.http.auth import KeyAuth
from ronda.store.keys import new_key
from ronda.store.memory import MemoryCatalog
from ronda.testing import ScriptedModel, calls, says

OPERATOR = {"operator": ("operate:write",), "seer": ("operate",), "judge": ("decide",)}


async def test_a_key_is_made_shown_once_used_and_revoked(door: Door) -> None:
    async with keyed(door, ScriptedModel(says("x"), says("y")), scopes=OPERATOR) as server:
        wish: Json = {"owner": "bob", "scopes": ["tool:look", "model:*"], "expires_in": 3600}
        status, made = await server.ask("operator", "POST", "keys", wish)
        server.keys["bob"] = made["key"]
        me = await server.ask("bob", "GET", "me")
        used = await server.ask("bob", "POST", "chat/completions", GO)
        auth = server.served.server.auth
        assert isinstance(auth, KeyAuth)
        await auth.write_uses()
        _, listed = await server.ask("operator", "GET", "keys")
        gone = await server.ask("operator", "DELETE", f"keys/{made['id']}")
        after = await server.ask("bob", "GET", "me")
        nothing = await server.ask("operator", "DELETE", "keys/key_none")
        _, acts = await server.ask("seer", "GET", "audit")
        _, page = await server.ask("seer", "GET", f"audit?limit=1&before={acts['data'][0]['id']}")

    assert (status, me[0], me[1]["scopes"], used[0]) == (201, 200, ["model:*", "tool:look"], 200)
    assert (gone[0], after[0], nothing[0]) == (200, 401, 404)
    row = next(one for one in listed["data"] if one["id"] == made["id"])
    assert made["key"] not in json.dumps(listed)
    assert (row["owner"], row["revoked_at"]) == ("bob", None)
    assert row["expires_at"] == pytest.approx(row["created_at"] + 3600)
    assert row["last_used_at"] >= row["created_at"]
    assert [(one["act"], one["subject"], one["owner"]) for one in acts["data"]] == [
        ("key.revoke", made["id"], "ann"),
        ("key.create", made["id"], "ann"),
    ]
    assert all(one["actor"].startswith("key_") and one["client"] and one["at"] > 0 for one in acts["data"])
    assert ([one["act"] for one in page["data"]], page["has_more"]) == (["key.create"], False)
    assert made["key"] not in json.dumps(acts)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"owner": ""},
        {"owner": " x"},
        {"owner": "x", "scopes": "operate"},
        {"owner": "x", "scopes": ["no"]},
        {"owner": "x", "expires_in": 0},
        {"owner": "x", "expires_in": 1e12},
        {"owner": "x", "scope": []},
        {"owner": "x", "scopes": ["operate"] * 101},
    ],
    ids=str,
)
async def test_what_is_no_key_is_refused(door: Door, body: Json) -> None:
    async with keyed(door, ScriptedModel(), scopes=OPERATOR) as server:
        status, said = await server.ask("operator", "POST", "keys", body)
        _, listed = await server.ask("operator", "GET", "keys")

    assert status == 400, said
    assert len(listed["data"]) == 4


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "limit=99999", "before=-1"])
async def test_a_page_of_acts_that_cannot_be_is_refused(door: Door, query: str) -> None:
    async with keyed(door, ScriptedModel(), scopes=OPERATOR) as server:
        assert (await server.ask("seer", "GET", f"audit?{query}"))[0] == 400


async def test_who_may_decide_decides_for_another_owner_and_that_is_noted(door: Door) -> None:
    model = ScriptedModel(calls("send"), says("over"))
    async with keyed(door, model, send, scopes=OPERATOR, agent_permission="ask") as server:
        catalog = server.served.server.catalog
        server.keys["bob"], row = new_key("bob", 1.0)
        await catalog.keys.add(row)
        _, said = await server.ask("bob", "POST", "responses", {"input": "x", "background": True})
        run = said["id"].replace("resp_", "run_")
        async with (
            soon(),
            server.served.http.get(f"{server.served.url}/runs/{run}/events", headers=server.headers("bob")) as answer,
        ):
            async for line in answer.content:
                if b'"asked"' in line:
                    break
        own = await server.ask("judge", "GET", "agent/approvals")
        forbidden = await server.ask("operator", "GET", "agent/approvals?owner=bob")
        _, open_ones = await server.ask("judge", "GET", "agent/approvals?owner=bob")
        [question] = open_ones["data"]
        path = f"agent/approvals/{question['approval_id']}"
        unseen = await server.ask("judge", "POST", path, {"decision": "approve"})
        refused = await server.ask("all", "POST", f"{path}?owner=bob", {"decision": "approve"})
        decided = await server.ask("judge", "POST", f"{path}?owner=bob", {"decision": "approve"})
        _, acts = await server.ask("seer", "GET", "audit")

    assert (own[1]["data"], forbidden[0], unseen[0], refused[0], decided[0]) == ([], 403, 404, 403, 200)
    assert [(one["act"], one["details"]) for one in acts["data"]] == [("approval.decide", "owner bob; approve")]


async def test_who_operates_ends_a_run_of_another_owner_without_reading_it(door: Door) -> None:
    began = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        began.set()
        await asyncio.Event().wait()
        return ""

    async with keyed(door, ScriptedModel(calls("wait")), wait, scopes=OPERATOR) as server:
        server.keys["bob"], row = new_key("bob", 1.0)
        await server.served.server.catalog.keys.add(row)
        _, said = await server.ask("bob", "POST", "responses", {"input": "a secret", "background": True})
        run = said["id"].replace("resp_", "run_")
        async with soon():
            await began.wait()
        hidden = await server.ask("operator", "POST", f"runs/{run}/cancel")
        refused = await server.ask("seer", "POST", f"runs/{run}/cancel?owner=bob")
        ended = await server.ask("operator", "POST", f"runs/{run}/cancel?owner=bob")
        [end] = await server.served.ends

    assert (hidden[0], refused[0], ended[0]) == (404, 403, 200)
    assert ended[1] == {"id": run, "object": "run", "owner": "bob", "state": "cancelled"}
    assert end.reason == "cancelled"


@pytest.mark.parametrize("how", ["stream", "plain", "socket"])
async def test_what_is_under_way_with_a_key_ends_when_the_key_is_revoked(door: Door, how: str) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    catalog = MemoryCatalog()
    keys = {}
    for name in ("other", "this"):
        keys[name], row = new_key("ann", 1.0)
        await catalog.keys.add(row)
    headers = {"authorization": f"Bearer {keys['this']}"}
    auth = KeyAuth(catalog.keys, fresh_for=0.0)
    async with door.serving(ScriptedModel(calls("wait")), wait, catalog=catalog, auth=auth) as served:
        feature = served.server.features.find("keys")
        assert isinstance(feature, Keys)

        async def ask() -> Any:
            if how == "socket":
                async with served.http.ws_connect(f"{served.url}/responses", headers=headers) as socket:
                    await socket.send_json({"type": "response.create", "model": "default", "input": "x"})
                    async for _ in socket:
                        pass
                    return socket.close_code
            body = {**GO, "stream": how == "stream"}
            with contextlib.suppress(aiohttp.ClientError):
                async with served.http.post(f"{served.url}/chat/completions", json=body, headers=headers) as answer:
                    await answer.read()
                    return answer.status
            return "cut"

        asking = asyncio.create_task(ask())
        async with soon():
            await began.wait()
            await feature.end_revoked()  # of good keys it ends nothing
            assert not ended.is_set()
            await catalog.keys.revoke(row.id, 2.0)
            await feature.end_revoked()
            came = await asking
            await ended.wait()
        assert not served.server.open_requests.keys

    assert came == (1008 if how == "socket" else "cut")


async def test_a_socket_whose_key_expires_is_closed_and_says_why(door: Door) -> None:
    now, catalog = 10.0, MemoryCatalog()
    key, row = new_key("ann", 1.0, (), 20.0)
    await catalog.keys.add(row)
    auth = KeyAuth(catalog.keys, fresh_for=0.0, wall_clock=lambda: now)
    async with door.serving(ScriptedModel(), catalog=catalog, auth=auth) as served, soon():
        feature = served.server.features.find("keys")
        assert isinstance(feature, Keys)
        headers = {"authorization": f"Bearer {key}"}
        async with served.http.ws_connect(f"{served.url}/responses", headers=headers) as socket:
            await feature.end_revoked()
            assert served.server.open_requests.keys
            now = 20.0
            await feature.end_revoked()
            closed = await socket.receive()

    assert (closed.data, closed.extra) == (1008, "the API key was revoked, or has expired")


async def test_a_key_that_is_revoked_at_one_server_ends_what_another_streams(tmp_path: Path, postgres: str) -> None:
    folder = Folder(tmp_path, call("wait"), "It is over now.")

    def keys(*arguments: str) -> str:
        command = [sys.executable, "-m", "ronda", "keys", *arguments, "--database", postgres]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    async def make(owner: str, *scopes: str) -> str:
        given = [part for scope in scopes for part in ("--scope", scope)]
        return (await asyncio.to_thread(keys, "create", "--owner", owner, *given)).strip()

    operator, ann = await make("op", "operate:write"), await make("ann")
    async with aiohttp.ClientSession() as http:
        with replicas(folder, postgres) as (one, other):
            headers = {"authorization": f"Bearer {ann}"}
            async with soon(), http.get(f"{other.serving.url}/me", headers=headers) as answer:
                key_id = (await answer.json())["key_id"]
            body = {**GO, "stream": True, "on_disconnect": "detach"}
            async with soon(), http.post(f"{one.serving.url}/chat/completions", json=body, headers=headers) as stream:
                await stream.content.readany()
                by = {"authorization": f"Bearer {operator}"}
                async with http.delete(f"{other.serving.url}/keys/{key_id}", headers=by) as revoked:
                    assert revoked.status == 200
                with pytest.raises(aiohttp.ClientError):
                    await stream.content.read()
            async with soon(), http.get(f"{one.serving.url}/me", headers=headers) as answer:
                assert answer.status == 401
            (folder.path / "go on").touch()

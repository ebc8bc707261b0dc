"""What a key with scopes may do: at every door, in every kind of run, and never more than its scopes say."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Served, soon
from tests.interaction.every_door import NAMES, PATHS, body_for
from tests.server.doors.test_mcp_door import client as mcp_client
from tests.server.responses_door import connected
from tests.server.services.test_named_agents import turn, write_agent

from ronda import tool
from ronda.core.events import Answered, Asked, RunStarted, ToolFinished
from ronda.drive import Tool
from ronda.errors import BadRequest
from ronda.server.http.auth import KeyAuth
from ronda.store.keys import new_key
from ronda.store.memory import MemoryCatalog
from ronda.store.values.scopes import check_scopes, scopes_of
from ronda.testing import ScriptedModel, calls, says

GO: Json = {"model": "default", "messages": [{"role": "user", "content": "go"}]}


@tool
def look() -> str:
    """Look."""
    return "seen"


@tool
def send() -> str:
    """Send."""
    return "sent"


class Keyed:
    def __init__(self, served: Served, keys: dict[str, str]) -> None:
        self.served, self.keys = served, keys

    def headers(self, who: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.keys[who]}"}

    async def ask(self, who: str, method: str, path: str, body: Json | None = None, **more: str) -> tuple[int, Any]:
        url = f"{self.served.url}/{path}"
        headers = {**self.headers(who), **more}
        async with soon(), self.served.http.request(method, url, json=body, headers=headers) as answer:
            text = await answer.text()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    async def starts(self) -> list[RunStarted]:
        return [events[0] for events in await self.served.events if isinstance(events[0], RunStarted)]


@asynccontextmanager
async def keyed(
    door: Door, model: ScriptedModel, *tools: Tool, scopes: Mapping[str, tuple[str, ...]], **settings: Any
) -> AsyncIterator[Keyed]:
    """A server with one key of 'ann' for each of these scopes, by name; `all` has none."""
    catalog = MemoryCatalog()
    keys = {}
    for name, given in {"all": (), **scopes}.items():
        keys[name], row = new_key("ann", 1.0, check_scopes(given))
        await catalog.keys.add(row)
    auth = KeyAuth(catalog.keys, fresh_for=0.0)
    async with door.serving(model, *tools, catalog=catalog, auth=auth, **settings) as served:
        yield Keyed(served, keys)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", NAMES)
async def test_a_model_that_a_key_is_not_for_is_a_403_in_the_dialect(door: Door, name: str, stream: bool) -> None:
    scopes = {"other": ("model:other-*",), "this": ("model:test",), "any": ("model:*",)}
    async with keyed(door, ScriptedModel(*[says("x")] * 3), scopes=scopes) as server:
        asked = {who: await server.ask(who, "POST", PATHS[name], body_for(name, stream)) for who in (*scopes, "all")}
        starts = await server.starts()

    assert {who: status for who, (status, _) in asked.items()} == {"other": 403, "this": 200, "any": 200, "all": 200}
    assert "this API key is not for the model 'test'" in json.dumps(asked["other"][1])
    assert len(starts) == 3


async def test_a_response_over_a_websocket_is_held_to_the_scopes(door: Door) -> None:
    async with (
        keyed(door, ScriptedModel(), scopes={"other": ("model:other",)}) as server,
        connected(server.served, key=server.keys["other"]) as socket,
    ):
        said = await socket.turn(input="x")

    assert said["error"]["code"] == "model_not_allowed"


@pytest.mark.parametrize("stream", [False, True])
async def test_tools_are_narrowed_and_usual_requests_do_not_share_them(door: Door, stream: bool) -> None:
    model = ScriptedModel(*[says("x")] * 8)
    scopes = {"look": ("tool:lo*",), "none": ("tool:none",)}
    async with keyed(door, model, look, send, scopes=scopes) as server:
        for who in ("all", "look", "none", "all", "look", "none"):
            assert (await server.ask(who, "POST", "chat/completions", {**GO, "stream": stream}))[0] == 200
        offered = [[spec.name for spec in start.plan.tools] for start in await server.starts()]

    assert offered == [["look", "send"], ["look"], []] * 2


async def test_a_tool_of_the_caller_is_no_business_of_scopes(door: Door) -> None:
    mine = {"type": "function", "function": {"name": "mine", "parameters": {"type": "object", "properties": {}}}}
    async with keyed(door, ScriptedModel(calls("mine")), look, scopes={"none": ("tool:none",)}) as server:
        status, said = await server.ask("none", "POST", "chat/completions", {**GO, "tools": [mine]})

    assert status == 200
    assert said["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "mine"


async def test_a_tool_that_is_chosen_and_not_allowed_is_refused(door: Door) -> None:
    choice = {"type": "function", "function": {"name": "send"}}
    async with keyed(door, ScriptedModel(), look, send, scopes={"look": ("tool:look",)}) as server:
        status, said = await server.ask("look", "POST", "chat/completions", {**GO, "tool_choice": choice})

    assert (status, said["error"]["param"]) == (400, "tool_choice")


@pytest.mark.parametrize(
    ("scope", "wish", "expected"),
    [("ask", "auto", "ask"), ("deny", "ask", "deny"), ("ask", "deny", "deny"), ("deny", "auto", "deny")],
)
async def test_the_mode_of_permission_is_only_narrowed(door: Door, scope: str, wish: str, expected: str) -> None:
    model = ScriptedModel(calls("look"), says("over"))
    async with keyed(door, model, look, scopes={"few": (f"permission:{scope}",)}) as server:
        body = {**GO, "agent_permission": wish, "background": True}
        status, said = await server.ask("few", "POST", "chat/completions", body)
        async with (
            soon(),
            server.served.http.get(
                f"{server.served.url}/runs/{said['id'].replace('chatcmpl-', 'run_')}/events",
                headers=server.headers("few"),
            ) as answer,
        ):
            text = ""
            async for line in answer.content:
                text += line.decode()
                if '"asked"' in text or '"run_finished"' in text:
                    break
        [events] = await server.served.events

    assert status == 202
    asked = [event for event in events if isinstance(event, Asked)]
    ran = [event.name for event in events if isinstance(event, ToolFinished)]
    assert (bool(asked), ran) == (expected == "ask", [])
    assert not [event for event in events if isinstance(event, Answered) and event.decision == "approve"]


async def test_doors(door: Door) -> None:
    scopes = {"chat": ("door:chat",), "page": ("door:own", "door:chat"), "closed": ("door:none",)}
    async with keyed(door, ScriptedModel(*[says("x")] * 4), scopes=scopes) as server:
        asked = {
            who: {
                path: (await server.ask(who, "POST" if body else "GET", path, body))[0]
                for path, body in {
                    "chat/completions": GO,
                    "responses": {"model": "default", "input": "x"},
                    "runs": None,
                    "models": None,
                    "me": None,
                    "files": None,
                }.items()
            }
            for who in scopes
        }
        _, said = await server.ask("chat", "POST", "messages", {"model": "default", "max_tokens": 9, "messages": []})
        mcp = await server.ask("chat", "POST", "../mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"})

    assert asked == {
        "chat": {"chat/completions": 200, "responses": 403, "runs": 403, "models": 200, "me": 200, "files": 403},
        "page": {"chat/completions": 200, "responses": 403, "runs": 200, "models": 200, "me": 200, "files": 403},
        "closed": {"chat/completions": 403, "responses": 403, "runs": 403, "models": 200, "me": 200, "files": 403},
    }
    assert (said["type"], said["error"]["type"]) == ("error", "permission_error")  # Anthropic's words
    assert mcp[0] == 403


async def test_agents_and_the_tools_of_agents_that_they_ask(door: Door, tmp_path: Path) -> None:
    """What the child may call is decided by the key that its parent was asked with."""
    write_agent(tmp_path, "triage", turn("billing", input="x"), "Done.", agents=["billing"])
    write_agent(tmp_path, "billing", turn("send"), "Told.", tools=[{"name": "send", "kind": "function"}])
    write_agent(tmp_path, "other", "No.")
    scopes = {"triage": ("agent:triage", "tool:billing"), "free": ("agent:triage",)}
    async with keyed(door, ScriptedModel(says("x")), send, scopes=scopes, agents=str(tmp_path)) as server:
        listed = [one["id"] for one in (await server.ask("triage", "GET", "models"))[1]["data"]]
        refused = await server.ask("triage", "POST", "chat/completions", {**GO, "model": "other"})
        hidden = await server.ask("triage", "GET", "models/other")
        ran = {}
        for who in ("triage", "free"):
            before = len(await server.served.events)
            status, _ = await server.ask(who, "POST", "chat/completions", {**GO, "model": "triage"})
            assert status == 200
            child = (await server.served.events)[before + 1]
            ran[who] = [(one.name, one.result.failed) for one in child if isinstance(one, ToolFinished)]

    assert "triage" in listed
    assert "other" not in listed
    assert (refused[0], refused[1]["error"]["code"], hidden[0]) == (403, "agent_not_allowed", 403)
    assert ran == {"triage": [], "free": [("send", False)]}


async def test_handoffs_and_stored_agents(door: Door) -> None:
    model = ScriptedModel(*[says("x")] * 5)
    async with keyed(door, model, scopes={"first": ("model:none", "agent:ag_*"), "other": ("model:other",)}) as server:
        _, second = await server.ask(
            "all", "POST", "agents", {"model": "default", "name": "second", "instructions": "b"}
        )
        body: Json = {"model": "default", "name": "first", "instructions": "a", "handoffs": [second["id"]]}
        _, first = await server.ask("all", "POST", "agents", body)
        start: Json = {"agent_id": first["id"], "inputs": "go", "stream": False}
        by_model = await server.ask("other", "POST", "conversations", start)
        made = await server.ask("other", "POST", "agents", {"model": "default", "name": "mine"})
        allowed = await server.ask("all", "POST", "conversations", start)
        starts = await server.starts()

    assert (by_model[0], made[0], allowed[0]) == (403, 403, 200)
    assert len(starts) == 1


async def test_over_mcp(door: Door, tmp_path: Path) -> None:
    write_agent(tmp_path, "billing", "Told.")
    write_agent(tmp_path, "other", "No.")
    scopes = {"few": ("agent:billing", "model:none")}
    async with (
        keyed(door, ScriptedModel(says("x")), scopes=scopes, agents=str(tmp_path)) as server,
        mcp_client(door, "auto", key=server.keys["few"]) as mcp,
    ):
        tools = [one.name for one in (await mcp.list_tools()).tools]
        good = await mcp.call_tool("billing", {"input": "x"})
        chat = await mcp.call_tool("chat", {"messages": GO["messages"]})

    assert tools == ["chat", "billing"]
    assert (good.is_error, chat.is_error) == (False, True)


async def test_a_run_in_the_background_keeps_the_rights_of_its_key(door: Door) -> None:
    model = ScriptedModel(calls("send"), says("x"))
    async with keyed(door, model, look, send, scopes={"look": ("tool:look", "permission:ask")}) as server:
        _, said = await server.ask("look", "POST", "responses", {"input": "x", "background": True})
        run = said["id"].replace("resp_", "run_")
        async with (
            soon(),
            server.served.http.get(f"{server.served.url}/runs/{run}/events", headers=server.headers("look")) as answer,
        ):
            await answer.read()
        [start] = await server.starts()

    assert [spec.name for spec in start.plan.tools] == ["look"]
    assert json.loads(bytes(start.about["rights"])) == ["permission:ask", "tool:look"]
    assert {rule.mode for rule in start.plan.permissions} == {"ask", "deny"}


async def test_code_runs_under_the_profiles_of_the_key_alone(door: Door) -> None:
    @tool(labels=["code"])
    def compute() -> str:
        """Compute."""
        return "1"

    scopes = {"same": ("sandbox:restricted",), "other": ("sandbox:developer",), "none": ("sandbox:none",)}
    async with keyed(door, ScriptedModel(*[says("x")] * 4), compute, look, scopes=scopes) as server:
        for who in ("all", *scopes):
            assert (await server.ask(who, "POST", "chat/completions", GO))[0] == 200
        offered = [[spec.name for spec in start.plan.tools] for start in await server.starts()]
        rules = [[rule.labels for rule in start.plan.permissions] for start in await server.starts()]

    assert offered == [["compute", "look"], ["compute", "look"], ["look"], ["look"]]
    assert rules == [[], [], [("code",)], [("code",)]]


async def test_a_run_that_is_opened_again_has_the_rights_that_it_began_with(door: Door) -> None:
    """The key of the client that decides has no say in it."""
    model = ScriptedModel(calls("look"), calls("send"), says("over"))
    scopes = {"few": ("tool:look", "model:test"), "other": ("model:other",)}
    async with keyed(door, model, look, send, scopes=scopes, agent_permission="ask") as server:
        _, said = await server.ask("few", "POST", "responses", {"input": "x"})
        run = said["id"].replace("resp_", "run_")
        _, waiting = await server.ask("other", "GET", "agent/approvals")
        path = f"agent/approvals/{waiting['data'][0]['approval_id']}"
        decided = await server.ask("other", "POST", path, {"decision": "approve"})
        url = f"{server.served.url}/runs/{run}/events"
        async with soon(), server.served.http.get(url, headers=server.headers("all")) as answer:
            await answer.read()
        [events] = await server.served.events

    assert decided[0] == 200
    assert [event.name for event in events if isinstance(event, ToolFinished)] == ["look"]


@pytest.mark.parametrize(
    "scope",
    [
        "operat",
        "operate:",
        "model:",
        "colour:red",
        "permission:auto",
        "sandbox:big",
        "door:chatt",
        "tool:a b",
        "tool:" + "x" * 300,
    ],
)
def test_a_scope_that_means_nothing_is_refused(scope: str) -> None:
    with pytest.raises(BadRequest, match="scope"):
        check_scopes([scope])


def test_who_may_write_may_read() -> None:
    scopes = scopes_of(frozenset({"operate:write"}))

    assert (scopes.has("operate"), scopes.has("operate:write"), scopes.has("decide")) == (True, True, False)
    assert not scopes_of(None).has("operate")

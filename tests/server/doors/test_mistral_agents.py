"""Agents that clients make: create, change, list, delete; versions and aliases; and talking to them, on every door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mistralai.client import errors
from tests.interaction.doors import Door
from tests.interaction.upstreams import Upstream, completes
from tests.server.mistral_doors import Behind, function, serving

from ronda import tool
from ronda.core.parts import SystemTurn, user
from ronda.core.plan import ToolChoice
from ronda.testing import ScriptedModel, calls, says

HI: list[Any] = [{"role": "user", "content": "hi"}]

pytestmark = pytest.mark.filterwarnings("ignore:.*Use list_pages instead:DeprecationWarning")


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


async def test_an_agent_is_made_changed_found_and_deleted(door: Door) -> None:
    async with serving(door, ScriptedModel()) as behind, behind.client() as client:
        agents = client.beta.agents
        made = await agents.create_async(
            model="default",
            name="Painter",
            instructions="Paint",
            description="Knows painters",
            tools=[function("weather", city="string")],
            completion_args={"temperature": 0.3, "stop": ["END"], "response_format": {"type": "text"}},
            metadata={"team": {"a": 1}},
            version_message="first",
        )
        changed = await agents.update_async(agent_id=made.id, instructions="Draw", deployment_chat=True)
        found = await agents.get_async(agent_id=made.id)
        await agents.delete_async(agent_id=made.id)
        with pytest.raises(errors.SDKError) as gone:
            await agents.get_async(agent_id=made.id)

    assert (made.object, made.version, made.versions, made.source) == ("agent", 0, [0], "api")
    assert (made.name, made.model, made.instructions, made.description) == (
        "Painter", "default", "Paint", "Knows painters",
    )  # fmt: skip
    assert (made.completion_args.temperature, made.completion_args.stop) == (0.3, ["END"])
    assert [one.function.name for one in made.tools] == ["weather"]
    assert (made.metadata, made.version_message, made.deployment_chat) == ({"team": {"a": 1}}, "first", False)
    assert made.created_at == made.updated_at
    assert (changed.version, changed.versions, changed.instructions) == (1, [0, 1], "Draw")
    assert (changed.name, changed.version_message, changed.deployment_chat) == ("Painter", None, True)
    assert changed.updated_at > changed.created_at == made.created_at
    assert found == changed
    assert gone.value.status_code == 404


async def test_versions_are_kept_and_can_be_switched(door: Door) -> None:
    async with serving(door, ScriptedModel()) as behind, behind.client() as client:
        agents = client.beta.agents
        agent_id = (await agents.create_async(model="default", name="A", instructions="0")).id
        for n in (1, 2):
            await agents.update_async(agent_id=agent_id, instructions=str(n))
        switched = await agents.update_version_async(agent_id=agent_id, version=1)
        listed = await agents.list_versions_async(agent_id=agent_id)
        paged = await agents.list_versions_async(agent_id=agent_id, page=1, page_size=2)
        one = await agents.get_version_async(agent_id=agent_id, version="2")
        by_number = await agents.get_async(agent_id=agent_id, agent_version=0)
        after = await agents.update_async(agent_id=agent_id, name="B")

    assert (switched.version, switched.versions, switched.instructions) == (1, [0, 1, 2], "1")
    assert [(row.version, row.instructions) for row in listed] == [(0, "0"), (1, "1"), (2, "2")]
    assert [row.version for row in paged] == [2]
    assert (one.version, one.instructions) == (2, "2")
    assert (by_number.version, by_number.instructions) == (0, "0")
    assert (after.version, after.instructions) == (3, "1")  # from the current one on


async def test_an_alias_is_moved_and_followed(door: Door) -> None:
    async with serving(door, ScriptedModel()) as behind, behind.client() as client:
        agents = client.beta.agents
        agent_id = (await agents.create_async(model="default", name="A", instructions="0")).id
        await agents.update_async(agent_id=agent_id, instructions="1")
        made = await agents.create_version_alias_async(agent_id=agent_id, alias="prod", version=0)
        before = await agents.get_async(agent_id=agent_id, agent_version="prod")
        moved = await agents.create_version_alias_async(agent_id=agent_id, alias="prod", version=1)
        after = await agents.get_async(agent_id=agent_id, agent_version="prod")
        by_path = await agents.get_version_async(agent_id=agent_id, version="prod")
        listed = await agents.list_version_aliases_async(agent_id=agent_id)
        await agents.delete_version_alias_async(agent_id=agent_id, alias="prod")
        with pytest.raises(errors.SDKError):
            await agents.get_async(agent_id=agent_id, agent_version="prod")
        with pytest.raises(errors.SDKError):
            await agents.delete_version_alias_async(agent_id=agent_id, alias="prod")
        with pytest.raises(errors.SDKError):
            await agents.create_version_alias_async(agent_id=agent_id, alias="x", version=7)

    assert (made.alias, made.version) == ("prod", 0)
    assert (before.instructions, after.instructions, by_path.instructions) == ("0", "1", "1")
    assert (moved.version, moved.created_at) == (1, made.created_at)
    assert listed == [moved]


async def test_lists_are_filtered_and_come_in_pages(door: Door) -> None:
    async with serving(door, ScriptedModel()) as behind, behind.client() as client:
        agents = client.beta.agents
        made = [
            await agents.create_async(model="default", name=f"Agent {n}", metadata={"even": n % 2 == 0, "n": n})
            for n in range(5)
        ]
        await agents.update_async(agent_id=made[3].id, deployment_chat=True)

        async def names(**asked: Any) -> list[str]:
            return [one.name for one in await agents.list_async(**asked)]

        assert await names() == [f"Agent {n}" for n in range(5)]
        assert await names(page=1, page_size=2) == ["Agent 2", "Agent 3"]
        assert await names(name="Agent 2") == ["Agent 2"]
        assert await names(search="agent 4") == ["Agent 4"]
        assert await names(search=made[1].id) == ["Agent 1"]
        assert await names(id=made[0].id) == ["Agent 0"]
        assert await names(metadata={"even": True}) == ["Agent 0", "Agent 2", "Agent 4"]
        assert await names(deployment_chat=True) == ["Agent 3"]
        assert await names(sources=["api", "playground"]) == [f"Agent {n}" for n in range(5)]
        assert await names(sources=["playground"]) == []

        page: Any = await agents.list_pages_async(page_size=2)
        pages = []
        while page is not None:
            pages.append([one.name for one in page.result.data])
            page = await page.next()
        assert pages == [["Agent 0", "Agent 1"], ["Agent 2", "Agent 3"], ["Agent 4"]]


async def test_one_key_sees_nothing_of_anothers_agents(door: Door) -> None:
    async with serving(door, ScriptedModel(says("x"))) as behind:
        async with behind.client("mine") as client:
            agent_id = (await client.beta.agents.create_async(model="default", name="A")).id
        body = {"agent_id": agent_id, "messages": HI}
        asked = [
            await behind.ask("GET", "/v1/agents", key="theirs"),
            await behind.ask("GET", f"/v1/agents/{agent_id}", key="theirs"),
            await behind.ask("PATCH", f"/v1/agents/{agent_id}", {"name": "B"}, key="theirs"),
            await behind.ask("DELETE", f"/v1/agents/{agent_id}", key="theirs"),
            await behind.ask("PUT", f"/v1/agents/{agent_id}/aliases?alias=a&version=0", key="theirs"),
            await behind.ask("GET", f"/v1/agents/{agent_id}/versions", key="theirs"),
            await behind.ask("POST", "/v1/agents/completions", body, key="theirs"),
            await behind.ask("POST", "/v1/chat/completions", {"model": agent_id, "messages": HI}, key="theirs"),
            await behind.ask("GET", "/v1/models", key="mine"),
        ]

    assert [status for status, _ in asked] == [200, 404, 404, 404, 404, 404, 404, 404, 200]
    assert asked[0][1] == []
    assert agent_id not in json.dumps(asked[-1][1])


async def test_agents_survive_a_restart(door: Door, tmp_path: Path) -> None:
    catalog = str(tmp_path / "catalog.db")
    async with serving(door, ScriptedModel(), catalog=catalog) as behind, behind.client() as client:
        agents = client.beta.agents
        agent_id = (await agents.create_async(model="default", name="A", instructions="0")).id
        before = await agents.update_async(agent_id=agent_id, instructions="1")
        await agents.create_version_alias_async(agent_id=agent_id, alias="old", version=0)
    async with serving(door, ScriptedModel(), catalog=catalog) as behind, behind.client() as client:
        assert await client.beta.agents.get_async(agent_id=agent_id) == before
        assert (await client.beta.agents.get_async(agent_id=agent_id, agent_version="old")).instructions == "0"


# ---- talking to them ---------------------------------------------------------------------------------------------------


async def make(behind: Behind, **said: Any) -> str:
    status, agent = await behind.ask("POST", "/v1/agents", {"model": "default", "name": "A", **said})
    assert status == 200, agent
    agent_id: str = agent["id"]
    return agent_id


async def test_an_agent_brings_its_instructions_tools_and_arguments(door: Door) -> None:
    async with Upstream(completes("fine")) as upstream, serving(door, upstream.url, spec="openai-chat:small") as behind:
        args = {
            "stop": "END",
            "presence_penalty": 0.5,
            "frequency_penalty": 0.25,
            "temperature": 0.1,
            "top_p": 0.9,
            "max_tokens": 7,
            "random_seed": 3,
            "prediction": {"type": "content", "content": "so"},
            "tool_choice": "none",
            "reasoning_effort": "low",
        }
        agent_id = await make(behind, instructions="Be brief", tools=[function("weather")], completion_args=args)
        await behind.ask("POST", "/v1/agents/completions", {"agent_id": agent_id, "messages": HI, "max_tokens": 9})

    [asked] = upstream.requests
    assert asked == {
        "model": "small",
        "messages": [{"role": "system", "content": "Be brief"}, *HI],
        "tools": [function("weather")],
        "tool_choice": "none",
        "stop": ["END"],
        "presence_penalty": 0.5,
        "frequency_penalty": 0.25,
        "temperature": 0.1,
        "top_p": 0.9,
        "max_tokens": 9,  # the request's own
        "seed": 3,
        "prediction": {"type": "content", "content": "so"},
        "reasoning_effort": "low",
    }


async def test_tools_of_a_request_stand_beside_the_agents_and_take_the_place_of_their_like(door: Door) -> None:
    model = ScriptedModel(says("fine"))
    async with serving(door, model) as behind:
        agent_id = await make(behind, tools=[function("weather", city="string"), function("clock")])
        body = {"agent_id": agent_id, "messages": HI, "tools": [function("weather", place="string"), function("radio")]}
        await behind.ask("POST", "/v1/agents/completions", body)

    [request] = model.requests
    schemas = {spec.name: json.loads(bytes(spec.parameters)) for spec in request.tools}
    assert list(schemas) == ["clock", "weather", "radio"]
    assert list(schemas["weather"]["properties"]) == ["place"]


async def test_what_a_request_chooses_holds_whatever_the_agent_chose(door: Door) -> None:
    model = ScriptedModel(says("fine"), calls("weather"))
    async with serving(door, model) as behind:
        agent_id = await make(behind, tools=[function("weather")], completion_args={"tool_choice": "any"})
        body = {"agent_id": agent_id, "messages": HI}
        await behind.ask("POST", "/v1/agents/completions", {**body, "tool_choice": "auto"})
        await behind.ask("POST", "/v1/agents/completions", body)

    assert [request.choice for request in model.requests] == [ToolChoice("auto"), ToolChoice("required")]


@pytest.mark.parametrize(("suffix", "heard"), [("", "1"), ("@0", "0"), ("@old", "0"), ("@1", "1")])
async def test_an_agent_may_be_named_with_a_version_or_an_alias(door: Door, suffix: str, heard: str) -> None:
    model = ScriptedModel(says("fine"))
    async with serving(door, model) as behind:
        agent_id = await make(behind, instructions="0")
        await behind.ask("PATCH", f"/v1/agents/{agent_id}", {"instructions": "1"})
        await behind.ask("PUT", f"/v1/agents/{agent_id}/aliases?alias=old&version=0")
        status, _ = await behind.ask("POST", "/v1/agents/completions", {"agent_id": agent_id + suffix, "messages": HI})

    assert status == 200
    assert model.heard == [[SystemTurn(heard), user("hi")]]


async def test_a_version_that_is_not_there_is_a_404(door: Door) -> None:
    async with serving(door, ScriptedModel()) as behind:
        agent_id = await make(behind)
        got = [
            await behind.ask("POST", "/v1/agents/completions", {"agent_id": f"{agent_id}@7", "messages": HI}),
            await behind.ask("GET", f"/v1/agents/{agent_id}?agent_version=7"),
            await behind.ask("GET", f"/v1/agents/{agent_id}?agent_version={10**30}"),
            await behind.ask("GET", f"/v1/agents/{agent_id}/versions/nope"),
            await behind.ask("PATCH", f"/v1/agents/{agent_id}/version?version=7"),
        ]

    assert [status for status, _ in got] == [404] * 5


async def test_a_stored_agent_answers_on_the_chat_door_too(door: Door) -> None:
    model = ScriptedModel(calls("lookup", q="x"), says("fine"))
    async with serving(door, model, lookup) as behind:
        agent_id = await make(behind, instructions="Be brief")
        status, answer = await behind.ask("POST", "/v1/chat/completions", {"model": agent_id, "messages": HI})

    assert (status, answer["choices"][0]["message"]["content"]) == (200, "fine")
    assert model.heard[0] == [SystemTurn("Be brief"), user("hi")]


# ---- what is refused ---------------------------------------------------------------------------------------------------


REFUSED: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "no name": ({"model": "default"}, ["body", "name"]),
    "no model": ({"name": "A"}, ["body", "model"]),
    "a model of another server": ({"model": "gpt-9", "name": "A"}, ["body", "model"]),
    "an agent for a model": ({"model": "ag_000", "name": "A"}, ["body", "model"]),
    "a tool we have not": (
        {"model": "default", "name": "A", "tools": [{"type": "web_search"}]},
        ["body", "tools", 0, "type"],
    ),
    "a choice that is no word": (
        {"model": "default", "name": "A", "completion_args": {"tool_choice": {"function": {"name": "f"}}}},
        ["body", "completion_args", "tool_choice"],
    ),
    "a heat": (
        {"model": "default", "name": "A", "completion_args": {"temperature": 9}},
        ["body", "completion_args", "temperature"],
    ),
    "an argument": (
        {"model": "default", "name": "A", "completion_args": {"n": 2}},
        ["body", "completion_args", "n"],
    ),
    "handoffs": ({"model": "default", "name": "A", "handoffs": ["ag_1"]}, ["body", "handoffs", 0]),
    "a field": ({"model": "default", "name": "A", "colour": "red"}, ["body", "colour"]),
}


@pytest.mark.parametrize(("body", "loc"), REFUSED.values(), ids=REFUSED.keys())
async def test_an_agent_that_could_not_work_is_refused_when_it_is_made(
    door: Door, body: dict[str, Any], loc: list[Any]
) -> None:
    async with serving(door, ScriptedModel()) as behind:
        status, said = await behind.ask("POST", "/v1/agents", body)
        _, listed = await behind.ask("GET", "/v1/agents")

    assert (status, [one["loc"] for one in said["detail"]]) == (422, [loc])
    assert listed == []


async def test_an_update_is_checked_like_a_new_agent(door: Door) -> None:
    async with serving(door, ScriptedModel()) as behind:
        agent_id = await make(behind)
        refused, _ = await behind.ask("PATCH", f"/v1/agents/{agent_id}", {"model": "gpt-9"})
        kept, agent = await behind.ask("PATCH", f"/v1/agents/{agent_id}", {"model": None, "name": None, "tools": None})

    assert (refused, kept) == (422, 200)
    assert (agent["model"], agent["name"], agent["tools"]) == ("default", "A", [])


async def test_a_tool_of_the_servers_name_is_refused_when_the_agent_is_made(door: Door) -> None:
    async with serving(door, ScriptedModel(), lookup) as behind:
        body = {"model": "default", "name": "A", "tools": [function("lookup")]}
        status, said = await behind.ask("POST", "/v1/agents", body)

    assert (status, said["object"], said["param"]) == (400, "error", "tools")


async def test_an_agent_whose_model_is_gone_says_so(door: Door, tmp_path: Path) -> None:
    catalog = str(tmp_path / "catalog.db")
    async with serving(door, ScriptedModel(), catalog=catalog, spec="script:one") as behind:
        agent_id = await make(behind, model="one")
    async with serving(door, ScriptedModel(), catalog=catalog, spec="script:two") as behind:
        status, said = await behind.ask("POST", "/v1/agents/completions", {"agent_id": agent_id, "messages": HI})

    assert (status, said["code"]) == (404, "agent_model_not_found")
    assert "'one'" in said["message"]


async def test_guardrails_of_an_agent_count(door: Door) -> None:
    async with serving(door, ScriptedModel(says("fine"))) as behind:
        strict = await make(behind, guardrails=[{"block_on_error": True}])
        loose = await make(behind, guardrails=[{"moderation_llm_v1": {}}])
        blocked, said = await behind.ask("POST", "/v1/agents/completions", {"agent_id": strict, "messages": HI})
        allowed, answer = await behind.ask("POST", "/v1/agents/completions", {"agent_id": loose, "messages": HI})

    assert (blocked, said["code"]) == (403, "guardrail_error")
    assert (allowed, len(answer["warnings"])) == (200, 1)


async def test_guardrails_of_an_agent_go_to_a_mistral_upstream(door: Door) -> None:
    async with Upstream(completes("fine")) as upstream, serving(door, upstream.url, spec="mistral:small") as behind:
        agent_id = await make(behind, guardrails=[{"block_on_error": True}])
        await behind.ask("POST", "/v1/agents/completions", {"agent_id": agent_id, "messages": HI})

    assert upstream.requests[0]["guardrails"] == [{"block_on_error": True}]


QUERIES: dict[str, tuple[str, str, list[str]]] = {
    "page": ("GET", "?page=x", ["query", "page"]),
    "a page before the first": ("GET", "?page=-1", ["query", "page"]),
    "a page beyond all": ("GET", f"?page={10**40}", ["query", "page"]),
    "page_size": ("GET", "?page_size=0", ["query", "page_size"]),
    "deployment_chat": ("GET", "?deployment_chat=maybe", ["query", "deployment_chat"]),
    "sources": ("GET", "?sources=sky", ["query", "sources"]),
    "metadata": ("GET", "?metadata=[", ["query", "metadata"]),
    "metadata of another type": ("GET", "?metadata=5", ["query", "metadata"]),
    "a page that is none": ("GET", "/pages?page_token=zzz", ["query", "page_token"]),
    "no version": ("PATCH", "/ag_1/version", ["query", "version"]),
    "no alias": ("PUT", "/ag_1/aliases?version=0", ["query", "alias"]),
    "an alias that is a number": ("PUT", "/ag_1/aliases?alias=7&version=0", ["query", "alias"]),
    "bytes that are no text": ("GET", "?page=%ff%fe", ["query", "page"]),
}


@pytest.mark.parametrize(("method", "rest", "loc"), QUERIES.values(), ids=QUERIES.keys())
async def test_what_is_wrong_with_a_query_is_a_422(door: Door, method: str, rest: str, loc: list[str]) -> None:
    async with serving(door, ScriptedModel()) as behind:
        status, said = await behind.ask(method, f"/v1/agents{rest}")

    assert (status, [one["loc"] for one in said["detail"]]) == (422, [loc])

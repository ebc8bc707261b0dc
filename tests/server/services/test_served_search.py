"""A server that may search the web: who is offered it, how requests say what they want of it, and what is told about it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from tests.interaction.doors import Door, Json, Raw, soon
from tests.server.http.test_capabilities import ASKING, CALLERS, body, post
from tests.server.runs_door import Deleting
from tests.server.services.test_reopened_runs import go_on, left_waiting
from tests.server.web_site import Site, web_site

from ronda.core.parts import ToolTurn
from ronda.errors import BadConfig
from ronda.journal.memory import MemoryJournal
from ronda.server.app import Server
from ronda.server.features.table import make_config
from ronda.testing import ScriptedModel, says
from ronda.testing import calls as asks
from ronda.wire.web.search import EXTRACT, SEARCH

DOORS = ["chat/completions", "responses", "messages", "agents/completions", "conversations"]
WEB_SEARCH = {"type": "web_search_20250305", "name": "web_search"}
ASKS_FOR_IT: dict[str, Json] = {"chat/completions": {"web_search_options": {}}, "messages": {"tools": [WEB_SEARCH]}}
NO_TOOLS: dict[str, Json] = {
    "chat/completions": {"tool_choice": "none"},
    "responses": {"tool_choice": "none"},
    "messages": {"tool_choice": {"type": "none"}},
    "agents/completions": {"tool_choice": "none"},
    "conversations": {"completion_args": {"tool_choice": "none"}},
}


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[Site]:
    async with web_site() as served:
        yield served


def offered(model: ScriptedModel, at: int = 0) -> list[str]:
    return [spec.name for spec in model.requests[at].tools]


def result(model: ScriptedModel, at: int = 1) -> Any:
    """What the last call of a round gave the model."""
    turn = model.heard[at][-1]
    assert isinstance(turn, ToolTurn)
    return msgspec.json.decode(turn.results[-1].content)


async def streamed(door: Door, asked: tuple[str, Json]) -> list[tuple[str, Any]]:
    """The events of a stream, by name."""
    async with soon(), door.http.post(f"{door.url}/{asked[0]}", json={**asked[1], "stream": True}) as answer:
        raw = Raw(answer.status, {}, await answer.read())
    assert raw.status == 200, raw.body
    return [(event, json.loads(data)) for event, data in raw.events if data != "[DONE]"]


# ---- who is offered it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOORS)
async def test_every_request_is_offered_the_search_of_a_server_that_has_it(door: Door, site: Site, name: str) -> None:
    model = ScriptedModel(says("Hm."))

    async with door.serving(model, **site.config):
        status, answer = await post(door, body(name))

    assert status == 200, answer
    assert offered(model) == [SEARCH, EXTRACT]
    assert [spec.strict for spec in model.requests[0].tools] == [True, True]


@pytest.mark.parametrize("name", DOORS)
async def test_a_request_that_wants_no_tools_is_offered_none(door: Door, site: Site, name: str) -> None:
    model = ScriptedModel(says("Hm."))

    async with door.serving(model, **site.config):
        status, answer = await post(door, body(name, **NO_TOOLS[name]))

    assert (status, offered(model)) == (200, []), answer


@pytest.mark.parametrize("name", DOORS)
async def test_where_it_is_on_request_nobody_else_is_offered_it(door: Door, site: Site, name: str) -> None:
    model = ScriptedModel(says("Hm."))

    async with door.serving(model, **site.config, search_mode="on-request"):
        status, answer = await post(door, body(name))

    assert (status, offered(model)) == (200, []), answer


@ASKING
async def test_whoever_asks_for_it_searches(
    door: Door, site: Site, request_: tuple[str, Json], name: str, place: str
) -> None:
    model = ScriptedModel(asks(SEARCH, query="when do the tides come back"), says("Twice a day [1]."))

    async with door.serving(model, **site.config, search_mode="on-request"):
        status, answer = await post(door, request_)

    assert status == 200, answer
    # Messages' own tool is the search alone: to read pages it has another.
    assert offered(model) == ([SEARCH] if name == "web_search_20250305" else [SEARCH, EXTRACT])
    found = result(model)
    assert found["sources"] == [site.domain]
    assert [(one["number"], one["title"], one["url"]) for one in found["output"]] == [
        (1, "Tides", site.url("/tides")),
        (2, "Salt", site.url("/salt")),
    ]
    assert found["output"][0]["content"].endswith("where it was.")


async def test_the_callers_own_words_for_a_tool_are_not_taken_from_it(door: Door, site: Site) -> None:
    mine = {"type": "function", "function": {"name": SEARCH, "parameters": {"type": "object", "properties": {}}}}

    async with door.serving(ScriptedModel(), **site.config):
        status, answer = await post(door, body("chat/completions", tools=[mine]))

    assert status == 400
    assert "conflicts with a registered internal tool" in answer["error"]["message"]


@pytest.mark.parametrize("name", ["chat/completions", "conversations"])
async def test_no_rounds_are_no_search(door: Door, site: Site, name: str) -> None:
    model = ScriptedModel(says("Hm."))
    rounds: Json = {"max_tool_rounds": 0}

    async with door.serving(model, **site.config):
        status, answer = await post(door, body(name, **rounds))

    assert (status, offered(model)) == (200, []), answer


async def test_a_stored_agent_that_has_the_tool_searches(door: Door, site: Site) -> None:
    model = ScriptedModel(asks(SEARCH, query="tides"), says("Twice a day [1]."))
    agent = {"model": "default", "name": "Tide", "tools": [{"type": "web_search"}]}

    async with door.serving(ScriptedModel()):
        refused, why = await post(door, ("agents", agent))
    async with door.serving(model, **site.config, search_mode="on-request"):
        _, made = await post(door, ("agents", agent))
        status, answer = await post(door, ("conversations", {"agent_id": made["id"], "inputs": "When?"}))

    assert (refused, "--enable-search switches it on" in str(why)) == (422, True)
    assert status == 200, answer
    assert offered(model) == [SEARCH, EXTRACT]
    assert [entry["type"] for entry in answer["outputs"]] == ["tool.execution", "message.output"]


# ---- how it is asked for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    [
        body("responses", tools=[{"type": "web_search"}], tool_choice={"type": "web_search"}),
        body(
            "messages",
            tools=[{"type": "web_search_20250305", "name": "web_search"}],
            tool_choice={"type": "tool", "name": "web_search"},
        ),
    ],
    ids=["responses", "messages"],
)
async def test_a_search_can_be_forced(door: Door, site: Site, asked: tuple[str, Json]) -> None:
    model = ScriptedModel(asks(SEARCH, query="tides"), says("There."))

    async with door.serving(model, **site.config):
        status, answer = await post(door, asked)

    assert status == 200, answer
    choice = model.requests[0].choice
    assert (choice.mode, choice.names[0]) == ("required", SEARCH)


LOCATION = {"city": "Porto", "country": "PT"}
OPTIONS: dict[str, tuple[str, Json]] = {
    "chat": body(
        "chat/completions",
        web_search_options={
            "user_location": {"type": "approximate", "approximate": LOCATION},
            "filters": {"blocked_domains": ["127.0.0.1"]},
        },
    ),
    "responses": body(
        "responses",
        tools=[
            {
                "type": "web_search",
                "user_location": {"type": "approximate", **LOCATION},
                "filters": {"blocked_domains": ["127.0.0.1"]},
            }
        ],
    ),
    "messages": body(
        "messages",
        tools=[
            {
                "type": "web_search_20260209",
                "name": "web_search",
                "user_location": {"type": "approximate", **LOCATION},
                "blocked_domains": ["127.0.0.1"],
            }
        ],
    ),
}


@pytest.mark.parametrize("asked", OPTIONS.values(), ids=OPTIONS.keys())
async def test_location_and_domains_are_kept_to(door: Door, site: Site, asked: tuple[str, Json]) -> None:
    model = ScriptedModel(asks(SEARCH, query="tides"), says("Nothing."))

    async with door.serving(model, **site.config):
        status, answer = await post(door, asked)

    assert status == 200, answer
    assert model.requests[0].tools[0].description.endswith("The user is in: Porto, PT.")
    assert result(model) == {"sources": [], "output": []}


async def test_each_of_messages_tools_has_its_own_uses_and_budget(door: Door, site: Site) -> None:
    site.add("/long", "Long", "A sentence of some words about the sea. " * 500)
    model = ScriptedModel(
        asks(SEARCH, query="tides"),
        asks(SEARCH, query="salt"),
        asks(EXTRACT, url=site.url("/long")),
        says("There."),
    )
    tools = [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 1},
        {"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 5, "max_content_tokens": 100},
    ]

    async with door.serving(model, **site.config):
        status, answer = await post(door, body("messages", tools=tools))

    assert status == 200, answer
    assert offered(model) == [SEARCH, EXTRACT]
    assert result(model, 2) == {"error": "there are no searches left for this request"}
    assert 300 < len(result(model, 3)["output"]) < 600


WRONG: dict[str, tuple[tuple[str, Json], str]] = {
    "chat": (
        body("chat/completions", web_search_options={"search_context_size": "huge"}),
        "web_search_options.search_context_size",
    ),
    "responses": (
        body("responses", tools=[{"type": "web_search", "filters": {"allowed_domains": [1]}}]),
        "tools[0].filters",
    ),
    "preview": (
        body("responses", tools=[{"type": "web_search_preview", "filters": {"allowed_domains": ["a.example"]}}]),
        'tools[].type="web_search_preview" filters are not supported.',
    ),
    "two": (
        body("responses", tools=[{"type": "web_search"}, {"type": "web_search_preview"}]),
        "Only one web search configuration may be provided.",
    ),
    "messages": (
        body(
            "messages",
            tools=[
                {
                    "type": "web_search_20250305",
                    "name": "web_search",
                    "allowed_domains": ["a.example"],
                    "blocked_domains": ["b.example"],
                }
            ],
        ),
        "allowed_domains or blocked_domains, not both",
    ),
}


@pytest.mark.parametrize(("asked", "message"), WRONG.values(), ids=WRONG.keys())
async def test_options_that_make_no_sense_are_refused_by_name(
    door: Door, site: Site, asked: tuple[str, Json], message: str
) -> None:
    model = ScriptedModel()

    async with door.serving(model, **site.config):
        status, answer = await post(door, asked)

    assert status == 400
    assert message in answer["error"]["message"]
    assert model.heard == []


async def test_a_search_that_may_not_touch_the_web_needs_a_folder(door: Door, site: Site, tmp_path: Any) -> None:
    (tmp_path / "tides.md").write_text("# Tides\n\nThey follow the moon.\n")
    asked = body("responses", tools=[{"type": "web_search", "external_web_access": False}])
    model = ScriptedModel(asks(SEARCH, query="moon"), says("There."))

    async with door.serving(ScriptedModel(), **site.config):
        refused, why = await post(door, asked)
    async with door.serving(model, enable_search=True, search={"folder": str(tmp_path)}):
        status, answer = await post(door, asked)

    assert refused == 400
    assert "this server has no search that does without the web" in why["error"]["message"]
    assert status == 200, answer
    assert offered(model) == [SEARCH]
    assert [one["title"] for one in result(model)["output"]] == ["Tides"]


async def test_a_request_that_does_without_the_web_is_not_offered_it(door: Door, site: Site) -> None:
    tools = [{"type": "web_search", "external_web_access": False}, CALLERS]
    model = ScriptedModel(says("Hm."))

    async with door.serving(model, **site.config):
        status, answer = await post(door, body("responses", tools=tools))

    assert status == 200, answer
    assert offered(model) == ["mine"]
    assert answer["warnings"][0].startswith("this server has no search that does without the web")


# ---- what is told about it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["chat/completions", "messages", "responses"])
async def test_a_stream_tells_of_searches_and_of_pages_that_are_read(door: Door, site: Site, name: str) -> None:
    model = ScriptedModel(asks(SEARCH, query="tides"), asks(EXTRACT, url=site.url("/tides")), says("Twice a day [1]."))

    async with door.serving(model, **site.config):
        events = await streamed(door, body(name))

    told = [data for event, data in events if event == "agentic_tool_call_progress"]
    assert [(one["tool_name"], one["phase"]) for one in told] == [
        (SEARCH, "calling"),
        (SEARCH, "complete"),
        (EXTRACT, "calling"),
        (EXTRACT, "complete"),
    ]
    searching, searched, reading, read = [one["data"] for one in told]
    assert searching == {"tool_type": "web_search", "query": "tides"}
    assert {name: searched[name] for name in ("tool_type", "query", "results_count", "sources")} == {
        "tool_type": "web_search",
        "query": "tides",
        "results_count": 2,
        "sources": [site.domain],
    }
    assert reading == {"tool_type": "web_search"}
    assert (read["tool_type"], read["results_count"], read["sources"]) == ("web_search", 1, [site.domain])


async def test_a_record_of_a_search_says_how_much_it_found(door: Door, site: Site) -> None:
    model = ScriptedModel(asks(SEARCH, query="tides"), says("Twice a day."))

    async with door.serving(model, **site.config):
        _, answer = await post(door, body("chat/completions"))

    [record] = answer["agentic_tool_calls"]
    assert record["result_content"] == f"2 results\nsources: {site.domain}"
    assert record["arguments"] == '{"query":"tides"}'


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.9.9.9",
        "2130706433",
        "0.0.0.0",
        "0.1.2.3",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "168.63.129.16",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::10.0.0.1]",
        "[64:ff9b:1::1]",
        "[2002:a00:1::]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "localhost",
    ],
)
async def test_no_address_of_the_servers_own_network_is_called(door: Door, site: Site, host: str) -> None:
    port = site.api.url.rpartition(":")[2]
    model = ScriptedModel(asks(EXTRACT, url=f"http://{host}:{port}/tides"), says("I could not."))

    async with door.serving(model, **{**site.config, "fetch_allow": ()}):
        status, answer = await post(door, body("chat/completions"))

    assert status == 200, answer
    [record] = answer["agentic_tool_calls"]
    assert record["data"]["error_code"] == "url_not_allowed"
    assert "which the operator of this server has not allowed" in result(model)["output"]
    assert site.api.asked == []


async def test_whoever_goes_on_with_a_run_counts_its_sources_on(door: Door, site: Site) -> None:
    files = Deleting()
    first = ScriptedModel(asks(SEARCH, query="salt"), asks("delete", path="/a"))
    then = ScriptedModel(asks(SEARCH, query="tides of the moon"), says("Salt [1], tides [2]."))
    site.find("salt")
    async with door.serving(first, files.tool, **site.config) as served, soon():
        run, question, left = await left_waiting(served, "default")
    site.find("salt", "tides")

    async with door.serving(then, files.tool, **site.config, journal=left) as served, soon():
        ended = await go_on(served, run, question)

    assert ended["result"]["text"] == "Salt [1], tides [2]."
    assert {one["title"]: one["number"] for one in result(then)["output"]} == {"Tides": 2, "Salt": 1}


# ---- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"search": {"backend": "searxng"}, "enable_search": True},
            "[search] cannot be used: Object missing required field",
        ),
        (
            {"search": {"backend": "altavista"}, "enable_search": True},
            "[search] cannot be used: Invalid value 'altavista'",
        ),
        (
            {"search": {"folder": "/not/there"}, "enable_search": True},
            "the folder to search in, '/not/there', is not there",
        ),
        ({"search": {"backend": "duckduckgo"}}, "[search] has no use without --enable-search"),
        ({"search_embedding_model": "m"}, "--search-embedding-model has no use without --enable-search"),
        (
            {"enable_search": True, "search_embedding_model": "embedding-gemma"},
            "--search-embedding-model is 'embedding-gemma'; it can be 'all-minilm-l6-v2', 'local:FILE.gguf'",
        ),
        ({"enable_search": True, "search_embedding_model": "local:/not/there.gguf"}, "/not/there.gguf"),
        ({"enable_search": True, "fetch_allow": ("10.0.0.0/8", "??")}, "'??' is not an address that can be allowed"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_by_name(config: Json, message: str) -> None:
    with pytest.raises(BadConfig) as raised:
        Server(make_config({"model": "script:test", **config}), MemoryJournal(), provider=ScriptedModel())

    assert message in str(raised.value)

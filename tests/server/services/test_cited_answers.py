"""Answers of a model that has searched: each dialect's own items, and what the text cites, by exact spans."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest
import pytest_asyncio
from mistralai.client import Mistral
from tests.interaction.doors import Door, Json, soon
from tests.server.http.test_capabilities import body, post
from tests.server.services.test_served_search import streamed
from tests.server.web_site import Site, web_site

from ronda.core.events import RunStarted
from ronda.core.parts import AssistantTurn, ToolTurn, UserTurn
from ronda.testing import Line, ScriptedModel, says
from ronda.testing import calls as asks
from ronda.wire.web.search import EXTRACT, SEARCH

TEXT = "🌊 Tides come twice a day [1][2]. See {url} for `a[1]`, or [9]. Salt: [1, 2]"


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[Site]:
    async with web_site() as served:
        yield served


def searching(site: Site, *more: Any) -> ScriptedModel:
    text = TEXT.format(url=site.url("/tides"))
    pieces = tuple([text[at : at + 3] for at in range(0, len(text), 3)])
    return ScriptedModel(asks(SEARCH, query="tides and the moon"), *more, Line(chunks=pieces))


def expected(site: Site) -> list[tuple[str, str]]:
    """What is cited, and of which page."""
    tides, salt = site.url("/tides"), site.url("/salt")
    return [("[1]", tides), ("[2]", salt), (tides, tides), ("1", tides), ("2", salt)]


def cited(text: str, annotations: list[Json]) -> list[tuple[str, str]]:
    return [(text[one["start_index"] : one["end_index"]], one["url"]) for one in annotations]


# ---- Chat -------------------------------------------------------------------------------------------------------------


async def test_chat_annotates_exactly_what_cites(door: Door, site: Site) -> None:
    asked = body("chat/completions", web_search_options={})

    async with door.serving(searching(site), **site.config):
        _, answer = await post(door, asked)
    async with door.serving(searching(site), **site.config):
        chunks = await streamed(door, asked)

    message = answer["choices"][0]["message"]
    assert {one["type"] for one in message["annotations"]} == {"url_citation"}
    assert cited(message["content"], [one["url_citation"] for one in message["annotations"]]) == expected(site)
    assert message["annotations"][0]["url_citation"]["title"] == "Tides"
    deltas = [chunk["choices"][0]["delta"] for name, chunk in chunks if name == "message" and chunk["choices"]]
    assert [delta["annotations"] for delta in deltas if "annotations" in delta] == [message["annotations"]]


@pytest.mark.parametrize("after", ["", "?after=4"], ids=["whole", "from the answer on"])
async def test_events_of_a_run_have_citations_as_data(door: Door, site: Site, after: str) -> None:
    """Also for a client that comes back, and has seen the search before."""
    async with door.serving(searching(site), **site.config) as served:
        await post(door, body("chat/completions", web_search_options={}))
        [run] = [events[0].run for events in await served.events if isinstance(events[0], RunStarted)]
        async with soon(), door.http.get(f"{door.url}/runs/{run}/events{after}") as answer:
            told = [json.loads(line[6:]) for line in (await answer.text()).splitlines() if line.startswith("data: ")]

    finished = [one for one in told if one["type"] == "model_finished"]
    *before, last = finished
    assert [one for one in before if "annotations" in one] == []
    text = "".join([part["text"] for part in last["turn"]["parts"]])
    assert cited(text, last["annotations"]) == expected(site)
    assert last["annotations"][0] == {
        "type": "url_citation",
        "start_index": 25,
        "end_index": 28,
        "url": site.url("/tides"),
        "title": "Tides",
        "number": 1,
    }


async def test_openais_own_helpers_add_streams_up(door: Door, site: Site) -> None:
    async with door.serving(searching(site), **site.config) as served, soon():
        client: Any = served.client()
        async with client.chat.completions.stream(
            model="default", messages=[{"role": "user", "content": "go"}]
        ) as stream:
            async for _ in stream:
                pass
            message = (await stream.get_final_completion()).choices[0].message
    async with (
        door.serving(searching(site), **site.config),
        soon(),
        client.responses.stream(model="default", input="go", tools=[{"type": "web_search"}]) as stream,
    ):
        kinds = [event.type async for event in stream]
        response = await stream.get_final_response()

    annotations = [one.url_citation.to_dict() for one in message.annotations]
    assert cited(message.content, annotations) == expected(site)
    assert kinds.count("response.output_text.annotation.added") == 5
    assert [item.type for item in response.output] == ["web_search_call", "message"]
    part = response.output[1].content[0]
    assert cited(part.text, [one.to_dict() for one in part.annotations]) == expected(site)


async def test_an_answer_without_a_search_has_no_annotations(door: Door, site: Site) -> None:
    async with door.serving(ScriptedModel(says("See [1].")), **site.config):
        _, answer = await post(door, body("chat/completions"))

    assert "annotations" not in answer["choices"][0]["message"]


FORMAT = {"type": "json_schema", "name": "a", "schema": {"type": "object", "properties": {"n": {"type": "array"}}}}


@pytest.mark.parametrize(
    "asked",
    [
        body("chat/completions", response_format={"type": "json_object"}),
        body("responses", text={"format": FORMAT}),
        body("messages", output_config={"format": {"type": "json_schema", "schema": FORMAT["schema"]}}),
        body("conversations", completion_args={"response_format": {"type": "json_object"}}),
    ],
    ids=["chat", "responses", "messages", "conversations"],
)
async def test_numbers_in_json_are_no_citations(door: Door, site: Site, asked: tuple[str, Json]) -> None:
    async with door.serving(ScriptedModel(asks(SEARCH, query="tides"), says('{"n": [1]}')), **site.config):
        status, answer = await post(door, asked)

    assert status == 200, answer
    assert '{"n": [1]}' in str(answer)  # in one piece
    assert "citation" not in json.dumps(answer)
    assert "tool_reference" not in str(answer)


# ---- Responses --------------------------------------------------------------------------------------------------------


async def test_responses_has_items_of_searches_and_annotations_of_exact_spans(door: Door, site: Site) -> None:
    model = searching(site, asks(EXTRACT, url=site.url("/salt")), asks(EXTRACT, url="http://10.0.0.1/"))

    async with door.serving(model, **site.config) as served, soon():
        client: Any = served.client()
        answer = await client.responses.create(
            model="default",
            input="go",
            tools=[{"type": "web_search", "search_context_size": "low"}],
            include=["web_search_call.action.sources"],
        )

    searched, read, failed, message = answer.output
    assert searched.type == read.type == failed.type == "web_search_call"
    assert searched.action.to_dict() == {
        "type": "search",
        "query": "tides and the moon",
        "queries": ["tides and the moon"],
        "sources": [{"type": "url", "url": site.url("/tides")}, {"type": "url", "url": site.url("/salt")}],
    }
    assert (searched.status, read.status, failed.status) == ("completed", "completed", "failed")
    assert read.action.to_dict() == {"type": "open_page", "url": site.url("/salt")}
    assert message.type == "message"
    [part] = message.content
    assert part.type == "output_text"
    assert cited(part.text, [one.to_dict() for one in part.annotations]) == expected(site)


async def test_a_stream_of_responses_adds_up_to_the_plain_answer(door: Door, site: Site) -> None:
    asked = body("responses", tools=[{"type": "web_search"}])

    async with door.serving(searching(site), **site.config):
        _, answer = await post(door, asked)
    async with door.serving(searching(site), **site.config):
        events = await streamed(door, asked)

    names = [name for name, _ in events if name not in ("agentic_tool_call_progress", "response.output_text.delta")]
    assert names == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.annotation.added"] * 5,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    [done] = [data["response"] for name, data in events if name == "response.completed"]
    annotations = [data["annotation"] for name, data in events if name == "response.output_text.annotation.added"]
    assert annotations == done["output"][1]["content"][0]["annotations"]
    assert [shape(item) for item in done["output"]] == [shape(item) for item in answer["output"]]
    assert "sources" not in done["output"][0]["action"]  # not asked for them


def shape(item: Json) -> Json:
    return {name: value for name, value in item.items() if name != "id"}


async def test_items_of_searches_that_come_back_are_calls_and_their_results(door: Door, site: Site) -> None:
    model = ScriptedModel(asks(SEARCH, query="tides"), says("Twice [1]."), says("Indeed."))

    async with door.serving(model, **site.config):
        _, first = await post(door, body("responses"))
        again = [{"role": "user", "content": "go"}, *first["output"], {"role": "user", "content": "Really?"}]
        status, answer = await post(door, body("responses", input=again))

    assert status == 200, answer
    assert [type(turn) for turn in model.heard[2]] == [UserTurn, AssistantTurn, ToolTurn, AssistantTurn, UserTurn]
    assert "web_search_call" not in str(model.heard[2])


async def test_a_conversation_that_goes_on_gives_no_number_twice(door: Door, site: Site) -> None:
    model = ScriptedModel(
        asks(SEARCH, query="salt"),
        says("Salt [1]."),
        asks(EXTRACT, url=site.url("/salt")),
        asks(SEARCH, query="tides of the moon"),
        says("Tides [2], salt [1]."),
    )
    site.find("salt")
    async with door.serving(model, **site.config):
        _, first = await post(door, body("responses"))
        site.find("tides", "salt")
        status, answer = await post(door, body("responses", previous_response_id=first["id"]))

    assert status == 200, answer
    part = answer["output"][-1]["content"][0]
    assert cited(part["text"], part["annotations"]) == [("[2]", site.url("/tides")), ("[1]", site.url("/salt"))]


# ---- Messages ---------------------------------------------------------------------------------------------------------

WEB: list[Json] = [
    {"type": "web_search_20250305", "name": "web_search"},
    {"type": "web_fetch_20250910", "name": "web_fetch"},
]


async def test_messages_has_blocks_of_searches_and_cited_text(door: Door, site: Site) -> None:
    model = searching(site, asks(EXTRACT, url=site.url("/salt")), asks(EXTRACT, url="http://10.0.0.1/"))

    async with door.serving(model, **site.config), soon():
        client: Any = anthropic.AsyncAnthropic(base_url=door.url.removesuffix("/v1"), api_key="any", max_retries=0)
        answer = await client.messages.create(
            model="default", max_tokens=999, messages=[{"role": "user", "content": "go"}], tools=WEB
        )
        await client.close()

    use, found, fetch, page, refused, error, *texts = answer.content
    assert use.type == fetch.type == refused.type == "server_tool_use"
    assert (use.name, use.input) == ("web_search", {"query": "tides and the moon"})
    assert use.id.startswith("srvtoolu_")
    assert found.type == "web_search_tool_result"
    assert found.tool_use_id == use.id
    assert isinstance(found.content, list)
    assert [(one.title, one.url) for one in found.content] == [
        ("Tides", site.url("/tides")),
        ("Salt", site.url("/salt")),
    ]
    assert (fetch.name, fetch.input) == ("web_fetch", {"url": site.url("/salt")})
    assert page.type == "web_fetch_tool_result"
    assert page.content.type == "web_fetch_result"
    assert page.content.url == site.url("/salt")
    assert page.content.content.source.type == "text"
    assert "Salt comes from the sea" in page.content.content.source.data
    assert error.type == "web_fetch_tool_result"
    assert (error.content.type, error.content.error_code) == ("web_fetch_tool_result_error", "url_not_allowed")
    assert stretches(site, [block.to_dict() for block in texts])
    counts = answer.usage.server_tool_use
    assert counts is not None
    assert (counts.web_search_requests, counts.web_fetch_requests) == (1, 2)


def stretches(site: Site, blocks: list[Json]) -> bool:
    tides, salt = site.url("/tides"), site.url("/salt")
    found = [(block["text"], [one["url"] for one in block.get("citations") or []]) for block in blocks]
    assert found == [
        ("🌊 Tides come twice a day [1][2]", [tides, salt]),
        (f". See {tides}", [tides]),
        (" for `a[1]`, or [9]. Salt: [1, 2]", [tides, salt]),
    ]
    first = blocks[0]["citations"][0]
    assert first["type"] == "web_search_result_location"
    assert first["title"] == "Tides"
    assert first["cited_text"].startswith("The tides follow the moon")
    return True


async def test_a_stream_of_messages_adds_up_to_the_plain_answer(door: Door, site: Site) -> None:
    asked = body("messages", tools=WEB)

    async with door.serving(searching(site), **site.config):
        _, answer = await post(door, asked)
    async with door.serving(searching(site), **site.config), soon():
        client: Any = anthropic.AsyncAnthropic(base_url=door.url.removesuffix("/v1"), api_key="any", max_retries=0)
        async with client.messages.stream(
            model="default", max_tokens=999, messages=[{"role": "user", "content": "go"}], tools=WEB
        ) as stream:
            final = await stream.get_final_message()
        await client.close()

    use, found, *texts = [block.to_dict() for block in final.content]
    assert use["input"] == {"query": "tides and the moon"}
    assert found["tool_use_id"] == use["id"]
    assert stretches(site, texts)
    assert [block["type"] for block in answer["content"]] == [block.type for block in final.content]
    assert answer["content"][2:] == [
        {name: value for name, value in text.items() if value is not None} for text in texts
    ]


def fetch(**settings: Any) -> list[Json]:
    return [{"type": "web_fetch_20260318", "name": "web_fetch", **settings}]


def reading(site: Site) -> ScriptedModel:
    return ScriptedModel(
        asks(EXTRACT, url="http://10.0.0.1/"), asks(EXTRACT, url=site.url("/salt")), says("From the sea [1]. So it is.")
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_messages_cite_a_page_that_was_read_as_a_document_where_that_is_enabled(
    door: Door, site: Site, stream: bool
) -> None:
    model = reading(site)
    tools = fetch(citations={"enabled": True}, use_cache=False)
    async with door.serving(model, **site.config), soon():
        client: Any = anthropic.AsyncAnthropic(base_url=door.url.removesuffix("/v1"), api_key="any", max_retries=0)
        asked = {"model": "default", "max_tokens": 999, "messages": [{"role": "user", "content": "go"}], "tools": tools}
        if stream:
            async with client.messages.stream(**asked) as events:
                answer = await events.get_final_message()
        else:
            answer = await client.messages.create(**asked)
        await client.close()

    *_, page, cited_text, rest = answer.content
    assert (cited_text.text, rest.text, rest.citations) == ("From the sea [1]", ". So it is.", None)
    [citation] = cited_text.citations
    assert (citation.type, citation.document_index, citation.document_title) == ("char_location", 0, "Salt")
    assert citation.to_dict()["url"] == site.url("/salt")
    document = page.content.content
    assert document.citations.enabled
    assert citation.cited_text == document.source.data[citation.start_char_index : citation.end_char_index]
    assert citation.cited_text
    assert "Cite the sources" in model.requests[0].tools[0].description


@pytest.mark.parametrize("settings", [{}, {"citations": None}, {"citations": {"enabled": False}}])
async def test_messages_cite_no_page_that_was_read_where_nobody_asks_for_it(
    door: Door, site: Site, settings: Json
) -> None:
    model = reading(site)
    async with door.serving(model, **site.config):
        status, answer = await post(door, body("messages", tools=fetch(**settings)))

    assert status == 200, answer
    assert answer["content"][-1] == {"type": "text", "text": "From the sea [1]. So it is."}
    assert answer["content"][-2]["content"]["content"]["citations"] is None
    assert "Cite the sources" not in model.requests[0].tools[0].description


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"url_sources": {"user_input": {"type": "none"}}}, "url_sources"),
        ({"allowed_callers": ["code_execution_20260120"]}, "allowed_callers"),
    ],
)
async def test_a_limit_of_pages_that_cannot_be_kept_to_is_refused(
    door: Door, site: Site, settings: Json, field: str
) -> None:
    async with door.serving(ScriptedModel(), **site.config):
        status, answer = await post(door, body("messages", tools=fetch(**settings)))

    assert status == 400
    assert f"tools[0].{field}" in answer["error"]["message"]


async def test_limits_of_pages_that_limit_nothing_are_taken(door: Door, site: Site) -> None:
    settings: Json = {
        "url_sources": {"user_input": {"type": "all"}},
        "allowed_callers": ["direct", "code_execution_20260120"],
        "response_inclusion": "excluded",
    }
    async with door.serving(reading(site), **site.config):
        status, _ = await post(door, body("messages", tools=fetch(**settings)))

    assert status == 200


async def test_citations_of_pages_that_come_back_are_for_nobody(door: Door, site: Site) -> None:
    model = ScriptedModel(asks(EXTRACT, url=site.url("/salt")), says("Sea [1]."), says("Indeed."))
    tools = fetch(citations={"enabled": True})
    async with door.serving(model, **site.config):
        _, first = await post(door, body("messages", tools=tools))
        again = [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": first["content"]},
            {"role": "user", "content": "Really?"},
        ]
        status, answer = await post(door, body("messages", messages=again, tools=tools))

    assert status == 200, answer
    before = model.heard[2][1]
    assert isinstance(before, AssistantTurn)
    assert before.native is None or b"char_location" not in bytes(before.native.payload)


async def test_blocks_of_searches_that_come_back_are_calls_and_no_blocks(door: Door, site: Site) -> None:
    model = ScriptedModel(asks(SEARCH, query="tides"), says("Twice [1]."), says("Indeed."))

    async with door.serving(model, **site.config):
        _, first = await post(door, body("messages"))
        assert [block["type"] for block in first["content"]] == [
            "server_tool_use",
            "web_search_tool_result",
            "text",
            "text",
        ]
        again = [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": first["content"]},
            {"role": "user", "content": "Really?"},
        ]
        status, answer = await post(door, body("messages", messages=again))

    assert status == 200, answer
    called, said = [turn for turn in model.heard[2] if isinstance(turn, AssistantTurn)]
    assert [call.name for call in called.calls] == [SEARCH]
    assert all(turn.native is None or b"_tool_" not in bytes(turn.native.payload) for turn in (called, said))
    assert said.text == "Twice [1]."


# ---- Mistral ----------------------------------------------------------------------------------------------------------


def chunk_shapes(site: Site, chunks: list[Json]) -> None:
    tides, salt = site.url("/tides"), site.url("/salt")
    assert [one["text"] if one["type"] == "text" else (one["tool"], one["title"], one["url"]) for one in chunks] == [
        "🌊 Tides come twice a day [1][2]",
        ("web_search", "Tides", tides),
        ("web_search", "Salt", salt),
        f". See {tides}",
        ("web_search", "Tides", tides),
        " for `a[1]`, or [9]. Salt: [1, 2]",
        ("web_search", "Tides", tides),
        ("web_search", "Salt", salt),
    ]


async def test_mistral_has_executions_and_references_behind_what_cites(door: Door, site: Site) -> None:
    async with door.serving(searching(site), **site.config), soon():
        client: Any
        async with Mistral(api_key="any", server_url=door.url.removesuffix("/v1")) as client:
            answer = await client.beta.conversations.start_async(
                model="default", inputs="go", tools=[{"type": "web_search"}]
            )

    execution, message = [entry.model_dump() for entry in answer.outputs]
    assert (execution["type"], execution["name"]) == ("tool.execution", "web_search")
    assert execution["arguments"] == '{"query":"tides and the moon"}'
    chunk_shapes(site, message["content"])
    assert answer.usage.connectors == {"web_search": 1}


async def test_a_stream_of_mistral_adds_up_to_the_plain_answer(door: Door, site: Site) -> None:
    async with door.serving(searching(site), **site.config):
        events = await streamed(door, body("conversations", tools=[{"type": "web_search"}]))

    chunks: dict[int, Json] = {}
    for name, data in events:
        if name != "message.output.delta":
            continue
        content = data["content"]
        if isinstance(content, str):
            chunks.setdefault(data["content_index"], {"type": "text", "text": ""})["text"] += content
        else:
            assert data["content_index"] not in chunks
            chunks[data["content_index"]] = content
    assert list(chunks) == list(range(8))
    chunk_shapes(site, list(chunks.values()))
    assert [data["name"] for name, data in events if name.startswith("tool.execution")] == ["web_search"] * 2

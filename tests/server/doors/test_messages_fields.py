"""What becomes of each field of a Messages request: what the model is asked, and what is ignored or refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, soon
from tests.interaction.upstreams import Upstream, answers
from tests.server.messages_door import CLAUDE, HI, PICK, claude_says, events, heard, post, said, text

from ronda.core.plan import Options, Plan
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities
from ronda.errors import BadRequest
from ronda.providers.script import ScriptedModel
from ronda.wire.anthropic.fields import FIELDS, IGNORED, NEEDED, OWN, PASSED_ON, REFUSED

OLD, NEW = "2023-06-01", "2026-10-21"
SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


async def options_of(door: Door, said: str = "ok", **fields: Any) -> Options:
    """What a model of another dialect is asked."""
    model = ScriptedModel(said)
    async with door.serving(model) as served:
        raw = await post(served, {"messages": [HI], **fields})
    assert raw.status == 200, raw.body
    return model.requests[0].options


# ---- for any model ---------------------------------------------------------------------------------------------------


async def test_the_usual_fields_are_what_they_are_elsewhere(door: Door) -> None:
    options = await options_of(
        door,
        max_tokens=7,
        temperature=0.5,
        top_p=0.9,
        stop_sequences=["a", "b"],
        seed=3,
        reasoning_effort="low",
    )

    assert options == Options(max_tokens=7, temperature=0.5, top_p=0.9, stop=("a", "b"), seed=3, reasoning_effort="low")


async def test_no_field_but_the_messages_is_needed(door: Door) -> None:
    assert await options_of(door) == Options()
    assert await options_of(door, messages="hi", max_tokens=None, system="", tools=[], metadata=None) == Options()


async def test_sampling_of_other_engines_is_passed_on(door: Door) -> None:
    sent: Json = dict.fromkeys([name for name in PASSED_ON if name != "grammar"], 1)
    sent |= {"logit_bias": {"1": 2}, "dry_sequence_breakers": ["x"], "chat_template_kwargs": {"a": 1}}

    extra = (await options_of(door, **sent)).extra
    assert {name: json.loads(bytes(raw)) for name, raw in extra.items()} == sent


@pytest.mark.parametrize(
    ("fields", "effort"),
    [
        ({"thinking": {"type": "disabled"}}, "none"),
        ({"thinking": {"type": "adaptive"}}, "medium"),
        ({"thinking": {"type": "between_tools"}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 8192, "display": "omitted"}}, "medium"),
        ({"thinking": {"type": "enabled", "budget_tokens": 16384}}, "high"),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, "high"),
        ({"output_config": {"effort": "max"}}, "xhigh"),
        ({"thinking": {"type": "disabled"}, "reasoning_effort": "low"}, "low"),
    ],
)
async def test_thinking_is_an_effort_to_reason(door: Door, fields: Json, effort: str) -> None:
    assert await options_of(door, **fields) == Options(reasoning_effort=effort)


class Thoughtless(ScriptedModel):
    """A model that cannot be told to think, and says so."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(check=self.check)

    def check(self, plan: Plan) -> None:
        if plan.options.reasoning_effort is not None:
            raise BadRequest("this model does not support 'reasoning_effort'", param="reasoning_effort")


async def test_a_model_that_cannot_think_answers_all_the_same(door: Door, stream: bool) -> None:
    model = Thoughtless("ok")

    async with door.serving(model) as served:
        raw = await post(served, {"messages": [HI], "thinking": {"type": "adaptive"}, "stream": stream})

    answer = dict(events(raw))["message_delta"] if stream else raw.json
    assert answer["warnings"] == ["this model cannot be told how much to think; 'thinking' was ignored"]
    assert model.requests[0].options == Options()


@pytest.mark.parametrize(
    "fields",
    [
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"output_format": {"type": "json_schema", "schema": SCHEMA}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_a_format_binds_the_answer(door: Door, stream: bool, fields: Json) -> None:
    model = ScriptedModel("no JSON", '{"a": 1}')

    async with door.serving(model) as served:
        raw = await post(served, {"messages": [HI], "stream": stream, **fields})

    answer_format = model.requests[0].options.response_format
    assert answer_format is not None
    assert (answer_format.type, json.loads(bytes(answer_format.schema))) == ("json_schema", SCHEMA)
    if stream:
        shown = [data["delta"]["text"] for name, data in events(raw) if name == "content_block_delta"]
        assert shown == ['{"a": 1}']
    else:
        assert raw.json["content"] == [text('{"a": 1}')]


async def test_any_json_can_be_asked_for(door: Door) -> None:
    options = await options_of(door, "{}", response_format={"type": "json_object"})

    assert options.response_format is not None
    assert options.response_format.type == "json_object"
    assert await options_of(door, response_format={"type": "text"}) == Options()


@pytest.mark.parametrize(
    "names",
    [
        ("output_config", "output_format"),
        ("output_format", "response_format"),
        ("response_format", "grammar"),
        ("output_config", "grammar"),
    ],
)
async def test_two_formats_at_once_are_refused(door: Door, names: tuple[str, str]) -> None:
    answer_format = {"type": "json_schema", "schema": SCHEMA}
    ways = {
        "output_config": {"format": answer_format},
        "output_format": answer_format,
        "response_format": {"type": "json_object"},
        "grammar": {"type": "regex", "value": "a"},
    }
    async with door.serving(ScriptedModel()) as served:
        raw = await post(served, {"messages": [HI], **{name: ways[name] for name in names}})

    assert raw.status == 400
    assert "mutually exclusive" in raw.json["error"]["message"]


async def test_metadata_is_kept_with_the_run(door: Door) -> None:
    async with door.serving(ScriptedModel("ok")) as served:
        await post(served, {"messages": [HI], "metadata": {"user_id": "u1"}})
        started: Any = (await served.events)[0][0]

    assert json.loads(bytes(started.about["metadata"])) == {"user_id": "u1"}


# ---- what only Anthropic has -----------------------------------------------------------------------------------------

SAMPLES: Json = {
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "output_config": {"effort": "low", "task_budget": {"type": "tokens", "total": 9}},
    "metadata": {"user_id": "u1"},
    "service_tier": "standard_only",
    "speed": "fast",
    "cache_control": {"type": "ephemeral"},
    "context_management": {"edits": []},
    "betas": ["a-1"],
    "inference_geo": "eu",
    "container": "box_1",
    "mcp_servers": [{"type": "url", "name": "x", "url": "https://x"}],
    "made_up_tomorrow": {"a": 1},
}


def test_there_is_a_sample_of_every_field_of_anthropic_s() -> None:
    assert SAMPLES.keys() == OWN.keys() | {"made_up_tomorrow"}


@pytest.mark.parametrize("name", SAMPLES)
async def test_anthropic_is_sent_its_own_fields(door: Door, name: str) -> None:
    async with Upstream(claude_says(text("ok"))) as upstream, door.serving(upstream.url, model=CLAUDE) as served:
        raw = await post(served, {"messages": [HI], "max_tokens": 4000, name: SAMPLES[name]})

    assert raw.status == 200, raw.body
    if name == "betas":
        assert upstream.heads[0]["anthropic-beta"] == "a-1"
    else:
        assert upstream.requests[0][name] == SAMPLES[name]


@pytest.mark.parametrize("name", SAMPLES)
async def test_others_are_not(door: Door, name: str) -> None:
    model = ScriptedModel("ok")
    why = OWN.get(name, "refused: it is unknown here")

    async with door.serving(model) as served:
        raw = await post(served, {"messages": [HI], name: SAMPLES[name]})

    if why.startswith("refused: "):
        how = "cannot be used here" if name in NEEDED else "is not supported with this model"
        expected = f"'{name}' {how}: {why.removeprefix('refused: ')}"
        assert (raw.status, raw.json["error"]["message"], model.heard) == (400, expected, [])
    elif name == "container":  # it is this server's to know: there is none of that name
        assert (raw.status, model.heard) == (404, [])
    else:
        assert raw.status == 200
        assert model.requests[0].options.extra == {}


async def test_the_betas_of_the_header_go_to_anthropic(door: Door) -> None:
    async with Upstream(claude_says(text("ok"))) as upstream, door.serving(upstream.url, model=CLAUDE) as served:
        await post(served, {"messages": [HI]}, {"anthropic-beta": "a-1, b-2"})

    assert upstream.heads[0]["anthropic-beta"] == "a-1,b-2"


async def test_a_format_is_said_to_anthropic_once(door: Door) -> None:
    schema = {**SCHEMA, "additionalProperties": False}
    config = {"effort": "low", "format": {"type": "json_schema", "schema": schema}}

    async with Upstream(claude_says(text('{"a":1}'))) as upstream, door.serving(upstream.url, model=CLAUDE) as served:
        raw = await post(served, {"messages": [HI], "output_config": config})

    assert raw.json["content"] == [text('{"a":1}')]
    assert upstream.requests[0]["output_config"] == config


async def test_tools_of_anthropic_s_own_go_to_anthropic_as_they_came(door: Door) -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    deferred = {**PICK, "defer_loading": True}

    async with Upstream(claude_says(text("ok"))) as upstream, door.serving(upstream.url, model=CLAUDE) as served:
        raw = await post(served, {"messages": [HI], "tools": [search, deferred]})

    assert raw.status == 200, raw.body
    assert upstream.requests[0]["tools"] == [search, deferred]


# ---- what is not to be had here----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("model", ["script", "anthropic"])
async def test_what_this_server_does_not_do_is_refused_by_name(door: Door, name: str, model: str) -> None:
    async with Upstream() as upstream:
        behind: Any = ScriptedModel() if model == "script" else upstream.url
        more: Json = {} if model == "script" else {"model": CLAUDE}
        async with door.serving(behind, **more) as served:
            raw = await post(served, {"messages": [HI], name: {"type": "create"}})

    assert raw.status == 400
    assert raw.json["error"]["message"] == f"'{name}' is not supported here: {REFUSED[name]}"


@pytest.mark.parametrize("role", ["system", "user"])
@pytest.mark.parametrize(
    ("settings", "way_out"),
    [
        ({"output_config": {"effort": "high"}}, "give 'output_config' next to 'messages'"),
        ({"clear_at": "next_user_message"}, "leave the message out once it is not to be read"),
    ],
)
async def test_what_one_message_alone_asks_for_is_refused_by_name(
    door: Door, role: str, settings: Json, way_out: str
) -> None:
    messages = [HI, {"role": role, "content": "Be brief.", **settings}]
    async with door.serving(ScriptedModel()) as served:
        raw = await post(served, {"messages": messages})

    assert (raw.status, raw.json["error"]["type"]) == (400, "invalid_request_error")
    assert f"'messages[1].{next(iter(settings))}'" in raw.json["error"]["message"]
    assert way_out in raw.json["error"]["message"]


async def test_a_message_that_asks_for_nothing_of_its_own_is_taken(door: Door) -> None:
    message = {"role": "system", "content": "Be brief.", "output_config": {}, "clear_at": "never"}
    assert await options_of(door, messages=[HI, message, {**message, "output_config": None}]) == Options()


@pytest.mark.parametrize("name", IGNORED)
async def test_what_makes_no_difference_is_taken(door: Door, name: str) -> None:
    assert await options_of(door, **{name: "x"}) == Options()


def test_every_field_has_an_entry_that_says_what_becomes_of_it() -> None:
    ways = ("read", "passed on", "ignored: ", "refused: ")
    assert all(what.startswith(ways) for what in FIELDS.values())
    assert FIELDS.keys() >= {"model", "messages", "max_tokens", "thinking", "session_id", "max_tool_rounds"}


# ---- versions of the API ---------------------------------------------------------------------------------------------

NOT_TAKEN: dict[str, Json] = {
    "temperature": {"temperature": 0.5},
    "top_p": {"top_p": 0.5},
    "top_k": {"top_k": 5},
    "messages[1].content[0].type": {
        "messages": [
            HI,
            said({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}),
            HI,
        ]
    },
    "messages[0].content[0].citations": {"messages": [heard({**text("x"), "citations": []})]},
}


@pytest.mark.parametrize("field", NOT_TAKEN)
async def test_what_the_newer_api_does_not_take_is_taken_by_the_older_and_without_a_version(
    door: Door, field: str
) -> None:
    body = {"messages": [HI], **NOT_TAKEN[field]}

    async with door.serving(ScriptedModel("a", "b")) as served:
        new = await post(served, body, {"anthropic-version": NEW})
        old = await post(served, body, {"anthropic-version": OLD})
        none = await post(served, body)

    assert (new.status, new.json["error"]["type"]) == (400, "invalid_request_error")
    assert f"'{field}'" in new.json["error"]["message"]
    assert (old.status, none.status) == (200, 200)


async def test_a_version_nobody_has_heard_of_is_refused(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        raw = await post(served, {"messages": [HI]}, {"anthropic-version": "2020-01-01"})

    assert raw.status == 400
    assert "'anthropic-version' is '2020-01-01'" in raw.json["error"]["message"]


# ---- blocks that are not known --------------------------------------------------------------------------------------

NOVELTIES: dict[str, Json] = {
    "user": {"messages": [heard(text("hi"), {"type": "hologram", "data": "x"})]},
    "assistant": {"messages": [HI, said({"type": "dream", "text": "x"}, text("ok")), HI]},
    "system": {"messages": [HI, {"role": "system", "content": [{"type": "tool_addition", "tool": "x"}]}]},
}


@pytest.mark.parametrize("side", NOVELTIES)
async def test_a_block_of_an_unknown_kind_goes_to_anthropic_alone(door: Door, side: str) -> None:
    body = NOVELTIES[side]

    async with door.serving(ScriptedModel("ok")) as served:
        elsewhere = await post(served, body)
    spec = "anthropic:claude-opus-5-5"
    async with Upstream(claude_says(text("ok"))) as upstream, door.serving(upstream.url, model=spec) as served:
        there = await post(served, body)

    kind = {"user": "hologram", "assistant": "dream", "system": "tool_addition"}[side]
    assert elsewhere.status == 400
    assert kind in elsewhere.json["error"]["message"]
    assert there.status == 200
    sent = [block for message in upstream.requests[0]["messages"] for block in message["content"]]
    assert [block for block in sent if block["type"] == kind] == [
        block
        for message in body["messages"]
        for block in message["content"]
        if type(block) is dict and block["type"] == kind
    ]


async def test_a_summary_of_what_was_compacted_is_heard_by_every_model(door: Door) -> None:
    model = ScriptedModel("ok")

    async with door.serving(model) as served:
        block = {"type": "compaction", "content": "They said hi."}
        raw = await post(served, {"messages": [HI, said(block, text("So.")), HI]})

    request: ModelRequest = model.requests[0]
    assert raw.status == 200
    assert [getattr(part, "text", "") for part in request.turns[1].parts] == ["They said hi.", "So."]  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["It is", "It is \n"])
async def test_words_that_the_model_goes_on_from_may_have_a_mark_for_the_cache(door: Door, text: str) -> None:
    marked = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
    messages = [{"role": "user", "content": "How is it?"}, {"role": "assistant", "content": [marked]}]
    says = {"type": "message", "content": [{"type": "text", "text": " fine."}], "stop_reason": "end_turn"}
    model = "anthropic:claude-sonnet-4-5"
    async with (
        Upstream(answers(json.dumps(says).encode())) as upstream,
        door.serving(upstream.url, model=model) as served,
        soon(),
        served.http.post(f"{served.url}/messages", json={"max_tokens": 9, "messages": messages}) as answer,
    ):
        assert answer.status == 200

    assert upstream.requests[0]["messages"][-1] == {"role": "assistant", "content": [{**marked, "text": "It is"}]}

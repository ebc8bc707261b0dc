"""What providers do about answers that would not do: grammars too large, forms under other names, ids that were not given."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw
from tests.interaction.upstreams import Act, Upstream, answers

from ronda import Agent, invoke_agent_async
from ronda.agent import where_is
from ronda.core.parts import user
from ronda.core.plan import AUTO, NO_OPTIONS, Options, ResponseFormat, ToolSpec
from ronda.core.request import ModelRequest
from ronda.drive import capabilities_of
from ronda.errors import UpstreamError
from ronda.providers import Where, open_provider

TOO_LARGE = "The compiled grammar is too large, which would cause performance issues. Simplify your tool schemas."
TOO_COMPLEX = "Schema is too complex for compilation."


def anthropic(*content: Any, stop: str = "end_turn") -> Act:
    said = {"type": "message", "content": list(content), "stop_reason": stop, "usage": {"input_tokens": 1}}
    return answers(json.dumps(said).encode())


def refused(message: str, status: int = 400, **members: Any) -> Act:
    return answers(json.dumps({"error": {"message": message, **members}}).encode(), status)


def asking(options: Options = NO_OPTIONS, tools: tuple[ToolSpec, ...] = ()) -> ModelRequest:
    return ModelRequest([user("Hi")], tools, AUTO, options, False, "run_123456789012", 0, 1, scratch={})


def form(schema: Any, strict: bool | None = True) -> Options:
    return Options(
        response_format=ResponseFormat("json_schema", "answer", Raw(json.dumps(schema).encode()), strict=strict)
    )


CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
CLAUDE = "anthropic:claude-sonnet-4-5"

# ---- strict schemas ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [TOO_LARGE, TOO_COMPLEX])
async def test_schemas_too_large_for_a_grammar_are_sent_again_without_one(message: str) -> None:
    strict = ToolSpec("look", parameters=Raw(json.dumps(CITY).encode()), strict=True)
    text = {"type": "text", "text": '{"city":"Paris"}'}
    async with Upstream(refused(message, type="invalid_request_error"), anthropic(text), anthropic(text)) as upstream:
        provider = open_provider(CLAUDE, Where(upstream.url))
        request = asking(form(CITY), (strict,))
        finished = await provider.call(request, lambda _: None)
        await provider.call(request, lambda _: None)  # the next round of the same run does not try again

    first, second, third = upstream.requests
    assert finished.turn.text == '{"city":"Paris"}'
    assert (first["tools"][0]["strict"], "format" in first["output_config"]) == (True, True)
    assert ("strict" in second["tools"][0], "output_config" in second) == (False, False)
    assert "JSON Schema" in second["system"]
    assert third == second


async def test_a_grammar_is_tried_without_only_once() -> None:
    async with Upstream(refused(TOO_LARGE), refused(TOO_LARGE)) as upstream:
        with pytest.raises(UpstreamError, match="too large"):
            await open_provider(CLAUDE, Where(upstream.url)).call(asking(form(CITY)), lambda _: None)

    assert len(upstream.bodies) == 2


async def test_an_answer_whose_members_had_to_be_renamed_comes_under_the_names_it_was_asked_for() -> None:
    schema = {**CITY, "properties": {"größe": {"type": "string"}}, "required": ["größe"]}
    names: list[str] = []

    async def act(exchange: Any) -> None:
        asked = exchange.json["output_config"]["format"]["schema"]
        names.extend(asked["properties"])
        text = json.dumps({names[0]: "tall"})
        said = {"type": "message", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
        await exchange.answer(json.dumps(said).encode())

    async with Upstream(act) as upstream:
        agent = Agent(model=CLAUDE, base_url=upstream.url, api_key="k", output=schema)
        answer = await invoke_agent_async(agent, "How tall?")

    assert answer == {"größe": "tall"}
    assert names[0].isascii()


OTHERWISE = {**CITY, "properties": {"city": {"type": "string", "examples": ["x"]}}}


@pytest.mark.parametrize(
    ("spec", "where", "options", "enforced"),
    [
        ("openai-chat:gpt-5", Where(), form(CITY), True),
        ("openai-chat:gpt-5", Where("http://localhost/v1"), form(CITY), False),
        ("openai-chat:gpt-5", Where(), form(CITY, strict=None), False),
        ("openai:gpt-5", Where(), form(CITY), True),
        ("openai:gpt-5", Where(), form(OTHERWISE), False),  # it goes out in another form
        (CLAUDE, Where(), form(CITY), True),
        (CLAUDE, Where(), form({**CITY, "properties": {"ß": {}}, "required": ["ß"]}), False),
        ("anthropic:claude-3-haiku", Where(), form(CITY), False),
        ("openai:gpt-5", Where(), NO_OPTIONS, False),
        ("gemini:gemini-3-pro", Where(), form(CITY), False),
    ],
)
def test_a_form_is_shown_as_it_comes_only_from_who_cannot_but_keep_it(
    spec: str, where: Where, options: Options, enforced: bool
) -> None:
    assert capabilities_of(open_provider(spec, where)).enforces_format(options) is enforced


# ---- ids ---------------------------------------------------------------------------------------------------------------


async def test_a_call_without_an_id_keeps_what_its_server_said_beside_it() -> None:
    extra = {"google": {"thought_signature": "c2ln"}}
    call = {"id": "", "type": "function", "function": {"name": "look", "arguments": "{}"}, "extra_content": extra}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    asks = answers(json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode())
    says = answers(b'{"choices":[{"message":{"role":"assistant","content":"Done."},"finish_reason":"stop"}]}')

    def look() -> str:
        """Look."""
        return "seen"

    async with Upstream(asks, says) as upstream:
        agent = Agent(model="openai-chat:m", base_url=upstream.url, api_key="k", tools=[look])
        assert await invoke_agent_async(agent, "go") == "Done."

    _, said, result = upstream.requests[1]["messages"]
    call_id = said["tool_calls"][0]["id"]
    assert call_id.startswith("call_")
    assert said == {"role": "assistant", "content": None, "tool_calls": [{**call, "id": call_id}]}
    assert result == {"role": "tool", "tool_call_id": call_id, "content": "seen"}


# ---- accounts and keys -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "retryable"),
    [
        ({"code": "insufficient_quota", "type": "insufficient_quota"}, False),
        ({"code": "rate_limit_exceeded", "type": "requests"}, True),
    ],
)
@pytest.mark.parametrize("spec", ["openai-chat:gpt-5", "openai:gpt-5"])
async def test_an_empty_account_is_not_a_busy_one(spec: str, members: dict[str, str], retryable: bool) -> None:
    async with Upstream(refused("You exceeded your current quota", 429, **members)) as upstream:
        with pytest.raises(UpstreamError) as caught:
            await open_provider(spec, Where(upstream.url)).call(asking(), lambda _: None)

    assert (caught.value.status, caught.value.retryable) == (429, retryable)


def test_a_key_for_gemini_has_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.setenv("GOOGLE_API_KEY", "google's")
    assert where_is("gemini:gemini-3-pro").key == "google's"
    monkeypatch.setenv("GEMINI_API_KEY", "gemini's")
    assert where_is("gemini:gemini-3-pro").key == "gemini's"


# ---- declarations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["openai-chat:gpt-5", "openai:gpt-5", CLAUDE, "gemini:gemini-3-pro", "mistral:m"])
@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "anthropic", "mistral"])
def test_a_declaration_goes_out_as_it_came_on_its_own_wire_alone(spec: str, api: str) -> None:
    native = {
        "openai-chat": {"type": "function", "function": {"name": "look", "x": 1}},
        "openai-responses": {"type": "function", "name": "look", "x": 1},
        "anthropic": {"name": "look", "input_schema": {"type": "object"}, "x": 1},
        "mistral": {"type": "function", "function": {"name": "look", "x": 1}},
    }[api]
    tool = ToolSpec("look", kind="caller", native=Raw(json.dumps(native).encode()), native_api=api)
    provider: Any = open_provider(spec, Where())

    body = json.loads(provider.capabilities.project(asking(tools=(tool,))).body)

    own = {"openai-chat:gpt-5": "openai-chat", "openai:gpt-5": "openai-responses", CLAUDE: "anthropic"}.get(spec)
    assert (native in body["tools"]) is (own == api)

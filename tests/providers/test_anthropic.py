"""The Anthropic provider against a server that plays Anthropic: what is sent, what is shown, and the whole loop."""

import json
from typing import Any

import pytest
from msgspec import Raw
from tests.conformance.anthropic_streams import told
from tests.conformance.anthropic_strict import refusals
from tests.interaction.upstreams import Act, Upstream, answers

from ronda import Agent, invoke_agent_async
from ronda.core.events import CallDelta, ModelFinished, Preview, TextDelta
from ronda.core.parts import AssistantTurn, Text, Usage, user
from ronda.core.plan import AUTO, NO_OPTIONS, Options, ToolSpec
from ronda.core.request import ModelRequest
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.providers import Where, open_provider
from ronda.providers.anthropic import MAX_PAUSES, Anthropic, endpoint

USAGE = {"input_tokens": 10, "output_tokens": 5}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def message(*content: Any, stop: str = "end_turn", **members: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": list(content),
        "stop_reason": stop,
        "usage": USAGE,
        **members,
    }


def says(*content: Any, **members: Any) -> Act:
    return answers(json.dumps(message(*content, **members)).encode())


def streams(*content: Any, **members: Any) -> Act:
    frames = told(message(*content, **members))
    body = "".join(f"event: {frame['type']}\ndata: {json.dumps(frame)}   \n\n" for frame in frames)
    return answers(body.encode(), kind="text/event-stream; charset=utf-8")


def asked(*, stream: bool = False, tools: tuple[ToolSpec, ...] = (), options: Options = NO_OPTIONS) -> ModelRequest:
    return ModelRequest([user("Hi")], tools, AUTO, options, stream, "run", 0, 1, scratch={})


async def call(provider: Any, request: ModelRequest) -> tuple[ModelFinished, list[Preview]]:
    shown: list[Preview] = []
    return await provider.call(request, shown.extend), shown


async def test_a_plain_call_says_who_it_is_and_gets_an_answer() -> None:
    async with Upstream(says(text("Hello."))) as upstream:
        provider = open_provider("anthropic:claude-sonnet-4-5", Where(upstream.url, "key"))
        finished, shown = await call(provider, asked())

    assert (finished, shown) == (ModelFinished(AssistantTurn((Text("Hello."),)), Usage(10, 5)), [])
    head = upstream.heads[0]
    assert (head["anthropic-version"], head["authorization"]) == ("2026-10-21", "Bearer key")
    assert "x-api-key" not in head
    assert upstream.requests[0]["messages"] == [{"role": "user", "content": [text("Hi")]}]


async def test_the_older_api_is_behind_an_option() -> None:
    async with Upstream(says(text("a")), says(text("b"))) as upstream:
        options = Options(temperature=0.5, extra={"betas": Raw(b'["x-1"]')})
        await call(Anthropic("claude-3-haiku", upstream.url, "key", version="2023-06-01"), asked(options=options))
        await call(
            Anthropic("claude-3-haiku", f"{upstream.url}?anthropic-version=2023-06-01", "key"), asked(options=options)
        )

    for head in upstream.heads:
        assert (head["anthropic-version"], head["x-api-key"]) == ("2023-06-01", "key")
        assert head["anthropic-beta"] == "x-1"
        assert "authorization" not in head
    assert upstream.requests[0] == upstream.requests[1]
    assert upstream.requests[0]["temperature"] == 0.5
    assert refusals(upstream.bodies[0], "2023-06-01") == []


async def test_sampling_that_the_newest_api_refuses_is_left_out_with_a_warning() -> None:
    options = Options(temperature=0.0, top_p=0.9, extra={"top_k": Raw(b"40")})
    async with Upstream(says(text("a"))) as upstream:
        finished, _ = await call(Anthropic("claude-sonnet-4-5", upstream.url), asked(options=options))

    assert not upstream.requests[0].keys() & {"temperature", "top_p", "top_k"}
    assert refusals(upstream.bodies[0]) == []
    why = "Anthropic's API of 2026-10-21 takes no such field; that of 2023-06-01 does"
    assert finished.warnings == tuple(f"'{name}' is not sent: {why}" for name in ("temperature", "top_p", "top_k"))


async def test_a_stream_is_shown_and_comes_to_the_plain_answer() -> None:
    content = (THOUGHT, text("See:"), {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "x"}})
    async with Upstream(streams(*content, stop="tool_use"), says(*content, stop="tool_use")) as upstream:
        provider = Anthropic("claude-sonnet-4-5", upstream.url)
        streamed, shown = await call(provider, asked(stream=True, tools=(ToolSpec("look"),)))
        plain, _ = await call(provider, asked(tools=(ToolSpec("look"),)))

    assert (streamed.turn.stop, streamed.usage) == (plain.turn.stop, plain.usage)
    assert streamed.turn.text == plain.turn.text == "See:"
    assert TextDelta("See:") in shown
    assert [type(one) for one in shown[-2:]] == [CallDelta, CallDelta]
    assert [body.get("stream") for body in upstream.requests] == [True, None]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_turn_that_pauses_is_gone_on_with(stream: bool) -> None:
    act = streams if stream else says
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    use = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    other = {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}}
    acts = (
        act(THOUGHT, text("One."), use, search, stop="pause_turn", container={"id": "box"}),
        act(text("Two."), other, stop="tool_use"),
    )
    async with Upstream(*acts) as upstream:
        finished, shown = await call(Anthropic("claude-sonnet-4-5", upstream.url), asked(stream=stream))

    assert upstream.requests[1]["messages"][1] == {"role": "assistant", "content": [THOUGHT, text("One."), use, search]}
    assert upstream.requests[1]["container"] == "box"
    assert finished.turn.text == "One.Two."
    assert (finished.turn.stop, finished.usage) == ("tool_calls", Usage(20, 10))
    assert [one.id for one in finished.turn.calls] == ["toolu_1", "toolu_2"]
    assert finished.turn.native is not None
    assert json.loads(bytes(finished.turn.native.payload)) == [THOUGHT, text("One."), use, search, text("Two."), other]
    if stream:
        assert {one.index: one.id for one in shown if type(one) is CallDelta} == {0: "toolu_1", 1: "toolu_2"}


async def test_a_turn_that_pauses_for_ever_is_cut() -> None:
    async with Upstream(*[says(text("x"), stop="pause_turn")] * (MAX_PAUSES + 2)) as upstream:
        finished, _ = await call(Anthropic("claude-sonnet-4-5", upstream.url), asked())

    assert len(upstream.bodies) == MAX_PAUSES + 1
    assert finished.turn.stop == "length"


async def test_errors_carry_the_api_s_words() -> None:
    busy = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    broken = b"event: message_start\ndata: " + json.dumps(told(message(text("x")))[0]).encode() + b"\n\n"
    acts = (answers(busy, 529, retry_after="7"), answers(broken, kind="text/event-stream"))
    async with Upstream(*acts) as upstream:
        provider = Anthropic("claude-sonnet-4-5", upstream.url)
        with pytest.raises(UpstreamError, match="529: Overloaded") as raised:
            await call(provider, asked())
        with pytest.raises(UpstreamBroken):
            await call(provider, asked(stream=True))

    assert (raised.value.retryable, raised.value.status) == (True, 529)


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://x/v1/", "https://x/v1/messages"),
        ("https://x/v1/messages", "https://x/v1/messages"),
        ("https://x/anthropic?a=b", "https://x/anthropic/v1/messages?a=b"),
    ],
)
def test_an_address_with_or_without_its_path_will_do(base: str, url: str) -> None:
    assert endpoint(base) == (url, None)


async def test_the_whole_loop_sends_thinking_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    uses = [{"type": "tool_use", "id": f"toolu_{n}", "name": "look", "input": {"at": str(n)}} for n in (1, 2)]
    async with Upstream(says(THOUGHT, text("Let me see."), *uses, stop="tool_use"), says(text("Done."))) as upstream:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "from the environment")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", upstream.url)

        def look(at: str) -> str:
            """Look at it."""
            if at == "2":
                raise ValueError("nothing there")
            return f"seen {at}"

        answer = await invoke_agent_async(Agent(model="anthropic:claude-sonnet-4-5", tools=[look]), "Look twice.")

    assert answer == "Done."
    first, second = upstream.requests
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert second["messages"][1] == {"role": "assistant", "content": [THOUGHT, text("Let me see."), *uses]}
    good, bad = second["messages"][2]["content"]
    assert good == {"type": "tool_result", "tool_use_id": "toolu_1", "content": "seen 1"}
    assert bad["is_error"] is True
    assert "nothing there" in bad["content"]
    assert upstream.heads[0]["authorization"] == "Bearer from the environment"
    assert [refusals(body) for body in upstream.bodies] == [[], []]


@pytest.mark.parametrize("model", ["claude-3-opus", "claude-sonnet-4-0", "claude-opus-4-5", "claude-opus-4-7", "x"])
@pytest.mark.parametrize("effort", [None, "none", "minimal", "low", "medium", "high", "xhigh"])
@pytest.mark.parametrize(
    "extra", [{}, {"thinking": {"type": "enabled", "budget_tokens": 60_000}}, {"max_completion_tokens": 7}]
)
def test_no_more_output_is_asked_for_than_the_provider_says_beforehand(
    model: str, effort: str | None, extra: dict[str, Any]
) -> None:
    provider = Anthropic(model, key="x")
    options = Options(
        reasoning_effort=effort, extra={name: Raw(json.dumps(value).encode()) for name, value in extra.items()}
    )
    asked = ModelRequest([user("Hi")], (), AUTO, options, False, "run", 0, 1, {})
    sent = json.loads(provider.project(asked).body)["max_tokens"]
    assert sent == provider.default_output(options)

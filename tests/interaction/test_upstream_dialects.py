"""What a client of our Chat door learns of the model's API behind it: warnings, refusals by name, signatures to bring back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.conformance import gemini_strict
from tests.interaction.doors import Door, Json, declared, result, user
from tests.interaction.every_door import NAMES, ask
from tests.interaction.upstreams import Act, Upstream, answers, streams

from ronda import Agent, invoke_agent_async
from ronda.core.events import Event, Warned
from ronda.core.parts import Image, Text, UserTurn
from ronda.core.plan import Options
from ronda.providers import Where, open_provider
from ronda.wire.gemini.contents import NO_SIGNATURE

MODEL = "gemini-3-pro"


def gemini(*parts: Json, stream: bool = False) -> Act:
    chunk = {
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1},
    }
    return streams(chunk) if stream else answers(json.dumps(chunk).encode())


def chat(content: str) -> Act:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return answers(json.dumps({"choices": [choice]}).encode())


# ---- warnings ----------------------------------------------------------------------------------------------------------


async def test_options_the_model_never_hears_of_are_warned_of_once(door: Door, stream: bool) -> None:
    async with Upstream(gemini({"text": "Hello."}, stream=stream)) as upstream:
        provider = open_provider(f"gemini:{MODEL}", Where(upstream.url))
        async with door.serving(provider) as served:
            said = await served.ask(stream=stream, logit_bias={"1": 1}, parallel_tool_calls=False)

    assert said.content == "Hello."
    assert said.warnings == [
        "'logit_bias' is not sent: Gemini has no equivalent",
        "'parallel_tool_calls' is not sent: Gemini has no equivalent",
    ]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "completions"])  # which takes no sampling at all
async def test_the_sampling_that_clients_ask_for_by_default_does_not_fail_at_the_newest_anthropic(
    door: Door, name: str
) -> None:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello."}], "usage": usage}
    act = answers(json.dumps({**message, "stop_reason": "end_turn"}).encode())
    sampling = {"temperature": 0.7, "top_p": 1.0}
    asked = {"completion_args": sampling} if name == "conversations" else sampling
    async with Upstream(act) as upstream:
        provider = open_provider("anthropic:claude-sonnet-4-5", Where(upstream.url))
        async with door.serving(provider) as served:
            heard = await ask(served, name, False, **asked)

    assert heard.text == "Hello."
    assert [warning.partition(":")[0] for warning in heard.warnings] == [
        "'temperature' is not sent",
        "'top_p' is not sent",
    ]
    assert not upstream.requests[0].keys() & sampling.keys()


async def test_an_image_for_a_model_that_cannot_see_is_a_note_to_it_and_a_warning_to_the_caller(
    door: Door, stream: bool
) -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "A cat?"}, "finish_reason": "stop"}]}
    act = streams(chunk, "[DONE]") if stream else chat("A cat?")
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    async with Upstream(act) as upstream:
        provider = open_provider("openai-chat:deepseek-chat", Where(upstream.url))
        async with door.serving(provider) as served:
            question = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}
            said = await served.ask([question], stream=stream)

    assert (said.content, said.warnings) == (
        "A cat?",
        ["an image is only mentioned to the model: this model cannot see"],
    )
    assert upstream.requests[0]["messages"][0]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "text", "text": "[an image was attached here, which you cannot see]"},
    ]


async def test_whoever_opens_a_model_may_say_whether_it_sees() -> None:
    turn = UserTurn((Text("Look."), Image("data:image/png;base64,AAAA")))
    sent = []
    for vision in (True, False, None):
        async with Upstream(chat("Well.")) as upstream:
            provider = open_provider("openai-chat:some-model", Where(upstream.url, vision=vision))
            await invoke_agent_async(Agent(model=provider), [turn])
        sent.append([part["type"] for part in upstream.requests[0]["messages"][0]["content"]])

    assert sent == [["text", "image_url"], ["text", "text"], ["text", "image_url"]]


async def test_a_warning_is_an_event_of_the_library_s_runs_too() -> None:
    events: list[Event] = []
    async with Upstream(gemini({"text": "Hi."}, stream=True)) as upstream:
        provider = open_provider(f"gemini:{MODEL}", Where(upstream.url))
        agent = Agent(model=provider, options=Options(parallel_tool_calls=False))
        await invoke_agent_async(agent, "go", on_event=events.append)

    assert [event.message for event in events if type(event) is Warned] == [
        "'parallel_tool_calls' is not sent: Gemini has no equivalent"
    ]


# ---- refusals ----------------------------------------------------------------------------------------------------------


async def test_the_older_version_of_an_api_takes_it() -> None:
    said = {"type": "message", "content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn"}
    async with Upstream(answers(json.dumps(said).encode())) as upstream:
        where = Where(upstream.url, "key", version="2023-06-01")
        provider = open_provider("anthropic:claude-sonnet-4-5", where)
        agent = Agent(model=provider, options=Options(temperature=0.5))
        assert await invoke_agent_async(agent, "go") == "Hi."

    assert upstream.requests[0]["temperature"] == 0.5
    assert (upstream.heads[0]["anthropic-version"], upstream.heads[0]["x-api-key"]) == ("2023-06-01", "key")


# ---- signatures --------------------------------------------------------------------------------------------------------

CALLS: list[Json] = [
    {"functionCall": {"name": "look", "args": {"at": "sky"}}, "thoughtSignature": "c2lnbmVk"},
    {"functionCall": {"name": "look", "args": {"at": "sea"}}},
]


async def answered(door: Door, stream: bool, spec: str) -> tuple[Mapping[str, Any], Json]:
    """A Chat client runs two calls of Gemini's itself and sends them back: the message it was given, and what went out."""
    acts = (gemini(*CALLS, stream=stream), gemini({"text": "Both blue."}))
    async with Upstream(*acts) as upstream:
        async with door.serving(open_provider(f"gemini:{MODEL}", Where(upstream.url))) as served:
            body = {"messages": [user("Sky and sea?")], "tools": [declared("look", at="string")], "stream": stream}
            message = read_message(await served.post(body), stream)
        async with door.serving(open_provider(spec, Where(upstream.url))) as served:
            results = [result(call["id"], "blue") for call in message["tool_calls"]]
            rest = {"messages": [user("Sky and sea?"), message, *results], "tools": body["tools"]}
            assert (await served.post(rest)).said.content == "Both blue."
    return message, upstream.requests[1]


def read_message(answer: Any, stream: bool) -> Json:
    """As the official SDK adds it up: members of a call are merged by its index."""
    if not stream:
        message: Json = answer.json["choices"][0]["message"]
        return {name: value for name, value in message.items() if value is not None}
    calls: dict[int, Json] = {}
    for chunk in answer.chunks:
        for choice in chunk["choices"]:
            for piece in choice["delta"].get("tool_calls") or ():
                call = calls.setdefault(piece["index"], {"function": {"name": "", "arguments": ""}})
                for name, value in (piece.get("function") or {}).items():
                    call["function"][name] += value
                call |= {name: value for name, value in piece.items() if name not in ("index", "function")}
    return {"role": "assistant", "content": None, "tool_calls": [calls[index] for index in sorted(calls)]}


async def test_thought_signatures_come_back_on_their_very_call(door: Door, stream: bool) -> None:
    message, request = await answered(door, stream, f"gemini:{MODEL}")

    extras = [call.get("extra_content") for call in message["tool_calls"]]
    assert extras == [{"google": {"thought_signature": "c2lnbmVk", "model": MODEL}}, None]
    parts = request["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == ["c2lnbmVk", None]
    assert gemini_strict.refusals(MODEL, request) == []


async def test_another_model_is_not_shown_signatures_it_did_not_make(door: Door) -> None:
    _, request = await answered(door, False, "gemini:gemini-3-flash-preview")

    parts = request["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == [NO_SIGNATURE, None]

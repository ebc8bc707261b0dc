"""POST /v1/completions with the official client: one prompt, one text, over any model."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from tests.interaction.doors import Door, soon
from tests.interaction.upstreams import Upstream, answers

from ronda.core.plan import ToolChoice
from ronda.providers.script import ScriptedModel, fails, says


async def _text(client: openai.AsyncOpenAI, stream: bool, **fields: Any) -> tuple[list[str], list[str], Any]:
    """The texts of the choices, how each ended, and what was used."""
    fields = {"model": "default", "prompt": "Once upon", **fields}
    async with soon():
        if not stream:
            answer = await client.completions.create(**fields)
            return [one.text for one in answer.choices], [one.finish_reason for one in answer.choices], answer.usage
        texts: dict[int, str] = {}
        ends: dict[int, str] = {}
        usage = None
        async for chunk in await client.completions.create(stream=True, **fields):
            usage = chunk.usage or usage
            for one in chunk.choices:
                texts[one.index] = texts.get(one.index, "") + one.text
                if one.finish_reason:
                    ends[one.index] = one.finish_reason
        return [texts[index] for index in sorted(texts)], [ends[index] for index in sorted(ends)], usage


async def test_a_prompt_is_answered_with_a_text(door: Door, stream: bool) -> None:
    model = ScriptedModel(says(" a time."))
    async with door.serving(model) as served:
        texts, ends, usage = await _text(served.client(), stream, max_tokens=9, stop=["."], temperature=0.5)
    assert (texts, ends) == ([" a time."], ["stop"])
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    options = model.requests[0].options
    assert (options.max_tokens, options.stop, options.temperature) == (9, (".",), 0.5)


async def test_a_limit_has_two_names_and_is_passed_on_under_one(door: Door) -> None:
    model = ScriptedModel(says(" a time."))
    async with door.serving(model) as served:
        await _text(served.client(), False, extra_body={"max_completion_tokens": 9})
        with pytest.raises(openai.BadRequestError, match="is another name for 'max_tokens' here, and they differ"):
            await _text(served.client(), False, max_tokens=1, extra_body={"max_completion_tokens": 9})
    options = model.requests[0].options
    assert (options.max_tokens, dict(options.extra), len(model.requests)) == (9, {}, 1)


async def test_the_text_begins_with_the_prompt_where_that_is_wanted(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(says(" a time."))) as served:
        texts, _, _ = await _text(served.client(), stream, echo=True)
    assert texts == ["Once upon a time."]


async def test_several_choices_come_side_by_side(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("one"), says("two"))) as served:
        texts, ends, _ = await _text(served.client(), stream, n=2, best_of=2)
    assert (sorted(texts), ends) == (["one", "two"], ["stop", "stop"])


async def test_a_stream_says_at_its_end_what_was_used_where_that_is_wanted(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served, soon():
        stream = await served.client().completions.create(
            model="default", prompt=["x"], stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert ([one.usage is not None for one in chunks][-1], chunks[-1].choices) == (True, [])
    assert not any(one.usage for one in chunks[:-1])


async def test_no_tool_is_offered(door: Door) -> None:
    model = ScriptedModel(says("Hello."))
    async with door.serving(model) as served:
        await _text(served.client(), stream=False)
    assert model.requests[0].choice == ToolChoice.NoTools


async def test_a_model_that_fails_is_an_error_with_its_status(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(fails("overloaded", status=400))) as served:
        with pytest.raises(openai.BadRequestError, match="overloaded"):
            await _text(served.client(), stream)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [1, 2, 3]}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"best_of": 3}, "best_of"),
        ({"suffix": "end"}, "suffix"),
        ({"logprobs": 9}, "logprobs"),
    ],
)
async def test_what_cannot_be_is_refused_by_name(door: Door, fields: dict[str, Any], param: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        with pytest.raises(openai.BadRequestError) as refused:
            await _text(served.client(), stream=False, **fields)
    assert refused.value.param == param


async def test_probabilities_come_in_the_form_of_this_api(door: Door) -> None:
    token = {"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": [{"token": "Hi", "logprob": -0.5}]}
    answer = {
        "choices": [
            {
                "message": {"role": "assistant", "content": "Hi"},
                "finish_reason": "stop",
                "logprobs": {"content": [token]},
            }
        ]
    }
    async with Upstream(answers(json.dumps(answer).encode())) as upstream, door.serving(upstream.url) as served, soon():
        found = await served.client().completions.create(model="default", prompt="x", logprobs=1)
    sent = upstream.requests[0]
    assert (sent["logprobs"], sent["top_logprobs"]) == (True, 1)
    assert found.choices[0].logprobs is not None
    assert found.choices[0].logprobs.model_dump() == {
        "tokens": ["Hi"],
        "token_logprobs": [-0.5],
        "top_logprobs": [{"Hi": -0.5}],
        "text_offset": [0],
    }

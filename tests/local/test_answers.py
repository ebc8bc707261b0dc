"""What a model on this machine answers, through the provider."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import Raw
from tests.local.markup.shapes import OWN
from tests.timeouts import soon

from ronda.core.events import LogprobsDelta, Preview, TextDelta
from ronda.core.output import fold
from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolCall, ToolResult, ToolTurn, Turn, user
from ronda.core.plan import AUTO, NONE, Options, ResponseFormat, ToolSpec
from ronda.core.request import ModelRequest
from ronda.errors import BadRequest, UpstreamError
from ronda.local.engine import Engine
from ronda.local.files import ModelFile
from ronda.local.machine import Sizing
from ronda.local.provider import LocalModel

if TYPE_CHECKING:
    from tests.local.conftest import Asking

COUNT = "Count from one to twenty in words."


async def warm(ask: Asking, prompt: str) -> None:
    """A prompt worked out in one go and one found again differ in the last bits, which may tip a close decision."""
    await ask(prompt, max_tokens=1)


async def test_a_stream_says_what_the_plain_answer_says(ask: Asking) -> None:
    await warm(ask, COUNT)
    plain, silence = await ask.watched(COUNT, stream=False, temperature=0, seed=1, max_tokens=24)
    streamed, shown = await ask.watched(COUNT, stream=True, temperature=0, seed=1, max_tokens=24)

    assert silence == []
    assert streamed.turn == plain.turn
    assert fold(shown).parts == plain.turn.parts
    assert (streamed.usage.input, streamed.usage.output) == (plain.usage.input, plain.usage.output)


async def test_the_same_seed_says_the_same_and_another_does_not(ask: Asking) -> None:
    how = {"temperature": 1.5, "max_tokens": 24}
    await warm(ask, "Tell me a story.")
    first, again, other = [(await ask("Tell me a story.", seed=seed, **how)).turn for seed in (7, 7, 8)]

    assert first == again
    assert first != other


async def test_more_than_there_are_slots_all_get_an_answer(ask: Asking) -> None:
    asked = [ask(f"Say something about the number {n}.", temperature=0, max_tokens=6) for n in range(5)]

    async with soon():
        answers = await asyncio.gather(*asked)

    assert [answer.usage.output for answer in answers] == [6] * 5
    assert all(answer.turn.stop == "length" for answer in answers)


async def test_the_next_round_finds_its_prompt_worked_out(ask: Asking) -> None:
    turns: list[Turn] = [SystemTurn("You are a librarian. " * 20), user("Which book is about whales?")]
    first = await ask(turns, temperature=0, max_tokens=8)
    second = await ask([*turns, first.turn, user("And about bees?")], temperature=0, max_tokens=4)

    assert second.usage.cached >= first.usage.input - 1
    assert second.usage.input - second.usage.cached < 40


async def test_a_stop_text_ends_the_answer_and_is_never_shown(ask: Asking) -> None:
    await warm(ask, COUNT)
    whole = (await ask(COUNT, temperature=0, max_tokens=24)).turn.text
    stop = whole[12:18]

    finished, shown = await ask.watched(COUNT, temperature=0, max_tokens=24, stop=(stop,))

    assert finished.turn.text == whole[: whole.index(stop)]
    assert finished.turn.stop == "stop"
    assert "".join([piece.text for piece in shown if isinstance(piece, TextDelta)]) == finished.turn.text


@pytest.mark.parametrize(("words", "size"), [(3000, r"\d{4} tokens"), (1_000_000, "5000008 characters")])
async def test_a_conversation_that_does_not_fit_is_refused_with_the_numbers(ask: Asking, words: int, size: str) -> None:
    with pytest.raises(UpstreamError, match=rf"has {size}.*holds 1024") as refused:
        await ask("word " * words)

    assert (refused.value.status, refused.value.retryable) == (400, False)


async def test_an_answer_ends_where_its_slot_does(model_file: ModelFile, engine: Engine) -> None:
    cramped = Engine(model_file, Sizing(1, 256, 5))
    options = Options(max_tokens=500, extra={"ignore_eos": Raw(b"true")})
    request = ModelRequest([user("word " * 180)], (), AUTO, options, False, "run", 0, 1, {})

    finished = await LocalModel(cramped).call(request, lambda _: None)

    assert finished.turn.stop == "length"
    assert finished.usage.total == 256


@pytest.mark.parametrize("asked", ["Count from 1 to 3.", "Write a list of colors."])
async def test_the_default_model_does_not_repeat_itself_until_its_tokens_are_used_up(ask: Asking, asked: str) -> None:
    finished = await ask(asked, temperature=0, max_tokens=300)

    assert finished.turn.stop == "stop", finished.turn.text


async def test_json_that_a_grammar_keeps_may_repeat_itself(ask: Asking) -> None:
    row = {"const": {"id": 0, "name": "same", "tags": ["a", "b"]}}
    schema = {"type": "array", "items": row, "minItems": 6, "maxItems": 6}

    finished = await ask("Go.", response_format=ResponseFormat("json_schema", schema=Raw(msgspec.json.encode(schema))))

    assert finished.turn.text == json.dumps([row["const"]] * 6)


async def test_probabilities_come_in_openais_words(ask: Asking) -> None:
    finished, shown = await ask.watched(
        "Hi", temperature=0, max_tokens=4, extra={"logprobs": b"true", "top_logprobs": b"2"}
    )

    said: dict[str, Any] = msgspec.json.decode(finished.logprobs)
    assert "".join([token["token"] for token in said["content"]]) == finished.turn.text
    for token in said["content"]:
        assert token.keys() == {"token", "logprob", "bytes", "top_logprobs"}
        assert token["top_logprobs"][0]["token"] == token["token"]  # the likeliest, at temperature 0
        assert len(token["top_logprobs"]) == 2
    assert _joined(shown) == said["content"]


def _joined(shown: list[Preview]) -> list[Any]:
    deltas = [msgspec.json.decode(piece.logprobs) for piece in shown if isinstance(piece, LogprobsDelta)]
    return [token for delta in deltas for token in delta["content"]]


async def test_probabilities_alone_have_no_alternatives(ask: Asking) -> None:
    finished = await ask("Hi", max_tokens=2, extra={"logprobs": b"true"})

    said: dict[str, Any] = msgspec.json.decode(finished.logprobs)
    assert [token["top_logprobs"] for token in said["content"]] == [[], []]


async def test_a_bias_decides_what_is_said(ask: Asking) -> None:
    finished = await ask("Hi", temperature=0, max_tokens=3, extra={"logit_bias": b'{"34": 100}'})

    assert finished.turn.parts == (Text("222"),)


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.5, "top_p": 0.5, "seed": 7},
        {"extra": {"top_k": b"5", "min_p": b"0.1", "typical_p": b"0.9"}},
        {"extra": {"presence_penalty": b"1", "frequency_penalty": b"0.5"}},
        {"extra": {"repetition_penalty": b"1.1"}},
        {"extra": {"repeat_penalty": b"1.1"}},
        {"extra": {"dry_multiplier": b"0.8", "dry_base": b"1.75", "dry_allowed_length": b"2"}},
        {"extra": {"dry_multiplier": b"0.8", "dry_sequence_breakers": b'["\\n"]'}},
        {"extra": {"ignore_eos": b"true", "logit_bias": b'{"5": -100}', "logprobs": b"true", "top_logprobs": b"2"}},
    ],
)
async def test_the_engine_takes_every_option_there_is(ask: Asking, options: dict[str, Any]) -> None:
    finished = await ask("Hello.", max_tokens=2, **options)

    assert finished.usage.output > 0


async def test_what_cannot_be_done_is_refused_by_name(ask: Asking) -> None:
    with pytest.raises(BadRequest, match="local models do not support 'prediction'"):
        await ask("Hi", extra={"prediction": b"{}"})


async def test_text_cannot_pose_as_a_turn(ask: Asking) -> None:
    honest = await ask("A", max_tokens=1)
    posing = await ask("A<|im_end|>", max_tokens=1)

    assert posing.usage.input > honest.usage.input + 1  # several ordinary tokens, where the control token would be one


async def test_usage_counts_what_was_read_and_said_and_how_long_it_took(ask: Asking) -> None:
    finished = await ask("Name a colour.", temperature=0, max_tokens=5)

    assert finished.usage.output == 5
    assert 20 < finished.usage.input < 60
    assert finished.usage.prompt_seconds > 0
    assert finished.usage.completion_seconds > 0


# As short as a template can be that words tools.
WORDS_TOOLS = """\
{%- for tool in tools or [] %}<tools>{{ tool.function.name }}</tools>{% endfor %}
{%- for message in messages %}<|im_start|>{{ message.role }} {{ message.content }}
{%- for call in message.tool_calls or [] %}<tool_call>{{ call.function.arguments | tojson }}</tool_call>{% endfor -%}
<|im_end|>{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant{% endif %}"""


async def test_a_model_that_writes_results_after_its_calls_is_stopped_there(
    model_file: ModelFile, engine: Engine
) -> None:
    (shape,) = [one for one in OWN if one.model == "FunctionGemma"]
    own = Engine(model_file, Sizing(1, 1024, 50), template=shape.template)
    await own.load()
    written = r"I see\.<start_function_response>response:now"
    extra = {"grammar": Raw(msgspec.json.encode({"type": "regex", "value": written}))}
    asked = ModelRequest([user("Now?")], (ToolSpec("now"),), NONE, Options(extra=extra), False, "run", 0, 1, {})

    finished = await LocalModel(own).call(asked, lambda _: None)

    assert (finished.turn.text, finished.turn.stop) == ("I see.", "stop")


async def test_a_template_that_words_tools_is_used(model_file: ModelFile, engine: Engine) -> None:
    own = Engine(model_file, Sizing(1, 512, 11), template=WORDS_TOOLS)
    await own.load()
    turns: list[Turn] = [
        user("Add."),
        AssistantTurn((ToolCall("call_1", "add", '{"a": 1}'),), "tool_calls"),
        ToolTurn((ToolResult("call_1", "one"),)),
    ]
    request = ModelRequest(turns, (ToolSpec("add"),), AUTO, Options(max_tokens=1), False, "run", 0, 1, {})

    finished = await LocalModel(own).call(request, lambda _: None)

    prompt = (
        "<tools>add</tools><|im_start|>user Add.<|im_end|>"
        '<|im_start|>assistant <tool_call>{"a": 1}</tool_call><|im_end|>'
        "<|im_start|>tool one<|im_end|><|im_start|>assistant"
    )
    assert finished.usage.input == len(await own.aside(lambda: own.tokenize(prompt)))

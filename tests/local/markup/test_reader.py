"""What models write, family by family: whole, and cut at every place."""

import json
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from tests.local.markup.shapes import OWN
from tests.local.markup.templates import TEMPLATES

from ronda.core.events import CallDelta, Preview, ReasoningDelta, TextDelta
from ronda.core.parts import AssistantPart, AssistantTurn, Reasoning, Stop, Text, ToolCall
from ronda.core.plan import ToolSpec
from ronda.local.markup import Family, MarkupReader, family_of

FAMILIES: Final = (
    {name: family_of(text) for name, text in TEMPLATES.items()}
    | {shape.family: family_of(shape.template) for shape in OWN}
    | {"generic": family_of("")}
)
TOOLS: Final = (
    ToolSpec(
        "get_weather",
        parameters=Raw(b'{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}'),
    ),
    ToolSpec("now"),
)
NAMES: Final = frozenset(tool.name for tool in TOOLS)


def call(name: str, arguments: str) -> ToolCall:
    return ToolCall("", name, arguments)


def fold(previews: Sequence[Preview]) -> tuple[AssistantPart, ...]:
    """A reader of previews that knows only what they say of themselves."""
    parts: list[Any] = []
    calls = 0
    for preview in previews:
        match preview:
            case TextDelta(text):
                if parts and isinstance(parts[-1], Text):
                    text = parts.pop().text + text
                parts.append(Text(text))
            case ReasoningDelta(text):
                if parts and isinstance(parts[-1], Reasoning):
                    text = parts.pop().text + text
                parts.append(Reasoning(text))
            case CallDelta(index, id, name, arguments):
                if index == calls:
                    calls += 1
                else:
                    assert index == calls - 1
                    arguments = parts.pop().arguments + arguments
                parts.append(ToolCall(id, name, arguments))
            case _:
                raise AssertionError(preview)
    return tuple(parts)


def read(
    family: Family,
    *pieces: str,
    stop: Stop = "stop",
    names: frozenset[str] = NAMES,
    tools: Sequence[ToolSpec] = TOOLS,
    thinking_open: bool = False,
) -> AssistantTurn:
    reader = MarkupReader(family, names, tools=tools, thinking_open=thinking_open)
    previews = [preview for piece in pieces for preview in reader.feed(piece)] + reader.end()
    turn = reader.finish(stop)
    assert fold(previews) == turn.parts
    return turn


def read_at_every_cut(family: Family, text: str, **options: Any) -> AssistantTurn:
    turn = read(family, text, **options)
    assert read(family, *text, **options) == turn
    for at in range(1, len(text)):
        assert read(family, text[:at], text[at:], **options) == turn
    return turn


PARIS: Final = call("get_weather", '{"city": "Paris"}')

# (family, text, parts): a turn that ends with its calls.
CALLS: Final[list[tuple[str, str, tuple[AssistantPart, ...]]]] = [
    (
        "hermes",
        'I look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\nSoon.',
        (Text("I look.\n"), PARIS, call("now", "{}"), Text("Soon.")),
    ),
    (
        "hermes, thinking",
        '<think>\nParis, so…\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
        (Reasoning("Paris, so…"), PARIS),
    ),
    (
        "qwen_xml",
        "<think>\nok\n</think>\n<tool_call>\n<function=get_weather>\n<parameter=city>\n75 <b>\n\nParis\n</parameter>\n"
        "<parameter=days>\n3\n</parameter>\n<parameter=more>\n[1, 2]\n</parameter>\n</function>\n</tool_call>",
        (
            Reasoning("ok"),
            call("get_weather", '{"city": "75 <b>\\n\\nParis", "days": 3, "more": [1, 2]}'),
        ),
    ),
    (
        "harmony",
        "<|channel|>analysis<|message|>Weather.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
        '<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>',
        (Reasoning("Weather."), Text("I look."), PARIS),
    ),
    (
        "gemma4",
        '<|channel>thought\nWeather.\n<channel|>I look.<|tool_call>call:get_weather{city:<|"|>"Paris", {FR}<|"|>,days:3,'
        'more:{ok:true,list:[<|"|>a<|"|>,1.5,null]}}<tool_call|><|tool_call>call:now{}<tool_call|>',
        (
            Reasoning("Weather."),
            Text("I look."),
            call(
                "get_weather",
                '{"city": "\\"Paris\\", {FR}", "days": 3, "more": {"ok": true, "list": ["a", 1.5, null]}}',
            ),
            call("now", "{}"),
        ),
    ),
    (
        "lfm2",
        'I look.<|tool_call_start|>[get_weather(city="Par\'is\\n", days=3, more={"a": None, \'b\': [True, "x"]}), now()]'
        "<|tool_call_end|>Soon.",
        (
            Text("I look."),
            call("get_weather", '{"city": "Par\'is\\n", "days": 3, "more": {"a": null, "b": [true, "x"]}}'),
            call("now", "{}"),
            Text("Soon."),
        ),
    ),
    ("llama3", '{"name": "get_weather", "parameters": {"city": "Paris"}}', (PARIS,)),
    (
        "mistral",
        'I look.[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]now[ARGS]{}',
        (Text("I look."), PARIS, call("now", "{}")),
    ),
    (
        "mistral_list",
        '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "abcdefghi"}, '
        '{"name": "now", "arguments": {}}]',
        (PARIS, call("now", "{}")),
    ),
    ("granite", '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]', (PARIS,)),
    (
        "generic",
        'I look.\n```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```\n',
        (Text("I look.\n"), PARIS),
    ),
]


@pytest.mark.parametrize(("family", "text", "parts"), CALLS, ids=[case[0] for case in CALLS])
def test_calls_are_read_as_the_family_writes_them(family: str, text: str, parts: tuple[AssistantPart, ...]) -> None:
    assert read_at_every_cut(FAMILIES[family], text) == AssistantTurn(parts, "tool_calls")


# The same, less tidy: what models are known to make of it.
VARIANTS: Final[list[tuple[str, str, tuple[AssistantPart, ...]]]] = [
    ("hermes", '<tool_call>{"arguments": {"city": "Paris"}, "name": "get_weather"}}\n</tool_call>', (PARIS,)),
    ("hermes", '<tool_call>\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>', (call("now", "{}"),)),
    (
        "hermes",
        '<tool_call>\n{"name": "now", "arguments": {}}\n{"name": "now", "arguments": null}\n</tool_call>',
        (call("now", "{}"), call("now", "")),
    ),
    ("hermes", '<tool_call>[{"name": "now", "arguments": {}}]</tool_call>', (call("now", "{}"),)),
    ("hermes", '<tool_call>{"type": "function", "function": {"name": "now", "arguments": {}}}', (call("now", "{}"),)),
    ("hermes", '<tool_call>\n{"name": "nowhere", "arguments": {"a": 1}}\n</tool_call>', (call("nowhere", '{"a": 1}'),)),
    ("hermes", '<tool_call>{"name": "now", "arguments": {"a": 1,}}</tool_call>', (call("now", '{"a": 1,}'),)),
    ("hermes", '<tool_call>{"name": "now", oops}</tool_call> bye', (call("now", "oops}"), Text("bye"))),
    (
        "hermes, thinking",
        '<think>\nlet me\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
        (Reasoning("let me"), call("now", "{}")),
    ),
    ("qwen_xml", '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>', (call("now", "{}"),)),
    ("qwen_xml", "<tool_call>\n<function=now>\n</function>\n</tool_call>", (call("now", "{}"),)),
    # What opens the wrapper is left out before a call's own tag, and its end may come anyway.
    ("qwen_xml", "<function=now>\n</function>\n</tool_call>", (call("now", "{}"),)),
    (
        "qwen_xml",
        "I look.\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>",
        (Text("I look.\n"), PARIS),
    ),
    ("qwen_xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</function>\n</tool_call>", (PARIS,)),
    (
        "qwen_xml",
        "<tool_call>\n<function=get_weather>\n<parameter=more>\n{'a': [True, None]}\n</parameter>\n</function>\n</tool_call>",
        (call("get_weather", '{"more": {"a": [true, null]}}'),),
    ),
    (
        "qwen_xml",
        '<tool_call>\n<function=get_weather>\n<parameter=city type="string">\nParis\n</parameter>\n</function>\n</tool_call>',
        (PARIS,),
    ),
    ("seed", "<seed:tool_call><function=now></function></seed:tool_call>", (call("now", "{}"),)),
    ("glm", "<tool_call>now</tool_call>", (call("now", "{}"),)),
    ("glm", '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>', (call("now", "{}"),)),
    ("minimax", "<minimax:tool_call><invoke name='now'></invoke></minimax:tool_call>", (call("now", "{}"),)),
    (
        "kimi",
        '<|tool_call_begin|>get_weather:3 <|tool_call_argument_begin|> {"city": "Paris"} <|tool_call_end|>',
        (PARIS,),
    ),
    (
        "deepseek",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜>",
        (call("now", "{}"),),
    ),
    ("deepseek_r1", "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>", (call("now", "{}"),)),
    ("phi4", 'functools[{"name": "now", "arguments": {}}]', (call("now", "{}"),)),
    ("pythonic", "Sure.\n[now(), get_weather(city='Paris')]", (Text("Sure.\n"), call("now", "{}"), PARIS)),
    ("pythonic", '```tool_code\nget_weather(city="Paris")\n```', (PARIS,)),
    ("pythonic", "<|python_start|>[now()]<|python_end|>", (call("now", "{}"),)),
    ("generic", '[{"name": "now", "arguments": {}}, {"name": "now"}]', (call("now", "{}"), call("now", ""))),
    # These are read whatever the template is.
    ("hermes", '<tool_calls>[{"name": "now", "arguments": {}}]</tool_calls>', (call("now", "{}"),)),
    (
        "generic",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        (call("now", "{}"),),
    ),
    (
        "mistral",
        '<atem:function_calls>\n<atem:invoke name="now">\n</atem:invoke>\n</atem:function_calls>',
        (call("now", "{}"),),
    ),
    (
        "harmony",
        ' to=functions.get_weather<|channel|>commentary json<|message|>{"city": "Paris"}',
        (PARIS,),
    ),
    (
        "harmony",
        "<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>analysis to=functions.now<|message|>{}<|call|>",
        (Reasoning("Hm."), call("now", "{}")),
    ),
    (
        "lfm2",
        "<|tool_call_start|>[get_weather(city='the 'old' town', unit=celsius)]<|tool_call_end|>",
        (call("get_weather", '{"city": "the \'old\' town", "unit": "celsius"}'),),
    ),
    ("lfm2", '<|tool_call_start|>[{"name": "now", "arguments": {}}]<|tool_call_end|>', (call("now", "{}"),)),
    ("lfm2", '<|tool_call_start|>[now("x")]<|tool_call_end|>', (call("now", '{"x")]'),)),
    (
        "llama3",
        'Sure.\n{"type": "function", "name": "now", "parameters": {}}; {"name": "get_weather", "parameters": {"city": "Paris"}}',
        (Text("Sure.\n"), call("now", "{}"), PARIS),
    ),
    ("llama3", '<|python_tag|>{"name": "now", "parameters": {}}', (call("now", "{}"),)),
    ("llama3", '<|python_tag|>search.call(query="x y")<|eom_id|>', (call("search", '{"query": "x y"}'),)),
    ("mistral", '[TOOL_CALLS]get_weather[CALL_ID]a1B2c3D4e[ARGS]{"city": "Paris"}', (PARIS,)),
    ("mistral", '[TOOL_CALLS]get_weather{"city": "Paris"}', (PARIS,)),
    ("granite", '<tool_call>[{"name": "now", "arguments": {}}]</tool_call>', (call("now", "{}"),)),
    ("generic", '<tool_call>{"name": "now", "arguments": {}}</tool_call>', (call("now", "{}"),)),
    ("generic", '{"name": "now"}', (call("now", ""),)),
]


@pytest.mark.parametrize(("family", "text", "parts"), VARIANTS)
def test_calls_that_are_written_less_tidily_are_calls(family: str, text: str, parts: tuple[AssistantPart, ...]) -> None:
    assert read_at_every_cut(FAMILIES[family], text) == AssistantTurn(parts, "tool_calls")


PROSE: Final = [
    ("hermes", "Write <tool_call> before and </tool_call> after the object."),
    ("hermes", "The marker is <tool_call>"),
    ("hermes", 'An object is {"name": "x", "arguments": {}} in JSON.'),
    ("hermes", "a < b, <tool and <tool_calls> and <think> are text"),
    ("qwen_xml", "Between <tool_call> and <function>."),
    ("llama3", '{"name": "Alice", "age": 3}\n{"answer": 42}\n{ not json'),
    ("llama3", 'We say {"name": "now", "parameters": {}} inline.'),
    ("generic", '```json\n{"name": "Alice", "age": 3}\n```\nand\n```python\nprint(1)\n```'),
    ("generic", '{"name": "Alice"'),
    ("harmony", "No channel at all, a < b."),
    ("gemma4", "a < b and <| c"),
    ("qwen_xml", "A tag like <function=…\n> is text."),
    ("qwen_xml", "Begin with <function=name> and go on."),
    ("glm", "Write <tool_call> and a name."),
    ("pythonic", "[see below] and [1, 2]\n[other(x=1)]"),
    ("hunyuan", "Between <tool_calls> and </tool_calls>."),
    ("mistral", "an [array] of [TOOL"),
]


@pytest.mark.parametrize(("family", "text"), PROSE)
def test_what_only_looks_like_a_call_is_text(family: str, text: str) -> None:
    assert read_at_every_cut(FAMILIES[family], text) == AssistantTurn((Text(text),))


def test_an_object_without_a_marker_is_no_call_when_there_are_no_tools() -> None:
    text = '{"name": "now", "parameters": {}}'
    turn = read_at_every_cut(FAMILIES["llama3"], text, names=frozenset(), tools=())
    assert turn == AssistantTurn((Text(text),))


THOUGHTS: Final = [
    ("hermes, thinking", "<think>\nhm\n\n</think>\n\nHello", False),
    ("hermes, thinking", "hm\n</think>\nHello", True),
    ("hermes", "<think>hm</think>Hello", False),
    ("gemma4", "<|channel>thought\nhm<channel|>Hello<turn|>", False),
    (
        "harmony",
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hello<|return|>",
        False,
    ),
    ("harmony", "hm<|end|><|start|>assistant<|channel|>final<|message|>Hello", True),
    ("granite", "<think>hm</think>\n<response>Hello</response>", False),
    ("mistral", "[THINK]hm[/THINK]Hello", False),
    ("cohere", "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>Hello<|END_RESPONSE|>", False),
    ("atem", " to=self<|message|>hm<|eom|><|start|>assistant to=user<|message|>Hello<|eot|>", False),
    # Marks of thoughts that come a second time, or with nothing to end.
    ("gemma4", "<|channel>thought\n<|channel>thought\nhm<channel|>Hello<channel|>", False),
    ("gemma4", "<|channel>thought\nhm<channel|><|channel>thought\n<channel|>Hello", False),
    ("mistral", "[THINK]hm[/THINK][/THINK]Hello", False),
]


@pytest.mark.parametrize(("family", "text", "thinking_open"), THOUGHTS)
def test_thoughts_are_split_off(family: str, text: str, thinking_open: bool) -> None:
    turn = read_at_every_cut(FAMILIES[family], text, thinking_open=thinking_open)
    assert turn == AssistantTurn((Reasoning("hm"), Text("Hello")))


def test_a_thought_in_the_middle_of_a_line_is_one_where_its_marks_are_no_words() -> None:
    turn = read_at_every_cut(FAMILIES["gemma4"], "Hello <|channel>thought\nhm<channel|>you.")
    assert turn == AssistantTurn((Text("Hello "), Reasoning("hm"), Text("you.")))


def test_the_end_of_a_thought_that_nobody_saw_begin_is_not_shown() -> None:
    assert read_at_every_cut(FAMILIES["hermes, thinking"], "So it is.</think>Hello").text == "So it is.Hello"
    assert read_at_every_cut(FAMILIES["mistral"], "So.[/THINK]Hello").text == "So.Hello"


@pytest.mark.parametrize(
    ("family", "think", "quoted"),
    [
        ("mistral", ("[THINK]", "[/THINK]"), "[TOOL_CALLS]now[ARGS]{}"),
        ("lfm2", ("<think>", "</think>"), "<|tool_call_start|>[now()]<|tool_call_end|>"),
    ],
)
def test_a_call_quoted_in_a_thought_does_not_run_though_its_marks_are_tokens(
    family: str, think: tuple[str, str], quoted: str
) -> None:
    known = replace(FAMILIES[family], think=think)
    turn = read_at_every_cut(known, f"{think[0]}I could write {quoted} here.{think[1]}Hello")
    assert turn == AssistantTurn((Reasoning(f"I could write {quoted} here."), Text("Hello")))
    unclosed = read_at_every_cut(known, f"{think[0]}I do it: {quoted}")
    assert unclosed == AssistantTurn((Reasoning("I do it:"), call("now", "{}")), "tool_calls")


def test_marks_around_calls_inside_an_unfinished_thought_are_not_shown() -> None:
    kimi = FAMILIES["kimi"]
    section = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
        "<|tool_calls_section_end|>"
    )
    turn = read_at_every_cut(kimi, f"<think>I do it: {section}")
    assert turn == AssistantTurn((Reasoning("I do it:"), call("now", "{}")), "tool_calls")
    quoted = read_at_every_cut(kimi, f"<think>I could write {section} here.</think>Hello")
    assert quoted == AssistantTurn((Reasoning(f"I could write {section} here."), Text("Hello")))


@pytest.mark.parametrize(("channel", "part"), [("analysis", Reasoning("hm")), ("final", Text("hm"))])
def test_the_last_channel_of_a_header_counts(channel: str, part: AssistantPart) -> None:
    written = f"<|channel|>commentary to=assistant<|channel|>{channel}<|message|>hm<|end|>"
    assert read_at_every_cut(FAMILIES["harmony"], written) == AssistantTurn((part,))


def test_a_mark_that_could_have_become_a_longer_one_is_not_shown_where_the_text_ends() -> None:
    assert read_at_every_cut(FAMILIES["gemma4"], "Hello.<|channel>").text == "Hello."
    assert read_at_every_cut(FAMILIES["gemma4"], "Hello.<|channel>t").text == "Hello.t"


@pytest.mark.parametrize(
    "text",
    [
        ' functools[{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "now", "arguments": {}}]',
        '<function_call> {"name": "get_weather", "arguments": {"city": "Paris"}}\n'
        '<function_call> {"name": "now", "arguments": {}}',
    ],
)
def test_models_whose_template_is_not_known_may_write_as_they_were_trained(text: str) -> None:
    turn = read_at_every_cut(FAMILIES["generic"], text)
    assert turn == AssistantTurn((PARIS, call("now", "{}")), "tool_calls")


def test_the_words_of_such_models_are_words_where_no_call_follows() -> None:
    text = "import functools\nfunctools[0] and <function_call> are words."
    assert read_at_every_cut(FAMILIES["generic"], text).text == text


def test_the_end_of_a_turn_that_is_spelled_out_is_not_shown() -> None:
    assert read_at_every_cut(FAMILIES["glm"], "Hello.<|role_end|>").text == "Hello."


@pytest.mark.parametrize(("written", "city"), [("x = 1\n", "x = 1\n"), ("\nParis\n", "Paris")])
def test_where_a_template_writes_no_ends_of_lines_around_a_text_only_a_pair_of_them_is_no_text(
    written: str, city: str
) -> None:
    text = f"<seed:tool_call><function=get_weather><parameter=city>{written}</parameter></function></seed:tool_call>"
    assert read_at_every_cut(FAMILIES["seed"], text).calls == (call("get_weather", json.dumps({"city": city})),)


def test_a_thought_without_content_is_none() -> None:
    assert read_at_every_cut(FAMILIES["hermes"], "<think>\n\n</think>\n\nHello") == AssistantTurn((Text("Hello"),))


def test_a_draft_inside_a_thought_is_not_a_call() -> None:
    draft = 'maybe\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\nor not'
    turn = read_at_every_cut(FAMILIES["hermes"], f"<think>\n{draft}\n</think>\nHello")
    assert turn == AssistantTurn((Reasoning(draft), Text("Hello")))


CUT: Final[list[tuple[str, str, tuple[AssistantPart, ...]]]] = [
    (
        "hermes",
        'Hi.<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par',
        (Text("Hi."), call("get_weather", '{"city": "Par')),
    ),
    ("hermes", '<tool_call>\n{"name": "get_weather"', (call("get_weather", ""),)),
    ("hermes", 'Hi.<tool_call>\n{"na', (Text("Hi."),)),
    ("qwen_xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\nPar", (call("get_weather", '{"city": "Par'),)),
    ("harmony", '<|channel|>commentary to=functions.now <|constrain|>json<|message|>{"a', (call("now", '{"a'),)),
    ("harmony", "<|channel|>commentary to=functions.no", ()),
    ("gemma4", '<|tool_call>call:get_weather{city:<|"|>Par', (call("get_weather", '{"city": "Par'),)),
    ("lfm2", '<|tool_call_start|>[get_weather(city="Par', (call("get_weather", '{"city": "Par'),)),
    ("mistral", '[TOOL_CALLS]get_weather[ARGS]{"city"', (call("get_weather", '{"city"'),)),
    ("granite", '<|tool_call|>[{"name": "now", "arguments": {"a": ', (call("now", '{"a": '),)),
    ("glm", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Par", (call("get_weather", '{"city": "Par'),)),
    ("dsml", '<｜DSML｜function_calls>\n<｜DSML｜invoke name="now">', (call("now", "{"),)),
    ("kimi", '<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{"a', (call("now", '{"a'),)),
    ("llama3", '{"name": "now", "parameters": {"a"', (call("now", '{"a"'),)),
]


@pytest.mark.parametrize("stop", ["stop", "length"])
@pytest.mark.parametrize(("family", "text", "parts"), CUT)
def test_a_call_that_was_cut_off_never_runs(
    family: str, text: str, parts: tuple[AssistantPart, ...], stop: Stop
) -> None:
    assert read_at_every_cut(FAMILIES[family], text, stop=stop) == AssistantTurn(parts, "length")


def test_a_call_that_lacks_only_the_end_of_its_wrapper_is_whole() -> None:
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}'
    assert read_at_every_cut(FAMILIES["hermes"], text) == AssistantTurn((PARIS,), "tool_calls")


def test_whole_calls_do_not_run_when_the_engine_ran_out_of_tokens() -> None:
    turn = read(FAMILIES["hermes"], '<tool_call>{"name": "now", "arguments": {}}</tool_call>and th', stop="length")
    assert turn == AssistantTurn((call("now", "{}"), Text("and th")), "length")


def test_text_and_arguments_are_shown_as_they_come() -> None:
    reader = MarkupReader(FAMILIES["hermes"])
    assert reader.feed("Hello <to") == [TextDelta("Hello ")]
    assert reader.feed("p> <tool_call>\n") == [TextDelta("<top> ")]
    assert reader.feed('{"name": "now", "argu') == [CallDelta(0, "", "now", "")]
    assert reader.feed('ments": {"a": "b') == [CallDelta(0, "", "now", '{"a": "b')]
    assert reader.feed(' c"}') == [CallDelta(0, "", "now", ' c"}')]
    assert reader.feed("}\n</tool_call>") == []
    assert reader.feed("Done </tool") == [TextDelta("Done ")]
    assert reader.end() == [TextDelta("</tool")]


def test_arguments_in_other_notations_are_shown_as_they_come() -> None:
    reader = MarkupReader(FAMILIES["gemma4"])
    assert reader.feed('<|tool_call>call:f{a:<|"|>some te') == [CallDelta(0, "", "f", '{"a": "some te')]
    assert reader.feed('xt<|"') == [CallDelta(0, "", "f", "xt")]
    assert reader.feed("|>,n:4") == [CallDelta(0, "", "f", '", "n": ')]
    assert reader.feed("2}<tool_call|>") == [CallDelta(0, "", "f", "42}")]


# ---- properties -------------------------------------------------------------------------------------------------------

PIECES: Final = (
    *(
        "<tool_call>",
        "</tool_call>",
        "\n",
        "{",
        "}",
        '"',
        "[",
        "]",
        ",",
        ":",
        '{"name": "now"',
        ', "arguments": {"a": 1}}',
    ),
    *('"parameters": {', "<think>", "</think>", " ", "abc", "```json\n", "```", "\\", "(", ")", "=", 'now(a="x")', "1"),
    *(
        "<function=now>",
        "<parameter=city>",
        "</parameter>",
        "</function>",
        "<|tool_call>call:now{",
        '<|"|>',
        "<tool_call|>",
    ),
    *("[TOOL_CALLS]", "[ARGS]", "now", "[CALL_ID]", "<|channel|>", "analysis", "final", "<|message|>", "<|end|>"),
    *(
        "<|start|>",
        " to=functions.now",
        "<|call|>",
        "<|tool_call_start|>",
        "<|tool_call_end|>",
        "<",
        "<t",
        "|>",
        "null",
    ),
    *("'", "é", "<|python_tag|>", "<|tool_call|>", "<|channel>thought\n", "<channel|>", ";"),
)


@given(
    st.sampled_from(sorted(FAMILIES)),
    st.lists(st.sampled_from(PIECES), max_size=14).map("".join),
    st.lists(st.integers(0, 200), max_size=6),
    st.booleans(),
)
def test_no_cut_changes_what_is_read(family: str, text: str, cuts: list[int], thinking_open: bool) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    whole = read(FAMILIES[family], text, thinking_open=thinking_open)
    assert read(FAMILIES[family], *text, thinking_open=thinking_open) == whole
    pieces = [text[start:end] for start, end in pairwise(edges)]
    assert read(FAMILIES[family], *pieces, thinking_open=thinking_open) == whole


TEXTS: Final = st.text("ab <>|{}\"'\n:é", max_size=20)


@given(
    st.sampled_from(CALLS),
    st.lists(TEXTS, max_size=3),
    st.integers(0, 400),
)
def test_no_marker_is_ever_shown_as_text(
    case: tuple[str, str, tuple[AssistantPart, ...]], texts: list[str], cut: int
) -> None:
    family, calls, _ = case
    written = calls + "".join(texts)
    turn = read(FAMILIES[family], *written[: min(cut, len(written))])
    for marker in FAMILIES[family].markers:
        if not any(marker in text for text in texts):
            # Only where a text ends in a marker that people can write, and nothing was called, is it taken for prose.
            assert marker not in turn.text or (turn.text.endswith(marker) and not turn.calls)


def test_reading_costs_what_the_text_costs() -> None:
    """Fed a few characters at a time, twice the text takes about twice as long, not four times."""
    bodies = {
        "hermes": '<tool_call>{"name": "now", "arguments": {"a": "%s"}}</tool_call>',
        "lfm2": '<|tool_call_start|>[now(a="%s")]<|tool_call_end|>',
        "gemma4": '<|tool_call>call:now{a:<|"|>%s<|"|>}<tool_call|>',
        "qwen_xml": "<tool_call><function=now><parameter=a>%s</parameter></function></tool_call>",
        "harmony": "<|channel|>final<|message|>%s",
        "generic": "%s",
    }
    for family, body in bodies.items():
        for fill in ("x", " ", "\n", "{", "<"):
            text = body.replace("%s", fill * 60_000)
            reader = MarkupReader(FAMILIES[family], NAMES)
            started = time.process_time()
            for at in range(0, len(text), 5):
                reader.feed(text[at : at + 5])
            reader.finish("stop")
            assert time.process_time() - started < 5, (family, fill)  # a quadratic one takes minutes


def test_a_template_without_thoughts_still_splits_them_off() -> None:
    family = replace(FAMILIES["hermes"], think=None)
    assert read(family, "<think>hm</think>Hello").reasoning == "hm"

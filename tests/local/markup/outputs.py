"""What models of each shape write → what is to be read from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Raw, Struct
from msgspec import json as msgspec_json
from tests.local.markup.shapes import TOOLS, Call, Shape

from ronda.core.parts import AssistantTurn, Reasoning, Text
from ronda.core.plan import ToolSpec
from ronda.local.markup import Family, MarkupReader

SPECS: Final = tuple(
    [
        ToolSpec(tool["function"]["name"], "", Raw(msgspec_json.encode(tool["function"]["parameters"])))  # type: ignore[index] # JSON
        for tool in TOOLS
    ]
)

PARIS: Final[Call] = ("get_weather", {"city": "Paris"})
NOW: Final[Call] = ("now", {})
_TEXTS: Final = {
    "quotes": 'the "old" town, {FR}, [x]',
    "an apostrophe": "l'Hay-les-Roses",
    "two lines": "Paris\n\nFrance",
    "the end of a line": "def hello():\n    return 1\n",
    "markup": "a < b, </b>, <i>&amp;</i>",
    "letters": "Zürich 東京 🙂",
    "a backslash": "C:\\temp\\new",
    "nothing": "",
    "a number": "75001",
    "a word": "true",
}


class Output(Struct, frozen=True):
    shape: Shape
    title: str
    written: str
    calls: tuple[Call, ...] = ()
    thought: str = ""
    text: str = ""
    thinking_open: bool = False

    @property
    def id(self) -> str:
        return f"{self.shape.model}: {self.title}"


def outputs(shape: Shape) -> Iterator[Output]:
    spell, around = shape.spell, shape.text
    yield Output(shape, "one call", spell([PARIS]), (PARIS,))
    yield Output(shape, "a call without arguments", spell([NOW]), (NOW,))
    before = f"{around[0]}I look.{around[1]}" if any(around) else "I look.\n\n"
    yield Output(shape, "text and a call", before + spell([PARIS]), (PARIS,), text="I look.")
    if not shape.single:
        two = (PARIS, NOW, ("get_weather", {"city": "Rome", "days": 2}))
        yield Output(shape, "three calls", spell(two), two)
    for title, text in _TEXTS.items():
        if not any(one in text for one in shape.cannot_hold):
            call = ("get_weather", {"city": text, "days": 1})
            yield Output(shape, f"{title} in a text", spell([call]), (call,))
    typed = ("get_weather", {"city": "Paris", "days": -3, "exact": True, "share": 0.5, "tags": ["a", "b c"]})
    yield Output(shape, "values of other types", spell([typed]), (typed,))
    nested = ("get_weather", {"city": "Paris", "exact": False, "share": None, "more": {"a": [1, {"b": "c"}], "d": {}}})
    yield Output(shape, "values inside values", spell([nested]), (nested,))
    yield from _thoughts(shape, before)
    final = f"{around[0]}Hello, 5 < 6.{around[1]}" if any(around) else "Hello, 5 < 6."
    yield Output(shape, "text alone", final, text="Hello, 5 < 6.")


def _thoughts(shape: Shape, before: str) -> Iterator[Output]:
    begin, end = shape.think
    written = shape.spell([PARIS])
    yield Output(shape, "a thought and a call", f"{begin}hm{end}{written}", (PARIS,), "hm")
    yield Output(shape, "a thought, text and a call", f"{begin}hm{end}{before}{written}", (PARIS,), "hm", "I look.")
    if "<|message|>" in begin:
        return  # these say in each message what it is
    yield Output(shape, "a thought that the prompt began", f"hm{end}{written}", (PARIS,), "hm", thinking_open=True)
    draft = f"First\n{shape.spell([NOW]).strip()}\nor not."
    yield Output(shape, "a call quoted in a thought", f"{begin}{draft}{end}{written}", (PARIS,), draft)


def read(output: Output, family: Family, pieces: Sequence[str]) -> AssistantTurn:
    reader = MarkupReader(family, tools=SPECS, thinking_open=output.thinking_open)
    for piece in pieces:
        reader.feed(piece)
    return reader.finish("stop")


def check(output: Output, turn: AssistantTurn) -> None:
    """Whether a turn says what the model meant."""
    calls = tuple([(call.name, json.loads(call.arguments or "{}")) for call in turn.calls])
    assert calls == output.calls, calls
    assert turn.stop == ("tool_calls" if output.calls else "stop"), turn.stop
    said: dict[type[Any], str] = {Text: "", Reasoning: ""}
    for part in turn.parts:
        if isinstance(part, (Text, Reasoning)):
            said[type(part)] += part.text
    assert said[Text].strip() == output.text, said[Text]
    assert _words(said[Reasoning]) == _words(output.thought), said[Reasoning]


def _words(text: str) -> str:
    return "".join(text.split())

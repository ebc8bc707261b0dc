"""Chat templates that word tools in a manner of which we have no family: who writes and reads calls there is found out once.

The engine works out from a template how calls look in it, and makes from that a grammar and a parser. Whether it got that right
is tried before anything is left to it: the template writes two calls, and the engine has to read the same two out of it. Where
it does not, we learn from the template ourselves (`markup.learned`); then the model is like one of a family that we know. Where
neither can, the engine may still read a single call. Else tools are put in the manner of Hermes, as for a template without any.

A call that must come is begun for the model: under a grammar of "text, then a call" a model that has said what it wanted goes on
talking until its tokens are used up.

Three things the engine cannot do together with tools, and refuses or forgets: an answer's format, a grammar,
probabilities of tokens. Requests that want one of them are put in the manner of Hermes, too.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from ronda.core.parts import AssistantTurn
from ronda.core.plan import ToolChoice
from ronda.core.request import ModelRequest
from ronda.errors import BadRequest, UpstreamBroken, UpstreamError
from ronda.local.engine import PROMPT_TOKENS, Engine
from ronda.local.markup import Family
from ronda.local.markup.learned import Call, learn, written_after
from ronda.local.prompt import ControlTokenEscaper, Message, write_messages, write_tools
from ronda.local.schema_bounds import check_schema_text
from ronda.local.settings import Settings

log = logging.getLogger("ronda.local")

_NAME: Final = "look_up"
_CALLS: Final[tuple[Call, ...]] = ((_NAME, {"word": "harbour", "count": 3}), (_NAME, {"word": "meadow", "count": 4}))
_TOOL: Final = {
    "type": "function",
    "function": {
        "name": _NAME,
        "description": "Look a word up.",
        "parameters": {
            "type": "object",
            "properties": {"word": {"type": "string"}, "count": {"type": "integer"}},
            "required": ["word", "count"],
        },
    },
}
_QUESTION: Final = {"role": "user", "content": "Which?"}
_SAID: Final = "That one."
_GO_ON: Final = {"continue_final_message": True, "add_generation_prompt": False}


class _Function(Struct, frozen=True):
    name: str = ""
    arguments: str = ""


class _Call(Struct, frozen=True):
    function: _Function


class _Message(Struct, frozen=True):
    tool_calls: list[_Call] = []


class _Choice(Struct, frozen=True):
    message: _Message


class _Answer(Struct, frozen=True):
    choices: list[_Choice]


class ForeignChat:
    def __init__(self, engine: Engine, defuse: ControlTokenEscaper, think: tuple[str, str] | None) -> None:
        self._engine = engine
        self._defuse = defuse
        self._think = think
        self._family: Family | None = None
        self._opening: str | None = None  # what the template writes before the name of a call
        self._is_tried = False
        self._is_fatal = False  # the engine died while it was tried

    def takes(self, request: ModelRequest) -> bool:
        """Whether this request is for the engine's own chat path. It was learned before whether there is one."""
        options = request.options
        if options.response_format is not None or options.extra.keys() & {"grammar", "logprobs"}:
            return False
        if not request.tools and not any(type(turn) is AssistantTurn and turn.calls for turn in request.turns):
            return False
        try:
            for tool in request.tools:
                check_schema_text(bytes(tool.parameters), f"tools: {tool.name}")
        except BadRequest:
            return False  # a tool that may be called with any object; a strict one was refused before
        if any(_repeats(bytes(tool.parameters)) for tool in request.tools):
            return False
        return self._opening is not None

    def learn(self) -> Family | None:
        """Find out, once, who can write and read calls: a family, if we can. Waits: call it `aside`."""
        if not self._is_tried:
            self._family = None if self._try(_CALLS) else learn(self._written, self._think)
            if self._family is None and self._opening is None:
                self._try(_CALLS[:1])
            self._is_tried = True
        return self._family

    def _try(self, calls: Sequence[Call]) -> bool:
        """Whether the engine reads what the template writes; then how a call begins is known.

        What the engine dies of is not tried again: else no request with tools would ever be answered.
        """
        if self._is_fatal:
            return False
        self._is_fatal = True
        try:
            self._opening = self._opening_of(calls)
        except UpstreamBroken:
            log.warning("the local engine died of reading a call in the words of the model's chat template")
            raise
        except UpstreamError:
            self._opening = None  # the template refuses such a conversation, or the engine cannot read its calls
        self._is_fatal = False
        return self._opening is not None

    def _opening_of(self, calls: Sequence[Call]) -> str | None:
        written = self._written(calls)
        opening, found, _ = written.partition(_NAME)
        if not found or _NAME not in self._render([_QUESTION], add_generation_prompt=True):
            return None
        body = {"messages": [_QUESTION, _assistant(written)], "tools": [_TOOL], "tool_choice": "required", **_GO_ON}
        body |= {"parallel_tool_calls": True, "n_predict": 1, "temperature": 0}
        body["logit_bias"] = [[end, 100] for end in self._engine.header.ends]
        answer = msgspec.json.decode(self._engine.answer(body), type=_Answer)
        read = [_arguments(call.function) for choice in answer.choices[:1] for call in choice.message.tool_calls]
        return opening if read == [arguments for _, arguments in calls] else None

    def _written(self, calls: Sequence[Call]) -> str:
        """What the template writes for these calls in an answer, without what it writes around any answer."""
        rendered = self._render([_QUESTION, _assistant(_SAID)])
        called = self._render([_QUESTION, _calling(calls)])
        asked = self._render([_QUESTION], add_generation_prompt=True)
        return written_after(asked, called).removesuffix(rendered.rpartition(_SAID)[2]) if _SAID in rendered else ""

    def _render(self, messages: list[Message], *, add_generation_prompt: bool = False) -> str:
        body = {"messages": messages, "tools": [_TOOL], "add_generation_prompt": add_generation_prompt}
        return self._engine.apply_template(body)

    def write(self, request: ModelRequest, settings: Settings) -> dict[str, Any]:
        """Messages, tools and settings of the template."""
        body: dict[str, Any] = {"messages": write_messages(request.turns, self._defuse)}
        if tools := [tool for tool in request.tools if request.choice.allows(tool.name, is_owed=True)]:
            body["tools"] = write_tools(tools, self._defuse)
        if settings.template:
            body["chat_template_kwargs"] = settings.template
        return body

    def ask(self, body: dict[str, Any], request: ModelRequest, settings: Settings, prompt: int) -> dict[str, Any]:
        """What the engine's chat path is asked, free to call or not. `prompt` is how many tokens that takes."""
        mode = "none" if request.choice.mode == "none" or "tools" not in body else "auto"
        return {
            **settings.body,
            **body,
            "tool_choice": mode,
            "parallel_tool_calls": request.options.parallel_tool_calls is not False,
            PROMPT_TOKENS: prompt,
        }

    def count_opening(self) -> int:
        return self._engine.count(self._opening or "")

    def insist(self, body: dict[str, Any], choice: ToolChoice, beginning: str = "", spent: int = 0) -> dict[str, Any]:
        """The same, with one call that has begun after what was said, in so many tokens. No stop of a caller's cuts it short.

        One, since a model that was made to call goes on calling where it may, and most of the engine's grammars let it: the
        second call ends the answer (`reading.ToldParts`).
        """
        assert self._opening is not None
        begun = _assistant(beginning + self._opening)
        forced = {**body, **_GO_ON, "messages": [*body["messages"], begun]}
        forced |= {"tool_choice": "required", "parallel_tool_calls": False, "timings_per_token": True}
        if choice.names:
            forced["tools"] = [tool for tool in body["tools"] if tool["function"]["name"] in choice.names]
        forced[PROMPT_TOKENS] += spent
        forced.pop("stop", None)
        return forced


def _repeats(schema: bytes) -> bool:
    """Whether a pattern of it counts: `(a{0,1000}){0,1000}`. The engine writes out every repetition, and is ended before its end.
    In the manner of Hermes the grammar is tried first, in a process of its own."""
    if b'"pattern' not in schema:  # so begins `patternProperties`, too
        return False
    found: list[Any] = [msgspec.json.decode(schema)]
    while found:
        part = found.pop()
        if isinstance(part, dict):
            patterns = [part.get("pattern")]
            if isinstance(named := part.get("patternProperties"), dict):
                patterns += named
            if any(isinstance(pattern, str) and "{" in pattern for pattern in patterns):
                return True
            found += part.values()
        elif isinstance(part, list):
            found += part
    return False


def _assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _calling(calls: Sequence[Call]) -> Message:
    """Ids as Mistral's templates want them, of nine digits."""
    written = [
        {
            "id": f"{number:09}",
            "type": "function",
            "function": {"name": name, "arguments": msgspec.json.encode(arguments).decode()},
        }
        for number, (name, arguments) in enumerate(calls)
    ]
    return {"role": "assistant", "content": "", "tool_calls": written}


def _arguments(function: _Function) -> object:
    try:
        return msgspec.json.decode(function.arguments) if function.name == _NAME else None
    except (msgspec.DecodeError, UnicodeError):
        return None

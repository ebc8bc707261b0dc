"""Chat templates that word tools in a manner of which we have no family: the engine's own chat path writes and reads them.

The engine works out from a template how calls look in it, and makes from that a grammar and a parser. Whether it got that right
is tried once, before anything is left to it: the template writes a call, and the engine has to read the same call out of it.
Where it does not, tools are put in the manner of Hermes, as for a template without any.

A call that must come is begun for the model: under a grammar of "text, then a call" a model that has said what it wanted goes on
talking until its tokens are used up.

Three things the engine cannot do beside tools, and refuses or forgets: an answer's format, a grammar, probabilities of tokens.
Requests that want one of them are put in the manner of Hermes, too.
"""

from __future__ import annotations

import os.path
from typing import Any, Final

import msgspec
from msgspec import Struct

from ronda.core.parts import AssistantTurn
from ronda.core.plan import ToolChoice
from ronda.core.request import ModelRequest
from ronda.errors import BadRequest, UpstreamBroken, UpstreamError
from ronda.local.engine import PROMPT_TOKENS, Engine
from ronda.local.prompt import ControlTokenEscaper, Message, write_messages, write_tools
from ronda.local.schema_bounds import check_schema_text
from ronda.local.settings import Settings

_NAME: Final = "look_up"
_ARGUMENTS: Final = {"word": "harbour", "count": 3}
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
_CALLING: Final = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "id": "000000000",
            "type": "function",
            "function": {"name": _NAME, "arguments": msgspec.json.encode(_ARGUMENTS).decode()},
        }
    ],
}
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
    def __init__(self, engine: Engine, defuse: ControlTokenEscaper) -> None:
        self._engine = engine
        self._defuse = defuse
        self._opening: str | None = None  # what the template writes before the name of a call
        self._is_tried = False

    def takes(self, request: ModelRequest) -> bool:
        """Whether this request is for the engine's own chat path. Waits, the first time: call it `aside`."""
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
        return self._is_known()

    def _is_known(self) -> bool:
        if not self._is_tried:
            try:
                self._opening = self._learn()
            except UpstreamBroken:
                raise
            except UpstreamError:
                self._opening = None  # the template refuses such a conversation, or the engine cannot read its calls
            self._is_tried = True
        return self._opening is not None

    def _learn(self) -> str | None:
        """How a call begins, if the engine reads what the template writes."""
        called, said = self._render([_QUESTION, _CALLING]), self._render([_QUESTION, _assistant(_SAID)])
        asked = self._render([_QUESTION], add_generation_prompt=True)
        if _SAID not in said:
            return None
        same = len(os.path.commonprefix([asked, called]))  # noqa: RUF071 # of texts, not of paths
        written = called[same:].removesuffix(said.rpartition(_SAID)[2])
        opening, found, _ = written.partition(_NAME)
        if not found or _NAME not in asked:
            return None
        body = {"messages": [_QUESTION, _assistant(written)], "tools": [_TOOL], "tool_choice": "required", **_GO_ON}
        answer = msgspec.json.decode(self._engine.answer({**body, "n_predict": 1, "temperature": 0}), type=_Answer)
        calls = answer.choices[0].message.tool_calls if answer.choices else []
        return opening if calls and _is_ours(calls[0].function) else None

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

    def insist(self, body: dict[str, Any], choice: ToolChoice, said: str = "", spent: int = 0) -> dict[str, Any]:
        """The same, with one call that has begun after what was said, in so many tokens. No stop of a caller's cuts it short.

        One, since a model that was made to call goes on calling where it may, and most of the engine's grammars let it: the
        second call ends the answer (`reading.ToldParts`).
        """
        assert self._opening is not None
        begun = _assistant(said + self._opening)
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


def _is_ours(function: _Function) -> bool:
    try:
        return function.name == _NAME and msgspec.json.decode(function.arguments) == _ARGUMENTS
    except (msgspec.DecodeError, UnicodeError):
        return False

"""Turns and tools → the messages that a chat template is applied to, and from them the prompt.

Where the model's own template knows tools, messages say calls and results as OpenAI's dialect does and the template words
them. Where it does not, they are put into plain text in the manner of Hermes, which is what most models that learned tools
without a template of their own have seen; the template then only marks whose turn it is. A model without a template gets ChatML.
Templates that know tools in a form unknown to us are `foreign`.

Reasoning is left out: templates want it back only within a turn, and it costs the reuse of the prompt. Pictures and other
files become a note. Whatever spells one of the model's control tokens is broken up, so that no text can pose as a turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from ronda.core.arguments import as_object
from ronda.core.parts import (
    AssistantTurn,
    Attachment,
    Audio,
    File,
    Image,
    Refusal,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
    Video,
)
from ronda.core.plan import ToolSpec
from ronda.wire.upstream.input_files import file_note, is_listed

Message: TypeAlias = dict[str, Any]  # JSON for the template: only written here, never read

_encode = msgspec.json.encode
_TOOLS = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""


class ControlTokenEscaper:
    """Breaks up text that spells a control token, with a space of no width behind its first character."""

    def __init__(self, controls: Iterable[str]) -> None:
        spelled = sorted((token for token in controls if len(token) > 1), key=len, reverse=True)
        self._found = re.compile("|".join(map(re.escape, spelled))) if spelled else None

    def __call__(self, text: str) -> str:
        return text if self._found is None else self._found.sub(_break, text)


def _break(found: re.Match[str]) -> str:
    return f"{found[0][0]}\u200b{found[0][1:]}"


def write_tools(tools: Sequence[ToolSpec], defuse: ControlTokenEscaper) -> list[Message]:
    return [msgspec.json.decode(line) for line in _tool_lines(tools, defuse)]


def _tool_lines(tools: Sequence[ToolSpec], defuse: ControlTokenEscaper) -> list[str]:
    return [defuse(_encode(_tool(tool)).decode()) for tool in tools]


def _tool(tool: ToolSpec) -> Message:
    function: Message = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def write_messages(turns: Sequence[Turn], defuse: ControlTokenEscaper) -> list[Message]:
    """For a template that knows tools."""
    writer = _Writer(defuse)
    for turn in turns:
        writer.add(turn)
    return writer.messages


def write_flat(turns: Sequence[Turn], tools: Sequence[ToolSpec], defuse: ControlTokenEscaper) -> list[Message]:
    """For a template that does not: calls and results in plain text."""
    writer = _FlatWriter(defuse)
    if tools:
        instructions = _TOOLS.format(tools="\n".join(_tool_lines(tools, defuse)))
        system = turns[0] if turns and type(turns[0]) is SystemTurn else None
        writer.say("system", f"{defuse(system.text)}\n\n{instructions}" if system is not None else instructions)
        turns = turns[1:] if system is not None else turns
    for turn in turns:
        writer.add(turn)
    return writer.messages


class _Writer:
    def __init__(self, defuse: ControlTokenEscaper) -> None:
        self.messages: list[Message] = []
        self._defuse = defuse
        self._names: dict[str, tuple[str, str]] = {}  # by call id: the id as the template sees it, and the tool's name

    def say(self, role: str, text: str) -> None:
        """Two in a row from the same side are one: many templates insist on turns that alternate."""
        last = self.messages[-1] if self.messages else None
        if last is not None and last["role"] == role and "tool_calls" not in last:
            last["content"] = f"{last['content']}\n\n{text}"
        else:
            self.messages.append({"role": role, "content": text})

    def add(self, turn: Turn) -> None:
        match turn:
            case SystemTurn(text=text):
                self.say("system", self._defuse(text))
            case UserTurn(parts=parts):
                self.say("user", "\n".join([self._part(part) for part in parts]))
            case AssistantTurn():
                self.add_answer(turn, self._defuse(_turn_text(turn)))
            case ToolTurn(results=results):
                self.add_results(results)

    def add_answer(self, turn: AssistantTurn, text: str) -> None:
        if not turn.calls:
            if text:
                self.say("assistant", text)
            return
        calls = [self._call(call) for call in turn.calls]
        self.messages.append({"role": "assistant", "content": text, "tool_calls": calls})

    def add_results(self, results: Sequence[ToolResult]) -> None:
        for result in results:
            call_id, name = self._names.get(result.call_id, (result.call_id, "tool"))
            self.messages.append(
                {"role": "tool", "tool_call_id": call_id, "name": name, "content": self._result(result)}
            )

    def _call(self, call: ToolCall) -> Message:
        # Counted, not copied: Mistral's templates refuse an id that has not exactly nine letters or digits.
        call_id = f"{len(self._names):09d}"
        self._names[call.id] = (call_id, call.name)
        arguments = self._defuse(_object(call))
        return {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}

    def _result(self, result: ToolResult) -> str:
        return self._defuse("\n".join([result.content, *[_note(item) for item in result.attachments]]))

    def _part(self, part: UserPart) -> str:
        return self._defuse(part.text if type(part) is Text else _note(part))


class _FlatWriter(_Writer):
    def add_answer(self, turn: AssistantTurn, words: str) -> None:
        calls = [f"<tool_call>\n{self._defuse(_write_call(call))}\n</tool_call>" for call in turn.calls]
        if text := "\n".join([words, *calls] if words else calls):
            self.say("assistant", text)

    def add_results(self, results: Sequence[ToolResult]) -> None:
        self.say("user", "\n".join([f"<tool_response>\n{self._result(r)}\n</tool_response>" for r in results]))


def _turn_text(turn: AssistantTurn) -> str:
    return "".join([part.text for part in turn.parts if type(part) is Text or type(part) is Refusal])


def _object(call: ToolCall) -> str:
    """Arguments as JSON a template can take apart: what the model wrote may have been something else."""
    return as_object(call.arguments)


def _write_call(call: ToolCall) -> str:
    """As the model writes them, spaces included: the tokens it produced are then found again in the next prompt."""
    return f'{{"name": {_encode(call.name).decode()}, "arguments": {_object(call)}}}'


def _note(part: Attachment | Text) -> str:
    match part:
        case Image():
            return "[an image, which this model cannot see]"
        case Audio():
            return "[a sound, which this model cannot hear]"
        case Video():
            return "[a video, which this model cannot see]"
        case File() if is_listed(part):
            return file_note(part)
        case File(name=name):
            return f"[a file{f' named {name!r}' if name else ''}, which this model cannot open]"
        case Text(text=text):
            return text


def write_chatml(messages: Sequence[Message]) -> str:
    """For a model whose file has no template."""
    lines = [f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in messages]
    return "".join([*lines, "<|im_start|>assistant\n"])

"""Calls of tools that ran here, as the items that OpenAI's clients know them by: code, commands and their outputs, searches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ronda.core.events import ToolProgressed
from ronda.core.found_tools import found_in
from ronda.core.parts import Image, ToolCall, ToolResult
from ronda.core.plan import ToolSpec
from ronda.wire.codec.json import encode, read_object
from ronda.wire.openai_responses.output_items import Output, OutputItem
from ronda.wire.shared.tool_records import ToolRecords
from ronda.wire.web.calls import WebCall, read_outcome, ronda_kind

HOSTED_TYPES: Final = frozenset({"code_execution", "shell"})  # tools that the API has items for


class RunningCall(OutputItem):
    """The item of a call that runs here. It began when it was made."""

    __slots__ = ("_call",)

    def __init__(self, output: Output, kind: str, call: ToolCall) -> None:
        super().__init__(output, ronda_kind(kind))  # by which it is known when a client sends it back
        self._call = call

    @property
    def id(self) -> str:
        return self._id.decode()

    def progress(self, progress: ToolProgressed) -> None:
        """The API has no equivalent, but for commands."""

    @abstractmethod
    def end(self, result: ToolResult, tools: ToolRecords) -> None: ...

    def cut(self) -> None:
        """The answer ends before the call does."""


def begin_hosted(
    output: Output, tool_type: str, call: ToolCall, container: str, *, with_outputs: bool
) -> RunningCall | None:
    """None where the API has no item for such a tool, or the call is none that it knows."""
    arguments = read_object(call.arguments)
    if tool_type == "code_execution" and isinstance(code := arguments.get("code"), str):
        return CodeCall(output, call, code, container, with_outputs)
    if tool_type == "shell" and isinstance(arguments.get("commands"), list):
        return ShellCall(output, call, arguments, container)
    return None


class CodeCall(RunningCall):
    """`code_interpreter_call`. What came out of it is in it for clients that asked for that (`include`)."""

    def __init__(self, output: Output, call: ToolCall, code: str, container: str, with_outputs: bool) -> None:
        super().__init__(output, "ci", call)
        self._with_outputs = with_outputs
        self._item = {"type": "code_interpreter_call", "id": self._id.decode(), "container_id": container}
        self._code = code
        self._announce(self._as("in_progress", code=""))
        self._tell(b"code_interpreter_call.in_progress")
        if self._frames.writing:
            self._frames.delta(b"response.code_interpreter_call_code.delta", self._place, code)
        self._tell(b"code_interpreter_call_code.done", b',"code":%b' % encode(code))
        self._tell(b"code_interpreter_call.interpreting")

    def _as(self, status: str, **more: Any) -> bytes:
        return encode({**self._item, "status": status, "code": self._code, "outputs": None, **more})

    def end(self, result: ToolResult, tools: ToolRecords) -> None:
        outputs = _outputs(result, tools.members(self._call.id)) if self._with_outputs else None
        self._tell(b"code_interpreter_call.completed")
        self._finish(self._as("failed" if result.failed else "completed", outputs=outputs))


def _outputs(result: ToolResult, details: Mapping[str, Any]) -> list[dict[str, Any]]:
    logs = "".join([str(details[name]) for name in ("stdout", "stderr", "result", "exception") if details.get(name)])
    if not logs and not details:
        logs = result.content
    outputs: list[dict[str, Any]] = [{"type": "logs", "logs": logs}] if logs else []
    images = [one.url for one in result.attachments if type(one) is Image]
    return outputs + [{"type": "image", "url": url} for url in images]


class ShellCall(RunningCall):
    """`shell_call`, which is whole at once, and `shell_call_output`: a record for each command."""

    def __init__(self, output: Output, call: ToolCall, arguments: Mapping[str, Any], container: str) -> None:
        super().__init__(output, "sh", call)
        commands = [str(command) for command in arguments["commands"]]
        limits = {name: arguments.get(name) for name in ("timeout_ms", "max_output_length")}
        item: dict[str, Any] = {
            "type": "shell_call",
            "id": self._id.decode(),
            "call_id": call.id,
            "status": "in_progress",
            "action": {"commands": [], **limits},
            "environment": {"type": "container_reference", "container_id": container},
        }
        self._announce(encode(item))
        frames = self._frames
        if frames.writing:
            for index, command in enumerate(commands):
                place, text = b'"output_index":%d,"command_index":%d' % (self._index, index), encode(command)
                frames.put(b"response.shell_call_command.added", b'%b,"command":""' % place)
                frames.delta(b"response.shell_call_command.delta", place, command)
                frames.put(b"response.shell_call_command.done", b'%b,"command":%b' % (place, text))
        self._finish(encode({**item, "status": "completed", "action": {"commands": commands, **limits}}))
        self._output_item = _ShellOutput(output, call.id, arguments.get("max_output_length"))

    def progress(self, progress: ToolProgressed) -> None:
        self._output_item.grow(progress.part, progress.stream, progress.text)

    def end(self, result: ToolResult, tools: ToolRecords) -> None:
        details = tools.members(self._call.id)
        not_run = {"stdout": "", "stderr": result.content, "outcome": {"type": "exit", "exit_code": 1}}
        self._output_item.close(details.get("outputs") or [not_run], details.get("max_output_length"))


class _ShellOutput(OutputItem):
    """`shell_call_output`. It has its place when the call begins, so that it is the same whether a client watches or not."""

    def __init__(self, output: Output, call_id: str, limit: Any) -> None:
        super().__init__(output, ronda_kind("sho"))
        self._shown: dict[tuple[int, str], str] = {}  # by command, and the name of its stream
        self._item: dict[str, Any] = {
            "type": "shell_call_output",
            "id": self._id.decode(),
            "call_id": call_id,
            "status": "in_progress",
            "output": [],
            "max_output_length": limit,
        }
        self._announce(encode(self._item))

    def grow(self, command: int, stream: str, text: str) -> None:
        self._shown[command, stream] = self._shown.get((command, stream), "") + text
        self._put(b"delta", command, b'"delta":%b' % encode({stream: text}))

    def close(self, outputs: Sequence[Mapping[str, Any]], limit: Any) -> None:
        if self._frames.writing:
            for command, output in enumerate(outputs):
                for stream in ("stdout", "stderr"):
                    self._show_rest(command, stream, output[stream])
                self._put(b"done", command, b'"output":%b' % encode([output]))
        self._finish(encode(self._item | {"status": "completed", "output": outputs, "max_output_length": limit}))

    def _show_rest(self, command: int, stream: str, text: str) -> None:
        """What was not shown yet. Of output that was too long only the end of the command tells what is left of it."""
        shown = self._shown.get((command, stream), "")
        if text != shown and text.startswith(shown):
            self.grow(command, stream, text[len(shown) :])

    def _put(self, event: bytes, command: int, fields: bytes) -> None:
        self._tell(b"shell_call_output_content." + event, b',"command_index":%d,%b' % (command, fields))


# ---- searches of the web, and for tools ------------------------------------------------------------------------------


class SearchItem(RunningCall):
    """A search of the web, or a page that was read: `web_search_call`, from its beginning on. `shows_sources`: the request
    wants to know where was looked."""

    def __init__(self, output: Output, call: ToolCall, begun: WebCall, *, shows_sources: bool) -> None:
        super().__init__(output, "ws", call)
        self._begun = begun
        self._shows_sources = shows_sources
        if self._frames.writing:
            self._announce(self._item("in_progress", begun))
            self._tell(b"web_search_call.in_progress")
            self._tell(b"web_search_call.searching")

    def end(self, result: ToolResult, tools: ToolRecords) -> None:
        ended = read_outcome(self._call, result, tools.details(self._call.id)) or self._begun
        self._tell(b"web_search_call.completed")  # there is no event for one that failed; the item says it
        self._finish(self._item("failed" if ended.error_code else "completed", ended))

    def cut(self) -> None:
        """Its result is unknown."""
        self._finish(self._item("incomplete", self._begun), is_kept=False)

    def _item(self, status: str, call: WebCall) -> bytes:
        action: dict[str, Any] = {"type": "open_page", "url": call.url}
        if call.query is not None:
            action = {"type": "search", "query": call.query, "queries": [call.query]}
            if self._shows_sources:
                action["sources"] = [{"type": "url", "url": source.url} for source in call.results]
        return encode({"type": "web_search_call", "id": self._id.decode(), "status": status, "action": action})


class _ToolSearchCall(OutputItem):
    """A search for tools: `tool_search_call`, which is whole at once."""

    def __init__(self, output: Output, call: ToolCall) -> None:
        super().__init__(output, ronda_kind("tsc"))
        item = {
            "type": "tool_search_call",
            "id": self._id.decode(),
            **_FOUND,
            "arguments": read_object(call.arguments),
        }
        self._announce(encode({**item, "status": "in_progress"}))
        self._finish(encode({**item, "status": "completed"}))


class ToolSearchOutput(RunningCall):
    """`tool_search_output`, with what was found."""

    def __init__(self, output: Output, call: ToolCall, tools: Mapping[str, ToolSpec]) -> None:
        _ToolSearchCall(output, call)
        super().__init__(output, "tso", call)
        self._tools = tools
        self._item = {"type": "tool_search_output", "id": self._id.decode(), **_FOUND}
        self._announce(encode({**self._item, "status": "in_progress", "tools": []}))

    def end(self, result: ToolResult, tools: ToolRecords) -> None:
        found = [_definition(spec) for spec in found_in(tools.members(self._call.id), self._tools)]
        self._finish(encode({**self._item, "status": "incomplete" if result.failed else "completed", "tools": found}))


_FOUND: Mapping[str, Any] = {"call_id": None, "execution": "server"}


def _definition(spec: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "strict": bool(spec.strict),
        "defer_loading": True,
    }

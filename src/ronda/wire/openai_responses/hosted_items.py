"""Calls of tools that ran here, as the items that OpenAI's clients know them by: code, commands and their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from ronda.core.events import ToolProgressed
from ronda.core.parts import ToolCall, ToolResult
from ronda.wire.json import encode, read_object
from ronda.wire.openai_responses.output_items import Frames

HOSTED_TYPES: Final = frozenset({"code_execution", "shell"})  # tools that the API has items for


class Items(Protocol):
    """Where items get their place in the output: the next id of a kind, and the next index."""

    frames: Frames

    def next_item(self, kind: str) -> tuple[str, int]: ...

    def finish_item(self, index: int, item: bytes) -> None: ...


class HostedCall(Protocol):
    """A call that is under way; it began when it was made."""

    def progress(self, progress: ToolProgressed) -> None: ...

    def end(self, result: ToolResult, details: Mapping[str, Any]) -> None: ...


def begin_hosted(
    items: Items, tool_type: str, call: ToolCall, container: str, *, with_outputs: bool
) -> HostedCall | None:
    """None where the API has no item for such a tool, or the call is none that it knows."""
    arguments = read_object(call.arguments)
    if tool_type == "code_execution" and isinstance(code := arguments.get("code"), str):
        return CodeCall(items, code, container, with_outputs)
    if tool_type == "shell" and isinstance(arguments.get("commands"), list):
        return ShellCall(items, call.id, arguments, container)
    return None


def put_item(frames: Frames, event: str, index: int, item: Mapping[str, Any]) -> bytes:
    written = encode(item)
    if frames.writing:
        frames.put(f"response.output_item.{event}".encode(), b'"output_index":%d,"item":%b' % (index, written))
    return written


class CodeCall:
    """`code_interpreter_call`. What came out of it is in it for those who asked for that (`include`)."""

    def __init__(self, items: Items, code: str, container: str, with_outputs: bool) -> None:
        self._items = items
        self._with_outputs = with_outputs
        id, self._index = items.next_item("ci")
        self._item = {"type": "code_interpreter_call", "id": id, "container_id": container}
        self._code = code
        frames = items.frames
        put_item(frames, "added", self._index, self._as("in_progress", code=""))
        self._place = b'"item_id":%b,"output_index":%d' % (encode(id), self._index)
        if frames.writing:
            frames.put(b"response.code_interpreter_call.in_progress", self._place)
            frames.delta(b"response.code_interpreter_call_code.delta", self._place, code)
            frames.put(b"response.code_interpreter_call_code.done", b'%b,"code":%b' % (self._place, encode(code)))
            frames.put(b"response.code_interpreter_call.interpreting", self._place)

    def progress(self, progress: ToolProgressed) -> None:
        """The API has no word for output of code that is running."""

    def _as(self, status: str, **more: Any) -> dict[str, Any]:
        return {**self._item, "status": status, "code": self._code, "outputs": None, **more}

    def end(self, result: ToolResult, details: Mapping[str, Any]) -> None:
        outputs = _outputs(result, details) if self._with_outputs else None
        frames = self._items.frames
        if frames.writing:
            frames.put(b"response.code_interpreter_call.completed", self._place)
        item = self._as("failed" if result.failed else "completed", outputs=outputs)
        self._items.finish_item(self._index, put_item(frames, "done", self._index, item))


def _outputs(result: ToolResult, details: Mapping[str, Any]) -> list[dict[str, Any]]:
    logs = "".join([str(details[name]) for name in ("stdout", "stderr", "result", "exception") if details.get(name)])
    if not logs and not details:
        logs = result.content
    outputs: list[dict[str, Any]] = [{"type": "logs", "logs": logs}] if logs else []
    images = details.get("images_base64") or ()
    return outputs + [{"type": "image", "url": f"data:image/png;base64,{image}"} for image in images]


class ShellCall:
    """`shell_call`, which is whole at once, and `shell_call_output`: a record for each command."""

    def __init__(self, items: Items, call_id: str, arguments: Mapping[str, Any], container: str) -> None:
        self._items = items
        self._call_id = call_id
        id, index = items.next_item("sh")
        commands = [str(command) for command in arguments["commands"]]
        limits = {name: arguments.get(name) for name in ("timeout_ms", "max_output_length")}
        item: dict[str, Any] = {
            "type": "shell_call",
            "id": id,
            "call_id": call_id,
            "status": "in_progress",
            "action": {"commands": [], **limits},
            "environment": {"type": "container_reference", "container_id": container},
        }
        frames = items.frames
        put_item(frames, "added", index, item)
        if frames.writing:
            for at, command in enumerate(commands):
                place, text = b'"output_index":%d,"command_index":%d' % (index, at), encode(command)
                frames.put(b"response.shell_call_command.added", b'%b,"command":""' % place)
                frames.delta(b"response.shell_call_command.delta", place, command)
                frames.put(b"response.shell_call_command.done", b'%b,"command":%b' % (place, text))
        item |= {"status": "completed", "action": {"commands": commands, **limits}}
        items.finish_item(index, put_item(frames, "done", index, item))
        self._output = _ShellOutput(items, call_id, arguments.get("max_output_length"))

    def progress(self, progress: ToolProgressed) -> None:
        self._output.grow(progress.part, progress.stream, progress.text)

    def end(self, result: ToolResult, details: Mapping[str, Any]) -> None:
        not_run = {"stdout": "", "stderr": result.content, "outcome": {"type": "exit", "exit_code": 1}}
        self._output.close(details.get("outputs") or [not_run], details.get("max_output_length"))


class _ShellOutput:
    """`shell_call_output`. It has its place when the call begins, so that it is the same whether anybody watches or not."""

    def __init__(self, items: Items, call_id: str, most: Any) -> None:
        self._items = items
        id, self._index = items.next_item("sho")
        self._place = b'"item_id":%b,"output_index":%d' % (encode(id), self._index)
        self._shown: dict[tuple[int, str], str] = {}  # by command, and the name of its stream
        self._item: dict[str, Any] = {
            "type": "shell_call_output",
            "id": id,
            "call_id": call_id,
            "status": "in_progress",
            "output": [],
            "max_output_length": most,
        }
        put_item(items.frames, "added", self._index, self._item)

    def grow(self, command: int, stream: str, text: str) -> None:
        self._shown[command, stream] = self._shown.get((command, stream), "") + text
        self._put("delta", command, b'"delta":%b' % encode({stream: text}))

    def close(self, outputs: Sequence[Mapping[str, Any]], most: Any) -> None:
        if self._items.frames.writing:
            for command, output in enumerate(outputs):
                for stream in ("stdout", "stderr"):
                    self._show_rest(command, stream, output[stream])
                self._put("done", command, b'"output":%b' % encode([output]))
        item = self._item | {"status": "completed", "output": outputs, "max_output_length": most}
        self._items.finish_item(self._index, put_item(self._items.frames, "done", self._index, item))

    def _show_rest(self, command: int, stream: str, text: str) -> None:
        """What nobody has seen yet. Of output that was too long only the end of the command tells what is left of it."""
        shown = self._shown.get((command, stream), "")
        if text != shown and text.startswith(shown):
            self.grow(command, stream, text[len(shown) :])

    def _put(self, event: str, command: int, fields: bytes) -> None:
        name = f"response.shell_call_output_content.{event}".encode()
        self._items.frames.put(name, b'%b,"command_index":%d,%b' % (self._place, command, fields))

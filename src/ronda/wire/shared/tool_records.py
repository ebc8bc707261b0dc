"""Tools that ran here, as any dialect reports them: what is said while they run, and a record of each in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final

from msgspec import Raw, Struct

from ronda.core.events import RunStarted
from ronda.core.parts import NULL, File, Image, ToolCall, ToolResult, UserTurn
from ronda.core.plan import ToolSpec
from ronda.wire.codec.json import as_json, decode_or, encode
from ronda.wire.shared.approvals import write_tool
from ronda.wire.shared.file_kinds import format_of
from ronda.wire.shared.made_files import file_object, placeholder_id
from ronda.wire.shared.preview import ArgumentPatches, write_patches
from ronda.wire.shared.supplies import supplies_of
from ronda.wire.web.citations import Source, add_sources
from ronda.wire.web.search import WEB_TOOLS, begin_data, record_text

# What of a call's arguments is told when a tool of this type begins.
_TOLD: Final[dict[str, tuple[str, ...]]] = {
    "code_execution": ("code",),
    "shell": ("commands",),
}
_MOST_FILES: Final = 64  # in an answer in one piece
_RUNS_CODE: Final = ("code_execution", "shell")


class ToolRecords(Struct, eq=False):
    """Those of one choice. `_choice` is which of several it is."""

    _choice: int = 0
    calls: dict[str, ToolCall] = {}  # of the last turn, by their ids
    round: int = 0
    sources: tuple[Source, ...] = ()  # that the model was shown, by number
    _specs: Mapping[str, ToolSpec] = {}
    _start: RunStarted | None = None
    _first_round: int = 0  # of this run, among the rounds of all that handed over
    _records: list[tuple[int, int, dict[str, Any]]] = []
    _places: dict[str, int] = {}  # of the calls in the turn
    _details: dict[str, Raw] = {}  # what tools of the last turn said of themselves
    _ran: list[tuple[int, int, str]] = []  # calls of tools that run code
    _files: list[tuple[int, int, dict[str, Any]]] = []
    _cited: set[str] = set()
    _told_before: set[str] = set()  # names of files, in another answer

    def begin_run(self, specs: Mapping[str, ToolSpec], start: RunStarted) -> None:
        self._specs = specs
        self._start = start

    def begin_round(self, round_index: int) -> None:
        self.round = self._first_round + round_index

    def go_on(self) -> None:
        """Another run follows."""
        self._first_round = self.round + 1
        self.calls = {}
        self._places = {}
        self.sources = ()

    def begin_calls(self, calls: Sequence[ToolCall]) -> None:
        """What the model asked for in this round."""
        if calls or self.calls:
            self.calls = {call.id: call for call in calls}
            self._places = dict(zip(self.calls, count()))
        if self._details:
            self._details = {}

    def forget(self) -> None:
        """What was recorded is part of another answer."""
        self._told_before |= {file["name"] for _, _, file in self._files}
        self._records, self._files = [], []

    def label(self, call: ToolCall) -> str:
        """The tool's name for people."""
        return write_tool(call.name, self._specs.get(call.name))["label"]

    def denial(self, call: ToolCall, why: str) -> Raw:
        """What is said of a call that is not to run, where such a tool says what went wrong."""
        kind = self.tool_type(call)
        if kind not in _WRONG:
            return NULL
        begun = self._arguments(call) if kind == "shell" else {"tool_type": kind}  # code is not repeated
        return Raw(encode({**begun, **_DENIED.get(kind, {}), _WRONG[kind]: why}))

    @property
    def _turn(self) -> int:
        """Which message of the user's is being answered, counted from 0."""
        turns = () if self._start is None else self._start.turns
        return max(0, sum(type(turn) is UserTurn for turn in turns) - 1)

    def tool_type(self, call: ToolCall) -> str:
        """The kind of tool that clients are shown; "" is any other tool."""
        spec = self._specs.get(call.name)
        return "" if spec is None else spec.tool_type

    def members(self, call_id: str) -> dict[str, Any]:
        """What the tool said of a call of the last turn."""
        return _object(self._details.get(call_id)) or {}

    def record(
        self, result: ToolResult, details: Raw = NULL, files: Sequence[File] = (), at: float = 0.0
    ) -> list[dict[str, Any]]:
        """The files that the call made, as clients are shown them."""
        call = self.calls[result.call_id]
        place = self._places[call.id]
        record: dict[str, Any] = {
            "round": self.round,
            "tool_call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "result_content": result.content,
        }
        if result.attachments and (images := _images(result)):
            record["result_images_base64"] = images
        if files:
            record["file_ids"] = [file.id for file in files if file.id]
        if details != NULL:
            record["data"] = self._details[call.id] = details
            if call.name in WEB_TOOLS:
                record["result_content"] = record_text(_object(details) or {})
                self.sources = add_sources(self.sources, details)
            elif self.tool_type(call) and (members := _object(details)) is not None:
                record["result_content"] = _summary(members) or result.content
        if result.failed:
            record["failed"] = True
        if self._choice:
            record["choice"] = self._choice
        if self.tool_type(call) in _RUNS_CODE:
            self._ran.append((self.round, place, call.name))
        # Besides the model's own order: tools finish in any.
        self._records.append((self.round, place, record))
        if not files:
            return []
        made = [file_object(file, call.name, self.round, self._turn, at) for file in files]
        self._files += [(self.round, place, file) for file in made]
        return made

    def details(self, call_id: str) -> Raw | None:
        return self._details.get(call_id)

    def has_records(self) -> bool:
        """Something ran, or was to make a file."""
        return bool(self._records or self._files)

    @property
    def records(self) -> list[dict[str, Any]]:
        """In the model's order."""
        if not self._records:
            return []
        return [record for _, _, record in sorted(self._records, key=lambda one: one[:2])]

    @property
    def files(self) -> list[dict[str, Any]]:
        """Those that were made, in the model's order; of several under one name the last."""
        if not self._files:
            return []
        last = {file["name"]: file for _, _, file in sorted(self._files, key=lambda one: one[:2])}
        return list(last.values())[:_MOST_FILES]

    def cited_files(self) -> list[dict[str, Any]]:
        """Those that an answer can point to, and no earlier one has."""
        found = [file for file in self.files if file["id"] and file["id"] not in self._cited]
        self._cited |= {file["id"] for file in found}
        return found

    def miss_files(self, at: float) -> list[dict[str, Any]]:
        """The run is over: files that it was to make and has not are reported, once, if it has run any code."""
        start = self._start
        if start is None or not self._ran:
            return []
        _, _, ran = self._ran[-1]
        made = self._told_before | {file["name"] for _, _, file in self._files}
        missing = [one for one in supplies_of(start).outputs if one.name not in made]
        placeholders: list[dict[str, Any]] = []
        for index, one in enumerate(missing):
            file_id = placeholder_id(start.run, index)
            file = File(None, one.name, file_id, 0, one.format or format_of(one.name), problem="not produced")
            placeholders.append(file_object(file, ran, self.round, self._turn, at))
        self._files += [(self.round, len(self.calls), file) for file in placeholders]
        return placeholders

    def progress(self, call_id: str, result: ToolResult | None = None) -> dict[str, Any]:
        """What is said when a tool begins, and with its result when it is done: what it says of itself, if it does."""
        call = self.calls[call_id]
        data = self._arguments(call)
        if result is None and call.name in WEB_TOOLS:
            data = begin_data(call.arguments)
        if result is not None:
            if (details := _object(self._details.get(call_id))) is not None:
                data = details if "tool_type" in details else {**data, **details}
                if data.get("tool_type") == "code_execution":
                    data = {**self._arguments(call), **data}  # its code is told again: who joins late has not seen it
                    if images := _images(result):
                        data["images_base64"] = images
            elif result.failed:  # it did not run, or broke down: where such a tool tells what went wrong
                data |= _NOT_RUN.get(data["tool_type"], {}) | {_WRONG.get(data["tool_type"], "content"): result.content}
            if data.get("tool_type") == "custom":
                data["content"] = result.content
            if result.failed:
                data["failed"] = True
        return {
            "round": self.round,
            "tool_name": call.name,
            "tool_call_id": call.id,
            "phase": "calling" if result is None else "complete",
            "data": data,
        }

    def preview(self, patches: ArgumentPatches) -> dict[str, Any]:
        """What is said while a call's arguments are being written."""
        return {
            "round": self.round,
            "tool_name": patches.name,
            "tool_call_id": patches.id,
            "index": patches.place,
            "patches": write_patches(patches.patches),
        }

    def _arguments(self, call: ToolCall) -> dict[str, Any]:
        if not (kind := self.tool_type(call)):
            return {"tool_type": "custom", "arguments": call.arguments, "input": as_json(call.arguments)}
        members = _object(Raw(call.arguments.encode())) or {}
        return {"tool_type": kind, **{name: members[name] for name in _TOLD.get(kind, ()) if name in members}}


_WRONG: Final = {"code_execution": "exception", "shell": "stderr"}
_DENIED: Final[dict[str, dict[str, Any]]] = {"shell": {"status": "denied", "timed_out": False}}
_NOT_RUN: Final[dict[str, dict[str, Any]]] = {"shell": {"status": "error", "timed_out": False}}


def _summary(details: Mapping[str, Any]) -> str:
    """A result in the words of a record, by the type of its tool; "" for what the model read."""
    match details.get("tool_type"):
        case "code_execution":
            lines = [f"{name}: {details[name]}" for name in ("stdout", "stderr", "exception") if details.get(name)]
            return "\n".join(lines)
        case "shell":
            names = ("stdout", "stderr", "exit_code", "status", "working_directory", "timed_out")
            return encode({name: details[name] for name in names if details.get(name) is not None}).decode()
        case _:
            return ""


def _images(result: ToolResult) -> list[str]:
    """Pictures that a call has made, in base64."""
    urls = [one.url for one in result.attachments if type(one) is Image and one.url.startswith("data:")]
    return [image for url in urls if (image := url.partition(",")[2])]


def _object(details: Raw | None) -> dict[str, Any] | None:
    """None for those of an old journal, or of another program, that are no object."""
    return None if details is None else decode_or(None, dict[str, Any], details)

"""Input items → turns; or a 400 that names the item.

Items are finer than turns: what a model thought, said and asked for are items one after the other, and come to one turn; so
do the results of its calls. An item says more than a turn of ours holds where it is another service's (thoughts it has
encrypted, searches it made): such a turn keeps its items for an upstream of this API, and tells other upstreams in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Raw, Struct

from ronda.core.parts import (
    NULL,
    AssistantPart,
    AssistantTurn,
    Reasoning,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserTurn,
    user,
)
from ronda.errors import BadRequest
from ronda.wire.codec.json import encode, text_of
from ronda.wire.openai_responses import approvals
from ronda.wire.openai_responses.client_answer import BREAK, Kind
from ronda.wire.openai_responses.client_calls import ANSWERS, WAITING, Place, arguments_of, waits
from ronda.wire.openai_responses.content import PARTS, Part
from ronda.wire.openai_responses.encrypted_content import Room, SealedTurn, Sealer, is_sealed, unwrap_summary
from ronda.wire.openai_responses.told_items import ToldItems, lacks_result, own_item
from ronda.wire.openai_responses.verbatim import message_as_it_came, native_items, without_id
from ronda.wire.shared.call_ids import with_ids
from ronda.wire.shared.custom_tools import arguments_for
from ronda.wire.shared.fields import MAX_MESSAGES, bad, check_count, decode_field
from ronda.wire.shared.told_calls import ToldCall

# What services other than this one did by themselves, and what was told them.
HOSTED_ITEMS: Final = frozenset(
    {
        "additional_tools",
        "apply_patch_call",
        "apply_patch_call_output",
        "code_interpreter_call",
        "computer_call",
        "computer_call_output",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)
# Item types and what becomes of them: for docs/compatibility.md.
FIELDS: Final[dict[str, str]] = {
    "message": "read",
    "function_call": "read",
    "function_call_output": "read",
    "custom_tool_call": "read",
    "custom_tool_call_output": "read",
    "reasoning": "read: thoughts that were encrypted go back to the host that encrypted them",
    "compaction": "read: one that another service made goes back to an upstream of this API only",
    "item_reference": "read: of the items of responses stored here",
    **dict.fromkeys(sorted({*WAITING, *ANSWERS}), "read: a call of the client's, and its answer"),
    **dict.fromkeys(
        sorted(HOSTED_ITEMS - WAITING.keys() - ANSWERS),
        "passed on: to an upstream of this API as it is, to others as a line of text; what was made here is read as a call "
        "and its result",
    ),
}

SUMMARY: Final = "[This is a summary of the conversation up to here.]\n\n"
_NOTED: Final = 2000  # characters of another service's item that others are told

_ROLES: Final = ("user", "assistant", "system", "developer")


class _Kind(Struct, frozen=True):
    type: str | None = None
    role: str | None = None
    id: str | None = None


class _Item(Struct, frozen=True):
    type: str | None = None
    role: str | None = None
    id: str | None = None
    status: str | None = None
    content: str | list[Part] | None = None
    phase: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | dict[str, Raw] | None = None
    input: str | None = None
    output: str | list[Part] | None = None
    summary: list[Part] | None = None
    encrypted_content: str | None = None


class _Answer(Struct, frozen=True):
    """What the client answers to an item that waits for it."""

    call_id: str | None = None
    approval_request_id: str | None = None
    id: str | None = None
    status: str | None = None
    output: Raw = NULL


def split_input(raw: Raw) -> list[Raw] | str:
    """The input as its items, each still as it came; or the text that it is."""
    if bytes(memoryview(raw)[:1]) == b'"':
        text: str = decode_field(raw, str, "input")
        return text
    items: list[Raw] = decode_field(raw, list[Raw], "input")
    if not items:
        raise BadRequest("'input' is an empty list", param="input")
    check_count(items, MAX_MESSAGES, "input")
    return items


def references(items: Sequence[Raw]) -> dict[int, str]:
    """Which items only name another, and which that is."""
    found: dict[int, str] = {}
    for index, raw in enumerate(items):
        if b"item_reference" not in bytes(raw) and b'"type"' in bytes(raw):
            continue  # quick: most are not
        kind: _Kind = decode_field(raw, _Kind, f"input[{index}]")
        if kind.type == "item_reference" or (kind.type is None and kind.role is None):
            if kind.id is None:
                raise bad(f"input[{index}].id", "is missing")
            found[index] = kind.id
    return found


class Input(Struct, frozen=True):
    """What a request says. `ids`: what the caller calls the calls of turns that came sealed → what the model called them.
    Of `items` that only name others there are no turns yet."""

    turns: list[Turn] = []
    ids: dict[str, str] = {}
    items: tuple[Raw, ...] = ()
    named: dict[int, str] = {}


def untold(items: Sequence[Raw]) -> list[str]:
    """The ids of items of tools that ran here and whose results are not in the items."""
    own = [(own_item(raw), raw) for raw in items]
    return [item_id for item_id, raw in own if item_id is not None and lacks_result(raw)]


def read_items(
    items: Sequence[Raw],
    sealer: Sealer | None = None,
    known: Mapping[str, ToldCall] | None = None,
    *,
    continues: bool = False,
) -> Input:
    """`known`: what is known of calls that ran here, by their ids in the conversation. `continues`: calls that they answer may
    be of a response before."""
    turns = _Turns(sealer, known or {}, continues=continues)
    for index, raw in enumerate(items):
        turns.add(raw, f"input[{index}]")
    return Input(behind_their_calls(turns.done()), turns.ids)


def behind_their_calls(turns: Iterable[Turn]) -> list[Turn]:
    """Results stand right behind the turn that asked for them: this API takes words of the user's before and between."""
    placed: list[Turn] = []
    calls_at, call_ids = -1, set[str]()
    for turn in turns:
        if type(turn) is AssistantTurn:
            calls_at, call_ids = len(placed), {call.id for call in turn.calls}
        elif (
            type(turn) is ToolTurn
            and 0 <= calls_at < len(placed) - 1
            and call_ids >= {one.call_id for one in turn.results}
        ):
            first = placed[calls_at + 1]
            if type(first) is ToolTurn:
                placed[calls_at + 1] = ToolTurn((*first.results, *turn.results))
            else:
                placed.insert(calls_at + 1, turn)
            continue
        placed.append(turn)
    return placed


class _Turns:
    """Turns as they grow, item by item."""

    def __init__(self, sealer: Sealer | None, known: Mapping[str, ToldCall], *, continues: bool) -> None:
        self._sealer = sealer
        self._continues = continues
        self._items = ToldItems(known)
        self._room = Room()
        self._turns: list[Turn] = []
        self._results: list[ToolResult] = []
        self._all_calls: set[str] = set()
        self.ids: dict[str, str] = {}
        self._begin()

    def _begin(self) -> None:
        self._told: list[ToolResult] = []  # of calls that ran here
        self._parts: list[AssistantPart] = []
        self._natives: list[Raw] = []
        self._says_more = False  # than the parts do
        self._has_told = False  # calls that ran here
        self._has_output = False  # a message or a call: what follows is another turn
        self._calls: set[str] = set()
        self._sealed = ""

    def add(self, raw: Raw, path: str) -> None:
        kind: _Kind = decode_field(raw, _Kind, path)
        if (own := own_item(raw)) is not None:
            self._add_told(own, raw)
            return
        match kind.type or "message":
            case "message":
                self._message(decode_field(raw, _Item, path), raw, path)
            case "reasoning":
                self._reasoning(decode_field(raw, _Item, path), raw)
            case "function_call" | "custom_tool_call":
                self._call(decode_field(raw, _Item, path), raw, path)
            case "function_call_output" | "custom_tool_call_output":
                self._result(decode_field(raw, _Item, path), path)
            case approvals.REQUEST | approvals.RESPONSE if approvals.is_own(raw, path):
                pass  # the next item is its result
            case item_type if item_type in WAITING and waits(decode_field(raw, Place, path)):
                self._waiting(decode_field(raw, Kind, path), raw, path)
            case item_type if item_type in ANSWERS:
                self._answer(decode_field(raw, _Answer, path), raw, path)
            case "compaction":
                self._compaction(decode_field(raw, _Item, path), raw, path)
            case item_type if item_type in HOSTED_ITEMS or ":" in item_type:
                self._hosted(raw, path)
            case item_type:
                raise bad(f"{path}.type", f"is {item_type[:60]!r}; it can be {', '.join(FIELDS)}")

    def done(self) -> list[Turn]:
        self._begin_item()
        self._end_assistant()
        self._end_results()
        return self._turns

    # ---- people ------------------------------------------------------------------------------------------------------

    def _message(self, item: _Item, raw: Raw, path: str) -> None:
        role = item.role
        if role is None:
            raise bad(f"{path}.role", "is missing")
        if role == "assistant":
            self._assistant(item, raw, path)
            return
        self.done()
        match role:
            case "user":
                self._turns.append(
                    UserTurn(PARTS.user_parts(item.content, f"{path}.content"), native=message_as_it_came(raw))
                )
            case "system" | "developer":
                text = PARTS.plain_text(item.content, f"{path}.content")
                self._turns.append(SystemTurn(text, "system" if role == "system" else "developer"))
            case _:
                raise bad(f"{path}.role", f"is {role[:40]!r}; it can be {', '.join(_ROLES)}")

    def _compaction(self, item: _Item, raw: Raw, path: str) -> None:
        if item.encrypted_content is None:
            raise bad(f"{path}.encrypted_content", "is missing")
        summary = unwrap_summary(item.encrypted_content, self._room)
        if summary is None:
            self._hosted(raw, path)
            return
        self.done()
        self._turns.append(user(SUMMARY + summary))

    # ---- models ------------------------------------------------------------------------------------------------------

    def _assistant(self, item: _Item, raw: Raw, path: str) -> None:
        if item.content is None:
            raise bad(f"{path}.content", "is missing")
        parts = PARTS.assistant_parts(item.content, f"{path}.content")
        self._begin_item()
        # Two messages are two turns; but calls and what is said around them belong together until they are answered.
        if self._has_output and not self._calls:
            self._end_assistant()
        self._parts += parts
        self._has_output = True
        self._says_more = self._says_more or item.phase is not None
        self._natives.append(without_id(raw))

    def _reasoning(self, item: _Item, raw: Raw) -> None:
        self._begin_item()
        sealed = item.encrypted_content
        if sealed is not None and is_sealed(sealed):
            self._sealed = sealed  # stands behind what it is about
            return
        if self._has_output and not self._calls:
            self._end_assistant()
        thoughts = [part.text for part in item.content or () if isinstance(part, Part) and part.text]
        thoughts = thoughts or [part.text for part in item.summary or () if part.text]
        if thoughts:
            thought_before = any(type(part) is Reasoning for part in self._parts)
            self._parts.append(Reasoning((BREAK if thought_before else "") + BREAK.join(thoughts)))
        if sealed is not None:
            self._says_more = True
            self._natives.append(without_id(raw))

    def _call(self, item: _Item, raw: Raw, path: str) -> None:
        if not item.call_id:
            raise bad(f"{path}.call_id", "is missing")
        if not item.name:
            raise bad(f"{path}.name", "is missing")
        name = f"{item.namespace}.{item.name}" if item.namespace else item.name
        if item.type == "custom_tool_call":
            arguments = arguments_for(item.input or "")
            self._says_more = True
        else:
            arguments = text_of(item.arguments)
        self._add_call(ToolCall(item.call_id, name, arguments), without_id(raw), path)

    def _waiting(self, kind: Kind, raw: Raw, path: str) -> None:
        call_id = kind.call_id or kind.id
        if not call_id:
            raise bad(f"{path}.call_id", "is missing")
        self._add_call(ToolCall(call_id, WAITING[kind.type].tool, arguments_of(raw)), raw.copy(), path)
        self._says_more = True

    def _add_call(self, call: ToolCall, native: Raw, path: str) -> None:
        self._begin_item()
        if call.id in self._calls:
            raise bad(f"{path}.call_id", f"is {call.id[:100]!r}, which another call of this turn has already")
        self._parts.append(call)
        self._calls.add(call.id)
        self._has_output = True
        self._natives.append(native)

    def _answer(self, answer: _Answer, raw: Raw, path: str) -> None:
        """The whole of it for an upstream of this API; for any other what it says."""
        call_id = answer.call_id or answer.approval_request_id or answer.id
        if not call_id:
            raise bad(f"{path}.call_id", "is missing")
        if call_id not in self._calls and call_id not in self._all_calls and not self._continues:
            self._hosted(raw, path)  # of a call that the service ran itself
            return
        self._end_assistant()
        text = bytes(answer.output).decode("utf-8", "replace") if answer.output != NULL else bytes(raw).decode()
        if text[:1] == '"':
            text = decode_field(answer.output, str, f"{path}.output")
        self._results.append(ToolResult(call_id, text, failed=answer.status == "failed", native=native_items([raw])))

    def _hosted(self, raw: Raw, path: str) -> None:
        kind: Kind = decode_field(raw, Kind, path)
        self._begin_item()
        text = bytes(raw).decode("utf-8", "replace")
        self._parts.append(Text(f"[{kind.type}: {text if len(text) <= _NOTED else text[:_NOTED] + '…'}]\n\n"))
        self._says_more = True
        self._natives.append(raw.copy())

    def _add_told(self, call_id: str, raw: Raw) -> None:
        """A call that ran here. One next to calls of the caller's is of their turn; any other is answered before more is said."""
        told = self._items.read(call_id, raw)
        if isinstance(told, ToolResult):
            self._told.append(told)
        elif told is not None:
            self._begin_item()
            call = told.call
            self._parts.append(call)
            item = {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
            self._natives.append(Raw(encode(item)))
            self._has_told = True
            if told.result is not None:
                self._told.append(told.result)

    def _begin_item(self) -> None:
        """Something else comes: results, and calls that ran here and have theirs, are behind it."""
        if self._told and not self._calls:
            self._end_assistant()
        self._end_results()

    def _result(self, item: _Item, path: str) -> None:
        if not item.call_id:
            raise bad(f"{path}.call_id", "is missing")
        text, attachments = PARTS.tool_output(item.output, f"{path}.output")
        self._end_assistant()
        self._results.append(ToolResult(item.call_id, text, attachments=attachments))

    def _end_assistant(self) -> None:
        parts, natives, sealed = tuple(self._parts), self._natives, self._sealed
        if parts or natives or sealed:
            stop = "tool_calls" if self._calls or self._has_told else "stop"
            native = native_items(natives) if self._says_more else None
            turn = AssistantTurn(parts, stop, native)  # type: ignore[arg-type]  # one of the two, as just seen
            whole = self._sealer.open(sealed, self._room) if sealed and self._sealer is not None else None
            if whole is not None and _says_the_same(whole, turn):
                ids = whole.caller_ids
                self.ids |= {caller: model for model, caller in ids.items() if model != caller}
                turn = with_ids(whole.turn, ids)
            self._turns.append(turn)
        self._all_calls |= self._calls
        self._results += self._told
        self._begin()

    def _end_results(self) -> None:
        if self._results:
            self._turns.append(ToolTurn(tuple(self._results)))
            self._results = []


def _says_the_same(sealed: SealedTurn, turn: AssistantTurn) -> bool:
    """A caller may edit what it sends back; then the model's own JSON of it is not what was meant."""
    whole, ids = sealed.turn, sealed.caller_ids
    return (whole.text, whole.refusal) == (turn.text, turn.refusal) and (
        [(ids[call.id], call.name, call.arguments) for call in whole.calls]
        == [(call.id, call.name, call.arguments) for call in turn.calls]
    )

"""Approvals in the input of a response: what was decided about calls that the response before waits for."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw, Struct

from ronda.wire.shared.approvals import MAX_DECISIONS, Decision
from ronda.wire.shared.fields import bad, check_count, decode_field

REQUEST = "mcp_approval_request"
RESPONSE = "mcp_approval_response"
DECISION_MARK = RESPONSE.encode()  # is in every input with a decision
_MARK = "appr_"  # how ids of ours begin; OpenAI's own begin with mcpr_


class _Item(Struct, frozen=True):
    type: str | None = None
    id: str | None = None
    approval_request_id: str | None = None
    approve: bool | None = None
    reason: str | None = None


def is_own(raw: Raw, path: str) -> bool:
    """Whether an item is about a call that a run of this server asked about, and not one that an upstream did."""
    item: _Item = decode_field(raw, _Item, path)
    approval_id = item.id if item.type == REQUEST else item.approval_request_id
    return (approval_id or "").startswith(_MARK)


def read_decisions(fields: Mapping[str, Raw]) -> tuple[Decision, ...]:
    """Those that the input ends with; what was decided before them has its answer in the input behind it."""
    items: list[Raw] = decode_field(fields["input"], list[Raw], "input")
    found: list[Decision] = []
    for index in range(len(items) - 1, -1, -1):
        path = f"input[{index}]"
        if (
            bytes(items[index])[:1] != b"{"
            or DECISION_MARK not in bytes(items[index])
            or not is_own(items[index], path)
        ):
            break
        item: _Item = decode_field(items[index], _Item, path)
        if item.type != RESPONSE:
            break
        if item.approve is None:
            raise bad(f"{path}.approve", "is missing")
        assert item.approval_request_id is not None
        verdict = Decision(item.approval_request_id, "approve" if item.approve else "deny", item.reason)
        if verdict.id in [one.id for one in found]:
            raise bad(f"{path}.approval_request_id", "is decided twice in this request")
        found.append(verdict)
    check_count(found, MAX_DECISIONS, "input")
    return tuple(reversed(found))

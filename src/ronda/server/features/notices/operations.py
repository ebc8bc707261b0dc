"""What the addresses of notices take and answer, for GET /openapi.json."""

from __future__ import annotations

from typing import Final

from ronda.server.features.notices.feature import KINDS
from ronda.server.http.operations import Named, Operation, Words

_UNDELIVERED: Final = {
    "id": str,
    "event": str,
    "created_at": float,
    "tries": int,
    "problem": str,
    "next_try_at": (float, None),
}
_ADDRESS: Final = {"object": "notice", "id": str, "url": str, "events": [str], "created_at": float}
_LISTED: Final = Named(
    "NoticeAddress", {**_ADDRESS, "undelivered": [_UNDELIVERED]}, "An address that is told about an owner's runs."
)

OPERATIONS: Final = {
    "GET /v1/notices": Operation(
        name="list_notices",
        summary="Your addresses, and the notices that were not taken",
        answer={
            "object": "list",
            "data": [_LISTED],
            "has_more": bool,
            "undelivered_of_requests": [{**_UNDELIVERED, "url": str}],
        },
    ),
    "POST /v1/notices": Operation(
        name="create_notice",
        summary="Name an address that is told about your runs",
        fields={"url": (str, "where to send notices"), "events": ([Words(*KINDS)], "of which events; none: of all")},
        needs=("url",),
        answer={**_ADDRESS, "secret": str},
        status=201,
    ),
    "GET /v1/notices/secret": Operation(
        name="get_notice_secret",
        summary="What notices to the addresses of requests (x-ronda-notify) are signed with",
        answer={"object": "notice.secret", "secret": str},
    ),
    "DELETE /v1/notices/{address_id}": Operation(
        name="delete_notice",
        summary="Forget an address",
        answer={"object": "notice.deleted", "id": str, "deleted": bool},
    ),
}

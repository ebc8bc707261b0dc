"""What the addresses of schedules take and answer, for GET /openapi.json."""

from __future__ import annotations

from typing import Any, Final

from ronda.server.http.operations import Named, Operation, Words

_MISSED: Final = Words("skip", "once", "all")
_FIRING: Final = {
    "at": float,
    "state": Words("claimed", "started", "failed", "missed"),
    "run": (str, None),
    "response": (str, None),
    "problem": (str, None),
    "count": int,
}
_SCHEDULE: Final = Named(
    "Schedule",
    {
        "object": "schedule",
        "id": str,
        "name": str,
        "cron": str,
        "timezone": str,
        "missed": _MISSED,
        "request": {"*": Any},
        "created_at": float,
        "next_at": (float, None),
        "firings": [_FIRING],
    },
    "A request that is carried out by the clock, and what became of its last times.",
)
_LIST: Final = {"object": "list", "data": [_SCHEDULE], "has_more": bool}
_ONE: Final = "/v1/schedules/{schedule_id}"

OPERATIONS: Final = {
    "GET /v1/schedules": Operation(name="list_schedules", summary="Your schedules", answer=_LIST),
    "POST /v1/schedules": Operation(
        name="create_schedule",
        summary="Start runs by the clock",
        fields={
            "cron": (str, "when: minute, hour, day of the month, month, day of the week"),
            "timezone": (str, "whose clocks; UTC unless it says"),
            "name": (str, "what you call it"),
            "missed": (_MISSED, "what becomes of times at which no server was there"),
            "request": ({"*": Any}, "a body of POST /v1/responses"),
        },
        needs=("cron", "request"),
        answer=_SCHEDULE,
        status=201,
    ),
    f"GET {_ONE}": Operation(name="get_schedule", summary="A schedule, and its last firings", answer=_SCHEDULE),
    f"DELETE {_ONE}": Operation(
        name="delete_schedule",
        summary="Remove a schedule",
        answer={"object": "schedule.deleted", "id": str, "deleted": bool},
    ),
    f"POST {_ONE}/pause": Operation(
        name="pause_schedule", summary="Have a schedule fire no more", answer=_SCHEDULE, may_be_empty=True
    ),
    f"POST {_ONE}/resume": Operation(
        name="resume_schedule", summary="Have a schedule fire again, from now on", answer=_SCHEDULE, may_be_empty=True
    ),
}

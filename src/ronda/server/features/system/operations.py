"""The addresses of the machine and the server on it, described."""

from __future__ import annotations

from typing import Any, Final

from ronda.server.http.operations import Operation, Words

_DOCTOR: Final = {
    "object": "system.doctor",
    "status": Words("works", "fails"),
    "checks": [
        {
            "name": str,
            "state": Words("works", "partly", "missing", "fails"),
            "text": str,
            "help": (str, None),
        }
    ],
}
_STATE: Final = {
    "model_id": str,
    "status": Words("loaded", "unloaded", "not_found", "no_loader_config", "internal_error"),
    "error?": str,
}
_NAMED: Final = {"model_id": (str, "its name")}


def _state(summary: str) -> Operation:
    return Operation(summary=summary, fields=_NAMED, needs=("model_id",), answer=_STATE)


def _refused(summary: str) -> Operation:
    return Operation(summary=f"{summary}: refused here, with the reason", body={"*": Any}, answer=None)


OPERATIONS: Final[dict[str, Operation]] = {
    "GET /v1/system/info": Operation(
        name="get_system_info",
        summary="The machine and the server on it",
        answer={
            "object": "system.info",
            "version": str,
            "python": str,
            "os": {"name": str, "release": str, "machine": str},
            "cpu": {"logical_cores": (int, None), "usable_cores": int},
            "memory": {"total_bytes": (int, None), "available_bytes": (int, None)},
            "model": str,
            "features": [str],
            "uptime": float,
        },
    ),
    "GET /v1/system/doctor": Operation(
        name="ask_doctor", summary="What works, what does not, and what would help", answer=_DOCTOR
    ),
    "POST /v1/system/doctor": Operation(summary="The same, as clients of mistral.rs ask it", answer=_DOCTOR),
    "POST /v1/models/status": _state("Whether a model is in this machine's memory"),
    "POST /v1/models/unload": _state("Take a model out of this machine's memory"),
    "POST /v1/models/reload": _state("Load a model"),
    "POST /v1/models/tune": _refused("Tune a model"),
    "POST /v1/images/generations": _refused("Make pictures"),
    "POST /v1/audio/speech": _refused("Speak a text"),
}

"""Settings of the request log. The names are those that mistral.rs has for them, beside `access_log`, which switches it on."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from msgspec import Struct

from ronda.server.setting import Setting

_log = partial(Setting, "the request log")


class RequestLogSettings(Struct, frozen=True):
    access_log: Annotated[
        bool,
        _log(
            "--access-log",
            "write one line to standard error for each request",
            details="See [the request log](operate.md#the-request-log).",
        ),
    ] = False
    disable_access_log: Annotated[
        bool, _log("--disable-access-log", "write no such lines, although a settings file asks for them")
    ] = False
    access_log_format: Annotated[
        Literal["text", "json"], _log("--access-log-format", "how a line is written; 'json' also switches the log on")
    ] = "text"
    access_log_health: Annotated[
        bool,
        _log(
            "--access-log-health",
            "switch the log on, with lines for probes, figures, documents and the web page, too",
        ),
    ] = False
    disable_request_id_header: Annotated[
        bool,
        _log(
            "--disable-request-id-header",
            "with the log: do not send the id of a line back as x-request-id",
            details="The `x-request-id` that an answer of a run has anyway, the run's id, stays.",
        ),
    ] = False

"""Redaction: what is logged goes through the operator's rules. What is kept does, too: the server wraps its
journal, its sessions and the files of long results in the `rewriter`; traces ask for the rules (`Redactor`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ronda._extras import has_extra, install
from ronda.server.config import ServerConfig
from ronda.server.features.contract import Feature, Finding, Line, Services
from ronda.server.features.redact.patterns import MAX_RULES, Redactor, problem_of, redactor_of
from ronda.server.features.redact.settings import RedactSettings
from ronda.server.services.redaction import Redaction


class Redact(Feature):
    name = "redact"

    @classmethod
    def check(cls, settings: ServerConfig) -> Iterable[Finding]:
        rules = settings.part(RedactSettings).redact
        if not has_extra("redact"):
            yield Finding(f"[[redact]] needs packages that are not installed: {install('redact')}")
            return
        if len(rules) > MAX_RULES:
            yield Finding(f"[[redact]] has {len(rules)} rules; it can have {MAX_RULES}")
        for rule in rules[:MAX_RULES]:
            if (problem := problem_of(rule)) is not None:
                yield Finding(problem)

    @classmethod
    def rewriter(cls, settings: ServerConfig) -> Redactor:
        return redactor_of(settings.part(RedactSettings).redact)

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._rules = settings.part(RedactSettings).redact
        self._redactor = redactor_of(self._rules)

    def provides(self) -> Mapping[type, object]:
        return {Redaction: self._redactor}

    def begin(self) -> None:
        redact_log(self._redactor)

    async def stop(self) -> None:
        leave_log(self._redactor)

    async def doctor(self) -> Sequence[Line]:
        return [Line("redact", "works", f"{len(self._rules)} rules, before anything is kept, logged or traced")]


# ---- the log ---------------------------------------------------------------------------------------------------------

# Of the process, as its log is: a filter would have to hang on every handler, and on those that come later.
_active: list[Redactor] = []
_make_record: Callable[..., logging.LogRecord] | None = None


def redact_log(redactor: Redactor) -> None:
    """From now on, whatever is logged in this process has the rules applied, tracebacks included."""
    global _make_record
    _active.append(redactor)
    if _make_record is None:
        _make_record = logging.getLogRecordFactory()
        logging.setLogRecordFactory(_redacted_record)


def leave_log(redactor: Redactor) -> None:
    global _make_record
    if redactor in _active:
        _active.remove(redactor)
    if not _active and _make_record is not None:
        logging.setLogRecordFactory(_make_record)
        _make_record = None


def _redacted_record(*args: Any, **more: Any) -> logging.LogRecord:
    assert _make_record is not None
    record = _make_record(*args, **more)
    text = record.getMessage()
    trace = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
    for redactor in _active:
        text, trace = redactor(text), redactor(trace)
    record.msg, record.args = text, None
    if trace:
        record.exc_text = trace
    return record

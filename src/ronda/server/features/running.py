"""The features of one server: made in their order, asked and told by the app, the set-up of runs, their host and recovery.

Each list holds the features that have something to say at that point, and most are empty: a server without features pays for a
look at an empty tuple.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ronda._doctor import Line
from ronda.core.events import Event, RunStarted
from ronda.core.plan import ToolSpec
from ronda.drive import Tool
from ronda.errors import BadConfig, RondaError
from ronda.host.supervisor import Supervisor, done_or_reported
from ronda.server.config import ServerConfig
from ronda.server.features.contract import (
    Ask,
    Brought,
    Chore,
    Feature,
    Figure,
    Folders,
    Reopening,
    TargetTools,
    overrides,
)
from ronda.server.http.incoming import Header, Incoming
from ronda.server.http.operations import Operation
from ronda.server.http.routing import Dialect, Route, Routes
from ronda.server.services.models import Target
from ronda.server.services.session_folders import SessionFolders
from ronda.store.catalog import Catalog
from ronda.store.claims import Claims
from ronda.wire.shared.capabilities import Capability, Need

if TYPE_CHECKING:
    from ronda.prompty.registry import Lent

log = logging.getLogger("ronda.server")

DOCTOR_SECONDS: Final = 30.0  # that one feature may take: a browser and an MCP server each start within ten


def check_features(classes: Iterable[type[Feature]], config: ServerConfig) -> None:
    """Raises BadConfig for what cannot be; logs what only should not."""
    findings = [finding for feature in classes for finding in feature.check(config)]
    for finding in findings:
        if not finding.is_fatal:
            log.warning("%s", finding.problem)
    if fatal := [finding.problem for finding in findings if finding.is_fatal]:
        raise BadConfig("; ".join(fatal))


def prepare_features(
    classes: Iterable[type[Feature]], config: ServerConfig, folders: Folders, given: Mapping[str, Any]
) -> dict[str, Any]:
    """What the features need that are not given it. May take a while. Raises BadConfig."""
    return {one.name: one.prepare(config, folders) for one in classes if one.name not in given} | dict(given)


def rewriter_of(classes: Iterable[type[Feature]], config: ServerConfig) -> Callable[[str], str] | None:
    """All that rewrite, one after another; None: none does."""
    found = [one for feature in classes if (one := feature.rewriter(config)) is not None]
    if len(found) < 2:
        return found[0] if found else None
    return lambda text: reduce(lambda before, rewrite: rewrite(before), found, text)


def add_tables(classes: Iterable[type[Feature]], catalog: Catalog) -> None:
    """Each feature has a line of migrations of its own."""
    for feature in classes:
        if feature.tables:
            catalog.add_tables(feature.name, feature.tables)


class Features:
    """There from the beginning, so that others may hold it; empty until the features are made (`make`)."""

    def __init__(self, made: Sequence[Feature] = ()) -> None:
        self.all: tuple[Feature, ...] = tuple(made)
        self._sort()

    def make(self, classes: Iterable[type[Feature]], make: Callable[[type[Feature]], Feature]) -> None:
        """One after another; none is asked for anything but `standing_tools` until all are made. Raises BadConfig."""
        for feature in classes:
            if feature.name in [one.name for one in self.all]:
                raise BadConfig(f"two features are named '{feature.name}'")
            self.all = (*self.all, make(feature))
        self._sort()

    def standing_names(self) -> list[str]:
        """Of the tools that every request has from the features that are made by now."""
        return [tool.spec.name for feature in self._with("standing_tools") for tool in feature.standing_tools()]

    def _sort(self) -> None:
        """Which features have something to say at which point."""
        self._by_name = {feature.name: feature for feature in self.all}
        self.signing_in = self._with("sign_in")
        headers = [one.sign_in_headers for one in self.signing_in]
        # Which requests a feature may know the owner of: all, or those that have one of these headers.
        self.signs_in_all = not all(headers)
        self.sign_in_headers = tuple([name for names in headers for name in names])
        self.admitting = self._with("admit")
        self._ending_messages = self._with("message_answered")
        self._asking = self._with("request_came")
        self._heading = self._with("answer_headers")
        self._answering = self._with("answer_sent")
        self.watches = bool(self._asking or self._heading or self._answering)  # requests, to their end
        self.bringing = self._with("tools")
        self.standing = self._with("standing_tools")
        self._readying = self._with("ready")
        self._meeting = self._with("names_for")
        self._taking = self._with("others")
        self.tool_names = tuple([name for one in self.all for name in one.tool_names])
        self.running = self._with("runs")
        self.extending = self._with("target_tools")
        self._declaring = self._with("declared_tools")
        self._lending = self._with("lend")
        self.equipping = self._with("equip")
        self.opening = self._with("run_began")
        self.noting = self._with("run_state")
        self.extensions = tuple([one for one in self.all if overrides(one, "around") or overrides(one, "tap")])
        self.counts_calls = any(one.counts_calls for one in self.all)
        self.reopening = self._with("reopen")
        self._reopening_tools = self._with("reopen_tools")
        self.is_steady = all(one.is_steady for one in self.all)
        self._provided = {kind: value for one in self.all for kind, value in one.provides().items()}
        self.folders: SessionFolders | None = self.provided(SessionFolders)  # of what runs code here

    def _with(self, member: str) -> tuple[Feature, ...]:
        return tuple([feature for feature in self.all if overrides(feature, member)])

    def find(self, name: str) -> Feature | None:
        return self._by_name.get(name)

    def provided(self, kind: type) -> Any:
        """What one of them provides as such a thing; None if none does."""
        return self._provided.get(kind)

    def routes(self, default: Dialect) -> Routes:
        """The table of addresses. `default` is the dialect of those that are not in it."""
        rows: list[Route] = []
        taken: dict[tuple[str, str], str] = {}
        for feature in self.all:
            for row in feature.routes():
                if (owner := taken.get((row.method, row.path))) is not None:
                    raise BadConfig(f"the feature '{feature.name}' answers {row.method} {row.path}, as {owner} does")
                taken[row.method, row.path] = (
                    "the server itself" if feature.is_door else f"the feature '{feature.name}'"
                )
                rows.append(row)
        return Routes(rows, default)

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def sign_in(self, request: Incoming) -> bool:
        """Whether a feature knows whose the request is."""
        for feature in self.signing_in:
            if (owner := await feature.sign_in(request)) is not None:
                request.owner, request.signed_in_by = owner, feature.name
                return True
        return False

    async def admit(self, request: Incoming, route: Route) -> list[Header]:
        headers: list[Header] = []
        for feature in self.admitting:
            headers += await feature.admit(request, route)
        return headers

    def message_answered(self) -> None:
        for feature in self._ending_messages:
            feature.message_answered()

    def report_request(self, request: Incoming, route: Route) -> None:
        for feature in self._asking:
            try:
                feature.request_came(request, route)
            except Exception as error:
                log.error("the feature '%s' failed at a request", feature.name, exc_info=error)

    def report_answer(self, request: Incoming, route: Route, answer: ASGIApp, began: float) -> ASGIApp:
        """The same answer, with the headers that features have for it; they are told when it was sent. `began` is by the
        monotonic clock."""

        async def reported(scope: Scope, receive: Receive, send: Send) -> None:
            status = 0

            async def told(message: Message) -> None:
                nonlocal status
                kind = message["type"]
                if kind in ("http.response.start", "websocket.http.response.start"):
                    status = message["status"]
                    message = self._with_answer_headers(request, route, message)
                elif kind == "websocket.accept":
                    status = 101
                    message = self._with_answer_headers(request, route, message)
                elif kind == "websocket.close" and not status:
                    status = 403  # which a client sees where the connection was never accepted
                await send(message)

            try:
                await answer(scope, receive, told)
            finally:
                for feature in self._answering:
                    try:
                        feature.answer_sent(request, route, status, time.monotonic() - began)
                    except Exception as error:
                        log.error("the feature '%s' failed at an answer", feature.name, exc_info=error)

        return reported

    def _with_answer_headers(self, request: Incoming, route: Route, message: Message) -> Message:
        if not self._heading:
            return message
        headers = list(message.get("headers", ()))
        for feature in self._heading:
            try:
                headers = feature.answer_headers(request, route, headers)
            except Exception as error:
                log.error("the feature '%s' failed at the headers of an answer", feature.name, exc_info=error)
        return {**message, "headers": headers}

    # ---- runs --------------------------------------------------------------------------------------------------------

    def capabilities(self) -> dict[Capability, Sequence[Tool]]:
        found: dict[Capability, Sequence[Tool]] = {}
        for feature in self.all:
            found |= feature.capabilities()
        return found

    async def ready(self) -> None:
        for feature in self._readying:
            await feature.ready()

    def names_for(self, need: Need) -> tuple[str, ...]:
        """The tools of the first feature that does what is asked for."""
        for feature in self._meeting:
            if names := feature.names_for(need):
                return names
        return ()

    def others(self, needs: Sequence[Need]) -> Sequence[Need]:
        """The needs that the core looks at."""
        for feature in self._taking:
            needs = feature.others(needs) if needs else needs
        return needs

    async def bring(self, ask: Ask) -> list[Brought]:
        found = [await feature.tools(ask) for feature in self.bringing]
        return [one for one in found if one is not None]

    def run_declared(self, spec: ToolSpec) -> Tool | None:
        for feature in self.running:
            if (tool := feature.runs(spec)) is not None:
                return tool
        return None

    async def target_tools(self, target: Target, owner: str) -> TargetTools:
        found = [one for feature in self.extending if (one := await feature.target_tools(target, owner)) is not None]
        tools = tuple([tool for one in found for tool in one.tools])
        return TargetTools(tools, tuple([warning for one in found for warning in one.warnings]))

    def declared_tools(self) -> list[Tool]:
        return [tool for feature in self._declaring for tool in feature.declared_tools()]

    def lend(self, lent: Lent, owner: str) -> None:
        for feature in self._lending:
            feature.lend(lent, owner)

    def run_began(self, start: RunStarted, tools: Mapping[str, Tool]) -> None:
        for feature in self.opening:
            feature.run_began(start, tools)

    def run_state(self) -> dict[str, Raw]:
        return {name: value for feature in self.noting for name, value in feature.run_state().items()}

    async def reopen(self, start: RunStarted, events: Sequence[Event]) -> Reopening | None:
        for feature in self.reopening:
            if (found := await feature.reopen(start, events)) is not None:
                return found
        return None

    async def reopen_tools(self, start: RunStarted, events: Sequence[Event]) -> dict[str, Tool]:
        found: dict[str, Tool] = {}
        for feature in self._reopening_tools:
            found |= await feature.reopen_tools(start, events)
        names = {spec.name for spec in start.plan.tools}
        return {name: tool for name, tool in found.items() if name in names}

    # ---- the server --------------------------------------------------------------------------------------------------

    def figures(self) -> Iterable[Figure]:
        for feature in self.all:
            yield from feature.figures()

    def operations(self) -> dict[str, Operation]:
        """What addresses take and answer, by `METHOD PATH`."""
        return {name: one for feature in self._with("operations") for name, one in feature.operations().items()}

    async def doctor(self) -> list[Line]:
        """One after another. A feature that breaks, or hangs, has a line that says so."""
        lines: list[Line] = []
        for feature in self._with("doctor"):
            try:
                async with asyncio.timeout(DOCTOR_SECONDS):
                    lines += await feature.doctor()
            except TimeoutError:
                lines.append(Line(feature.name, "fails", f"it has not answered for {DOCTOR_SECONDS:g} seconds"))
            except Exception as error:
                log.debug("the feature '%s' could not be examined", feature.name, exc_info=error)
                lines.append(Line(feature.name, "fails", reason_of(error)))
        return lines

    def begin(self) -> None:
        for feature in self.all:
            feature.begin()

    async def start(self) -> None:
        """One after another; what one raises keeps the server from starting."""
        for feature in self.all:
            try:
                await feature.start()
            except Exception as error:
                log.debug("the feature '%s' could not start", feature.name, exc_info=error)
                raise BadConfig(f"the feature '{feature.name}' could not start: {reason_of(error)}") from error

    def startup_lines(self) -> list[str]:
        return [line for feature in self.all for line in feature.startup_lines()]

    def keep_chores(self, supervisor: Supervisor, claims: Claims) -> None:
        for feature in self.all:
            for chore in feature.chores():
                supervisor.keep(chore.name, partial(_keep, chore, feature.name, claims))

    async def drain(self, seconds: float) -> None:
        for feature in self._with("drain"):
            await done_or_reported(
                f"the end of what the feature '{feature.name}' had under way", feature.drain(seconds)
            )

    async def runs_ended(self) -> None:
        for feature in self._with("runs_ended"):
            await done_or_reported(f"the last words of the feature '{feature.name}'", feature.runs_ended())

    async def stop(self) -> None:
        """In the order opposite to that of their start."""
        for feature in reversed(self._with("stop")):
            await done_or_reported(f"the end of the feature '{feature.name}'", feature.stop())


def reason_of(error: Exception) -> str:
    """In one line. Of an exception that is not ours the class is named, too: its text may be a word or nothing."""
    text = " ".join(str(error).split())
    if isinstance(error, RondaError) and text:
        return text
    return ": ".join([part for part in (type(error).__name__, text) if part])


async def _keep(chore: Chore, feature: str, claims: Claims) -> None:
    if chore.per == "process":
        await _repeat(chore)
    claim = f"chore {feature} {chore.name}"
    while True:
        if await claims.claim("", claim):  # else another process does it, for as long as that lives
            break
        await asyncio.sleep(chore.every)
    try:
        await _repeat(chore)
    finally:
        claims.release("", claim)


async def _repeat(chore: Chore) -> None:
    while True:
        await chore.do()
        await asyncio.sleep(chore.every)

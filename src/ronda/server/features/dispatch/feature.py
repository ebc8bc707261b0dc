"""Tools elsewhere, as a feature: calls of tools that requests declare, or that the settings describe, are sent to addresses."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ronda.core.plan import ToolSpec
from ronda.drive import Tool
from ronda.errors import BadConfig
from ronda.providers.http.address import Address, without_secrets
from ronda.providers.http.reachable import why_not_reached
from ronda.schema.validate import check_schema
from ronda.server.features.contract import Feature, Finding, Line, Services
from ronda.server.features.dispatch.addresses import Addresses
from ronda.server.features.dispatch.settings import DispatchSettings, ToolAddress

if TYPE_CHECKING:
    from ronda.prompty.registry import Lent
    from ronda.server.config import ServerConfig


class Dispatch(Feature):
    name = "dispatch"

    @classmethod
    def check(cls, settings: ServerConfig) -> Iterable[Finding]:
        own = settings.part(DispatchSettings)
        url, secret = own.tool_dispatch_url, own.tool_dispatch_secret
        if url is not None:
            yield from _check_address("--tool-dispatch-url", url, secret)
        elif secret is not None:
            yield Finding("tool_dispatch_secret signs the calls that are sent to tool_dispatch_url, which is not set")
        for name, address in own.dispatch.items():
            yield from _check_tool(name, address)

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._addresses = Addresses(settings.part(DispatchSettings), settings.retry)
        self._own = self._addresses.own_tools()
        if taken := {tool.spec.name for tool in self._own} & services.tool_names():
            raise BadConfig(f"two tools of this server are named '{min(taken)}'")

    async def doctor(self) -> Sequence[Line]:
        return [await _examine(url) for url in self._addresses.urls()]

    def standing_tools(self) -> Sequence[Tool]:
        return self._own

    def declared_tools(self) -> Sequence[Tool]:
        return self._addresses.named_tools()

    def runs(self, declared: ToolSpec) -> Tool | None:
        return self._addresses.tool(declared)

    def lend(self, lent: Lent, owner: str) -> None:
        lent.otherwise = self._addresses.any_tool


async def _examine(url: str) -> Line:
    if (problem := await why_not_reached(url)) is not None:
        return Line("dispatch", "fails", problem, "calls of tools are sent there: --tool-dispatch-url, or [dispatch]")
    return Line("dispatch", "works", f"{Address(url).origin} takes connections")


def _check_tool(name: str, address: ToolAddress) -> Iterable[Finding]:
    where = f"[dispatch.{name}]"
    if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
        yield Finding(f"{where}: a tool's name has up to 64 letters, digits, '_', '-' and '.'")
    yield from _check_address(f"{where} url", address.url, address.secret)
    if address.timeout is not None and not (address.timeout > 0 and math.isfinite(address.timeout)):
        yield Finding(f"{where} timeout is {address.timeout:g}; it must be more than 0 seconds")
    if address.parameters is None:
        if address.description:
            yield Finding(f"{where} has a description but no parameters: give both, or let requests declare it")
    elif (problem := check_schema(address.parameters)) is not None:
        yield Finding(f"{where} parameters are no JSON Schema: {problem}")


def _check_address(what: str, url: str, secret: str | None) -> Iterable[Finding]:
    try:
        Address(url)
    except ValueError as error:
        yield Finding(f"{what} is {without_secrets(url)!r}: {error}")
    if secret == "":
        yield Finding(f"{what}: the secret that signs its calls is empty")

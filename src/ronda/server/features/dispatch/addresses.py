"""Which calls are sent to an address, and to which: a tool's own, else the server's."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw, json
from msgspec.structs import replace

from ronda.core.limits import Retry
from ronda.core.plan import ToolSpec
from ronda.drive import Tool
from ronda.providers.http.address import Address
from ronda.server.features.dispatch.settings import DispatchSettings, ToolAddress
from ronda.tools.dispatch import DispatchTool


class Addresses:
    def __init__(self, settings: DispatchSettings, retry: Retry) -> None:
        url = settings.tool_dispatch_url
        self._by_name = settings.dispatch
        self._otherwise = None if url is None else ToolAddress(url, settings.tool_dispatch_secret)
        self._timeout = settings.tool_dispatch_timeout
        self._retry = retry

    def urls(self) -> list[str]:
        """One for each server that calls are sent to."""
        addresses = [*self._by_name.values(), *([] if self._otherwise is None else [self._otherwise])]
        return list({Address(one.url).origin: one.url for one in addresses}.values())

    def own_tools(self) -> list[Tool]:
        """Those that the settings describe: the server offers them by itself."""
        return [
            self._tool_at(address, _described(name, address))
            for name, address in self._by_name.items()
            if address.parameters is not None
        ]

    def named_tools(self) -> list[Tool]:
        """One for each name that has an address of its own."""
        return [self._tool_at(address, ToolSpec(name)) for name, address in self._by_name.items()]

    @property
    def any_tool(self) -> Callable[[str], Tool] | None:
        """Makes a tool of any name; None where only named tools have addresses."""
        if (address := self._otherwise) is None:
            return None
        return lambda name: self._tool_at(address, ToolSpec(name))

    def tool(self, spec: ToolSpec) -> Tool | None:
        """What runs a tool that is declared so, if its calls are sent anywhere."""
        address = self._by_name.get(spec.name, self._otherwise)
        return None if address is None else self._tool_at(address, spec)

    def _tool_at(self, address: ToolAddress, spec: ToolSpec) -> Tool:
        spec = replace(
            spec,
            kind="dispatch",
            timeout=self._timeout if address.timeout is None else address.timeout,
            repeatable=address.repeatable,
            approval=address.approval,
            labels=address.labels,
        )
        return DispatchTool(spec, address.url, address.secret, self._retry)


def _described(name: str, address: ToolAddress) -> ToolSpec:
    assert address.parameters is not None
    return ToolSpec(
        name,
        address.description,
        Raw(json.encode(address.parameters)),
        no_arguments_needed=not address.parameters.get("required"),
    )

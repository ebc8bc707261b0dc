"""Which calls are sent to an address, and to which: a tool's own, else the server's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ronda.core.limits import RETRY, Retry
from ronda.core.plan import ToolSpec
from ronda.drive import Tool
from ronda.server.config import ServerConfig, ToolAddress


class Dispatch:
    """`addresses` are those of single tools, `otherwise` that of all others; what it leaves out is said there."""

    def __init__(
        self,
        addresses: Mapping[str, ToolAddress] | None = None,
        otherwise: ToolAddress | None = None,
        timeout: float = 30.0,
        retry: Retry = RETRY,
    ) -> None:
        self._addresses = addresses or {}
        self._otherwise = otherwise
        self._timeout = timeout
        self._retry = retry
        if self._addresses or otherwise is not None:
            import ronda.tools.dispatch  # noqa: F401 (when a server starts: with aiohttp behind it, for who has an address)

    @classmethod
    def of(cls, config: ServerConfig) -> Dispatch:
        url = config.tool_dispatch_url
        rest = None if url is None else ToolAddress(url, config.tool_dispatch_secret)
        return cls(config.dispatch, rest, config.tool_dispatch_timeout, config.retry)

    @property
    def own(self) -> list[Tool]:
        """The tools that the server offers by itself."""
        return [
            self._made(_spec(name, address), address)
            for name, address in self._addresses.items()
            if address.parameters is not None
        ]

    @property
    def by_name(self) -> dict[str, Tool]:
        return {name: self._made(ToolSpec(name), address) for name, address in self._addresses.items()}

    @property
    def otherwise(self) -> Callable[[str], Tool] | None:
        """Makes a tool of the name of one that nobody else runs."""
        if (address := self._otherwise) is None:
            return None
        return lambda name: self._made(ToolSpec(name), address)

    def tool(self, spec: ToolSpec) -> Tool | None:
        """Who runs a tool that is declared so, if its calls are sent anywhere."""
        address = self._addresses.get(spec.name, self._otherwise)
        return None if address is None else self._made(spec, address)

    def _made(self, spec: ToolSpec, address: ToolAddress) -> Tool:
        from ronda.tools.dispatch import DispatchTool  # with aiohttp behind it: only for who has an address

        timeout = self._timeout if address.timeout is None else address.timeout
        spec = replace(
            spec,
            kind="dispatch",
            timeout=timeout,
            repeatable=address.repeatable,
            approval=address.approval,
            labels=address.labels,
        )
        return DispatchTool(spec, address.url, address.secret, self._retry)


def _spec(name: str, address: ToolAddress) -> ToolSpec:
    assert address.parameters is not None
    return ToolSpec(
        name,
        address.description,
        Raw(msgspec.json.encode(address.parameters)),
        no_arguments_needed=not address.parameters.get("required"),
    )

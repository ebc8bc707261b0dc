"""A model that is called with what a request gave for its service only: tokens of MCP servers that the service calls.

No journal has it. A run that goes on in another process goes on without.
"""

from __future__ import annotations

from msgspec.structs import replace

from ronda.core.events import ModelFinished
from ronda.core.plan import Options, ToolSpec
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Provider, Show, capabilities_of
from ronda.server.services.models import Target
from ronda.wire.shared.door_request import DoorRequest, Secrets


def with_secrets(target: Target, request: DoorRequest) -> Target:
    return target if request.secrets is None else replace(target, provider=_Trusted(target.provider, request.secrets))


class _Trusted:
    def __init__(self, provider: Provider, secrets: Secrets) -> None:
        self._provider = provider
        self._secrets = secrets
        # The same values in every round, so that what was written of them is not written again.
        self._tools: tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]] = ((), ())

    @property
    def capabilities(self) -> Capabilities:
        return capabilities_of(self._provider)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        with_secrets = replace(
            request, tools=self._told_tools(request.tools), options=self._told_options(request.options)
        )
        return await self._provider.call(with_secrets, show)

    def _told_tools(self, tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        known, with_secrets = self._tools
        if known is not tools:
            natives = self._secrets.declarations
            with_secrets = tuple(
                [replace(tool, native=natives[tool.name]) if tool.name in natives else tool for tool in tools]
            )
            self._tools = (tools, with_secrets)
        return with_secrets

    def _told_options(self, options: Options) -> Options:
        fields = {name: value for name, value in self._secrets.fields.items() if name in options.extra}
        return replace(options, extra={**options.extra, **fields}) if fields else options

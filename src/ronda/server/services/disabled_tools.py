"""Tools that a request turns off by name (`disabled_tools`) → an offer without them, and rules for the run's children.

A name may have `*` and `?` in it; `mcp:NAME` is every tool of an MCP server. It can only narrow. A tool that the caller runs is
the caller's own, and stays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ronda.core.permissions import fits_name
from ronda.core.plan import PermissionRule
from ronda.drive import Tool
from ronda.server.services.key_limits import OWN_WORKING
from ronda.server.services.toolbox import Offer, server_of
from ronda.wire.shared.fields import SERVER_PREFIX

_MAX_WARNINGS: Final = 8


def without_disabled(offer: Offer, disabled: Sequence[str], standing: Mapping[str, Tool]) -> Offer:
    """`standing`: tools that the server offers to every request, which an agent's children may have where this offer has not."""
    servers = {name.removeprefix(SERVER_PREFIX) for name in disabled if name.startswith(SERVER_PREFIX)}
    patterns = [name for name in disabled if not name.startswith(SERVER_PREFIX)]
    if servers:
        tools = {**standing, **offer.handlers}
        patterns += [name for name, tool in tools.items() if server_of(tool) in servers]
    gone = {
        spec.name
        for spec in offer.specs
        if spec.kind != "caller" and spec.name not in OWN_WORKING and _fits_any(patterns, spec.name)
    }
    return replace(offer.without(gone), denied=tuple(patterns))


def denying_rules(patterns: Sequence[str]) -> tuple[PermissionRule, ...]:
    return tuple([PermissionRule("deny", tool=pattern, but=OWN_WORKING) for pattern in patterns])


def unknown_names(disabled: Sequence[str], tools: Collection[str], servers: Collection[str]) -> tuple[str, ...]:
    """Warnings about names that turn nothing off here: one that is misspelt leaves a tool on."""
    unknown = [
        name
        for name in disabled
        if not (
            name.removeprefix(SERVER_PREFIX) in servers
            if name.startswith(SERVER_PREFIX)
            else any(fits_name(name, tool) for tool in tools)
        )
    ]
    return tuple(
        [f"'disabled_tools' names '{name[:100]}', which this server does not have" for name in unknown][:_MAX_WARNINGS]
    )


def _fits_any(patterns: Sequence[str], name: str) -> bool:
    return any(fits_name(pattern, name) for pattern in patterns)

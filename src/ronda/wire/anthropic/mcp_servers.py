"""`mcp_servers`, and the tools of type `mcp_toolset` that say what is wanted of each → what the request needs of the server."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Raw, Struct

from ronda.wire.codec.json import encode
from ronda.wire.shared.capabilities import HOSTED, Need
from ronda.wire.shared.door_request import Secrets
from ronda.wire.shared.fields import bad, check_count, decode_field
from ronda.wire.shared.mcp_servers import EVERY, NO_TOOL, NamedServer, ToolFilter, check_label, without_secrets

MAX_SERVERS: Final = 20  # Anthropic's own limit
_FIELD: Final = "mcp_servers"


class _ToolWish(Struct, frozen=True):
    enabled: bool | None = None
    defer_loading: bool | None = None


class Toolset(Struct, frozen=True):
    type: str = "mcp_toolset"
    mcp_server_name: str | None = None
    default_config: _ToolWish | None = None
    configs: dict[str, _ToolWish] | None = None
    tools: list[str] | None = None

    def narrowed(self, server: NamedServer) -> NamedServer:
        default, configs = self.default_config or _ToolWish(), self.configs or {}
        enabled = {name: config.enabled for name, config in configs.items()}
        deferred = {name: config.defer_loading for name, config in configs.items()}
        return _with(
            server,
            _choose_tools(enabled, is_default=default.enabled is not False)
            if self.tools is None
            else _names(self.tools),
            _choose_tools(deferred, is_default=default.defer_loading is True),
        )


class _ToolConfiguration(Struct, frozen=True):
    enabled: bool | None = None
    allowed_tools: list[str] | None = None


class _Server(Struct, frozen=True):
    type: str = "url"
    name: str | None = None
    url: str | None = None
    authorization_token: str | None = None
    tool_configuration: _ToolConfiguration | None = None


def _names(names: Sequence[str]) -> ToolFilter:
    return ToolFilter(tuple(names))


def _choose_tools(wishes: Mapping[str, bool | None], *, is_default: bool) -> ToolFilter:
    """Those that are wished for one by one, or all but those that are not."""
    if is_default:
        return ToolFilter(but=tuple([name for name, wish in wishes.items() if wish is False]))
    return ToolFilter(tuple([name for name, wish in wishes.items() if wish is True]))


def _with(server: NamedServer, allowed: ToolFilter, deferred: ToolFilter) -> NamedServer:
    return NamedServer(
        label=server.label,
        url=server.url,
        configured=server.label,
        token=server.token,
        allowed=allowed,
        deferred=deferred,
    )


def without_servers(fields: Mapping[str, Raw], labels: Collection[str]) -> dict[str, Raw]:
    """The fields of a request whose `mcp_servers` are without these."""
    raws: list[Raw] = decode_field(fields.get(_FIELD, Raw(b"[]")), list[Raw], _FIELD)
    left = [raw for raw in raws if decode_field(raw, _Server, _FIELD).name not in labels]
    others = {name: value for name, value in fields.items() if name != _FIELD}
    return {**others, _FIELD: Raw(encode(left))} if left else others


def apart_from_secrets(fields: Mapping[str, Raw]) -> tuple[dict[str, Raw], Secrets | None]:
    """The fields of a request for Anthropic as they may be journaled, and what it is told besides."""
    if _FIELD not in fields:
        return {**fields}, None
    servers: list[Raw] = decode_field(fields[_FIELD], list[Raw], _FIELD)
    bare = [without_secrets(server, ("authorization_token",), "url") for server in servers]
    if bare == servers:
        return {**fields}, None
    return {**fields, _FIELD: Raw(encode(bare))}, Secrets({_FIELD: fields[_FIELD]})


def read_servers(raws: Sequence[Raw], toolsets: Mapping[str, tuple[str, Toolset]]) -> list[Need]:
    """`toolsets`: the server's name → where a set of its tools is declared, and the set. One without an entry in `mcp_servers`
    is of a server of the operator's."""
    check_count(raws, MAX_SERVERS, "mcp_servers")
    needs: dict[str, Need] = {}
    for index, raw in enumerate(raws):
        path = f"mcp_servers[{index}]"
        entry: _Server = decode_field(raw, _Server, path)
        label = check_label(entry.name, f"{path}.name")
        if label in needs:
            raise bad(f"{path}.name", f"names '{label}' a second time")
        if entry.type != "url":
            raise bad(f"{path}.type", f'is {entry.type[:60]!r}; it can be "url"')
        if not entry.url:
            raise bad(f"{path}.url", "is missing")
        server = NamedServer(label=label, url=entry.url, token=entry.authorization_token)
        if label in toolsets:
            server = toolsets[label][1].narrowed(server)
        elif (wanted := entry.tool_configuration) is not None:
            allowed = EVERY if wanted.allowed_tools is None else _names(wanted.allowed_tools)
            server = _with(server, NO_TOOL if wanted.enabled is False else allowed, NO_TOOL)
        needs[label] = Need("mcp_servers", path, HOSTED["mcp_servers"], server=server)
    for label, (path, toolset) in toolsets.items():
        if label not in needs:
            server = toolset.narrowed(NamedServer(label=label))
            needs[label] = Need("mcp_toolset", f"{path}.type", HOSTED["mcp_toolset"], server=server)
    return list(needs.values())

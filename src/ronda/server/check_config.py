"""Settings that cannot be → an error that names them, before anything starts, whether flags, a file or a program gave them."""

from __future__ import annotations

import math
import os
import re

from ronda.core.limits import LEAST_RESULT_CHARS
from ronda.core.permissions import check_rules
from ronda.errors import BadConfig
from ronda.providers.http.address import Address, without_secrets
from ronda.schema.validate import check_schema
from ronda.server.config import ServerConfig
from ronda.server.features.table import settings_of, wanted
from ronda.server.http.tls import open_tls
from ronda.server.setting import check_bounds, rows_of


def check_config(config: ServerConfig) -> None:
    _check_numbers(config)
    _check_addresses(config)
    _check_offer(config)
    if config.queue != "table" and config.database is None:
        raise BadConfig(
            f"--queue {config.queue} keeps its runs in PostgreSQL: say where with --database, or leave --queue out"
        )
    if config.transport is not None:
        config.transport.routes(os.environ)
    _ = config.fetch_routes  # raises for a proxy that cannot be
    check_rules(config.permission)
    _check_dispatch(config)
    _check_local_sizes(config)
    if classes := wanted(config):
        from ronda.server.features.running import check_features

        check_features(classes, config)


def _check_numbers(config: ServerConfig) -> None:
    parts = (config, *[config.part(settings) for settings in settings_of(config.features)])
    for part, row in [(one, row) for one in parts for row in rows_of(type(one))]:
        value = getattr(part, row.name)
        if isinstance(value, int | float):
            check_bounds(row, value)
        if row.setting.needs and value != row.default and not getattr(config, row.setting.needs):
            name, needed = (text.replace("_", "-") for text in (row.name, row.setting.needs))
            raise BadConfig(f"--{name} is of no use without --{needed} (or --agent)")
    if config.max_body_memory < config.max_body:
        raise BadConfig(
            f"--max-body-memory is {config.max_body_memory}; it must be at least {config.max_body}, which one body may have"
        )
    if config.max_result_chars and config.max_result_chars < LEAST_RESULT_CHARS:
        problem = f"it counts characters, from {LEAST_RESULT_CHARS} on; 0 shows a model all of a result"
        raise BadConfig(f"--max-result-chars is {config.max_result_chars}; {problem}")


def _check_offer(config: ServerConfig) -> None:
    switches = {
        "code": ("--enable-code-execution", config.enable_code_execution),
        "shell": ("--enable-shell", config.enable_shell),
    }
    for name in config.offer:
        if name not in switches:  # a program's settings have not been through a decoder
            raise BadConfig(f"--offer is {name!r}; it can be {' or '.join(switches)}")
        flag, is_on = switches[name]
        if not is_on:
            raise BadConfig(f"--offer {name} is of no use without {flag} (or --agent)")


def _check_addresses(config: ServerConfig) -> None:
    if config.tls_cert is not None:
        open_tls(config.tls_cert, config.tls_key)
    elif config.tls_key is not None:
        raise BadConfig("--tls-key is of no use without --tls-cert, the certificate that it belongs to")
    for flag, port in (("--port", config.port), ("--mcp-port", config.mcp_port)):
        if port is not None and not 0 <= port <= 65535:
            raise BadConfig(f"{flag} is {port}; it can be 1 to 65535, or 0 for any that is free")
    if config.mcp_port and config.mcp_port == config.port:
        raise BadConfig(f"--mcp-port and --port are both {config.port}; /mcp is there on --port anyway")
    if config.database is not None and not config.database.startswith(("postgresql://", "postgres://")):
        raise BadConfig("--database must be the address of a PostgreSQL database, like postgresql://user@host/name")
    for origin in config.allow_origins:
        if origin not in ("*", "null") and not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s?#@]+/?", origin):
            raise BadConfig(
                f"--allow-origin is {origin!r}; it must be like http://localhost:3000, without a path, or '*'"
            )
    for host in config.allow_hosts:
        if host != "*" and not re.fullmatch(r"[\w.-]+", host):
            raise BadConfig(f"--allow-host is {host!r}; it must be a name like ronda.example, without a port, or '*'")


def _check_dispatch(config: ServerConfig) -> None:
    url, secret = config.tool_dispatch_url, config.tool_dispatch_secret
    if url is not None:
        _check_address("--tool-dispatch-url", url, secret)
    elif secret is not None:
        raise BadConfig("tool_dispatch_secret signs the calls that are sent to tool_dispatch_url, which is not set")
    for name, address in config.dispatch.items():
        where = f"[dispatch.{name}]"
        if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
            raise BadConfig(f"{where}: a tool's name has up to 64 letters, digits, '_', '-' and '.'")
        _check_address(f"{where} url", address.url, address.secret)
        if address.timeout is not None and not (address.timeout > 0 and math.isfinite(address.timeout)):
            raise BadConfig(f"{where} timeout is {address.timeout:g}; it must be more than 0 seconds")
        if address.parameters is None:
            if address.description:
                raise BadConfig(f"{where} has a description but no parameters: give both, or let requests declare it")
        elif (problem := check_schema(address.parameters)) is not None:
            raise BadConfig(f"{where} parameters are no JSON Schema: {problem}")


def _check_address(what: str, url: str, secret: str | None) -> None:
    try:
        Address(url)
    except ValueError as error:
        raise BadConfig(f"{what} is {without_secrets(url)!r}: {error}") from error
    if secret == "":
        raise BadConfig(f"{what}: the secret that signs its calls is empty")


def _check_local_sizes(config: ServerConfig) -> None:
    if config.slots is None and config.context is None:
        return
    from ronda.providers import LEAST_CONTEXT, MOST_CONTEXT, MOST_SLOTS

    bounds = {"slots": (config.slots, 1, MOST_SLOTS), "context": (config.context, LEAST_CONTEXT, MOST_CONTEXT)}
    for name, (value, least, most) in bounds.items():
        if value is None:
            continue
        if not config.model.startswith("local:"):
            raise BadConfig(f"--{name} is for local models; {config.model} decides that itself")
        if not least <= value <= most:
            raise BadConfig(f"--{name} is {value}; it can be {least} to {most}")

"""Settings that cannot be → an error that names them, before anything starts, whether flags, a file or a program gave them."""

from __future__ import annotations

import os
import re

from ronda.core.limits import LEAST_RESULT_CHARS
from ronda.core.permissions import check_rules
from ronda.errors import BadConfig
from ronda.server.config import ServerConfig
from ronda.server.features.table import all_rows, all_values, wanted
from ronda.server.http.tls import open_tls
from ronda.server.setting import check_bounds


def check_config(config: ServerConfig) -> None:
    _check_numbers(config)
    _check_addresses(config)
    if config.queue != "table" and config.database is None:
        raise BadConfig(
            f"--queue {config.queue} keeps its runs in PostgreSQL: say where with --database, or leave --queue out"
        )
    if config.transport is not None:
        config.transport.routes(os.environ)
    _ = config.fetch_routes  # raises for a proxy that cannot be
    check_rules(config.permission)
    _check_local_sizes(config)
    if classes := wanted(config):
        from ronda.server.features.running import check_features

        check_features(classes, config)


def _check_numbers(config: ServerConfig) -> None:
    values = all_values(config)
    for row in all_rows(config.features):
        value = values[row.name]
        if isinstance(value, int | float):
            check_bounds(row, value)
        if row.setting.needs and value != row.default and not values[row.setting.needs]:
            name, needed = (text.replace("_", "-") for text in (row.name, row.setting.needs))
            raise BadConfig(f"--{name} is of no use without --{needed} (or --agent)")
    if config.max_body_memory < config.max_body:
        raise BadConfig(
            f"--max-body-memory is {config.max_body_memory}; it must be at least {config.max_body}, which one body may have"
        )
    if config.max_result_chars and config.max_result_chars < LEAST_RESULT_CHARS:
        problem = f"it counts characters, from {LEAST_RESULT_CHARS} on; 0 shows a model all of a result"
        raise BadConfig(f"--max-result-chars is {config.max_result_chars}; {problem}")


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

"""Settings that cannot be → an error that names them, before anything starts, whether flags, a file or a program gave them."""

from __future__ import annotations

import math
import re
from typing import Final

from ronda.core.limits import LEAST_RESULT_CHARS
from ronda.core.permissions import check_rules
from ronda.errors import BadConfig
from ronda.providers import split_spec
from ronda.providers.http.address import Address, without_secrets
from ronda.schema.validate import check_schema
from ronda.server.config import MAX_VARIANTS, ServerConfig

MOST_SHUTDOWN_SECONDS = 3600
MOST_POOL = 64
_DEFAULTS = ServerConfig()


def check_config(config: ServerConfig) -> None:
    _check_numbers(config)
    _check_addresses(config)
    if config.queue != "table" and config.database is None:
        raise BadConfig(
            f"--queue {config.queue} keeps its runs in PostgreSQL: say where with --database, or leave --queue out"
        )
    for model in config.app.named:
        split_spec(model.model)
    if config.app.variants is not None and not 1 <= config.app.variants <= MAX_VARIANTS:
        raise BadConfig(f"[app] variants is {config.app.variants}; it can be 1 to {MAX_VARIANTS}")
    if config.images or config.page:
        from ronda.tools.page import open_page_services  # most servers have neither

        open_page_services(None, images=config.images, page=config.page, fetch_allow=config.fetch_allow)
    check_rules(config.permission)
    _check_dispatch(config)
    _check_code(config)
    _check_local_sizes(config)


# Settings and the least that each can be; None is none.
_LEAST: Final = {
    "max_tool_rounds": 0,
    "max_tool_rounds_ceiling": 0,
    "max_detached": 0,
    "max_grace": 0,
    "keep_previews": 0,
    "keep_previews_bytes": 0,
    "max_offered_tools": 1,
    "max_upload": 1,
    "background_runs": 1,
    "background_per_owner": 1,
    "background_per_session": 1,
    "background_queue": 1,
    "max_identical_calls": 1,
    "max_answer_bytes": 1,
}
_TIMES: Final = (
    "approval_timeout",
    "approval_days",
    "tool_dispatch_timeout",
    "code_exec_timeout",
    "shell_timeout",
    "max_run_seconds",
    "header_seconds",
    "body_seconds",
    "stall_seconds",
)


def _check_numbers(config: ServerConfig) -> None:
    for name, least in _LEAST.items():
        value = getattr(config, name)
        if value is not None and not value >= least:
            problem = f"it must be at least {least}" if least else "it cannot be negative"
            raise BadConfig(f"--{name.replace('_', '-')} is {value}; {problem}")
    for name in _TIMES:
        value = getattr(config, name)
        if value is not None and not (value > 0 and math.isfinite(value)):
            unit = "days" if name == "approval_days" else "seconds"
            raise BadConfig(f"--{name.replace('_', '-')} is {value:g}; it must be more than 0 {unit}")
    if not 0.5 <= config.lease_seconds <= 600:
        raise BadConfig(f"--lease-seconds is {config.lease_seconds:g}; it can be 0.5 to 600")
    if not 0 <= config.shutdown_seconds <= MOST_SHUTDOWN_SECONDS:
        raise BadConfig(
            f"--shutdown-seconds is {config.shutdown_seconds:g}; it can be 0 to {MOST_SHUTDOWN_SECONDS}: whoever ends a "
            "process does not wait for ever"
        )
    if config.max_body_memory < config.max_body:
        raise BadConfig(
            f"--max-body-memory is {config.max_body_memory}; it must be at least {config.max_body}, which one body may have"
        )
    if config.context_budget is not None and config.context_budget < 1:
        raise BadConfig(f"--context-budget is {config.context_budget}; it counts characters, from 1 on")
    if config.max_result_chars and config.max_result_chars < LEAST_RESULT_CHARS:
        problem = f"it counts characters, from {LEAST_RESULT_CHARS} on; 0 shows a model all of a result"
        raise BadConfig(f"--max-result-chars is {config.max_result_chars}; {problem}")


def _check_addresses(config: ServerConfig) -> None:
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


def _check_code(config: ServerConfig) -> None:
    """What says how code runs is for servers that run some."""
    if not 0 <= config.code_exec_pool <= MOST_POOL:
        raise BadConfig(f"--code-exec-pool is {config.code_exec_pool}; it can be 0 to {MOST_POOL}")
    switches = {
        "enable_code_execution": ("code_exec_python", "code_exec_timeout", "code_exec_workdir", "code_exec_pool"),
        "enable_shell": ("shell_path", "shell_timeout", "shell_workdir", "skills_dir"),
    }
    for switch, names in switches.items():
        for name in names:
            if not getattr(config, switch) and getattr(config, name) != getattr(_DEFAULTS, name):
                flag, needed = (text.replace("_", "-") for text in (name, switch))
                raise BadConfig(f"--{flag} is of no use without --{needed} (or --agent)")


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
    from ronda.providers.local.machine import LEAST_CONTEXT, MOST_CONTEXT, MOST_SLOTS

    bounds = {"slots": (config.slots, 1, MOST_SLOTS), "context": (config.context, LEAST_CONTEXT, MOST_CONTEXT)}
    for name, (value, least, most) in bounds.items():
        if value is None:
            continue
        if not config.model.startswith("local:"):
            raise BadConfig(f"--{name} is for local models; {config.model} decides that itself")
        if not least <= value <= most:
            raise BadConfig(f"--{name} is {value}; it can be {least} to {most}")

"""Flags and a TOML file → ServerConfig: flags win, paths in the file are meant from where the file is."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from ronda.cli.main import DEFAULT_MODEL
from ronda.cli.model import check_model
from ronda.errors import BadConfig
from ronda.providers.http.address import Address, without_secrets
from ronda.schema.validate import check_schema
from ronda.server.config import ServerConfig

_NAMES = ServerConfig.__struct_fields__
SECRET_NAME = "RONDA_TOOL_DISPATCH_SECRET"  # the variable; a flag would show the secret to everybody on this machine
_FROM_ENVIRONMENT = re.compile(r"\$\{env:([^{}:]+)\}")

MOST_SHUTDOWN_SECONDS = 3600


def read_config(arguments: argparse.Namespace) -> ServerConfig:
    settings: dict[str, Any] = {}
    if arguments.config is not None:
        settings = _read_toml(arguments.config)
    for name in _NAMES:
        value = getattr(arguments, name, None)
        if value is not None:
            settings[name] = value
    if settings.get("tool_dispatch_url") and (secret := os.environ.get(SECRET_NAME)):
        settings.setdefault("tool_dispatch_secret", secret)
    try:
        config = msgspec.convert({"model": DEFAULT_MODEL, **settings}, ServerConfig)
    except msgspec.ValidationError as error:
        raise BadConfig(f"the settings do not fit: {_plainly(error)}") from error
    _check(config)
    return config


def _check(config: ServerConfig) -> None:
    if not 0 <= config.port <= 65535:
        raise BadConfig(f"--port is {config.port}; it can be 1 to 65535, or 0 for any that is free")
    for origin in config.allow_origins:
        if origin not in ("*", "null") and not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s?#@]+/?", origin):
            raise BadConfig(
                f"--allow-origin is {origin!r}; it must be like http://localhost:3000, without a path, or '*'"
            )
    for host in config.allow_hosts:
        if host != "*" and not re.fullmatch(r"[\w.-]+", host):
            raise BadConfig(f"--allow-host is {host!r}; it must be a name like ronda.example, without a port, or '*'")
    _check_dispatch(config)
    for name in ("max_tool_rounds", "max_tool_rounds_ceiling"):
        value = getattr(config, name)
        if value is not None and value < 0:
            raise BadConfig(f"--{name.replace('_', '-')} is {value}; it cannot be negative")
    if not 0 <= config.shutdown_seconds <= MOST_SHUTDOWN_SECONDS:
        raise BadConfig(
            f"--shutdown-seconds is {config.shutdown_seconds:g}; it can be 0 to {MOST_SHUTDOWN_SECONDS}: whoever ends a "
            "process does not wait for ever"
        )
    if config.max_detached < 0 or config.max_grace < 0:
        raise BadConfig("--max-detached and --max-grace cannot be negative")
    if config.max_identical_calls < 1:
        raise BadConfig(f"--max-identical-calls is {config.max_identical_calls}; it must be at least 1")
    for name in (
        "approval_timeout",
        "approval_days",
        "tool_dispatch_timeout",
        "max_run_seconds",
        "header_seconds",
        "body_seconds",
        "stall_seconds",
    ):
        value = getattr(config, name)
        if value is not None and not (value > 0 and math.isfinite(value)):
            unit = "days" if name == "approval_days" else "seconds"
            raise BadConfig(f"--{name.replace('_', '-')} is {value:g}; it must be more than 0 {unit}")
    _check_local_sizes(config)
    if config.context_budget is not None and config.context_budget < 1:
        raise BadConfig(f"--context-budget is {config.context_budget}; it counts characters, from 1 on")
    if config.max_answer_bytes < 1:
        raise BadConfig(f"--max-answer-bytes is {config.max_answer_bytes}; it must be more than 0")
    check_model(config.model, config.base_url)


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


def _read_toml(path: str) -> dict[str, Any]:
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadConfig(f"cannot read the settings file {path!r}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfig(f"the settings file {path!r} is not TOML: {error}") from error
    settings = {name.replace("-", "_"): value for name, value in table.items()}
    for name in settings:
        if name not in _NAMES:
            close = difflib.get_close_matches(name, _NAMES, 1)
            hint = f"did you mean '{close[0]}'?" if close else f"there is {', '.join(_NAMES)}"
            raise BadConfig(f"the settings file {path!r} has no use for '{name}'; {hint}")
    return settings | _from(Path(path).parent, settings)


def _from(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that name files, and lists of one. What is no path is left for `convert` to refuse."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        match name, value:
            case "tools", str():
                found[name] = [str(folder / value)]
            case (("allow_origins" | "allow_hosts" | "aliases" | "fetch_allow"), str()):
                found[name] = [value]
            case "tools", list():
                found[name] = [str(folder / tool) if isinstance(tool, str) else tool for tool in value]
            case "search", dict():
                places = {
                    key: str(folder / value[key]) for key in ("folder", "index") if isinstance(value.get(key), str)
                }
                found[name] = {**value, **places}
            case ("agents", str()) | ("data_dir", str()) if value != ":memory:":
                found[name] = str(folder / value)
            case "tool_dispatch_secret", str():
                found[name] = _secret(value, name)
            case "dispatch", dict():
                found[name] = {tool: _with_secret(address, tool) for tool, address in value.items()}
            case "model", str() if value.startswith("script:"):
                found[name] = f"script:{folder / value.removeprefix('script:')}"
            case "model", str() if value.startswith("local:") and value.endswith(".gguf"):
                found[name] = f"local:{folder / value.removeprefix('local:')}"
    return found


def _with_secret(address: Any, tool: str) -> Any:
    if not isinstance(address, dict) or not isinstance(address.get("secret"), str):
        return address
    return {**address, "secret": _secret(address["secret"], f"secret of [dispatch.{tool}]")}


def _secret(value: str, what: str) -> str:
    """As it stands there, or in the variable that it names: `${env:NAME}`."""
    if (named := _FROM_ENVIRONMENT.fullmatch(value)) is None:
        return value
    if not (found := os.environ.get(named[1])):
        raise BadConfig(f"the {what} is ${{env:{named[1]}}}, and the environment has no {named[1]}")
    return found


def _plainly(error: msgspec.ValidationError) -> str:
    """Without the marks of whoever reads: "Expected `int`, got `str` - at `$.port`" → "port: Expected int, got str"."""
    said, _, place = str(error).replace("`", "").partition(" - at $.")
    return f"{place}: {said}" if re.fullmatch(r"[\w.\[\]…]+", place) else said

"""Flags and a TOML file → ServerConfig: flags win, paths in the file are meant from where the file is."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from ronda.cli.flags import DEFAULT_MODEL
from ronda.cli.model import check_model
from ronda.errors import BadConfig
from ronda.sandbox.policy import read_policy
from ronda.server.check_config import check_config
from ronda.server.config import ServerConfig

_NAMES = ServerConfig.__struct_fields__
SECRET_NAME = "RONDA_TOOL_DISPATCH_SECRET"  # the variable; a flag would show the secret to everybody on this machine
DATABASE_NAME = "RONDA_DATABASE"  # likewise: the address may have a password in it
_FROM_ENVIRONMENT = re.compile(r"\$\{env:([^{}:]+)\}")


def read_config(arguments: argparse.Namespace) -> ServerConfig:
    settings: dict[str, Any] = {}
    if arguments.config is not None:
        settings = _read_toml(arguments.config)
        if isinstance(names := settings.get("agents"), list):  # no folder: agents that the served model has as tools
            tools = settings.get("agent_tools", {})
            settings["agent_tools"] = {"default": names, **tools} if isinstance(tools, dict) else tools
            del settings["agents"]
    table, flags = settings.pop("sandbox", {}), {}
    for name in ("mode", "profile", "network", "max_memory_mb", "max_cpu_secs", "max_procs"):
        flags[name] = getattr(arguments, f"sandbox_{name}", None)
    if not isinstance(table, dict):
        raise BadConfig("the settings do not fit: sandbox must be a table, [sandbox]")
    settings["sandbox"] = msgspec.to_builtins(read_policy(table, flags, os.environ))
    for name in _NAMES:
        value = getattr(arguments, name, None)
        if value is not None:
            settings[name] = value
    if models := getattr(arguments, "app_model", None):
        app = settings.get("app", {})
        settings["app"] = {**app, "models": models} if isinstance(app, dict) else app
    if settings.get("tool_dispatch_url") and (secret := os.environ.get(SECRET_NAME)):
        settings.setdefault("tool_dispatch_secret", secret)
    if url := os.environ.get(DATABASE_NAME):
        settings.setdefault("database", url)
    if path := os.environ.get("MCP_CONFIG_PATH"):
        settings.setdefault("mcp_config", path)
    try:
        config = msgspec.convert({"model": DEFAULT_MODEL, **settings}, ServerConfig)
    except msgspec.ValidationError as error:
        raise BadConfig(f"the settings do not fit: {_plainly(error)}") from error
    if config.agent:
        config = msgspec.structs.replace(config, enable_code_execution=True, enable_shell=True)
    check_config(config)
    check_model(config.model, config.base_url)
    return config


def database_of(arguments: argparse.Namespace) -> str | None:
    """For commands that have no settings file."""
    return arguments.database or os.environ.get(DATABASE_NAME)


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
                found[name] = [_tools_from(folder, value)]
            case (("allow_origins" | "allow_hosts" | "aliases" | "fetch_allow" | "mcp_allow_url"), str()):
                found[name] = [value]
            case "tools", list():
                found[name] = [_tools_from(folder, tool) if isinstance(tool, str) else tool for tool in value]
            case "search", dict():
                places = {
                    key: str(folder / value[key]) for key in ("folder", "index") if isinstance(value.get(key), str)
                }
                found[name] = {**value, **places}
            case (
                ("agents" | "data_dir" | "mcp_config" | "code_exec_workdir" | "shell_workdir" | "skills_dir"),
                str(),
            ) if value != ":memory:":
                found[name] = str(folder / value)
            case (("tool_dispatch_secret" | "database"), str()):
                found[name] = _secret(value, name)
            case "page", {"folder": str(place)}:
                found[name] = {**value, "folder": str(folder / Path(place).expanduser())}
            case "images", {"api_key": str(key)}:
                found[name] = {**value, "api_key": _secret(key, "api_key of [images]")}
            case "dispatch", dict():
                found[name] = {tool: _with_secret(address, tool) for tool, address in value.items()}
            case "model", str() if value.startswith("script:"):
                found[name] = f"script:{folder / value.removeprefix('script:')}"
            case "model", str() if value.startswith("local:") and value.endswith(".gguf"):
                found[name] = f"local:{folder / value.removeprefix('local:')}"
            case _:
                pass  # taken as it is
    return found


def _tools_from(folder: Path, name: str) -> str:
    """A file; the name of an installed package's tools has no ending, and stays as it is."""
    from ronda.server.resources.tools_file import is_package

    return name if is_package(str(name)) and not (folder / name).exists() else str(folder / name)


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
    reason, _, place = str(error).replace("`", "").partition(" - at $.")
    return f"{place}: {reason}" if re.fullmatch(r"[\w.\[\]…]+", place) else reason

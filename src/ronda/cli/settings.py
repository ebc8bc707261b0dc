"""Flags, variables of the environment and a TOML file → ServerConfig, in this order: the first that says a setting counts.
Paths in the file start at the file's folder."""

from __future__ import annotations

import argparse
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from ronda._suggest import did_you_mean
from ronda.cli.flags import DEFAULT_MODEL
from ronda.cli.model import check_model, usual_address
from ronda.errors import BadConfig
from ronda.sandbox.policy import read_policy
from ronda.server.check_config import check_config
from ronda.server.config import ServerConfig
from ronda.server.features.table import all_rows, make_config
from ronda.server.setting import Row, from_environment, rows_of

_ROWS: Final = {row.name: row for row in rows_of(ServerConfig)}
_FROM_ENVIRONMENT = re.compile(r"\$\{env:([^{}:]+)\}")


def read_config(arguments: argparse.Namespace) -> ServerConfig:
    settings: dict[str, Any] = {}
    source: dict[str, str] = {}  # of each setting, for what is said of it
    table = {} if arguments.config is None else _read_toml(arguments.config)
    rows = {row.name: row for row in all_rows(_named_features(arguments, table))}
    if arguments.config is not None:
        settings = _read_table(arguments.config, table, rows)
        source = dict.fromkeys(settings, f"the settings file {arguments.config!r}")
        if isinstance(names := settings.get("agents"), list):  # no folder: agents that the served model has as tools
            tools = settings.get("agent_tools", {})
            settings["agent_tools"] = {"default": names, **tools} if isinstance(tools, dict) else tools
            del settings["agents"]
    settings |= (environment := from_environment(rows.values(), os.environ))
    source |= {name: f"the variable {rows[name].variable}" for name in environment}
    for row in rows.values():
        if (value := getattr(arguments, row.name, None)) is not None:
            settings[row.name] = value
        if row.setting.variable and (value := os.environ.get(row.setting.variable)):
            settings.setdefault(row.name, value)
        if row.setting.members:
            _set_members(settings, row, arguments, source)
    if "base_url" in environment and getattr(arguments, "base_url", None) is None:
        settings["base_url"] = usual_address(settings.get("model", DEFAULT_MODEL), environment.get("model"))
    if "tool_dispatch_secret" in environment and not settings.get("tool_dispatch_url"):
        del settings["tool_dispatch_secret"]  # it may be there for another server
    try:
        config = make_config({"model": DEFAULT_MODEL, **settings})
    except msgspec.ValidationError as error:
        place, reason = _plainly(error)
        where = source.get(place.partition(".")[0].partition("[")[0])
        raise BadConfig(": ".join(part for part in (where, place, reason) if part)) from error
    check_config(config)
    check_model(config.model, config.base_url)
    return config


def _named_features(arguments: argparse.Namespace, table: dict[str, Any]) -> list[str]:
    """The features of other packages: their settings are known once they are loaded."""
    given = getattr(arguments, "features", None)
    if given is None:
        given = from_environment([_ROWS["features"]], os.environ).get("features", table.get("features", ()))
    given = [given] if isinstance(given, str) else given
    return [str(name) for name in given] if isinstance(given, list) else []


def _set_members(settings: dict[str, Any], row: Row, arguments: argparse.Namespace, source: dict[str, str]) -> None:
    """Flags that say one member of a table, over the table of the file."""
    table = settings.get(row.name, {})
    if not isinstance(table, dict):
        raise BadConfig(f"{source[row.name]}: {row.name} must be a table, [{row.name}]")
    flags = {member: getattr(arguments, f"{row.name}_{member}", None) for member in row.setting.members}
    if row.name == "sandbox":  # whose environment has names that mistral.rs gave it
        settings[row.name] = msgspec.to_builtins(read_policy(table, flags, os.environ))
    elif given := {member: value for member, value in flags.items() if value is not None}:
        settings[row.name] = {**table, **given}


def storage_config(arguments: argparse.Namespace, *more: str) -> ServerConfig:
    """Where things are kept, for commands that have no settings file. `more` are other settings that a command has flags for."""
    rows = [_ROWS[name] for name in ("data_dir", "database", *more)]
    given = {row.name: value for row in rows if (value := getattr(arguments, row.name)) is not None}
    return ServerConfig(**(from_environment(rows, os.environ) | given))


def _read_toml(path: str) -> dict[str, Any]:
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadConfig(f"cannot read the settings file {path!r}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfig(f"the settings file {path!r} is not TOML: {error}") from error
    return {name.replace("-", "_"): value for name, value in table.items()}


def _read_table(path: str, settings: dict[str, Any], rows: Mapping[str, Row]) -> dict[str, Any]:
    for name in settings:
        if name not in rows:
            hint = did_you_mean(name, rows, f"there is {', '.join(rows)}")
            raise BadConfig(f"the settings file {path!r} has no use for '{name}'; {hint}")
    return settings | _from(Path(path).parent, settings, rows)


def _from(folder: Path, settings: dict[str, Any], rows: Mapping[str, Row]) -> dict[str, Any]:
    """The settings that name files, and lists of one. What is no path is left for `convert` to refuse."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        match name, value:
            case "tools", str():
                found[name] = [_tools_from(folder, value)]
            case "tools", list():
                found[name] = [_tools_from(folder, tool) if isinstance(tool, str) else tool for tool in value]
            case "search", dict():
                places = {
                    key: str(folder / value[key]) for key in ("folder", "index") if isinstance(value.get(key), str)
                }
                found[name] = {**value, **places}
            case "page", {"folder": str(place)}:
                found[name] = {**value, "folder": str(folder / Path(place).expanduser())}
            case "images", {"api_key": str(key)}:
                found[name] = {**value, "api_key": _secret(key, "api_key of [images]")}
            case "oidc", {"client_secret": str(secret)}:
                found[name] = {**value, "client_secret": _secret(secret, "client_secret of [oidc]")}
            case "dispatch", dict():
                found[name] = {tool: _with_secret(address, tool) for tool, address in value.items()}
            case "model", str():
                found[name] = _model_from(folder, value)
            case "more_models", list():
                found[name] = [_model_from(folder, spec) if isinstance(spec, str) else spec for spec in value]
            case "models", dict():
                found[name] = {
                    key: {**table, "model": _model_from(folder, table["model"])} if _has_model(table) else table
                    for key, table in value.items()
                }
            case _, str() if rows[name].is_list:
                found[name] = [value]
            case _, str() if rows[name].setting.reads == "path" and value != ":memory:":
                found[name] = str(folder / value)
            case _, str() if rows[name].setting.reads == "secret":
                found[name] = _secret(value, name)
            case _:
                pass  # taken as it is
    return found


def _has_model(table: Any) -> bool:
    return isinstance(table, dict) and isinstance(table.get("model"), str)


def _model_from(folder: Path, spec: str) -> str:
    """A model that is a file."""
    kind, _, name = spec.partition(":")
    is_file = kind == "script" or (kind == "local" and name.endswith(".gguf"))
    return f"{kind}:{folder / name}" if is_file else spec


def _tools_from(folder: Path, name: str) -> str:
    """A file; the name of an installed package's tools has no ending, and stays as it is."""
    from ronda.server.services.tools_file import is_package

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


def _plainly(error: msgspec.ValidationError) -> tuple[str, str]:
    """Without the marks of the decoder: "Expected `int`, got `str` - at `$.port`" → "port", "Expected int, got str"."""
    reason, _, place = str(error).replace("`", "").partition(" - at $.")
    return (place, reason) if re.fullmatch(r"[\w.\[\]…]+", place) else ("", reason)

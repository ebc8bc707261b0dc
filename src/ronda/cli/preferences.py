"""What a person usually wants, in `$XDG_CONFIG_HOME/ronda/config.toml` → flags that were not given.

    model = "ollama:qwen3"                  # asked when no other is named; `ronda models default` writes this line

    [profiles.work]                         # taken with --profile work
    model = "azure:gpt-5"
    system = "Answer in one paragraph."
    temperature = 0.2

In this order, the first that says something counts: a flag, `--profile`, RONDA_MODEL and RONDA_BASE_URL, the profile that
RONDA_PROFILE or `profile = "…"` names, the top of the file. An address belongs to the model next to it: no other model is asked
there. `ronda serve` has settings of its own (`--config`) and reads none of this.
"""

from __future__ import annotations

import argparse
import os
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import msgspec

from ronda._suggest import did_you_mean
from ronda.errors import BadConfig

MAX_BYTES: Final = 1_000_000  # of the file; a page of settings has a few hundred
_FOR_ANY: Final = ("tools", "mcp_config", "max_iterations")
_FOR_PROMPTS: Final = ("system", "temperature", "max_tokens")
_MODEL_LINE: Final = re.compile(r"^model\s*=.*$", re.MULTILINE)
_TABLE: Final = re.compile(r"^\s*\[", re.MULTILINE)


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename=lambda name: name.replace("_", "-")):
    """Each is a flag of the same name."""

    model: str | None = None
    base_url: str | None = None
    system: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    max_iterations: int | None = None
    tools: list[str] | None = None
    mcp_config: str | None = None


class Preferences(Profile, frozen=True, forbid_unknown_fields=True, rename=lambda name: name.replace("_", "-")):
    profile: str | None = None  # of `profiles`: taken where none is named
    profiles: dict[str, Profile] = {}


def config_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "ronda" / "config.toml"


def read_preferences(path: Path | None = None) -> Preferences:
    path = config_path() if path is None else path
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return Preferences()
    except OSError as error:
        raise BadConfig(f"cannot read {path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise BadConfig(f"{path} is larger than {MAX_BYTES} bytes")
    try:
        table = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} is not TOML: {error}") from error
    return _read_table(path, table)


def _read_table(path: Path, table: dict[str, Any]) -> Preferences:
    tables = {"": table, **{name: one for name, one in _tables(table).items() if isinstance(one, dict)}}
    for name, one in tables.items():
        known = Profile.__struct_encode_fields__ if name else Preferences.__struct_encode_fields__
        for key in [*one]:
            if key.replace("_", "-") not in known:
                where = f"[profiles.{name}] of {path}" if name else str(path)
                hint = did_you_mean(key, known, f"there is {', '.join(known)}")
                raise BadConfig(f"{where} has no use for '{key}'; {hint}")
            one[key.replace("_", "-")] = one.pop(key)
    try:
        return _with_paths(msgspec.convert(table, Preferences), path.parent)
    except msgspec.ValidationError as error:
        raise BadConfig(f"{path}: {str(error).replace('`', '').replace(' - at $.', ', at ')}") from error


def _with_paths(preferences: Preferences, folder: Path) -> Preferences:
    """Paths in the file start at its folder."""

    def placed(profile: Profile) -> dict[str, Any]:
        tools = None if profile.tools is None else [str(folder / Path(one).expanduser()) for one in profile.tools]
        config = None if profile.mcp_config is None else str(folder / Path(profile.mcp_config).expanduser())
        return {"tools": tools, "mcp_config": config}

    profiles = {name: msgspec.structs.replace(one, **placed(one)) for name, one in preferences.profiles.items()}
    return msgspec.structs.replace(preferences, profiles=profiles, **placed(preferences))


def _tables(table: dict[str, Any]) -> dict[str, Any]:
    found = table.get("profiles")
    return found if isinstance(found, dict) else {}


def fill_in(arguments: argparse.Namespace, *, for_file: bool = False) -> None:
    """The flags that were not given, as the profile says them, or the top of the file. A prompty file (`for_file`) says itself
    how its model is asked. Of the model and its address only those
    of `--profile` are like flags: the usual ones come behind the environment (`cli.model.choose_model`)."""
    preferences = read_preferences()
    sources: list[Profile] = [preferences]
    if arguments.profile is not None:
        profile = _profile(preferences, arguments.profile)
        sources.insert(0, profile)
        if arguments.model is None:
            arguments.model = profile.model
            arguments.base_url = arguments.base_url or profile.base_url
    elif usual := _usual_name(preferences):
        sources.insert(0, _profile(preferences, usual))
    for source in sources:
        for name in _FOR_ANY if for_file else (*_FOR_ANY, *_FOR_PROMPTS):
            if getattr(arguments, name, "") is None:
                setattr(arguments, name, getattr(source, name))


def usual_model() -> tuple[str | None, str | None]:
    """The model that is asked when no other is named, and its address."""
    preferences = read_preferences()
    if usual := _usual_name(preferences):
        profile = _profile(preferences, usual)
        if profile.model is not None:
            return profile.model, profile.base_url
    return preferences.model, preferences.base_url


def _usual_name(preferences: Preferences) -> str | None:
    return os.environ.get("RONDA_PROFILE") or preferences.profile


def _profile(preferences: Preferences, name: str) -> Profile:
    if (found := preferences.profiles.get(name)) is not None:
        return found
    there = f"there is {', '.join(preferences.profiles)}" if preferences.profiles else "there is none"
    raise BadConfig(f"{config_path()} has no profile '{name}'; {did_you_mean(name, preferences.profiles, there)}")


def write_default_model(spec: str) -> Path:
    """One line of the file is changed, or put before all others. By hand: the standard library writes no TOML, and one that
    does would lose the comments."""
    path = config_path()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"cannot read {path}: {error}") from error
    line = f"model = {msgspec.json.encode(spec).decode()}"  # a TOML string of one line is written as JSON's is
    table = _TABLE.search(text)
    top, rest = (text, "") if table is None else (text[: table.start()], text[table.start() :])
    top = _MODEL_LINE.sub(lambda _: line, top, count=1) if _MODEL_LINE.search(top) else f"{line}\n{top}"
    try:
        changed = tomllib.loads(top + rest)
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"{path} is not TOML: {error}") from error
    if changed.get("model") != spec:
        raise BadConfig(f"{path} has a 'model' that cannot be changed by a command; write {line} there yourself")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(top + rest, encoding="utf-8")
    except OSError as error:
        raise BadConfig(f"{path} cannot be written: {error.strerror}") from error
    return path

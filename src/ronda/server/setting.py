"""A setting, written once: the annotation of a field → its flag, its key in a settings file, its environment variable, its
check, its line of `--help` and its row in docs/settings.md.

This module knows no setting. The fields stand in `config.ServerConfig` and in `features/NAME/settings.py`; `cli.serve_flags`
makes the flags, `check_config` checks the values, `docs/make_settings.py` prints the page. It imports only msgspec, so that
`ronda serve --help` loads no server.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from ronda.errors import BadConfig

# The groups of --help and of the page, in their order. A feature may have a group of its own, which comes after these.
GROUPS: Final = (
    MODEL := "the model",
    LISTENING := "where it listens",
    ACCESS := "who may ask",
    AGENTS := "agents and tools",
    CODE := "code in a sandbox",
    WEB := "the web",
    APPROVALS := "approvals",
    RUN_LIMITS := "limits of a run",
    REQUEST_LIMITS := "limits of a request",
    BACKGROUND := "runs that outlive their request",
    STORAGE := "what is kept, and where",
    SETTINGS := "settings",
)

_MIB: Final = 1024 * 1024
_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")


class Setting(Struct, frozen=True):
    """What a field's type and default do not say of it.

    `flag` is written as `--help` shows it (`-p, --port N`); without one the setting is for the settings file and the
    environment. The bounds are checked; `above` is a bound that the value itself may not have.
    """

    group: str
    flag: str
    help: str
    details: str = ""  # for the page only: what a line of --help has no room for
    default: str = ""  # in words, where the value would not tell
    choices: tuple[str, ...] = ()  # where they are fewer than those of the type
    unit: Literal["", "seconds", "days", "bytes"] = ""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    because: str = ""  # why the bound is where it is
    needs: str = ""  # the switch without which the setting does nothing
    stands_for: tuple[str, ...] = ()  # of a switch: others that it turns on
    variable: str = ""  # an environment variable besides RONDA_…, which counts after the settings file
    reads: Literal["", "path", "secret"] = ""  # a path starts at the settings file; a secret may be ${env:NAME}
    members: Mapping[str, Setting] = {}  # of a table: members that have flags of their own


NO_SETTING: Final = Setting("", "", "")  # of a field that is none


class Row(Struct, frozen=True):
    """A field of a settings struct, with its annotation taken apart."""

    name: str
    type: Any
    default: Any
    setting: Setting

    @property
    def variable(self) -> str | None:
        """Its environment variable. Tables have none."""
        return None if self.is_table else f"RONDA_{self.name.upper()}"

    @property
    def is_table(self) -> bool:
        return (
            any(get_origin(kind) in (dict, Mapping) or is_struct(kind) for kind in self.kinds) or self.is_list_of_tables
        )

    @property
    def is_list(self) -> bool:
        return get_origin(self.type) is tuple

    @property
    def is_list_of_tables(self) -> bool:
        return self.is_list and is_struct(get_args(self.type)[0])

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that it may have, without None."""
        if get_origin(self.type) in (Union, UnionType):
            return tuple(kind for kind in get_args(self.type) if kind is not NoneType)
        return (self.type,)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it may be, where it is one of a few."""
        if self.setting.choices or get_origin(self.kinds[0]) is not Literal:
            return self.setting.choices
        return get_args(self.kinds[0])

    @property
    def default_text(self) -> str:
        """For people; empty where a setting that is absent needs no word."""
        if self.setting.default:
            return self.setting.default
        if self.default in (None, "", False, ()) or self.is_table:
            return ""
        if self.setting.unit == "bytes":
            return f"{self.default // _MIB} MiB"
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


@cache
def rows_of(struct: type[Struct]) -> tuple[Row, ...]:
    """All fields of a settings struct, in its order."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(struct)}
    found = []
    for name, hint in get_type_hints(struct, include_extras=True).items():
        if get_origin(hint) is not Annotated:
            raise TypeError(f"{struct.__name__}.{name} is no setting: annotate it")
        kind, setting = get_args(hint)
        if setting is NO_SETTING:
            continue
        default = struct.__struct_defaults__ and defaults[name]
        found.append(Row(name, kind, default, setting))
    return tuple(found)


def member_rows(row: Row) -> tuple[Row, ...]:
    """Rows of a table's members that have flags, under the names that the flags' values are parsed into."""
    hints = get_type_hints(row.kinds[0]) if row.setting.members else {}
    return tuple(
        Row(f"{row.name}_{member}", hints[member], getattr(row.default, member), setting)
        for member, setting in row.setting.members.items()
    )


def from_environment(rows: Iterable[Row], environment: Mapping[str, str]) -> dict[str, Any]:
    """Settings that `RONDA_…` variables give. An empty variable says nothing."""
    found: dict[str, Any] = {}
    for row in rows:
        if row.variable is not None and (text := environment.get(row.variable, "").strip()):
            found[row.name] = _read_text(row, text)
    return found


def _read_text(row: Row, text: str) -> Any:
    if row.is_list:
        return [part.strip() for part in text.split(",") if part.strip()]
    for kind in row.kinds:
        if kind is bool:
            return _read_switch(row, text)
        if kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                break
    if row.kinds[0] in (int, float) and len(row.kinds) == 1:
        raise BadConfig(f"{row.variable} is {text!r}; it must be a number")
    return text


def _read_switch(row: Row, text: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise BadConfig(f"{row.variable} is {text!r}; it can be {_TRUE[1]} or {_FALSE[1]}")
    return text.lower() in _TRUE


def check_bounds(row: Row, value: float | None) -> None:
    """Refuses a number that its setting does not allow."""
    setting = row.setting
    if value is None or (setting.least is setting.most is setting.above is None):
        return
    name = f"--{row.name.replace('_', '-')}" if setting.flag else row.name
    shown = f"{value:g}" if isinstance(value, float) else value
    if setting.above is not None and not (value > setting.above and math.isfinite(value)):
        problem = f"it must be more than {setting.above:g} {setting.unit}".rstrip()
    elif setting.least is not None and setting.most is not None and not setting.least <= value <= setting.most:
        problem = f"it can be {setting.least:g} to {setting.most:g}"
    elif setting.least is not None and not value >= setting.least:
        problem = f"it must be at least {setting.least:g}" if setting.least else "it cannot be negative"
    else:
        return
    raise BadConfig(f"{name} is {shown}; {problem}{setting.because and f': {setting.because}'}")

"""What sandboxed code may do: a `[sandbox]` table, flags and one environment variable → `Policy`, or what is wrong.

A policy is only data. Whether this machine can enforce it is decided in `layers`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ronda._suggest import did_you_mean
from ronda.errors import BadConfig

Mode = Literal["auto", "on", "off"]
# What code sees of the machine. "browser" is no choice of the operator's: it is for Chromium (`BROWSER`).
Profile = Literal["restricted", "developer", "browser"]

MODES: tuple[Mode, ...] = ("auto", "on", "off")
MODE_VARIABLES = ("RONDA_SANDBOX", "MISTRALRS_SANDBOX")  # the first that is set counts, and only while the mode is auto

WEB_PORTS = (80, 443)  # of an allowed host that names no port
MOST_HOSTS = 256

# The least and the most of each limit. Below the least no Python starts; the most keeps sums within 64 bits.
_BOUNDS = {
    "max_memory_mb": (64, 1 << 24),
    "max_cpu_secs": (1, 1 << 30),
    "max_procs": (4, 1 << 20),
    "max_open_fds": (32, 1 << 20),
    "max_file_sz_mb": (1, 1 << 24),
    "max_disk_mb": (1, 1 << 24),
}


class NoNetwork(Struct, frozen=True, tag="none"):
    """No socket but pairs and, where nothing of the host is in reach, unix sockets."""


class Loopback(Struct, frozen=True, tag="loopback"):
    """A loopback device of its own: its processes reach only each other."""


class AllowedHosts(Struct, frozen=True, tag="allow"):
    """`Loopback`, and a proxy on it that connects to these hosts, never to a private address.

    A host is `name`, `*.name` or one of them with `:port`; without a port it is reached on 80 and 443.
    """

    hosts: tuple[str, ...]


class FullNetwork(Struct, frozen=True, tag="full"):
    """The host's own network, its loopback services included."""


Network = NoNetwork | Loopback | AllowedHosts | FullNetwork


class Policy(Struct, frozen=True):
    """Everything that is decided about sandboxed code before it starts. The names are those of the `[sandbox]` table."""

    mode: Mode = "auto"
    profile: Profile = "restricted"
    network: Network = NoNetwork()
    max_memory_mb: int = 2048
    max_cpu_secs: int = 600
    max_procs: int = 64
    max_open_fds: int = 1024
    max_file_sz_mb: int = 256
    max_disk_mb: int = 2048
    extra_fs_read: tuple[str, ...] = ()
    extra_fs_write: tuple[str, ...] = ()
    extra_env: tuple[str, ...] = ()  # names to pass on, or NAME=value


# For a browser that shows what is not trusted. It has no network, and is isolated even where other code is not. It starts some
# hundred threads, each of which counts as a process, and a process for each page.
BROWSER = Policy(
    profile="browser", max_memory_mb=1024, max_procs=512, max_open_fds=4096, max_cpu_secs=180, max_disk_mb=256
)

_NAMES = Policy.__struct_fields__


def read_policy(
    table: Mapping[str, Any], flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> Policy:
    """The policy of a `[sandbox]` table under the flags that were given, and the environment's mode while it is `auto`."""
    settings: dict[str, Any] = {}
    for source, where in ((table, "the table [sandbox]"), (flags or {}, "the sandbox's flags")):
        for key, value in source.items():
            name = key.replace("-", "_")
            if name not in _NAMES:
                hint = did_you_mean(name, _NAMES, f"there is {', '.join(_NAMES)}")
                raise BadConfig(f"{where} has no use for '{key}'; {hint}")
            if value is not None:
                settings[name] = value
    if settings.get("mode", "auto") == "auto":
        settings |= _mode_of(environ or {})
    if "network" in settings:
        settings["network"] = msgspec.to_builtins(read_network(settings["network"]))
    try:
        policy = msgspec.convert(settings, Policy)
    except msgspec.ValidationError as error:
        raise BadConfig(f"the sandbox's settings do not fit: {error}") from error
    check_policy(policy)
    return policy


def _mode_of(environ: Mapping[str, str]) -> dict[str, str]:
    for variable in MODE_VARIABLES:
        if value := environ.get(variable, "").strip().lower():
            if value not in MODES:
                raise BadConfig(f"{variable} is {value!r}; it can be {', '.join(MODES)}")
            return {"mode": value}
    return {}


def check_policy(policy: Policy) -> None:
    """Refuses what no type can: numbers out of bounds, paths that mean nothing or everything, names that are no names."""
    if policy.profile == "browser":
        raise BadConfig("the sandbox's profile can be restricted or developer")
    for name, (least, most) in _BOUNDS.items():
        value = getattr(policy, name)
        if not least <= value <= most:
            raise BadConfig(f"the sandbox's {name} is {value}; it can be {least} to {most}")
    for name in ("extra_fs_read", "extra_fs_write"):
        for path in getattr(policy, name):
            if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
                raise BadConfig(f"the sandbox's {name} has {path!r}; it must be an absolute path without '..'")
            if path.rstrip("/") in ("", "/proc", "/sys", "/dev"):
                raise BadConfig(
                    f"the sandbox's {name} has {path!r}, which would open the whole system; name a folder in it"
                )
    for entry in policy.extra_env:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(=[^\0]*)?", entry, re.DOTALL):
            raise BadConfig(f"the sandbox's extra_env has {entry!r}; it must be NAME or NAME=value")


def read_network(text: object) -> Network:
    """`none`, `loopback`, `full` or `allow:HOST,…`, as flags and tables spell them."""
    if isinstance(text, NoNetwork | Loopback | AllowedHosts | FullNetwork):
        return text
    if not isinstance(text, str):
        raise BadConfig("the sandbox's network must be a text: none, loopback, allow:HOST,… or full")
    match text.strip().lower():
        case "none":
            return NoNetwork()
        case "loopback":
            return Loopback()
        case "full":
            return FullNetwork()
        case other if other.startswith("allow:"):
            return AllowedHosts(_hosts(other.removeprefix("allow:")))
        case _:
            raise BadConfig(f"the sandbox's network is {text!r}; it can be none, loopback, allow:HOST,… or full")


def _hosts(text: str) -> tuple[str, ...]:
    hosts = tuple(dict.fromkeys(host for part in text.split(",") if (host := part.strip().rstrip("."))))
    if not hosts:
        raise BadConfig(
            "the sandbox's network is 'allow:' without a host; name some: allow:pypi.org,files.pythonhosted.org"
        )
    if len(hosts) > MOST_HOSTS:
        raise BadConfig(f"the sandbox's network allows {len(hosts)} hosts; it can be {MOST_HOSTS}")
    for host in hosts:
        name, port = split_port(host)
        label = r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?"
        if _is_address(name) or not re.fullmatch(rf"(\*\.)?({label}\.)*{label}", name):
            raise BadConfig(
                f"the sandbox's network allows {host!r}; it must be a name like pypi.org, *.example.com or example.com:8443"
            )
        if port is not None and not 1 <= port <= 65535:
            raise BadConfig(f"the sandbox's network allows {host!r}; its port can be 1 to 65535")
    return hosts


def split_port(host: str) -> tuple[str, int | None]:
    """`example.com:8443` → (`example.com`, 8443)."""
    name, colon, port = host.rpartition(":")
    if colon and re.fullmatch(r"[0-9]{1,9}", port):
        return name, int(port)
    return host, None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True

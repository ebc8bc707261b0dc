"""A network namespace for one process, with two cables to the rest of the machine: one to the database, one to all others.

    the process ── 198.18.x.y ══ cable ══ 198.18.x.y ── PostgreSQL       pulled by `cut`, and put back by `mend`
                └─ 198.18.x.y ══ cable ══ 198.18.x.y ── the model, and the clients that ask it

While the cable is pulled nothing passes, unreported: connections stay open, new ones get no answer. It takes root and
`ip` of iproute2; where they are not to be had, `NoNamespace` says why.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_PREFIX: Final = "ronda-chaos-"
_SECONDS: Final = 10  # for a command that takes milliseconds


class NoNamespace(Exception):
    """Why there is none here."""


class Cable:
    """The ends of a pair of virtual devices: `here`, and `there` in the namespace, each with an address of a network of two.

    The networks are of 198.18.0.0/15, which is set aside for tests."""

    def __init__(self, namespace: str, kind: str) -> None:
        number = secrets.randbelow(2**15)
        first, second, third = 18 + (number >> 14), number >> 6 & 0xFF, (number & 0x3F) << 2
        self.here, self.there = (f"198.{first}.{second}.{third + end}" for end in (1, 2))
        self._device = f"ronda{secrets.token_hex(3)}{kind}"
        other = f"{self._device}n"
        _ip("link", "add", self._device, "type", "veth", "peer", "name", other, "netns", namespace)
        _ip("address", "add", f"{self.here}/30", "dev", self._device)
        _ip("link", "set", self._device, "up")
        _ip("-n", namespace, "address", "add", f"{self.there}/30", "dev", other)
        _ip("-n", namespace, "link", "set", other, "up")

    def set(self, state: str) -> None:
        _ip("link", "set", self._device, state)


class Namespace:
    def __init__(self, name: str) -> None:
        self._name = name
        self.database = Cable(name, "d")
        self.others = Cable(name, "o")

    @property
    def command(self) -> list[str]:
        """What goes before a command that is to run in it."""
        return ["ip", "netns", "exec", self._name]

    def cut(self) -> None:
        self.database.set("down")

    def mend(self) -> None:
        self.database.set("up")

    def check(self) -> None:
        """Whether it can reach us: a firewall may be in the way."""
        with socket.create_server((self.others.here, 0)) as server:
            address = server.getsockname()
            code = f"import socket; socket.create_connection({address!r}, 2)"
            _run(*self.command, sys.executable, "-c", code)


@contextmanager
def open_namespace() -> Iterator[Namespace]:
    if shutil.which("ip") is None:
        raise NoNamespace("there is no 'ip', of the package iproute2")
    _remove_left()
    name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(3)}"
    _ip("netns", "add", name)
    try:
        _ip("-n", name, "link", "set", "lo", "up")
        namespace = Namespace(name)
        namespace.check()
        yield namespace
    finally:
        _ip("netns", "delete", name)  # and its devices with it


def _remove_left() -> None:
    """Those of processes that were killed."""
    for line in _ip("netns", "list").splitlines():
        name = line.split()[0] if line.split() else ""
        owner = name.removeprefix(_PREFIX).partition("-")[0]
        if name.startswith(_PREFIX) and owner.isdecimal() and not os.path.exists(f"/proc/{owner}"):
            with suppress(NoNamespace):
                _ip("netns", "delete", name)


def _ip(*words: str) -> str:
    return _run("ip", *words)


def _run(*words: str) -> str:
    try:
        return subprocess.run(words, check=True, capture_output=True, text=True, timeout=_SECONDS).stdout
    except subprocess.CalledProcessError as error:
        raise NoNamespace(f"'{' '.join(words[:5])} …' failed: {error.stderr.strip()[-200:]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoNamespace(str(error)) from error

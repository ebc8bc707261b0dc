"""Tries all attacks in one sandbox, with something to find outside, and looks afterwards what was done to it.

Also a program: as an ordinary user where the tests run as root. Prints a JSON of attacks that got something, of those that this
machine has nothing to try on, and of harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import io
import json
import os
import resource
import secrets
import socket
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import msgspec
from tests.sandbox.attacks.run import NOT_TRIED

from ronda.sandbox.box import open_sandbox
from ronda.sandbox.layers import Layers, find_layers
from ronda.sandbox.policy import Policy, read_policy
from ronda.sandbox.workspace import write_input

ATTACKS = Path(__file__).with_name("attacks")
TIMEOUT = 120.0
# Where there is no sandbox these would end the battery, or stay on the machine after it.
LASTING = ["signal_the_first_process", "keep_shared_memory", "keep_messages", "keep_semaphores", "keep_a_key"]


class Outside:
    """What attackers look for: files, sockets, a process, shared memory. Knows afterwards what has changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = "token" + secrets.token_hex(8)
        self.secret = self._file("secret", f"{self.token}\n")
        with contextlib.suppress(OSError):  # not every disk has them
            os.setxattr(self.secret, "user.token", self.token.encode())
        self.outside = self._file("outside", "outside\n")
        self.shown = folder.parent / "shown"  # the policy lets it be read
        self.shown.mkdir(mode=0o755)
        self.readable = self._file(f"{self.shown}/readable", "readable\n")
        self._times = [os.stat(path).st_mtime_ns for path in (self.outside, self.readable)]
        self.victim = subprocess.Popen(
            [self.token, "600"], executable="/bin/sleep", env={"SECRET": self.token}, stdin=subprocess.DEVNULL
        )
        self._limits = resource.prlimit(self.victim.pid, resource.RLIMIT_NOFILE)
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._tcp.setblocking(False)
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._unix = self._listen(str(folder / "socket"), socket.SOCK_STREAM)
        self._unix_datagrams = self._listen(str(folder / "datagrams"), socket.SOCK_DGRAM)
        for name in ("socket", "datagrams"):
            (folder / name).chmod(0o777)
        self._abstract = self._listen("\0" + self.token, socket.SOCK_STREAM)
        self._datagrams = self._listen("\0datagrams-" + self.token, socket.SOCK_DGRAM)
        self._memory = ctypes.CDLL(None).shmget(0, 4096, 0o1666)
        folder.chmod(0o777)
        self._names = sorted(os.listdir(folder))

    def _file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o666)
        return str(path)

    def _listen(self, address: str, kind: int) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, kind)
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        listener.setblocking(False)
        return listener

    def about(self) -> dict[str, Any]:
        return {
            "token": self.token,
            "secret": self.secret,
            "outside": self.outside,
            "readable": self.readable,
            "folder": str(self.folder),
            "victim": self.victim.pid,
            "tcp": self._tcp.getsockname()[1],
            "udp": self._udp.getsockname()[1],
            "unix": str(self.folder / "socket"),
            "unix_datagrams": str(self.folder / "datagrams"),
            "abstract": self.token,
            "abstract_datagrams": "datagrams-" + self.token,
            "shared_memory": self._memory,
        }

    def harm(self) -> list[str]:
        found = [name for name in sorted(os.listdir(self.folder)) if name not in self._names]
        found += [f"{name} is gone" for name in self._names if not os.path.lexists(self.folder / name)]
        for path, text, time in zip(
            (self.outside, self.readable), ("outside\n", "readable\n"), self._times, strict=True
        ):
            if not os.path.exists(path):
                continue
            status = os.stat(path)
            if Path(path).read_text() != text:
                found.append(f"{path} has changed")
            if status.st_mode & 0o777 != 0o666 or status.st_mtime_ns != time or os.listxattr(path):
                found.append(f"{path} has another mode, time or attribute")
        if self.victim.poll() is not None:
            found.append(f"the victim has ended: {self.victim.returncode}")
        elif (
            resource.prlimit(self.victim.pid, resource.RLIMIT_NOFILE) != self._limits
            or os.getpriority(os.PRIO_PROCESS, self.victim.pid) != os.getpriority(os.PRIO_PROCESS, 0)
            or os.sched_getaffinity(self.victim.pid) != os.sched_getaffinity(0)
            or os.sched_getscheduler(self.victim.pid) != os.SCHED_OTHER
        ):
            found.append("the victim has another limit, priority, processor or scheduler")
        for name, listener in (("tcp", self._tcp), ("unix", self._unix), ("abstract", self._abstract)):
            try:
                listener.accept()
                found.append(f"a program outside connected by {name}")
            except BlockingIOError:
                continue
        for name, receiver in (("udp", self._udp), ("abstract", self._datagrams), ("unix", self._unix_datagrams)):
            receiver.setblocking(False)
            try:
                receiver.recv(100)
                found.append(f"something came by {name}")
            except BlockingIOError:
                continue
        found += [folder for folder in ("/dev/shm/", "/tmp/") if os.path.exists(folder + self.token)]
        return found

    def close(self) -> None:
        for folder in ("/dev/shm/", "/tmp/"):
            Path(folder + self.token).unlink(missing_ok=True)
        self.victim.kill()
        self.victim.wait()
        ctypes.CDLL(None).shmctl(self._memory, 0, None)
        for opened in (self._tcp, self._udp, self._unix, self._unix_datagrams, self._abstract, self._datagrams):
            opened.close()


def machine_with(layers: Layers, layer: str, abi: int) -> Layers:
    """What this machine has, less what it is told it has not."""
    less = {"bwrap": None, "bwrap_problem": "told so by the test"} if layer == "landlock" else {"landlock": 0}
    return msgspec.structs.replace(
        layers, **less, **({"landlock": min(abi, layers.landlock)} if layer == "landlock" else {})
    )


# What is open before anything else is imported came from the server: libffi, for one, opens a file of its own where it can
# neither read /proc nor have memory without a name.
MAIN = """
import os

def is_open(fd):
    try:
        return bool(os.fstat(fd))
    except OSError:
        return False

inherited = [fd for fd in range(3, 256) if is_open(fd)]

from attacks.run import main

main(inherited)
"""


def packed_attacks() -> bytes:
    """The package as a program in one file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("__main__.py", MAIN)
        for path in sorted(ATTACKS.glob("*.py")):
            packed.write(path, f"attacks/{path.name}")
    return file.getvalue()


async def attack_all(
    layer: str, abi: int, layers: Layers, workspace: Path, outside: Outside, policy: Policy | None = None
) -> dict[str, Any]:
    policy = policy or policy_of(outside, mode="off" if layer == "off" else "on")
    async with await open_sandbox(
        policy, workspace, outside=os.environ, layers=machine_with(layers, layer, abi)
    ) as sandbox:
        assert sandbox.layer == layer
        write_input(workspace, "attacks.zip", packed_attacks(), sandbox.user)
        about = outside.about() | {"leave_out": LASTING if layer == "off" else []}
        write_input(workspace, "outside.json", json.dumps(about).encode(), sandbox.user)
        done = await sandbox.run([sandbox.interpreter.executable, "attacks.zip"], timeout=TIMEOUT)
    assert done.ended.code == 0, (done.ended, done.stdout.text(), done.stderr.text())
    got = json.loads(done.stdout.text())
    not_tried = [name for name, what in got.items() if what == NOT_TRIED]
    return {
        "stopped": len([what for what in got.values() if what is None]),
        "not tried on this machine": not_tried,
        "got": {name: what for name, what in got.items() if what and name not in not_tried},
        "harm": outside.harm(),
    }


def policy_of(outside: Outside, mode: str) -> Policy:
    return read_policy({"mode": mode, "max_memory_mb": 512, "extra_fs_read": [str(outside.shown)]})


def main() -> None:
    layer, abi = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="ronda-battery-") as folder:
        for name in ("outside", "workspace"):
            (Path(folder) / name).mkdir(mode=0o755)
        Path(folder).chmod(0o755)
        outside = Outside(Path(folder) / "outside")
        try:
            result = asyncio.run(attack_all(layer, abi, find_layers(), Path(folder) / "workspace", outside))
        finally:
            outside.close()
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()

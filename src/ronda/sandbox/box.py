"""A sandbox for one workspace: `open_sandbox` decides how code is isolated, or refuses; `Sandbox.start` and `run` isolate it.

    policy + workspace → layer, user, interpreter, view → Process

Starting is done in the event loop's thread, since bubblewrap ends with the thread that started it. It takes a few milliseconds;
everything that may take longer is awaited.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ronda.errors import BadConfig
from ronda.sandbox.bubblewrap import (
    SHARED_MEMORY,
    TEMPORARY,
    WORKSPACE,
    Descriptors,
    bubblewrap_command,
)
from ronda.sandbox.cgroup import Group, find_parent_group, sweep_groups
from ronda.sandbox.environment import scrubbed_environment
from ronda.sandbox.folders import lift_deep_folders, remove_tree
from ronda.sandbox.interpreter import Interpreter, find_interpreter
from ronda.sandbox.landlock import landlock_plan
from ronda.sandbox.layers import Choice, Layers, choose_layer, group_path, probe_layers
from ronda.sandbox.limits import MB, process_limits
from ronda.sandbox.policy import AllowedHosts, Policy
from ronda.sandbox.process import Capture, ExitStatus, OnOutput, Process, Stream
from ronda.sandbox.processes import disk_usage
from ronda.sandbox.proxy import PORT, Proxy
from ronda.sandbox.seccomp import Filter, write_filter
from ronda.sandbox.start import Start
from ronda.sandbox.syscalls import this_machine
from ronda.sandbox.temporary import sweep_temporary, temporary_prefix
from ronda.sandbox.user import Claim, User, claim_user, closed_folder, hand_over, server_user
from ronda.sandbox.view import view_of
from ronda.sandbox.watchdog import WatchedSandbox


class CommandResult(Struct, frozen=True):
    """The result of a command that was run to its end."""

    ended: ExitStatus
    stdout: Capture
    stderr: Capture


async def open_sandbox(
    policy: Policy,
    workspace: str | os.PathLike[str],
    *,
    outside: Mapping[str, str],
    python: str = "python3",
    layers: Layers | None = None,
    scratch: str | os.PathLike[str] | None = None,
    new_proxy: Callable[[AllowedHosts], Proxy] = Proxy,
    side_folder: str | None = None,
) -> Sandbox:
    """A sandbox whose code works in `workspace`, a folder that exists. BadConfig, with the way out, where it cannot be isolated.

    `side_folder` is the name of a folder next to the workspace that code may read, and nothing more.
    `outside` is the environment from which a named few variables are passed on; `scratch` is where temporary folders are made.
    """
    found = await probe_layers() if layers is None else layers
    choice = choose_layer(policy, found)
    folder = await asyncio.to_thread(os.path.realpath, workspace)
    claim = await asyncio.to_thread(_claim, folder, choice)
    temporary = None
    try:
        await asyncio.to_thread(_prepare, folder, policy, claim.user)
        interpreter = await find_interpreter(python, claim.user)
        if choice.layer != "bubblewrap":
            temporary = await asyncio.to_thread(_make_temporary, scratch, claim.user)
        return Sandbox(policy, folder, choice, found, claim, interpreter, temporary, outside, new_proxy, side_folder)
    except BaseException:
        claim.release()
        if temporary is not None:
            remove_tree(temporary)
        raise


def _claim(folder: str, choice: Choice) -> Claim:
    if not choice.own_uid:
        return Claim(server_user(), None)
    return claim_user(os.stat(folder).st_uid, workspace=folder)


def _prepare(folder: str, policy: Policy, user: User) -> None:
    if not os.path.isdir(folder):
        raise BadConfig(f"the sandbox's workspace {folder} is not a folder")
    hand_over(folder, user)
    if (closed := closed_folder(folder, user)) is not None:
        raise BadConfig(
            f"the sandbox's user may not enter {closed}, where the workspace is; make it accessible (chmod o+x {closed}), "
            "or keep workspaces elsewhere, such as /var/lib/ronda"
        )
    for path in (*policy.extra_fs_read, *policy.extra_fs_write):
        if (closed := closed_folder(path, user)) is not None:
            raise BadConfig(f"the sandbox's user may not read {closed}, which is needed for {path}; make it accessible")


def sweep_sandboxes() -> None:
    """Removes what servers that are no more have left on this machine: for the start of another. Blocks."""
    sweep_temporary()
    if (parent := find_parent_group()) is not None:
        sweep_groups(parent)


def _make_temporary(scratch: str | os.PathLike[str] | None, user: User) -> str:
    folder = tempfile.mkdtemp(prefix=temporary_prefix(), dir=scratch)
    if user.own:
        os.chown(folder, user.uid, user.gid)
    return folder


_OWN = 256 * 1024  # bytes of files without names that a program has from us, which count as its own


class Sandbox:
    """Where programs are started. Its programs share a workspace, and see nothing else of each other but under Landlock."""

    def __init__(
        self,
        policy: Policy,
        workspace: str,
        choice: Choice,
        layers: Layers,
        claim: Claim,
        interpreter: Interpreter,
        temporary: str | None,
        outside: Mapping[str, str],
        new_proxy: Callable[[AllowedHosts], Proxy],
        side_folder: str | None = None,
    ) -> None:
        self.policy = policy
        self.workspace = workspace  # as the server sees it
        self.layer = choice.layer
        self.interpreter = interpreter
        self.user = claim.user
        self.workdir = WORKSPACE if choice.layer == "bubblewrap" else workspace  # as its programs see it
        self._side_folder = side_folder
        self._choice = choice
        self._layers = layers
        self._claim = claim
        self._temporary = temporary
        self._outside = outside
        self._view = view_of(policy, interpreter, outside, claim.user)
        self.environment = self._new_environment()
        self.new_proxy = new_proxy
        self._running: set[Process] = set()
        self._excess = 0  # bytes that its files take, where those are too many, since a program was ended for that

    def _new_environment(self) -> dict[str, str]:
        environment = scrubbed_environment(
            self.policy,
            self._outside,
            home=self.workdir,
            temporary=self._temporary or TEMPORARY,
            path=(os.path.dirname(self.interpreter.executable),),
        )
        if isinstance(self.policy.network, AllowedHosts) and self.layer == "bubblewrap":
            environment |= _proxy_variables()
        return environment

    @property
    def _side_folder_here(self) -> str | None:
        """As the server sees it."""
        return None if self._side_folder is None else os.path.join(os.path.dirname(self.workspace), self._side_folder)

    @property
    def side_folder(self) -> str | None:
        """The folder next to the workspace, as its programs see it."""
        return f"/{self._side_folder}" if self._side_folder and self.layer == "bubblewrap" else self._side_folder_here

    def move(self, rename: Callable[[str], str | None]) -> bool:
        """Has the workspace renamed, which the programs that run in it follow. `rename` tells where it is now; None: as before.

        Where they see the host's own path (not under bubblewrap) their environment and `workdir` are out of date then.
        """
        for process in self._running:
            process.unwatch()  # it is not to be looked for where it was
        moved = rename(self.workspace)
        if moved is not None:
            if self.workdir == self.workspace:
                self.workdir = moved
            self.workspace = moved
            self._claim.note(moved)
            self.environment = self._new_environment()
        for process in self._running:
            process.watch(self.watched(process))
        return moved is not None

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
        most_output: int = 1024 * 1024,
        on_output: OnOutput | None = None,
    ) -> CommandResult:
        """Runs a command to its end, or to its timeout; then it and everything it started is gone."""
        captures: dict[Stream, Capture] = {"stdout": Capture(most_output), "stderr": Capture(most_output)}

        def take(stream: Stream, data: bytes) -> None:
            captures[stream].add(data)
            if on_output is not None:
                on_output(stream, data)

        process = await self.start(argv, env=env, on_output=take)
        try:
            async with asyncio.timeout(timeout):
                ended = await process.wait()
        except TimeoutError:
            process.kill("timeout")
            ended = await process.wait()
        finally:
            process.kill()  # a cancelled call leaves nothing behind
        return CommandResult(ended, captures["stdout"], captures["stderr"])

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        on_output: OnOutput | None = None,
        channel: bool = False,
        pipes: tuple[int, int] | None = None,
    ) -> Process:
        """Starts a program by its absolute path. With a `channel` it can exchange frames, apart from its output. `pipes` are the
        descriptors of its input and output, which stay the caller's to close; without them it has no input."""
        return await self._begin(argv, env, on_output, channel, in_place=False, pipes=pipes)

    async def start_python(
        self,
        source: str,
        *,
        on_output: OnOutput | None = None,
        channel: bool = False,
    ) -> Process:
        """`start` for a text of Python, which sees no module but the installed ones until it says otherwise."""
        argv = [self.interpreter.executable, "-I", "-u", "-c", source]
        return await self._begin(argv, None, on_output, channel, in_place=True)

    async def _begin(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        on_output: OnOutput | None,
        channel: bool,
        *,
        in_place: bool,
        pipes: tuple[int, int] | None = None,
    ) -> Process:
        may_write = await self.has_room()
        start = Start(
            self, argv, self.environment | dict(env or {}), on_output, channel, in_place=in_place, pipes=pipes
        )
        process = await start.begin()
        process.may_write = may_write
        self._running.add(process)

        async def forget() -> None:
            self._running.discard(process)
            if process.ended_for == "disk":
                self._excess = self._excess or 1  # counted before the next one begins

        process.when_ended(forget)
        return process

    async def has_room(self) -> bool:
        """Whether its programs may write. If there are too many files, those that begin now can only delete some: else no
        program ever could. Files are counted once a program was ended for that: before each start it would take too long."""
        if self._excess:
            self._excess = await asyncio.to_thread(self._count_excess)
        return not self._excess

    def _count_excess(self) -> int:
        for folder in self._folders:
            lift_deep_folders(folder)
        used = disk_usage(self._folders, sys.maxsize)
        return used if used > self.policy.max_disk_mb * MB else 0

    async def close(self) -> None:
        """Ends what still runs, and gives back what the sandbox held. The workspace stays."""
        for process in list(self._running):
            process.kill()
        await asyncio.gather(*(process.wait() for process in list(self._running)))
        if self._temporary is not None:
            await asyncio.to_thread(remove_tree, self._temporary)
        self._claim.release()

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def watched(self, process: Process) -> WatchedSandbox:
        scratch = (TEMPORARY, SHARED_MEMORY) if self.layer == "bubblewrap" else ()
        return WatchedSandbox(
            process.pid, self.policy, self._folders, scratch, process.exceed, self._excess and self._excess + _OWN
        )

    @property
    def _folders(self) -> tuple[str, ...]:
        return (self.workspace,) if self._temporary is None else (self.workspace, self._temporary)

    # How each layer is started.

    def bubblewrapped(
        self,
        descriptors: Descriptors,
        go: int,
        listen: int | None,
        channel: int | None,
        argv: Sequence[str],
        *,
        in_place: bool,
    ) -> list[str]:
        plan = {
            "limits": process_limits(self.policy, may_write=not self._excess),
            "go": go,
            "listen": None if listen is None else [listen, PORT],
            "channel": channel,
            "in_place": in_place,
        }
        # Isolated from the workspace either way, where a file may have the name of any module.
        python = [self.interpreter.executable, "-I", "-u" if in_place else "-S", "-c"]
        first = [*python, _source("inside.py"), json.dumps(plan)]
        bwrap = self._layers.bwrap
        assert bwrap is not None, "chosen because it is there"
        side = [] if self._side_folder_here is None else ["--ro-bind", self._side_folder_here, self.side_folder or ""]
        return bubblewrap_command(
            bwrap, self.policy, self._view, self.workspace, descriptors, [*first, *argv], mounts=side
        )

    def filter(self) -> bytes:
        if self.layer == "landlock":
            wanted = Filter(self.policy.network, "landlock", self._choice.abi, self._choice.own_uid)
        else:
            wanted = Filter(self.policy.network)
        return write_filter(wanted, this_machine())

    def supervised(self, argv: Sequence[str], environment: Mapping[str, str], channel: int | None) -> bytes:
        """The plan of `supervisor`; with the layer off only limits and the end of all processes are left of it."""
        fenced = self.layer == "landlock"
        view = self._view
        if (side := self._side_folder_here) is not None:
            view = replace(view, read=(*view.read, side))
        fence = landlock_plan(self._choice.abi, view, self._folders, self.policy.network) if fenced else None
        plan = {
            "argv": list(argv),
            "env": environment,
            "cwd": self.workspace,
            "channel": channel,
            "limits": process_limits(self.policy, may_write=not self._excess),
            "uid": self.user.uid if self.user.own else None,
            "gid": self.user.gid if self.user.own else None,
            "landlock": fence,
            "filter": self.filter().hex() if fenced else None,
        }
        return msgspec.json.encode(plan)

    def new_group(self) -> Group | None:
        parent = group_path(self._layers)
        return None if parent is None else Group(parent, self.policy)


@cache
def _source(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _proxy_variables() -> dict[str, str]:
    address = f"http://127.0.0.1:{PORT}"
    names = ("http_proxy", "https_proxy", "all_proxy")
    here = "localhost,127.0.0.1,::1"
    return {**{name: address for each in names for name in (each, each.upper())}, "no_proxy": here, "NO_PROXY": here}

"""A program in a sandbox from its start to its end: output as it comes, frames, interrupts, and no process left behind."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from tests.sandbox.conftest import OpenSandbox
from tests.timeouts import TIMEOUT, soon

from ronda.errors import ToolFailed
from ronda.sandbox.box import Sandbox
from ronda.sandbox.process import ExitStatus, Process
from ronda.sandbox.processes import tree
from ronda.sandbox.temporary import sweep_temporary

ECHO = """
import os, struct
fd = int(os.environ["RONDA_CHANNEL"])
def exactly(count):
    data = b""
    while len(data) < count:
        piece = os.read(fd, count - len(data))
        if not piece:
            raise SystemExit
        data += piece
    return data
def send(frame):
    os.write(fd, struct.pack("!I", len(frame)) + frame)
"""


async def start(sandbox: Sandbox, code: str, **more: object) -> tuple[Process, list[bytes]]:
    output: list[bytes] = []
    command = [sandbox.interpreter.executable, "-I", "-u", "-c", textwrap.dedent(code)]
    process = await sandbox.start(command, on_output=lambda _, data: output.append(data), **more)  # type: ignore[arg-type]  # passed on
    return process, output


def running(token: str) -> list[str]:
    """Processes of this machine whose command line has the token."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if token.encode() in line:
            found.append(pid)
    return found


async def until_gone(token: str) -> None:
    async with soon():
        while running(token):  # noqa: ASYNC110  # the end of another's process is not reported
            await asyncio.sleep(0.01)


async def test_frames_go_both_ways_apart_from_output(layer: str, opened: OpenSandbox) -> None:
    sandbox = await opened(layer)
    code = ECHO + "print('forged'); os.system('echo forged')\nwhile True: send(exactly(5)[::-1])"

    process, output = await start(sandbox, code, channel=True)
    async with soon():
        await process.send(b"x")  # four bytes of length, and one
        first = await process.receive()

        assert first == b"x\x01\0\0\0"
        assert b"".join(output) == b"forged\nforged\n"
        assert (await process.end()).why == "killed"


async def test_a_frame_that_is_too_long_ends_the_program(layer: str, opened: OpenSandbox) -> None:
    process, _ = await start(await opened(layer), ECHO + "os.write(fd, b'\\xff' * 8); exactly(1)", channel=True)

    async with soon():
        with pytest.raises(ToolFailed, match="sent a message of 4294967295 bytes; 1000 are allowed"):
            await process.receive(1000)
        await process.wait()


async def test_whoever_waits_for_a_frame_learns_how_the_program_ended(layer: str, opened: OpenSandbox) -> None:
    process, _ = await start(await opened(layer), ECHO + "exactly(5); raise SystemExit(7)", channel=True)

    async with soon():
        waiting = asyncio.create_task(process.receive())
        await process.send(b"x")
        with pytest.raises(ToolFailed, match="gone"):
            await waiting


async def test_the_code_is_handed_on(layer: str, opened: OpenSandbox) -> None:
    sandbox = await opened(layer)

    codes = [await sandbox.run(["/bin/sh", "-c", line], timeout=TIMEOUT) for line in ("exit 7", "kill -9 $$", "true")]

    assert [done.ended for done in codes] == [
        ExitStatus(7, "exited"),
        ExitStatus(137, "exited"),
        ExitStatus(0, "exited"),
    ]


async def test_a_pipe_that_nobody_reads_ends_its_writer_as_in_any_shell(layer: str, opened: OpenSandbox) -> None:
    done = await (await opened(layer)).run(["/bin/sh", "-c", "yes | head -1"], timeout=TIMEOUT)

    assert (done.stdout.text(), done.stderr.text()) == ("y\n", "")


async def test_a_program_that_is_not_there_is_named(layer: str, opened: OpenSandbox) -> None:
    sandbox = await opened(layer)

    try:
        done = await sandbox.run(["/nowhere/program"], timeout=TIMEOUT)
        problem = done.stderr.text()
        assert done.ended.code == 127
    except ToolFailed as error:
        problem = str(error)

    assert "cannot start /nowhere/program: No such file or directory" in problem


async def test_output_comes_while_it_runs(layer: str, opened: OpenSandbox) -> None:
    sandbox = await opened(layer)
    arrived = asyncio.Event()
    code = "import signal; print('now', flush=True); signal.pause()"

    process = await sandbox.start(
        [sandbox.interpreter.executable, "-I", "-c", code], on_output=lambda stream, data: arrived.set()
    )
    async with soon():
        await arrived.wait()
        assert process.is_running
        await process.end()


async def test_an_interrupt_reaches_the_program(layer: str, opened: OpenSandbox) -> None:
    code = ECHO + "try:\n    send(b'ready'); exactly(1)\nexcept KeyboardInterrupt:\n    print('interrupted')"
    process, output = await start(await opened(layer), code, channel=True)

    async with soon():
        await process.receive()
        process.interrupt()
        ended = await process.wait()

    assert (ended, b"".join(output)) == (ExitStatus(0, "exited"), b"interrupted\n")


RUN_AWAY = """
import os, signal, sys
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            os.write(1, b"away")
            signal.pause()
        os._exit(0)
"""


async def test_processes_in_the_background_end_with_the_program(layer: str, opened: OpenSandbox) -> None:
    token = secrets.token_hex(8)
    done = await (await opened(layer)).run(["/usr/bin/python3", "-c", RUN_AWAY, token], timeout=TIMEOUT)

    assert done.ended == ExitStatus(0, "exited")
    assert running(token) == []


async def test_at_its_timeout_everything_ends(layer: str, opened: OpenSandbox) -> None:
    token = secrets.token_hex(8)
    sandbox = await opened(layer)

    done = await sandbox.run(
        [sandbox.interpreter.executable, "-I", "-c", RUN_AWAY + "\nsignal.pause()", token], timeout=0.5
    )

    assert done.ended.why == "timeout"
    assert running(token) == []


async def test_what_was_said_before_the_end_is_kept(layer: str, opened: OpenSandbox) -> None:
    process, output = await start(
        await opened(layer), ECHO + "os.write(1, b'here'); send(b'')\nexactly(1)", channel=True
    )

    async with soon():
        await process.receive()
        process.kill("timeout")
        ended = await process.wait()

    assert (ended.why, b"".join(output)) == ("timeout", b"here")


async def test_whoever_is_cancelled_leaves_nothing_behind(layer: str, opened: OpenSandbox) -> None:
    token = secrets.token_hex(8)
    sandbox = await opened(layer)
    begun = asyncio.Event()
    code = RUN_AWAY + "\nsignal.pause()"
    command = [sandbox.interpreter.executable, "-I", "-c", code, token]

    running_one = asyncio.create_task(sandbox.run(command, timeout=TIMEOUT, on_output=lambda *_: begun.set()))
    async with soon():
        await begun.wait()
        running_one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running_one
        await sandbox.close()

    assert running(token) == []


SERVER = """
import asyncio, os, signal, sys
import msgspec
from ronda.sandbox.box import open_sandbox
from ronda.sandbox.layers import find_layers
from ronda.sandbox.policy import Policy

async def serve(layer, workspace, token, code):
    layers = find_layers()
    if layer == "landlock":
        layers = msgspec.structs.replace(layers, bwrap=None)
    sandbox = await open_sandbox(Policy(), workspace, outside={}, layers=layers, scratch=os.path.dirname(workspace))
    begun = asyncio.Event()
    await sandbox.start([sandbox.interpreter.executable, "-I", "-c", code, token], on_output=lambda *_: begun.set())
    await begun.wait()
    os.write(1, b"begun")
    await asyncio.Event().wait()

asyncio.run(serve(*sys.argv[1:]))
"""


async def test_everything_ends_when_the_server_is_killed(layer: str, workspace: Path) -> None:
    token = secrets.token_hex(8)
    command = [sys.executable, "-c", SERVER, layer, str(workspace), token, RUN_AWAY + "\nsignal.pause()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with await asyncio.to_thread(subprocess.Popen, command, stdout=subprocess.PIPE, env=environment) as server:
        assert server.stdout is not None
        assert await asyncio.to_thread(server.stdout.read, 5) == b"begun"
        server.send_signal(signal.SIGKILL)
        server.wait(TIMEOUT)

        await until_gone(token)


async def test_ten_sandboxes_leave_no_descriptor_behind(layer: str, opened: OpenSandbox) -> None:
    await (await opened(layer)).run(["/bin/true"], timeout=TIMEOUT)
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(10):
        sandbox = await opened(layer)
        assert (await sandbox.run(["/bin/true"], timeout=TIMEOUT)).ended == ExitStatus(0, "exited")
        await sandbox.close()

    assert len(os.listdir("/proc/self/fd")) == before


async def test_the_environment_has_no_secret(layer: str, opened: OpenSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD_X", "PYTHONSTARTUP", "MY_TOKEN", "PASSED"):
        monkeypatch.setenv(name, "secret" if name != "PASSED" else "passed on")
    sandbox = await opened(layer, extra_env=["PASSED", "SET=here", "NOT_THERE"])

    done = await sandbox.run(["/usr/bin/env", "-0"], timeout=TIMEOUT)
    variables = dict(entry.split("=", 1) for entry in done.stdout.text().split("\0") if entry)

    assert "secret" not in variables.values()
    assert (variables["PASSED"], variables["SET"], variables["HOME"]) == ("passed on", "here", sandbox.workdir)
    assert variables.keys() <= {
        *(
            "PATH",
            "HOME",
            "TMPDIR",
            "USER",
            "LOGNAME",
            "LANG",
            "LC_ALL",
            "LC_CTYPE",
            "TERM",
            "TZ",
            "PWD",
            "PASSED",
            "SET",
        ),
        *(
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "PYTHONUNBUFFERED",
            "PYTHONDONTWRITEBYTECODE",
            "MPLBACKEND",
        ),
        *("PYTHONHASHSEED", "PYTHONIOENCODING"),
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    }


async def test_the_workspace_outlives_its_sandbox(layer: str, opened: OpenSandbox) -> None:
    first = await opened(layer)
    await first.run(
        ["/bin/sh", "-c", "mkdir -p a/b; echo 1 > a/b/file; chmod 600 a/b/file; ln -s file a/b/link"], timeout=TIMEOUT
    )
    await first.close()

    second = await opened(layer)
    done = await second.run(
        ["/bin/sh", "-c", "echo 2 >> a/b/link; cat a/b/file; cp a/b/file copy; touch copy"], timeout=TIMEOUT
    )

    assert (done.stdout.text(), done.stderr.text(), done.ended.code) == ("1\n2\n", "", 0)


def test_a_server_that_ended_and_that_its_parent_does_not_wait_for_is_no_more(tmp_path: Path) -> None:
    """As where the first process of a container takes no note of those that it inherits."""
    with subprocess.Popen(["true"]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        (tmp_path / f"ronda-sandbox-{zombie.pid}-a").mkdir()

        sweep_temporary(tmp_path)

        assert os.listdir(tmp_path) == []


def test_temporary_folders_of_servers_that_are_no_more_are_removed(tmp_path: Path) -> None:
    for name in (f"ronda-sandbox-{os.getpid()}-a", "ronda-sandbox-4194999-b", "ronda-sandbox-x", "another"):
        (tmp_path / name / "in").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "ronda-sandbox-4194999-link").symlink_to("secret")

    sweep_temporary(tmp_path)

    left = {f"ronda-sandbox-{os.getpid()}-a", "ronda-sandbox-x", "another", "secret", "ronda-sandbox-4194999-link"}
    assert set(os.listdir(tmp_path)) == left


async def test_a_closed_sandbox_leaves_no_temporary_folder(layer: str, opened: OpenSandbox) -> None:
    def folders() -> set[str]:
        return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith(f"ronda-sandbox-{os.getpid()}-")}

    others = folders()  # of sandboxes that this process has kept since another test
    sandbox = await opened(layer)
    await sandbox.run(
        ["/bin/sh", "-c", "mkdir $TMPDIR/closed; echo x > $TMPDIR/closed/x; chmod 0 $TMPDIR/closed"], timeout=TIMEOUT
    )
    assert layer == "bubblewrap" or folders() > others  # bubblewrap's is within its own file system
    await sandbox.close()

    assert folders() <= others


async def test_processes_are_found_on_kernels_that_do_not_list_children(layer: str, opened: OpenSandbox) -> None:
    code = ECHO + "for _ in range(2):\n  if not os.fork(): break\nelse: send(b'ready')\nimport signal; signal.pause()"
    process, _ = await start(await opened(layer), code, channel=True)

    async with soon():
        await process.receive()
        before, scanned, after = (set(tree(process.pid, lists_children=how)) for how in (True, False, True))
        await process.end()

    # What the start of the sandbox needed may end between two looks; nothing begins any more.
    assert after <= scanned <= before
    assert len(after) >= 4  # the first, perhaps bubblewrap's second, the program and its two children

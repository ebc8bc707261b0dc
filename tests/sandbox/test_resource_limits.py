"""Limits that hold whatever the code does: memory, processes, disk, files, time, output; over all of its processes together."""

from __future__ import annotations

import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.conftest import OpenSandbox
from tests.timeouts import TIMEOUT

from ronda.sandbox import supervisor
from ronda.sandbox.box import CommandResult, Sandbox
from ronda.sandbox.interpreter import SYSTEM_PYTHON


async def python(sandbox: Sandbox, code: str, **more: Any) -> CommandResult:
    command = [sandbox.interpreter.executable, "-I", "-c", textwrap.dedent(code)]
    return await sandbox.run(command, **{"timeout": TIMEOUT, **more})


async def test_one_large_allocation_is_an_error_the_code_sees(layer: str, opened: OpenSandbox) -> None:
    done = await python(
        await opened(layer, max_memory_mb=128),
        """
        try:
            bytearray(200 << 20)
        except MemoryError:
            print("refused")
        """,
    )

    assert (done.ended.why, done.stdout.text()) == ("exited", "refused\n")


async def test_memory_counts_over_all_processes(layer: str, opened: OpenSandbox) -> None:
    done = await python(
        await opened(layer, max_memory_mb=128),
        """
        import os, signal
        for _ in range(4):
            if os.fork() == 0:
                held = b"x" * (60 << 20)
                signal.pause()
        signal.pause()
        """,
    )

    assert done.ended.why == "memory"


async def test_shared_memory_counts(layer: str, opened: OpenSandbox) -> None:
    done = await python(
        await opened(layer, max_memory_mb=128),
        """
        import mmap, signal
        shared = mmap.mmap(-1, 300 << 20)
        for at in range(0, len(shared), 4096):
            shared[at] = 1
        signal.pause()
        """,
    )

    assert done.ended.why == "memory"


async def test_a_child_that_is_about_to_start_a_program_has_no_memory_of_its_own(
    layer: str, opened: OpenSandbox
) -> None:
    """Until then it may share all of its parent's, which a busy machine can make last."""
    done = await python(
        await opened(layer, max_memory_mb=256),
        """
        import os, time
        os.mkfifo("pipe")
        if os.fork() == 0:
            time.sleep(1)  # several looks of the watchdog
            open("pipe", "w").close()
            os._exit(0)
        held = b"x" * (160 << 20)
        child = os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 9, "pipe", os.O_RDONLY, 0)])
        os.waitpid(child, 0)
        print("here")
        """,
    )

    assert (done.ended.why, done.stdout.text()) == ("exited", "here\n")


async def test_pages_that_processes_share_count_once(layer: str, opened: OpenSandbox) -> None:
    done = await python(
        await opened(layer, max_memory_mb=256),
        """
        import os, time
        held = b"x" * (60 << 20)
        children = []
        for _ in range(8):
            child = os.fork()
            if child == 0:
                time.sleep(1.0)  # so that the watchdog sees it
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        print("done")
        """,
    )

    assert (done.ended.why, done.stdout.text()) == ("exited", "done\n")


async def test_the_temporary_folder_is_no_way_around_memory_or_disk(layer: str, opened: OpenSandbox) -> None:
    done = await python(
        await opened(layer, max_memory_mb=128, max_disk_mb=40, max_file_sz_mb=8),
        """
        import os, signal
        block = b"x" * (1 << 20)
        try:
            for name in range(20):
                with open(os.path.join(os.environ["TMPDIR"], str(name)), "wb", 0) as file:
                    for _ in range(8):
                        file.write(block)
        except OSError as error:
            print(error.strerror)
            raise SystemExit
        signal.pause()
        """,
    )

    if layer == "bubblewrap":  # a folder in memory, a quarter of what is allowed
        assert done.stdout.text() == "No space left on device\n"
    else:
        assert done.ended.why == "disk"


async def test_processes_are_counted_for_each_sandbox(layer: str, opened: OpenSandbox) -> None:
    sandbox = await opened(layer, max_procs=12)

    done = await python(
        sandbox,
        """
        import os, signal
        count = 0
        try:
            while count < 100:
                if os.fork() == 0:
                    signal.pause()
                count += 1
        except BlockingIOError:
            print(count)
        """,
    )

    assert done.ended.why in ("exited", "processes")
    if done.ended.why == "exited":
        assert 1 <= int(done.stdout.text()) <= 12  # without namespaces, what else this user runs counts, too


@pytest.mark.skipif(os.getuid() != 0, reason="the tests do not run as root")
def test_processes_that_are_out_of_sight_are_counted() -> None:
    """As where another container has processes of the same uid."""
    program = Path(supervisor.__file__).read_text().partition("if __name__ ==")[0] + "print(_tasks_of_ours())"
    become = {"user": 60998, "group": 60998, "extra_groups": []}
    sleepers = [subprocess.Popen(["sleep", "60"], **become) for _ in range(40)]  # type: ignore[call-overload]
    try:
        namespace = ["unshare", "--pid", "--fork", "--mount", "--mount-proc"]
        drop = ["setpriv", "--reuid=60998", "--regid=60998", "--clear-groups", "--bounding-set=-all", "--no-new-privs"]
        done = subprocess.run(
            [*namespace, *drop, SYSTEM_PYTHON, "-I", "-"],
            input=program,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait(TIMEOUT)
    if "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert 40 <= int(done.stdout) <= 60, done.stderr


async def test_threads_are_counted_like_processes(layer: str, opened: OpenSandbox) -> None:
    done = await python(
        await opened(layer, max_procs=12),
        """
        import threading
        over = threading.Event()
        count = 0
        try:
            while count < 100:
                threading.Thread(target=over.wait, daemon=True).start()
                count += 1
        except RuntimeError:
            print(count, flush=True)
        over.set()
        """,
    )

    assert done.ended.why in ("exited", "processes")
    if done.ended.why == "exited":
        assert 1 <= int(done.stdout.text()) <= 12  # without namespaces, what else this user runs counts, too


async def test_a_fork_bomb_ends_with_its_time(layer: str, opened: OpenSandbox) -> None:
    sandbox = await opened(layer, max_procs=16)

    done = await python(
        sandbox,
        """
        import os
        print("begun", flush=True)
        while True:
            try:
                os.fork()
            except OSError:
                pass
        """,
        timeout=1.0,
    )

    assert done.ended.why in ("timeout", "processes")


async def test_a_file_cannot_grow_beyond_its_limit(layer: str, opened: OpenSandbox) -> None:
    done = await python(
        await opened(layer, max_file_sz_mb=2),
        """
        with open("large", "wb", 0) as file:
            try:
                for _ in range(5):
                    file.write(b"x" * (1 << 20))
            except OSError as error:
                print(error.strerror, file.tell() >> 20)
        """,
    )

    assert done.stdout.text() == "File too large 2\n"


async def test_room_cannot_be_reserved_and_programs_that_want_it_write_instead(layer: str, opened: OpenSandbox) -> None:
    """In a moment it would be all of the disk, of which no limit of the kernel's says anything."""
    done = await python(
        await opened(layer, max_file_sz_mb=8),
        """
        import ctypes, fcntl, os, struct
        libc = ctypes.CDLL(None, use_errno=True)
        file = os.open("file", os.O_CREAT | os.O_RDWR)
        def reserve(mode, size):
            return libc.fallocate(file, mode, ctypes.c_long(0), ctypes.c_long(size))
        tried = [reserve(mode, 64 << 20) for mode in (0, 0x01, 0x10, 0x11)]
        for request in (0x40305828, 0x4030582A, 0x40305839):
            try:
                fcntl.ioctl(file, request, struct.pack("hhqqiI4i", 0, 0, 0, 64 << 20, 0, 0, 0, 0, 0, 0))
            except OSError:
                tried.append(-1)
        print(tried, os.fstat(file).st_blocks)
        os.posix_fallocate(file, 0, 1 << 20)
        print(os.fstat(file).st_size, reserve(0x03, 1 << 19))
        """,
    )

    assert (done.stdout.text(), done.stderr.text()) == (f"{[-1] * 7} 0\n{1 << 20} 0\n", "")


DISK_BOMBS = {
    "large files": """
        for name in range(20):
            with open(str(name), "wb", 0) as file:
                file.write(b"x" * (1 << 20))
        """,
    "many empty files": """
        import os
        for name in range(4000):
            os.close(os.open(str(name), os.O_CREAT | os.O_WRONLY))
        """,
    "files without a name": """
        import os
        held = []
        for name in range(20):
            held.append(open(str(name), "wb", 0))
            os.unlink(str(name))
            held[-1].write(b"x" * (1 << 20))
        """,
    "files in a folder that was closed": """
        import os
        os.mkdir("closed")
        for name in range(20):
            with open("closed/" + str(name), "wb", 0) as file:
                file.write(b"x" * (1 << 20))
        os.chmod("closed", 0)
        """,
    "a folder too deep to look into": """
        import os
        for _ in range(300):
            os.mkdir("d")
            os.chdir("d")
        """,
}


@pytest.mark.parametrize("bomb", DISK_BOMBS)
async def test_the_disk_is_counted_over_all_files(bomb: str, layer: str, opened: OpenSandbox) -> None:
    done = await python(
        await opened(layer, max_disk_mb=10), textwrap.dedent(DISK_BOMBS[bomb]) + "import signal; signal.pause()"
    )

    assert done.ended.why == "disk"


async def test_a_program_that_makes_files_without_end_is_stopped_near_what_it_may_have(
    layer: str, opened: OpenSandbox, workspace: Path
) -> None:
    """A walk through so many takes a while, and the next one came only after twenty times as long."""
    allowed = 96 * 256  # each file is at least 4 KiB
    done = await python(
        await opened(layer, max_disk_mb=96),
        """
        import os
        number = 0
        while True:
            os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))
            number += 1
        """,
    )

    assert done.ended.why == "disk"
    # On a busy machine the walk waits for its turn while the program runs; with walks at fixed times it was four times as many.
    assert len(os.listdir(workspace)) < 3 * allowed


async def test_open_files_are_limited(layer: str, opened: OpenSandbox) -> None:
    done = await python(
        await opened(layer, max_open_fds=64),
        """
        held = []
        try:
            while len(held) < 1000:
                held.append(open("/dev/null"))
        except OSError as error:
            print(error.strerror, len(held) < 64)
        """,
    )

    assert done.stdout.text() == "Too many open files True\n"


async def test_time_on_the_processor_is_limited(layer: str, opened: OpenSandbox) -> None:
    done = await python(await opened(layer, max_cpu_secs=1), "while True: pass")

    assert done.ended.why == "cpu"


async def test_time_counts_over_all_processes(layer: str, opened: OpenSandbox) -> None:
    done = await python(
        await opened(layer, max_cpu_secs=1),
        """
        import os
        os.fork()
        while True: pass
        """,
    )

    assert done.ended.why == "cpu"


async def test_time_of_those_who_are_gone_counts(layer: str, opened: OpenSandbox) -> None:
    done = await python(
        await opened(layer, max_cpu_secs=1),
        """
        import os, signal, time
        if os.fork() == 0:
            while True:  # each works for a little while, leaves a child behind, and is gone
                begun = time.process_time()
                while time.process_time() - begun < 0.3:
                    pass
                if os.fork():
                    os._exit(0)
        signal.pause()
        """,
    )

    assert done.ended.why == "cpu"


async def test_a_flood_of_output_is_cut_in_its_middle(layer: str, opened: OpenSandbox) -> None:
    seen = 0

    def count(stream: str, data: bytes) -> None:
        nonlocal seen
        seen += len(data)

    done = await python(
        await opened(layer),
        """
        import os
        os.write(1, b"begin")
        for _ in range(160):
            os.write(1, b"x" * 65536)
        os.write(1, b"end")
        """,
        most_output=1000,
        on_output=count,
    )

    size = 160 * 65536 + 8
    assert (done.ended.why, done.stdout.total, seen) == ("exited", size, size)
    assert (done.stdout.head[:6], done.stdout.tail[-4:]) == (b"beginx", b"xend")
    assert f"x\n… {size - 1000} of {size} bytes left out …\nx" in done.stdout.text()

"""A workspace with more files than are allowed, or with a tree too deep to count: code in it may delete, and write nothing."""

from __future__ import annotations

import os
import select
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.sandbox.conftest import OpenSandbox
from tests.sandbox.test_resource_limits import DISK_BOMBS, python
from tests.timeouts import TIMEOUT

from ronda.sandbox.box import Sandbox
from ronda.sandbox.folders import lift_deep_folders, remove_tree, walk
from ronda.sandbox.watchdog import WatchedSandbox, watchdog

OpenFull: TypeAlias = Callable[[], Awaitable[Sandbox]]

DELETE = """
    import os, shutil
    for name in os.listdir():
        if os.path.isdir(name):
            os.chmod(name, 0o700)
            shutil.rmtree(name)
        else:
            os.unlink(name)
    print("deleted")
    """
WRITE = """
    try:
        with open("new", "w") as file:
            file.write("x")
    except OSError as error:
        print(error.strerror)
    else:
        print("written")
    """
PAUSE = "\n        import signal; signal.pause()"


@pytest.fixture
def full(layer: str, opened: OpenSandbox, workspace: Path) -> OpenFull:
    """Opens a sandbox whose first program was ended at once. No folder is looked through before each start, so it is then that
    the excess shows."""

    async def open_full() -> Sandbox:
        (workspace / "large").write_bytes(b"x" * (11 << 20))
        sandbox = await opened(layer, max_disk_mb=10)
        assert (await python(sandbox, "import signal; signal.pause()")).ended.why == "disk"
        return sandbox

    return open_full


async def test_what_is_too_much_can_be_deleted_and_then_there_is_room(full: OpenFull) -> None:
    sandbox = await full()

    write, delete, again = await python(sandbox, WRITE), await python(sandbox, DELETE), await python(sandbox, WRITE)

    assert [done.stdout.text() for done in (write, delete, again)] == ["File too large\n", "deleted\n", "written\n"]


async def test_a_tree_that_was_too_deep_can_be_deleted(layer: str, opened: OpenSandbox) -> None:
    """Its program had to be ended because it was not known how much was down there. Now that is known, and is not too much."""
    sandbox = await opened(layer, max_disk_mb=10)
    assert (await python(sandbox, DISK_BOMBS["a folder too deep to look into"] + PAUSE)).ended.why == "disk"

    write, delete = await python(sandbox, WRITE), await python(sandbox, DELETE)

    assert [done.stdout.text() for done in (write, delete)] == ["written\n", "deleted\n"]


async def test_no_empty_files_either_once_they_are_counted(full: OpenFull) -> None:
    """A file without bytes takes room, too, and no limit of the kernel's is about those."""
    sandbox = await full()

    more = await python(sandbox, DISK_BOMBS["many empty files"] + PAUSE)

    assert more.ended.why == "disk"


async def test_a_shell_goes_on_after_a_command_that_may_not_write(full: OpenFull) -> None:
    sandbox = await full()

    done = await sandbox.run(["/bin/sh", "-c", "echo x > new; rm -f large; echo $?"], timeout=TIMEOUT)

    assert (done.ended.why, done.stdout.text()) == ("exited", "0\n")


async def test_a_program_that_is_ended_before_it_begins_says_why(
    layer: str, opened: OpenSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = await opened(layer)

    def end_at_once(watched: WatchedSandbox) -> None:
        ended = os.pidfd_open(watched.root)
        watched.stop("disk")
        select.select([ended], [], [], TIMEOUT)
        os.close(ended)

    monkeypatch.setattr(watchdog, "watch", end_at_once)

    assert (await python(sandbox, "print(1)")).ended.why == "disk"


@pytest.mark.parametrize(("name", "levels"), [("d", 300), ("d" * 255, 40)])
def test_folders_that_are_too_deep_come_to_the_top(tmp_path: Path, name: str, levels: int) -> None:
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(levels):
            os.mkdir(name)
            os.chdir(name)
        Path("file").write_text("kept")
    finally:
        os.chdir(here)

    lift_deep_folders(tmp_path)

    found = list(walk(tmp_path))
    assert len(found) == levels + 1
    [file] = [entry.path for entry in found if entry.name == "file"]
    assert (tmp_path / file).read_text() == "kept"
    remove_tree(tmp_path)

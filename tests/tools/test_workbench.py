"""Which sandboxes there are for the sessions of a server: ready ones, one for all, and no more than there may be."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.battery import machine_with
from tests.sandbox.conftest import NEWEST_ABI, require
from tests.timeouts import soon

from ronda.drive import ToolContext
from ronda.errors import BadConfig
from ronda.files.workspaces import Workspaces
from ronda.sandbox.folders import remove_tree
from ronda.sandbox.layers import Layers, choose_layer, find_layers
from ronda.sandbox.policy import Policy
from ronda.tools.code.python import PythonTool
from ronda.tools.code.workbench import Workbench

MakeWorkbench = Callable[..., Workbench]


@pytest.fixture(scope="module")
def layers() -> Layers:
    found = find_layers()
    try:
        choose_layer(Policy(), found)
    except BadConfig as error:
        pytest.skip(str(error))
    return found


@pytest.fixture
def root() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="ronda-test-"))  # pytest's own is closed for other users
    made.chmod(0o755)
    yield made
    for inside in list(made.iterdir()):
        remove_tree(inside)
    shutil.rmtree(made)


@pytest.fixture
async def make(layers: Layers, root: Path) -> AsyncIterator[MakeWorkbench]:
    workspaces = Workspaces(root / "work")
    made: list[Workbench] = []

    def make_one(*, layer: str | None = None, **more: Any) -> Workbench:
        workbench = Workbench(
            Policy(max_memory_mb=512),
            lambda context: workspaces.folder(context.owner, context.session),
            outside=os.environ,
            layers=layers if layer is None else machine_with(layers, layer, NEWEST_ABI),
            find_marker=lambda context: workspaces.folder(context.owner, context.session).with_name("python"),
            spares=workspaces,
            **more,
        )
        made.append(workbench)
        return workbench

    yield make_one
    for workbench in made:
        await workbench.close()


async def python(workbench: Workbench, session: str, code: str, owner: str = "me") -> Any:
    output = await PythonTool(workbench).run({"code": code}, ToolContext("run", session, 0, "call", owner=owner))
    return json.loads(output.content.partition("\nFiles:")[0]).get("result")


@pytest.mark.parametrize("layer", ["bubblewrap", "landlock"])
async def test_a_new_session_gets_a_python_that_is_ready(
    layer: str, layers: Layers, make: MakeWorkbench, root: Path
) -> None:
    require(layer, layers)
    workbench = make(layer=layer, pool=1)
    async with soon():
        await workbench.fill_pool()
    [spare] = (root / "work").iterdir()
    assert spare.name.startswith(".spare-")
    folder = await python(
        workbench, "s", "open('a.txt', 'w').write('here'); import os; os.getcwd(), os.environ['HOME']"
    )
    async with soon():
        await workbench.fill_pool()

    assert not spare.exists()
    names = sorted(path.name for path in (root / "work").iterdir())
    assert [name.startswith(".spare-") for name in names] == [True, False]
    here = "/workspace" if layer == "bubblewrap" else str(root / "work" / names[1] / "files")
    assert folder == repr((here, here))
    assert (root / "work" / names[1] / "files" / "a.txt").read_text() == "here"
    assert await python(workbench, "s", "open(os.environ['HOME'] + '/a.txt').read()") == "'here'"


async def test_a_session_that_has_a_folder_goes_on_there(make: MakeWorkbench) -> None:
    before = make()
    await python(before, "s", "open('a.txt', 'w').write('here')")
    await before.close()
    workbench = make(pool=1)
    async with soon():
        await workbench.fill_pool()

    assert await python(workbench, "s", "open('a.txt').read()") == "'here'"


async def test_a_closed_pool_leaves_no_folder_and_one_of_a_killed_server_is_swept(
    make: MakeWorkbench, root: Path
) -> None:
    workbench = make(pool=2)
    async with soon():
        await workbench.fill_pool()
    await workbench.close()
    (root / "work" / ".spare-4194999-ab" / "files").mkdir(parents=True)
    mine = root / "work" / f".spare-{os.getpid()}-ab"
    mine.mkdir()
    await Workspaces(root / "work").sweep()

    assert list((root / "work").iterdir()) == [mine]


async def test_all_sessions_can_work_in_one_folder_each_with_its_variables(make: MakeWorkbench, root: Path) -> None:
    (root / "shared").mkdir()
    workbench = make(shared=root / "shared", pool=1)
    async with soon():
        await workbench.fill_pool()
    await python(workbench, "one", "x = 1; open('a.txt', 'w').write('here')")
    await python(workbench, "two", "open('b.txt', 'w').write('there')")

    assert await python(workbench, "two", "open('a.txt').read(), 'x' in globals()") == "('here', False)"
    await workbench.close_session("me", "two")
    assert await python(workbench, "one", "x, open('b.txt').read()") == "(1, 'there')"


async def test_of_too_many_sessions_those_unused_for_longest_lose_their_processes(make: MakeWorkbench) -> None:
    workbench = make(most_sessions=2)
    for session in ("one", "two", "three"):
        await python(workbench, session, "x = 1")

    assert [await python(workbench, session, "'x' in globals()") for session in ("two", "three")] == ["True", "True"]
    assert await python(workbench, "one", "'x' in globals()") == "False"


async def test_one_owners_many_sessions_take_no_process_from_another_owners_few(make: MakeWorkbench) -> None:
    workbench = make(most_sessions=3)
    await python(workbench, "one", "x = 1", owner="ann")
    for session in ("one", "two", "three", "four"):
        await python(workbench, session, "x = 1", owner="bob")

    assert await python(workbench, "one", "'x' in globals()", owner="ann") == "True"
    assert await python(workbench, "four", "'x' in globals()", owner="bob") == "True"
    assert await python(workbench, "one", "'x' in globals()", owner="bob") == "False"


async def test_sessions_at_work_are_left_alone_however_many_there_are(make: MakeWorkbench) -> None:
    workbench = make(most_sessions=1)
    code = "import time; time.sleep(0.3); 7"
    async with soon():
        results = await asyncio.gather(*[python(workbench, name, code) for name in ("one", "two", "three")])

    assert results == ["7", "7", "7"]


async def test_a_session_works_on_in_two_processes_by_turns(make: MakeWorkbench) -> None:
    """Two servers on one data folder, each with a Python of its own for the session: neither takes the files away."""
    one, two = make(pool=1), make()
    async with soon():
        await one.fill_pool()
    await python(one, "s", "open('a.txt', 'w').write('one')")
    await python(two, "s", "open('b.txt', 'w').write(open('a.txt').read() + ' two')")

    assert await python(one, "s", "open('c.txt', 'w'); open('b.txt').read()") == "'one two'"

"""Whose processes sandboxed ones are, and which Python they get."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.sandbox.conftest import OpenSandbox, require
from tests.timeouts import TIMEOUT

from ronda.errors import BadConfig
from ronda.sandbox.box import open_sandbox
from ronda.sandbox.interpreter import SYSTEM_PYTHON, find_interpreter
from ronda.sandbox.layers import Layers
from ronda.sandbox.policy import Policy
from ronda.sandbox.user import User, claim_user, closed_folder, hand_over, server_user
from ronda.sandbox.workspace import write_input

is_root = pytest.mark.skipif(os.getuid() != 0, reason="the tests do not run as root")
STRANGER = User(60999, 60999, own=True)


@is_root
def test_root_gives_each_sandbox_a_uid_of_its_own(tmp_path: Path) -> None:
    claims = [claim_user(folder=tmp_path / "claims", uids=range(60706, 60709)) for _ in range(3)]

    assert [claim.user for claim in claims] == [User(uid, uid, own=True) for uid in (60706, 60707, 60708)]
    with pytest.raises(BadConfig, match="all 3 uids for sandboxes are in use"):
        claim_user(folder=tmp_path / "claims", uids=range(60706, 60709))
    claims[1].release()
    assert claim_user(folder=tmp_path / "claims", uids=range(60706, 60709)).user.uid == 60707
    claims[2].release()
    assert claim_user(60708, folder=tmp_path / "claims", uids=range(60706, 60709)).user.uid == 60708


@is_root
def test_two_processes_that_work_for_one_session_share_its_uid(tmp_path: Path) -> None:
    """Or the second would take the folder away from the first."""
    uids = range(60706, 60709)
    first = claim_user(folder=tmp_path / "claims", uids=uids, workspace="/a")
    second = claim_user(60706, folder=tmp_path / "claims", uids=uids, workspace="/a")
    other = claim_user(60706, folder=tmp_path / "claims", uids=uids, workspace="/b")
    first.release()
    third = claim_user(60706, folder=tmp_path / "claims", uids=uids, workspace="/c")
    second.note("/moved")
    fourth = claim_user(60706, folder=tmp_path / "claims", uids=uids, workspace="/moved")

    assert [one.user.uid for one in (first, second, other, third, fourth)] == [60706, 60706, 60707, 60708, 60706]


@is_root
def test_a_folder_of_claims_that_is_not_roots_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 60999, 60999)

    with pytest.raises(BadConfig, match="is not a folder of root's"):
        claim_user(folder=tmp_path)


@is_root
def test_a_workspace_is_handed_over_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    work = tmp_path / "work"
    (work / "a").mkdir(parents=True)
    (work / "a" / "file").write_text("x")
    (work / "link").symlink_to("../outside")
    os.link(tmp_path / "outside", work / "hard")

    hand_over(work, STRANGER)

    owners = {
        name: os.lstat(tmp_path / name).st_uid for name in ("work", "work/a", "work/a/file", "work/link", "outside")
    }
    assert owners == {"work": 60999, "work/a": 60999, "work/a/file": 60999, "work/link": 60999, "outside": 0}


@is_root
async def test_code_of_roots_server_is_never_root(layer: str, opened: OpenSandbox) -> None:
    done = await (await opened(layer)).run(
        ["/bin/sh", "-c", "id -u; id -G; touch here; stat -c %u here"], timeout=TIMEOUT
    )

    uid, groups, owner = done.stdout.text().split()
    assert uid == groups == owner
    assert 60706 <= int(uid) < 61184


@is_root
async def test_two_sandboxes_of_roots_have_two_uids(
    layer: str, opened: OpenSandbox, layers: Layers, workspace: Path
) -> None:
    first = await opened(layer)
    other = workspace.parent / "other"
    other.mkdir()
    write_input(workspace, "mine", b"first", first.user)

    async with await open_sandbox(Policy(), other, outside={}, layers=layers) as second:
        assert first.user.uid != second.user.uid
        done = await second.run(["/bin/cat", f"{workspace}/mine"], timeout=TIMEOUT)

    assert done.ended.code == 1


@is_root
async def test_a_workspace_in_a_closed_folder_is_refused_with_its_name(layers: Layers, tmp_path: Path) -> None:
    require("bubblewrap", layers)
    (tmp_path / "closed" / "work").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)

    with pytest.raises(BadConfig, match=r"may not enter .*, where the workspace is; make it accessible \(chmod o\+x"):
        await open_sandbox(Policy(), tmp_path / "closed" / "work", outside={}, layers=layers)


@is_root
@pytest.mark.parametrize("setting", ["extra_fs_read", "extra_fs_write"])
async def test_a_folder_its_user_cannot_read_is_refused_with_its_name(
    setting: str, layer: str, opened: OpenSandbox, tmp_path: Path
) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)

    with pytest.raises(
        BadConfig, match=r"the sandbox's user may not read .*, which is needed for .*closed; make it accessible"
    ):
        await opened(layer, **{setting: [str(tmp_path / "closed")]})


async def test_a_folder_that_is_not_there_is_named(layer: str, opened: OpenSandbox) -> None:
    with pytest.raises(BadConfig, match="/nowhere"):
        await opened(layer, extra_fs_read=["/nowhere"])


async def test_extra_folders_can_be_read_and_written(layer: str, opened: OpenSandbox, workspace: Path) -> None:
    for name in ("read", "write"):
        (workspace.parent / name).mkdir()
        (workspace.parent / name).chmod(0o777)
        (workspace.parent / name / "file").write_text(name)
    sandbox = await opened(
        layer, extra_fs_read=[str(workspace.parent / "read")], extra_fs_write=[str(workspace.parent / "write")]
    )

    command = f"cd {workspace.parent}; cat read/file write/file; echo x > write/new; echo x > read/new"
    done = await sandbox.run(["/bin/sh", "-c", command], timeout=TIMEOUT)

    assert (done.stdout.text(), os.listdir(workspace.parent / "read")) == ("readwrite", ["file"])
    assert sorted(os.listdir(workspace.parent / "write")) == ["file", "new"]


def test_who_is_not_root_keeps_its_uid() -> None:
    if os.getuid() == 0:
        pytest.skip("the tests run as root")
    assert claim_user().user == server_user()


def test_the_first_closed_folder_is_named(tmp_path: Path) -> None:
    tmp_path = Path(os.path.realpath(tmp_path))
    (tmp_path / "a" / "b").mkdir(parents=True)
    file = tmp_path / "a" / "b" / "file"
    file.write_text("x")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o755)

    assert closed_folder(file, STRANGER) is None
    (tmp_path / "a").chmod(0o700)
    assert closed_folder(file, STRANGER) == tmp_path / "a"
    (tmp_path / "a").chmod(0o711)
    file.chmod(0o600)
    assert closed_folder(file, STRANGER) == file
    assert closed_folder(tmp_path / "gone", STRANGER) == tmp_path / "gone"


async def test_a_shim_is_resolved_to_the_python_behind_it(tmp_path: Path) -> None:
    shim = tmp_path / "python-shim"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    shim.chmod(0o755)

    found = await find_interpreter(str(shim), server_user())

    assert same_file(found.executable, sys.executable)
    assert found.version == sys.version_info[:2]
    assert str(shim) not in found.needs


def same_file(one: str, other: str) -> bool:
    return os.path.samefile(one, other)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "home"
    folder.mkdir(mode=0o700)
    return folder


async def test_a_python_that_its_user_cannot_reach_gives_way_to_the_systems(home: Path) -> None:
    if shutil.which(SYSTEM_PYTHON) is None:
        pytest.skip(f"there is no {SYSTEM_PYTHON}")
    (home / "python").write_text(
        "#!/bin/sh\n"
        f'echo \'{{"executable": "{home}/python", "version": [3, 11], "prefixes": ["{home}"], "folders": []}}\'\n'
    )
    (home / "python").chmod(0o755)

    found = await find_interpreter(str(home / "python"), STRANGER)

    assert same_file(found.executable, SYSTEM_PYTHON)
    assert found.note is not None
    assert "cannot be used in the sandbox: its user may not enter" in found.note
    assert "chmod o+x" in found.note


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (None, "there is no Python '.*' for the sandbox"),
        ("exit 3", "does not run as a Python"),
        ("echo hello", "does not run as a Python"),
        (
            'echo \'{"executable": "/x", "version": [2, 7], "prefixes": [], "folders": []}\'',
            "is Python 2.7; the sandbox needs 3.8 or newer",
        ),
    ],
)
async def test_what_is_no_python_is_named(tmp_path: Path, script: str | None, problem: str) -> None:
    python = tmp_path / "python"
    if script is not None:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)

    with pytest.raises(BadConfig, match=problem):
        await find_interpreter(str(python), server_user())

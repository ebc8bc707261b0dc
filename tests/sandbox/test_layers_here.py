"""Which layer a policy gets, what is refused and why, and what the doctor says about it. Machines with less are told so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ronda._doctor import write_line
from ronda.errors import BadConfig
from ronda.sandbox.box import open_sandbox
from ronda.sandbox.cgroup import Group, find_parent_group, sweep_groups
from ronda.sandbox.doctor import Place, examine, examine_python, this_place
from ronda.sandbox.layers import Choice, Layers, choose_layer
from ronda.sandbox.policy import AllowedHosts, FullNetwork, Loopback, Policy

ALL = Layers(bwrap="/usr/bin/bwrap", landlock=7, seccomp=True)
NO_BWRAP = replace(ALL, bwrap=None, bwrap_problem="it is not installed")


@pytest.mark.parametrize(
    ("policy", "layers", "is_root", "choice"),
    [
        (Policy(), ALL, False, Choice("bubblewrap")),
        (Policy(mode="on"), ALL, True, Choice("bubblewrap", own_uid=True)),
        (Policy(network=Loopback()), replace(ALL, landlock=0), False, Choice("bubblewrap")),
        (Policy(), NO_BWRAP, False, Choice("landlock", 7)),
        (Policy(), replace(NO_BWRAP, landlock=6), False, Choice("landlock", 6)),
        (Policy(), replace(NO_BWRAP, landlock=2), True, Choice("landlock", 2, own_uid=True)),
        (Policy(network=FullNetwork()), NO_BWRAP, False, Choice("landlock", 7)),
        (Policy(mode="off"), Layers(), False, Choice("off")),
    ],
)
def test_the_strongest_layer_that_can_enforce_it(policy: Policy, layers: Layers, is_root: bool, choice: Choice) -> None:
    assert choose_layer(policy, layers, is_root=is_root) == choice


@pytest.mark.parametrize("mode", ["auto", "on"])
@pytest.mark.parametrize(
    ("layers", "is_root", "network", "why"),
    [
        (Layers(seccomp=True), False, None, "ABI 0, and 2 is needed"),
        (replace(NO_BWRAP, landlock=1), True, None, "ABI 1, and 2 is needed"),
        (replace(NO_BWRAP, landlock=5), False, None, "ABI 5 lets code signal the server"),
        (
            replace(ALL, seccomp=False, seccomp_problem="Invalid argument"),
            False,
            None,
            "seccomp does not work .Invalid",
        ),
        (replace(ALL, user_problem="no other user can be had"), True, None, "no other user can be had"),
        (NO_BWRAP, False, Loopback(), "cannot give it a network of its own"),
        (NO_BWRAP, False, AllowedHosts(("x.org",)), "cannot give it a network of its own"),
    ],
)
def test_without_isolation_it_is_refused_with_the_way_out(
    layers: Layers, is_root: bool, network: AllowedHosts | Loopback | None, why: str, mode: str
) -> None:
    policy = Policy(mode="on" if mode == "on" else "auto")
    if network is not None:
        policy = replace(policy, network=network)

    with pytest.raises(
        BadConfig, match=f"code cannot be isolated on this machine: .*{why}.*'ronda doctor'.*'--sandbox off'"
    ):
        choose_layer(policy, layers, is_root=is_root)


async def test_with_all_layers_taken_away_nothing_starts(workspace: Path) -> None:
    with pytest.raises(BadConfig, match="code cannot be isolated on this machine"):
        await open_sandbox(Policy(), workspace, outside=os.environ, layers=Layers())


async def test_off_runs_without_isolation_but_with_limits(opened, workspace: Path) -> None:  # type: ignore[no-untyped-def]  # a fixture
    sandbox = await opened("off", mode="off", max_open_fds=77)

    done = await sandbox.run(["/bin/sh", "-c", "ulimit -n; pwd; test -r /proc/1/cmdline && echo host"], timeout=60)

    assert done.stdout.text() == f"77\n{workspace}\nhost\n"


HERE = Place(is_root=False, in_container=False)


def said(layers: Layers, place: Place) -> dict[str, tuple[str, str | None]]:
    return {line.name: (line.state, line.help) for line in examine(layers, place)}


def test_the_doctor_names_what_works() -> None:
    lines = examine(replace(ALL, cgroup="/sys/fs/cgroup/ronda"), HERE)

    assert [(line.name, line.state, line.help) for line in lines] == [
        (name, "works", None) for name in ("isolation", "bubblewrap", "landlock", "seccomp", "cgroup", "user")
    ]
    assert write_line(lines[0]) == "isolation   works    Python and shell tools run under bubblewrap"


def test_the_doctor_names_the_command_that_helps() -> None:
    lines = said(NO_BWRAP, HERE)

    assert lines["bubblewrap"] == ("missing", "apt-get install bubblewrap")
    assert lines["isolation"] == ("works", None)
    assert lines["cgroup"][0] == "partly"


@pytest.mark.parametrize(
    ("place", "problem", "help_"),
    [
        (replace(HERE, userns_clone="0"), "No permissions", "sysctl -w kernel.unprivileged_userns_clone=1"),
        (replace(HERE, max_userns="0"), "No space left", "sysctl -w user.max_user_namespaces=15000"),
        (
            replace(HERE, apparmor_userns="1"),
            "setting up uid map: Permission denied",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap that has 'userns,'",
        ),
        (
            replace(HERE, in_container=True),
            "No permissions to create new namespace",
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined",
        ),
        (
            replace(HERE, in_container=True),
            "Can't mount proc on /newroot/proc",
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined",
        ),
    ],
)
def test_the_doctor_names_the_setting_that_forbids_namespaces(place: Place, problem: str, help_: str) -> None:
    assert said(replace(ALL, bwrap=None, bwrap_problem=problem), place)["bubblewrap"] == ("missing", help_)


def test_the_doctor_says_that_tools_are_refused() -> None:
    lines = examine(Layers(user_problem="no other user can be had"), replace(HERE, is_root=True))

    assert {line.name: line.state for line in lines} == {
        "isolation": "missing",
        "bubblewrap": "missing",
        "landlock": "missing",
        "seccomp": "missing",
        "cgroup": "partly",
        "user": "missing",
    }
    assert lines[0].text.startswith("Python and shell tools are refused: code cannot be isolated")


async def test_the_doctor_names_the_python_that_code_runs_on() -> None:
    line = await examine_python("/usr/bin/python3")
    missing = await examine_python("/nowhere/python")

    assert (line.name, line.state) == ("python", "works")
    assert "code runs on /usr/bin/python3" in line.text
    assert (missing.state, missing.text[:15]) == ("missing", "there is no Pyt")


def test_the_doctor_can_look_at_this_machine(layers: Layers) -> None:
    assert examine(layers, this_place())[0].name == "isolation"


def fake_group(folder: Path, controllers: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.subtree_control").write_text(controllers)
    return folder


def test_a_group_is_used_only_where_memory_and_processes_are_counted_below_it(tmp_path: Path) -> None:
    """The kernel makes the files of a new group; a folder of the test's does not, so none is found there."""
    fake_group(tmp_path / "service", "memory pids")
    mounts = f"30 1 0:1 / {tmp_path} rw - cgroup2 cgroup2 rw\n"

    assert find_parent_group(mounts, "0::/service/server\n") is None
    assert os.listdir(tmp_path / "service") == ["cgroup.subtree_control"]
    assert find_parent_group("1 1 0:1 / / rw - ext4 x rw\n", "0::/\n") is None
    assert find_parent_group(mounts, "4:memory:/x\n") is None


def test_a_group_has_the_policys_limits_and_takes_the_first_process(tmp_path: Path) -> None:
    group = Group(tmp_path, Policy(max_memory_mb=100, max_procs=10))
    group.add(4711)
    (folder,) = tmp_path.iterdir()

    files = {file.name: file.read_text() for file in folder.iterdir()}
    assert files == {
        "memory.max": str(100 << 20),
        "pids.max": "12",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "cgroup.procs": "4711",
    }
    assert not group.ran_out_of_memory()
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert group.ran_out_of_memory()


def test_a_server_removes_no_group_that_another_tries_or_uses(tmp_path: Path) -> None:
    made: list[Path] = []
    mkdir = Path.mkdir

    def make(path: Path, *args: Any, **options: Any) -> None:
        mkdir(path, *args, **options)
        if path.parent == service:
            made.append(path)
            sweep_groups(service)  # of a server that begins at this moment
            assert path.is_dir()

    service = fake_group(tmp_path / "service", "memory pids")
    mounts = f"30 1 0:1 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "mkdir", make)
        find_parent_group(mounts, "0::/service\n")
        Group(service, Policy())

    assert len(made) == 2


def test_groups_of_servers_that_are_no_more_are_removed(tmp_path: Path) -> None:
    """And no other: not those of a server that runs, of one in another container, or those whose owner is not known."""
    here = os.stat("/proc/self/ns/pid").st_ino
    alive, gone = os.getpid(), 4194999
    others = [
        f"ronda-sandbox-{here}-{alive}-a",
        f"ronda-sandbox-{here + 1}-{gone}-a",
        "ronda-sandbox-trial-a",
        "another",
    ]
    for name in (*others, f"ronda-sandbox-{here}-{gone}-b"):
        (tmp_path / name).mkdir()

    sweep_groups(tmp_path)

    assert sorted(os.listdir(tmp_path)) == sorted(others)

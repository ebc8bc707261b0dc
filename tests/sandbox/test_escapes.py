"""A battery of ways out, tried under each layer, as root and as an ordinary user: all are stopped, nothing outside is harmed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.sandbox.attacks import ATTACKS
from tests.sandbox.attacks.registry import X86
from tests.sandbox.attacks.run import NOT_TRIED
from tests.sandbox.battery import Outside, attack_all
from tests.sandbox.conftest import NEWEST_ABI, require
from tests.timeouts import TIMEOUT

from ronda.sandbox.layers import Layers
from ronda.sandbox.policy import BROWSER
from ronda.sandbox.user import User, closed_folder

# Attacks on what only some processors have. All others are tried everywhere: one that cannot be is a mistake, and named.
OF_X86 = ["use_ports_of_the_machine", "call_a_32_bit_kernel", "call_an_x32_kernel"]
NOT_HERE = [] if X86 else OF_X86
STOPPED = {"stopped": len(ATTACKS) - len(NOT_HERE), "not tried on this machine": NOT_HERE, "got": {}, "harm": []}
REPOSITORY = Path(__file__).parents[2]
ORDINARY = User(64321, 64321, own=True)

is_root = pytest.mark.skipif(os.getuid() != 0, reason="the tests do not run as root")


def as_an_ordinary_user(*arguments: str) -> dict[str, Any]:
    """Runs the battery as a program of a user who is not root."""
    identity: dict[str, Any] = {}
    python = sys.executable
    if os.getuid() == 0:
        python = f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
        needed = [python, os.path.dirname(msgspec.__file__), __file__]
        for path in needed:
            if not os.path.exists(path) or closed_folder(path, ORDINARY) is not None:
                pytest.skip(f"an ordinary user cannot reach {path}")
        identity = {"user": ORDINARY.uid, "group": ORDINARY.gid, "extra_groups": []}
    done = subprocess.run(
        [python, str(Path(__file__).with_name("battery.py")), *arguments],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
        **identity,
    )
    assert done.returncode == 0, done.stderr.decode()
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_there_are_at_least_sixty_attacks() -> None:
    assert len(ATTACKS) - len(OF_X86) >= 60


def test_an_attack_that_cannot_be_tried_is_not_one_that_was_stopped() -> None:
    code = """
from tests.sandbox.attacks.registry import NotHere
from tests.sandbox.attacks.run import attempt

def ends_with(error):
    def attack(host):
        raise error
    return attempt(attack, {})

print([ends_with(error) for error in (NotHere(), NotImplementedError(), PermissionError())])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=REPOSITORY
    )
    assert done.stdout == f"{[NOT_TRIED, NOT_TRIED, None]}\n", done.stderr


@is_root
@pytest.mark.parametrize(("layer", "abi"), [("bubblewrap", 0), ("landlock", NEWEST_ABI), ("landlock", 2)])
async def test_nothing_gets_out_of_a_sandbox_of_roots(layer: str, abi: int, layers: Layers, workspace: Path) -> None:
    require(layer, layers)
    (workspace.parent / "outside").mkdir()
    outside = Outside(workspace.parent / "outside")
    try:
        assert await attack_all(layer, abi, layers, workspace, outside) == STOPPED
    finally:
        outside.close()


@is_root
async def test_nothing_gets_out_of_the_box_around_a_browser(layers: Layers, workspace: Path) -> None:
    require("bubblewrap", layers)
    (workspace.parent / "outside").mkdir()
    outside = Outside(workspace.parent / "outside")
    policy = msgspec.structs.replace(BROWSER, extra_fs_read=(str(outside.shown),))
    try:
        assert await attack_all("bubblewrap", 0, layers, workspace, outside, policy) == STOPPED
    finally:
        outside.close()


@pytest.mark.parametrize(("layer", "abi"), [("bubblewrap", 0), ("landlock", NEWEST_ABI), ("landlock", 6)])
def test_nothing_gets_out_of_a_sandbox_of_an_ordinary_user(layer: str, abi: int, layers: Layers) -> None:
    require(layer, layers)

    assert as_an_ordinary_user(layer, str(abi)) == STOPPED


def test_the_same_attacks_get_something_where_there_is_no_sandbox() -> None:
    """So that an attack which is stopped was one."""
    result = as_an_ordinary_user("off", "0")

    assert len(result["got"]) >= 50, sorted(result["got"])
    assert len(result["harm"]) >= 10

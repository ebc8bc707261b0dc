"""Sandboxes for tests: each layer this machine has, small limits, and a workspace that a sandbox's user can reach."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.battery import machine_with

from ronda.sandbox.box import Sandbox, open_sandbox
from ronda.sandbox.folders import remove_tree
from ronda.sandbox.layers import Layers, find_layers
from ronda.sandbox.policy import read_policy

LAYERS = ("bubblewrap", "landlock")
NEWEST_ABI = 99

OpenSandbox = Callable[..., Awaitable[Sandbox]]


@pytest.fixture(scope="session")
def layers() -> Layers:
    return find_layers()


def require(layer: str, layers: Layers) -> None:
    if not layers.seccomp:
        pytest.skip(f"no seccomp here: {layers.seccomp_problem}")
    if layer == "bubblewrap" and layers.bwrap is None:
        pytest.skip(f"no bubblewrap here: {layers.bwrap_problem}")
    if layer == "landlock" and (layers.landlock < 2 or (layers.landlock < 6 and os.getuid() != 0)):
        pytest.skip(f"no Landlock here that is enough: ABI {layers.landlock}")


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest, layers: Layers) -> str:
    name: str = request.param
    require(name, layers)
    return name


@pytest.fixture
def workspace() -> Iterator[Path]:
    # Not pytest's own folder, which is closed for every user but the one that runs the tests.
    folder = Path(tempfile.mkdtemp(prefix="ronda-test-"))
    folder.chmod(0o755)
    (folder / "work").mkdir()
    yield folder / "work"
    remove_tree(folder / "work")
    shutil.rmtree(folder)


@pytest.fixture
async def opened(layers: Layers, workspace: Path) -> AsyncIterator[OpenSandbox]:
    """Opens sandboxes of a layer, with settings of the `[sandbox]` table; closes them after the test."""
    sandboxes: list[Sandbox] = []

    async def open_one(layer: str, *, abi: int = NEWEST_ABI, new_proxy: Any = None, **settings: Any) -> Sandbox:
        policy = read_policy({"max_memory_mb": 256, **settings})
        more = {} if new_proxy is None else {"new_proxy": new_proxy}
        machine = layers if layer == "off" else machine_with(layers, layer, abi)
        sandbox = await open_sandbox(policy, workspace, outside=os.environ, layers=machine, **more)
        sandboxes.append(sandbox)
        return sandbox

    yield open_one
    for sandbox in sandboxes:
        await sandbox.close()

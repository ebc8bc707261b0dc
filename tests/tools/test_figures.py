"""Pictures that code makes with matplotlib, the real one, in a sandbox that may read where it is installed."""

from __future__ import annotations

import base64
import importlib.util
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from ronda.drive import ToolContext, ToolOutput
from ronda.errors import BadConfig
from ronda.sandbox.folders import remove_tree
from ronda.sandbox.layers import choose_layer, find_layers
from ronda.sandbox.policy import Policy
from ronda.tools.code.python import PythonTool
from ronda.tools.code.workbench import Workbench

_FOUND = importlib.util.find_spec("matplotlib")
PACKAGES = "" if _FOUND is None or _FOUND.origin is None else str(Path(_FOUND.origin).parent.parent)
PNG = b"\x89PNG"


class Drawing:
    def __init__(self, folder: Path) -> None:
        policy = Policy(extra_fs_read=(PACKAGES,))
        self.workbench = Workbench(policy, lambda context: folder, outside=os.environ)
        self._tool = PythonTool(self.workbench, timeout=120.0)

    async def draw(self, code: str) -> ToolOutput:
        context = ToolContext("run", "s", 0, "call", owner="me")
        return await self._tool.run({"code": f"import sys; sys.path.append({PACKAGES!r})\n{code}"}, context)


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="ronda-test-"))  # pytest's own is closed for other users
    made.chmod(0o755)
    (made / "work").mkdir()
    yield made / "work"
    remove_tree(made / "work")
    shutil.rmtree(made)


@pytest.fixture
async def drawing(folder: Path) -> AsyncIterator[Drawing]:
    if not PACKAGES:
        pytest.skip("matplotlib is not installed")
    try:
        choose_layer(Policy(), find_layers())
    except BadConfig as error:
        pytest.skip(str(error))
    opened = Drawing(folder)
    try:
        first = await opened.draw("import matplotlib.pyplot as plt")
        if first.failed:
            pytest.skip(f"the Python inside cannot use this matplotlib: {first.content}")
        yield opened
    except BadConfig as error:  # its user cannot reach where matplotlib is: under /root, for one
        pytest.skip(str(error))
    finally:
        await opened.workbench.close()


def pictures(output: ToolOutput) -> list[bytes]:
    addresses = [getattr(attachment, "url", "") for attachment in output.attachments]
    return [base64.b64decode(address.removeprefix("data:image/png;base64,")) for address in addresses]


def told(output: ToolOutput) -> dict[str, Any]:
    return dict(output.details or {})


async def test_figures_are_pictures_of_the_call_that_saves_shows_or_leaves_them(drawing: Drawing) -> None:
    left = await drawing.draw("plt.plot([1, 3, 2]); plt.figure(); None")
    nothing = await drawing.draw("plt.get_fignums()")
    shown = await drawing.draw("plt.plot([1, 2]); plt.show(); plt.get_fignums()")
    saved = await drawing.draw("figure = plt.figure(); figure.savefig('a.pdf'); figure.savefig('b.png')")

    assert [picture[:4] for picture in pictures(left)] == [PNG, PNG]
    assert "images_base64" not in told(left)  # a journal would have each picture twice
    assert (nothing.attachments, told(nothing)["result"]) == ((), "[]")
    assert (len(pictures(shown)), told(shown)["result"]) == (1, "[]")
    assert told(shown).get("stderr") is None  # no warning that there is no window
    assert len(pictures(saved)) == 1
    assert [file.name for file in saved.files] == ["a.pdf", "b.png"]


ANIMATION = """
from matplotlib.animation import FuncAnimation, PillowWriter
figure, axes = plt.subplots(figsize=(1, 1))
line, = axes.plot([0, 1], [0, 1])
animation = FuncAnimation(figure, lambda n: line.set_ydata([0, n]), frames={frames})
animation.save("a.gif", writer=PillowWriter())
"""


async def test_frames_of_an_animation_are_told_as_far_apart_as_need_be(drawing: Drawing) -> None:
    few = await drawing.draw(ANIMATION.format(frames=3))
    many = await drawing.draw(ANIMATION.format(frames=40))

    assert told(few)["video_frame_count"] == len(told(few)["video_frames_base64"]) == 3
    assert told(many)["video_frame_count"] == 40
    assert len(told(many)["video_frames_base64"]) == 20
    assert {base64.b64decode(frame)[:4] for frame in told(many)["video_frames_base64"]} == {PNG}
    assert few.attachments == ()
    assert [file.name for file in few.files] == ["a.gif"]
    assert '"video_frames_generated":3' in few.content

"""What code draws with matplotlib, caught inside the sandbox: figures it saves, shows or leaves open, and frames of animations.

Run as a text by whatever Python is inside (3.8 or newer), so it imports nothing of ours, and nothing at all of matplotlib until
the code does. A picture that cannot be made is left out: the code has done its work.
"""

from __future__ import annotations

import base64
import importlib.util
import io
import sys
import weakref
from typing import Any

_MOST_PICTURES = 32  # of a call; of frames those that are kept are as far apart
_MOST_TEXT = 24 * 1024 * 1024  # of all of them, in base64: they travel in one message
_LOOK = {"format": "png", "dpi": 150, "bbox_inches": "tight"}
_FRAME_LOOK = {"format": "png", "dpi": 72}


class Pictures:
    """Those of one call after another."""

    def __init__(self) -> None:
        self._images: list[str] = []
        self._frames: list[str] = []
        self._frame_count = 0
        self._stride = 1  # every so many frames one is kept
        self._room = _MOST_TEXT
        self._caught: Any = weakref.WeakSet()  # figures that need not be caught again
        self._save: Any = None  # matplotlib's own
        self._is_animating = False
        self._patches = {
            "matplotlib.figure": self._patch_figure,
            "matplotlib.pyplot": self._patch_pyplot,
            "matplotlib.animation": self._patch_animation,
        }
        sys.meta_path.insert(0, self)

    def add(self, image: Any) -> None:
        """An image of PIL's."""
        file = io.BytesIO()
        image.save(file, format="PNG")
        self._keep(self._images, file)

    def take(self) -> dict[str, Any]:
        """All since the last time. Figures that are open are closed, so that the next call begins without them."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None:
            self._catch_open(pyplot)
        taken = {"images": self._images, "frames": self._frames, "frame_count": self._frame_count}
        self._images, self._frames, self._frame_count = [], [], 0
        self._stride, self._room = 1, _MOST_TEXT
        self._caught.clear()
        return taken

    def _catch_open(self, pyplot: Any) -> None:
        for number in pyplot.get_fignums():
            self._catch(pyplot.figure(number))
        pyplot.close("all")

    def _catch(self, figure: Any) -> None:
        if figure not in self._caught:
            self._caught.add(figure)
            self._draw(figure, self._images, _LOOK)

    def _catch_frame(self, figure: Any) -> None:
        if self._frame_count % self._stride == 0:
            if len(self._frames) == _MOST_PICTURES:
                del self._frames[1::2]
                self._stride *= 2
            if self._frame_count % self._stride == 0:
                self._draw(figure, self._frames, _FRAME_LOOK)
        self._frame_count += 1

    def _draw(self, figure: Any, pictures: list[str], look: dict[str, Any]) -> None:
        if len(pictures) >= _MOST_PICTURES or self._room <= 0:
            return
        file = io.BytesIO()
        try:
            self._save(figure, file, **look)
        except Exception:
            return
        self._keep(pictures, file)

    def _keep(self, pictures: list[str], file: io.BytesIO) -> None:
        text = base64.b64encode(file.getvalue()).decode()
        if len(pictures) < _MOST_PICTURES and len(text) <= self._room:
            self._room -= len(text)
            pictures.append(text)

    # Modules of matplotlib are changed as they are imported.

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        patch = self._patches.pop(name, None)
        if patch is None:
            return None
        spec = importlib.util.find_spec(name)
        loader: Any = None if spec is None else spec.loader
        if loader is None:
            self._patches[name] = patch
            return None
        load = loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            patch(module)

        loader.exec_module = exec_module
        return spec

    def _patch_figure(self, module: Any) -> None:
        save = self._save = module.Figure.savefig

        def savefig(figure: Any, *arguments: Any, **options: Any) -> Any:
            answer = save(figure, *arguments, **options)
            if self._is_animating:
                self._catch_frame(figure)
            else:
                self._catch(figure)
            return answer

        module.Figure.savefig = savefig

    def _patch_pyplot(self, module: Any) -> None:
        module.show = lambda *_, **__: self._catch_open(module)

    def _patch_animation(self, module: Any) -> None:
        save = module.Animation.save

        def save_frames(animation: Any, *arguments: Any, **options: Any) -> Any:
            self._is_animating = True
            try:
                return save(animation, *arguments, **options)
            finally:
                self._is_animating = False
                self._caught.add(animation._fig)  # its frames are enough

        module.Animation.save = save_frames

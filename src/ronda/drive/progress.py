"""What a tool shows while it is running → a preview, for whoever watches. It may come from any thread, and too late."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ronda.core.events import ToolProgressed
from ronda.drive.tools import as_text

if TYPE_CHECKING:
    from ronda.drive.driver import Driver

PROGRESS_BYTES: Final = 64 * 1024  # of one call, at the most: it is kept for as long as somebody may follow the run


def show_progress(driver: Driver, progress: ToolProgressed) -> None:
    if not isinstance(progress.text, str):
        raise TypeError(f"progress is a text, not {type(progress.text).__name__}")
    if not driver.run.plan.stream:  # nobody watches
        return
    try:
        is_here = asyncio.get_running_loop() is driver.loop
    except RuntimeError:  # a thread
        is_here = False
    if is_here:
        _show(driver, progress)
    else:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the run is long over
            driver.loop.call_soon_threadsafe(_show, driver, progress)


def _show(driver: Driver, progress: ToolProgressed) -> None:
    call_id, text = progress.call_id, progress.text
    if not text or call_id not in [call.id for call in driver.run.open_calls]:
        return
    shown = driver.progressed.get(call_id, 0)
    data = as_text(text).encode()
    driver.progressed[call_id] = shown + len(data)
    if shown > PROGRESS_BYTES:
        return
    if shown + len(data) > PROGRESS_BYTES:
        data = data[: PROGRESS_BYTES - shown] + "\n… (no more of it is shown)".encode()
    driver.flush()  # what happened before it is told before it
    driver.emit([replace(progress, text=data.decode("utf-8", "ignore"))])

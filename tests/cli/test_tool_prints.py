"""The stream that tools print to may outlive the one that it writes to."""

from __future__ import annotations

import io

from ronda.cli.beside import ToolPrints


def test_a_stream_that_is_closed_is_flushed_no_more() -> None:
    shown = io.StringIO()
    prints = ToolPrints(shown)
    prints.write("hello")
    shown.close()

    prints.flush()
    prints.close()

    assert prints.closed

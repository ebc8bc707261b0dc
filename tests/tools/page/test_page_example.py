"""examples/page_variants.py: pages that models have looked at and improved."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.timeouts import TIMEOUT
from tests.tools.page.looks import colours, needs_chromium

EXAMPLE = Path(__file__).parents[3] / "examples" / "page_variants.py"


def farthest(seen: dict[tuple[int, int, int], int], background: tuple[int, int, int]) -> int:
    """How much a colour differs from the background at the most."""
    return max(abs(one - other) for colour in seen for one, other in zip(colour, background, strict=True))


@needs_chromium
def test_two_variants_are_seen_and_improved(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path)], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.stderr == ""
    assert sorted(line.split(":")[0] for line in done.stdout.splitlines()) == ["dark", "light"]
    for name, background in (("light", (0xF4, 0xF1, 0xEA)), ("dark", (0x11, 0x22, 0x33))):
        before, after = (colours((tmp_path / f"{name}-{number}.png").read_bytes()) for number in (0, 2))
        assert farthest(before, background) <= 3  # nothing can be read …
        assert farthest(after, background) > 100  # … and now it can
        assert "color: #fff" in (tmp_path / "dark.html").read_text()

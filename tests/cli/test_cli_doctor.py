"""`ronda doctor` on the machine that the tests run on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.commands import shown

from ronda.errors import BadConfig
from ronda.sandbox.layers import choose_layer, find_layers
from ronda.sandbox.policy import Policy
from ronda.tools.page.browser import Browser
from ronda.tools.page.doctor import examine_page


def test_it_names_the_layers_and_says_whether_code_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        chosen: str = choose_layer(Policy(), find_layers()).layer
    except BadConfig:
        chosen = "refused"
    code, out, err = shown(capsys, "doctor")
    lines = out.splitlines()
    names = ["isolation", "bubblewrap", "landlock", "seccomp", "cgroup", "user", "python"]
    names += ["screenshots", "page", "pictures", "prices"]
    assert [line.split()[0] for line in lines] == names
    assert chosen in lines[0]
    assert (code, err) == (1 if chosen == "refused" else 0, "")


def test_it_says_what_would_help_where_pages_cannot_be_shown(tmp_path: Path) -> None:
    screenshots, packages, _ = examine_page(tmp_path, Browser("/nowhere/chromium"))
    assert (screenshots.state, packages.state, packages.help) == ("missing", "partly", "ronda page setup")
    assert "Chromium" in screenshots.text

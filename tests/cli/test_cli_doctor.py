"""`ronda doctor` on the machine that the tests run on."""

from __future__ import annotations

import pytest
from tests.cli.commands import shown

from ronda.errors import BadConfig
from ronda.sandbox.layers import choose_layer, find_layers
from ronda.sandbox.policy import Policy


def test_it_names_the_layers_and_says_whether_code_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        chosen: str = choose_layer(Policy(), find_layers()).layer
    except BadConfig:
        chosen = "refused"
    code, out, err = shown(capsys, "doctor")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["isolation", "bubblewrap", "landlock", "seccomp", "cgroup", "user"]
    assert chosen in lines[0]
    assert (code, err) == (1 if chosen == "refused" else 0, "")

"""A body that grew from one run of a session to the next is the one that is written anew, on every wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.any_history import SPOKEN, histories

from ronda.core.parts import Turn, user
from ronda.core.plan import AUTO, NO_OPTIONS
from ronda.core.request import ModelRequest
from ronda.core.transcript import repair
from ronda.wire.anthropic import client_request as anthropic
from ronda.wire.gemini import client_request as gemini
from ronda.wire.mistral import client_request as mistral
from ronda.wire.openai_chat import client_request as chat
from ronda.wire.openai_responses import client_request as responses

Write = Callable[[str, ModelRequest], bytes]
WIRES: dict[str, Write] = {
    "chat": chat.write_request,
    "responses": responses.write_request,
    "anthropic": anthropic.write_request,
    "mistral": mistral.write_request,
    "gemini": gemini.write_request,
}


def asked(turns: list[Turn], scratch: dict[str, Any]) -> ModelRequest:
    return ModelRequest(repair(turns), (), AUTO, NO_OPTIONS, False, "run", 0, 1, scratch=scratch)


@pytest.mark.parametrize("wire", WIRES)
@given(histories(*SPOKEN), st.data())
def test_a_body_that_grew_is_written_anew(wire: str, history: tuple[Turn, ...], data: st.DataObject) -> None:
    write, scratch = WIRES[wire], dict[str, Any]()
    turns = [user("Hello"), *repair(history)]
    ends = sorted(data.draw(st.sets(st.integers(1, len(turns)), max_size=4)))
    for end in [*ends, len(turns)]:
        grown = write("model", asked([*turns[:end]], scratch))
        assert grown == write("model", asked([*turns[:end]], {}))

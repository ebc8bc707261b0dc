"""What a model wrote → the turn that the engine's own parser reads from it.

The engine has no door for that: so the text is given as the beginning of an answer that goes on, and ends at once.
"""

from __future__ import annotations

import msgspec
from tests.local.markup.outputs import SPECS, Output

from ronda.core.parts import AssistantTurn
from ronda.local.calls import Delta, Piece
from ronda.local.engine import Engine
from ronda.local.prompt import ControlTokenEscaper, write_tools
from ronda.local.reading import ToldParts


class _Choice(msgspec.Struct):
    message: Delta


class _Answer(msgspec.Struct):
    choices: list[_Choice]


def parse(engine: Engine, output: Output) -> AssistantTurn:
    """Waits: call it `aside`."""
    body = {
        "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": output.written}],
        "tools": write_tools(SPECS, ControlTokenEscaper(())),
        "tool_choice": "required",
        "parallel_tool_calls": True,
        "continue_final_message": True,
        "add_generation_prompt": False,
        "n_predict": 1,
        "logit_bias": [[end, 100] for end in engine.header.ends],
    }
    (choice,) = msgspec.json.decode(engine.answer(body), type=_Answer).choices
    calls = [msgspec.structs.replace(call, index=n) for n, call in enumerate(choice.message.tool_calls)]
    told = ToldParts()
    told.read(Piece("", delta=msgspec.structs.replace(choice.message, tool_calls=calls)))
    return told.finish("stop")

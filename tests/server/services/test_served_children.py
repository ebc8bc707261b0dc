"""A served prompt file whose tool is another file: the child is a run of its own, of the same owner and session."""

from __future__ import annotations

import json
from pathlib import Path

from tests.interaction.doors import Door, soon

from ronda.core.events import RunStarted, ToolFinished
from ronda.core.parts import ToolResult, Usage
from ronda.testing import ScriptedModel, says

PARENT = """---
model: script:parent.json
tools: [{name: research, kind: prompty, path: child.prompty, mode: agentic}]
---
system:
Ask your colleague.
"""
CHILD = """---
model: script:child.json
inputs: {q: {kind: string, required: true}}
---
user:
{{ q }}
"""


async def test_a_served_file_starts_another(door: Door, tmp_path: Path) -> None:
    calls = [{"name": "research", "arguments": {"q": "whales"}, "id": "c1"}]
    (tmp_path / "parent.json").write_text(json.dumps([{"calls": calls}, "Large."]))
    (tmp_path / "child.json").write_text(json.dumps([{"text": "They are large.", "usage": {"input": 7, "output": 3}}]))
    (tmp_path / "parent.prompty").write_text(PARENT)
    (tmp_path / "child.prompty").write_text(CHILD)

    async with door.serving(ScriptedModel(says("never")), agents=str(tmp_path)) as served, soon():
        answer = await served.client().chat.completions.create(
            model="parent", messages=[{"role": "user", "content": "Tell me."}], extra_body={"session_id": "s1"}
        )
        runs = {one[0].run: one for one in await served.events if isinstance(one[0], RunStarted)}

    assert answer.choices[0].message.content == "Large."
    starts = [one[0] for one in runs.values() if isinstance(one[0], RunStarted)]
    [parent] = [start for start in starts if start.parent is None]
    [child] = [start for start in starts if start.parent is not None]
    assert child.parent == (parent.run, 4)
    assert (child.session, child.owner) == (parent.session, parent.owner)
    [finished] = [event for event in runs[parent.run] if isinstance(event, ToolFinished)]
    assert (finished.result, finished.usage) == (ToolResult("c1", "They are large."), Usage(7, 3))

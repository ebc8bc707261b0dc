"""Sessions with agents: what a file says around a conversation is not part of it, and a handoff is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.interaction.doors import Door
from tests.server.mistral_doors import serving
from tests.server.session_doors import told, weather

from ronda.testing import ScriptedModel, calls, says

FILE = """---
model: script:unused.json
inputs: {tone: {kind: string, default: kind}, thread: {kind: thread}}
---
system:
Be {{tone}}.

{{thread}}

user:
Remember your manners.
"""


async def test_what_an_agent_says_around_a_conversation_is_said_once(door: Door, tmp_path: Path) -> None:
    (tmp_path / "unused.json").write_text('["One.", "Two.", "Three."]')
    (tmp_path / "helper.prompty").write_text(FILE.replace("script:unused.json", "script:test.json"))
    (tmp_path / "test.json").write_text('[["One."], ["One."], ["One."], ["One."]]')
    async with door.serving(ScriptedModel(), agents=str(tmp_path)) as served:
        for text in ("First?", "Second?", "Third?"):
            answer = await served.post({"model": "helper", "messages": text, "session_id": "s"})
            assert answer.status == 200, answer.body
        starts = [events[0] for events in await served.events]
    heard = [told(start.turns) for start in starts if hasattr(start, "turns")]
    assert heard[2] == [
        "system: Be kind.",
        "user: First?",
        "assistant: One.",
        "user: Second?",
        "assistant: One.",
        "user: Third?",
        "user: Remember your manners.",
    ]


async def test_a_request_in_which_agents_hand_over_is_one_node(door: Door) -> None:
    to_billing = "handoff_to_Billing"
    model = ScriptedModel(calls(to_billing, text="One moment."), says("You owe 5."), says("Yes."))
    async with serving(door, model, weather) as behind, behind.client() as client:
        more: Any = {"model": "default", "tools": []}
        billing = await client.beta.agents.create_async(name="Billing", instructions="You bill.", **more)
        desk = await client.beta.agents.create_async(
            name="Desk", instructions="You greet.", handoffs=[billing.id], **more
        )
        for text in ("hi", "Really?"):
            answer = await door.http.post(
                f"{door.url}/agents/completions",
                json={"agent_id": desk.id, "messages": [{"role": "user", "content": text}], "session_id": "s"},
                headers={"authorization": "Bearer test"},
            )
            assert answer.status == 200
    lines = told(model.heard[2])
    assert lines[:2] == ["system: You greet.", "user: hi"]
    assert lines[2:4] == ["assistant: One moment.", f"calls: {to_billing}({{}})"]
    assert lines[5:] == ["assistant: You owe 5.", "user: Really?"]

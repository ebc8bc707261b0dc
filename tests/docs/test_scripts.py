"""The page on scripted models: its script can be played, and its table has every member of a turn."""

import re
from pathlib import Path

from ronda import Agent, invoke_agent
from ronda.providers.script import Line

PAGE = (Path(__file__).parents[2] / "docs" / "scripts.md").read_text()


def test_the_script_can_be_played(tmp_path: Path) -> None:
    [script] = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    file = tmp_path / "script.json"
    file.write_text(script)
    asked = []

    def look_up(city: str) -> str:
        asked.append(city)
        return "22 °C"

    assert invoke_agent(Agent(f"script:{file}", tools=[look_up]), "How warm is it in Paris?") == "It is 22 degrees."
    assert asked == ["Paris"]


def test_the_table_has_every_member_of_a_turn() -> None:
    rows = "\n".join(re.findall(r"^\| .*$", PAGE, re.MULTILINE))
    assert [name for name in Line.__struct_fields__ if f"`{name}`" not in rows] == []

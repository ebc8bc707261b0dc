"""`ronda init [FOLDER]`: a project to begin with: an agent as a file, a tool, a test, an evaluation, settings and a README.

All of it runs without a network: the test and the evaluation play a script, and `ronda run` asks the small model of this machine.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from ronda._extras import has_extra
from ronda.errors import BadConfig

_AGENT: Final = """\
---
name: shop
description: Answers questions about the prices of a shop
model:
  id: ${env:RONDA_MODEL:local:smollm2}   # export RONDA_MODEL=ollama:qwen3, or write another model here
  options:
    temperature: 0
inputs:
  question:
    kind: string
    required: true
tools:
  - name: get_price
    kind: function
    description: The price of an item in the shop, in euros
    parameters:
      - name: item
        kind: string
        description: What the customer asks for, such as pear
        required: true
---
system:
You work in a shop. Look prices up with get_price; do not guess them. Answer in one sentence.

user:
{{question}}
"""

_TOOLS: Final = '''\
"""The tools of the agent: plain functions. The model reads their names, types and docstrings."""

from ronda import tool

PRICES = {"apple": 0.50, "pear": 0.40, "plum": 0.25}


@tool(repeatable=True)
def get_price(item: str) -> str:
    """The price of an item in the shop, in euros.

    Args:
        item: What the customer asks for, such as pear.
    """
    name = item.lower().strip().removesuffix("s")
    if name not in PRICES:
        return f"There is no {item} in the shop. There is: {', '.join(PRICES)}."
    return f"{item}: {PRICES[name]:.2f} euros"
'''

_SCRIPT: Final = """\
[
  {"calls": [{"name": "get_price", "arguments": {"item": "pear"}}]},
  "A pear costs 0.40 euros."
]
"""

_TEST: Final = '''\
"""The agent without a model: script.json says what the model would. Run it with `pytest`."""

from pathlib import Path

import pytest
from ronda import run_agent
from tools import get_price

AGENT = Path(__file__).with_name("agent.prompty")


def test_the_agent_looks_the_price_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RONDA_MODEL", "script:script.json")

    result = run_agent(AGENT, {"question": "What does a pear cost?"}, tools=[get_price])

    assert result.output == "A pear costs 0.40 euros."
    assert [(call.name, call.content) for call in result.tool_calls] == [("get_price", "pear: 0.40 euros")]
'''

_EVAL: Final = """\
# ronda eval agent.eval.yaml                     plays the scripts below
# ronda eval agent.eval.yaml -m ollama:qwen3     asks a model
agent: agent.prompty
tools: [tools.py]
models: [script]
cases:
  - name: pear
    inputs: {question: What does a pear cost?}
    script:
      - calls: [{name: get_price, arguments: {item: pear}}]
      - A pear costs 0.40 euros.
    expect:
      contains: "0.40"
      tools: {used: get_price, count: 1}
  - name: not in the shop
    inputs: {question: What does a car cost?}
    script:
      - calls: [{name: get_price, arguments: {item: car}}]
      - We have no cars, but apples, pears and plums.
    expect:
      not-contains: euros
      tools: {used: get_price}
"""

_SETTINGS: Final = """\
# ronda serve --config ronda.toml
model = "local:smollm2"
tools = ["tools.py"]
agents = "."    # each .prompty file here is a model of the server: ask for "shop"
"""

_README: Final = """\
# A shop agent

| file | is |
|---|---|
| `agent.prompty` | the agent: its model, its inputs, its tools, its prompt |
| `tools.py` | the tools: Python functions |
| `test_agent.py`, `script.json` | a test that needs no model: the script says what the model would |
| `agent.eval.yaml` | questions with checks, to compare models and prompts |
| `ronda.toml` | settings of the server |

## Run it

    ronda run agent.prompty --tools tools.py -i question="What does a pear cost?"
    ronda chat agent.prompty --tools tools.py

This asks `local:smollm2`, a very small model (`ronda models pull` fetches it), which is often wrong. Choose a better one:

    export RONDA_MODEL=ollama:qwen3

## Test it

    pip install pytest
    pytest
    ronda eval agent.eval.yaml
    ronda validate agent.prompty

## Serve it

    ronda serve --config ronda.toml

Any OpenAI client can then ask it at http://127.0.0.1:1234/v1, with `model="shop"`.
"""

FILES: Final = {
    "agent.prompty": _AGENT,
    "tools.py": _TOOLS,
    "script.json": _SCRIPT,
    "test_agent.py": _TEST,
    "agent.eval.yaml": _EVAL,
    "ronda.toml": _SETTINGS,
    "README.md": _README,
}


def has_model() -> bool:
    """Is there one for the agent to ask: that of the variable, or the small one of this machine?"""
    return bool(os.environ.get("RONDA_MODEL")) or has_extra("local")


def init(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder)
    there = [name for name in FILES if os.path.lexists(folder / name)]
    if there:
        raise BadConfig(f"{folder} has {', '.join(there)} already, and nothing is overwritten; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            with (folder / name).open("x", encoding="utf-8") as file:  # made since then: it is not overwritten either
                file.write(text)
    except OSError as error:
        raise BadConfig(f"cannot write to {folder}: {error.strerror}") from error
    # In a bare installation nothing answers yet; the script does, and shows what the project does.
    offline = "" if has_model() else " --model script:script.json"
    go_there = "" if arguments.folder == "." else f"    cd {folder}\n"
    print(
        f"Written to {folder}: {', '.join(FILES)}\n\nNext:\n{go_there}"
        '    ronda run agent.prompty --tools tools.py -i question="What does a pear cost?"'
        f"{offline}\n    ronda eval agent.eval.yaml\n    pip install pytest && pytest\n    ronda serve --config ronda.toml"
    )
    return 0

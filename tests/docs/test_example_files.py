"""The examples that are files of their own: the notebook, cell by cell, and the FastAPI app."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from examples.fastapi_app import app
from fastapi.testclient import TestClient
from IPython.core.interactiveshell import InteractiveShell
from openai import OpenAI
from traitlets.config import Config

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
CELLS: list[dict[str, Any]] = json.loads((EXAMPLES / "notebook.ipynb").read_text())["cells"]


async def test_every_cell_of_the_notebook_runs_inside_a_running_loop(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    without_history = Config({"HistoryManager": {"enabled": False}})
    shell = InteractiveShell(config=without_history, ipython_dir=str(tmp_path))  # nothing is written to a home folder
    for cell in CELLS:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            done = await shell.run_cell_async(source, transformed_cell=shell.transform_cell(source))
            done.raise_error()

    assert capsys.readouterr().out.splitlines() == [
        "A pear costs 40 cents.",
        "get_price {'fruit': 'pear'} → 0.4",
        "the tool answered 0.3",
        "An apple costs 30 cents.pear 0.4",
    ]


def test_the_notebook_is_committed_without_outputs() -> None:
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in CELLS)


def test_the_fastapi_app_answers_its_own_addresses_and_those_of_ronda() -> None:
    with TestClient(app, base_url="http://127.0.0.1:8000", client=("127.0.0.1", 50000)) as client:
        assert client.get("/stock/pears").json() == {"pears": 12}
        assert client.get("/ask", params={"question": "How many pears are there?"}).text == "There are 12 pears."

        openai = OpenAI(base_url="http://127.0.0.1:8000/agents/v1", api_key="any", http_client=client)
        answer = openai.chat.completions.create(
            model="default", messages=[{"role": "user", "content": "How many pears are there?"}]
        )

    assert answer.choices[0].message.content == "There are 12 pears."

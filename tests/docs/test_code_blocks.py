"""Every Python block in the README and the docs is run, against our own server with a scripted model behind it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.timeouts import TIMEOUT

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, code in enumerate(BLOCK.findall(page.read_text())):
            found.append((f"{page.relative_to(ROOT)}-{number}", code))
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("docs")
    script = folder / "script.json"
    script.write_text(json.dumps(["It is sunny in Lisbon, 24 degrees."]))
    command = [
        sys.executable,
        "-m",
        "ronda",
        "serve",
        "--model",
        f"script:{script}",
        "--port",
        "0",
        "--data-dir",
        str(folder),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        address = re.search(r"http://\S+", line)
        assert address is not None, line
        yield address.group()
        process.terminate()
        process.stderr.read()


@pytest.mark.parametrize("code", [code for _, code in blocks()], ids=[name for name, _ in blocks()])
def test_the_block_runs(code: str, server: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # a block may write files: it has a folder of its own
    # The served model has its own name: the docs' code asks for others, which a script does not mind but a server does.
    code = re.sub(r"openai-chat:gpt-[\w.-]+", "openai-chat:default", code).replace("http://127.0.0.1:1234", server)
    environ = {**os.environ, "OPENAI_BASE_URL": f"{server}/v1", "OPENAI_API_KEY": "any"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environ,
        cwd=tmp_path,
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")

"""The newcomer's path, once from its beginning to its end: an empty folder and an empty virtual environment → the wheel installed
→ `ronda init` → its test → its evaluation → a server → the `openai` SDK → the page in a browser → the end of the server.

Every command is one that a person types. pip brings the packages, in the versions of the lock file. Only where pip has no way to
packages at all is the test skipped; once it has one, an install that fails is a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import startup
from tests.devtools import find_browser, opened
from tests.timeouts import TIMEOUT
from tests.web.test_web_page import BUILT

ROOT = Path(__file__).parent.parent
MOST_SECONDS = 420  # of one command; the install takes 15 s on two free cores and much longer on busy ones

# What the page shows once its program has run and has asked the server: none of it is in the file that the server sends.
SHOWN_BY_THE_PAGE = ("New session · Ronda", "Search sessions", 'aria-label="Views"')

CLIENT = """
import sys
from openai import OpenAI

client = OpenAI(base_url=sys.argv[1] + "/v1", api_key="any", max_retries=0)
question = [{"role": "user", "content": "What does a pear cost?"}]
print(client.chat.completions.create(model="shop", messages=question).choices[0].message.content)
for chunk in client.chat.completions.create(model="shop", messages=question, stream=True):
    print(chunk.choices[0].delta.content or "" if chunk.choices else "", end="")
print()
"""


@pytest.mark.timeout(1200)  # it installs some 40 packages
def test_from_an_empty_folder_to_a_page_in_a_browser(tmp_path: Path) -> None:
    newcomer = Newcomer(tmp_path)
    newcomer.check_the_way_to_packages()
    wheel = newcomer.build_wheel()
    newcomer.run(sys.executable, "-m", "venv", "venv")
    assert "ronda" not in newcomer.run("venv/bin/python", "-m", "pip", "list").stdout  # it is empty
    newcomer.pip("install", "--constraint", newcomer.write_constraints(), f"{wheel}[server,cli]", "openai", "pytest")

    alone = newcomer.run("venv/bin/ronda", exit_code=2)
    assert "ronda init my-agent" in alone.stderr
    newcomer.run("venv/bin/ronda", "init", "shop")
    newcomer.folder = newcomer.folder / "shop"

    assert "1 passed" in newcomer.run("../venv/bin/pytest").stdout
    assert newcomer.run("../venv/bin/ronda", "validate", "agent.prompty").stderr == ""
    assert "2 passed of 2" in newcomer.run("../venv/bin/ronda", "eval", "agent.eval.yaml").stdout
    asked = newcomer.run(
        "../venv/bin/ronda", "run", "agent.prompty", "--tools", "tools.py", "-i", "question=What does a pear cost?"
    )
    assert asked.stdout == "A pear costs 0.40 euros.\n"

    with newcomer.server("../venv/bin/ronda", "serve", "--config", "ronda.toml", "--port", "0") as (process, url):
        (newcomer.folder / "client.py").write_text(CLIENT)
        answers = newcomer.run("../venv/bin/python", "client.py", url).stdout
        assert answers == "A pear costs 0.40 euros.\n" * 2
        newcomer.open_page(f"{url}/ui")
        process.send_signal(signal.SIGINT)  # as Ctrl-C
        _, said = process.communicate(timeout=TIMEOUT)
        assert (process.returncode, "Traceback" in said) == (130, False), said


class Newcomer:
    """A person in a folder. The model is a script: what is tried here is the way, not a model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self._home = folder / "home"
        self._home.mkdir()

    @property
    def environment(self) -> dict[str, str]:
        """Of this machine: where programs are, and pip's settings. Nothing of the Python that runs the tests."""
        named = ("PATH", "LANG", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in named or name.startswith("PIP_") or name.lower().endswith("_proxy")
        }
        return {**kept, "HOME": str(self._home), "RONDA_MODEL": "script:script.json", "NO_COLOR": "1"}

    def run(self, *command: str, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            check=False,
        )
        assert done.returncode == exit_code, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done

    def pip(self, *words: str) -> None:
        self.run("venv/bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet", *words)

    def check_the_way_to_packages(self) -> None:
        """One small package is asked for, without being installed."""
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "0", "--timeout", "15"]
        try:
            done = subprocess.run(
                [*pip, "download", "--quiet", "--no-deps", "--dest", str(self._home / "asked"), "idna"],
                env=self.environment, capture_output=True, text=True, timeout=TIMEOUT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            pytest.skip("pip has no way to packages here: it got no answer")
        if done.returncode:
            pytest.skip(f"pip has no way to packages here: {done.stderr.strip().splitlines()[-1]}")

    def build_wheel(self) -> Path:
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(self._home)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=MOST_SECONDS)
        [wheel] = self._home.glob("ronda-*.whl")
        if (BUILT / "index.html").is_file():
            with zipfile.ZipFile(wheel) as archive:
                assert "ronda/server/doors/page/build/index.html" in archive.namelist()
        return wheel

    def write_constraints(self) -> str:
        """The versions of the lock file, without its hashes: pip would ask for one of our wheel, too."""
        pinned = re.findall(
            r"^[\w.\[\]-]+==\S+(?: *;.*?)?(?= *\\?$)", (ROOT / "requirements-dev.lock").read_text(), re.MULTILINE
        )
        path = self._home / "constraints.txt"
        path.write_text("".join(re.sub(r"\[.*?\]", "", line, count=1) + "\n" for line in pinned))  # pip: no extras here
        return str(path)

    @contextmanager
    def server(self, *command: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
        process = subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        try:
            lines = startup(process)
            found = re.search(r"http://[\d.]+:\d+", "".join(lines))
            assert found, lines
            yield process, found[0]
        finally:
            process.kill()
            process.communicate(timeout=TIMEOUT)

    def open_page(self, url: str) -> None:
        """Where this machine has no browser, or the page was not built, the rest of the path counts anyway."""
        browser = find_browser()
        if browser is None or not (BUILT / "index.html").is_file():
            return
        with opened(browser, url, self._home / "browser", self.environment) as evaluate:
            _wait_for_words(evaluate)


def _wait_for_words(evaluate: Callable[[str], Any]) -> None:
    """Asked for again and again: the page follows a stream that never ends, so the browser is never done with it."""
    ends = time.monotonic() + TIMEOUT
    while True:
        page = evaluate("document.documentElement.outerHTML")
        missing = [words for words in SHOWN_BY_THE_PAGE if words not in page]
        if not missing:
            return
        assert time.monotonic() < ends, (missing, page)
        time.sleep(0.1)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(("words", "model"), [((), "local:smollm2"), (("MODEL=ollama:qwen3",), "ollama:qwen3")])
def test_make_serves_the_model_that_it_is_told_and_not_the_one_of_the_shell(words: tuple[str, ...], model: str) -> None:
    environment = {**os.environ, "MODEL": "openai-chat:gpt-5.5", "MAKEFLAGS": ""}
    command = ["make", "--dry-run", "serve", *words]

    said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout

    assert f"ronda serve --model {model} " in said
    assert "gpt-5.5" not in said

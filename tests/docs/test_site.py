"""The site: it builds without a warning, and its search finds every door, flag, event, setting and exception by name."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from tests.devtools import find_browser, opened
from tests.timeouts import TIMEOUT

from ronda import errors
from ronda.cli.commands import COMMANDS
from ronda.core.events import Fact
from ronda.journal.memory import MemoryJournal
from ronda.server.app import Server, create_app
from ronda.server.config import ServerConfig
from ronda.server.features.table import all_rows
from ronda.testing import ScriptedModel

ROOT = Path(__file__).parents[2]
BUILDER = Path(sys.prefix) / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the site is built into."""
    if not (BUILDER / "mkdocs").is_dir():
        pytest.skip("the builder of the site is not installed: make test-all and make docs install it")
    site = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(BUILDER), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return site


@pytest.fixture(scope="module")
def index(site: Path) -> str:
    """All that the search looks through, as one text in small letters."""
    entries = json.loads((site / "search/search_index.json").read_text())["docs"]
    return re.sub(r"<[^>]+>", " ", " ".join(f"{one['title']} {one['text']}" for one in entries)).lower()


def addresses() -> list[str]:
    server = Server(ServerConfig(model="script:test"), MemoryJournal(), provider=ScriptedModel())
    return [row.path for row in create_app(server).routes.rows]


def settings() -> list[str]:
    return [row.name for row in all_rows()]


def flags() -> list[str]:
    return [flag for row in all_rows() for flag in re.findall(r"--[\w-]+", row.setting.flag)]


def commands() -> list[str]:
    return [f"ronda {one.name}" for one in COMMANDS]


def events() -> list[str]:
    return [str(event.__struct_config__.tag) for event in get_args(Fact)]


def exceptions() -> list[str]:
    found = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, errors.RondaError)]
    return [one.__name__ for one in found]


NAMES = [addresses, settings, flags, commands, events, exceptions]


@pytest.mark.parametrize("names", NAMES)
def test_every_name_stands_in_what_the_search_looks_through(names: Callable[[], list[str]], index: str) -> None:
    assert [name for name in names() if name.lower() not in index] == []


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    loaded = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=["']?(https?:[^"'\s>]+)""")
    found = {(page.name, url) for page in site.rglob("*.html") for url in loaded.findall(page.read_text())}
    assert found == set()


# What a page of the site does with what is typed into its search: names whose text is in none of the first pages that it finds.
SEARCH = """
(async (names) => {
  const config = JSON.parse(document.getElementById("__config").textContent);
  const worker = new Worker(new URL(config.search, location));
  const ask = (message) => new Promise((done) => {
    worker.onmessage = (event) => done(event.data);
    worker.postMessage(message);
  });
  const index = await __index;
  await ask({ type: 0, data: { ...index, options: {} } });
  const texts = new Map(index.docs.map((one) => [one.location, `${one.title} ${one.text}`.toLowerCase()]));
  const missing = [];
  for (const name of names) {
    const { data } = await ask({ type: 2, data: name });
    const found = data.items.slice(0, 20).flat();
    if (!found.some((one) => texts.get(one.location).includes(name.toLowerCase()))) missing.push(name);
  }
  return missing;
})(%s)
"""


@pytest.fixture(scope="module")
def browser() -> str:
    browser = find_browser()
    if browser is None:
        pytest.skip("chromium-headless-shell is not installed: make test-all installs it")
    return browser


@pytest.mark.parametrize("names", NAMES)
def test_a_reader_who_types_a_name_into_the_search_is_shown_where_it_stands(
    names: Callable[[], list[str]], site: Path, browser: str, tmp_path: Path
) -> None:
    with opened(browser, (site / "models/local.html").as_uri(), tmp_path / "browser") as evaluate:
        missing = evaluate(SEARCH % json.dumps(names()))
        assert missing == [], missing


def test_the_search_works_for_a_reader_who_opens_the_folder_without_a_server(site: Path, browser: str) -> None:
    address = (site / "models/local.html").as_uri() + "?q=--tls-cert"
    done = subprocess.run(
        [browser, "--no-sandbox", "--virtual-time-budget=20000", "--dump-dom", address],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert re.search(r"\d+ matching documents", done.stdout) is not None

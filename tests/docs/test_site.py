"""The site: it builds without a warning, and its search finds every door, flag, event, setting and exception by name."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
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


def test_the_search_finds_every_address(index: str) -> None:
    server = Server(ServerConfig(model="script:test"), MemoryJournal(), provider=ScriptedModel())
    assert [row.path for row in create_app(server).routes.rows if row.path.lower() not in index] == []


def test_the_search_finds_every_setting_and_flag(index: str) -> None:
    rows = all_rows()
    flags = [flag for row in rows for flag in re.findall(r"--[\w-]+", row.setting.flag)]
    assert [name for name in (*[row.name for row in rows], *flags) if name.lower() not in index] == []


def test_the_search_finds_every_command(index: str) -> None:
    assert [one.name for one in COMMANDS if f"ronda {one.name}" not in index] == []


def test_the_search_finds_every_event(index: str) -> None:
    names = [event.__struct_config__.tag for event in get_args(Fact)]
    assert [name for name in names if str(name) not in index] == []


def test_the_search_finds_every_exception(index: str) -> None:
    found = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, errors.RondaError)]
    assert [one.__name__ for one in found if one.__name__.lower() not in index] == []


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    loaded = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=["']?(https?:[^"'\s>]+)""")
    found = {(page.name, url) for page in site.rglob("*.html") for url in loaded.findall(page.read_text())}
    assert found == set()


def test_the_search_works_for_a_reader_who_opens_the_folder_without_a_server(site: Path) -> None:
    browser = shutil.which("chromium-headless-shell")
    if browser is None:
        pytest.skip("chromium-headless-shell is not installed: make test-all installs it")
    address = (site / "models/local.html").as_uri() + "?q=budget"
    done = subprocess.run(
        [browser, "--no-sandbox", "--virtual-time-budget=20000", "--dump-dom", address],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert re.search(r"\d+ matching documents", done.stdout) is not None

"""Pages that are printed from the code say what the code says; every link of the docs leads somewhere."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from ronda.agent import RunOptions

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOR_CONTRIBUTORS = [ROOT / "CONTRIBUTING.md", ROOT / "tests" / "README.md"]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *FOR_CONTRIBUTORS, *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"`([\w.-]+/[\w./-]*)`")  # a path in a page; NAME in it stands for what a contributor adds


@pytest.mark.parametrize("name", ["commands", "reference", "settings"])
def test_a_printed_page_is_up_to_date(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))

    page = importlib.import_module(f"make_{name}").page()

    assert page == (DOCS / f"{name}.md").read_text(), "run `make docs`"


def test_the_printed_clients_are_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))

    clients = importlib.import_module("make_clients").clients()

    assert [file.name for file, text in clients.items() if file.read_text() != text] == [], "run `make docs`"


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as both GitHub and the site make them."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text()):
        place, _, anchor = link.partition("#")
        if place.startswith(("http:", "https:", "mailto:")):
            continue
        target = (page.parent / place).resolve() if place else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in slugs(target)):
            broken.append(link)

    assert broken == []


def test_every_page_is_in_the_sites_navigation() -> None:
    listed = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))

    assert listed == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


@pytest.mark.parametrize(
    "page", [*FOR_CONTRIBUTORS, *sorted((DOCS / "design").glob("*.md"))], ids=lambda page: page.stem
)
def test_every_file_that_a_page_for_contributors_names_is_there(page: Path) -> None:
    roots = (ROOT, ROOT / "src" / "ronda", ROOT / "tests")
    named = [path for path in NAMED.findall(page.read_text()) if "NAME" not in path]

    assert [path for path in named if not any((root / path).exists() for root in roots)] == []


def test_the_page_on_the_library_has_every_option_of_a_run() -> None:
    text = (ROOT / "docs/library.md").read_text()
    table = text[text.index("## Options of a run") : text.index("## Speaking into a run")]
    assert sorted(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE)))) == sorted(
        [*RunOptions.__annotations__, "tools"]
    )

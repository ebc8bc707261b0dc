"""The page on compatibility is what the readers' tables say."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_on_compatibility_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("make_compatibility", DOCS / "make_compatibility.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    assert module.page() == (DOCS / "compatibility.md").read_text(), "run `make docs`"

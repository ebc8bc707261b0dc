"""Imports point one way:

cli → server → agent → host | prompty → tools → providers | files | sandbox | trace
 → journal → store → drive → wire, schema → core → errors
"""

import ast
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "ronda"

# What each layer may import, beside itself and everything its own layers may.
BELOW = {
    "errors": set[str](),
    "core": {"errors"},
    "schema": {"core"},
    "wire": {"schema"},
    "drive": {"wire"},
    "store": {"drive"},
    "journal": {"store"},
    "providers": {"journal"},
    "trace": {"journal"},
    "sandbox": {"errors"},
    "files": {"store", "sandbox"},
    "host": {"trace"},
    "tools": {"providers", "files", "trace"},
    "prompty": {"tools"},
    "agent": {"prompty", "host"},
    "testing": {"agent"},
    "server": {"agent"},
    "runner": {"server"},
    "mistralrs": {"runner"},
    "cli": {"server"},
}


def allowed(layer: str) -> set[str]:
    return {layer}.union(*[allowed(below) for below in BELOW[layer]], set())


def imports() -> list[tuple[str, str, str]]:
    """(file, its layer, a layer it imports) for every import of ours, wherever in the file it stands."""
    found = []
    for path in SOURCE.rglob("*.py"):
        layer = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if layer.startswith("_"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            ours = [name for name in names if name.startswith("ronda.") and not name.startswith("ronda._")]
            targets = [name.split(".")[1] for name in ours]
            found += [(str(path.relative_to(SOURCE)), layer, target) for target in targets]
    return found


def test_every_import_points_down() -> None:
    assert [(file, target) for file, layer, target in imports() if target not in allowed(layer)] == []


def test_every_module_belongs_to_a_layer() -> None:
    top = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if not path.name.startswith(("_", "."))}
    assert top - BELOW.keys() - {"py.typed"} == set()


def test_the_core_imports_nothing_but_msgspec() -> None:
    outside = set()
    for path in (SOURCE / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                outside |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                outside.add(node.module.split(".")[0])
    assert outside <= {"__future__", "collections", "typing", "msgspec", "ronda", "re"}


def test_the_core_has_no_await_and_no_clock() -> None:
    for path in (SOURCE / "core").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        assert not [node for node in nodes if isinstance(node, ast.Await | ast.AsyncFunctionDef)], path


def test_no_two_test_files_have_the_same_name() -> None:
    """pytest imports each by its name alone: of two in one process, the second cannot be collected."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []

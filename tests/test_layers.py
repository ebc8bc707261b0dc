"""Imports point one way:

cli → server | evals → agent → host | prompty → tools → providers | files | sandbox | trace
 → journal → store → drive → wire, schema → core → errors

Islands (`local`, `mistralrs`, the app stream) import what is below them, and nothing imports an island.
`tests/test_islands.py` moves each away.
"""

import ast
import re
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
    "evals": {"agent"},
    "server": {"agent"},
    "cli": {"server", "evals"},
    "client": set[str](),  # a program of its own, which asks a server
    "local": {"providers", "cli"},
    "mistralrs": {"server"},
    "runner": {"mistralrs"},  # one file: the name under which programs import the island's Runner
}

# What an island is made of. Tables name its modules as text (`ronda._islands`); no other folder imports it.
ISLANDS = {"local": {"local"}, "mistralrs": {"mistralrs", "runner"}}
# Of folders inside layers, each of which imports what its layer may.
APP_STREAM = ("server/features/app_stream", "tools/page", "wire/app_stream")


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
                if node.module == "ronda":  # `from ronda import local`
                    names = [f"ronda.{alias.name}" for alias in node.names if alias.name in BELOW]
            ours = [name for name in names if name.startswith("ronda.") and not name.startswith("ronda._")]
            targets = [name.split(".")[1] for name in ours]
            found += [(str(path.relative_to(SOURCE)), layer, target) for target in targets]
    return found


def test_every_import_points_down() -> None:
    assert [(file, target) for file, layer, target in imports() if target not in allowed(layer)] == []


def test_no_folder_imports_an_island() -> None:
    homes = {home for island in ISLANDS.values() for home in island}
    crossing = [
        (file, target)
        for file, layer, target in imports()
        if target in homes and not any({layer, target} <= island for island in ISLANDS.values())
    ]
    assert crossing == []


def test_no_folder_imports_the_app_stream() -> None:
    modules = tuple([f"ronda.{folder.replace('/', '.')}" for folder in APP_STREAM])
    crossing = []
    for path in SOURCE.rglob("*.py"):
        file = path.relative_to(SOURCE).as_posix()
        if file.startswith(tuple([f"{folder}/" for folder in APP_STREAM])):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *[f"{node.module}.{alias.name}" for alias in node.names]]
            crossing += [(file, name) for name in names if f"{name}.".startswith(tuple([f"{one}." for one in modules]))]
    assert crossing == []


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


# ---- inside server/ --------------------------------------------------------------------------------------------------

# What puts a server together, and the table of settings that everything may read.
ROOT_MODULES = {"app", "request_app", "reload", "mounted_app", "storage", "check_config", "__init__"}


def server_imports() -> list[tuple[str, str, str]]:
    """(file, its folder, a folder that it imports) inside server/, types included. A module beside the folders is one, too."""
    found = []
    for path in (SOURCE / "server").rglob("*.py"):
        parts = path.relative_to(SOURCE / "server").parts
        folder = parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
                if node.module == "ronda.server":
                    names = [f"ronda.server.{alias.name}" for alias in node.names]
            targets = {name.split(".")[2] for name in names if name.startswith("ronda.server.")}
            found += [("/".join(parts), folder, target) for target in targets if target != folder]
    return found


def test_no_folder_of_the_server_imports_one_that_imports_it() -> None:
    """Directly, or by way of others: there is an order to read them in."""
    below: dict[str, set[str]] = {}
    for _, folder, target in server_imports():
        if folder not in ROOT_MODULES and target not in ROOT_MODULES:
            below.setdefault(folder, set()).add(target)

    def reached(folder: str, seen: frozenset[str] = frozenset()) -> set[str]:
        further = below.get(folder, set()) - seen
        return further.union(*[reached(one, seen | further) for one in further])

    assert [folder for folder in below if folder in reached(folder)] == []


def test_no_module_but_the_root_knows_all_of_the_server() -> None:
    """Each is given what it uses."""
    assert {
        file for file, folder, target in server_imports() if target == "app" and folder not in ROOT_MODULES
    } == set()


def test_the_root_knows_no_feature_by_name() -> None:
    """It knows their contract, their table, and the list of them."""
    known = {f"ronda.server.features.{name}" for name in ("contract", "table", "running")}
    for name in ROOT_MODULES:
        path = SOURCE / "server" / f"{name}.py"
        text = path.read_text()
        tree = ast.parse(text)
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
        assert {one for one in imported if one.startswith("ronda.server.features")} <= known, name
        assert "sys.modules" not in text, name


# Who has the whole server in their hands: what makes it, runs it, and changes its settings.
HOLDING = {"app.py", "mounted_app.py", "storage.py", "reload.py"}


def test_nothing_but_the_root_takes_all_of_the_server_under_whatever_name() -> None:
    """Neither as `Server`, nor as a Protocol, a Struct or a tuple with most of its parts. `request_app` says what it uses."""
    parts = {
        node.attr
        for node in ast.walk(ast.parse((SOURCE / "server" / "app.py").read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    assert len(parts) > 15  # else nothing is looked for
    holding, like = set(), set()
    for path in (SOURCE / "server").rglob("*.py"):
        file = path.relative_to(SOURCE / "server").as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                kinds = [ast.unparse(one.annotation) for one in arguments if one.annotation is not None]
                if any(re.search(r"\bServer\b", kind) for kind in kinds):
                    holding.add(file)
            elif isinstance(node, ast.ClassDef):
                fields = {
                    one.target.id
                    for one in node.body
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
                }
                if len(fields & parts) > 8:
                    like.add(f"{file}: {node.name}")
    assert holding <= HOLDING
    assert like <= {"features/contract.py: Services", "request_app.py: ServerParts"}


def test_no_folder_of_the_server_imports_its_root_when_it_runs() -> None:
    """But for types: what is put together in `app` does not ask for it."""
    running = []
    for path in (SOURCE / "server").rglob("*.py"):
        if path.parent == SOURCE / "server":
            continue
        tree = ast.parse(path.read_text())
        types = [
            node
            for branch in ast.walk(tree)
            if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
            for node in ast.walk(branch)
        ]
        running += [
            (path.name, node.module)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node not in types
            if node.module in [f"ronda.server.{name}" for name in ROOT_MODULES]
        ]
    assert running == []


def test_no_feature_imports_another() -> None:
    """But for its settings, which are values. What a feature needs of another is described in services/, and one provides it."""
    features = SOURCE / "server" / "features"
    shared = {path.stem for path in features.glob("*.py")}
    found = []
    for path in features.glob("*/**/*.py"):
        own = path.relative_to(features).parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            for name in names:
                folder, _, rest = name.removeprefix("ronda.server.features.").partition(".")
                is_other = name.startswith("ronda.server.features.") and folder not in shared | {own}
                if is_other and rest != "settings":
                    found.append((path.relative_to(features).as_posix(), name))
    assert found == []


def test_no_setting_of_the_core_is_read_by_one_feature_alone() -> None:
    """It would belong into the settings of that feature (`features/NAME/settings.py`)."""
    text = (SOURCE / "server" / "config.py").read_text()
    [config] = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == "ServerConfig"]
    fields = {
        node.target.id for node in config.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    read_in: dict[str, set[str]] = {name: set() for name in fields}
    for path in [*(SOURCE / "server").rglob("*.py"), *(SOURCE / "cli").rglob("*.py")]:
        parts = path.relative_to(SOURCE).parts
        place = "/".join(parts[:3]) if "features" in parts else "core"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in fields and isinstance(node.ctx, ast.Load):
                of = ast.unparse(node.value)
                if "config" in of or "settings" in of or (path.name == "config.py" and of == "self"):
                    read_in[node.attr].add(place)

    assert len(fields) > 50
    assert {name: places for name, places in read_in.items() if len(places) == 1 and places != {"core"}} == {}


def test_services_are_seen_when_a_feature_is_made_and_nowhere_else() -> None:
    """Else `Server` would only have another name."""
    taking = []
    for path in (SOURCE / "server").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                kinds = [ast.unparse(one.annotation) for one in arguments if one.annotation is not None]
                if any("Services" in kind for kind in kinds):
                    taking.append((path.relative_to(SOURCE / "server").as_posix(), node.name))

    others = [(file, name) for file, name in taking if name != "__init__"]
    assert others == []
    assert [file for file, _ in taking if not file.startswith("features/")] == []

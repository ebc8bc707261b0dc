"""Small mistakes put into the source, one at a time, and which tests notice: `make mutants`.

    python -m tests.mutants lines [TESTS…]    run these tests (all, if none are named) and note which lines each of them runs
    python -m tests.mutants try               try the chosen mutants, as far as they were not tried yet
    python -m tests.mutants lists             print which mutants the whole suite finds, and which of those `make test` finds

Mutants are chosen by a seed, evenly over all lines of `src` that can have one: the same seed gives the same list while the source
is the same. A mutant is tried with the tests that run its line: those of `make test` first, the most particular first.
Every step can be stopped and resumed: what is known of each test file and each mutant is kept in `build/mutants`. A change of a
source file makes its mutants new ones.

What is not seen: lines that a test runs in a process of its own, for example a server that it started. A mutant of such a line is
listed as one that no test runs.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec
import pytest
from msgspec import Struct
from tests.speeds import function_of, slow_tests

if TYPE_CHECKING:
    from coverage import Coverage

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = "src/ronda"
KEPT: Final = "build/mutants"
# Printed from the OpenAPI document: whether it is up to date has a test, and a mutant of it is no mistake that a person makes.
GENERATED: Final = ("client/operations.py", "client/types.py")

Verdict: TypeAlias = Literal["quick", "slow", "survived", "unfinished", "not run"]


class Mutant(Struct, frozen=True):
    path: str  # below the source folder
    line: int
    start: int  # of what is replaced, in bytes of the file
    end: int
    instead: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line} {self.instead!r:.60}"


class Tried(Struct, frozen=True):
    key: str
    name: str
    verdict: Verdict
    by: str = ""  # the test that noticed


# ---- which mistakes there are -----------------------------------------------------------------------------------------

_COMPARED: Final[dict[type[ast.cmpop], ast.cmpop]] = {
    ast.Lt: ast.LtE(), ast.LtE: ast.Lt(), ast.Gt: ast.GtE(), ast.GtE: ast.Gt(), ast.Eq: ast.NotEq(), ast.NotEq: ast.Eq(),
    ast.Is: ast.IsNot(), ast.IsNot: ast.Is(), ast.In: ast.NotIn(), ast.NotIn: ast.In(),
}  # fmt: skip
_COMPUTED: Final[dict[type[ast.operator], ast.operator]] = {
    ast.Add: ast.Sub(), ast.Sub: ast.Add(), ast.Mult: ast.Add(), ast.FloorDiv: ast.Mult()
}  # fmt: skip


def mutants_of(path: str, text: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, instead in _mistakes(ast.parse(text)):
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        found.append(Mutant(path, node.lineno, start, end, instead))
    return sorted(found, key=lambda one: (one.start, one.end, one.instead))


def apply(mutant: Mutant, text: str) -> str:
    body = text.encode()
    return (body[: mutant.start] + mutant.instead.encode() + body[mutant.end :]).decode()


def _mistakes(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    for node in _running(tree):
        match node:
            case ast.Compare(ops=[operator]) if (other := _COMPARED.get(type(operator))) is not None:
                yield node, f"({ast.unparse(ast.Compare(node.left, [other], node.comparators))})"
            case ast.BoolOp(values=values):
                word = " or " if isinstance(node.op, ast.And) else " and "
                yield node, f"({word.join(f'({ast.unparse(one)})' for one in values)})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield node, f"bool({ast.unparse(operand)})"
            case ast.BinOp(op=op) if (sign := _COMPUTED.get(type(op))) is not None and not _is_text(node):
                yield node, f"({ast.unparse(ast.BinOp(node.left, sign, node.right))})"
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if isinstance(
                test, ast.Name | ast.Attribute | ast.Call
            ):
                yield test, f"(not {ast.unparse(test)})"
            case ast.Constant(value=bool(value)):
                yield node, str(not value)
            case ast.Constant(value=int(value)):
                yield node, str(value + 1)
            case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
                yield value, "None"
            case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
                yield node, "pass"


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes of code that runs: no types, no text, nothing that only a type checker reads, no words of errors."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_params", "decorator_list") or isinstance(
                node, ast.Raise | ast.JoinedStr
            ):
                continue
            children = value if isinstance(value, list) else [value]
            stack += [one for one in children if isinstance(one, ast.AST) and not _is_for_types(one)]


def _is_for_types(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Import() | ast.ImportFrom():
            return True
        case (
            ast.Expr(value=ast.Call(func=ast.Name(id="assert_never" | "cast")))
            | ast.Call(func=ast.Name(id="TypeVar" | "cast"))
        ):
            return True
        case ast.Subscript(value=ast.Name(id="Annotated" | "Literal")):
            return True
    return False


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(one, ast.Constant | ast.JoinedStr) and not _is_number(one) for one in (node.left, node.right))


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def choose(source: Path, seed: int, count: int) -> list[Mutant]:
    """So many mutants, one of a line at most. A line's turn does not depend on how many mutants other lines can have."""
    lines: dict[tuple[str, int], list[Mutant]] = {}
    for file in sorted(source.rglob("*.py")):
        path = file.relative_to(source).as_posix()
        if path not in GENERATED:
            for mutant in mutants_of(path, file.read_text()):
                lines.setdefault((path, mutant.line), []).append(mutant)
    rng = random.Random(seed)
    return [rng.choice(lines[place]) for place in rng.sample(sorted(lines), min(count, len(lines)))]


# ---- which tests run a line -------------------------------------------------------------------------------------------


class _Contexts:
    """A plugin of pytest: lines that run while a test does are noted under its name, if it passes."""

    def __init__(self, measured: Coverage) -> None:
        self._measured = measured
        self.passed: set[str] = set()
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._measured.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._measured.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed.add(report.nodeid)
        self.passed -= self._failed


def note_lines(root: Path, file: str) -> None:
    """In a process of its own: runs one test file, and keeps (path, line, test) of what it ran."""
    import coverage
    from coverage.numbits import nums_to_numbits

    source = root / SOURCE
    os.environ["COVERAGE_CORE"] = "ctrace"  # what coverage takes from Python 3.14 on knows no contexts
    measured = coverage.Coverage(data_file=None, include=[f"{source}/*"], config_file=False)
    plugin = _Contexts(measured)
    measured.start()
    try:
        pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", str(root), str(root / file)], plugins=[plugin])
    finally:
        measured.stop()
    data = measured.get_data()
    with _open(root) as db:
        db.execute("DELETE FROM ran WHERE file = ?", (file,))
        for measured_file in data.measured_files():
            path = Path(measured_file).relative_to(source).as_posix()
            ran: defaultdict[str, set[int]] = defaultdict(set)
            for line, tests in data.contexts_by_lineno(measured_file).items():
                for test in tests:
                    if test == "" or test in plugin.passed:
                        ran[function_of(test)].add(line)
            rows = [(file, path, test, nums_to_numbits(lines)) for test, lines in ran.items()]
            db.executemany("INSERT INTO ran VALUES (?, ?, ?, ?)", rows)
        db.execute("INSERT OR REPLACE INTO measured VALUES (?, ?)", (file, _hash(root / file)))


@contextmanager
def _open(root: Path) -> Iterator[sqlite3.Connection]:
    folder = root / KEPT
    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / "lines.sqlite")) as db, db:
        db.execute("CREATE TABLE IF NOT EXISTS ran (file TEXT, path TEXT, test TEXT, lines BLOB)")
        db.execute("CREATE INDEX IF NOT EXISTS of_path ON ran (path)")
        db.execute("CREATE TABLE IF NOT EXISTS measured (file TEXT PRIMARY KEY, hash TEXT)")
        yield db


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def test_files(root: Path, named: Sequence[str]) -> list[str]:
    places = [root / one for one in named] or [root / "tests"]
    files = {file for place in places for file in ([place] if place.is_file() else place.rglob("test_*.py"))}
    return sorted(file.relative_to(root).as_posix() for file in files)


def measure(root: Path, named: Sequence[str]) -> None:
    with _open(root) as db:
        known = dict(db.execute("SELECT file, hash FROM measured"))
    left = [file for file in test_files(root, named) if known.get(file) != _hash(root / file)]
    for number, file in enumerate(left, 1):
        print(f"{number} of {len(left)}: {file}", flush=True)
        command = [sys.executable, "-m", "tests.mutants", "--root", str(root), "_lines", file]
        environment = {**os.environ, "PYTHONPATH": str(root / "src")}
        subprocess.run(command, cwd=ROOT, env=environment, check=False)


def tests_of(root: Path, mutant: Mutant) -> list[str]:
    """The tests that run a line, the most particular first. A line that runs at import belongs to all tests of the module."""
    from coverage.numbits import numbits_to_nums

    with _open(root) as db:
        rows = db.execute("SELECT test, lines FROM ran WHERE path = ?", (mutant.path,)).fetchall()
    ran = {test: numbits_to_nums(lines) for test, lines in rows}
    found = {test for test, lines in ran.items() if mutant.line in lines}
    if found == {""}:
        found = set(ran)
    return sorted(found - {""}, key=lambda test: (len(ran[test]), test))


# ---- a mutant is tried ------------------------------------------------------------------------------------------------


class _Chosen:
    """A plugin of pytest: only these tests, in this order; and the first that fails."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._order = {test: number for number, test in enumerate(tests)}
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            [one for one in items if function_of(one.nodeid) in self._order],
            key=lambda one: self._order[function_of(one.nodeid)],
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


def run_chosen(root: Path, tests: Sequence[str]) -> str:
    """In a process of its own, with the mutant's tree in front of sys.path: the test that failed, or nothing."""
    plugin = _Chosen(tests)
    files = dict.fromkeys(str(root / test.partition("::")[0]) for test in tests)
    code = pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--rootdir", str(root), *files], plugins=[plugin])
    broken = code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
    return plugin.failed or ("it cannot be imported" if broken else "")


def noticed_by(root: Path, tree: Path, tests: Sequence[str], seconds: float) -> str | None:
    """The test that noticed, "" if none did, None if they did not end in time. A test that hangs fails, by pytest's
    own limit for one test."""
    wanted = tree / "tests.json"
    wanted.write_text(json.dumps(list(tests)))
    found = tree / "found.txt"
    found.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.mutants", "--root", str(root), "_chosen", str(wanted), str(found)]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()
    return found.read_text() if found.exists() else "the process ended early"


def try_mutant(root: Path, tree: Path, mutant: Mutant, seconds: float) -> tuple[Verdict, str]:
    tests = tests_of(root, mutant)
    if not tests:
        return "not run", ""
    slow_ones = slow_tests()
    speeds: dict[Literal["quick", "slow"], list[str]] = {"quick": [], "slow": []}
    for test in tests:
        speeds["slow" if function_of(test) in slow_ones else "quick"].append(test)
    file = tree / "ronda" / mutant.path
    text = file.read_text()
    file.write_text(apply(mutant, text))
    try:
        is_unfinished = False
        for speed, some in speeds.items():
            by = noticed_by(root, tree, some, seconds) if some else ""
            if by:
                return speed, by
            is_unfinished = is_unfinished or by is None
        return ("unfinished" if is_unfinished else "survived"), ""
    finally:
        file.write_text(text)


def key_of(source: Path, mutant: Mutant) -> str:
    """A change of the file makes its mutants new ones."""
    return f"{mutant.path}@{_hash(source / mutant.path)}:{mutant.start}-{mutant.end}:{mutant.instead}"


def known_verdicts(root: Path) -> dict[str, Tried]:
    file = root / KEPT / "tried.jsonl"
    lines = file.read_bytes().splitlines() if file.exists() else []
    return {tried.key: tried for tried in msgspec.json.Decoder(list[Tried]).decode(b"[" + b",".join(lines) + b"]")}


def try_all(root: Path, mutants: Sequence[Mutant], seconds: float, limit: int) -> None:
    source, tree = root / SOURCE, root / KEPT / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(source, tree / "ronda", ignore=shutil.ignore_patterns("__pycache__"))
    known = known_verdicts(root)
    left = [mutant for mutant in mutants if key_of(source, mutant) not in known]
    for number, mutant in enumerate(left[:limit], 1):
        verdict, by = try_mutant(root, tree, mutant, seconds)
        print(f"{number} of {len(left)}: {mutant.name}: {verdict} {by}", flush=True)
        with (root / KEPT / "tried.jsonl").open("ab") as kept:
            kept.write(msgspec.json.encode(Tried(key_of(source, mutant), mutant.name, verdict, by)) + b"\n")


def lists(root: Path, mutants: Sequence[Mutant]) -> str:
    known = known_verdicts(root)
    tried = [found for mutant in mutants if (found := known.get(key_of(root / SOURCE, mutant))) is not None]
    quick, slow = _with(tried, "quick"), _with(tried, "slow")
    count = len(quick) + len(slow)
    share = f"{100 * len(quick) / count:.0f} %" if count else "none"
    blocks = [
        f"{len(tried)} of {len(mutants)} mutants were tried.",
        _block(f"The whole suite finds {count}:", [*quick, *slow]),
        _block(f"`make test` finds {len(quick)} of those ({share}); it misses {len(slow)}:", slow),
        _block("No test notices:", _with(tried, "survived")),
        _block("No test runs the line in its own process:", _with(tried, "not run")),
        _block("Its tests took too long:", _with(tried, "unfinished")),
    ]
    return "\n\n".join(blocks)


def _with(tried: Iterable[Tried], verdict: Verdict) -> list[Tried]:
    return [one for one in tried if one.verdict == verdict]


def _block(title: str, tried: Iterable[Tried]) -> str:
    return "\n".join([title, *[f"    {one.name}" + (f"  by {one.by}" if one.by else "") for one in tried]])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository")
    commands = parser.add_subparsers(dest="command", required=True)
    lines = commands.add_parser("lines", help="note which lines each test runs")
    lines.add_argument("tests", nargs="*")
    for name, text in (("try", "try mutants that were not tried yet"), ("lists", "print what was found")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--seed", type=int, default=1)
        command.add_argument("--count", type=int, default=200)
        command.add_argument("--only", default="", help="mutants of files that begin with this: core/, wire/")
        command.add_argument("--limit", type=int, default=1_000_000, help="try so many now")
        command.add_argument("--seconds", type=float, default=300.0, help="for the tests of one mutant, of each speed")
    commands.add_parser("_lines").add_argument("file")
    chosen = commands.add_parser("_chosen")
    chosen.add_argument("wanted", type=Path)
    chosen.add_argument("found", type=Path)
    given = parser.parse_args(arguments)
    root = given.root.resolve()
    if given.command == "lines":
        measure(root, given.tests)
    elif given.command == "_lines":
        note_lines(root, given.file)
    elif given.command == "_chosen":
        given.found.write_text(run_chosen(root, json.loads(given.wanted.read_text())))
    else:
        mutants = [one for one in choose(root / SOURCE, given.seed, given.count) if one.path.startswith(given.only)]
        if given.command == "try":
            try_all(root, mutants, given.seconds, given.limit)
        print(lists(root, mutants))
    return 0


if __name__ == "__main__":
    sys.exit(main())

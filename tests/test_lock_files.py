"""`make` installs what the lock files name and nothing else (`pip install --no-deps`): they are complete.

They say versions and hashes, and not where packages come from.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
USERS_EXTRAS = sorted(PROJECT["optional-dependencies"].keys() - {"all", "dev"})
# The extras that each has, and what it has beside them.
LOCKS = {
    "requirements.lock": (USERS_EXTRAS, ["hatchling", "editables"]),
    "requirements-dev.lock": ([*USERS_EXTRAS, "dev"], []),
}
LINE = re.compile(r"[\w.-]+==[\w.!+-]+( ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")


@pytest.mark.parametrize("name", [*LOCKS, "requirements-docs.lock", "requirements-node.lock"])
def test_a_lock_file_has_versions_and_hashes_alone(name: str) -> None:
    wrong = [line for line in (ROOT / name).read_text().splitlines() if not LINE.fullmatch(line)]

    assert wrong == []


def pinned(name: str) -> dict[str, Requirement]:
    lines = [line.removesuffix("\\") for line in (ROOT / name).read_text().splitlines() if "==" in line]
    return {canonicalize_name(found.name): found for found in map(Requirement, lines)}


def wanted(requirement: Requirement, seen: dict[tuple[str, str], Requirement]) -> None:
    """What a requirement brings with it here, with all that this brings with it."""
    for extra in ("", *requirement.extras):
        key = (canonicalize_name(requirement.name), extra)
        if key in seen:
            continue
        seen[key] = requirement
        try:
            more = requires(requirement.name) or []
        except PackageNotFoundError:  # not installed here; whether it is pinned can be told anyway
            continue
        for one in map(Requirement, more):
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                wanted(one, seen)


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_file_is_complete(name: str) -> None:
    extras, more = LOCKS[name]
    asked = [*PROJECT["dependencies"], *more]
    for extra in extras:
        asked += PROJECT["optional-dependencies"][extra]
    pins = pinned(name)
    seen: dict[tuple[str, str], Requirement] = {}
    for one in map(Requirement, asked):
        if one.marker is None or one.marker.evaluate({"extra": ""}):
            wanted(one, seen)

    missing = sorted({package for package, _ in seen if package not in pins})
    assert missing == []
    for (package, _), requirement in seen.items():
        version = str(pins[package].specifier).removeprefix("==")
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement}, and {version} is pinned"

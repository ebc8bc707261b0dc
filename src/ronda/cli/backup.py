"""`ronda backup FILE.tar.gz` and `ronda restore FILE.tar.gz`: the data folder of a server as one file, and back."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from ronda.cli.serve import data_folder
from ronda.cli.settings import storage_config
from ronda.errors import BadConfig
from ronda.store.backup import restore_backup, write_backup


def backup(arguments: argparse.Namespace) -> int:
    folder = _folder(arguments)
    made = write_backup(folder, Path(arguments.file))
    left_out = f"; {made.left_out} links and special files were left out" if made.left_out else ""
    print(
        f"ronda: {made.files} files, {made.bytes:,} bytes of {folder} are in {arguments.file}{left_out}",
        file=sys.stderr,
    )
    return 0


def restore(arguments: argparse.Namespace) -> int:
    folder = _folder(arguments)
    manifest = restore_backup(Path(arguments.file), folder)
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(manifest.created))
    print(
        f"ronda: {len(manifest.files)} files of {made} are in {folder}; 'ronda serve --data-dir {folder}' continues them",
        file=sys.stderr,
    )
    return 0


def _folder(arguments: argparse.Namespace) -> Path:
    config = storage_config(arguments)
    if config.database is not None and arguments.data_dir is None:
        raise BadConfig(
            "a PostgreSQL database has tools of its own: 'pg_dump --format=custom DATABASE' and 'pg_restore'; with --data-dir, "
            "the folder with the bytes of files is backed up"
        )
    folder = data_folder(config)
    if folder is None:
        raise BadConfig("':memory:' keeps nothing that could be backed up; choose a folder with --data-dir")
    return folder

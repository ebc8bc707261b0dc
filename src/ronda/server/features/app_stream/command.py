"""`ronda page setup`: brings what pages are shown with, once."""

from __future__ import annotations

import argparse
from pathlib import Path

from ronda._extras import check_extra


def page(arguments: argparse.Namespace) -> int:
    check_extra("page", "'ronda page setup'")
    from ronda.tools.page.packages import fetch_packages, missing_packages, packages_folder

    folder = packages_folder() if arguments.folder is None else Path(arguments.folder).expanduser().absolute()
    if missing_packages(folder):
        fetch_packages(folder, lambda name: print(f"fetching {name}", flush=True))
    print(f"all there, in {folder}; 'ronda doctor' tells what else would help")
    return 0

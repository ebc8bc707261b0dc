"""llama.cpp's Python binding, imported: or one sentence that says what this machine lacks for it.

The binding is a shared object, and a minimal system does not have every library it was linked with. Whatever imports it does so
here.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from typing import Any

from ronda.errors import BadConfig

# Libraries that are part of the system and not of the wheel → the package that has them: on Debian, on Fedora.
_PACKAGES = {"libgomp.so.1": ("libgomp1", "libgomp"), "libstdc++.so.6": ("libstdc++6", "libstdc++")}


def check_installed() -> None:
    """Cheap: nothing is imported."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise BadConfig("the local engine is not installed; 'pip install xllamacpp' gets it")


def import_binding() -> Any:
    """The module `xllamacpp`. Raises BadConfig with the way out."""
    check_installed()
    # With the default two busy cores fell to half a token per second: waiting threads spin. Read when the library loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        return importlib.import_module("xllamacpp")
    except (ImportError, OSError) as error:
        raise BadConfig(_way_out(str(error))) from error


def _way_out(reason: str) -> str:
    missing = re.match(r"(\S+\.so[.\d]*): cannot open shared object file", reason)
    if missing is None:
        return f"the local engine cannot be loaded: {reason}"
    library = missing[1]
    if library not in _PACKAGES:
        return f"the local engine needs the system library {library}, which is missing here; install the package that has it"
    debian, fedora = _PACKAGES[library]
    return (
        f"the local engine needs the system library {library}, which is missing here; 'sudo apt-get install {debian}' "
        f"(Debian, Ubuntu) or 'sudo dnf install {fedora}' (Fedora) gets it"
    )

"""llama.cpp's Python binding: one sentence that says what this machine lacks for it.

The binding is a shared object, and a minimal system does not have every library it was linked with. Only the engine's own process
imports it; what goes wrong there is put into words here.
"""

from __future__ import annotations

import re

from ronda._extras import check_extra

# Libraries that are part of the system and not of the wheel → the package that has them: on Debian, on Fedora.
_PACKAGES = {"libgomp.so.1": ("libgomp1", "libgomp"), "libstdc++.so.6": ("libstdc++6", "libstdc++")}


def check_installed() -> None:
    """Cheap: nothing is imported."""
    check_extra("local", "a model on this machine")


def way_out(reason: str) -> str:
    """Why the binding could not be imported, and what helps."""
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

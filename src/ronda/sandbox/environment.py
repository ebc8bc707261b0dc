"""The environment of sandboxed code: a named list of variables, never the server's own with its keys and tokens."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ronda.sandbox.policy import Policy

# Passed on as they are. None of them is a secret, nor a place where one is kept.
PASSED = ("LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "PYTHONHASHSEED", "PYTHONIOENCODING")
# The developer profile passes where tools are, too: locations, never tokens.
LOCATIONS = (
    "CONDA_PREFIX",
    "VIRTUAL_ENV",
    "PYENV_ROOT",
    "NVM_DIR",
    "RUSTUP_HOME",
    "CARGO_HOME",
    "GOROOT",
    "JAVA_HOME",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "PKG_CONFIG_PATH",
)
SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
# Read by the usual numeric libraries: each would start a thread per core, and a thread counts as a process.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def scrubbed_environment(
    policy: Policy, outside: Mapping[str, str], *, home: str, temporary: str, path: tuple[str, ...] = ()
) -> dict[str, str]:
    """What sandboxed code finds in its environment; `path` goes before the system's folders."""
    names = PASSED + (LOCATIONS if policy.profile == "developer" else ())
    inside = {name: outside[name] for name in names if name in outside}
    folders = [*path, *SYSTEM_PATH]
    if policy.profile == "developer":
        folders += [folder for folder in outside.get("PATH", "").split(os.pathsep) if folder.startswith("/")]
    inside |= {
        "PATH": os.pathsep.join(dict.fromkeys(folders)),
        "HOME": home,
        "TMPDIR": temporary,
        "XDG_CACHE_HOME": f"{home}/.cache",
        "XDG_CONFIG_HOME": f"{home}/.config",
        "XDG_DATA_HOME": f"{home}/.local/share",
        "USER": "sandbox",
        "LOGNAME": "sandbox",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "Agg",
    }
    inside.setdefault("LANG", "C.UTF-8")
    inside |= dict.fromkeys(_THREADS, str(max(1, min(os.cpu_count() or 1, policy.max_procs // 8))))
    for entry in policy.extra_env:
        name, equals, value = entry.partition("=")
        if equals:
            inside[name] = value
        elif name in outside:
            inside[name] = outside[name]
    return inside

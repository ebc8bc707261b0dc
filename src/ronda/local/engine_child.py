"""The engine's own process: what to load comes on stdin, one line on stdout says how that went; then it serves until stdin ends.

It is run as a script and imports nothing of Ronda: it is here to be killed, and to be small.
"""

import ctypes
import importlib
import json
import os
import signal
import sys
from typing import Any

PR_SET_PDEATHSIG = 1


def main() -> None:
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no report
    settings = json.loads(sys.stdin.readline())
    _end_with(settings["parent"])
    if hasattr(os, "nice"):
        # The event loop goes first wherever both want a core: with two, decoding held it up for 7 ms now and then.
        os.nice(5)
    try:
        server = _load(importlib.import_module("xllamacpp"), settings)
    except (ImportError, OSError) as error:
        outcome = {"not_imported": str(error)}
    except RuntimeError as error:
        outcome = {"not_loaded": str(error)}
    else:
        outcome = {"address": server.listening_address}
        _limit_memory(settings["room"])
    print(json.dumps(outcome), file=report, flush=True)
    if "address" in outcome:
        sys.stdin.read()
    os._exit(0)  # threads of the engine may be deep in their work


def _end_with(parent: int) -> None:
    """The end of stdin tells, too, but not while a model is loaded: that holds the interpreter's lock."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it was faster
            os._exit(0)


def _limit_memory(room: int) -> None:
    """What is loaded now and so many bytes: an allocation beyond that fails. The model itself is mapped and does not count."""
    if sys.platform != "linux":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("/proc/self/status") as status:
        used = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (used + room, used + room))


def _load(binding: Any, settings: dict[str, Any]) -> Any:
    params = binding.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {"local"}  # said again in every chunk
    params.verbosity = 0
    params.chat_template = settings["template"]
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["cache"]
    params.kv_unified = True  # one cache for all slots: a long conversation may have most of it
    params.n_batch = params.n_ubatch = settings["batch"]
    params.cpuparams.n_threads = settings["threads_alone"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = 0
    params.cache_idle_slots = False  # it would copy every idle slot whenever a request begins, while the others wait
    params.fit_params = False
    params.prefill_assistant = False  # an assistant's turn at the end was broken off: the next one is new
    params.api_keys = [settings["key"]]
    params.hostnames = [settings["host"]]
    params.port = 0
    params.embedding = settings["embeds"]
    params.n_threads_http = settings["slots"] + 4  # a stream holds one for as long as it lasts
    params.ui = False
    params.endpoint_slots = False
    params.sse_ping_interval = -1
    return binding.Server(params)


if __name__ == "__main__":
    main()

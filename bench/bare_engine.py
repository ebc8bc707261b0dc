"""The floor of the local model's figures: the engine's binding called by hand, in a process that knows nothing of Ronda.

The first line on stdin says what to load, every other is a body for the engine. For each there is one line on stdout:
the tokens, the seconds of wall time from the call to its end, and the engine's seconds for the prompt.
"""

import importlib
import json
import os
import sys
import time


def main() -> None:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when the library loads: without it waiting threads spin
    xllamacpp = importlib.import_module("xllamacpp")
    wanted = json.loads(sys.stdin.readline())
    params = xllamacpp.CommonParams()
    params.model.path = wanted["path"]
    params.verbosity = 0
    params.n_parallel = 1
    params.n_ctx = wanted["context"]
    params.n_batch = params.n_ubatch = wanted["batch"]
    params.cpuparams.n_threads = wanted["threads_alone"]
    params.cpuparams_batch.n_threads = wanted["threads"]
    params.port = 0
    server = xllamacpp.Server(params)
    print("ready", flush=True)
    while line := sys.stdin.readline():
        chunks: list[bytes] = []
        start = time.perf_counter()
        server.handle_completions(line.encode(), chunks.append)
        seconds = time.perf_counter() - start
        timings = json.loads(chunks[-1])["timings"]
        print(timings["predicted_n"], seconds, timings["prompt_ms"] / 1000, flush=True)


if __name__ == "__main__":
    main()

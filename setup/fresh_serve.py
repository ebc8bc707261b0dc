"""Run inside a fresh machine: `make serve`, the question that it says to ask, its page, and Ctrl-C. Prints the answer last."""

import json
import os
import signal
import subprocess
import sys


def main(port: str) -> None:
    # In a process group of its own, as a terminal has it: Ctrl-C reaches make, the shell and the server.
    command = ["make", "serve", f"PORT={port}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                if line.startswith("  curl "):
                    break
            else:
                sys.exit("it ended before it was up")
            asked = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=600, check=True)
            answer = json.loads(asked.stdout)["choices"][0]["message"]["content"]
            page = ["curl", "-sS", "-H", "Accept: text/html", f"http://127.0.0.1:{port}/ui"]
            shown = subprocess.run(page, capture_output=True, text=True, timeout=60, check=True).stdout
            os.killpg(process.pid, signal.SIGINT)
            rest = process.stdout.read()
        finally:
            process.kill()
    print(rest)
    if "***" in rest or "Traceback" in rest:
        sys.exit("it did not end quietly")
    if not answer.strip():
        sys.exit("the answer is empty")
    if '<script type="module"' not in shown:
        sys.exit(f"the page was not built; /ui shows:\n{shown}")
    print(f"it answered: {answer.strip()!r}"[:160])


main(sys.argv[1])

"""Run inside what `setup/container.py` built, as the user of the image: keys, the server as CMD says, a question, SIGTERM.

python3 - ENTRYPOINT CMD…      on standard input
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from typing import Any

SECONDS = 120


def main(words: list[str]) -> None:
    assert os.getuid() != 0, "the image's user is root"
    key = subprocess.run(
        [words[0], "keys", "create", "--owner", "team", "--data-dir", "/var/lib/ronda"],
        capture_output=True, text=True, check=True,
    ).stdout.split()[-1]  # fmt: skip
    with tempfile.NamedTemporaryFile("w", suffix=".json") as script:
        json.dump(["Hello from the container."], script)
        script.flush()
        command = [*words, "--port", "0", "--model", f"script:{script.name}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            found = next((one for line in server.stderr if (one := re.search(r"http://\S+:(\d+)", line))), None)
            assert found is not None, "the server did not start"
            address = f"http://127.0.0.1:{found.group(1)}"
            assert _ask(f"{address}/health") == "OK"
            assert json.loads(_ask(f"{address}/ready"))["status"] == "ready"
            question = {"model": "default", "messages": [{"role": "user", "content": "Hi"}]}
            answer = json.loads(_ask(f"{address}/v1/chat/completions", question, key))
            server.send_signal(signal.SIGTERM)
            server.stderr.read()
            assert server.wait(SECONDS) == 0, server.returncode
    print(f"uid {os.getuid()}: {answer['choices'][0]['message']['content']}")


def _ask(address: str, body: Any = None, key: str = "") -> str:
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    with urllib.request.urlopen(urllib.request.Request(address, data, headers), timeout=SECONDS) as answer:
        return str(answer.read().decode())


main(sys.argv[1:])

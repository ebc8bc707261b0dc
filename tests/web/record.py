"""Records runs for the tests of the page's fold: `python -m tests.web.record URL` → web/tests/recordings/SCENE.jsonl.

Each line is `[position, event]`, as `GET /v1/runs/{id}/events` of a server with the `Actor` has it.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent.parent / "web/tests/recordings"
DEADLINE = 60.0
# What becomes of the questions that a scene asks.
DECISIONS: dict[str, list[dict[str, Any]]] = {
    "order": [{"decision": "deny", "message": "Not before Friday."}],
    "twice": [{"decision": "approve", "remember_for_session": True}],
    "plan": [{"decision": "approve", "arguments": {"site": "harbour", "quantity": 1200, "deliver_by": "2026-12-14"}}],
}
SCENES = (
    "calculate",
    "think",
    "markdown",
    "search",
    "order",
    "twice",
    "plan",
    "fail",
    "cut",
    "broken",
    "escapes",
    "slow",
    "steer",
)


class Client:
    def __init__(self, url: str) -> None:
        self._url = url
        self._steered: set[str] = set()

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        sent = {"content-type": "application/json", **{name.replace("_", "-"): text for name, text in headers.items()}}
        request = urllib.request.Request(self._url + path, data, sent, method=method)
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def events(self, run: str) -> list[tuple[str, Any]]:
        with urllib.request.urlopen(f"{self._url}/v1/runs/{run}/events", timeout=DEADLINE) as answer:
            blocks = answer.read().decode().split("\n\n")
        fields = [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks if block]
        return [(one["id"], json.loads(one["data"])) for one in fields]

    def record(self, scene: str) -> list[tuple[str, Any]]:
        run = f"run_recorded{scene}"
        body = {
            "background": True,
            "session_id": f"recorded-{scene}",
            "messages": [{"role": "user", "content": f"{scene}, please"}],
            "enable_code_execution": True,
            "enable_shell": True,
        }
        self.send("POST", "/v1/chat/completions", body, x_ronda_run=run)
        decisions, ends = list(DECISIONS.get(scene, [])), time.monotonic() + DEADLINE
        while time.monotonic() < ends:
            state = self.send("GET", f"/v1/runs/{run}")
            if state["ended_at"] is not None:
                return self.events(run)
            if state["questions"] and decisions:
                self.send("POST", f"/v1/agent/approvals/{state['questions'][0]['id']}", decisions.pop(0))
            if scene in ("slow", "steer") and int(state["position"]) >= 3:
                self._interfere(scene, run)
            time.sleep(0.1)
        raise TimeoutError(scene)

    def _interfere(self, scene: str, run: str) -> None:
        try:
            if scene == "slow":
                self.send("POST", f"/v1/runs/{run}/cancel", {})
            elif run not in self._steered:
                self._steered.add(run)
                self.send("POST", f"/v1/runs/{run}/steer", {"text": "Only the harbour, please."})
        except urllib.error.HTTPError:
            pass  # it has ended meanwhile


def main(url: str) -> None:
    client = Client(url)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for scene in SCENES:
        lines = [json.dumps(line, ensure_ascii=False) for line in client.record(scene)]
        (FOLDER / f"{scene}.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

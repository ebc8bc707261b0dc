"""A process that stands for the engine's, without a model: run as a script, it does what the first number of a prompt says.

A grammar may say it, too: then it happens when the grammar is tried.
"""

from __future__ import annotations

import http.server
import json
import os
import signal
import socketserver
import sys
import threading
import time
from typing import Any

ANSWER, DIE, SHOW_AND_DIE, EAT, SPIN, SLEEP = map(ord, "adsepw")
WORDS = {"die": DIE, "eat": EAT, "spin": SPIN}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "engine"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/apply-template":
            self._answer(json.dumps({"prompt": body["messages"][-1]["content"]}).encode())
            return
        if self.path == "/tokenize":
            self._answer(json.dumps({"tokens": [ord(letter) for letter in body["content"]]}).encode())
            return
        if self.path == "/v1/chat/completions":
            self._chat(is_stream=body.get("stream", False))
            return
        grammar = body.get("grammar", "")
        is_trial = "ronda_start" in grammar
        what = body["prompt"][0]
        for word, does in WORDS.items():
            if f"late-{word}" in grammar:
                what = what if is_trial else does
            elif word in grammar:
                what = does
        if what == ANSWER and body["prompt"][1:] and not is_trial:  # once: a file says that it was done
            once = f"{sys.argv[1]}/{body['prompt'][1]}"
            if not os.path.exists(once):
                open(once, "w").close()
                what = DIE
        self._do(what, "\x1e" if is_trial else "hello")

    has_read = False  # the prompt of a chat, as a large model reads it: for long, and it says how far it is

    def _chat(self, *, is_stream: bool) -> None:
        if is_stream:
            self._begin_stream()
        for _ in range(0 if Handler.has_read else 10):
            _work(0.1)
            if is_stream:
                self._frame({"choices": []})
        Handler.has_read = True
        if is_stream:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self._answer(b"hello")

    def _do(self, what: int, text: str) -> None:
        if what == DIE:
            os.kill(os.getpid(), signal.SIGSEGV)
            threading.Event().wait()
        if what == EAT:
            held = []
            while True:
                held.append(bytearray(b"x" * 2**20))
                time.sleep(0.001)
        if what == SPIN:
            while True:
                pass
        if what == SLEEP:
            threading.Event().wait()
        self._begin_stream()
        self._frame({"choices": [{"text": text}]})
        if what == SHOW_AND_DIE:
            self._do(DIE, "")
        self._frame(
            {
                "choices": [{"text": "", "finish_reason": "stop"}],
                "timings": {"prompt_n": 1, "predicted_n": 1, "prompt_ms": 1.0, "predicted_ms": 1.0},
            }
        )
        self.wfile.write(b"0\r\n\r\n")

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _frame(self, what: dict[str, Any]) -> None:
        data = b"data: " + json.dumps(what).encode() + b"\n\n"
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _work(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


def main() -> None:
    wanted = json.loads(sys.stdin.readline())
    if len(sys.argv) > 2:
        sys.stdout.write(sys.argv[2] + "\n")
        return
    with Server(wanted["host"], Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdout.write(json.dumps({"address": wanted["host"]}) + "\n")
        sys.stdout.flush()
        sys.stdin.read()
        os._exit(0)


if __name__ == "__main__":
    main()

"""A fake model and servers of ours in processes of their own, for the recordings of the app stream."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Self

from tests.timeouts import TIMEOUT

_ADDRESS: Final = re.compile(rb"on (http://[^\s]+)")
# Keys that mean nothing: the fake model takes any. Whatever this machine has is left out.
_KEYS: Final = {"OPENAI_API_KEY": "fake", "ANTHROPIC_API_KEY": "fake", "GEMINI_API_KEY": "fake"}


class AppServers:
    """`upstream` is the fake model's address; `backend` gives a server of ours that uses it in a certain way."""

    def __init__(self, data: Path, upstream: str | None = None, more: str = "") -> None:
        """`upstream` is another model than the fake one, `more` is more of the table [app]."""
        self._data = data
        self._given = upstream
        self._more = more
        self._stack = ExitStack()
        self._backends: dict[str, str] = {}

    def __enter__(self) -> Self:
        self.upstream = self._given or self._stack.enter_context(_fake_model(self._data))
        self._folder = Path(self._stack.enter_context(TemporaryDirectory()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def backend(self, words: str) -> str:
        """By what a case says that its backend had: keys of some providers, or of none."""
        providers = [name for name in ("openai", "openai-chat", "anthropic", "gemini") if name in words.split()]
        name = " ".join(providers)
        if name not in self._backends:
            self._backends[name] = self._stack.enter_context(_ronda(self._settings(providers), self._folder, name))
        return self._backends[name]

    def _settings(self, providers: Sequence[str]) -> str:
        models = {
            "openai": f'{{ model = "openai:fake", base_url = "{self.upstream}/v1" }}',
            "openai-chat": f'{{ model = "openai-chat:fake", base_url = "{self.upstream}/v1" }}',
            "anthropic": f'{{ model = "anthropic:claude-sonnet-4-5", base_url = "{self.upstream}" }}',
            "gemini": f'{{ model = "gemini:gemini-fake", base_url = "{self.upstream}/v1beta" }}',
        }
        own = f'model = "openai:fake"\nbase_url = "{self.upstream}/v1"\nport = 0\ndata_dir = "data"\nallow_origins = ["http://127.0.0.1:5173"]\n[app]\n'
        named = [models[name] for name in providers] or ['"mistral:none"']  # whose key is not here
        return own + f"models = [{', '.join(named)}]\n{self._more}"


@contextmanager
def _ronda(settings: str, folder: Path, name: str) -> Iterator[str]:
    place = folder / (name.replace(" ", "-") or "none")
    place.mkdir()
    (place / "ronda.toml").write_text(settings)
    environment = {key: value for key, value in os.environ.items() if not key.endswith(("_API_KEY", "_BASE_URL"))}
    command = [sys.executable, "-m", "ronda", "serve", "--config", str(place / "ronda.toml")]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log, env={**environment, **_KEYS})
    try:
        yield _address(process, place / "log")
    finally:
        process.terminate()
        process.wait(TIMEOUT)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end and process.poll() is None:
        if (found := _ADDRESS.search(log.read_bytes())) is not None:
            return found[1].decode()
        time.sleep(0.05)
    raise RuntimeError(f"no server: {log.read_text()[:500]}")


@contextmanager
def _fake_model(data: Path) -> Iterator[str]:
    """It takes a port that another process may have taken: then another is tried."""
    import socket

    for _ in range(5):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen([sys.executable, str(data / "upstream.py"), str(port)], stderr=subprocess.DEVNULL)
        try:
            if _answers(process, f"http://127.0.0.1:{port}"):
                yield f"http://127.0.0.1:{port}"
                return
        finally:
            process.terminate()
            process.wait(TIMEOUT)
    raise RuntimeError("the fake model does not start")


def _answers(process: subprocess.Popen[bytes], address: str) -> bool:
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(address + "/__log", timeout=5).close()
            return True
        except OSError:
            time.sleep(0.05)
    return False

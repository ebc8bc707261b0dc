"""A small typed client for what is Ronda's own: runs, their events, approvals, sessions, keys, and the server itself.

    client = Client("http://127.0.0.1:1234", key="rk_…")
    run = client.start_runs(input="Look around.")["data"][0]["id"]
    for position, event in client.follow_run(run):
        ...
    client.get_run(run)["result"]

For answers of models there are the clients of OpenAI, Anthropic and Mistral. It needs the standard library only, and waits: a
program with an event loop calls it in a thread. Its methods and types (`operations`) are printed from the OpenAPI document.
"""

from __future__ import annotations

from ronda.client.operations import Operations
from ronda.client.transport import RondaHttpError, ServerEvent, Transport

__all__ = ["Client", "RondaHttpError", "ServerEvent"]


class Client(Operations):
    """`key` is an API key of the server, where it has keys. `timeout` is for each wait on the server, in seconds; a stream waits
    without an end, since a run may take hours."""

    def __init__(self, base_url: str = "http://127.0.0.1:1234", key: str | None = None, timeout: float = 60.0) -> None:
        super().__init__(Transport(base_url, key, timeout))

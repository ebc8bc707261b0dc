"""Mistral's own API, and any server that speaks it: a model on /chat/completions, or an agent on /agents/completions."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from ronda.core.events import ModelFinished
from ronda.core.limits import Timeouts
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Show
from ronda.drive.offload import write_body
from ronda.errors import UpstreamError
from ronda.providers.choices import asking_with, read_answer, with_missing
from ronda.providers.http import Http
from ronda.providers.http.transport import Routes
from ronda.wire.mistral import API
from ronda.wire.mistral.client_answer import Naming, Reader, read_choices
from ronda.wire.mistral.client_request import body_of, is_about_order
from ronda.wire.upstream.input_files import is_binary_type
from ronda.wire.upstream.projection import Projection

DEFAULT_URL = "https://api.mistral.ai/v1"


class Mistral:
    """`model` is the id of an agent when `agent` is set."""

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        key: str | None = None,
        timeouts: Timeouts | None = None,
        *,
        agent: bool = False,
        routes: Routes | None = None,
    ) -> None:
        self._model = model
        self._agent = agent
        self._bridges = False  # until the server refuses a user's message behind a result
        headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
        url = endpoint(base_url or DEFAULT_URL, agent)
        self._http = Http(url, headers, timeouts or Timeouts(), routes, "MISTRAL_API_KEY")

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            call_many=self.call_many,
            project=self.project,
            takes_addresses=True,
            takes_file=is_binary_type,
            keeps_files=True,
        )

    def project(self, request: ModelRequest) -> Projection:
        """What would be sent, and what was changed for it."""
        body = body_of(request, self._agent)
        data = body.write(self._model, request, self._bridges)
        return self._http.projection(API, data, body.changes.found)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        return (await self._ask(request, [show]))[0]

    async def call_many(self, request: ModelRequest, shows: list[Show]) -> list[ModelFinished]:
        """Several choices of one upstream call; a server that ignores `n` is asked once more for each one missing."""
        finished = await self._ask(asking_with(request, "n", Raw(b"%d" % len(shows))), shows)
        return await with_missing(finished, self.call, request, shows)

    async def _ask(self, request: ModelRequest, shows: list[Show]) -> list[ModelFinished]:
        try:
            return await self._ask_once(request, shows)
        except UpstreamError as error:  # refused as a whole, so nothing was shown
            if self._bridges or not is_about_order(error):
                raise
        self._bridges = True
        return await self._ask_once(request, shows)

    async def _ask_once(self, request: ModelRequest, shows: list[Show]) -> list[ModelFinished]:
        body = body_of(request, self._agent)
        data = await write_body(request, lambda: body.write(self._model, request, self._bridges))
        naming, n = Naming(self._model, body.tools, request.run, request.round), len(shows)
        async with self._http.post(data, n * request.max_bytes) as answer:
            finished = await read_answer(
                answer, request, shows, Reader(naming, n), lambda whole: read_choices(whole, naming, n)
            )
        if body.changes.found:
            finished[0] = msgspec.structs.replace(finished[0], warnings=body.changes.warnings)
        return finished


def endpoint(base_url: str, agent: bool) -> str:
    """The SDKs' addresses end before /v1, ours behind it: both are taken."""
    address, _, query = base_url.partition("?")
    address = address.rstrip("/")
    if not address.endswith("/completions"):
        if address.endswith("//api.mistral.ai"):
            address += "/v1"
        address += "/agents/completions" if agent else "/chat/completions"
    return f"{address}?{query}" if query else address

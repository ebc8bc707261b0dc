"""POST /v1/embeddings: texts → vectors, by a model on this machine or by a service's. The operator names it; requests cannot.

It is opened with the first request. What a service charges for it is in no budget: no run is behind such a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from starlette.types import ASGIApp

from ronda.drive.offload import aside
from ronda.errors import BadConfig, NotFound
from ronda.providers import MINILM
from ronda.providers.embeddings import Embedder
from ronda.server.config import ServerConfig
from ronda.server.doors.dialects import CHAT
from ronda.server.features.budgets.settings import BudgetSettings
from ronda.server.features.contract import Feature, Finding, Line, Services
from ronda.server.features.embeddings.settings import EmbeddingSettings
from ronda.server.http.incoming import Incoming, Json
from ronda.server.http.operations import Field, Operation
from ronda.server.http.routing import Route
from ronda.server.services.embedders import check_embedder, is_local, open_embedder
from ronda.server.services.models import check_model_names
from ronda.wire.resources.embeddings import FIELDS, EmbeddingRequest, read_embedding_request, write_embeddings

FLAG: Final = "--embedding-model"
_BATCH: Final = 64  # texts: a client that is gone is noticed between two of them


class Embeddings(Feature):
    name = "embeddings"

    @classmethod
    def check(cls, settings: ServerConfig) -> Iterable[Finding]:
        part = settings.part(EmbeddingSettings)
        model = part.embedding_model
        if model is None:
            if part.embedding_base_url is not None:
                yield Finding(f"--embedding-base-url is for a model of {FLAG}, and there is none")
            return
        try:
            check_embedder(model, FLAG)
        except BadConfig as error:
            yield Finding(str(error))
        if not is_local(model) and settings.part(BudgetSettings) != BudgetSettings():
            yield Finding(f"what {FLAG} {model} costs is in no budget", is_fatal=False)

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        part = settings.part(EmbeddingSettings)
        self._given = part.embedding_model
        self._base_url = part.embedding_base_url
        self._spec = part.embedding_model or MINILM
        self._name = self._spec.partition(":")[2] or self._spec
        self._transport = settings.transport
        self._max_body = settings.max_body
        self._opening = asyncio.Lock()
        self._embedder: Embedder | None = None

    def routes(self) -> Sequence[Route]:
        return (Route("POST", "/v1/embeddings", CHAT, self.create, "run", needs_store=False),)

    def operations(self) -> Mapping[str, Operation]:
        vector = {"object": "embedding", "index": int, "embedding": ([float], str)}
        answer = {
            "object": "list",
            "data": [vector],
            "model": str,
            "usage": {"prompt_tokens": int, "total_tokens": int},
            "warnings?": [str],
        }
        fields: dict[str, Field] = {**FIELDS, "input": ((str, [str]), FIELDS["input"].removeprefix("read: "))}
        made = Operation(summary="Make vectors of texts", fields=fields, needs=("input",), answer=answer)
        return {"POST /v1/embeddings": made}

    async def create(self, request: Incoming) -> ASGIApp:
        asked = await request.read(self._max_body, read_embedding_request)
        names = (self._name, self._spec)
        if asked.model not in ("default", *names):
            raise NotFound(
                f"the model '{asked.model[:200]}' makes no embeddings here; there is '{self._name}'",
                param="model",
                code="model_not_found",
            )
        check_model_names(names)
        embedder = await self._open()
        vectors: list[list[float]] = []
        tokens: int | None = 0
        longest: int | None = None
        for start in range(0, len(asked.texts), _BATCH):
            made = await embedder.embed(asked.texts[start : start + _BATCH], asked.dimensions)
            vectors += made.vectors
            tokens = None if tokens is None or made.tokens is None else tokens + made.tokens
            longest = made.longest
        body = await aside(write_embeddings, asked, self._name, vectors, tokens, _warnings(asked, longest))
        return Json(body)

    async def _open(self) -> Embedder:
        async with self._opening:
            if self._embedder is None:
                try:
                    self._embedder = await asyncio.to_thread(
                        open_embedder, self._spec, FLAG, self._transport, self._base_url
                    )
                except BadConfig as error:
                    way_out = "" if self._given else f"; the operator may name a model with {FLAG}"
                    raise NotFound(
                        f"this server makes no embeddings: {error}{way_out}", code="not_supported"
                    ) from error
            return self._embedder

    async def doctor(self) -> Sequence[Line]:
        try:
            await self._open()
        except NotFound as error:
            return [Line("embeddings", "missing" if self._given is None else "fails", str(error))]
        return [Line("embeddings", "works", f"vectors are made by {self._spec}")]

    async def stop(self) -> None:
        if self._embedder is not None:
            await asyncio.to_thread(self._embedder.close)


def _warnings(asked: EmbeddingRequest, longest: int | None) -> tuple[str, ...]:
    if longest is None:
        return ()
    cut = [index for index, text in enumerate(asked.texts) if len(text) > longest or len(text.encode()) > longest]
    return (f"the model reads {longest} bytes of a text; input {cut} were cut off there",) if cut else ()

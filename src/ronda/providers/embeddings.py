"""Texts → vectors, by any service that has OpenAI's `/embeddings`; and what every embedder gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from ronda.errors import UpstreamBroken
from ronda.providers.http.transport import Routes
from ronda.providers.openai_data import ask


class Embedded(Struct, frozen=True):
    vectors: list[list[float]]  # one for each text, in their order
    tokens: int | None = None  # of all texts; None where the model does not say
    longest: int | None = None  # bytes of a text that the model reads; the rest was cut off


class Embedder(Protocol):
    async def embed(self, texts: Sequence[str], dimensions: int | None = None) -> Embedded:
        """Raises UpstreamError, and BadRequest for what this model cannot do."""

    def close(self) -> None: ...


class _Vector(Struct):
    embedding: list[float]
    index: int = 0


class _Usage(Struct):
    prompt_tokens: int | None = None


class Answer(Struct):
    """What such a service, or llama.cpp's server, answers."""

    data: list[_Vector]
    usage: _Usage | None = None

    @property
    def vectors(self) -> list[list[float]]:
        return [one.embedding for one in sorted(self.data, key=lambda one: one.index)]

    @property
    def tokens(self) -> int | None:
        return None if self.usage is None else self.usage.prompt_tokens


decode_answer: Final = msgspec.json.Decoder(Answer).decode


class ServiceEmbedder:
    def __init__(
        self, model: str, base_url: str | None = None, key: str | None = None, routes: Routes | None = None
    ) -> None:
        self._model = model
        self._base_url = base_url
        self._key = key
        self._routes = routes

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        return (await self.embed(texts)).vectors

    async def embed(self, texts: Sequence[str], dimensions: int | None = None) -> Embedded:
        # An empty text is an error for most services.
        request: dict[str, Any] = {"model": self._model, "input": [text or " " for text in texts]}
        if dimensions is not None:
            request["dimensions"] = dimensions
        body = msgspec.json.encode(request)
        try:
            answer = decode_answer(await ask("/embeddings", body, self._base_url, self._key, routes=self._routes))
        except msgspec.MsgspecError as error:
            raise UpstreamBroken(f"the embeddings of '{self._model}' cannot be read: {error}") from error
        if len(answer.data) != len(texts):
            raise UpstreamBroken(f"'{self._model}' has made {len(answer.data)} vectors of {len(texts)} texts")
        return Embedded(answer.vectors, answer.tokens)

    def close(self) -> None:
        """Each call has a connection of its own."""

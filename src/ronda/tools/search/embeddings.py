"""Texts → vectors, by any service that has OpenAI's `/embeddings`: for the ranking of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from ronda.errors import UpstreamBroken
from ronda.providers.http.transport import Routes
from ronda.providers.openai_data import ask
from ronda.tools.search.rank import Embed


class _Vector(Struct):
    embedding: list[float]
    index: int = 0


class _Answer(Struct):
    data: list[_Vector]


_ANSWER: Final = msgspec.json.Decoder(_Answer)


def embed_with(model: str, base_url: str | None = None, key: str | None = None, routes: Routes | None = None) -> Embed:
    """What `Searcher` takes. Whatever goes wrong, the results are ranked without."""

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        # An empty text is an error for most services.
        body = msgspec.json.encode({"model": model, "input": [text or " " for text in texts]})
        try:
            answer = _ANSWER.decode(await ask("/embeddings", body, base_url, key, routes=routes))
        except msgspec.MsgspecError as error:
            raise UpstreamBroken(f"the embeddings of '{model}' cannot be read: {error}") from error
        vectors = [one.embedding for one in sorted(answer.data, key=lambda one: one.index)]
        if len(vectors) != len(texts):
            raise UpstreamBroken(f"'{model}' has made {len(vectors)} vectors of {len(texts)} texts")
        return vectors

    return embed

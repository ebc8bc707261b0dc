"""The setting of POST /v1/embeddings."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Struct

from ronda.server.setting import Setting

_model = partial(Setting, "the model")


class EmbeddingSettings(Struct, frozen=True):
    embedding_model: Annotated[
        str | None,
        _model(
            "--embedding-model MODEL",
            "the model that makes vectors for POST /v1/embeddings: all-minilm-l6-v2, local:FILE.gguf, or openai:NAME",
            default="all-minilm-l6-v2, where it is installed",
        ),
    ] = None
    embedding_base_url: Annotated[
        str | None, _model("--embedding-base-url URL", "the address of its service, where that is not the usual one")
    ] = None

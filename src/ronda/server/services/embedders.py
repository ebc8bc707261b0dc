"""Which model makes vectors of texts: what a setting names → an embedder."""

from __future__ import annotations

from typing import Final

from ronda.agent.value import missing_key, where_is
from ronda.errors import BadConfig
from ronda.providers import MINILM, open_local_embedder
from ronda.providers.embeddings import Embedder, ServiceEmbedder
from ronda.providers.http.transport import Transport
from ronda.providers.services import dialect_of

# Their usual addresses.
_SERVICES: Final = {"openai": None, "openai-chat": None, "mistral": "https://api.mistral.ai/v1"}


def is_local(model: str) -> bool:
    return model.lower() == MINILM or model.startswith("local:")


def check_embedder(model: str, flag: str) -> None:
    """Raises BadConfig for what is no such model. No file is looked at."""
    provider, _, name = model.partition(":")
    if not is_local(model) and (dialect_of(provider) not in _SERVICES or not name):
        raise BadConfig(
            f"{flag} is {model!r}; it can be '{MINILM}', 'local:FILE.gguf', "
            f"or NAME of a service as 'openai:NAME', 'mistral:NAME'"
        )


def open_embedder(model: str, flag: str, transport: Transport | None, base_url: str | None = None) -> Embedder:
    """A model on this machine, or one of a service that has OpenAI's `/embeddings`. `flag` is the setting that names it.
    Raises BadConfig."""
    check_embedder(model, flag)
    provider, _, name = model.partition(":")
    if is_local(model):
        return open_local_embedder(name or model)
    where = where_is(model, base_url, transport=transport)
    if (key := missing_key(model, where)) is not None:
        raise BadConfig(f"{flag} {model} needs a key: set {key}")
    return ServiceEmbedder(name, where.base_url or _SERVICES.get(provider), where.key, where.routes)

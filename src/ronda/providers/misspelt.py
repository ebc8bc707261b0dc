"""The name of a model that no provider has → what was meant: a misspelt provider, or another program's way to name models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ronda._suggest import closest

# What other programs call our providers.
_OTHER_NAMES: Final = {
    "gpt": "openai",
    "azure-openai": "azure",
    "azure_openai": "azure",
    "foundry": "azure",
    "aws": "bedrock",
    "amazon": "bedrock",
    "grok": "xai",
    "x-ai": "xai",
    "kimi": "moonshot",
    "togetherai": "together",
    "together-ai": "together",
    "fireworks-ai": "fireworks",
    "lm-studio": "lmstudio",
    "claude": "anthropic",
    "google": "gemini",
    "googleai": "gemini",
    "vertex": "gemini",
    "mistralai": "mistral",
    "gguf": "local",
    "llama.cpp": "local",
    "llamacpp": "local",
    "hf": "huggingface",
}

# How the names of a vendor's models begin.
_FAMILIES: Final = {
    "openai": ("gpt", "chatgpt", "o1", "o3", "o4", "codex"),
    "anthropic": ("claude",),
    "gemini": ("gemini", "gemma"),
    "mistral": ("mistral", "ministral", "magistral", "codestral", "devstral", "pixtral", "voxtral"),
    "local": ("smollm2",),
}


_FILES: Final = (".gguf", ".json")


def meant_model(spec: str, known: Sequence[str]) -> str:
    """A hint; empty where nothing is close."""
    provider, colon, name = spec.partition(":")
    if "/" in provider and not provider.endswith(_FILES):  # openai/gpt-5, as routers and catalogs write it
        provider, colon, name = spec.partition("/")
    if not colon:
        return _hint(with_provider(spec))
    if not name:
        return f"the name of a model belongs behind the colon: {provider}:NAME" if provider in known else ""
    plain = provider.strip().casefold()
    meant = _OTHER_NAMES.get(plain) or closest(plain, known)
    return _hint(f"{meant}:{name}" if meant is not None else with_provider(name))


def _hint(model: str | None) -> str:
    return "" if model is None else f"did you mean '{model}'?"


def with_provider(name: str) -> str | None:
    """A model whose provider is left out, with it; None: the name is of no model that is known."""
    if name.endswith(".gguf"):
        return f"local:{name}"
    if name.endswith(".json"):
        return f"script:{name}"
    for provider, beginnings in _FAMILIES.items():
        if name.casefold().startswith(beginnings):
            return f"{provider}:{name}"
    return None

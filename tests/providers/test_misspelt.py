"""Models that are named as other programs name them, or nearly right: the error says what to write."""

from __future__ import annotations

import pytest

from ronda import Agent
from ronda.errors import BadConfig

MEANT = {
    "openia:gpt-5": "did you mean 'openai:gpt-5'?",
    "OpenAI:gpt-5": "did you mean 'openai:gpt-5'?",
    "opnai-chat:qwen3": "did you mean 'openai-chat:qwen3'?",
    "openai_chat:qwen3": "did you mean 'openai-chat:qwen3'?",
    "openai/gpt-5": "did you mean 'openai:gpt-5'?",
    "anthropic/claude-sonnet-5": "did you mean 'anthropic:claude-sonnet-5'?",
    "antropic:claude-sonnet-5": "did you mean 'anthropic:claude-sonnet-5'?",
    "claude:opus": "did you mean 'anthropic:opus'?",
    "google:gemini-3-pro": "did you mean 'gemini:gemini-3-pro'?",
    "gpt-5": "did you mean 'openai:gpt-5'?",
    "claude-sonnet-5": "did you mean 'anthropic:claude-sonnet-5'?",
    "gemini-3-pro": "did you mean 'gemini:gemini-3-pro'?",
    "magistral-medium": "did you mean 'mistral:magistral-medium'?",
    "smollm2": "did you mean 'local:smollm2'?",
    "models/tiny.gguf": "did you mean 'local:models/tiny.gguf'?",
    "weather.json": "did you mean 'script:weather.json'?",
    "olama:qwen3:8b": "did you mean 'ollama:qwen3:8b'?",
    "Ollama:qwen3": "did you mean 'ollama:qwen3'?",
    "openrouter/qwen/qwen3": "did you mean 'openrouter:qwen/qwen3'?",
    "grok:grok-5": "did you mean 'xai:grok-5'?",
    "azure_openai:gpt-5": "did you mean 'azure:gpt-5'?",
    "hf:qwen/qwen3": "did you mean 'huggingface:qwen/qwen3'?",
    "groq:": "the name of a model belongs behind the colon: groq:NAME",
    "openai:": "the name of a model belongs behind the colon: openai:NAME",
}


@pytest.mark.parametrize(("spec", "hint"), MEANT.items(), ids=MEANT.keys())
def test_what_was_meant_is_said(spec: str, hint: str) -> None:
    with pytest.raises(BadConfig) as caught:
        Agent(spec)
    assert str(caught.value) == f"no model can be found under {spec!r}; {hint}"


@pytest.mark.parametrize("spec", ["", ":", "nobody:x", "some-model", "\\1:x", "x" * 10_000])
def test_where_nothing_is_close_the_providers_are_listed(spec: str) -> None:
    with pytest.raises(BadConfig, match=r"; name one as PROVIDER:MODEL with one of anthropic:…, gemini:…, local:…, "):
        Agent(spec)

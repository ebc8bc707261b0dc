"""What may stand behind `/model`: the models of a person's settings, those on this machine, and those that a provider's server
lists once its name is written."""

from __future__ import annotations

import asyncio
import os
from typing import Final

import msgspec

from ronda._islands import island_module
from ronda.agent import where_is
from ronda.cli.preferences import read_preferences
from ronda.errors import RondaError
from ronda.providers.services import SERVICES

_PROVIDERS: Final = ("openai", "anthropic", "gemini", "mistral", "local", *SERVICES)
_MAX_SECONDS: Final = 2.0  # that a person waits for a list after Tab


class ModelChoices:
    """Each list is asked for once: a server that does not answer is waited for once, too."""

    def __init__(self) -> None:
        self._lists: dict[str, list[str]] = {}

    async def behind(self, typed: str) -> list[str]:
        provider, colon, _ = typed.partition(":")
        if not colon:
            return list(dict.fromkeys([*_usual(), *_on_this_machine(), *[f"{name}:" for name in _PROVIDERS]]))
        if provider == "local":
            return _on_this_machine()
        if provider not in self._lists:
            self._lists[provider] = await _listed(provider)
        return [f"{provider}:{name}" for name in self._lists[provider]]


def _usual() -> list[str]:
    preferences = read_preferences()
    specs = [os.environ.get("RONDA_MODEL"), preferences.model, *[one.model for one in preferences.profiles.values()]]
    return [spec for spec in specs if spec]


def _on_this_machine() -> list[str]:
    try:
        files = island_module("ronda.local.files").list_models()
    except RondaError:  # a distribution may leave the local models out
        return []
    return [f"local:{file.name}" for file in files]


async def _listed(provider: str) -> list[str]:
    """The names that the provider's server gives; none where it cannot be asked."""
    from ronda.providers.listing import list_of  # loads the HTTP client

    kind = SERVICES[provider].dialect if provider in SERVICES else provider
    try:
        where = where_is(f"{provider}:any")
        data = await asyncio.wait_for(list_of(kind, where.base_url, where.key, where.routes), _MAX_SECONDS)
        return [one.id for one in msgspec.json.decode(data, type=_Models).data]
    except (RondaError, TimeoutError, msgspec.DecodeError, UnicodeDecodeError):
        return []


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]

"""Where models are found: `provider:name` → something that can be called.

One table of functions, each importing its module when called: nothing is loaded that is not used, and a reader can find
every provider from here. A name that is not in the table is a service that speaks one of these dialects (`services`), or is
looked for among installed packages (`docs/plugins.md`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from ronda.core.limits import Timeouts
from ronda.drive import Provider
from ronda.errors import BadConfig
from ronda.providers.services import SERVICES, Service, sees

if TYPE_CHECKING:
    from ronda.providers.embeddings import Embedder
    from ronda.providers.http.transport import Routes


# How a local model may be sized: requests at a time, and tokens of all of them together.
MOST_SLOTS: Final = 64
LEAST_CONTEXT: Final = 512
MOST_CONTEXT: Final = 1 << 20

MINILM: Final = "all-minilm-l6-v2"  # the local model of embeddings that has a name; others are files


class Where(Struct, frozen=True):
    """How to reach a model, beside its name."""

    base_url: str | None = None
    key: str | None = None
    timeouts: Timeouts | None = None
    version: str | None = None  # of the API, where there are several (Anthropic's)
    vision: bool | None = None  # can it see images? None: as far as its name tells
    slots: int | None = None  # of a local model: requests at a time …
    context: int | None = None  # … and tokens of all of them together
    account: str | None = None  # whose key it is, where keys change by themselves; else the key tells
    routes: Routes | None = None  # through which proxy, with which certificates; None: directly


def _anthropic(name: str, where: Where) -> Provider:
    from ronda.providers.anthropic import Anthropic

    return Anthropic(name, where.base_url, where.key, where.timeouts, where.version, where.account, where.routes)


def _openai(name: str, where: Where) -> Provider:
    from ronda.providers.openai_responses import OpenAIResponses

    return OpenAIResponses(name, where.base_url, where.key, where.timeouts, where.account, where.routes)


def _openai_chat(name: str, where: Where) -> Provider:
    from ronda.providers.openai_chat import OpenAIChat

    return OpenAIChat(name, where.base_url, where.key, where.timeouts, where.routes)


def _gemini(name: str, where: Where) -> Provider:
    from ronda.providers.gemini import Gemini

    return Gemini(name, where.base_url, where.key, where.timeouts, where.routes)


def _mistral(name: str, where: Where) -> Provider:
    from ronda.providers.mistral import Mistral

    return Mistral(name, where.base_url, where.key, where.timeouts, routes=where.routes)


def _mistral_agent(name: str, where: Where) -> Provider:
    from ronda.providers.mistral import Mistral

    return Mistral(name, where.base_url, where.key, where.timeouts, agent=True, routes=where.routes)


def _script(name: str, where: Where) -> Provider:
    from ronda.providers.script_file import ScriptFile

    return ScriptFile(name)


def _local(name: str, where: Where) -> Provider:
    from ronda._islands import island_module

    opened: Provider = island_module("ronda.local.provider").open_local(name, where.slots, where.context)
    return opened


Open: TypeAlias = Callable[[str, Where], Provider]

PROVIDERS: dict[str, Open] = {
    "anthropic": _anthropic,
    "gemini": _gemini,
    "local": _local,
    "mistral": _mistral,
    "mistral-agent": _mistral_agent,
    "openai": _openai,
    "openai-chat": _openai_chat,
    "script": _script,
}

# Which environment variables hold a provider's key and address. Reading them is the business of `agent`.
KEY_NAMES: dict[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),  # the first that is set; Google's SDK reads both
    "mistral": ("MISTRAL_API_KEY",),
    "mistral-agent": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
}
URL_NAMES: dict[str, str] = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "openai-chat": "OPENAI_BASE_URL",
}


# Which may name a proxy; in small letters, too. Without any of them, calls are direct.
PROXY_NAMES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")

_GROUP: Final = "ronda.providers"


def _opener_for(service: Service) -> Open:
    def open_service(name: str, where: Where) -> Provider:
        from ronda.providers.openai_chat import OpenAIChat

        if (url := where.base_url or service.fixed_address) is None:
            raise BadConfig(f"{service.name}:{name} has another address for every customer; give yours as base_url")
        key_name = service.key_names[0] if service.key_names else ""
        return OpenAIChat(name, url, where.key, where.timeouts, where.routes, key_name)

    return open_service


def opener_of(provider: str) -> Open | None:
    """Who opens the models of a provider: ours, or that of an installed package."""
    if (ours := PROVIDERS.get(provider)) is not None:
        return ours
    if (service := SERVICES.get(provider)) is not None:
        return _opener_for(service)
    from ronda._plugins import plugin

    found: Open | None = plugin(_GROUP, provider)
    if found is not None and not callable(found):
        raise BadConfig(f"what is installed for the provider '{provider}' cannot be called: {found!r:.200}")
    return found


def key_names(provider: str) -> tuple[str, ...] | None:
    """The environment variables that may hold a provider's key; None if it needs none."""
    if provider in PROVIDERS:
        return KEY_NAMES.get(provider)
    if (service := SERVICES.get(provider)) is not None:
        return service.key_names or None
    return getattr(opener_of(provider), "key_names", None)


def url_name(provider: str) -> str | None:
    """The environment variable that may hold a provider's address."""
    if provider in PROVIDERS:
        return URL_NAMES.get(provider)
    if provider in SERVICES:
        return None  # `Service.address_in` reads it: such variables hold more than addresses
    return getattr(opener_of(provider), "url_name", None)


def split_spec(spec: str) -> tuple[str, str]:
    """'openai-chat:NAME' → ('openai-chat', 'NAME')."""
    provider, colon, name = spec.partition(":")
    if not colon or not name or opener_of(provider) is None:
        from ronda._plugins import plugin_names
        from ronda.providers.misspelt import meant_model

        known = sorted({*PROVIDERS, *plugin_names(_GROUP)})
        hint = (
            meant_model(spec, [*known, *SERVICES])
            or f"name one as PROVIDER:MODEL with one of {', '.join(f'{one}:…' for one in known)}, "
            f"or with a service: {', '.join(SERVICES)}"
        )
        raise BadConfig(f"no model can be found under {spec!r}; {hint}")
    return provider, name


def open_provider(spec: str, where: Where) -> Provider:
    provider, name = split_spec(spec)
    if where.base_url is not None:
        _check_address(where.base_url)
    open_model = opener_of(provider)
    assert open_model is not None  # the spec was just read
    opened = open_model(name, where)
    if provider != "script":  # what a file says has no price
        from ronda.providers.prices import priced

        opened = priced(opened, provider, name, where.base_url)
    if where.vision if where.vision is not None else sees(provider, name):
        return opened
    from ronda.providers.vision import TextOnly  # most models see

    return TextOnly(opened)


def open_local_embedder(name: str) -> Embedder:
    """A model of embeddings on this machine: `MINILM`, or a file as `local:` names it. Raises BadConfig."""
    from ronda._islands import island_module

    local = island_module("ronda.local.embedder")
    opened: Embedder = local.LocalEmbedder(local.embedding_file(name))
    return opened


def _check_address(url: str) -> None:
    from ronda.providers.http.address import Address, without_secrets

    try:
        Address(url)
    except ValueError as error:
        raise BadConfig(f"the model's address is {without_secrets(url)!r}: {error}") from error

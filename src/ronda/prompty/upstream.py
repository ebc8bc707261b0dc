"""A file's model → where it is: a model spec of ours, an address and a key; or a provider that the host registered.

    provider   apiType     spec                      provider                     spec
    openai     chat        openai-chat:ID            anthropic                    anthropic:ID
    openai     responses   openai:ID                 gemini, google               gemini:ID
    azure      the same, at the connection's         mistral, local, script       as they are called here
    foundry      endpoint                            none, and `provider:name`    the id itself is the spec
    groq, ollama and other services (`providers.services`) as they are called there

A provider that is none of these is one of an installed package, or is looked for among the registered executors. The
author of a file must not get a key that it does not hold: the key of the environment goes to the provider's own address only,
never to one that a file names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct

from ronda._suggest import did_you_mean
from ronda.core.plan import Options, ResponseFormat
from ronda.prompty.components import get_executor
from ronda.prompty.connections import endpoint_of, grant_of, key_of, resolve_connection
from ronda.prompty.errors import BadPrompty, InvokerError
from ronda.prompty.model import API_TYPES, Connection, Model, ModelOptions, Prompty
from ronda.prompty.parameters import parameters_of
from ronda.prompty.references import Roots
from ronda.providers import PROVIDERS, opener_of
from ronda.providers.grants import Grant
from ronda.providers.services import SERVICES, dialect_of

if TYPE_CHECKING:
    from ronda.drive import Provider


Api: TypeAlias = Literal["chat", "responses", "embedding", "image"]

NO_KEY: Final = ""  # none at all, where None would be the environment's

_OPENAI: Final = ("openai", "openai-chat")
_AZURE: Final = ("azure", "azure_openai", "azure-openai", "azureopenai", "foundry", "azure_ai", "azure-ai")
_OTHER_NAMES: Final = {"google": "gemini", "google_ai": "gemini", "vertex": "gemini", "claude": "anthropic"}
_HOSTS: Final = {
    "openai": "api.openai.com",
    "openai-chat": "api.openai.com",
    "anthropic": "api.anthropic.com",
    "gemini": "generativelanguage.googleapis.com",
    "mistral": "api.mistral.ai",
}
_SAMPLING_VERSION: Final = "anthropic-version=2023-06-01"


class Upstream(Struct, frozen=True):
    """`key` of None is the environment's, `NO_KEY` is none. `provider` is there when the host brought it in itself."""

    spec: str
    model: str
    api: Api
    base_url: str | None = None
    key: str | None = None
    provider: Any = None
    grant: Grant | None = None  # how to get a key, where the file has none itself

    def __repr__(self) -> str:
        """Without the key: this ends up in logs and tracebacks."""
        return f"Upstream({self.spec!r}, {self.api!r}, {self.base_url!r})"

    @property
    def kind(self) -> str:
        """Which of our providers: `openai-chat`, `anthropic`, …; of a service, whose dialect it speaks."""
        return dialect_of(self.spec.partition(":")[0])


def upstream_of(prompty: Prompty) -> Upstream:
    model = prompty.model
    if model is None:
        raise BadPrompty(
            f"{_model_name(prompty)} names no model; give it one: `model: openai-chat:NAME`", path=prompty.path
        )
    if model.api_type not in API_TYPES:
        raise BadPrompty(f"Unsupported API type: {model.api_type}", path=prompty.path, field="model.apiType")
    connection = resolve_connection(model.connection) if model.connection is not None else None
    if connection is not None and not isinstance(connection, Connection):
        return Upstream(_spec(model, prompty), model.id, _api(model), provider=connection)
    if not model.id:
        raise BadPrompty(
            f"{_model_name(prompty)} names no model; `model.id` is empty", path=prompty.path, field="model.id"
        )
    if _is_foreign(model):
        return Upstream(f"{model.provider}:{model.id}", model.id, _api(model), provider=_executor(model))
    spec = _spec(model, prompty)
    kind, _, name = spec.partition(":")
    api = _api(model)
    if kind == "openai" and api == "chat":  # a spec of ours that says so itself
        api = "responses"
    _must_be_there(kind, api)
    base_url, key = _where(model, connection, kind)
    if kind == "anthropic" and _samples(model):
        base_url = _asking_for(base_url, _SAMPLING_VERSION)
    return Upstream(spec, name, api, base_url, key, grant=grant_of(connection, "model.connection") if not key else None)


def provider_of(model: Model | None) -> str:
    """Whose JSON a model speaks. A file that says nothing means OpenAI, as the reference has it."""
    provider = model.provider if model is not None else None
    if not provider and model is not None and ":" in model.id and (opener_of(prefix := model.id.partition(":")[0])):
        return prefix
    provider = (provider or "openai").lower()
    return _OTHER_NAMES.get(provider, provider)


def speaks_openai(provider: str) -> bool:
    return provider in _OPENAI or provider in _AZURE


def _model_name(prompty: Prompty) -> str:
    return f"the file '{prompty.path}'" if prompty.path else f"the prompty '{prompty.name}'"


def _api(model: Model) -> Api:
    return model.api_type  # type: ignore[return-value]  # it was looked for in API_TYPES


def _is_foreign(model: Model) -> bool:
    provider = provider_of(model)
    return not speaks_openai(provider) and opener_of(provider) is None


def _executor(model: Model) -> Provider:
    try:
        made = get_executor(model.provider or "")
    except InvokerError as error:
        hint = did_you_mean(model.provider or "", (*PROVIDERS, *SERVICES, "azure", "foundry"))
        raise InvokerError("; ".join(part for part in (str(error), hint) if part)) from None
    if not hasattr(made, "call"):
        raise BadPrompty(
            f"the executor registered for '{model.provider}' has no `call(request, show)`: it is made for another runtime"
        )
    return made  # type: ignore[no-any-return]  # what it needs was just looked for


def _spec(model: Model, prompty: Prompty) -> str:
    provider = provider_of(model)
    name = model.id
    if not model.provider and name.startswith(f"{provider}:"):
        name = name.removeprefix(f"{provider}:")
    elif speaks_openai(provider):
        provider = "openai" if model.api_type == "responses" else "openai-chat"
    if provider == "script":
        name = _script(name, prompty)
    return f"{provider}:{name}"


def _script(path: str, prompty: Prompty) -> str:
    """Next to the file that names it, like everything else that a file names."""
    if prompty.path is None:
        return path
    from pathlib import Path

    try:
        return str(Roots(Path(prompty.path).parent).find(path))
    except BadPrompty as error:
        error.path, error.field = prompty.path, "model"
        raise


def _must_be_there(kind: str, api: Api) -> None:
    if api == "chat":  # all of them do
        return
    allowed = {"responses": ("openai",), "embedding": ("openai-chat", "mistral"), "image": ("openai-chat",)}[api]
    if dialect_of(kind) not in allowed:
        raise BadPrompty(f"Unsupported API type: {api}", field="model.apiType")


def _where(model: Model, connection: Connection | None, kind: str) -> tuple[str | None, str | None]:
    provider = (model.provider or "").lower()
    endpoint, key = endpoint_of(connection), key_of(connection)
    if provider in _AZURE:
        if not endpoint:
            raise BadPrompty(f"the provider '{provider}' needs a connection with an endpoint", field="model.connection")
        return _azure(endpoint), key or NO_KEY
    if connection is not None and connection.kind == "anonymous":
        return endpoint, NO_KEY
    if key is None and endpoint and urlsplit(endpoint).hostname != _own_host(kind):
        key = NO_KEY
    return endpoint, key


def _own_host(kind: str) -> str | None:
    service = SERVICES.get(kind)
    return _HOSTS.get(kind) if service is None else service.host


def _azure(endpoint: str) -> str:
    """A bare resource or project gets the path of its newest interface; an address that says more is taken as it is."""
    address, question, query = endpoint.partition("?")
    address = address.rstrip("/")
    if "/openai" not in urlsplit(address).path and not address.endswith(("/v1", "/completions", "/responses")):
        address += "/openai/v1"
    return address + question + query


def _samples(model: Model) -> bool:
    """Asks for something that only the older version of Anthropic's interface takes."""
    options = model.options
    return options is not None and any(
        value is not None for value in (options.temperature, options.top_p, options.top_k)
    )


def _asking_for(base_url: str | None, query: str) -> str:
    address = base_url or "https://api.anthropic.com"
    if "anthropic-version=" in address:
        return address
    return f"{address}{'&' if '?' in address else '?'}{query}"


# A file's model options → the loop's options, in the words of the provider that is asked.
#
# What a provider has no equivalent of is left out without a sound, as the specification has it; `additionalProperties` go out as
# they are and override nothing. `stream` among them is the file's wish for a stream, and no field of a request.

ANTHROPIC_TOKENS: Final = 4096  # the specification's default, where the wire would ask for what the model allows
STRUCTURED: Final = "structured_output"

_encode = msgspec.json.Encoder().encode

# Sent under these names besides what the loop has words of its own for.
_PENALTIES: Final = ("frequency_penalty", "presence_penalty")
_EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "openai-chat": _PENALTIES,
    "openai": (),
    "anthropic": ("top_k",),
    "gemini": ("top_k", *_PENALTIES),
    "mistral": _PENALTIES,
    "mistral-agent": _PENALTIES,
    "local": ("top_k", *_PENALTIES),
}
_ALL: Final = ("top_k", *_PENALTIES)


def options_of(prompty: Prompty, kind: str) -> Options:
    """`kind` is the provider of ours that is asked: `openai-chat`, `anthropic`, …"""
    options = _model_options(prompty.model)
    extra: dict[str, Raw] = {}
    for name in _EXTRAS.get(kind, _ALL):
        if (value := getattr(options, name)) is not None:
            extra[name] = Raw(_encode(value))
    limit = options.max_output_tokens
    if limit is not None and kind == "openai-chat":
        extra["max_completion_tokens"] = Raw(_encode(limit))  # never the deprecated max_tokens
    if limit is None and kind == "anthropic":
        limit = ANTHROPIC_TOKENS
    takes_more = kind != "openai"  # the Responses API has no equivalent of these
    known = Options(
        max_tokens=limit,
        temperature=options.temperature,
        top_p=options.top_p,
        stop=(options.stop_sequences or ()) if takes_more else (),
        seed=options.seed if takes_more else None,
        parallel_tool_calls=options.allow_multiple_tool_calls,
        response_format=response_format_of(prompty),
    )
    more = {name: Raw(_encode(value)) for name, value in _additional(options).items()}
    extra = {**{name: value for name, value in more.items() if name not in _known_names(options, prompty)}, **extra}
    return msgspec.structs.replace(known, extra=extra) if extra else known


def response_format_of(prompty: Prompty) -> ResponseFormat | None:
    if not prompty.outputs:
        return None
    schema = Raw(_encode(parameters_of(prompty.outputs, strict=True)))
    return ResponseFormat("json_schema", STRUCTURED, schema, strict=True)


def wants_stream(prompty: Prompty) -> bool:
    return _model_options(prompty.model).additional_properties.get("stream") is True


def additional(prompty: Prompty) -> dict[str, Any]:
    """What goes out as it is."""
    return _additional(_model_options(prompty.model))


def _model_options(model: Model | None) -> ModelOptions:
    return model.options if model is not None and model.options is not None else ModelOptions()


def _additional(options: ModelOptions) -> dict[str, Any]:
    return {name: value for name, value in options.additional_properties.items() if name != "stream"}


# The names in a request of each option that the file may say under its own: additional properties override nothing.
_NAMES: Final = {
    "max_output_tokens": ("max_tokens", "max_completion_tokens", "max_output_tokens"),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "top_k": ("top_k",),
    "frequency_penalty": ("frequency_penalty",),
    "presence_penalty": ("presence_penalty",),
    "stop_sequences": ("stop", "stop_sequences"),
    "seed": ("seed",),
    "allow_multiple_tool_calls": ("parallel_tool_calls",),
}
_OF_THE_REQUEST: Final = frozenset({"model", "messages", "input", "tools", "stream_options"})


def _known_names(options: ModelOptions, prompty: Prompty) -> frozenset[str]:
    names = {name for option, names in _NAMES.items() if getattr(options, option) is not None for name in names}
    return _OF_THE_REQUEST | names | ({"response_format"} if prompty.outputs else set())

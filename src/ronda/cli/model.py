"""Which model a command asks, and what is known about it before it is called: that its key is missing, or that its address is
not for it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ronda.agent import where_is
from ronda.agent.value import missing_key
from ronda.cli.flags import DEFAULT_MODEL
from ronda.cli.preferences import usual_model
from ronda.core.plan import Options
from ronda.errors import BadConfig
from ronda.providers import KEY_NAMES, PROVIDERS, key_names, split_spec

if TYPE_CHECKING:
    from ronda.prompty.model import Prompty

_HOTTEST: Final = 2  # OpenAI's, Gemini's; others stop at 1 or 1.5, and say so themselves


def choose_model(model: str | None, base_url: str | None) -> tuple[str, str | None]:
    """The model and its address: what the flags say, else RONDA_MODEL and RONDA_BASE_URL, else what the person's own settings
    file has (`cli.preferences`), else the small local model."""
    usual = os.environ.get("RONDA_MODEL") or None
    if model is None and usual is None:
        kept, address = usual_model()
        if kept is not None:
            return kept, base_url or usual_address(kept, None) or address
    chosen = model if model is not None else usual or DEFAULT_MODEL
    return chosen, base_url if base_url is not None else usual_address(chosen, usual)


def usual_address(model: str, usual: str | None) -> str | None:
    """RONDA_BASE_URL, as far as it is for this model. It goes with `usual`, the model of RONDA_MODEL: a model of another
    provider would send its own key there."""
    provider, _ = split_spec(model)
    if provider in PROVIDERS and provider not in KEY_NAMES:
        return None  # it runs on this machine
    if usual is not None and split_spec(usual)[0] != provider:
        return None
    return os.environ.get("RONDA_BASE_URL") or None


def sampling_of(arguments: argparse.Namespace) -> Options:
    """How the model is to choose its words, as far as flags and settings say."""
    if arguments.max_tokens is not None and arguments.max_tokens < 1:
        raise BadConfig(f"--max-tokens is {arguments.max_tokens}; it must be at least 1")
    if arguments.temperature is not None and not 0 <= arguments.temperature <= _HOTTEST:
        raise BadConfig(f"--temperature is {arguments.temperature:g}; it is between 0 and {_HOTTEST}")
    return Options(max_tokens=arguments.max_tokens, temperature=arguments.temperature)


def check_model(spec: str, base_url: str | None) -> None:
    provider, _ = split_spec(spec)
    if provider in PROVIDERS and provider not in KEY_NAMES:
        if base_url is not None:
            raise BadConfig(f"--base-url is for models on a server, and {spec} runs on this machine")
        return
    if (key := missing_key(spec, where_is(spec, base_url))) is not None:
        raise BadConfig(f"{spec} needs a key: set {key}, or name a server of your own with --base-url")


def check_file_model(prompty: Prompty, env: Mapping[str, str] | None) -> None:
    """The same for the model of a file. `env` is what its references are looked up in."""
    from ronda.prompty.upstream import upstream_of  # a server without files has no use for it

    upstream = upstream_of(prompty)
    names = key_names(split_spec(upstream.spec)[0]) if upstream.provider is None else None
    if names is None or upstream.grant is not None or upstream.key is not None:
        return
    variable = next((name for name in names if (env or {}).get(name)), None)
    try:
        check_model(upstream.spec, upstream.base_url)
    except BadConfig:
        if variable is None:
            raise
        raise BadConfig(
            f"{upstream.spec} needs a key: the .env file has {variable}, but is read for references of the file only; "
            f"write `connection: {{kind: key, apiKey: '${{env:{variable}}}'}}` below its model, or set the variable"
        ) from None

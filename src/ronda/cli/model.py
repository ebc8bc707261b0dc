"""What can be told of a model before it is called: that its key is missing, or that its address is not for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ronda.agent import where_is
from ronda.agent.value import missing_key
from ronda.errors import BadConfig
from ronda.providers import KEY_NAMES, PROVIDERS, key_names, split_spec

if TYPE_CHECKING:
    from ronda.prompty.model import Prompty


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
    names = key_names(upstream.kind) if upstream.provider is None else None
    if names is None or upstream.grant is not None or upstream.key is not None:
        return
    variable = next((name for name in names if (env or {}).get(name)), None)
    try:
        check_model(upstream.spec, upstream.base_url)
    except BadConfig:
        if variable is None:
            raise
        raise BadConfig(
            f"{upstream.spec} needs a key: the .env file has {variable}, but is read for references of the file alone; "
            f"write `connection: {{kind: key, apiKey: '${{env:{variable}}}'}}` below its model, or set the variable"
        ) from None

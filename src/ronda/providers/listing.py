"""Which models a provider has: where each keeps its list, and how it wants to be asked for it."""

from __future__ import annotations

from ronda.errors import BadRequest
from ronda.providers.http import bearer, endpoint
from ronda.providers.http.transport import Routes
from ronda.providers.mistral import DEFAULT_URL as MISTRAL
from ronda.providers.openai_data import DEFAULT_URL, get


async def list_of(kind: str, base_url: str | None, key: str | None, routes: Routes | None = None) -> bytes:
    """The list as the provider writes it. Raises UpstreamError."""
    match kind:
        case "anthropic":
            address = (base_url or "https://api.anthropic.com").partition("?")[0].rstrip("/").removesuffix("/messages")
            path = "/models" if address.endswith("/v1") else "/v1/models"
            headers = {"anthropic-version": "2023-06-01"}
            return await get(address + path, headers if key is None else {**headers, "x-api-key": key}, routes=routes)
        case "mistral" | "mistral-agent":
            return await get(endpoint(base_url or MISTRAL, "/models"), bearer("", key), routes=routes)
        case "openai" | "openai-chat":
            return await get(endpoint(base_url or DEFAULT_URL, "/models"), bearer(base_url or "", key), routes=routes)
        case _:
            raise BadRequest(f"the provider '{kind}' lists no models over HTTP; `ronda models` lists the local ones")

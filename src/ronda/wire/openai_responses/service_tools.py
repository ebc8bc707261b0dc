"""A request in front of an upstream of this API: the hosted tools that the upstream's own service is to run, as they came.

What of a declaration is secret (the token and headers of an MCP server, the query of its address) is kept apart from it:
tools are journaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from ronda.core.parts import NULL
from ronda.core.plan import EGRESS, ToolChoice, ToolSpec
from ronda.wire.codec.json import decode_members, decode_text
from ronda.wire.openai_responses import API
from ronda.wire.openai_responses.client_calls import APPROVAL
from ronda.wire.openai_responses.server_request import ResponseRequest
from ronda.wire.openai_responses.tools import CODE_TOOLS
from ronda.wire.shared.capabilities import Need, hosted_labels
from ronda.wire.shared.door_request import Secrets
from ronda.wire.shared.mcp_servers import without_secrets
from ronda.wire.shared.supplies import ANY_CONTAINER, read_place

_SECRET: Final = ("authorization", "headers")


def for_service(request: ResponseRequest, here: Sequence[Need]) -> ResponseRequest:
    """`here` are the needs that are met on this server; what else was declared is for the service."""
    theirs = [need for need in request.needs if need.native != NULL and need not in here]
    if not theirs:
        return request
    specs: list[ToolSpec] = []
    secrets: dict[str, Raw] = {}
    for need in theirs:
        name = _name(need, request.choice)
        native = without_secrets(need.native, _SECRET, "server_url")
        specs.append(
            ToolSpec(name, kind="caller", native=native, native_api=API, is_hosted=True, labels=_labels_of(need))
        )
        if native != need.native:
            secrets[name] = need.native
    labels = {need.server.label for need in theirs if need.server is not None}
    if labels and not any(tool.name == APPROVAL for tool in request.tools):  # what the service may ask the client
        specs.append(ToolSpec(APPROVAL, kind="caller", native_api=API, is_hosted=True))
    servers = dict(zip(_labels(request.answer.servers), request.answer.servers, strict=True))
    answer = replace(
        request.answer,
        servers=tuple([raw for label, raw in servers.items() if label not in labels]),
        hosted=(*request.answer.hosted, *[raw for label, raw in servers.items() if label in labels]),
    )
    # A choice of the service's tool is for the service; whatever else a choice needs must be had here.
    names = {need.name for need in theirs}
    needs = [need for need in request.needs if need not in theirs and not (need.native == NULL and need.name in names)]
    places = [
        read_place(need.native, need.path.removesuffix(".type"))
        for need in needs
        if need.name in CODE_TOOLS and need.native != NULL
    ]
    return replace(
        request,
        tools=(*request.tools, *specs),
        needs=tuple(needs),
        container=reduce(or_, places) if places else ANY_CONTAINER,
        options=replace(request.options, native={**request.options.native, **request.service_fields}, native_api=API),
        secrets=Secrets(declarations=secrets) if secrets else None,
        answer=answer,
    )


def _name(need: Need, choice: ToolChoice) -> str:
    """What the loop calls it: as a choice does that names it."""
    if need.server is None:
        return need.called
    name = f"{need.called}/{need.server.label}"
    return next((one for one in choice.names if one.startswith(f"{name}/")), name)


def _labels_of(need: Need) -> tuple[str, ...]:
    """No request gives code a network; a container that was made before may have one. What a server's calls send out, the
    service asks the client about, where the request says so for all of them."""
    labels = hosted_labels(need.hosted)
    if need.server is not None and need.server.always_is_asked:
        return tuple([label for label in labels if label != EGRESS])
    if need.name in CODE_TOOLS and read_place(need.native, need.path.removesuffix(".type")).id:
        return (*labels, EGRESS)
    return labels


def _labels(servers: Sequence[Raw]) -> list[str]:
    return [decode_text(decode_members(raw)["server_label"]) for raw in servers]

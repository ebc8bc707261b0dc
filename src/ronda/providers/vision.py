"""Models that cannot see, and a provider for them that is never sent an image.

What a name tells is little and grows old: only names that are known to be blind are here, and `Where.vision` says it for
any other. A model that nobody knows anything of gets the image, and says so itself if it cannot.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from msgspec import structs

from ronda.core.events import ModelFinished
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Provider, Show, capabilities_of
from ronda.drive.contracts import CallMany, Project
from ronda.providers.services import dialect_of
from ronda.wire.projection import Projection
from ronda.wire.vision import Unseen

_BLIND: Final = {
    "anthropic": re.compile(r"claude-(2|instant)"),
    "mistral": re.compile(
        r"(open-)?(codestral|mathstral|mistral-(7b|tiny|nemo|moderation|embed)|mixtral|ministral-[38]b-2410)"
    ),
    "openai": re.compile(r"(ft:)?(gpt-3|gpt-4(-\d{4}|-32k.*)?$|o1-(mini|preview)|o3-mini)"),
    "openai-chat": re.compile(
        r"(.*/)?(ft:)?(gpt-3|gpt-4(-\d{4}|-32k.*)?$|o1-(mini|preview)|o3-mini|gpt-oss|deepseek-(chat|reasoner|r1|v3)"
        r"|llama-?3(\.[123])?-(1b|3b|8b|70b|405b)|mixtral|qwen[23](\.5)?-\d)"
    ),
    "local": re.compile(r""),  # the engine is used for text alone
}
_SCRATCH: Final = "unseen"


def sees(provider: str, name: str) -> bool:
    blind = _BLIND.get(dialect_of(provider))
    return blind is None or blind.match(name.lower()) is None


class TextOnly:
    """Any provider, for a model that cannot see. All else about it is the provider's own."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    @property
    def capabilities(self) -> Capabilities:
        able = capabilities_of(self._provider)
        call_many = able.call_many and partial(_call_many, able.call_many)
        return structs.replace(able, call_many=call_many, project=partial(_project, able.project))

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        unseen = _unseen(request)
        shown = structs.replace(request, turns=unseen.turns(request.turns))
        return _with_warning(await self._provider.call(shown, show), unseen)


async def _call_many(call_many: CallMany, request: ModelRequest, shows: list[Show]) -> list[ModelFinished]:
    unseen = _unseen(request)
    finished = await call_many(structs.replace(request, turns=unseen.turns(request.turns)), shows)
    return [_with_warning(finished[0], unseen), *finished[1:]]


def _project(project: Project | None, request: ModelRequest) -> Projection:
    """A model without a wire is sent nothing."""
    unseen = _unseen(request)
    shown = structs.replace(request, turns=unseen.turns(request.turns))
    made = Projection(b"null") if project is None else project(shown)
    return structs.replace(made, changes=(*unseen.changes.found, *made.changes))


def _unseen(request: ModelRequest) -> Unseen:
    unseen = request.scratch.get(_SCRATCH)
    if not isinstance(unseen, Unseen):
        unseen = request.scratch[_SCRATCH] = Unseen()
    return unseen


def _with_warning(finished: ModelFinished, unseen: Unseen) -> ModelFinished:
    if not unseen.changes.found:
        return finished
    return structs.replace(finished, warnings=(*unseen.changes.warnings, *finished.warnings))

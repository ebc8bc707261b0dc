"""What is asked for → runs that build a page: the tools of each, and the page that it begins with.

A run keeps what its project began with, and its finished calls say what they made of it. So a process that resumes a run, or
looks at it, has the page as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw
from msgspec.structs import replace

from ronda.core.events import Event, RunStarted
from ronda.core.parts import Image, Turn, UserTurn
from ronda.drive import Provider, Tool
from ronda.errors import BadRequest
from ronda.providers.vision import TextOnly
from ronda.server.answering.opening import Job
from ronda.server.features.app_stream.page import Page, builds_page, page_of
from ronda.server.features.contract import Reopening
from ronda.server.http.incoming import Incoming
from ronda.server.services.models import Target, TargetOpening
from ronda.tools.page import PageProject, page_tools
from ronda.wire.app_stream.messages import AppOptions
from ronda.wire.codec.json import encode
from ronda.wire.shared.door_request import DoorRequest

if TYPE_CHECKING:
    from ronda.server.features.app_stream.state import AppState

# What a request may say of the host that it asks: a name or a number, and a port.
_HOST: Final = re.compile(r"[A-Za-z0-9.\-]{1,255}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
ROUNDS: Final = 20  # of tools: then the model is asked for its last word, and the page is what there is


def page_job(state: AppState, request: DoorRequest, target: Target, page: Page, variant: int = 0) -> Job:
    """A run that has the page's tools, and no others."""
    if target.is_agent:
        raise BadRequest(
            f"a page is built by a model; '{target.name}' is an agent with tools of its own", param="model"
        )
    code = page.files.get(page.main, "")
    request = replace(
        request,
        model="",
        max_tool_rounds=min(ROUNDS, state.settings.max_tool_rounds_ceiling),
        answer=AppOptions(variant=variant, path=page.main, code=code),
        about={**request.about, Page.key: Raw(encode(page))},
    )
    return Job(request, replace(target, opener=partial(_open_page, state, page, target.provider)))


async def _open_page(
    state: AppState, page: Page, provider: Provider, turns: tuple[Turn, ...], inputs: Mapping[str, Any]
) -> TargetOpening:
    return TargetOpening(turns, tuple(_tools(state, page, provider, turns)), exclusive=True)


def _tools(
    state: AppState, page: Page, provider: Provider, turns: Sequence[Turn], events: Sequence[Event] = ()
) -> list[Tool]:
    project = PageProject(
        page.files,
        page.main,
        options=partial(_pages_of, state, page.siblings) if page.siblings else page.options,
        images=_pictures(turns),
        image_generation=page.image_generation,
        asset_extraction=page.asset_extraction,
        base_url=page.base_url,
    )
    vision = None if isinstance(provider, TextOnly) else provider
    return page_tools(project.restored(events) if events else project, state.services, vision)


def _pictures(turns: Sequence[Turn]) -> list[str]:
    """What the user has shown, each once."""
    parts = [part for turn in turns if isinstance(turn, UserTurn) for part in turn.parts]
    return list(dict.fromkeys([part.url for part in parts if isinstance(part, Image)]))


async def _pages_of(state: AppState, runs: Sequence[str]) -> list[str]:
    found = [await state.journal.read(run) for run in runs]
    return [project.code if (project := project_of(events)) is not None else "" for events in found]


# ---- a run that was begun before -------------------------------------------------------------------------------------


def project_of(events: Sequence[Event]) -> PageProject | None:
    """The page of a run, as its finished calls have left it; None for a run that builds none."""
    start = events[0] if events else None
    if type(start) is not RunStarted or not builds_page(start):
        return None
    page = page_of(start)
    return PageProject(page.files, page.main).restored(events)


async def reopen_page(state: AppState, start: RunStarted, events: Sequence[Event]) -> Reopening:
    """What such a run is driven with, wherever it goes on."""
    target = await state.models.find_named(start.plan.model)
    tools = _tools(state, page_of(start), target.provider, start.turns, events)
    return Reopening(target.provider, {tool.spec.name: tool for tool in tools})


# ---- where pages find what this server serves --------------------------------------------------------------------------


def public_address(public: str | None, incoming: Incoming) -> str:
    """`public` is what the settings say. "" where the request names no host that could be one: addresses are then relative to
    the page's own."""
    if public is not None:
        return public.rstrip("/")
    host = incoming.header(b"host") or ""
    scheme = "https" if incoming.scheme in ("wss", "https") else "http"
    return f"{scheme}://{host}" if _HOST.fullmatch(host) else ""

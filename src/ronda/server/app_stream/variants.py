"""What is asked for → a group of sibling runs, one for each variant, that are journaled and wait to be driven.

A group is named after its first run: `group_ab12` is that of `run_ab12`, and each of its runs knows the names of all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.events import Event, RunFinished, RunStarted
from ronda.core.parts import Turn
from ronda.drive import Tool
from ronda.host.run import LiveRun
from ronda.server.answers import about_siblings
from ronda.server.models import Target, TargetOpening
from ronda.server.opening import Job, open_runs
from ronda.server.runs import new_id
from ronda.tools.page import PageProject, page_tools
from ronda.wire.app_stream.messages import AppOptions
from ronda.wire.door_request import DoorRequest
from ronda.wire.json import encode

if TYPE_CHECKING:
    from ronda.server.app import Server

ROUNDS = 20  # of tools: then the model is asked for its last word, and the page is what there is


class Page(Struct, frozen=True, omit_defaults=True):
    """What the project of a variant begins with. A run keeps it, so that whoever goes on with the run has it."""

    key: ClassVar[str] = "page"

    files: dict[str, str] = {}
    main: str = "index.html"
    options: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    image_generation: bool = True
    asset_extraction: bool = True
    base_url: str = ""

    @property
    def project(self) -> PageProject:
        return PageProject(
            self.files,
            self.main,
            options=self.options,
            images=self.images,
            image_generation=self.image_generation,
            asset_extraction=self.asset_extraction,
            base_url=self.base_url,
        )


def page_of(start: RunStarted) -> Page | None:
    kept = start.about.get(Page.key)
    return None if kept is None else msgspec.json.decode(kept, type=Page)


def reopened_tools(server: Server, start: RunStarted, events: Sequence[Event]) -> dict[str, Tool]:
    """The tools of a run that was begun before, with the page as its finished calls have left it."""
    page = page_of(start)
    if page is None:
        return {}
    return {tool.spec.name: tool for tool in page_tools(page.project.restored(events), server.app_stream.services)}


async def open_variants(
    server: Server,
    owner: str,
    turns: tuple[Turn, ...],
    targets: Sequence[Target],
    page: Page,
    request: Mapping[str, Any],
) -> list[LiveRun]:
    """One run for each target. `request` are members of `DoorRequest` beside."""
    names = [new_id("run") for _ in targets]
    lives: list[LiveRun] = []
    for index, target in enumerate(targets):
        tools = tuple(page_tools(page.project, server.app_stream.services))
        code = page.files.get(page.main, "")
        asked = DoorRequest(
            model="",
            turns=turns,
            max_tool_rounds=min(ROUNDS, server.config.max_tool_rounds_ceiling),
            answer=AppOptions(variant=index, path=page.main, code=code),
            about={Page.key: Raw(encode(page)), **about_siblings(names)},
            **request,
        )

        async def open_page(
            turns: tuple[Turn, ...], inputs: Mapping[str, Any], tools: tuple[Tool, ...] = tools
        ) -> TargetOpening:
            return TargetOpening(turns, tools, exclusive=True)

        try:
            lives += await open_runs(server, owner, Job(asked, replace(target, opener=open_page)), names[index])
        except BaseException:
            for live in lives:  # no group is half there
                live.end(RunFinished("cancelled", message="another variant could not be opened", at=time.time()))
            raise
    return lives

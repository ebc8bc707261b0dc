"""Pages are read in a process of their own: a hostile one is ended, whatever walls this machine has, and hurts no other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from tests.tools.api_server import Api
from tests.tools.test_fetch_pages import ARTICLE, LOCAL

from ronda.sandbox.layers import Layers, choose_layer, find_layers
from ronda.sandbox.policy import Policy
from ronda.sandbox.processes import tree
from ronda.tools.fetch.fetcher import Fetcher, FetchFailed
from ronda.tools.fetch.page_worker import PageWorkers
from ronda.tools.fetch.pages import PageReader

# Its parser compares each attribute with all before it: minutes, in C.
HOSTILE = "<html><body><p " + " ".join([f"a{number}=1" for number in range(300_000)]) + ">x</p></body></html>"


def without(layer: str) -> Layers:
    """This machine, as it would be without some of what it has."""
    found = find_layers()
    match layer:
        case "bubblewrap":
            return Layers(landlock=found.landlock, seccomp=found.seccomp, cgroup=found.cgroup)
        case "any":
            return Layers()
    return found


@pytest.fixture(params=["nothing", "bubblewrap", "any"])
def workers(request: pytest.FixtureRequest) -> Callable[..., PageWorkers]:
    return partial(PageWorkers, layers=without(request.param))


def reader(make_workers: Callable[[], PageWorkers]) -> PageReader:
    return PageReader(Fetcher(LOCAL), heeds_robots=False, interval=0.0, make_workers=make_workers)


@pytest.fixture
def nothing_is_left() -> Callable[[], bool]:
    """No process that this test started is there any more. Others of the same worker may have left some."""
    before = set(tree(os.getpid()))
    return lambda: set(tree(os.getpid())) <= before


@pytest.fixture(autouse=True)
def pages(api: Api) -> None:
    for path, text in {"/a": ARTICLE, "/hostile": HOSTILE}.items():
        api.answers[path] = web.Response(text=text, content_type="text/html")


async def test_a_hostile_page_is_ended_and_another_is_read_meanwhile(
    api: Api, workers: Callable[..., PageWorkers], nothing_is_left: Callable[[], bool]
) -> None:
    reading = reader(partial(workers, seconds=3.0))
    hostile = asyncio.create_task(reading.read(f"{api.url}/hostile"))
    page = await reading.read(f"{api.url}/a")
    with pytest.raises(FetchFailed, match="too much time or memory"):
        await hostile

    assert (page.title, "Knead the dough" in page.text) == ("Bread & butter", True)
    assert nothing_is_left()


async def test_a_process_that_was_ended_is_replaced(
    api: Api, workers: Callable[..., PageWorkers], nothing_is_left: Callable[[], bool]
) -> None:
    reading = reader(partial(workers, seconds=3.0, linger=600.0))
    with pytest.raises(FetchFailed):
        await reading.read(f"{api.url}/hostile")
    pages = [(await reading.read(f"{api.url}/a")).title for _ in range(3)]
    await reading.close()

    assert pages == ["Bread & butter"] * 3
    assert nothing_is_left()


async def test_one_that_stays_ready_reads_page_after_page(api: Api) -> None:
    """One process for all of them."""
    before = set(tree(os.getpid()))
    reading = reader(partial(PageWorkers, linger=600.0))
    await reading.read(f"{api.url}/a")
    first = [pid for pid in tree(os.getpid()) if pid not in before]
    for _ in range(5):
        await reading.read(f"{api.url}/a")
    later = [pid for pid in tree(os.getpid()) if pid not in before]
    await reading.close()

    assert first
    assert later[:1] == first[:1]  # what each page had for itself may not be gone yet


async def test_a_reader_that_gives_up_leaves_no_process_behind(api: Api, nothing_is_left: Callable[[], bool]) -> None:
    reading = reader(partial(PageWorkers, seconds=600.0))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2.0):
            await reading.read(f"{api.url}/hostile")
    assert nothing_is_left()


@pytest.mark.parametrize("layer", ["nothing", "bubblewrap"])
def test_walls_are_used_where_there_are_some(layer: str) -> None:
    """As they are for code: what is tried above is not a process without any."""
    found: Any = without(layer)
    if found.bwrap is None and found.landlock < 6 and not (found.landlock >= 2 and os.getuid() == 0):
        pytest.skip("this machine has none")
    assert choose_layer(Policy(), found).layer != "off"

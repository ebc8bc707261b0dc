"""An address → the title and text of its page, read as a polite visitor reads: after `robots.txt`, and one page at a time.

Robots are asked at every hop. A site that says nothing allows everything; one whose `robots.txt` fails on its side allows
nothing for now, as RFC 9309 has it.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

import yarl
from msgspec import Struct

from ronda.errors import ToolFailed
from ronda.tools.fetch.fetcher import AGENT, Fetcher, FetchFailed, display_url
from ronda.tools.fetch.page_worker import PageWorkers
from ronda.tools.fetch.robots import ALL_ALLOWED, MAX_BYTES, NONE_ALLOWED, Rules, parse_robots
from ronda.tools.fetch.text import TYPES, Text, prepare, why_unreadable
from ronda.tools.function import in_thread

INTERVAL: Final = 0.25  # seconds between two requests to one site
MAX_DELAY: Final = 5.0  # of what a site may ask for: a page has ten seconds in all
KEPT_SECONDS: Final = 3600.0
KEPT_SITES: Final = 1_000


class Page(Struct, frozen=True):
    url: str
    title: str
    text: str


class _Site:
    __slots__ = ("next_turn", "rules", "until")

    def __init__(self) -> None:
        self.next_turn = 0.0
        self.rules: asyncio.Task[Rules] | None = None
        self.until = 0.0


class _Visits:
    """What is under way in one event loop, and what its sites have asked for."""

    __slots__ = ("sites", "workers")

    def __init__(self, workers: PageWorkers) -> None:
        self.sites: OrderedDict[str, _Site] = OrderedDict()
        self.workers = workers


class PageReader:
    """May be shared by event loops, each of which asks its sites for itself. `heeds_robots` is the operator's to switch off.

    `make_workers` makes what finds the text of pages, for each loop."""

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        heeds_robots: bool = True,
        make_workers: Callable[[], PageWorkers] = PageWorkers,
        interval: float = INTERVAL,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.fetcher = fetcher
        self._heeds_robots = heeds_robots
        self._make_workers = make_workers
        self._interval = interval
        self._now = now
        self._sleep = sleep
        self._visits: WeakKeyDictionary[asyncio.AbstractEventLoop, _Visits] = WeakKeyDictionary()

    async def read(self, address: str, permits: Callable[[str], bool] | None = None) -> Page:
        """`permits` is asked at every hop, before it is made. Raises FetchFailed."""

        async def before_hop(url: yarl.URL) -> None:
            if permits is not None and not permits(str(url)):
                raise FetchFailed(
                    f"{display_url(url)} is not read: its domain is not among those that may be", "url_not_allowed"
                )
            await self._wait_for_turn(url)

        found = await self.fetcher.fetch(address, types=TYPES, before_hop=before_hop)
        source = await in_thread(partial(prepare, found))
        if isinstance(source, Text):
            return Page(found.url, source.title, source.text)
        try:
            text = await self._here().workers.read(source.kind, found.url, source.data)
        except ToolFailed as error:
            raise FetchFailed(why_unreadable(source, str(error)), "url_not_accessible") from error
        if text.problem:
            raise FetchFailed(why_unreadable(source, text.problem), "unsupported_content_type")
        return Page(found.url, text.title, text.text)

    async def close(self) -> None:
        """Of the event loop that this is called in."""
        await self._here().workers.close()

    async def _wait_for_turn(self, url: yarl.URL) -> None:
        site = self._site(str(url.origin()))
        rules = await self._rules(site, url) if self._heeds_robots else ALL_ALLOWED
        if not rules.allow(url.raw_path_qs):
            raise FetchFailed(
                f"{display_url(url)} is not read: the site's robots.txt asks programs not to", "url_not_allowed"
            )
        turn = max(self._now(), site.next_turn)
        site.next_turn = turn + max(self._interval, min(rules.delay, MAX_DELAY))
        if (wait := turn - self._now()) > 0:
            await self._sleep(wait)

    def _here(self) -> _Visits:
        loop = asyncio.get_running_loop()
        found = self._visits.get(loop)
        if found is None:
            for other in list(self._visits):
                if other.is_closed():  # its tasks know it, and would keep it for ever
                    self._visits.pop(other, None)
            found = self._visits[loop] = _Visits(self._make_workers())
        return found

    def _site(self, origin: str) -> _Site:
        sites = self._here().sites
        site = sites.setdefault(origin, _Site())
        sites.move_to_end(origin)
        while len(sites) > KEPT_SITES:
            sites.popitem(last=False)
        return site

    async def _rules(self, site: _Site, url: yarl.URL) -> Rules:
        """Fetched once for all who wait, and apart from them: the one who asked first may go away."""
        if site.rules is None or (site.rules.done() and self._now() >= site.until):
            site.rules = asyncio.create_task(self._fetch_rules(url.origin() / "robots.txt"))
            site.until = self._now() + KEPT_SECONDS
        return await asyncio.shield(site.rules)

    async def _fetch_rules(self, address: yarl.URL) -> Rules:
        try:
            found = await self.fetcher.fetch(str(address))
        except FetchFailed as error:
            # Where there is no answer at all, the page itself will say so.
            return NONE_ALLOWED if error.status is not None and error.status >= 500 else ALL_ALLOWED
        text = found.data[:MAX_BYTES].decode("utf-8", "replace")
        rules: Rules = await in_thread(partial(parse_robots, text, AGENT))
        return rules

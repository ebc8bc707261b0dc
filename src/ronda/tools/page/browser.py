"""Chromium in our sandbox: an address, and a handler that answers what the page asks for → pictures of it.

The browser has no network and no file of ours. Every request of a page is handed to `Answer`, and what that does not answer
fails. One browser is started for each call and ended after it: nothing goes from one page to the next.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from ronda.errors import BadConfig, ToolFailed
from ronda.sandbox.box import open_sandbox
from ronda.sandbox.folders import remove_tree
from ronda.sandbox.layers import Layers
from ronda.sandbox.policy import BROWSER
from ronda.sandbox.temporary import temporary_prefix
from ronda.tools.page.devtools import Devtools, Message
from ronda.tools.page.pictures import MAX_SHOWN

log = logging.getLogger("ronda.page")

LOAD_SECONDS: Final = 15.0
SETTLE_SECONDS: Final = 0.25  # for what a page does once it is loaded
SHOT_SECONDS: Final = 15.0
START_SECONDS: Final = 30.0
TRY_AGAIN_SECONDS: Final = 60.0  # after a browser did not start: the machine may have been busy
AT_A_TIME: Final = 2  # browsers: each takes a core and some hundred megabytes
MAX_REQUESTS: Final = 500  # of one page
MAX_HEIGHT: Final = 7900  # pixels: more than 8000 is refused by models
_SCALES: Final = (1, 0.5, 0.25)  # a picture that is too large for models is taken again, smaller
MAX_PROBLEMS: Final = 10

# Without its own sandbox, for which it would need namespaces, since it is inside ours; and without all that would want a network,
# a sound card or a desktop.
_FLAGS: Final = (
    *("--headless", "--no-sandbox", "--no-zygote", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"),
    *("--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking", "--disable-sync"),
    *("--disable-breakpad", "--disable-crash-reporter", "--disable-component-update", "--disable-default-apps"),
    *("--disable-domain-reliability", "--mute-audio", "--hide-scrollbars", "--force-color-profile=srgb"),
    *("--no-pings", "--block-new-web-contents"),
    "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,InterestFeedContentSuggestions",
    "about:blank",
)
# The channel is one socket; the browser reads from 3 and writes to 4.
_START: Final = 'exec "$0" --user-data-dir="${TMPDIR:-/tmp}/profile" "$@" 4>&3'
# A shell without windows comes first: it is the smaller one. The others make a unix socket when they start, so that no second one
# uses their profile, and nothing but bubblewrap can let them: see `sandbox.seccomp.families`.
_SHELLS: Final = ("/usr/lib/chromium/chromium-headless-shell", "chromium-headless-shell", "chrome-headless-shell")
_PLACES: Final = (
    *_SHELLS,
    "/usr/lib/chromium/chromium",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
)
# Its process for drawing ends itself where it cannot look at /proc, which Landlock hides: it is a thread of the browser's then.
_SHELL_FLAGS: Final = ("--in-process-gpu",)


# Its fonts are there, and it has been painted.
_PAINTED: Final = (
    "Promise.all([document.fonts.ready, new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))])"
    ".then(() => 0)"
)


class BrowserFailed(ToolFailed):
    """There is no picture, and the text says why."""


class Viewport(Struct, frozen=True):
    name: str
    width: int
    height: int


DESKTOP: Final = Viewport("desktop", 1280, 832)
PHONE: Final = Viewport("mobile", 342, 684)


class Request(Struct, frozen=True):
    """What a page asks for. `kind` is what it wants to make of it: Document, Script, Image, …"""

    url: str
    method: str = "GET"
    kind: str = ""


class Response(Struct, frozen=True):
    body: bytes
    content_type: str = ""
    status: int = 200
    location: str = ""


class Shot(Struct, frozen=True):
    """A PNG; `problems` are what the page's own console would say: errors of its scripts, and what could not be loaded."""

    picture: bytes
    problems: tuple[str, ...] = ()


Answer: TypeAlias = Callable[[Request], Awaitable[Response | None]]


def find_chromium(named: str | None = None) -> str | None:
    """The path of a Chromium; `named` is the operator's."""
    for place in (named,) if named else _PLACES:
        if (found := shutil.which(place)) is not None:
            return os.path.realpath(found)
    return None


def is_shell(chromium: str) -> bool:
    """Whether it has no windows, and can be isolated without bubblewrap."""
    return any(os.path.basename(chromium) == os.path.basename(shell) for shell in _SHELLS)


class Browser:
    """`named` is the path of a Chromium, where it is not the usual one; `layers` is for tests."""

    def __init__(
        self,
        named: str | None = None,
        *,
        load_seconds: float = LOAD_SECONDS,
        settle_seconds: float = SETTLE_SECONDS,
        shot_seconds: float = SHOT_SECONDS,
        layers: Layers | None = None,
    ) -> None:
        self._named = named
        self._load_seconds = load_seconds
        self._settle_seconds = settle_seconds
        self._shot_seconds = shot_seconds
        self._layers = layers
        self._slots = asyncio.Semaphore(AT_A_TIME)
        self._trial: asyncio.Future[str] | None = None  # the last; none for a while after one that failed
        # There is a Chromium, and no recent trial found that it does not start. Each request for a page asks.
        self.may_work = find_chromium(named) is not None

    async def problem(self) -> str:
        """Why there are no pictures here, "" where there are: found by starting a browser, once if it starts."""
        trial = self._trial
        if trial is None or trial.cancelled():
            trial = self._trial = asyncio.ensure_future(self._try())
        return await asyncio.shield(trial)

    async def _try(self) -> str:
        try:
            async with asyncio.timeout(START_SECONDS), self._start(lambda message: None) as devtools:
                await devtools.call("Browser.getVersion")
        except (ToolFailed, BadConfig, OSError) as error:
            self.may_work = False
            asyncio.get_running_loop().call_later(TRY_AGAIN_SECONDS, self._forget_trial)
            return str(error) or "it did not start in time"
        self.may_work = True
        return ""

    def _forget_trial(self) -> None:
        self._trial = None
        self.may_work = find_chromium(self._named) is not None

    async def pictures(
        self, url: str, viewports: Sequence[Viewport], answer: Answer, *, full_page: bool = True
    ) -> list[Shot]:
        """One for each viewport. Raises BrowserFailed, within a bounded time whatever the page does."""
        each = self._load_seconds + self._settle_seconds + self._shot_seconds
        seconds = START_SECONDS + len(viewports) * (each + 5)
        async with self._slots:
            work = _Work(answer)
            try:
                async with asyncio.timeout(seconds), self._start(work.take) as devtools:
                    made = []
                    for viewport in viewports:
                        tab = work.tab = _Tab(devtools, work)
                        await tab.open(viewport)
                        await tab.load(url, self._load_seconds, self._settle_seconds)
                        picture = await tab.shoot(viewport, full_page, self._shot_seconds)
                        made.append(Shot(picture, tuple(dict.fromkeys(tab.problems))))
                    return made
            except TimeoutError as error:
                raise BrowserFailed("the page kept the browser busy for too long") from error
            except (ToolFailed, BadConfig, OSError) as error:
                raise BrowserFailed(str(error)) from error
            finally:
                await work.end()

    @contextlib.asynccontextmanager
    async def _start(self, on_event: Callable[[Message], None]) -> AsyncIterator[Devtools]:
        chromium = find_chromium(self._named)
        if chromium is None:
            raise BrowserFailed(
                "there is no Chromium on this machine; 'apt-get install chromium-headless-shell' brings one"
            )
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix=temporary_prefix())
        try:
            async with await open_sandbox(BROWSER, folder, outside={}, layers=self._layers) as sandbox:
                if sandbox.layer != "bubblewrap" and not is_shell(chromium):
                    raise BrowserFailed(
                        f"{chromium} can be isolated by bubblewrap only; install bubblewrap, or chromium-headless-shell"
                    )
                flags = (*_SHELL_FLAGS, *_FLAGS) if is_shell(chromium) else _FLAGS
                process = await sandbox.start(["/bin/sh", "-c", _START, chromium, *flags], channel=True)
                async with Devtools(process, on_event) as devtools:
                    yield devtools
        finally:
            await asyncio.to_thread(remove_tree, folder)


class _Work:
    """Answers under way for the page that is shown now."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.tab: _Tab | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, message: Message) -> None:
        if self.tab is not None:
            self.tab.take(message)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Tab:
    """One page in one window, with nothing remembered from another."""

    def __init__(self, devtools: Devtools, work: _Work) -> None:
        self._devtools = devtools
        self._work = work
        self._session = ""
        self._requests = 0
        self._loaded = asyncio.Event()
        self.problems: list[str] = []

    async def open(self, viewport: Viewport) -> None:
        call = self._devtools.call
        context = (await call("Target.createBrowserContext", disposeOnDetach=True))["browserContextId"]
        await call("Browser.setDownloadBehavior", behavior="deny", browserContextId=context)
        target = (await call("Target.createTarget", url="about:blank", browserContextId=context))["targetId"]
        self._session = (await call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        await self._call("Page.enable")
        await self._call("Runtime.enable")
        await self._call("Fetch.enable", patterns=[{"urlPattern": "*"}])
        await self._call(
            "Emulation.setDeviceMetricsOverride",
            width=viewport.width,
            height=viewport.height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def load(self, url: str, seconds: float, settle: float) -> None:
        """A page that is not done in time is shown as far as it has come."""
        try:
            async with asyncio.timeout(seconds):
                went = await self._call("Page.navigate", url=url)
                if problem := went.get("errorText"):
                    raise BrowserFailed(f"the page cannot be loaded: {problem}")
                await self._loaded.wait()
                await self._call("Runtime.evaluate", expression=_PAINTED, awaitPromise=True)
        except TimeoutError:
            self._note("the page was still busy when the picture was taken")
            return
        await asyncio.sleep(settle)

    async def shoot(self, viewport: Viewport, full_page: bool, seconds: float) -> bytes:
        """A page that loads itself again and again is never there for long enough: it is held still then."""
        try:
            async with asyncio.timeout(seconds / 2):
                return await self._shoot(viewport, full_page)
        except TimeoutError:
            self._note("the page was still busy when the picture was taken")
        async with asyncio.timeout(seconds / 2):
            await self._call("Emulation.setScriptExecutionDisabled", value=True)
            await self._call("Page.stopLoading")
            return await self._shoot(viewport, full_page)

    async def _shoot(self, viewport: Viewport, full_page: bool) -> bytes:
        height = viewport.height
        if full_page:
            size = (await self._call("Page.getLayoutMetrics")).get("cssContentSize", {})
            height = min(MAX_HEIGHT, max(height, round(float(size.get("height", 0)))))
        for scale in _SCALES:
            clip = {"x": 0, "y": 0, "width": viewport.width, "height": height, "scale": scale}
            shot = await self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
            picture = _decode(shot.get("data"))
            if len(picture) <= MAX_SHOWN:
                return picture
        raise BrowserFailed("the picture of the page is too large, even at a quarter of its size")

    async def _call(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._devtools.call(method, self._session, **params)

    def take(self, message: Message) -> None:
        if message.session_id != self._session:
            return
        match message.method:
            case "Page.loadEventFired":
                self._loaded.set()
            case "Fetch.requestPaused":
                self._work.begin(self._respond(message.params))
            case "Runtime.exceptionThrown":
                self._note(_exception(message.params))
            case "Page.javascriptDialogOpening":
                self._work.begin(self._quietly("Page.handleJavaScriptDialog", accept=False))
            case _:
                pass

    async def _respond(self, params: dict[str, Any]) -> None:
        request_id, details = str(params.get("requestId", "")), params.get("request") or {}
        self._requests += 1
        request = Request(
            str(details.get("url", "")), str(details.get("method", "GET")), str(params.get("resourceType", ""))
        )
        response = None
        if self._requests <= MAX_REQUESTS:
            try:
                response = await self._work.answer(request)
            except Exception as error:  # the page must not wait for an answer that never comes
                log.warning("a page's request could not be answered", exc_info=error)
        if response is None:
            if not request.url.endswith("/favicon.ico"):  # which browsers ask for by themselves
                self._note(f"not loaded: {request.url[:200]}")
            await self._quietly("Fetch.failRequest", requestId=request_id, errorReason="BlockedByClient")
            return
        headers = {"Content-Type": response.content_type, "Location": response.location}
        headers["Access-Control-Allow-Origin"] = "*"  # scripts and fonts of another origin want it
        await self._quietly(
            "Fetch.fulfillRequest",
            requestId=request_id,
            responseCode=response.status,
            responseHeaders=[{"name": name, "value": value} for name, value in headers.items() if value],
            body=base64.b64encode(response.body).decode(),
        )

    def _note(self, problem: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    async def _quietly(self, method: str, **params: Any) -> None:
        with contextlib.suppress(ToolFailed):  # the page went on to another, or the browser is gone
            await self._call(method, **params)


def _decode(data: object) -> bytes:
    try:
        picture = base64.b64decode(str(data), validate=True)
    except binascii.Error:
        picture = b""
    if not picture.startswith(b"\x89PNG"):
        raise BrowserFailed("the browser gave no picture of the page")
    return picture


def _exception(params: dict[str, Any]) -> str:
    """What a script has thrown, and where."""
    details = params.get("exceptionDetails")
    if not isinstance(details, dict):
        return "a script has failed"
    thrown = details.get("exception")
    text = thrown.get("description") if isinstance(thrown, dict) else None
    first = str(text or details.get("text") or "a script has failed").split("\n", 1)[0][:200]
    line = details.get("lineNumber")
    return f"{first} (line {line + 1})" if isinstance(line, int) else first

"""Pictures of pages, taken by a real Chromium in its box: of well-meant pages, and of hostile ones."""

from __future__ import annotations

import asyncio
import http.server
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.timeouts import soon
from tests.tools.page.looks import colours, needs_chromium, needs_packages, opened
from tests.tools.page.play import call, data_url, play, png

from ronda.errors import BadConfig
from ronda.sandbox.layers import Layers, choose_layer, find_layers
from ronda.sandbox.policy import BROWSER
from ronda.sandbox.processes import tree
from ronda.sandbox.temporary import temporary_prefix
from ronda.tools.page import PageAssets, PageProject, PageServices, page_tools
from ronda.tools.page.browser import (
    DESKTOP,
    PHONE,
    Browser,
    BrowserFailed,
    Request,
    Response,
    find_chromium,
    is_shell,
)
from ronda.tools.page.pictures import MAX_SHOWN
from ronda.tools.page.preview import Preview
from ronda.tools.page.services import PageSettings

needs_shell = pytest.mark.skipif(not is_shell(find_chromium() or ""), reason="chromium-headless-shell is not installed")


def without_bubblewrap() -> Layers:
    layers = replace(find_layers(), bwrap=None, bwrap_problem="not looked for")
    try:
        choose_layer(BROWSER, layers)
    except BadConfig as error:
        pytest.skip(f"without bubblewrap nothing isolates a browser here: {error}")
    return layers


RED, GREEN, BLUE = (255, 0, 0), (0, 128, 0), (0, 0, 255)


STYLE = "body {margin: 0} .box {width:10px;height:10px;background:red} @media (max-width: 400px) {.box {width:20px}}"


def services(folder: Path) -> PageServices:
    return PageServices(PageAssets(folder))


def box(color: str) -> str:
    return f"<div style='width:100px;height:100px;background:{color}'></div>"


@needs_chromium
async def test_a_model_sees_its_page_on_a_desktop_and_on_a_phone(tmp_path: Path) -> None:
    assets = PageAssets(tmp_path)
    file_id = await assets.add(data_url(png(50, 50, bytes(BLUE))))
    assert file_id is not None
    saved = await assets.save(file_id)
    assert saved is not None
    page = (
        "<link rel=stylesheet href=site.css><div class=box></div>"
        f"<img src='http://example.com:1234/local-assets/{saved.name}'><p style='height:2000px'>\n<script>oops()</script>"
    )
    played = await play(
        page_tools(PageProject(), PageServices(assets)),
        [("create_file", {"path": "index.html", "content": page})],
        [
            (
                "create_file",
                {"path": "site.css", "content": STYLE},
            )
        ],
        [("screenshot_preview", {})],
    )
    shown = played[2]
    assert shown.result["details"]["problems"] == ["ReferenceError: oops is not defined (line 2)"]
    assert not shown.failed
    desktop, phone = shown.output["screenshots"]
    assert shown.output["status"] == "ok"
    assert {
        name: desktop[name] for name in ("viewport", "full_page", "image_part_index", "image_display_name", "status")
    } == {
        "viewport": "desktop",
        "full_page": True,
        "image_part_index": 0,
        "image_display_name": "preview_desktop.png",
        "status": "ok",
    }
    assert [shot["viewport"] for shot in shown.result["details"]["screenshots"]] == ["desktop", "mobile"]
    assert not any("data:" in str(value) for value in desktop.values())  # the attachments have it
    assert (opened(shown.attachments[0]).size[0], opened(shown.attachments[1]).size[0]) == (1280, 342)
    assert all(2000 < opened(picture).size[1] < 2200 for picture in shown.attachments)
    seen = colours(shown.attachments[0])
    assert (seen.get(RED), seen.get(BLUE)) == (100, 2500)
    assert colours(shown.attachments[1]).get(RED) == 200
    assert phone["image_display_name"] == "preview_mobile.png"


async def test_a_screenshot_needs_a_page(tmp_path: Path) -> None:
    tools = page_tools(PageProject(), PageServices(PageAssets(tmp_path), PageSettings(chromium="/bin/sh")))
    played = await call(tools, "screenshot_preview")
    assert played.result == {"error": "No file exists yet. Call create_file first."}
    assert played.output == {"error": "No file to screenshot"}


@needs_chromium
async def test_a_browser_that_does_not_start_is_told_of_and_not_offered_again(tmp_path: Path) -> None:
    broken = PageServices(PageAssets(tmp_path), PageSettings(chromium="/bin/false"))
    project = PageProject({"index.html": "x"})
    played = await call(page_tools(project, broken), "screenshot_preview")
    assert played.failed
    assert played.result["error"].startswith("Screenshot failed: ")
    assert played.output == {"error": "Screenshot failed"}
    async with soon():
        assert not await broken.can_screenshot()
    assert "screenshot_preview" not in {tool.spec.name for tool in page_tools(project, broken)}


def test_without_chromium_no_screenshot_is_offered(tmp_path: Path) -> None:
    none = PageServices(PageAssets(tmp_path), PageSettings(chromium="/nowhere/chromium"))
    assert "screenshot_preview" not in {tool.spec.name for tool in page_tools(PageProject(), none)}


# One page for each stack: what it loads paints a box, or says how it did.
STACKS = {
    "tailwind": '<script src="https://cdn.tailwindcss.com"></script><div class="w-[100px] h-[100px] bg-[#008000]"></div>',
    "tailwind 4": '<script src="https://cdn.jsdelivr.net/npm/@tailwindcss/browser@4"></script>'
    '<div class="w-[100px] h-[100px] bg-[#008000]"></div>',
    "bootstrap": '<link href="https://cdn.jsdelivr.net/npm/bootstrap@5.3.0/dist/css/bootstrap.min.css" rel="stylesheet" '
    'integrity="sha384-AAAA" crossorigin="anonymous"><div class="d-none" style="background:red;height:9px"></div>'
    '<div class="d-block" style="width:100px;height:100px;background:green"></div>',
    "react": '<div id="root"></div><script src="https://unpkg.com/react@18/umd/react.development.js"></script>'
    '<script src="https://unpkg.com/react-dom@18/umd/react-dom.development.js"></script>'
    '<script src="https://unpkg.com/@babel/standalone/babel.min.js"></script><script type="text/babel">'
    "ReactDOM.createRoot(document.getElementById('root')).render("
    "<div style={{width: 100, height: 100, background: 'green'}}/>)</script>",
    "vue": '<div id="app"><div :style="style"></div></div><script src="https://mirror.example/vue/3.3.11/files/dist/vue.global.js">'
    "</script><script>Vue.createApp({data: () => ({style: 'width:100px;height:100px;background:green'})}).mount('#app')</script>",
    "ionic": '<script type="module" src="https://cdn.jsdelivr.net/npm/@ionic/core/dist/ionic/ionic.esm.js"></script>'
    '<link rel="stylesheet" href="https://cdn.jsdelivr.net/npm/@ionic/core/css/ionic.bundle.css"/><script>'
    "customElements.whenDefined('ion-button').then(() => document.body.insertAdjacentHTML('beforeend', "
    "\"<div style='position:fixed;top:0;width:100px;height:100px;background:green'></div>\"))</script><ion-button>a</ion-button>",
    "jquery": '<script src="https://code.jquery.com/jquery-3.6.0.min.js"></script><div></div><script>'
    "$('div').css({width: 100, height: 100, background: 'green'})</script>",
    "icons": '<link rel="stylesheet" href="https://cdnjs.cloudflare.com/ajax/libs/font-awesome/6.4.0/css/all.min.css">'
    '<link href="https://fonts.googleapis.com/css2?family=Inter:wght@400;700&family=Nobody&display=swap" rel="stylesheet">'
    "<body><script>const names = ['900 20px \"Font Awesome 7 Free\"', '20px Inter'];"
    "Promise.all(names.map(name => document.fonts.load(name))).then("
    "found => { if (found.every(faces => faces.length)) document.body.innerHTML = `" + box("green") + "` })</script>",
    "placeholder": '<img src="https://placehold.co/100x100/008000?text=%20">',
}


@needs_chromium
@needs_packages
async def test_pages_of_every_stack_look_right_without_a_network(tmp_path: Path) -> None:
    files = {f"{name}.html": f"<!DOCTYPE html><body style='margin:0'>{code}" for name, code in STACKS.items()}
    frames = "".join(
        f"<iframe src='{name}' width=100 height=100 style='border:0;float:left'></iframe>" for name in files
    )
    project = PageProject(files | {"index.html": f"<body style='margin:0'>{frames}"})
    shared = services(tmp_path)
    preview = Preview(project, shared.assets, shared.cdn)
    async with soon():
        [shot] = await Browser(settle_seconds=4.0).pictures(preview.url, [DESKTOP], preview.answer)
    image = opened(shot.picture)
    painted = {name: image.getpixel((at * 100 + 20, 20)) for at, name in enumerate(STACKS)}
    assert painted == dict.fromkeys(STACKS, GREEN)


# ---- hostile pages ---------------------------------------------------------------------------------------------------


class Visitors:
    """A server on this machine that notes who comes."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        visitors = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                visitors.seen.append(self.path)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]


@pytest.fixture
def visitors() -> Iterator[Visitors]:
    made = Visitors()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture(params=["bubblewrap", pytest.param("landlock", marks=needs_shell)])
def layers(request: pytest.FixtureRequest) -> Layers | None:
    """What isolates the browser: the best there is, and what is there without bubblewrap."""
    return without_bubblewrap() if request.param == "landlock" else None


@needs_shell
async def test_a_page_looks_the_same_without_bubblewrap() -> None:
    page = f"<body style='margin:0'>{box('green')}<h1>Grüße</h1><script>document.body.append(6 * 7)</script>"
    [one], [other] = [await pictures_of(page, Browser(layers=layers)) for layers in (None, without_bubblewrap())]
    assert colours(one) == colours(other)
    assert colours(one)[GREEN] >= 10_000


@needs_chromium
async def test_a_chromium_with_windows_needs_bubblewrap(tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with pytest.raises(BrowserFailed, match="install bubblewrap, or chromium-headless-shell"):
        await pictures_of("<p>", Browser(str(program), layers=without_bubblewrap()))


@needs_chromium
async def test_a_page_reaches_no_file_and_no_network(tmp_path: Path, visitors: Visitors, layers: Layers | None) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("s3cret")
    with socket.create_connection(("127.0.0.1", visitors.port)):
        pass  # it is there
    here = f"127.0.0.1:{visitors.port}"
    page = f"""<body style="margin:0">{box("green")}<img src="file://{secret}"><img src="http://{here}/image">
      <iframe src="file:///etc/passwd"></iframe><iframe src="http://{here}/frame"></iframe><link rel=prefetch href="http://{here}/pre">
      <link rel="dns-prefetch" href="//leak.example"><link rel=stylesheet href="http://{here}/style">
      <script src="http://{here}/script"></script><form id=f method=post action="http://{here}/form"><input name=a></form>
      <script>
        const red = () => document.body.insertAdjacentHTML("beforeend", `{box("red")}`);
        for (const url of ["file://{secret}", "file:///etc/passwd", "http://{here}/fetch", "chrome://version", "view-source:http://{here}/"])
          fetch(url).then(red, () => 0);
        navigator.sendBeacon("http://{here}/beacon", "x");
        new WebSocket("ws://{here}/socket").onopen = red;
        new EventSource("http://{here}/events").onopen = red;
        const peer = new RTCPeerConnection({{iceServers: [{{urls: "stun:{here}"}}]}});
        peer.createDataChannel("x"); peer.createOffer().then(o => peer.setLocalDescription(o));
        const work = new Blob(["fetch('http://{here}/worker').then(() => postMessage(1), () => 0)"]);
        new Worker(URL.createObjectURL(work)).onmessage = red;
        navigator.serviceWorker.register("http://{here}/worker.js").then(red, () => 0);
        if (window.open("http://{here}/popup")) red();
        const a = document.createElement("a"); a.href = "data:application/octet-stream,x"; a.download = "x.bin"; a.click();
        alert(1); confirm(2); prompt(3); print();
        document.cookie = "a=b"; f.target = "frame"; f.submit();
      </script>"""
    shared = services(tmp_path / "assets")
    shared.browser = Browser(layers=layers)
    played = await call(page_tools(PageProject({"index.html": page}), shared), "screenshot_preview")
    assert not played.failed, played.result
    assert f"not loaded: http://{here}/image" in played.result["details"]["problems"]
    seen = colours(played.attachments[0])
    assert (seen.get(GREEN, 0) >= 10_000, seen.get(RED, 0)) == (True, 0)
    assert visitors.seen == []


def quick(layers: Layers | None = None, **bounds: float) -> Browser:
    return Browser(load_seconds=bounds.get("load", 1.0), shot_seconds=bounds.get("shot", 2.0), layers=layers)


async def pictures_of(page: str, browser: Browser) -> list[bytes]:
    async def answer(request: Request) -> Response | None:
        return Response(page.encode(), "text/html") if request.kind == "Document" else None

    async with soon():
        return [shot.picture for shot in await browser.pictures("http://preview.localhost/", [PHONE], answer)]


@needs_chromium
async def test_a_page_that_keeps_the_browser_busy_costs_a_bounded_time() -> None:
    with pytest.raises(BrowserFailed, match="busy for too long"):
        await pictures_of("<script>for (;;) {}</script>", quick())


@needs_chromium
async def test_a_page_that_wants_all_memory_gets_an_error_and_not_the_memory(layers: Layers | None) -> None:
    greedy = "const all = []; for (;;) all.push(new Uint8Array(1e9).fill(1))"
    page = f"<body style='margin:0'><script>try {{ {greedy} }} catch {{ document.body.innerHTML = `{box('green')}` }}</script>"
    [picture] = await pictures_of(page, quick(layers, load=20, shot=20))
    assert colours(picture).get(GREEN) == 10_000


@needs_chromium
async def test_a_page_that_reloads_for_ever_or_never_ends_loading_is_shown_as_it_is() -> None:
    [picture] = await pictures_of(
        f"{box('green')}<script>setTimeout(() => location.reload(), 50)</script>", quick(load=3, shot=8)
    )
    assert opened(picture).size == (342, 684)


@needs_chromium
async def test_a_huge_page_is_cut() -> None:
    page = "<body style='margin:0'><div style='width:100000px;height:9000000px;background:linear-gradient(red,blue)'>"
    [picture] = await pictures_of(page, quick(load=5, shot=30))
    assert opened(picture).size == (342, 7900)


@needs_chromium
async def test_a_picture_that_is_too_large_for_models_is_taken_smaller() -> None:
    page = """<body style="margin:0"><canvas id=c width=342 height=6000></canvas><script>
      const image = new ImageData(342, 6000); let seed = 1;
      for (let at = 0; at < image.data.length; at++) image.data[at] = (seed = seed * 48271 % 2147483647) & 255;
      for (let at = 3; at < image.data.length; at += 4) image.data[at] = 255;
      c.getContext("2d").putImageData(image, 0, 0);</script>"""
    [picture] = await pictures_of(page, quick(load=20, shot=30))
    assert (opened(picture).size[0], len(picture) <= MAX_SHOWN) == (171, True)


@needs_chromium
async def test_a_call_that_is_cancelled_leaves_nothing_behind() -> None:
    asked = asyncio.Event()
    others = set(folders())

    async def answer(request: Request) -> Response | None:
        asked.set()
        await asyncio.Event().wait()
        return None

    task = asyncio.create_task(Browser().pictures("http://preview.localhost/", [PHONE], answer))
    async with soon():
        await asked.wait()
        made = set(folders()) - others
        assert made
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not made & {*folders()}
    assert not [pid for pid in tree(os.getpid()) if "chromium" in command(pid)]


def folders() -> list[str]:
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(temporary_prefix())]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""

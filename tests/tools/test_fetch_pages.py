"""Pages as a polite visitor reads them: robots.txt, a rate, and the text of what was found."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfWriter
from pypdf.generic import DictionaryObject, NameObject, StreamObject
from tests.tools.api_server import Api

from ronda.tools.fetch.addresses import AllowList
from ronda.tools.fetch.fetcher import FetchedPage, Fetcher, FetchFailed
from ronda.tools.fetch.pages import PageReader
from ronda.tools.fetch.robots import parse_robots
from ronda.tools.fetch.text import Unreadable, to_text

LOCAL = AllowList.parse(["127.0.0.1"])
ARTICLE = (
    "<html><head><title>Bread &amp; butter</title></head><body><nav><a href='/'>Home</a> <a href='/x'>Shop</a></nav>"
    "<article><h1>Bread</h1><p>Flour, water, salt and time are all that a loaf needs, say the bakers of the old town.</p>"
    "<p>Knead the dough for ten minutes, and let it rest until it has doubled in size, which takes an hour or two.</p>"
    "</article><footer>Cookie settings</footer></body></html>"
)


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.waits.append(round(seconds, 3))


def reader(clock: Clock | None = None, **options: Any) -> PageReader:
    clock = clock or Clock()
    return PageReader(Fetcher(LOCAL), now=clock.now, sleep=clock.sleep, **options)


@pytest.fixture(autouse=True)
def no_robots(api: Api) -> None:
    api.answers["/robots.txt"] = web.Response(status=404)
    api.answers["/a"] = web.Response(text=ARTICLE, content_type="text/html")


def paths(api: Api) -> list[str]:
    return [one["path"] for one in api.asked]


async def test_a_page_is_its_article_without_what_is_around_it(api: Api) -> None:
    page = await reader().read(f"{api.url}/a")

    assert (page.url, page.title) == (f"{api.url}/a", "Bread & butter")
    assert "Flour, water, salt" in page.text
    assert "doubled in size" in page.text
    assert "Cookie settings" not in page.text
    assert "<" not in page.text


async def test_robots_are_asked_once_and_heeded(api: Api) -> None:
    api.answers["/robots.txt"] = web.Response(text="User-agent: *\nDisallow: /private")
    reading = reader()

    with pytest.raises(FetchFailed, match=r"robots\.txt asks programs not to") as refused:
        await reading.read(f"{api.url}/private/a")
    await asyncio.gather(reading.read(f"{api.url}/a"), reading.read(f"{api.url}/a"))

    assert refused.value.code == "url_not_allowed"
    assert paths(api) == ["/robots.txt", "/a", "/a"]


async def test_robots_are_asked_at_every_hop(api: Api) -> None:
    api.answers["/robots.txt"] = web.Response(text="User-agent: ronda\nDisallow: /private")
    api.answers["/away"] = web.Response(status=302, headers={"Location": "/private/a"})

    with pytest.raises(FetchFailed, match=r"robots\.txt"):
        await reader().read(f"{api.url}/away")

    assert paths(api) == ["/robots.txt", "/away"]


async def test_a_site_whose_robots_fail_is_left_alone(api: Api) -> None:
    api.answers["/robots.txt"] = web.Response(status=503)

    with pytest.raises(FetchFailed, match=r"robots\.txt"):
        await reader().read(f"{api.url}/a")
    assert (await reader(heeds_robots=False).read(f"{api.url}/a")).title == "Bread & butter"


async def test_pages_of_one_site_are_read_one_after_another(api: Api) -> None:
    clock = Clock()
    reading = reader(clock)

    await asyncio.gather(*(reading.read(f"{api.url}/a") for _ in range(4)))

    assert sorted(clock.waits) == [0.25, 0.5, 0.75]


async def test_a_site_may_ask_for_more_time(api: Api) -> None:
    clock = Clock()
    api.answers["/robots.txt"] = web.Response(text="User-agent: *\nCrawl-delay: 3")
    reading = reader(clock)

    await reading.read(f"{api.url}/a")
    await reading.read(f"{api.url}/a")

    assert clock.waits == [3.0]


async def test_a_film_is_no_page(api: Api) -> None:
    api.answers["/film"] = web.Response(body=b"x", content_type="video/mp4")

    with pytest.raises(FetchFailed) as refused:
        await reader().read(f"{api.url}/film")
    assert refused.value.code == "unsupported_content_type"


# ---- robots.txt -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("robots", "path", "allowed"),
    [
        ("", "/a", True),
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: *\nDisallow: /", "/a", False),
        ("user-agent: *\ndisallow: / # all", "/a", False),
        ("User-agent: other\nDisallow: /", "/a", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: Ronda\nDisallow: /x", "/a", True),
        ("User-agent: *\nUser-agent: other\nDisallow: /x", "/x/a", False),
        ("User-agent: *\nDisallow: /x\nAllow: /x/open", "/x/open/a", True),
        ("User-agent: *\nAllow: /x/open\nDisallow: /x", "/x/shut", False),
        ("User-agent: *\nAllow: /p\nDisallow: /p", "/p", True),
        ("User-agent: *\nDisallow: /*.php$", "/a/b.php", False),
        ("User-agent: *\nDisallow: /*.php$", "/a/b.php?x=1", True),
        ("User-agent: *\nDisallow: /*?q=", "/find?q=1", False),
        ("User-agent: *\nDisallow: /a*b*c", "/a-b-c-d", False),
        ("User-agent: *\nDisallow: /a*b*c$", "/a-b-c-d", True),
        ("User-agent: *\nDisallow: /%7Ejoe", "/~joe/a", False),
        ("Disallow: /", "/a", True),
    ],
)
def test_the_longest_rule_for_us_decides(robots: str, path: str, allowed: bool) -> None:
    assert parse_robots(robots, "ronda").allow(path) is allowed


@given(st.text(max_size=300), st.text(max_size=50))
def test_any_text_is_read_as_rules(robots: str, path: str) -> None:
    assert parse_robots(f"User-agent: *\n{robots}", "ronda").allow(f"/{path}") in (True, False)


def test_a_rule_of_stars_costs_no_time() -> None:
    rules = parse_robots("User-agent: *\nDisallow: /" + "*a" * 900 + "$", "ronda")

    assert rules.allow("/" + "a" * 5_000 + "b")


# ---- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (FetchedPage("http://x/", b"plain \xe2\x82\xac", "text/plain"), "plain €"),
        (FetchedPage("http://x/", b"plain \xe9", "text/plain", "latin-1"), "plain é"),
        (FetchedPage("http://x/", b"plain \xe9", "text/plain", "no-such-charset"), "plain \ufffd"),
        (FetchedPage("http://x/", b'{"a": 1}', "application/json"), '{"a": 1}'),
        (FetchedPage("http://x/", b"<p>short</p>", "text/html"), "short"),
        (FetchedPage("http://x/", b"<body><p>short</p></body>", "text/html"), "short"),
        (FetchedPage("http://x/", b"<html><p>short</p></html>", "text/html"), "short"),
        (FetchedPage("http://x/", b"<html><body><p>short</p></body></html>"), "short"),
        (
            FetchedPage("http://x/", b"<meta charset=windows-1251><p>\xcf\xf0\xe8\xe2\xe5\xf2</p>", "text/html"),
            "Привет",
        ),
        (FetchedPage("http://x/", b"", "text/html"), ""),
    ],
)
def test_text_is_decoded_by_what_the_server_or_the_page_says(page: FetchedPage, text: str) -> None:
    assert to_text(page).text == text


@pytest.mark.parametrize(
    "source",
    [
        "<title" * 500_000,
        "<meta " * 500_000,
        "<div>" * 100_000,
        "<" * 1_000_000,
        "<!--" * 500_000,
        "<p>" + "\n" * 900_000,
    ],
)
def test_a_hostile_page_is_read_in_one_pass(source: str) -> None:
    assert "<title" not in to_text(FetchedPage("http://x/", source.encode(), "text/html")).title


def test_all_text_is_taken_of_a_page_too_long_to_find_the_article_in() -> None:
    source = f"<body><nav>Menu</nav>{'<p>Many words, one after another.</p>' * 30_000}</body>"

    assert to_text(FetchedPage("http://x/", source.encode(), "text/html")).text.count("Many words") == 30_000


def pdf(text: str) -> bytes:
    writer = PdfWriter()
    page = writer.add_blank_page(200, 200)
    stream = StreamObject()
    stream.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode())
    font = DictionaryObject(
        {NameObject("/Type"): NameObject("/Font"), NameObject("/Subtype"): NameObject("/Type1"),
         NameObject("/BaseFont"): NameObject("/Helvetica")}
    )  # fmt: skip
    page[NameObject("/Resources")] = DictionaryObject(
        {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
    )
    page[NameObject("/Contents")] = writer._add_object(stream)
    writer.add_metadata({"/Title": "A paper"})
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


async def test_a_pdf_is_read_by_its_pages(api: Api) -> None:
    api.answers["/paper"] = web.Response(body=pdf("Hello from a paper"), content_type="application/pdf")

    page = await reader().read(f"{api.url}/paper")

    assert (page.title, page.text) == ("A paper", "Hello from a paper")


@pytest.mark.parametrize("data", [b"%PDF-1.7 nonsense", b"%PDF-1.4\n" + b"\0" * 1000, pdf("x")[:-200]])
def test_a_broken_pdf_is_refused_or_read(data: bytes) -> None:
    try:
        assert isinstance(to_text(FetchedPage("http://x/", data, "application/pdf")).text, str)
    except Unreadable as error:
        assert "the PDF cannot be read" in str(error)  # noqa: PT017  # either way is right; a crash is not

"""The two tools that a model searches with, on a web of our own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import yarl
from aiohttp import web
from msgspec import Raw
from tests.tools.api_server import Api

from ronda import Agent, invoke_agent_async
from ronda.core.events import Event, ToolFinished
from ronda.drive import ToolContext, ToolOutput
from ronda.testing import ScriptedModel, calls, says
from ronda.tools.fetch.addresses import AllowList
from ronda.tools.fetch.fetcher import Fetcher
from ronda.tools.fetch.pages import PageReader
from ronda.tools.search.backend import Query, Result, SearchFailed
from ronda.tools.search.history import SearchHistory
from ronda.tools.search.json_api import Searxng
from ronda.tools.search.searcher import Searcher
from ronda.tools.search.settings import CallbackBackend
from ronda.tools.search.tool import ExtractTool, SearchTool, search_tools
from ronda.wire.web.citations import cite, sources_of
from ronda.wire.web.search import ANY_WEB, EXTRACT, SEARCH, Location, SearchOptions, WebTools

CONTEXT = ToolContext("run_1", "", 0, "call_1")
HTML = "<html><head><title>{0}</title></head><body><p>{0} is what this page of ours is about. {1}</p></body></html>"


async def resolve(host: str, port: int) -> list[str]:
    return ["10.0.0.9"] if host == "inner.test" else ["127.0.0.1"]


def pages(allow: Sequence[str] = ("127.0.0.1",)) -> PageReader:
    return PageReader(Fetcher(AllowList.parse(allow), resolve=resolve), interval=0.0)


class Site:
    """Several names for one server, and a SearXNG that lists them."""

    def __init__(self, api: Api) -> None:
        self.api = api
        api.answers["/robots.txt"] = web.Response(status=404)

    def url(self, host: str, path: str) -> str:
        return str(yarl.URL(self.api.url).with_host(host).with_path(path))

    def add(self, path: str, title: str, text: str) -> None:
        self.api.answers[path] = web.Response(text=HTML.format(title, text), content_type="text/html")

    def list(self, *results: tuple[str, str, str]) -> None:
        items = [{"title": title, "url": url, "content": description} for title, url, description in results]
        self.api.answers["/search"] = web.json_response({"results": items})

    @property
    def searcher(self) -> Searcher:
        return Searcher(Searxng(self.api.url), pages())


@pytest.fixture
def site(api: Api) -> Site:
    return Site(api)


def details_of(output: ToolOutput) -> Raw:
    return Raw(msgspec.json.encode(output.details))


async def search(searcher: Searcher, query: str, options: SearchOptions = SearchOptions()) -> ToolOutput:  # noqa: B008  # frozen
    return await SearchTool(searcher, options, {}).run({"query": query}, CONTEXT)


def test_the_tools_are_those_of_mistral_rs() -> None:
    options = SearchOptions(location=Location(city="Porto", country="PT"), extract_description="Read a file.")
    searching, extracting = search_tools(
        Searcher(CallbackBackend(lambda query: []), pages()), WebTools(options, options)
    )

    assert (searching.spec.name, extracting.spec.name) == (SEARCH, EXTRACT)
    assert (SEARCH, EXTRACT) == ("mistralrs_search_the_web", "mistralrs_website_content_extractor")
    assert searching.spec.strict
    assert extracting.spec.strict
    assert searching.spec.description.endswith("The user is in: Porto, PT.")
    assert extracting.spec.description == "Read a file."
    parameters = msgspec.json.decode(searching.spec.parameters)
    assert parameters["required"] == ["query"]
    assert parameters["properties"]["query"]["type"] == "string"


async def test_a_search_reads_the_pages_and_numbers_them(site: Site) -> None:
    site.add("/bread", "Bread", "Flour and water and time, say the bakers, are enough for it.")
    site.add("/salt", "Salt", "It comes from the sea, where the sun dries it in flat basins.")
    site.list(
        ("Salt", site.url("www.salt.test", "/salt"), "About salt"),
        ("Bread", site.url("bread.test", "/bread"), "About bread"),
        ("Gone", site.url("gone.test", "/gone"), "Still a line"),
        ("Nothing", site.url("gone.test", "/gone"), ""),
    )
    site.api.answers["/gone"] = web.Response(status=404)

    output = await search(site.searcher, "bread flour")

    assert not output.failed
    content = msgspec.json.decode(output.content)
    assert content["sources"] == ["bread.test", "salt.test", "gone.test"]
    assert [(one["number"], one["title"]) for one in content["output"]] == [(1, "Bread"), (2, "Salt"), (3, "Gone")]
    assert list(content["output"][0]) == ["number", "title", "description", "url", "content"]
    assert "Flour and water" in content["output"][0]["content"]
    assert content["output"][2]["content"] == ""
    assert output.details is not None
    assert {name: output.details[name] for name in ("tool_type", "action", "query", "results_count", "sources")} == {
        "tool_type": "web_search",
        "action": "search",
        "query": "bread flour",
        "results_count": 3,
        "sources": ["bread.test", "salt.test", "gone.test"],
    }
    answer = "Flour [1]."
    assert [(one.source.url, one.start, one.end) for one in cite(answer, sources_of(details_of(output)))] == [
        (site.url("bread.test", "/bread"), 6, 9)
    ]


async def test_a_page_of_the_house_is_not_read_for_a_search(site: Site) -> None:
    site.add("/a", "Secret", "The inner page says a lot that nobody outside of the house should know.")
    site.list(("Inner", site.url("inner.test", "/a"), "A line"))

    output = await search(site.searcher, "inner")

    assert msgspec.json.decode(output.content)["output"][0]["content"] == ""
    assert "/a" not in [one["path"] for one in site.api.asked]


async def test_domains_are_kept_to_by_search_and_by_reading(site: Site) -> None:
    site.add("/a", "Page", "This is the text of the page, long enough to be read as an article by anyone.")
    site.api.answers["/away"] = web.Response(status=302, headers={"Location": site.url("other.test", "/a")})
    site.list(("A", site.url("good.test", "/a"), "a"), ("B", site.url("other.test", "/a"), "b"))
    options = SearchOptions(allowed_domains=("good.test",))
    extract = ExtractTool(site.searcher, options, {})

    found = msgspec.json.decode((await search(site.searcher, "page", options)).content)
    places = [("good.test", "/a"), ("other.test", "/a"), ("good.test", "/away")]
    outputs = [await extract.run({"url": site.url(*place)}, CONTEXT) for place in places]

    assert found["sources"] == ["good.test"]
    assert [output.failed for output in outputs] == [False, True, True]
    assert [(output.details or {}).get("error_code") for output in outputs] == [
        None,
        "url_not_allowed",
        "url_not_allowed",
    ]


async def test_a_query_that_is_an_address_is_read(site: Site) -> None:
    site.add("/a", "Page", "This is the text of the page, long enough to be read as an article by anyone.")

    output = await search(site.searcher, site.url("good.test", "/a"))

    assert [one["title"] for one in msgspec.json.decode(output.content)["output"]] == ["Page"]
    assert "/search" not in "".join(one["path"] for one in site.api.asked)


async def test_a_page_is_extracted_as_text(site: Site) -> None:
    site.add("/a", "Page", 'It says "hello" to whoever reads it, and then goes on for a while about the weather.')

    output = await ExtractTool(site.searcher, SearchOptions(), {}).run({"url": site.url("good.test", "/a")}, CONTEXT)

    content = msgspec.json.decode(output.content)
    assert content["sources"] == ["good.test"]
    assert content["output"].startswith(
        f'{{"number": 1, "url": "{site.url("good.test", "/a")}", "content": "Page is what'
    )
    assert 'It says "hello" to' in content["output"]
    assert output.details is not None
    assert (output.details["results_count"], output.details["action"]) == (1, "open_page")


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://127.0.0.1:1/", "url_not_accessible"),
        ("http://inner.test/", "url_not_allowed"),
        ("file:///etc/passwd", "invalid_tool_input"),
        ("", "invalid_tool_input"),
    ],
)
async def test_a_page_that_cannot_be_read_is_told(site: Site, url: str, code: str) -> None:
    output = await ExtractTool(site.searcher, SearchOptions(), {}).run({"url": url}, CONTEXT)

    assert output.failed
    assert msgspec.json.decode(output.content)["output"].startswith("ERROR: failed to extract content: ")
    assert output.details is not None
    assert output.details["error_code"] == code


async def test_a_page_is_cut_to_what_the_request_allows(site: Site) -> None:
    site.add("/a", "Page", "Much ado about nothing. " * 1000)
    extract = ExtractTool(site.searcher, SearchOptions(max_content_tokens=50), {})

    output = await extract.run({"url": site.url("good.test", "/a")}, CONTEXT)

    assert len(msgspec.json.decode(output.content)["output"]) < 300


async def test_uses_are_counted(site: Site) -> None:
    site.list()
    tool = SearchTool(site.searcher, SearchOptions(max_uses=2), {})

    outputs = await asyncio.gather(*(tool.run({"query": "x"}, CONTEXT) for _ in range(3)))

    assert [output.failed for output in outputs] == [False, False, True]
    assert (outputs[2].details or {})["error_code"] == "max_uses_exceeded"


async def test_numbers_and_uses_go_on_where_a_run_was() -> None:
    def find(query: str) -> list[dict[str, str]]:
        return [{"title": name, "url": f"https://{name}.test", "content": "text"} for name in query.split()]

    searcher, options = Searcher(CallbackBackend(find), pages()), SearchOptions(max_uses=3)

    async def numbers(history: SearchHistory, query: str) -> tuple[dict[str, int], Raw]:
        output = await SearchTool(searcher, options, {CONTEXT.run: history}).run({"query": query}, CONTEXT)
        shown: list[dict[str, Any]] = msgspec.json.decode(output.content).get("output", [])
        return {one["title"]: one["number"] for one in shown}, details_of(output)

    first = SearchHistory()
    one, kept_one = await numbers(first, "a b")
    two, kept_two = await numbers(first, "b c")
    elsewhere = SearchHistory([Raw(b"null"), kept_one, kept_two])
    three, _ = await numbers(elsewhere, "d a")
    none, _ = await numbers(elsewhere, "e")

    assert (one, two, three, none) == ({"a": 1, "b": 2}, {"b": 2, "c": 3}, {"a": 1, "d": 4}, {})


async def test_a_callback_may_name_files() -> None:
    def find(query: str) -> list[dict[str, str]]:
        return [{"title": "T", "description": "D", "url": "/data/a.txt", "content": "the text"}]

    output = await search(Searcher(CallbackBackend(find), pages()), "text")

    assert msgspec.json.decode(output.content) == {
        "sources": [],
        "output": [{"number": 1, "title": "T", "description": "D", "url": "/data/a.txt", "content": "the text"}],
    }


@pytest.mark.parametrize(
    ("query", "code"), [("", "invalid_tool_input"), (" ", "invalid_tool_input"), ("x" * 1001, "query_too_long")]
)
async def test_a_query_that_cannot_be_is_refused(site: Site, query: str, code: str) -> None:
    output = await search(site.searcher, query)

    assert output.failed
    assert "error" in msgspec.json.decode(output.content)
    assert (output.details or {})["error_code"] == code
    assert site.api.asked == []


async def test_a_search_that_fails_says_so() -> None:
    class Broken:
        finds_pages = True

        async def search(self, query: Query) -> list[Result]:
            raise SearchFailed("SearXNG refuses the search: HTTP 500")

    output = await search(Searcher(Broken(), pages()), "x")

    assert output.failed
    assert msgspec.json.decode(output.content) == {"error": "SearXNG refuses the search: HTTP 500"}


async def test_the_budget_holds(site: Site) -> None:
    site.add("/a", "Page", "Bread is made of flour, and flour of wheat, and wheat of rain and sun. " * 2000)
    site.list(*((f"Page {n}", site.url(f"s{n}.test", "/a"), "…") for n in range(10)))

    output = await search(site.searcher, "bread", SearchOptions(budget=4096))

    assert 2 * 4096 < len(output.content) < 4 * 4096 + 10 * 100
    assert len(msgspec.json.decode(output.content)["output"]) == 10


async def test_a_model_searches_reads_and_cites(site: Site) -> None:
    site.add("/bread", "Bread", "Flour and water and time, say the bakers, are enough for it.")
    site.add("/salt", "Salt", "It comes from the sea, where the sun dries it in flat basins.")
    site.list(("Bread", site.url("bread.test", "/bread"), "About bread"))
    salt = site.url("salt.test", "/salt")
    answer = f"Flour and water [1]; salt is at {salt} [2]. Nobody says [3]."
    model = ScriptedModel(calls(SEARCH, query="bread"), calls(EXTRACT, url=salt), says(answer))
    events: list[Event] = []
    tools = search_tools(site.searcher, ANY_WEB)

    given = await invoke_agent_async(Agent(model, tools=tools), "What is bread made of?", on_event=events.append)

    assert given == answer
    finished = [event for event in events if isinstance(event, ToolFinished)]
    assert [event.result.failed for event in finished] == [False, False]
    sources = [source for event in finished for source in sources_of(event.details)]
    assert [(one.source.number, answer[one.start : one.end]) for one in cite(answer, sources)] == [
        (1, "[1]"),
        (2, salt),
        (2, "[2]"),
    ]

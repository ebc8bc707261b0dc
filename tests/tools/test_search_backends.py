"""What a search can be asked of: DuckDuckGo's page, SearXNG, a JSON API, a folder, a function; all on this machine."""

from __future__ import annotations

import gc
import os
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web
from tests.tools.api_server import Api

from ronda.errors import BadConfig
from ronda.tools.search.backend import Backend, Query, Result, SearchFailed
from ronda.tools.search.duckduckgo import DuckDuckGo, read_results
from ronda.tools.search.folder import FolderBackend
from ronda.tools.search.json_api import JsonApi, JsonBackend, Searxng
from ronda.tools.search.settings import CallbackBackend, open_backend, read_settings
from ronda.wire.web.search import SearchOptions


async def failure(backend: Backend, query: str = "x") -> SearchFailed:
    with pytest.raises(SearchFailed) as failed:
        await backend.search(Query(query))
    return failed.value


# ---- DuckDuckGo -------------------------------------------------------------------------------------------------------


def listed(title: str, href: str, snippet: str, kind: str = "web-result") -> str:
    return (
        f'<div class="result results_links {kind}"><div class="links_main result__body"><h2 class="result__title">'
        f'<a rel="nofollow" class="result__a" href="{href}">{title}</a></h2>'
        f'<a class="result__url" href="{href}"> shown.example </a>'
        f'<a class="result__snippet" href="{href}">{snippet}</a><div class="clear"></div></div></div>'
    )


LINK = "//duckduckgo.com/l/?uddg=https%3A%2F%2Fbread.example%2Floaf%3Fa%3D1%26b%3D2&amp;rut=abc"
AD = "https://duckduckgo.com/y.js?ad_domain=shop.example&amp;uddg=x"
PAGE = "<html><body>{}</body></html>"


def test_results_are_read_from_the_page() -> None:
    page = PAGE.format(
        listed("Shop now", AD, "Buy!", "result--ad")
        + listed("Bread &amp; <b>butter</b>", LINK, "All about\n <b>bread</b> &lt;3")
        + listed("Direct", "https://salt.example/", "")
        + listed("Script", "javascript:alert(1)", "no")
    )

    assert read_results(page) == [
        Result("Bread & butter", "All about bread <3", "https://bread.example/loaf?a=1&b=2"),
        Result("Direct", "", "https://salt.example/"),
    ]


def test_a_page_without_results_is_told_from_one_that_is_no_answer() -> None:
    assert read_results('<div class="no-results">No results.</div>') == []
    with pytest.raises(SearchFailed, match="takes no more searches") as blocked:
        read_results('<div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div>')
    assert blocked.value.code == "too_many_requests"
    with pytest.raises(SearchFailed, match="a page that cannot be read"):
        read_results("<h1>Welcome</h1>")


async def test_duckduckgo_is_asked_with_the_domains(api: Api) -> None:
    api.answers["/html/"] = web.Response(text=PAGE.format(listed("Bread", LINK, "…") * 12), content_type="text/html")
    backend = DuckDuckGo(f"{api.url}/html/")

    found = await backend.search(Query("rye bread"))
    await backend.search(
        Query("rye", SearchOptions(allowed_domains=("a.test", "b.test"), blocked_domains=("c.a.test",)))
    )

    assert len(found) == 10
    asked = [parse_qs(one["body"])["q"] for one in api.asked]
    assert asked == [["rye bread"], ["rye (site:a.test OR site:b.test) -site:c.a.test"]]
    assert api.last()["method"] == "POST"


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (429, "too_many_requests", "takes no more searches"),
        (503, "unavailable", "HTTP 503"),
        (302, "unavailable", "HTTP 302"),
    ],
)
async def test_a_service_that_refuses_is_named(api: Api, status: int, code: str, message: str) -> None:
    api.answers["/"] = web.Response(status=status, headers={"Location": "/elsewhere"})

    failed = await failure(DuckDuckGo(f"{api.url}/"))

    assert failed.code == code
    assert f"DuckDuckGo {'takes' if status == 429 else 'refuses'}" in str(failed)
    assert message in str(failed)
    assert len(api.asked) == 1


async def test_a_service_that_is_not_there_is_named_without_its_key() -> None:
    api = JsonApi("http://127.0.0.1:1/?key=hunter2", name="Brave")

    failed = await failure(JsonBackend(api))

    assert str(failed).startswith("Brave cannot be asked: cannot reach 127.0.0.1:1")
    assert "hunter2" not in str(failed)


# ---- SearXNG and JSON -------------------------------------------------------------------------------------------------


async def test_searxng_is_asked_for_json(api: Api) -> None:
    api.answers["/search"] = web.json_response(
        {"query": "bread", "results": [{"title": "Bread", "url": "https://bread.example", "content": "All about it"}]}
    )

    found = await Searxng(f"{api.url}/").search(Query("bread & butter"))

    assert found == [Result("Bread", "All about it", "https://bread.example")]
    assert api.last()["path"] == "/search?format=json&q=bread+%26+butter"


async def test_searxng_without_json_says_what_to_switch_on(api: Api) -> None:
    api.answers["/search"] = web.Response(status=403)

    assert "list 'json' in search.formats" in str(await failure(Searxng(api.url)))


async def test_a_service_is_asked_as_its_description_says_by_get(api: Api) -> None:
    api.answers["/web/search"] = web.json_response(
        {
            "web": {
                "results": [
                    {"title": "A", "url": "https://a.test", "description": "d", "extra": 1},
                    {"title": "no address"},
                ]
            }
        }
    )
    brave = {
        "backend": "json", "address": f"{api.url}/web/search", "query": "q", "count": "count", "results": "web.results",
        "headers": {"X-Subscription-Token": "k"}, "parameters": {"safesearch": "strict"}, "name": "Brave",
    }  # fmt: skip

    found = await open_backend(read_settings(brave).backend).search(Query("bread"))

    assert found == [Result("A", "d", "https://a.test")]
    assert api.last()["path"] == "/web/search?safesearch=strict&q=bread&count=10"
    assert api.last()["headers"]["X-Subscription-Token"] == "k"


async def test_a_service_is_asked_as_its_description_says_by_post(api: Api) -> None:
    api.answers["/search"] = web.json_response(
        {"results": [{"title": "A", "url": "https://a.test", "text": "whole page"}]}
    )
    exa = {
        "backend": "json", "address": f"{api.url}/search", "method": "POST", "count": "numResults",
        "body": {"contents": {"text": True}}, "content": "text", "name": "Exa",
    }  # fmt: skip

    found = await open_backend(read_settings(exa).backend).search(Query("bread"))

    assert found == [Result("A", "", "https://a.test", "whole page")]
    assert api.last()["body"] == '{"contents":{"text":true},"query":"bread","numResults":10}'
    assert api.last()["headers"]["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (web.json_response({"results": {}}), "without a list of results at 'results'"),
        (web.json_response([]), "without a list of results at 'results'"),
        (web.Response(text="<html>"), "does not answer with JSON"),
        (web.Response(text="[" * 100_000), "does not answer with JSON"),
        (web.Response(body=b'{"a":"\xff"}'), "does not answer with JSON"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_told(api: Api, answer: web.Response, message: str) -> None:
    api.answers["/search"] = answer

    assert f"SearXNG {'answers ' if 'without' in message else ''}{message}" in str(await failure(Searxng(api.url)))


async def test_an_answer_without_results_is_empty(api: Api) -> None:
    api.answers["/search"] = web.json_response({"type": "search"})

    assert await Searxng(api.url).search(Query("x")) == []


# ---- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"backend": "bing"}, "Invalid value 'bing'"),
        ({"backend": "searxng"}, "missing required field `address`"),
        ({"backend": "searxng", "address": "x", "adress": "y"}, "contains unknown field `adress`"),
        ({"backend": "json", "address": "x", "method": "PUT"}, "Invalid enum value 'PUT'"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(table: dict[str, Any], message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        read_settings(table)


def test_without_a_word_it_is_duckduckgo(tmp_path: Path) -> None:
    assert isinstance(open_backend(read_settings({}).backend), DuckDuckGo)
    assert isinstance(open_backend(read_settings({"backend": "searxng", "address": "http://x"}).backend), Searxng)
    with pytest.raises(BadConfig, match="is not there"):
        open_backend(read_settings({"backend": "folder", "folder": str(tmp_path / "none")}).backend)


# ---- callback ---------------------------------------------------------------------------------------------------------


async def test_a_function_is_asked(tmp_path: Path) -> None:
    def find(query: str) -> list[dict[str, str]]:
        return [{"title": "T", "description": query, "url": str(tmp_path), "content": "c"}, {"url": "x", "extra": "y"}]

    async def find_later(query: str) -> list[Result]:
        return [Result("T", query)]

    assert await CallbackBackend(find).search(Query("q")) == [Result("T", "q", str(tmp_path), "c"), Result(url="x")]
    assert await CallbackBackend(find_later).search(Query("q")) == [Result("T", "q")]


async def test_a_function_that_fails_is_told() -> None:
    def broken(query: str) -> list[Any]:
        raise KeyError("index")

    assert "the search failed: KeyError" in str(await failure(CallbackBackend(broken)))
    assert "has to return a list of {title" in str(await failure(CallbackBackend(lambda query: "text")))


# ---- a folder ---------------------------------------------------------------------------------------------------------


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "guides").mkdir()
    (tmp_path / "guides" / "bread.md").write_text(
        "# How to bake bread\n\nFlour, water, salt. Knead the dough and wait."
    )
    (tmp_path / "salt.txt").write_text("Salt comes from the sea, or from mines. It is used in bread, too.")
    (tmp_path / "rye.html").write_text(
        "<html><head><title>Rye</title></head><body><p>Rye grows where wheat does not.</p></body></html>"
    )
    (tmp_path / "日本.txt").write_text("東京都の人口は約千四百万人です。")
    (tmp_path / ".hidden.md").write_text("secret bread")
    (tmp_path / "program.exe").write_text("bread")
    return tmp_path


async def urls(backend: FolderBackend, query: str) -> list[str]:
    return [result.url for result in await backend.search(Query(query))]


async def test_documents_are_found_by_their_words(folder: Path) -> None:
    backend = FolderBackend(folder, address="https://docs.example/")

    best, *rest = await backend.search(Query("how do I bake bread?"))

    assert (best.title, best.url) == ("How to bake bread", "https://docs.example/guides/bread.md")
    assert best.description.startswith("# How to bake bread Flour")
    assert "Knead the dough" in best.content
    assert [result.url for result in rest] == ["https://docs.example/salt.txt"]
    assert await urls(backend, "wheat") == ["https://docs.example/rye.html"]
    assert await urls(backend, "東京") == ["https://docs.example/%E6%97%A5%E6%9C%AC.txt"]
    assert await urls(backend, "zebra") == []
    backend.close()


@pytest.mark.parametrize(
    "query", ['"', "bread AND OR", "title:bread", "(", "*", "NEAR(a b)", "'; DROP TABLE word", "^bread*", "-"]
)
async def test_a_query_has_no_operators(folder: Path, query: str) -> None:
    backend = FolderBackend(folder)

    assert set(await urls(backend, query)) <= {"guides/bread.md", "salt.txt"}
    assert await urls(backend, "salt") == ["salt.txt", "guides/bread.md"]
    backend.close()


async def test_changes_are_noticed_a_minute_later(folder: Path) -> None:
    clock = Clock()
    backend = FolderBackend(folder, now=clock)
    assert await urls(backend, "oats") == []

    (folder / "oats.txt").write_text("Oats are eaten by horses.")
    (folder / "salt.txt").write_text("Salt, and oats.")
    (folder / "rye.html").unlink()
    assert await urls(backend, "oats") == []
    clock.time = 60.0

    assert sorted(await urls(backend, "oats")) == ["oats.txt", "salt.txt"]
    assert await urls(backend, "wheat") == []
    assert await urls(backend, "sea") == []
    backend.close()


async def test_an_index_is_kept_and_reads_only_what_has_changed(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    index = tmp_path_factory.mktemp("index") / "search.db"
    backend = FolderBackend(folder, index=index)
    assert await urls(backend, "wheat") == ["rye.html"]
    backend.close()
    stat = (folder / "rye.html").stat()
    (folder / "rye.html").write_text("x" * stat.st_size)
    os.utime(folder / "rye.html", ns=(stat.st_atime_ns, stat.st_mtime_ns))  # the same to look at

    again = FolderBackend(folder, index=index)

    assert await urls(again, "wheat") == ["rye.html"]
    again.close()
    index.write_bytes(b"not a database, by far" * 100)
    with pytest.raises(BadConfig, match="the index of the folder"):
        FolderBackend(folder, index=index)


async def test_a_link_does_not_lead_out_of_the_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("the password is swordfish")
    (folder / "link.txt").symlink_to(outside / "secret.txt")
    (folder / "linked").symlink_to(outside)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 swordfish")
    backend = FolderBackend(folder)

    assert await urls(backend, "swordfish") == []
    backend.close()


async def test_an_index_that_nobody_closes_is_closed_with_the_last_who_knows_it(folder: Path) -> None:
    backend = FolderBackend(folder)
    database = backend._database

    del backend
    gc.collect()

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")


async def test_ten_thousand_documents_are_searched(tmp_path: Path) -> None:
    for number in range(10_000):
        (tmp_path / f"{number}.txt").write_text(f"document number n{number} about topic{number % 100} and more")
    backend = FolderBackend(tmp_path)

    assert await urls(backend, "n4321") == ["4321.txt"]
    found = await urls(backend, "topic7 and more")
    assert len(found) == 10
    assert all(int(url.removesuffix(".txt")) % 100 == 7 for url in found)
    backend.close()

"""Fetching what strangers name, from real servers on this machine."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yarl
from aiohttp import web
from msgspec.structs import replace
from tests.tools.api_server import Api, serve

from ronda.core.parts import File
from ronda.core.taint import UNTRUSTED
from ronda.tools.fetch.addresses import AllowList
from ronda.tools.fetch.fetcher import MAX_LENGTH, Fetcher, FetchFailed
from ronda.tools.fetch.files import fetch_file

LOCAL = AllowList.parse(["127.0.0.1"])


def names(**addresses: str | list[str]) -> Any:
    """A resolver with these names; any other is an error."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        found = addresses[host.replace(".", "_")]
        return [found] if isinstance(found, str) else found

    resolve.asked = asked  # type: ignore[attr-defined]  # what was asked, for the tests
    return resolve


def at(api: Api, host: str, path: str = "/") -> str:
    return str(yarl.URL(api.url).with_host(host).with_path(path))


async def refused(fetcher: Fetcher, address: str, **options: Any) -> FetchFailed:
    with pytest.raises(FetchFailed) as found:
        await fetcher.fetch(address, **options)
    return found.value


async def test_a_page_comes_with_its_type_and_where_it_was_found(api: Api) -> None:
    api.answers["/a"] = web.Response(text="hé", content_type="text/plain", charset="latin-1")

    found = await Fetcher(LOCAL).fetch(f"{api.url}/a?x=1#part")

    assert (found.url, found.content_type, found.charset) == (f"{api.url}/a?x=1", "text/plain", "latin-1")
    assert found.data == b"h\xe9"
    headers = api.last()["headers"]
    assert headers["User-Agent"] == "ronda"
    assert "Cookie" not in headers


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "[::1]", "0"]
)
async def test_this_machine_is_not_called_however_it_is_written(api: Api, host: str) -> None:
    port = yarl.URL(api.url).port

    error = await refused(Fetcher(), f"http://{host}:{port}/")

    assert error.code in ("url_not_allowed", "url_not_accessible")  # a resolver may not know the odd ones
    assert api.asked == []


@pytest.mark.parametrize(
    "address",
    ["http://169.254.169.254/latest/meta-data", "http://[::ffff:169.254.169.254]/", "http://[64:ff9b::a9fe:a9fe]/",
     "http://10.0.0.1/", "http://100.64.0.1/", "http://0.0.0.0/", "http://[fe80::1%25eth0]/", "http://[fd00:ec2::254]/"],
)  # fmt: skip
async def test_addresses_of_the_house_are_refused_one_by_one(address: str) -> None:
    error = await refused(Fetcher(), address)

    assert error.code == "url_not_allowed"
    assert "which the operator of this server has not allowed" in str(error)


async def test_a_name_with_one_private_address_among_public_ones_is_refused(api: Api) -> None:
    resolve = names(mixed_test=["1.1.1.1", "10.0.0.7"])

    error = await refused(Fetcher(resolve=resolve), "http://mixed.test/?key=hunter2")

    assert error.code == "url_not_allowed"
    assert "mixed.test leads to a private address" in str(error)
    assert "10.0.0.7" not in str(error)
    assert "hunter2" not in str(error)


async def test_the_connection_goes_to_the_address_that_was_checked(api: Api) -> None:
    resolve = names(site_test="127.0.0.1")

    await Fetcher(LOCAL, resolve=resolve).fetch(at(api, "site.test"))

    assert resolve.asked == ["site.test"]  # once: a second answer could be another
    assert api.last()["headers"]["Host"].startswith("site.test:")


async def test_a_name_that_the_operator_lists_may_be_at_any_address(api: Api) -> None:
    fetcher = Fetcher(
        AllowList.parse(["*.corp.test"]), resolve=names(wiki_corp_test="127.0.0.1", else_test="127.0.0.1")
    )

    assert (await fetcher.fetch(at(api, "wiki.corp.test"))).data
    assert (await refused(fetcher, at(api, "else.test"))).code == "url_not_allowed"


@pytest.mark.parametrize(
    "address", ["file:///etc/passwd", "ftp://1.1.1.1/", "gopher://x/", "/a", "http://", "", "http://x:0/"]
)
async def test_only_http_and_https_are_fetched(address: str) -> None:
    error = await refused(Fetcher(LOCAL), address)

    assert error.code == "invalid_tool_input"
    assert "is not an http or https address" in str(error)


@pytest.mark.parametrize("address", ["http://[::1", "http://x:port/", "http://x y/"])
async def test_what_is_no_address_is_refused(address: str) -> None:
    assert (await refused(Fetcher(LOCAL), address)).code in ("invalid_tool_input", "url_not_accessible")


async def test_an_address_that_is_too_long_is_refused() -> None:
    assert (await refused(Fetcher(LOCAL), "http://x/" + "a" * MAX_LENGTH)).code == "url_too_long"


# ---- redirects --------------------------------------------------------------------------------------------------------


def redirect(to: str, status: int = 302) -> web.Response:
    return web.Response(status=status, headers={"Location": to})


async def test_three_redirects_are_followed_and_a_fourth_is_not(api: Api) -> None:
    for number in range(4):
        api.answers[f"/{number}"] = redirect(f"/{number + 1}")

    found = await Fetcher(LOCAL).fetch(f"{api.url}/1")
    error = await refused(Fetcher(LOCAL), f"{api.url}/0")

    assert found.url == f"{api.url}/4"
    assert "redirects more than 3 times" in str(error)


@pytest.mark.parametrize("to", ["http://169.254.169.254/", "http://inner.test/", "//[::1]/", "file:///etc/passwd"])
async def test_each_redirect_is_checked_again(api: Api, to: str) -> None:
    resolve = names(site_test="127.0.0.1", inner_test="10.0.0.1")
    resolver = _literals(resolve)
    api.answers["/a"] = redirect(to)

    error = await refused(Fetcher(LOCAL, resolve=resolver), at(api, "site.test", "/a"))

    assert error.code in ("url_not_allowed", "invalid_tool_input")


def _literals(resolve: Any) -> Any:
    async def also(host: str, port: int) -> list[str]:
        return [host] if host.replace(".", "").isdigit() or ":" in host else await resolve(host, port)

    return also


async def test_a_name_that_moves_inside_between_two_hops_is_refused(api: Api) -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    api.answers["/a"] = redirect("/b")

    error = await refused(Fetcher(LOCAL, resolve=rebinding), at(api, "rebind.test", "/a"))

    assert error.code == "url_not_allowed"
    assert [one["path"] for one in api.asked] == ["/a"]


async def test_a_key_does_not_follow_to_another_host(api: Api) -> None:
    async with serve() as other:
        api.answers["/a"] = redirect("/b")
        api.answers["/b"] = redirect(f"{other.url}/c")

        await Fetcher(LOCAL).fetch(f"{api.url}/a", headers={"Authorization": "Bearer hunter2"})

        assert [one["headers"].get("Authorization") for one in api.asked] == ["Bearer hunter2"] * 2
        assert "Authorization" not in other.last()["headers"]


async def test_another_host_can_be_out_of_bounds(api: Api) -> None:
    async with serve() as other:
        api.answers["/a"] = redirect(f"{other.url}/b")

        error = await refused(Fetcher(LOCAL), f"{api.url}/a", same_origin=True)

        assert "redirects to another host, which is not followed" in str(error)
        assert other.asked == []


# ---- bounds -----------------------------------------------------------------------------------------------------------


async def test_a_page_is_bounded_after_decompression(api: Api) -> None:
    body = gzip.compress(b"\0" * 20_000_000)
    api.answers["/bomb"] = web.Response(body=body, headers={"Content-Encoding": "gzip", "Content-Type": "text/plain"})
    api.answers["/long"] = web.Response(body=b"x" * 1001)
    api.answers["/fits"] = web.Response(body=b"x" * 1000)

    assert len(body) < 100_000
    assert (await refused(Fetcher(LOCAL), f"{api.url}/bomb")).code == "content_too_large"
    assert (await refused(Fetcher(LOCAL, max_bytes=1000), f"{api.url}/long")).code == "content_too_large"
    assert len((await Fetcher(LOCAL, max_bytes=1000).fetch(f"{api.url}/fits")).data) == 1000


async def test_a_type_that_is_of_no_use_is_not_downloaded(api: Api) -> None:
    api.answers["/film"] = web.Response(body=b"x" * 1000, content_type="video/mp4")
    api.answers["/page"] = web.Response(text="hi", content_type="text/html")

    error = await refused(Fetcher(LOCAL), f"{api.url}/film", types=("text/*", "application/pdf"))

    assert error.code == "unsupported_content_type"
    assert "video/mp4" in str(error)
    assert (await Fetcher(LOCAL).fetch(f"{api.url}/page", types=("text/*",))).data == b"hi"


async def test_a_status_is_told(api: Api) -> None:
    api.answers["/gone"] = web.Response(status=410)

    error = await refused(Fetcher(LOCAL), f"{api.url}/gone?key=hunter2")

    assert (error.code, error.status) == ("url_not_accessible", 410)
    assert "HTTP 410" in str(error)
    assert "hunter2" not in str(error)


async def test_a_host_that_is_not_there_is_named() -> None:
    async def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    error = await refused(Fetcher(resolve=unknown), "http://nowhere.test/")

    assert (error.code, str(error)) == (
        "url_not_accessible",
        "http://nowhere.test/ cannot be fetched: there is no host 'nowhere.test'",
    )


@pytest.fixture
async def silent() -> AsyncIterator[str]:
    """A server that takes a request and never answers."""
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/"
    for writer in held:
        writer.close()
    server.close()
    await server.wait_closed()


async def test_a_server_that_is_silent_is_given_up(silent: str) -> None:
    error = await refused(Fetcher(LOCAL, seconds=0.2), silent)

    assert error.code == "url_not_accessible"
    assert "did not answer within 0.2 seconds" in str(error)


async def test_a_resolver_that_is_silent_is_given_up() -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    assert "did not answer within" in str(await refused(Fetcher(resolve=never, seconds=0.05), "http://slow.test/"))


async def test_what_is_no_http_is_told(silent: str) -> None:
    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x16\x03\x01 nonsense\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(garbage, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        error = await refused(Fetcher(LOCAL), f"http://127.0.0.1:{port}/?key=hunter2")

    assert error.code == "url_not_accessible"
    assert "hunter2" not in str(error)


# ---- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name", "content_type", "expected"),
    [
        ("/docs/paper.pdf", None, "application/pdf", File("data:application/pdf;base64,aGk=", "paper.pdf")),
        ("/docs/paper.pdf", "mine.pdf", "application/pdf", File("data:application/pdf;base64,aGk=", "mine.pdf")),
        ("/a%20b.csv", None, "application/octet-stream", File("data:text/csv;base64,aGk=", "a b.csv")),
        ("/", None, "text/plain", File("data:text/plain;base64,aGk=", "file.txt")),
        ("/raw", None, "application/octet-stream", File("data:application/octet-stream;base64,aGk=", "raw")),
    ],
)
async def test_a_file_is_fetched_by_its_address(
    api: Api, path: str, name: str | None, content_type: str, expected: File
) -> None:
    api.answers[yarl.URL(path).path] = web.Response(body=b"hi", content_type=content_type)

    fetched = await fetch_file(Fetcher(LOCAL), f"{api.url}{path}?key=1", name)

    assert fetched == replace(expected, marks=(UNTRUSTED,))  # strangers wrote it


async def test_a_file_of_the_house_is_not_fetched(api: Api) -> None:
    with pytest.raises(FetchFailed, match="has not allowed"):
        await fetch_file(Fetcher(), f"{api.url}/a.pdf")
    assert api.asked == []

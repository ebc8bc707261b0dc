"""/v1/files through the libraries of OpenAI, Anthropic and Mistral, and by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from mistralai.client import Mistral
from tests.interaction.doors import TIMEOUT, Door, soon

from ronda.testing import ScriptedModel

CSV = b"city,sales\nParis,3\n"


@pytest.fixture
async def served(door: Door) -> AsyncIterator[Door]:
    async with door.serving(ScriptedModel(), max_upload=1_000_000):
        yield door


def anthropic_client(door: Door, **more: Any) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url=door.url.removesuffix("/v1"), api_key="test", max_retries=0, timeout=TIMEOUT, **more
    )


async def ask(door: Door, method: str, path: str, **more: Any) -> tuple[int, Any, Any]:
    async with soon(), door.http.request(method, f"{door.url}{path}", **more) as answer:
        data = await answer.read()
        is_json = answer.content_type == "application/json"
        return answer.status, answer.headers, json.loads(data) if is_json else data


def form(*, purpose: str | None = "user_data", name: str = "a.csv", **fields: str) -> aiohttp.FormData:
    made = aiohttp.FormData(quote_fields=False)
    made.add_field("file", CSV, filename=name, content_type="text/csv")
    for field, value in {**fields, **({} if purpose is None else {"purpose": purpose})}.items():
        made.add_field(field, value)
    return made


# ---- OpenAI ------------------------------------------------------------------------------------------------------------


async def test_openais_client_uploads_finds_reads_and_deletes(served: Door) -> None:
    files = served.client("test").files
    made = await files.create(file=("sales.csv", CSV), purpose="user_data")
    assert (made.object, made.filename, made.bytes, made.purpose, made.status) == (
        "file", "sales.csv", len(CSV), "user_data", "processed",
    )  # fmt: skip
    assert made.id.startswith("file-")
    assert len(made.id) == 37
    assert made.expires_at is None
    assert await files.retrieve(made.id) == made
    content = await files.content(made.id)
    assert content.content == CSV
    assert content.response.headers["content-type"] == "text/csv; charset=utf-8"
    deleted = await files.delete(made.id)
    assert (deleted.id, deleted.deleted) == (made.id, True)
    for gone in (files.retrieve, files.content, files.delete):
        with pytest.raises(openai.NotFoundError, match=f"File '{made.id}' not found or expired"):
            await gone(made.id)


async def test_openais_client_goes_through_the_pages(served: Door) -> None:
    files = served.client("test").files
    made = [(await files.create(file=(f"{n}.txt", b"x"), purpose="user_data")).id for n in range(5)]
    await files.create(file=("v.png", b"x"), purpose="vision")
    assert [file.id async for file in files.list(limit=2, purpose="user_data")] == made
    assert [file.id async for file in files.list(limit=2, purpose="user_data", order="desc")] == made[::-1]
    first = await files.list(limit=5, purpose="user_data")
    assert first.has_more is False
    with pytest.raises(openai.BadRequestError, match="'after' names a file that is not there"):
        await files.list(after="file-nobody")


async def test_a_file_lives_for_as_long_as_its_client_says(served: Door) -> None:
    files = served.client("test").files
    after: Any = {"anchor": "created_at", "seconds": 3600}
    made = await files.create(file=("a", b"x"), purpose="user_data", expires_after=after)
    assert made.expires_at == made.created_at + 3600
    with pytest.raises(openai.BadRequestError, match="whole number from 3600 to 2592000"):
        await files.create(file=("a", b"x"), purpose="user_data", expires_after={"anchor": "created_at", "seconds": 60})


async def test_another_key_finds_nothing(served: Door) -> None:
    made = await served.client("test").files.create(file=("a", b"x"), purpose="user_data")
    other = served.client("other").files
    for ask_for in (other.retrieve, other.content, other.delete):
        with pytest.raises(openai.NotFoundError):
            await ask_for(made.id)
    assert (await other.list()).data == []


# ---- Anthropic ---------------------------------------------------------------------------------------------------------


async def test_anthropics_client_uploads_finds_reads_and_deletes(served: Door) -> None:
    async with anthropic_client(served) as client:
        made = await client.files.upload(file=("sales.csv", CSV, "text/csv"))
        assert (made.type, made.filename, made.mime_type, made.size_bytes) == (
            "file",
            "sales.csv",
            "text/csv",
            len(CSV),
        )
        assert made.downloadable
        assert await client.files.retrieve_metadata(made.id) == made
        assert await (await client.files.download(made.id)).read() == CSV
        deleted = await client.files.delete(made.id)
        assert (deleted.id, deleted.type) == (made.id, "file_deleted")
        with pytest.raises(anthropic.NotFoundError) as gone:
            await client.files.retrieve_metadata(made.id)
    body: Any = gone.value.body
    assert body["error"] == {
        "type": "not_found_error",
        "message": f"File '{made.id}' not found or expired",
        "details": {"error_code": "file_not_found"},
    }


@pytest.mark.parametrize("version", ["2026-10-21", "2023-06-01"])
async def test_anthropics_client_goes_through_the_pages(served: Door, version: str) -> None:
    async with anthropic_client(served, default_headers={"anthropic-version": version}) as client:
        made = [(await client.files.upload(file=(f"{n}.txt", b"x"))).id for n in range(5)]
        assert [file.id async for file in client.files.list(limit=2)] == made
        assert [file.id async for file in client.beta.files.list(limit=2)] == made
        some = await client.files.list(ids=[made[3], "file-nobody", made[1]])
        assert [file.id for file in some.data] == [made[1], made[3]]


async def test_the_older_pages_of_anthropic_go_both_ways(served: Door) -> None:
    async with anthropic_client(served) as client:
        made = [(await client.files.upload(file=(f"{n}.txt", b"x"))).id for n in range(5)]
    headers = {"anthropic-version": "2023-06-01", "x-api-key": "test"}
    _, _, after = await ask(served, "GET", f"/files?limit=2&after_id={made[1]}", headers=headers)
    _, _, before = await ask(served, "GET", f"/files?limit=2&before_id={made[2]}", headers=headers)
    assert ([file["id"] for file in after["data"]], after["has_more"]) == (made[2:4], True)
    assert (after["first_id"], after["last_id"]) == (made[2], made[3])
    assert ([file["id"] for file in before["data"]], before["has_more"]) == (made[:2], False)


# ---- Mistral -----------------------------------------------------------------------------------------------------------


async def test_mistrals_client_uploads_finds_reads_and_deletes(served: Door) -> None:
    url = served.url.removesuffix("/v1")
    async with soon(), Mistral(api_key="test", server_url=url, timeout_ms=10_000) as client:
        sent: Any = {"file_name": "sales.csv", "content": CSV}
        made = await client.files.upload_async(file=sent, purpose="ocr")
        assert (made.filename, made.size_bytes, made.purpose, made.mimetype) == (
            "sales.csv",
            len(CSV),
            "ocr",
            "text/csv",
        )
        assert (await client.files.retrieve_async(file_id=made.id)).id == made.id
        assert await (await client.files.download_async(file_id=made.id)).aread() == CSV
        for n in range(3):
            other: Any = {"file_name": f"other {n}", "content": b"x"}
            await client.files.upload_async(file=other, purpose="batch")
        page = await client.files.list_async(page=1, page_size=2, search="other")
        assert ([file.filename for file in page.data], page.total) == (["other 2"], 3)
        assert (await client.files.delete_async(file_id=made.id)).deleted


# ---- what is wrong, and what is hostile --------------------------------------------------------------------------------


async def test_what_a_form_lacks_is_named(served: Door) -> None:
    no_file = aiohttp.FormData(default_to_multipart=True)
    no_file.add_field("purpose", "user_data")
    two_files = form()
    two_files.add_field("file", b"x", filename="b")
    wrong: dict[str, Any] = {
        "Missing required multipart field `purpose`.": form(purpose=" "),
        "Missing required multipart field `file`.": no_file,
        "the form must have one file, in its field `file`": two_files,
    }
    for problem, data in wrong.items():
        status, _, answer = await ask(served, "POST", "/files", data=data)
        assert status == 400
        assert answer["error"]["message"].startswith(problem)
        assert answer["error"]["param"] in ("file", "purpose")


async def test_a_body_that_is_no_form_is_refused(served: Door) -> None:
    for body in (b"{}", b"--x\r\n\r\n" + b"y" * 5000, b""):
        status, _, answer = await ask(served, "POST", "/files", data=body, headers={"content-type": "application/json"})
        assert (status, answer["error"]["message"]) == (
            415, "the body must be sent as multipart/form-data, not as application/json",
        )  # fmt: skip


async def test_a_form_under_the_type_of_json_is_read(served: Door) -> None:
    body = b'--q\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n--q\r\n'
    body += b'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello\r\n--q--\r\n'
    status, _, made = await ask(served, "POST", "/files", data=body, headers={"content-type": "application/json"})
    assert (status, made["bytes"]) == (200, 5)


async def test_a_file_that_is_too_large_is_refused_and_nothing_of_it_stays(served: Door) -> None:
    data = aiohttp.FormData()
    data.add_field("purpose", "user_data")
    data.add_field("file", bytes(1_000_001), filename="a")
    status, _, answer = await ask(served, "POST", "/files", data=data)
    assert status == 413
    assert answer["error"]["message"] == "the file has more than the 1000000 bytes this server takes"
    assert (await ask(served, "GET", "/files"))[2]["data"] == []


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("../../etc/passwd", "passwd"), ("C:\\a\\b.txt", "b.txt"), ("né \u2028 x.txt", "né  x.txt"), ("/", "input_file")],
)
async def test_names_have_no_folders_and_no_signs_that_cannot_be_seen(served: Door, sent: str, kept: str) -> None:
    _, _, made = await ask(served, "POST", "/files", data=form(name=sent))
    assert made["filename"] == kept
    status, headers, content = await ask(served, "GET", f"/files/{made['id']}/content")
    assert (status, content) == (200, CSV)
    assert headers["content-disposition"].startswith("inline; filename=")


async def test_a_page_that_somebody_uploaded_can_do_nothing_in_a_browser(served: Door) -> None:
    data = aiohttp.FormData()
    data.add_field("purpose", "user_data")
    data.add_field("file", b"<script>alert(1)</script>", filename="a.html", content_type="text/html")
    _, _, made = await ask(served, "POST", "/files", data=data)
    _, headers, _ = await ask(served, "GET", f"/files/{made['id']}/content")
    assert headers["content-security-policy"].startswith("sandbox")
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("headers", "disposition"),
    [
        ({}, "inline"),
        ({"sec-fetch-dest": "image"}, "inline"),
        ({"sec-fetch-dest": "document"}, "attachment"),
        ({"sec-fetch-dest": "iframe"}, "attachment"),
    ],
)
async def test_a_browser_that_would_show_a_file_as_a_page_downloads_it(
    served: Door, headers: dict[str, str], disposition: str
) -> None:
    _, _, made = await ask(served, "POST", "/files", data=form())
    _, told, _ = await ask(served, "GET", f"/files/{made['id']}/content", headers=headers)
    assert told["content-disposition"].startswith(f"{disposition}; filename=")


async def test_a_large_file_comes_back_whole(served: Door) -> None:
    large = bytes(range(256)) * 3900
    made = await served.client("test").files.create(file=("a.bin", large), purpose="user_data")
    assert (await served.client("test").files.content(made.id)).content == large


async def test_a_link_leads_to_a_file_without_a_key_until_it_is_over(served: Door) -> None:
    url = served.url.removesuffix("/v1")
    async with soon(), Mistral(api_key="test", server_url=url, timeout_ms=10_000) as client:
        sent: Any = {"file_name": "a.txt", "content": b"hello"}
        file = await client.files.upload_async(file=sent)
        link = (await client.files.get_signed_url_async(file_id=file.id, expiry=1)).url
    async with served.http.get(link) as answer:
        assert (answer.status, await answer.read()) == (200, b"hello")
    for other in (link[:-2], link + "AA", link.rpartition("/")[0] + "/x"):
        async with served.http.get(other) as answer:
            assert answer.status == 404
    headers = {"authorization": "Bearer test"}
    async with served.http.get(f"{served.url}/files/{file.id}/url?expiry=0", headers=headers) as answer:
        assert answer.status == 400
    async with served.http.get(f"{served.url}/files/{file.id}/url") as answer:  # another
        assert answer.status == 404

"""Documents that requests bring: their text is extracted in a sandbox, shown, and read with a tool."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any

import pytest
from tests.interaction.doors import Door
from tests.server.coding import post
from tests.server.services.test_input_files import asking, by_id, data_url, results, told, upload

from ronda.files.archives import pack_zip
from ronda.sandbox.policy import Policy
from ronda.testing import ScriptedModel, calls, says
from ronda.tools.files import documents
from ronda.tools.files.documents import Documents

HTML = b"<html><head><title>T</title><script>bad()</script></head><body><p>Some words of the page.</p></body></html>"


def pdf(text: str) -> bytes:
    """One page that says so."""
    stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    out, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj%b endobj\n" % (number, one)
    table = b"".join([b"%010d 00000 n \n" % place for place in places])
    end = b"xref\n0 6\n0000000000 65535 f \n%btrailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (table, len(out))
    return out + end


def docx(text: str) -> bytes:
    def words(text: str) -> str:
        return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"

    row = "".join([f"<w:tc>{words(cell)}</w:tc>" for cell in "ab"])
    body = f"{words(text)}<w:tbl><w:tr>{row}</w:tr></w:tbl>"
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    document = f'<w:document xmlns:w="{space}"><w:body>{body}</w:body></w:document>'
    return pack_zip({"word/document.xml": document.encode()})


def xlsx(text: str) -> bytes:
    book: Any = pytest.importorskip("openpyxl").Workbook()
    book.active.title = "Sales"
    book.active.append([text, 7, None, "a,b"])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "make", "shown"),
    [
        ("a.pdf", pdf, "[page 1]\nHello there"),
        ("a.docx", docx, "Hello there\na\tb\n"),
        ("a.xlsx", xlsx, '[sheet Sales]\nHello there,7,,"a,b"\n'),
        ("a.html", lambda text: HTML.replace(b"Some words", text.encode()), "Hello there of the page."),
    ],
)
async def test_the_text_of_a_document_is_shown_and_read(door: Door, name: str, make: Any, shown: str) -> None:
    model = ScriptedModel()
    async with door.serving(model):
        file_id = await upload(door, name, make("Hello there"))
        ScriptedModel.__init__(model, calls("mistralrs_read_file", file_id=file_id, start=0, end=40), says("done"))
        status, answer = await post(door, *asking("responses", by_id("responses", file_id)))
    assert status == 200, answer
    assert shown in told(model)
    assert "bad()" not in told(model)
    assert json.loads(results(model)[0])["text"].startswith(shown[:20])


async def test_a_document_that_comes_along_is_read_too(door: Door) -> None:
    model = ScriptedModel(says("done"))
    file = {"filename": "a.pdf", "file_data": data_url(pdf("Inline words"), "application/pdf")}
    async with door.serving(model):
        status, answer = await post(door, *asking("chat/completions", {"type": "file", "file": file}))
    assert status == 200, answer
    assert "Inline words" in told(model)


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.xlsx"])
async def test_a_document_that_is_none_is_told_as_such(door: Door, name: str) -> None:
    model = ScriptedModel()
    async with door.serving(model):
        file_id = await upload(door, name, b"\0\xff nothing of the kind")
        ScriptedModel.__init__(model, calls("mistralrs_read_file", file_id=file_id), says("done"))
        status, _ = await post(door, *asking("responses", by_id("responses", file_id)))
    assert status == 200
    assert "the file is damaged" in told(model)
    assert "the file is damaged" in json.loads(results(model)[0])["error"]


async def test_where_a_package_is_missing_the_sentence_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(documents._PACKAGES, "xlsx", ())

    async def read() -> bytes:
        return b""

    found = await Documents(Policy(), "/usr/bin/python3", os.environ).extract("id", "xlsx", 0, read)
    assert found.problem == (
        "its text cannot be extracted: the server lacks 'openpyxl'; pip install 'ronda[files]' brings it"
    )


async def test_a_text_is_extracted_once() -> None:
    known = Documents(Policy(), sys.executable, os.environ)
    reads = 0

    async def read() -> bytes:
        nonlocal reads
        reads += 1
        return HTML

    first = await known.extract("id", "html", len(HTML), read)
    assert await known.extract("id", "html", len(HTML), read) == first
    assert (first.text, first.problem, reads) == ("Some words of the page.", "", 1)
    large = await known.extract("other", "pdf", 1 << 30, read)
    assert "more than" in large.problem
    assert reads == 1

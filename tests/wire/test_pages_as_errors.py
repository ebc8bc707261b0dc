"""Where a proxy or a gateway answers with a page for people, the error has what the page says, and none of its markup."""

from __future__ import annotations

import time

import msgspec
import pytest

from ronda.wire.upstream.errors import error_of

NGINX = """<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>
<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"""
CLOUDFLARE = """<!DOCTYPE html>\n<!--[if lt IE 7]> <html class="no-js ie6 oldie" lang="en-US"> <![endif]-->\n<head>
<title>api.example.com | 502: Bad gateway</title>\n<style>body { color: red }</style></head><body>…</body></html>"""

PAGES = {
    "a title": (NGINX, "502 Bad Gateway"),
    "a title among much": (CLOUDFLARE, "api.example.com | 502: Bad gateway"),
    "no title": (
        "<html><body><script>alert(1)</script><p>Down for&nbsp;a &lt;while&gt;</p></body></html>",
        "Down for a <while>",
    ),
    "an empty title": ("<html><head><title> </title></head><body>Gone</body></html>", "Gone"),
    "a comment before it": ("<!-- a page --><html><body>Gone</body></html>", "Gone"),
    "XHTML": ('<?xml version="1.0"?>\n<!DOCTYPE html><html><head><title>Oops</title></head></html>', "Oops"),
    "nothing to read": ("<html><body></body></html>", "a page without text"),
    "much to read": (f"<html><body>{'word ' * 100}</body></html>", f"{('word ' * 100)[:200]}…"),
}


@pytest.mark.parametrize(("page", "text"), PAGES.values(), ids=PAGES.keys())
def test_a_page_is_read_as_people_would(page: str, text: str) -> None:
    assert str(error_of(page.encode(), 502)) == f"the model's server answered 502: {text}"
    packed = msgspec.json.encode({"error": {"message": page}})
    assert str(error_of(packed, 502)) == f"the model's server answered 502: {text}"


@pytest.mark.parametrize("text", ["2 < 3", "use <b> for bold", "<|im_start|> is no token", "expected <html>"])
def test_what_is_no_page_stays_as_it_is(text: str) -> None:
    assert str(error_of(text.encode(), 400)) == f"the model's server answered 400: {text}"


@pytest.mark.parametrize("piece", ["<", "<!--", "<script", "<title>", "</"])
def test_a_hostile_page_is_read_in_no_time(piece: str) -> None:
    began = time.process_time()
    error_of(b"<html>" + piece.encode() * 1_000_000, 502)
    assert time.process_time() - began < 1

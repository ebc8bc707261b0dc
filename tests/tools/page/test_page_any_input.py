"""Whatever a model, a page or an upload brings: these read it, and raise nothing but what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.page.play import png

from ronda.errors import BadRequest, ToolFailed
from ronda.tools.fetch.fetcher import Fetcher
from ronda.tools.page.assets import PageAssets
from ronda.tools.page.boxes import read_boxes
from ronda.tools.page.capture import page_address
from ronda.tools.page.cdn import Cdn
from ronda.tools.page.edits import apply_edits, nearest, read_edits, unified_diff
from ronda.tools.page.export import find_pictures, pin_babel
from ronda.tools.page.pictures import read_data_url, read_picture
from ronda.tools.page.sources import find_picture
from ronda.tools.page.tool import PageError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=10,
)
MAGIC = st.sampled_from(
    [png()[:16], b"GIF89a", b"\xff\xd8\xff\xe0", b"RIFF\0\0\0\0WEBPVP8X", b"RIFF\0\0\0\0WEBPVP8 ", b""]
)
MARKUP = st.lists(
    st.sampled_from(
        ["<img src=", "<style>", "url(", "<script>", '"', "'", ">", "</", "data:image/png;base64,", "https://["]
    )
    | st.text(max_size=4),
    max_size=12,
).map("".join)


@given(MAGIC, st.binary(max_size=60))
def test_any_bytes_are_a_picture_or_none(magic: bytes, rest: bytes) -> None:
    found = read_picture(magic + rest)
    assert found is None or (found.width > 0 and found.height > 0)


@given(st.text(max_size=60) | st.text(max_size=40).map("data:image/png;base64,".__add__))
def test_any_text_is_a_picture_or_none(text: str) -> None:
    found = read_data_url(text)
    assert found is None or (found.width > 0 and found.height > 0)


@given(st.dictionaries(st.sampled_from(["old_text", "new_text", "count", "edits"]), JSON), st.text(max_size=40))
def test_any_arguments_are_edits_or_refused(arguments: dict[str, object], text: str) -> None:
    try:
        edits = read_edits(arguments)
        edited = apply_edits(text, edits).text
    except PageError as error:
        edited = text
        assert set(error.output) >= {"error"}  # noqa: PT017  # a refusal is one of two right answers
    unified_diff("a", text, edited)


@given(st.text(max_size=200), st.text(max_size=40))
def test_what_is_nearest_is_a_part_of_the_text(text: str, wanted: str) -> None:
    found = nearest(text, wanted)
    if found is not None:
        line, lines = found
        assert lines.splitlines()[0] == text.splitlines()[line - 1][:200]


@given(JSON)
def test_any_answer_is_boxes_within_the_pictures(answer: object) -> None:
    boxes = read_boxes({"assets": answer}, 2, 3)
    for box in boxes:
        left, top, right, bottom = box.pixels(64, 48)
        assert 0 <= left < right <= 64
        assert 0 <= top < bottom <= 48


@given(MARKUP)
def test_any_markup_can_be_exported(markup: str) -> None:
    assert len(find_pictures(pin_babel(markup))) <= 50


@given(MARKUP)
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        assert page_address(text).startswith(("http://", "https://"))
    except BadRequest:
        return


@pytest.mark.parametrize(
    "path",
    [
        "https://unpkg.com/../../secret.js",
        "https://unpkg.com/%2e%2e/%2e%2e/secret.js",
        "https://unpkg.com/vue/%2e%2e/%2e%2e/secret.js",
        "https://unpkg.com/vue//etc/passwd",
        "https://cdn.jsdelivr.net/npm/..@1/secret.js",
        "https://cdnjs.cloudflare.com/ajax/libs/vue/1/../../../secret.js",
        "https://cdnjs.cloudflare.com/ajax/libs/../1/secret.js",
        "https://fonts.googleapis.com/css?family=../../secret",
        "https://unpkg.com/vue/.version",
    ],
)
def test_no_file_beside_the_packages_is_served(path: str, tmp_path: Path) -> None:
    (tmp_path / "page" / "vue").mkdir(parents=True)
    (tmp_path / "page" / "vue" / ".version").write_text("s3cret")
    (tmp_path / "secret.js").write_text("s3cret")
    found = Cdn(tmp_path / "page").find(path)
    assert found is None or b"s3cret" not in found.body


@pytest.mark.parametrize(
    "url", ["http://[", "", "x", "data:", "//", "http://", "\0", "tmp_asset_../../x", "/local-assets/../x"]
)
async def test_what_is_no_picture_is_told_of(url: str, tmp_path: Path) -> None:
    with pytest.raises(ToolFailed):
        await find_picture(url, PageAssets(tmp_path), Fetcher())

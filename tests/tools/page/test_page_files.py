"""create_file, edit_file, retrieve_option and save_assets, as a model calls them in a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.timeouts import TIMEOUT, soon
from tests.tools.page.play import Played, call, data_url, play, png

from ronda import Agent, resume_agent_async, run_agent_async, tool
from ronda.core.events import ModelFinished
from ronda.core.parts import Image
from ronda.drive import Tool
from ronda.journal.memory import MemoryJournal
from ronda.providers.script import Call, ScriptedModel, calls, says
from ronda.tools.page import PageAssets, PageProject, PageServices, page_tools
from ronda.tools.page.edits import Edit, apply_edits, unified_diff
from ronda.tools.page.tool import PageError

PAGE = (
    "<!DOCTYPE html>\n<html><head><title>Small</title></head><body>\n<h1>Hello</h1>\n"
    "<p>one</p>\n<p>two</p>\n<p>one</p>\n</body></html>"
)


def tools(project: PageProject) -> list[Tool]:
    return page_tools(project, PageServices(PageAssets()))


async def edit(project: PageProject, **arguments: Any) -> Played:
    return await call(tools(project), "edit_file", **arguments)


async def test_a_created_file_is_the_page() -> None:
    project = PageProject()
    played = await call(tools(project), "create_file", path="index.html", content=PAGE)
    assert played.result == {
        "content": "Successfully created file at index.html.",
        "details": {"path": "index.html", "contentLength": 124},
    }
    assert played.details == {
        "output": {"path": "index.html", "contentLength": 124, "preview": PAGE},
        "ok": True,
        "path": "index.html",
        "code": PAGE,
        "files": {"index.html": PAGE},
    }
    assert project.code == PAGE


async def test_the_preview_of_a_long_file_is_cut() -> None:
    played = await call(tools(PageProject()), "create_file", path="index.html", content="x" * 321)
    assert played.output["preview"] == "x" * 320 + "..."


@pytest.mark.parametrize("content", ["", "  \n", None, 7])
async def test_a_file_without_content_is_refused(content: Any) -> None:
    played = await call(tools(PageProject()), "create_file", path="index.html", content=content)
    assert (played.failed, played.result) == (True, {"error": "create_file requires non-empty content"})
    assert played.details == {"output": {"error": "Missing content"}, "ok": False, "path": "index.html"}


@pytest.mark.parametrize("path", ["../etc/passwd", "a/../../b", "a\0b", "/", "x" * 201, 7])
async def test_a_path_that_leads_out_is_refused(path: Any) -> None:
    project = PageProject()
    played = await call(tools(project), "create_file", path=path, content="x")
    assert played.output == {"error": "Invalid path"}
    assert project.files == {}


async def test_a_page_has_several_files_and_one_of_them_is_the_page() -> None:
    project = PageProject()
    written = await play(
        tools(project),
        [("create_file", {"path": "css/site.css", "content": "b {}"})],
        [("create_file", {"path": "./index.html", "content": PAGE})],
        [("edit_file", {"path": "/css/site.css", "old_text": "b", "new_text": "i"})],
    )
    assert [played.details["files"] for played in written] == [
        {"css/site.css": "b {}"},
        {"index.html": PAGE},
        {"css/site.css": "i {}"},
    ]
    assert [played.details.get("code") for played in written] == [None, PAGE, PAGE]
    assert (project.main, project.code) == ("index.html", PAGE)


async def test_a_page_may_have_another_name() -> None:
    project = PageProject()
    written = await play(
        tools(project),
        [
            ("create_file", {"path": "app.css", "content": "b {}"}),
            ("create_file", {"path": "home.htm", "content": PAGE}),
        ],
        [("edit_file", {"old_text": "Hello", "new_text": "Bye"})],
    )
    assert [played.details["path"] for played in written] == ["index.html", "home.htm", "home.htm"]
    assert project.code == PAGE.replace("Hello", "Bye")


async def test_an_edit_tells_the_model_and_the_page_what_changed() -> None:
    project = PageProject({"index.html": PAGE})
    played = await edit(project, path=None, old_text="Hello", new_text="Good morning", count=None, edits=None)
    diff = (
        "--- index.html\n+++ index.html\n@@ -1,6 +1,6 @@\n <!DOCTYPE html>\n <html><head><title>Small</title></head><body>\n"
        "-<h1>Hello</h1>\n+<h1>Good morning</h1>\n <p>one</p>\n <p>two</p>\n <p>one</p>\n"
    )
    facts = {"diff": diff, "firstChangedLine": 1}
    assert played.result == {"content": "Successfully edited file at index.html.", "details": facts}
    assert played.output == {
        "path": "index.html",
        "edits": [{"old_text": "Hello", "new_text": "Good morning", "replaced": 1}],
        "contentLength": 131,
        **facts,
    }
    assert played.details["code"] == project.code == PAGE.replace("Hello", "Good morning")


@pytest.mark.parametrize(
    ("count", "replaced", "text"),
    [
        (None, 1, "b a a"),
        (1, 1, "b a a"),
        (2, 2, "b b a"),
        (9, 3, "b b b"),
        (-1, 3, "b b b"),
        (2.0, 2, "b b a"),
        (10**30, 3, "b b b"),
    ],
)
async def test_count_is_how_many_are_replaced(count: Any, replaced: int, text: str) -> None:
    project = PageProject({"index.html": "a a a"})
    played = await edit(project, old_text="a", new_text="b", count=count)
    assert (played.output["edits"][0]["replaced"], project.code) == (replaced, text)


@pytest.mark.parametrize(
    ("arguments", "error", "shown"),
    [
        ({"old_text": "a", "new_text": "b", "count": 0}, "count must not be 0", "Invalid count"),
        ({"old_text": "a", "new_text": "b", "count": "2"}, "count must be an integer", "Invalid count"),
        ({"old_text": "a", "new_text": "b", "count": True}, "count must be an integer", "Invalid count"),
        ({"old_text": "a", "new_text": "b", "count": 1.5}, "count must be an integer", "Invalid count"),
        ({"edits": "x"}, "edits must be a list", "Invalid edits payload"),
        ({"edits": ["x"]}, "edits[0]: an edit must be an object", "Invalid edits payload"),
        (
            {"edits": [{"old_text": "a", "new_text": "b"}, {"new_text": "b"}]},
            "edits[1]: edit_file requires old_text",
            "Missing old_text",
        ),
        ({}, "edit_file requires old_text", "Missing old_text"),
        ({"old_text": "a", "new_text": "b" * 2_000_001}, "the file would have", "File too large"),
        (
            {"path": "b.css", "old_text": "a", "new_text": "b"},
            "No file exists at b.css. There is: index.html.",
            "No file at b.css",
        ),
    ],
)
async def test_an_edit_that_makes_no_sense_is_told_and_changes_nothing(
    arguments: dict[str, Any], error: str, shown: str
) -> None:
    project = PageProject({"index.html": "a a a"})
    played = await edit(project, **arguments)
    assert played.failed
    assert played.result["error"].startswith(error)
    assert played.details == {"output": {"error": shown}, "ok": False, "path": "index.html"}
    assert project.code == "a a a"


async def test_an_edit_needs_a_file() -> None:
    played = await edit(PageProject(), old_text="a", new_text="b")
    assert played.result == {"error": "No file exists yet. Call create_file first."}
    assert played.output == {"error": "No file to edit"}


async def test_a_failing_edit_says_which_it_is_and_what_comes_nearest_and_nothing_is_changed() -> None:
    project = PageProject({"index.html": PAGE})
    wanted = "<p>two</p>\n  <p>three</p>" + "x" * 160
    edits = [{"old_text": "Hello", "new_text": "Changed"}, {"old_text": wanted, "new_text": "x", "count": None}]
    played = await edit(project, edits=edits)
    assert played.result == {
        "error": "old_text not found",
        "old_text": wanted,
        "edit_index": 1,
        "note": "None of the 2 edits was applied.",
        "nearest_match": {"line": 5, "text": "<p>two</p>\n<p>one</p>"},
    }
    assert played.output == {"error": "old_text not found", "old_text": wanted[:160] + "..."}
    assert project.code == PAGE


async def test_a_line_that_is_nearly_the_same_is_found() -> None:
    played = await edit(PageProject({"index.html": PAGE}), old_text='<h1 class="big">Hello</h1>', new_text="")
    assert played.result["nearest_match"] == {"line": 3, "text": "<h1>Hello</h1>"}


async def test_calls_of_one_turn_run_in_the_order_of_the_model() -> None:
    project = PageProject()
    turn = [("create_file", {"path": "index.html", "content": "one"})]
    turn += [("edit_file", {"old_text": old, "new_text": new}) for old, new in (("one", "two"), ("two", "three"))]
    played = await play(tools(project), turn)
    assert [one.details["code"] for one in played] == ["one", "two", "three"]


@given(
    st.lists(
        st.tuples(
            st.text("ab\n", min_size=1, max_size=3), st.text("abc\n", max_size=3), st.integers(-1, 3).filter(bool)
        ),
        max_size=5,
    ),
    st.text("ab\n", max_size=30),
)
def test_edits_are_those_of_str_replace_or_none_is_done(edits: Sequence[tuple[str, str, int]], text: str) -> None:
    expected = text
    for old, new, count in edits:
        if old not in expected:
            with pytest.raises(PageError):
                apply_edits(text, [Edit(*edit) for edit in edits])
            return
        expected = expected.replace(old, new, count)
    assert apply_edits(text, [Edit(*edit) for edit in edits]).text == expected


def test_the_difference_of_a_very_long_file_is_bounded() -> None:
    diff, line = unified_diff("a", "x\n" * 30_000, "x\n" * 10 + "y\n" * 30_000)
    assert (len(diff) < 1_000, line) == (True, 11)
    diff, _ = unified_diff("a", "x" * 100_000, "y" * 100_000)
    assert len(diff) < 21_000


# ---- other variants --------------------------------------------------------------------------------------------------


async def test_another_option_is_read_by_its_number() -> None:
    project = PageProject(options=["first", PAGE, ""])
    read = await call(tools(project), "retrieve_option", option_number=2)
    assert read.result == {"option_number": 2, "code": PAGE}
    assert read.output == {"option_number": 2, "contentLength": 124, "preview": PAGE}
    by_index = await call(tools(project), "retrieve_option", option_number=None, index=0)
    assert by_index.result == {"option_number": 1, "code": "first"}


@pytest.mark.parametrize(
    ("arguments", "result", "output"),
    [
        ({}, {"error": "retrieve_option requires option_number"}, {"error": "Missing option_number"}),
        (
            {"option_number": "2"},
            {"error": "retrieve_option requires option_number"},
            {"error": "Missing option_number"},
        ),
        (
            {"option_number": 3},
            {"error": "Option index out of range", "option_number": 3, "available": 2},
            {"error": "Option index out of range", "available": 2},
        ),
        ({"option_number": 2}, {"error": "Option code is empty or unavailable"}, {"error": "Option code unavailable"}),
    ],
)
async def test_an_option_that_is_not_there_is_refused(arguments: dict[str, Any], result: Any, output: Any) -> None:
    played = await call(tools(PageProject(options=["first", " "])), "retrieve_option", **arguments)
    assert (played.failed, played.result, played.output) == (True, result, output)


async def test_options_may_be_those_of_runs_under_way() -> None:
    async def options() -> Sequence[str]:
        return ["so far"]

    played = await call(tools(PageProject(options=options)), "retrieve_option", option_number=1)
    assert played.result["code"] == "so far"


# ---- assets ----------------------------------------------------------------------------------------------------------


async def test_an_upload_is_saved_and_served(tmp_path: Path) -> None:
    assets = PageAssets(tmp_path)
    picture = png()
    digest = sha256(picture).hexdigest()[:24]
    file_id = await assets.add(data_url(picture, "image/jpeg"))  # its bytes say what it is
    assert file_id == f"tmp_asset_{digest}"
    project = PageProject(base_url="http://127.0.0.1:1234")
    played = await call(
        page_tools(project, PageServices(assets)),
        "save_assets",
        asset_ids=[file_id, f" {file_id} ", "tmp_asset_" + "0" * 24],
    )
    images = [
        {
            "asset_id": file_id,
            "public_url": f"http://127.0.0.1:1234/local-assets/asset_{digest}.png",
            "content_type": "image/png",
            "status": "ok",
        },
        {"asset_id": "tmp_asset_" + "0" * 24, "public_url": None, "content_type": None, "status": "error"},
    ]
    assert (played.failed, played.result, played.output) == (False, {"images": images}, {"images": images})
    assert played.attachments == (Image(data_url(picture)),)
    served = await PageAssets(tmp_path).open(f"asset_{digest}.png")
    assert served is not None
    assert (served.data, served.content_type) == (picture, "image/png")


@pytest.mark.parametrize("ids", [None, [], "x"])
async def test_no_assets_are_saved_without_ids(ids: Any) -> None:
    played = await call(tools(PageProject()), "save_assets", asset_ids=ids)
    assert played.result == {"error": "save_assets requires a non-empty asset_ids list"}
    blank = await call(tools(PageProject()), "save_assets", asset_ids=[" ", 7])
    assert blank.result == {"error": "No valid asset IDs provided"}


HUGE = png()[:16] + (60_000).to_bytes(4, "big") * 2 + png()[24:]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "data:image/png;base64,!!",
        data_url(b"GIF8"),
        data_url(b"<svg/>"),
        data_url(HUGE),
        data_url(png()[:20]),
        "https://example.com/a.png",
    ],
)
async def test_what_is_no_picture_or_unpacks_to_gigabytes_is_not_kept(url: str, tmp_path: Path) -> None:
    assert await PageAssets(tmp_path).add(url) is None
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "../secret.png",
        "asset_x.png",
        "asset_" + "0" * 24 + ".png",
        "",
        "tmp_asset_" + "0" * 24,
        "a/asset_" + "0" * 24 + ".png",
    ],
)
async def test_nothing_but_assets_is_served(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(png())
    assert await PageAssets(tmp_path / "assets").open(name) is None


async def test_assets_have_a_bound(tmp_path: Path) -> None:
    assets = PageAssets(tmp_path, max_total=len(png()) + 10)
    assert await assets.add(data_url(png()))
    assert await assets.add(data_url(png(2, 2))) is None
    assert await assets.add(data_url(png()))  # which is there already


# ---- going on --------------------------------------------------------------------------------------------------------


async def test_a_run_cut_off_after_any_of_its_events_ends_with_the_same_files() -> None:
    journal = MemoryJournal()
    script = [
        calls(
            Call("create_file", {"path": "index.html", "content": PAGE}, "c1"),
            Call("edit_file", {"old_text": "Hello", "new_text": "Bye"}, "c2"),
        ),
        calls(Call("edit_file", {"edits": [{"old_text": "one", "new_text": "1", "count": -1}]}, "c3")),
        says("done"),
    ]
    async with soon():
        whole = await run_agent_async(
            Agent(model=ScriptedModel(*script), tools=tools(PageProject())), "go", journal=journal
        )
        events = await journal.read(whole.run_id)
        ends = {}
        for cut in range(1, len(events)):
            again = MemoryJournal()
            again.append(whole.run_id, events[:cut])
            again.release(whole.run_id, waiting=False)
            project = PageProject().restored(events[:cut])
            answered = sum(isinstance(event, ModelFinished) for event in events[:cut])
            agent = Agent(model=ScriptedModel(*script[answered:]), tools=tools(project))
            result = await resume_agent_async(whole.run_id, journal=again, agent=agent)
            ends[cut] = (result.output, project.code)
    assert ends == dict.fromkeys(ends, ("done", PAGE.replace("Hello", "Bye").replace("one", "1")))


@tool(approval="ask")
def publish() -> str:
    """Publish the page."""
    return "published"


async def test_a_run_that_goes_on_in_another_process_finds_its_files() -> None:
    journal = MemoryJournal()
    script = [
        calls(
            Call("create_file", {"path": "index.html", "content": PAGE}, "c1"),
            Call("create_file", {"path": "a.css", "content": "b{}"}, "c2"),
        ),
        calls(Call("edit_file", {"old_text": "Hello", "new_text": "Bye"}, "c3")),
        calls(Call("edit_file", {"old_text": "absent", "new_text": "x"}, "c4"), Call("publish", {}, "c5")),
    ]
    first = Agent(model=ScriptedModel(*script), tools=[*tools(PageProject()), publish])
    rest = [calls(Call("edit_file", {"old_text": "Bye", "new_text": "Again"}, "c6")), says("done")]
    async with soon():
        waits = await run_agent_async(first, "go", journal=journal)
        project = PageProject().restored(await journal.read(waits.run_id))
        assert project.files == {"index.html": PAGE.replace("Hello", "Bye"), "a.css": "b{}"}
        second = Agent(model=ScriptedModel(*rest), tools=[*tools(project), publish])
        answers = {question.id: True for question in waits.questions}
        result = await resume_agent_async(waits.run_id, answers, journal=journal, agent=second)
    assert (result.output, project.code) == ("done", PAGE.replace("Hello", "Again"))


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = "import ronda.tools.page, sys; print({'PIL', 'numpy', 'onnxruntime'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.stdout == "set()\n", done.stderr

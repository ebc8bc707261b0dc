"""/generate-code: a page is written in variants side by side, and the front end sees it grow."""

from __future__ import annotations

import msgspec
import pytest
from tests.interaction.doors import Door, Remembering
from tests.server.app_door import (
    PAGE,
    PIXEL,
    PageModel,
    Parts,
    call,
    create,
    generate,
    results_of,
)
from tests.tools.page.looks import needs_chromium

from ronda.core.parts import Image, Reasoning, Text, ToolCall, ToolTurn, UserTurn
from ronda.server.features.app_stream.settings import AppConfig

# ---- pages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["path", "content"])
@pytest.mark.parametrize("chunk", [1, 7, 10_000])
async def test_a_page_grows_while_it_is_written(door: Door, first: str, chunk: int) -> None:
    long = PAGE.replace("<p>one</p>", "".join(f'<p>line {n} \\ "é"</p>\n' for n in range(100)))
    model = PageModel(
        [Reasoning("Hm."), Text("I write."), create(long, first=first)], [Text("There it is.")], chunk=chunk
    )
    async with door.serving(model) as served:
        heard = await generate(served)

    heard.check()
    assert (heard.code, heard.count) == (1000, 4)
    for variant in range(4):
        assert [
            message["type"] for message in heard.of(variant, "thinking", "assistant", "toolStart", "toolResult")
        ] == [
            "thinking",
            "assistant",
            "toolStart",
            "toolResult",
            "assistant",
        ]
        growth = heard.growth(variant)
        assert all(long.startswith(shown) for shown in growth)
        assert [len(shown) for shown in growth] == sorted(len(shown) for shown in growth)
        assert len({len(shown) for shown in growth}) >= (20 if chunk < 100 else 1)
        assert heard.code_of(variant) == long
        (start,) = heard.of(variant, "toolStart")
        assert start["data"]["input"]["path"] == "index.html"


@pytest.mark.parametrize("page", [[], [create(id="c0")]])
async def test_a_file_beside_the_page_does_not_stay_in_its_place(door: Door, page: list[ToolCall]) -> None:
    """Until its path comes, behind its content, it may be the page."""
    style = create("p { color: red; margin: 0 } " * 9, path="site.css", first="content")
    model = PageModel([*page, style], [create(id="c2")], [Text("Done.")])
    async with door.serving(model, app=AppConfig(variants=1)) as served:
        heard = await generate(served)

    heard.check()
    ready = heard.messages.index(heard.of(0, "toolResult")[0])
    shown = [message["value"] for message in heard.messages[:ready] if message["type"] == "setCode"]
    assert shown[-1] == (PAGE if page else "")
    assert heard.code_of(0) == PAGE


async def test_what_goes_over_the_wire_grows_as_the_page_does(door: Door) -> None:
    """The whole page for every piece would be its square."""
    sizes = []
    for lines in (1_000, 4_000):
        page = PAGE.replace("<p>one</p>", "<p>some text of a line</p>\n" * lines)
        async with door.serving(PageModel([create(page)], chunk=40), app=AppConfig(variants=1)) as served:
            heard = await generate(served)
        heard.check()
        sizes.append(sum(len(message["value"]) for message in heard.of(0, "setCode", "chunk")))

    assert sizes[1] < 5 * sizes[0]


async def test_an_update_changes_the_file(door: Door) -> None:
    edits = [{"old_text": "Hello", "new_text": "Good morning"}, {"old_text": "one", "new_text": "two", "count": None}]
    model = PageModel(
        [call("edit_file", edits=edits, path=None)], [call("retrieve_option", option_number=2)], [Text("Done.")]
    )
    async with door.serving(model) as served:
        heard = await generate(
            served,
            generationType="update",
            history=[
                {"role": "user", "text": "A page.", "images": [PIXEL], "videos": []},
                {"role": "assistant", "text": PAGE, "images": [], "videos": []},
                {"role": "user", "text": "Say good morning."},
            ],
            fileState={"path": "index.html", "content": PAGE},
            optionCodes=[PAGE, "<h1>the other</h1>"],
        )

    heard.check()
    assert (heard.code, heard.count) == (1000, 2)
    assert heard.code_of(1) == PAGE.replace("Hello", "Good morning").replace("one", "two")
    first = model.requests[0].turns
    assert [type(turn).__name__ for turn in first] == ["SystemTurn", "UserTurn", "AssistantTurn", "UserTurn"]
    assert isinstance(first[1], UserTurn)
    assert Image(PIXEL) in first[1].parts
    assert "tmp_asset_" in str(first[1].parts[-1])
    options = [results_of(request)[0] for request in model.requests if request.round == 2]
    assert options[0] == {"option_number": 2, "code": "<h1>the other</h1>"}


async def test_imported_code_is_put_before_the_model(door: Door) -> None:
    model = PageModel([Text("I see.")])
    async with door.serving(model) as served:
        prompt = {"text": "Bigger", "fullText": "Bigger\n\nSelected: <h1>", "images": []}
        file = {"path": "index.html", "content": PAGE}
        heard = await generate(served, generationType="update", history=[], prompt=prompt, fileState=file)

    heard.check()
    assert heard.code_of(0) == PAGE  # the model has only spoken: the file stays
    (_, turn) = model.requests[0].turns
    assert isinstance(turn, UserTurn)
    text = str(turn.parts[-1])
    assert "<change_request>" in text
    assert "Selected: <h1>" in text
    assert 'current_file path="index.html"' in text


@pytest.mark.parametrize(
    "stack", ["html_css", "html_tailwind", "react_tailwind", "bootstrap", "ionic_tailwind", "vue_tailwind"]
)
async def test_every_stack_is_told_to_the_model(door: Door, stack: str) -> None:
    model = PageModel([create()])
    async with door.serving(model, app=AppConfig(variants=1)) as served:
        heard = await generate(
            served, generatedCodeConfig=stack, designSystem="  Two colours. ", isImageGenerationEnabled=False
        )

    heard.check()
    text = str(model.requests[0].turns[1])
    assert "Stack: " in text
    assert "<design_system>\\nTwo colours.\\n</design_system>" in text
    assert "placehold.co" in text


async def test_a_page_in_the_answer_itself_is_a_page_and_prose_is_not(door: Door) -> None:
    texts = [
        PAGE,
        f"Here:\n```html\n{PAGE}\n```\nDone.",
        f'<file path="index.html">\n{PAGE}\n</file>',
        "I would use flexbox.",
    ]

    async with door.serving(PageModel(of_variant=lambda variant, round_index: [Text(texts[variant])])) as served:
        heard = await generate(served)

    heard.check()
    assert heard.code == 1000
    ends = [heard.of(variant)[-1] for variant in range(4)]
    assert sorted(end["type"] for end in ends) == ["variantComplete"] * 3 + ["variantError"]
    for variant, end in enumerate(ends):
        assert heard.code_of(variant) == (PAGE if end["type"] == "variantComplete" else "")


async def test_the_last_step_has_its_page(door: Door) -> None:
    def forever(variant: int, round: int) -> Parts:
        if round == 0:
            return [create()]
        return [call("edit_file", id=f"c{round}", old_text="Hello", new_text=f"Hello {round}")]

    async with door.serving(PageModel(of_variant=forever), app=AppConfig(variants=1)) as served:
        heard = await generate(served)

    heard.check()
    assert heard.of(0)[-1]["type"] == "variantComplete"
    assert len(heard.of(0, "toolResult")) == 20
    assert "Hello 19" in heard.code_of(0)


# ---- tools ---------------------------------------------------------------------------------------------------------


async def test_calls_that_cannot_run_are_told_in_their_place(door: Door) -> None:
    calls = [
        call("launch_rocket", id="a", where="up"),
        create(id="b"),
        call("edit_file", id="c", old_text="Hello", new_text="Hi"),
    ]
    unreadable = ToolCall("d", "edit_file", '{"old_text": "Hello", ', problem="the arguments are not JSON")
    model = PageModel(calls, [unreadable], [call("edit_file", id="e", old_text="gone", new_text="x")], [Text("Done.")])
    async with door.serving(model, app=AppConfig(variants=1)) as served:
        heard = await generate(served)

    heard.check()
    results = [(message["data"]["name"], message["data"]["ok"]) for message in heard.of(0, "toolResult")]
    assert sorted(results[:3]) == [("create_file", True), ("edit_file", True), ("launch_rocket", False)]
    assert results[3:] == [("edit_file", False), ("edit_file", False)]
    errors = [message["data"]["output"].get("error") for message in heard.of(0, "toolResult")]
    assert "Unknown tool: launch_rocket" in errors
    assert errors[3] == "Invalid JSON tool arguments"
    assert errors[4] == "old_text not found"
    assert "Hi 😀" in heard.code_of(0)


@needs_chromium
async def test_a_screenshot_is_shown_to_the_page_and_kept_once(door: Door) -> None:
    model = PageModel([create()], [call("screenshot_preview")], [Text("Fine.")])
    async with door.serving(model, journal=Remembering(), app=AppConfig(variants=1)) as served:
        heard = await generate(served)
        kept = msgspec.json.encode(await served.events).decode()

    heard.check()
    shots = heard.of(0, "toolResult")[1]["data"]["output"]["screenshots"]
    assert [shot["viewport"] for shot in shots] == ["desktop", "mobile"]
    last = model.requests[2].turns[-1]
    assert isinstance(last, ToolTurn)
    assert last.results[0].attachments == tuple(Image(shot["image_url"]) for shot in shots)
    assert [kept.count(shot["image_url"]) for shot in shots] == [1, 1]

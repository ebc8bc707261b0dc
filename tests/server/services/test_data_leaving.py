"""Eight ways in which data could leave on a stranger's word, at every door, with a listener at the other end.

In each of them a run has read a secret and a stranger's page, itself or in what it goes on from, and then calls a tool that would
tell the listener. A person is asked first; the listener hears nothing.
"""

from __future__ import annotations

import base64
from base64 import b64encode
from typing import Any

import pytest
from aiohttp import web
from tests.interaction.doors import Door, Json, Remembering
from tests.server.app_door import PIXEL, PageModel, call, create, generate
from tests.server.leaking import (
    ANSWER,
    DOORS,
    SECRET,
    asking,
    assistant,
    is_asked,
    leak,
    leaked,
    read_diary,
    send,
    settings,
    user,
)
from tests.server.leaking import site as site
from tests.server.web_site import Site

from ronda.drive import Capabilities
from ronda.store.memory import MemoryCatalog
from ronda.testing import ScriptedModel, calls, says
from ronda.wire.web.search import EXTRACT, SEARCH

# ---- one run -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [EXTRACT, SEARCH])
@pytest.mark.parametrize("name", DOORS)
async def test_a_page_and_a_search_wait_for_a_person_once_a_run_has_read_both(
    door: Door, site: Site, name: str, by: str
) -> None:
    model = ScriptedModel(calls("read_diary"), calls(EXTRACT, url=site.url("/tides")), leak(site, by), says("Done."))
    async with door.serving(model, read_diary, **settings(site)) as served:
        await send(served, *asking(name, user("go")))
        await is_asked(served)
    assert leaked(site) == []


@pytest.mark.parametrize("by", [EXTRACT, SEARCH])
async def test_nobody_is_asked_about_pages_and_searches_before_that(door: Door, site: Site, by: str) -> None:
    one, other = calls(EXTRACT, url=site.url("/tides")), calls(SEARCH, query="salt")
    first, second = (one, other) if by == EXTRACT else (other, one)
    async with door.serving(ScriptedModel(first, second, first, says("Done.")), read_diary, **settings(site)) as served:
        answer = await send(served, *asking("chat", user("go")))
    assert answer["choices"][0]["message"]["content"] == "Done."


# ---- what goes on from one ---------------------------------------------------------------------------------------------


def follow_ups(name: str, answer: Json) -> dict[str, tuple[str, Json]]:
    """Every way in which the client of a door goes on from an answer, by its name."""
    again = user("and now?")
    whole = [user("go"), assistant(ANSWER), again]
    match name:
        case "chat" | "completions":
            return {"session": asking(name, again, session_id="s"), "whole": asking(name, *whole)}
        case "messages":
            blocks = {"role": "assistant", "content": answer["content"]}
            return {
                "session": asking(name, again, session_id="s"),
                "whole": asking(name, *whole),
                "blocks": asking(name, user("go"), blocks, again),
            }
        case "responses":
            return {
                "session": asking(name, again, session_id="s"),
                "previous": asking(name, again, previous_response_id=answer["id"]),
                "whole": asking(name, *whole),
                "items": asking(name, user("go"), *answer["output"], again),
            }
        case "conversations":
            path = f"conversations/{answer['conversation_id']}"
            entry = answer["outputs"][-1]["id"]
            return {
                "append": (path, {"inputs": [again]}),
                "restart": (f"{path}/restart", {"inputs": [again], "from_entry_id": entry}),
                "whole": asking(name, *whole),
            }
    return {"parent": asking(name, again, parent=answer["id"]), "whole": asking(name, *whole)}


WAYS = [
    *[(name, way) for name in ("chat", "messages", "completions") for way in ("session", "whole")],
    ("messages", "blocks"),
    *[("responses", way) for way in ("session", "previous", "whole", "items")],
    *[("conversations", way) for way in ("append", "restart", "whole")],
    *[("runs", way) for way in ("parent", "whole")],
]


@pytest.mark.parametrize(("name", "way"), WAYS)
async def test_what_goes_on_from_a_run_has_read_what_it_had_though_its_tools_are_gone(
    door: Door, site: Site, name: str, way: str
) -> None:
    """The server is started again without the tool that has read the secret."""
    catalog, journal = MemoryCatalog(), Remembering()
    kept: Any = {"catalog": catalog, "journal": journal, **settings(site)}
    first = ScriptedModel(calls("read_diary"), calls(EXTRACT, url=site.url("/tides")), says(ANSWER))
    async with door.serving(first, read_diary, **kept) as served:
        more = {"session_id": "s"} if way == "session" else {}
        answer = await send(served, *asking(name, user("go"), **more))
    async with door.serving(ScriptedModel(leak(site), says("Done.")), **kept) as served:
        await send(served, *follow_ups(name, answer)[way])
        await is_asked(served)
    assert leaked(site) == []


# ---- files -------------------------------------------------------------------------------------------------------------


def attached(name: str) -> Json:
    """A file that comes along, in a dialect's own words."""
    data = b64encode(f"The password is {SECRET}.".encode()).decode()
    url = f"data:text/plain;base64,{data}"
    match name:
        case "chat":
            return {"type": "file", "file": {"filename": "diary.txt", "file_data": url}}
        case "responses":
            return {"type": "input_file", "filename": "diary.txt", "file_data": url}
        case "messages":
            return {"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": data}}
        case "runs":
            return {"type": "file", "file": {"filename": "diary.txt", "file_data": url}}
    return {"type": "document_url", "document_url": url, "document_name": "diary.txt"}


@pytest.mark.parametrize("name", DOORS)
async def test_a_file_of_the_request_is_private(door: Door, site: Site, name: str) -> None:
    model = ScriptedModel(calls(EXTRACT, url=site.url("/tides")), leak(site), says("Done."))
    async with door.serving(model, **settings(site)) as served:
        await send(served, *asking(name, user(attached(name))))
        await is_asked(served)
    assert leaked(site) == []


def named(name: str, url: str) -> Json:
    """A file at an address, in a dialect's own words."""
    match name:
        case "responses":
            return {"type": "input_file", "file_url": url}
        case "messages":
            return {"type": "document", "source": {"type": "url", "url": url}}
    return {"type": "document_url", "document_url": url}


class TakesNoAddress(ScriptedModel):
    """A scripted model whose service fetches nothing: what a request names is fetched here."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()


@pytest.mark.parametrize("kind", [ScriptedModel, TakesNoAddress])
@pytest.mark.parametrize("name", ["responses", "messages", "completions", "conversations"])
async def test_a_file_that_is_fetched_for_a_request_is_a_strangers(
    door: Door, site: Site, name: str, kind: type[ScriptedModel]
) -> None:
    model = kind(calls("read_diary"), leak(site), says("Done."))
    async with door.serving(model, read_diary, **settings(site)) as served:
        await send(served, *asking(name, user(named(name, site.url("/notes.txt")))))
        await is_asked(served)
    assert leaked(site) == []


# ---- the app stream ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["remove_background", "edit_image"])
async def test_a_page_that_is_built_takes_no_second_picture_of_a_stranger(door: Door, site: Site, by: str) -> None:
    """Its user's picture is private, and no person is there to be asked."""
    picture = base64.b64decode(PIXEL.partition(",")[2])
    site.api.answers["/red.png"] = web.Response(body=picture, content_type="image/png")
    more = {"prompt": "brighter"} if by == "edit_image" else {}
    model = PageModel(
        [call(by, image_urls=[site.url("/red.png")], **more)],
        [call(by, "c2", image_urls=[site.url(f"/red.png?{SECRET}")], **more)],
        [create(id="c3")],
    )
    async with door.serving(model, fetch_allow=("127.0.0.1",)) as served:
        heard = await generate(served, inputMode="image", prompt={"text": "", "images": [PIXEL], "videos": []})

    assert "variantComplete" in heard.types
    assert [one["path"] for one in site.api.asked if "red.png" in one["path"]] == ["/red.png"] * heard.count
    assert leaked(site) == []

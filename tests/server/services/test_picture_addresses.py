"""A picture that a request names by its address is a stranger's, whichever part fetches it."""

from __future__ import annotations

import pytest
from tests.interaction.doors import Door
from tests.server.leaking import asking, is_asked, leak, leaked, read_diary, send, settings, user
from tests.server.leaking import site as site
from tests.server.web_site import Site

from ronda.testing import ScriptedModel, calls, says


@pytest.mark.parametrize("name", ["chat", "runs"])
async def test_a_picture_by_its_address_is_a_strangers(door: Door, site: Site, name: str) -> None:
    model = ScriptedModel(calls("read_diary"), leak(site), says("Done."))
    picture = {"type": "image_url", "image_url": {"url": site.url("/picture.png")}}
    async with door.serving(model, read_diary, **settings(site)) as served:
        await send(served, *asking(name, user(picture)))
        await is_asked(served)
    assert leaked(site) == []

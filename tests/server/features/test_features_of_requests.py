"""What features do to requests: let them in, add headers to their answers, answer at addresses of their own."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from starlette.types import ASGIApp
from tests.interaction.doors import Door
from tests.interaction.every_door import NAMES, PATHS, body_for
from tests.server.features.counting import doorkeeper
from tests.server.responses_door import connected, text

from ronda.core.events import RunStarted
from ronda.errors import BadConfig
from ronda.providers.script import ScriptedModel, says
from ronda.server.config import ServerConfig
from ronda.server.doors.dialects import OWN
from ronda.server.features.contract import Ask, Brought, Feature, Services
from ronda.server.http.incoming import Header, Incoming, Json
from ronda.server.http.routing import Route
from ronda.tools.function import as_tool

KEY = {"authorization": "Bearer test"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", NAMES)
async def test_each_request_is_let_in_once_and_its_answer_has_the_headers(door: Door, name: str, stream: bool) -> None:
    keeper = doorkeeper()
    async with door.serving(ScriptedModel(says("over")), features=[keeper]) as served:
        url, body = f"{served.url}/{PATHS[name]}", body_for(name, stream)
        async with served.http.post(url, json=body, headers=KEY) as answer:
            await answer.read()

    assert (answer.status, answer.headers["x-places-left"]) == (200, "999")
    assert [path for path, _ in keeper.let_in] == [f"/v1/{PATHS[name]}"]
    assert all(owner for _, owner in keeper.let_in)
    assert keeper.told == [(f"/v1/{PATHS[name]}", 200)]


@pytest.mark.parametrize("name", NAMES)
async def test_a_request_that_is_refused_starts_nothing(door: Door, name: str) -> None:
    keeper = doorkeeper(0)
    async with door.serving(ScriptedModel(), features=[keeper]) as served:
        async with served.http.post(f"{served.url}/{PATHS[name]}", json=body_for(name, True), headers=KEY) as answer:
            said = await answer.text()
        started = await served.events

    assert (answer.status, answer.headers["retry-after"], started) == (429, "7", [])
    assert "too many have asked" in json.dumps(json.loads(said))
    assert keeper.told == [(f"/v1/{PATHS[name]}", 429)]


async def test_an_answer_that_says_what_is_wrong_has_the_headers_too(door: Door) -> None:
    keeper = doorkeeper()
    async with (
        door.serving(ScriptedModel(), features=[keeper]) as served,
        served.http.post(f"{served.url}/chat/completions", json={"messages": 3}, headers=KEY) as answer,
    ):
        await answer.read()

    assert (answer.status, answer.headers["x-places-left"]) == (400, "999")


async def test_each_response_over_a_websocket_is_let_in(door: Door) -> None:
    keeper = doorkeeper(2)  # the connection, and one response
    async with door.serving(ScriptedModel(says("one")), features=[keeper]) as served, connected(served) as socket:
        first = await socket.turn(input="x")
        second = await socket.turn(input="y")

    assert text(first) == "one"
    assert second["error"]["code"] == "rate_limit_exceeded"


async def test_a_feature_may_know_whose_a_request_is(door: Door) -> None:
    class Cookies(Feature):
        name = "cookies"

        async def sign_in(self, request: Incoming) -> str | None:
            return "ann" if request.header(b"cookie") == "session=ann" else None

    keeper = doorkeeper()
    async with door.serving(ScriptedModel(), features=[Cookies, keeper]) as served:
        for headers in ({"cookie": "session=ann"}, KEY):
            async with served.http.get(f"{served.url}/models", headers=headers) as answer:
                assert answer.status == 200

    owners = [owner for _, owner in keeper.let_in]
    assert owners[0] == "ann"
    assert owners[1] not in ("ann", "")


# ---- addresses -------------------------------------------------------------------------------------------------------


class Greeter(Feature):
    name = "greeter"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._model = settings.model

    def routes(self) -> Sequence[Route]:
        return [Route("GET", "/v1/greeting/{name}", OWN, self.greet, "read")]

    async def greet(self, request: Incoming) -> ASGIApp:
        return Json(json.dumps({"hello": request.places["name"], "from": self._model}).encode())


async def test_a_feature_answers_at_its_address(door: Door) -> None:
    async with door.serving(ScriptedModel(), features=[Greeter]) as served:
        async with served.http.get(f"{served.url}/greeting/ann", headers=KEY) as answer:
            said = await answer.json()
        async with served.http.post(f"{served.url}/greeting/ann", headers=KEY) as refused:
            await refused.read()

    assert said == {"hello": "ann", "from": "script:test"}
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


async def test_two_cannot_answer_at_one_address(door: Door) -> None:
    class Other(Greeter):
        name = "other"

    async def hello(request: Incoming) -> ASGIApp:
        return Json(b"{}")

    class Models(Feature):
        name = "models"

        def routes(self) -> Sequence[Route]:
            return [Route("GET", "/v1/models", OWN, hello, "read")]

    with pytest.raises(BadConfig, match=r"'other' answers GET /v1/greeting/\{name\}, as the feature 'greeter' does"):
        async with door.serving(ScriptedModel(), features=[Greeter, Other]):
            pass
    with pytest.raises(BadConfig, match="'models' answers GET /v1/models, as the server itself does"):
        async with door.serving(ScriptedModel(), features=[Models]):
            pass


# ---- tools -----------------------------------------------------------------------------------------------------------


class Clock(Feature):
    """Tells the time to callers that may know it."""

    name = "clock"

    async def tools(self, ask: Ask) -> Brought | None:
        def time() -> str:
            """Tell the time."""
            return "noon"

        return Brought((as_tool(time),)) if ask.rights is None or "time" in ask.rights else None


class Rights(Feature):
    """Keys that begin with `few-` have few rights."""

    name = "rights"

    async def admit(self, request: Incoming, route: Route) -> Sequence[Header]:
        if (request.header(b"authorization") or "").startswith("Bearer few-"):
            request.rights = frozenset()
        return ()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_key_with_fewer_rights_never_gets_the_tools_of_another(door: Door, stream: bool) -> None:
    """Usual requests are set up once, and then found again: by what their key may do, too."""
    model = ScriptedModel(*[says("over")] * 4)
    async with door.serving(model, features=[Rights, Clock]) as served:
        for key in ("all-1", "few-1", "all-2", "few-2"):
            await served.ask(stream=stream, key=key)
        starts = [events[0] for events in await served.events]
        offered = [[tool.name for tool in start.plan.tools] for start in starts if isinstance(start, RunStarted)]

    assert offered == [["time"], [], ["time"], []]

"""Sign-in for the web page: what a browser gets for a key, where its cookie counts, and when it is over."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import pytest
from msgspec.structs import replace
from tests.interaction.doors import Door, Json, Served, soon
from yarl import URL

from ronda.server.http.auth import KeyAuth
from ronda.server.services.attempts import MAX_FAILURES
from ronda.server.services.sign_ins import GRACE, LIFETIME, ROTATION, SignIns
from ronda.store.keys import hash_key, new_key
from ronda.store.memory import MemoryCatalog
from ronda.testing import ScriptedModel, says

CANARY: Final = "rk_a-canary-that-must-be-nowhere"


class Browser:
    """Sends what a browser sends for a page of the server; keeps the cookie by hand, as aiohttp knows no `Sec-Fetch-Site`."""

    def __init__(self, served: Served, **headers: str) -> None:
        self.served = served
        self.url = URL(served.url)
        self.origin = str(self.url.origin())
        self.headers = headers or {"sec-fetch-site": "same-origin"}
        self.cookie = ""
        self.csrf = ""
        self.set_cookie = ""

    async def ask(self, method: str, path: str, body: Json | None = None, **headers: str) -> tuple[int, Any]:
        sent = {**self.headers, **headers}
        if self.cookie:
            sent["cookie"] = f"other=1; {self.cookie}"
        if method != "GET" and self.csrf:
            sent.setdefault("x-ronda-csrf", self.csrf)
        url = f"{self.served.url}{path}"
        async with soon(), self.served.http.request(method, url, json=body, headers=sent) as answer:
            if (changed := answer.headers.get("set-cookie")) is not None:
                self.set_cookie = changed
                self.cookie = changed.partition(";")[0]
            text = await answer.text()
            self.answer = answer
        return answer.status, json.loads(text) if text else None

    async def login(self, key: str, **headers: str) -> tuple[int, Any]:
        status, said = await self.ask("POST", "/login", {"key": key}, **headers)
        if status == 200:
            self.csrf = said["csrf"]
        return status, said


class Behind:
    def __init__(self, served: Served, catalog: MemoryCatalog, key: str, key_id: str) -> None:
        self.served, self.catalog, self.key, self.key_id = served, catalog, key, key_id


@asynccontextmanager
async def serving_with_key(door: Door, *, scopes: tuple[str, ...] = (), **settings: Any) -> AsyncIterator[Behind]:
    catalog = MemoryCatalog()
    key, row = new_key("ann", 1.0, scopes)
    await catalog.keys.add(row)
    auth = KeyAuth(catalog.keys, fresh_for=0.0)
    model = ScriptedModel(*[says("hello")] * 3)
    async with door.serving(model, catalog=catalog, auth=auth, **settings) as served:
        yield Behind(served, catalog, key, row.id)


async def test_a_key_becomes_a_cookie_that_does_not_hold_it(door: Door) -> None:
    async with serving_with_key(door, scopes=("operate",)) as behind:
        browser = Browser(behind.served)
        before = await browser.ask("GET", "/me")
        status, said = await browser.login(behind.key)
        me = await browser.ask("GET", "/me")
        models = await browser.ask("GET", "/models")
        port = browser.url.port

    assert before[0] == 401
    assert (status, me[0], models[0]) == (200, 200, 200)
    assert me[1] == said
    assert {name: said[name] for name in ("owner", "key_id", "scopes", "needs_key")} == {
        "owner": "ann",
        "key_id": behind.key_id,
        "scopes": ["operate"],
        "needs_key": True,
    }
    assert "sign_in" in said["features"]
    assert re.fullmatch(
        rf"ronda-{port}=[\w-]{{43}}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict", browser.set_cookie
    )
    assert behind.key not in browser.set_cookie
    assert behind.key not in json.dumps(said)


async def test_over_tls_the_cookie_is_bound_to_its_host(door: Door) -> None:
    async with serving_with_key(door) as behind:
        browser = Browser(behind.served)
        https = browser.origin.replace("http:", "https:")
        await browser.login(behind.key, origin=https)
        me = await browser.ask("GET", "/me")
        # An older browser names the page alone: one without TLS has no say over a cookie that is for TLS.
        browser.headers = {"origin": browser.origin}
        plain = await browser.ask("GET", "/me")
        browser.headers = {"origin": https}
        secure = await browser.ask("GET", "/me")

    assert browser.set_cookie.startswith("__Host-ronda=")
    assert browser.set_cookie.endswith("; Secure")
    assert (me[0], plain[0], secure[0]) == (200, 401, 200)


@pytest.mark.parametrize("allow", [(), ("*",)], ids=["no other page is let in", "every page is let in"])
@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "origin": "http://evil.example"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:1"},
        {"accept": "*/*"},
    ],
    ids=str,
)
async def test_a_cookie_counts_for_our_own_page_alone(
    door: Door, headers: dict[str, str], allow: tuple[str, ...]
) -> None:
    async with serving_with_key(door, allow_origins=allow) as behind:
        browser = Browser(behind.served)
        await browser.login(behind.key)
        other = Browser(behind.served, **headers)
        other.cookie, other.csrf = browser.cookie, browser.csrf
        read = await other.ask("GET", "/models")
        write = await other.ask("POST", "/chat/completions", {"messages": [{"role": "user", "content": "x"}]})
        out = await other.ask("POST", "/logout")
        still = await browser.ask("GET", "/models")
        runs = await behind.served.events

    assert {read[0], write[0]} <= {401, 403}
    assert out[0] == 403 or "accept" in headers
    assert (still[0], runs) == (200, [])


async def test_a_request_that_changes_something_needs_the_word_of_the_page(door: Door) -> None:
    body: Json = {"messages": [{"role": "user", "content": "x"}]}
    async with serving_with_key(door) as behind:
        browser = Browser(behind.served)
        await browser.login(behind.key)
        right = browser.csrf
        browser.csrf = ""
        without = await browser.ask("POST", "/chat/completions", body)
        wrong = await browser.ask("POST", "/chat/completions", body, **{"x-ronda-csrf": "x" * len(right)})
        out = await browser.ask("POST", "/logout")
        good = await browser.ask("POST", "/chat/completions", body, **{"x-ronda-csrf": right})

    assert [status for status, _ in (without, wrong, out, good)] == [403, 403, 403, 200]
    assert without[1]["error"]["code"] == "csrf_token_wrong"


async def test_a_request_with_a_key_of_its_own_is_not_judged_by_its_cookie(door: Door) -> None:
    body: Json = {"messages": [{"role": "user", "content": "x"}]}
    async with serving_with_key(door) as behind:
        browser = Browser(behind.served)
        await browser.login(behind.key)
        browser.csrf = ""
        bad = await browser.ask("GET", "/models", authorization="Bearer rk_wrong")
        worse = await browser.ask("GET", "/models", None, **{"x-api-key": "rk_wrong"})
        good = await browser.ask("POST", "/chat/completions", body, authorization=f"Bearer {behind.key}")

    assert (bad[0], worse[0], good[0]) == (401, 401, 200)


async def test_who_signs_out_is_out(door: Door) -> None:
    async with serving_with_key(door) as behind:
        browser = Browser(behind.served)
        await browser.login(behind.key)
        stolen = browser.cookie
        out = await browser.ask("POST", "/logout")
        cleared = browser.set_cookie
        browser.cookie = stolen
        after = await browser.ask("GET", "/models")
        again = await browser.ask("POST", "/logout")

    assert (out[0], after[0], again[0]) == (204, 401, 204)
    assert "=; Path=/; Max-Age=0" in cleared


async def test_a_sign_in_ends_with_its_key(door: Door) -> None:
    async with serving_with_key(door) as behind:
        browser = Browser(behind.served)
        await browser.login(behind.key)
        await behind.catalog.keys.revoke(behind.key_id, 2.0)
        after = await browser.ask("GET", "/models")

    assert after[0] == 401


async def test_a_second_login_ends_the_first_of_that_browser(door: Door) -> None:
    async with serving_with_key(door) as behind:
        browser = Browser(behind.served)
        await browser.login(behind.key)
        first = browser.cookie
        await browser.login(behind.key)
        second, browser.cookie = browser.cookie, first
        old = await browser.ask("GET", "/models")
        browser.cookie = second
        new = await browser.ask("GET", "/models")

    assert (old[0], new[0]) == (401, 200)


async def test_attempts_are_limited_by_address(door: Door) -> None:
    async with serving_with_key(door) as behind:
        browser = Browser(behind.served)
        tried = [(await browser.login(f"rk_wrong{n}"))[0] for n in range(MAX_FAILURES)]
        over = await browser.login(behind.key)
        wait = browser.answer.headers["retry-after"]
        with_key = await browser.ask("GET", "/models", authorization=f"Bearer {behind.key}")

    assert tried == [401] * MAX_FAILURES
    assert (over[0], over[1]["error"]["code"], with_key[0]) == (429, "too_many_attempts", 200)
    assert 0 < int(wait) <= 60


async def test_attempts_that_come_at_once_are_no_more_than_those_that_come_one_by_one(door: Door) -> None:
    async with serving_with_key(door) as behind:
        at_once = [Browser(behind.served).login(f"rk_wrong{n}") for n in range(3 * MAX_FAILURES)]
        tried = [status for status, _ in await asyncio.gather(*at_once)]

    assert sorted(tried) == [401] * MAX_FAILURES + [429] * 2 * MAX_FAILURES


async def test_sign_ins_that_succeed_are_no_attempts_that_failed(door: Door) -> None:
    async with serving_with_key(door) as behind:
        tried = [(await Browser(behind.served).login(behind.key))[0] for _ in range(MAX_FAILURES + 2)]

    assert tried == [200] * (MAX_FAILURES + 2)


@pytest.mark.parametrize("body", [{}, {"key": 3}, {"key": None}, [], {"key": "x" * 5000}])
async def test_what_is_no_login_is_refused(door: Door, body: Any) -> None:
    async with serving_with_key(door) as behind:
        status, said = await Browser(behind.served).ask("POST", "/login", body)

    assert status in (400, 413)
    assert "x" * 100 not in json.dumps(said)


async def test_without_keys_there_is_no_login(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        browser = Browser(served)
        me = await browser.ask("GET", "/me")
        login = await browser.login("rk_x")

    assert (me[0], me[1]["owner"], me[1]["needs_key"], me[1]["key_id"]) == (200, "", False, None)
    assert (login[0], login[1]["error"]["code"]) == (400, "no_login")


async def test_events_and_websockets_work_with_the_cookie(door: Door) -> None:
    async with serving_with_key(door) as behind:
        browser = Browser(behind.served)
        await browser.login(behind.key)
        _, said = await browser.ask("POST", "/responses", {"input": "x"})
        run = said["id"].replace("resp_", "run_")
        headers = {"cookie": browser.cookie, "sec-fetch-site": "same-origin"}
        url = f"{behind.served.url}/runs/{run}/events"
        async with soon(), behind.served.http.get(url, headers=headers) as answer:
            events = await answer.text()
        socket = {"cookie": browser.cookie, "origin": browser.origin}
        async with soon(), behind.served.http.ws_connect(f"{behind.served.url}/responses", headers=socket) as opened:
            await opened.send_json({"type": "response.create", "model": "default", "input": "y"})
            first = await opened.receive_json()
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await behind.served.http.ws_connect(f"{behind.served.url}/responses", headers={"cookie": browser.cookie})

    assert "run_finished" in events
    assert first["type"] == "response.created"
    assert refused.value.status == 401


async def test_ids_are_changed_and_the_one_before_is_good_for_a_moment() -> None:
    catalog = MemoryCatalog()
    sign_ins = SignIns(catalog)
    cookie, row = await sign_ins.add("key_1", 1000.0)

    rotated = await sign_ins.rotate(row, 1000.0 + ROTATION)
    assert rotated is not None
    newer, changed = rotated
    at = changed.rotated

    assert changed.csrf == row.csrf  # what a page has read stays good
    assert await sign_ins.rotate(row, at) is None  # another request of the browser's was first
    assert await sign_ins.find(newer, at) == changed
    assert await sign_ins.find(cookie, at + GRACE / 2) == changed
    assert await sign_ins.find(cookie, at + GRACE) is None
    assert await sign_ins.find(newer, at + LIFETIME - 1) == changed
    assert await sign_ins.find(newer, at + LIFETIME) is None


async def test_the_key_is_kept_and_written_nowhere(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    catalog = MemoryCatalog()
    _, row = new_key("ann", 1.0)
    await catalog.keys.add(replace(row, hash=hash_key(CANARY.encode())))
    async with door.serving(ScriptedModel(says("x")), catalog=catalog, access_log=True) as served:
        browser = Browser(served)
        said = [await browser.login(CANARY), await browser.ask("GET", "/me")]
        said.append(await browser.ask("POST", "/chat/completions", {"messages": [{"role": "user", "content": "x"}]}))
        events = await served.events
    held = browser.cookie.partition("=")[2]

    def dump(db: Any) -> str:
        return "\n".join(db.iterdump())

    kept = await catalog.read(dump)
    for secret in (CANARY, held):
        assert secret not in json.dumps(said)
        assert secret not in repr(events)
        assert secret not in kept
        assert secret not in caplog.text

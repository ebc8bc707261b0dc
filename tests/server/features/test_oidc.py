"""Sign-in by OpenID Connect, with a provider that is started here: what it must say, and what a browser gets."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.interaction.doors import Door, Served, soon
from tests.server.features.test_sign_in import Browser
from tests.server.features.test_system import doctor_of

from ronda.errors import BadConfig
from ronda.server.features.running import check_features
from ronda.server.features.table import make_config, wanted
from ronda.server.http.auth import KeyAuth
from ronda.store.keys import new_key
from ronda.store.memory import MemoryCatalog
from ronda.testing import ScriptedModel, says

SECRET: Final = "a-client-secret-that-stays-here"
KEY: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Provider:
    """Signs everybody in as `claims`, and does what a provider must: codes are good once, with the right verifier."""

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {"sub": "u1", "email": "ann@example.com", "email_verified": True}
        self.signed_with = KEY
        self.algorithm = "RS256"
        self.answers: dict[str, Any] = {}  # claims that stand in the place of the right ones
        self.codes: dict[str, dict[str, str]] = {}
        self.key_reads = 0
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self.describe)
        app.router.add_get("/keys", self.keys)
        app.router.add_post("/token", self.token)
        self.server = TestServer(app, host="127.0.0.1")

    @property
    def issuer(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    async def describe(self, request: web.Request) -> web.Response:
        at = self.issuer
        return web.json_response(
            {
                "issuer": at,
                "authorization_endpoint": f"{at}/authorize?tenant=1",
                "token_endpoint": f"{at}/token",
                "jwks_uri": f"{at}/keys",
            }
        )

    async def keys(self, request: web.Request) -> web.Response:
        self.key_reads += 1
        public = jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
        return web.json_response({"keys": [{**public, "kid": "k1", "use": "sig", "alg": "RS256"}]})

    def authorize(self, url: str) -> str:
        """What a person does at the provider: the address that the browser is sent back to."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert asked["response_type"] == "code"
        assert (asked["client_id"], asked["code_challenge_method"], asked["tenant"]) == ("ronda", "S256", "1")
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?code={code}&state={asked['state']}"

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        asked = self.codes.pop(str(form.get("code")), None)
        verifier = str(form["code_verifier"]).encode()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier).digest()).rstrip(b"=").decode()
        basic = "Basic " + base64.b64encode(f"ronda:{SECRET}".encode()).decode()
        if asked is None or asked["code_challenge"] != challenge or request.headers.get("authorization") != basic:
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": "ronda", "iat": now, "exp": now + 60, "nonce": asked["nonce"]}
        claims |= self.claims | self.answers
        key: Any = self.signed_with if self.algorithm == "RS256" else "x" * 32
        token = jwt.encode(claims, key, self.algorithm, headers={"kid": "k1"})
        return web.json_response({"id_token": token, "access_token": "unused", "token_type": "Bearer"})


class Site:
    def __init__(self, served: Served, catalog: MemoryCatalog, provider: Provider, auth: KeyAuth) -> None:
        self.served, self.catalog, self.provider, self.auth = served, catalog, provider, auth
        self.origin = served.url.removesuffix("/v1")
        self.cookies: dict[str, str] = {}

    async def get(self, url: str) -> tuple[int, str, str]:
        """As a browser does that comes from another site: the status, where it is sent, and the body."""
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        headers["cookie"] = "; ".join([f"{name}={value}" for name, value in self.cookies.items()])
        async with soon(), self.served.http.get(url, headers=headers, allow_redirects=False) as answer:
            self.set_cookies = answer.headers.getall("set-cookie", [])
            for one in self.set_cookies:
                name, _, value = one.partition(";")[0].partition("=")
                self.cookies[name] = value
            return answer.status, answer.headers.get("location", ""), await answer.text()

    async def begin(self) -> str:
        """Where the provider sends the browser back to."""
        status, url, _ = await self.get(f"{self.origin}/v1/oidc/login")
        assert status == 302
        return self.provider.authorize(url)

    async def sign_in(self) -> tuple[int, str, str]:
        return await self.get(await self.begin())

    def browser(self) -> Browser:
        browser = Browser(self.served)
        name = f"ronda-{browser.url.port}"
        browser.cookie = f"{name}={self.cookies[name]}"
        return browser

    async def me(self) -> tuple[int, Any]:
        return await self.browser().ask("GET", "/me")


@asynccontextmanager
async def signing_in(door: Door, **options: Any) -> AsyncIterator[Site]:
    provider, catalog = Provider(), MemoryCatalog()
    async with provider.server:
        oidc = {
            "issuer": provider.issuer,
            "client_id": "ronda",
            "client_secret": SECRET,
            "redirect_url": f"{door.url.removesuffix('/v1')}/v1/oidc/callback",
            **options,
        }
        auth = KeyAuth(catalog.keys, fresh_for=1000.0)
        async with door.serving(ScriptedModel(says("hello")), catalog=catalog, auth=auth, oidc=oidc) as served:
            yield Site(served, catalog, provider, auth)


async def test_a_person_signs_in_at_the_provider_and_has_a_cookie(door: Door) -> None:
    async with signing_in(door, name="Acme", scopes=["operate"]) as site:
        ways = await Browser(site.served).ask("GET", "/login")
        before = await Browser(site.served).ask("GET", "/me")
        status, place, _ = await site.sign_in()
        me = await site.me()
        kept = await site.catalog.keys.all()

    assert ways == (
        200,
        {
            "object": "list",
            "data": [{"kind": "key"}, {"kind": "oidc", "name": "Acme", "url": "/v1/oidc/login"}],
        },
    )
    assert before[0] == 401
    assert (status, place) == (302, "/ui")
    assert (me[0], me[1]["owner"], me[1]["scopes"]) == (200, "ann@example.com", ["operate"])
    assert [(row.owner, row.id, row.rights) for row in kept] == [
        ("ann@example.com", me[1]["key_id"], frozenset(["operate"]))
    ]
    ended, cookie = sorted(site.set_cookies)
    assert ended.endswith("-oidc=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax")
    assert cookie.endswith("Path=/; Max-Age=43200; HttpOnly; SameSite=Strict")


async def test_before_anybody_has_signed_in_a_bearer_of_any_kind_is_refused(door: Door) -> None:
    async with signing_in(door) as site:
        url = f"{site.served.url}/models"
        async with soon(), site.served.http.get(url, headers={"authorization": "Bearer anything"}) as answer:
            assert answer.status == 401


async def test_a_second_sign_in_goes_on_with_the_same_key(door: Door) -> None:
    async with signing_in(door) as site:
        await site.sign_in()
        first = await site.me()
        await site.sign_in()
        assert (await site.me())[1]["key_id"] == first[1]["key_id"]
        assert len(await site.catalog.keys.all()) == 1


async def test_who_loses_a_group_loses_its_scopes_with_the_next_sign_in(door: Door) -> None:
    grants = [{"claim": "groups", "value": "ops", "scopes": ["operate:write"]}]
    async with signing_in(door, grants=grants, scopes=["tool:none"]) as site:
        site.provider.claims["groups"] = ["all", "ops"]
        await site.sign_in()
        with_group, old = await site.me(), site.browser()
        del site.provider.claims["groups"]
        await site.sign_in()
        without, stale = await site.me(), await old.ask("GET", "/me")

    assert (with_group[1]["scopes"], without[1]["scopes"]) == (["operate:write", "tool:none"], ["tool:none"])
    assert stale[0] == 401


async def test_a_person_whose_key_was_revoked_is_not_let_in_again(door: Door) -> None:
    async with signing_in(door) as site:
        await site.sign_in()
        me = await site.me()
        await site.catalog.keys.revoke(me[1]["key_id"], 2.0)
        site.auth.forget()  # as a second without a request does
        status, _, page = await site.sign_in()
        after = await site.me()

    assert (status, after[0]) == (403, 401)
    assert "your access to this server was taken back" in page


async def test_a_key_that_the_operator_makes_works_as_before(door: Door) -> None:
    async with signing_in(door) as site:
        key, row = new_key("bob", 1.0)
        await site.catalog.keys.add(row)
        async with (
            soon(),
            site.served.http.get(f"{site.served.url}/me", headers={"authorization": f"Bearer {key}"}) as answer,
        ):
            assert (await answer.json())["owner"] == "bob"


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"nonce": "another"}, "is for another sign-in"),
        ({"aud": "another"}, "InvalidAudienceError"),
        ({"iss": "https://another.example"}, "InvalidIssuerError"),
        ({"exp": 1000}, "ExpiredSignatureError"),
        ({"azp": "another"}, "made for another client"),
        ({"email_verified": False}, "has not verified your e-mail address"),
        ({"email": None}, "has no 'email'"),
        ({"email": "x" * 65}, "cannot be the name of an owner"),
        ({"team": ["b"]}, "its 'team' lacks"),
    ],
)
async def test_an_id_token_that_is_not_right_lets_nobody_in(door: Door, claims: dict[str, Any], why: str) -> None:
    async with signing_in(door, require={"team": "a"}) as site:
        site.provider.claims["team"] = ["a", "c"]
        site.provider.answers = claims
        status, _, page = await site.sign_in()
        assert not await site.catalog.keys.all()

    assert status == 403
    assert why in page.replace("&#x27;", "'")


@pytest.mark.parametrize(("algorithm", "key"), [("RS256", OTHER_KEY), ("HS256", KEY)])
async def test_a_token_that_the_provider_has_not_signed_lets_nobody_in(door: Door, algorithm: str, key: Any) -> None:
    async with signing_in(door) as site:
        site.provider.signed_with, site.provider.algorithm = key, algorithm
        status, _, page = await site.sign_in()

    assert status == 403
    assert "ID token is not good" in page.replace("&#x27;", "'")


async def test_only_the_browser_that_began_a_sign_in_ends_it_and_only_once(door: Door) -> None:
    async with signing_in(door) as site:
        back = await site.begin()
        mine, site.cookies = site.cookies, {}
        without_cookie = await site.get(back)
        await site.begin()
        with_another = await site.get(back)
        site.cookies = dict(mine)
        right = await site.get(back)
        site.cookies = dict(mine)
        again = await site.get(back)

    assert [one[0] for one in (without_cookie, with_another, right, again)] == [403, 403, 302, 403]


async def test_what_the_provider_says_is_shown_as_text(door: Door) -> None:
    async with signing_in(door) as site:
        state = parse_qs(urlsplit(await site.begin()).query)["state"][0]
        status, _, page = await site.get(f"{site.origin}/v1/oidc/callback?error=<script>&state={state}")

    assert status == 403
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


async def test_a_provider_that_is_not_there_is_told_in_one_sentence(door: Door) -> None:
    async with signing_in(door) as site:
        await site.provider.server.close()
        status, _, page = await site.get(f"{site.origin}/v1/oidc/login")

    assert status == 502
    assert "the sign-in provider could not be described" in page


async def test_the_doctor_asks_for_the_provider(door: Door) -> None:
    async with signing_in(door) as site:
        await site.sign_in()
        [works] = await doctor_of(site.served, "oidc")
        await site.provider.server.close()
        [fails] = await doctor_of(site.served, "oidc")

    assert (works.state, works.text.endswith(" can be asked")) == ("works", True)
    assert (fails.state, "could not be described" in fails.text) == ("fails", True)


async def test_no_secret_of_a_sign_in_is_kept_or_logged(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    async with signing_in(door) as site:
        await site.sign_in()
        site.provider.answers = {"nonce": "x"}
        await site.sign_in()
        cookie = next(value for name, value in site.cookies.items() if not name.endswith("-oidc"))

        def dump(db: Any) -> str:
            tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
            return repr([db.execute(f"SELECT * FROM {table}").fetchall() for table in tables])

        kept = await site.catalog.read(dump)

    for secret in (SECRET, cookie, "code-0"):
        assert secret not in kept
        assert secret not in caplog.text


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"issuer": "http://id.example"}, "issuer of [oidc]"),
        ({"redirect_url": "https://ronda.example/other"}, "must end with /v1/oidc/callback"),
        ({"request_scopes": ["email"]}, "must have 'openid'"),
        ({"scopes": ["operat"]}, "[oidc]: "),
        ({"hours": 0}, "hours of [oidc]"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_the_start(change: dict[str, Any], problem: str) -> None:
    right = {
        "issuer": "https://id.example",
        "client_id": "ronda",
        "redirect_url": "https://ronda.example/v1/oidc/callback",
    }
    good, bad = make_config({"oidc": right}), make_config({"oidc": {**right, **change}})
    check_features(wanted(good), good)
    with pytest.raises(BadConfig) as refused:
        check_features(wanted(bad), bad)
    assert problem in str(refused.value)

"""A proxy that names its users in a header: who is believed, and who is not."""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict
from tests.cli.commands import shown
from tests.interaction.doors import Door, Json, Served, soon

from ronda.server.http.auth import KeyAuth
from ronda.store.keys import new_key
from ronda.store.memory import MemoryCatalog
from ronda.testing import ScriptedModel, says

HERE: Json = {"trust_user_header": "X-User", "trust_user_from": ["127.0.0.0/8", "::1"]}
ELSEWHERE: Json = {"trust_user_header": "X-User", "trust_user_from": ["10.0.0.5"]}


async def me(served: Served, method: str = "GET", path: str = "me", **headers: str) -> tuple[int, Any]:
    async with soon(), served.http.request(method, f"{served.url}/{path}", headers=headers) as answer:
        return answer.status, await answer.json()


async def test_the_proxys_word_is_believed_and_owns_what_is_made(door: Door) -> None:
    async with door.serving(ScriptedModel(says("x")), **HERE) as served:
        ann = await me(served, **{"x-user": "ann@example.org"})
        without = await me(served)
        with_bearer = await me(served, authorization="Bearer whatever")
        with_cookie = await me(served, cookie="ronda=x", **{"sec-fetch-site": "same-origin"})
        wrong = [(await me(served, **{"x-user": value}))[0] for value in ("x" * 65, "a\tb")]

    assert (ann[0], ann[1]["owner"], ann[1]["key_id"], ann[1]["scopes"]) == (200, "ann@example.org", None, None)
    assert (without[0], with_bearer[0], with_cookie[0], wrong) == (401, 401, 401, [401, 401])


async def test_nobody_else_is_believed(door: Door) -> None:
    catalog = MemoryCatalog()
    key, row = new_key("bob", 1.0)
    async with door.serving(
        ScriptedModel(), catalog=catalog, auth=KeyAuth(catalog.keys, fresh_for=0.0), **ELSEWHERE
    ) as served:
        before = await me(served, **{"x-user": "ann"})
        forged = await me(served, **{"x-user": "ann", "x-ronda-user-proof": "0" * 64})
        forwarded = await me(served, **{"x-user": "ann", "x-ronda-forwarded": "1"})
        await catalog.keys.add(row)
        after = await me(served, **{"x-user": "ann"})
        with_key = await me(served, authorization=f"Bearer {key}", **{"x-user": "ann"})

    assert (before[0], forged[0], forwarded[0], after[0]) == (401, 401, 401, 401)
    assert (with_key[0], with_key[1]["owner"]) == (200, "bob")


async def test_a_name_beside_the_proxys_own_is_refused(door: Door) -> None:
    """A proxy that adds its header to those of its clients lets them choose who they are."""
    async with door.serving(ScriptedModel(), **HERE) as served:
        headers = CIMultiDict([("x-user", "ann"), ("x-user", "bob")])
        async with soon(), served.http.get(f"{served.url}/me", headers=headers) as answer:
            status, said = answer.status, await answer.json()

    assert (status, "x-user" in said["error"]["message"]) == (401, True), said


async def test_what_a_process_of_the_server_passes_on_is_known_by_its_proof(door: Door) -> None:
    """A worker that was asked by the proxy passes a request on to the worker that drives its run, which no proxy asks."""
    catalog = MemoryCatalog()
    secret = await catalog.secret("trusted_proxy")
    proof = hmac.digest(secret, b"ann", "sha256").hex()
    async with door.serving(ScriptedModel(), catalog=catalog, **ELSEWHERE) as served:
        ann = await me(served, **{"x-user": "ann", "x-ronda-user-proof": proof})
        bob = await me(served, **{"x-user": "bob", "x-ronda-user-proof": proof})

    assert (ann[0], ann[1]["owner"], bob[0]) == (200, "ann", 401)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://evil.example"}, 403),
    ],
    ids=str,
)
async def test_only_our_own_page_uses_the_proxys_sign_in(door: Door, headers: dict[str, str], status: int) -> None:
    async with door.serving(ScriptedModel(), allow_origins=["*"], **HERE) as served:
        assert (await me(served, **{"x-user": "ann", **headers}))[0] == status


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--trust-user-header", "X-User"], "needs --from NETWORK"),
        (["--from", "10.0.0.1"], "--from is for --trust-user-header"),
        (["--trust-user-header", "X User", "--from", "10.0.0.1"], "the name of a header"),
        (["--trust-user-header", "Authorization", "--from", "10.0.0.1"], "the name of a header"),
        (["--trust-user-header", "X-User", "--from", "10.0.0.1/8"], "an address or a network"),
        (["--trust-user-header", "X-User", "--from", "proxy"], "an address or a network"),
    ],
)
def test_settings_that_cannot_be_are_refused(capsys: Any, tmp_path: Path, flags: list[str], said: str) -> None:
    code, _, err = shown(
        capsys, "serve", "--model", "script:x.json", "--data-dir", str(tmp_path), "--port", "0", *flags
    )

    assert code != 0
    assert said in err

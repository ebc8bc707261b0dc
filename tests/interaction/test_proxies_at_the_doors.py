"""A proxy in front of models, at every door: what the environment says holds for the library and the server, and what a program
or an operator says goes before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, user
from tests.interaction.upstreams import Upstream, completes, refuses
from tests.pipeline.files import text_of
from tests.providers.proxy_server import ProxyServer
from yarl import URL

from ronda import Agent, Prompty, Retry, Transport, list_models_async, loads, run_agent_async, use_transport
from ronda.errors import BadConfig, ExecuteError, RondaError
from ronda.providers.grants import Grant
from ronda.providers.oauth import token_for

ONCE = Retry(tries=1)


@pytest.fixture(autouse=True)
def no_default() -> Iterator[None]:
    yield
    use_transport(None)


def file_at(url: str) -> Prompty:
    """A prompty file whose model is there."""
    connection = {"kind": "key", "endpoint": url}
    return loads(text_of({"model": {"id": "x", "provider": "openai", "connection": connection}}, "user:\nhi"))


def port_of(upstream: Upstream) -> int:
    port = URL(upstream.url).port
    assert port is not None
    return port


# ---- the library -----------------------------------------------------------------------------------------------------


async def test_an_agent_goes_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        Upstream(completes("hello")) as upstream,
        ProxyServer({"model.example": port_of(upstream)}).running() as proxy,
    ):
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        agent = Agent("openai-chat:x", base_url="http://model.example/v1", retry=ONCE)
        assert (await run_agent_async(agent, "hi")).output == "hello"
    assert proxy.asked == ["POST http://model.example/v1/chat/completions HTTP/1.1"]


async def test_an_agent_goes_as_its_program_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with (
        Upstream(*[completes("hello")] * 3) as upstream,
        ProxyServer({"model.example": port_of(upstream)}).running() as proxy,
    ):
        address = f"http://127.0.0.1:{proxy.port}"
        for url, transport in (
            ("http://model.example/v1", Transport(proxy=address)),
            (upstream.url, Transport(env_proxy=False)),
            (upstream.url, Transport(no_proxy="127.0.0.0/8")),
        ):
            agent = Agent("openai-chat:x", base_url=url, retry=ONCE, transport=transport)
            assert (await run_agent_async(agent, "hi")).output == "hello"
    assert len(proxy.asked) == 1


async def test_a_file_goes_as_all_of_its_process_do() -> None:
    async with (
        Upstream(*[completes("hello")] * 2) as upstream,
        ProxyServer({"model.example": port_of(upstream)}).running() as proxy,
    ):
        use_transport(Transport(proxy=f"127.0.0.1:{proxy.port}"))
        assert (await run_agent_async(file_at("http://model.example/v1"))).output == "hello"
        with pytest.raises(BadConfig, match="transport is 'http://p'; write transport=Transport"):
            use_transport("http://p")  # type: ignore[arg-type]  # that is the mistake
    assert len(proxy.asked) == 1


@pytest.mark.parametrize("provider", ["openai", "openai-chat", "anthropic", "gemini", "mistral", "mistral-agent"])
async def test_every_provider_takes_the_proxy(provider: str) -> None:
    async with ProxyServer(refuses=b"HTTP/1.1 418 Teapot\r\nContent-Length: 0\r\n\r\n").running() as proxy:
        transport = Transport(proxy=f"127.0.0.1:{proxy.port}")
        agent = Agent(f"{provider}:x", base_url="http://model.example/v1", api_key="k", retry=ONCE, transport=transport)
        with pytest.raises(ExecuteError, match="418"):
            await run_agent_async(agent, "hi")
    assert len(proxy.asked) == 1
    assert proxy.asked[0].startswith("POST http://model.example/v1")


async def test_lists_of_models_and_tokens_take_the_proxy() -> None:
    async with ProxyServer(refuses=b"HTTP/1.1 418 Teapot\r\nContent-Length: 0\r\n\r\n").running() as proxy:
        use_transport(Transport(proxy=f"127.0.0.1:{proxy.port}"))
        with pytest.raises(RondaError, match="418"):
            await list_models_async(file_at("http://model.example/v1"))
        routes = Transport(proxy=f"127.0.0.1:{proxy.port}").routes({})
        with pytest.raises(RondaError, match=r"no token from http://token.example/: 418"):
            await token_for(Grant("http://token.example/", "me", "s3cret"), routes=routes)
    assert proxy.asked == ["GET http://model.example/v1/models HTTP/1.1", "POST http://token.example/ HTTP/1.1"]


async def test_a_gateway_that_fails_is_named_with_the_proxy_before_it() -> None:
    async with Upstream(refuses(502, "bad gateway")) as upstream, ProxyServer().running() as proxy:
        transport = Transport(proxy=f"127.0.0.1:{proxy.port}")
        agent = Agent("openai-chat:x", base_url=upstream.url, retry=ONCE, transport=transport)
        with pytest.raises(
            ExecuteError, match=rf"502: bad gateway; it was asked through the proxy http://127.0.0.1:{proxy.port}"
        ):
            await run_agent_async(agent, "hi")


# ---- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("wrong-key", "; is the key right? It is that of OPENAI_API_KEY, unless another was given"),
        ("", "; no key was sent: set OPENAI_API_KEY"),
    ],
)
async def test_a_key_that_is_refused_is_named(key: str, said: str) -> None:
    async with Upstream(refuses(401, "Incorrect API key provided")) as upstream:
        agent = Agent("openai-chat:x", base_url=upstream.url, api_key=key, retry=ONCE)
        with pytest.raises(ExecuteError) as caught:
            await run_agent_async(agent, "hi")
    assert str(caught.value) == f"the model's server answered 401: Incorrect API key provided{said}"


# ---- the server ------------------------------------------------------------------------------------------------------


async def test_a_server_goes_as_the_environment_says(door: Door, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        Upstream(completes("hello")) as upstream,
        ProxyServer({"model.example": port_of(upstream)}).running() as proxy,
    ):
        monkeypatch.setenv("http_proxy", f"127.0.0.1:{proxy.port}")
        async with door.serving("http://model.example/v1") as served:
            answer = await served.post({"messages": [user("hi")], "stream": stream})
    assert answer.status == 200
    assert proxy.asked == ["POST http://model.example/v1/chat/completions HTTP/1.1"]


async def test_a_server_may_be_told_to_go_without(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with Upstream(completes("hello")) as upstream, door.serving(upstream.url, no_env_proxy=True) as served:
        assert (await served.post({"messages": [user("hi")]})).status == 200


async def test_agents_of_a_server_go_as_it_does(door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with Upstream(completes("hello")) as upstream:
        model = f"{{id: x, provider: openai, connection: {{kind: key, endpoint: '{upstream.url}'}}}}"
        (tmp_path / "poet.prompty").write_text(f"---\nmodel: {model}\n---\nuser:\nhi\n")
        settings: dict[str, Any] = {"no_env_proxy": True, "agents": str(tmp_path)}
        async with door.serving("http://127.0.0.1:1/v1", **settings) as served:
            answer = await served.post({"model": "poet", "messages": [user("hi")]})
    assert answer.status == 200, answer.body

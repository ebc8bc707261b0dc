"""Services by their names: each is called at its own address, with its own key, in Chat Completions."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from tests.providers.raw_upstream import Upstream, request, sized

from ronda import Agent, invoke_agent_async
from ronda.agent import where_is
from ronda.agent.value import missing_key
from ronda.errors import BadConfig, RunEnded
from ronda.prompty.load import load
from ronda.prompty.upstream import NO_KEY, upstream_of
from ronda.providers.services import SERVICES

MODELS_PAGE = Path(__file__).parents[2] / "docs" / "models.md"
ANSWER = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]})


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {name for one in SERVICES.values() for name in (*one.key_names, one.url_name, *one.place_names) if name}
    for name in {*names, "OPENAI_API_KEY", "OPENAI_BASE_URL"}:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", [name for name, one in SERVICES.items() if one.fixed_address])
def test_a_service_is_found_at_its_address_with_its_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    service = SERVICES[name]
    monkeypatch.setenv("OPENAI_API_KEY", "of another service")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://another.example/v1")
    for variable in service.key_names[:1]:
        monkeypatch.setenv(variable, "the key")

    where = where_is(f"{name}:some/model:8b")

    assert (where.base_url, where.key) == (service.address, "the key" if service.key_names else None)
    Agent(f"{name}:some/model:8b")


@pytest.mark.parametrize("name", [name for name, one in SERVICES.items() if one.fixed_address and one.needs_key])
def test_a_missing_key_is_named(name: str) -> None:
    with pytest.raises(BadConfig, match=f"^{name}:x needs a key: set {SERVICES[name].key_names[0]}, or "):
        Agent(f"{name}:x")


def test_a_server_of_your_own_needs_no_key() -> None:
    Agent("groq:x", base_url="http://127.0.0.1:9/v1")
    Agent("ollama:x")
    assert missing_key("azure:x", where_is("azure:x", "http://127.0.0.1:9/v1")) is None


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1:11500", "http://127.0.0.1:11500/v1"),
        ("0.0.0.0:11434", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("gpu.example", "http://gpu.example:11434/v1"),
        ("http://gpu.example:80/", "http://gpu.example:80/v1"),
        ("https://ollama.com", "https://ollama.com/v1"),
        ("https://gpu.example/ollama/v1", "https://gpu.example/ollama/v1"),
    ],
)
def test_ollama_is_where_its_own_variable_says(host: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert where_is("ollama:qwen3").base_url == address


@pytest.mark.parametrize("host", ["http://[::1", "http://x:port"])
def test_a_variable_that_holds_no_address_is_named(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    with pytest.raises(BadConfig, match=r"^OLLAMA_HOST is "):
        Agent("ollama:qwen3")


def test_azure_is_where_its_resource_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadConfig, match="set AZURE_OPENAI_ENDPOINT"):
        Agent("azure:gpt-5")

    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com/")

    assert where_is("azure:gpt-5").base_url == "https://mine.openai.azure.com/openai/v1"
    with pytest.raises(BadConfig, match="set AZURE_OPENAI_API_KEY"):
        Agent("azure:gpt-5")


def test_bedrock_is_in_the_region_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "the key")
    with pytest.raises(BadConfig, match="set AWS_REGION"):
        Agent("bedrock:openai.gpt-oss-20b-1:0")

    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert where_is("bedrock:x").base_url == "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1"

    monkeypatch.setenv("AWS_REGION", "evil.example/?")
    with pytest.raises(BadConfig, match="AWS_REGION is 'evil"):
        Agent("bedrock:x")


async def test_a_service_is_asked_in_chat_completions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk-secret-secret")
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await request(reader))
        writer.write(sized(ANSWER.encode()))
        await writer.drain()

    async with Upstream(answer).running() as upstream:
        agent = Agent("groq:llama-4", base_url=f"http://127.0.0.1:{upstream.port}/v1")
        assert await invoke_agent_async(agent, "hello") == "Hi."

    head, _, body = asked[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions ")
    assert b"Authorization: Bearer gsk-secret-secret" in head
    assert json.loads(body)["model"] == "llama-4"


async def test_a_refused_key_is_named_by_its_variable() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(sized(b'{"error": {"message": "bad key"}}', status=b"401 Unauthorized"))
        await writer.drain()

    async with Upstream(refuse).running() as upstream:
        agent = Agent("deepseek:x", base_url=f"http://127.0.0.1:{upstream.port}/v1", api_key="sk-wrong-wrong")
        with pytest.raises(RunEnded, match="DEEPSEEK_API_KEY"):
            await invoke_agent_async(agent, "hello")


@pytest.mark.parametrize(
    ("endpoint", "key"), [("https://api.groq.com/openai/v1", None), ("https://elsewhere.example/v1", NO_KEY)]
)
def test_a_file_gets_the_key_for_the_services_own_address_alone(
    tmp_path: Path, endpoint: str, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk-secret-secret")
    file = tmp_path / "a.prompty"
    file.write_text(
        f"---\nmodel:\n  id: llama-4\n  provider: groq\n  connection:\n    kind: key\n    endpoint: {endpoint}\n---\nuser:\nHi"
    )
    upstream = upstream_of(load(str(file)))

    assert (upstream.spec, upstream.base_url, upstream.key) == ("groq:llama-4", endpoint, key)
    assert upstream.kind == "openai-chat"


def test_the_page_of_models_has_every_service_as_it_is() -> None:
    text = MODELS_PAGE.read_text()
    rows = re.findall(r"^\| `([a-z-]+):NAME` \| (.*?) \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    shown = {name: (title, re.findall(r"`([A-Z_]+)`", key), address) for name, title, key, address in rows}

    for name, service in SERVICES.items():
        title, keys, address = shown[name]
        assert (title, keys) == (service.title, list(service.key_names)), name
        assert (f"`{service.address}`" if service.address else f"`{service.url_name}`") in address, name

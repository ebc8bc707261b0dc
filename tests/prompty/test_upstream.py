"""A file's model → who is asked, where, with whose key, and with which options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.pipeline.files import text_of

from ronda.core.plan import Options, ResponseFormat
from ronda.errors import RondaError
from ronda.prompty import InvokerError, Prompty, load, loads, register_connection
from ronda.prompty.components import register
from ronda.prompty.upstream import NO_KEY, options_of, upstream_of, wants_stream
from ronda.testing import ScriptedModel


def file(model: Any, **more: Any) -> Prompty:
    return loads(text_of({"model": model, **more}))


def key(endpoint: str | None = None, key: str | None = None) -> dict[str, Any]:
    return {"kind": "key", "endpoint": endpoint, "apiKey": key}


@pytest.mark.parametrize(
    ("model", "spec"),
    [
        ("gpt-5", "openai-chat:gpt-5"),
        ("openai-chat:gpt-5", "openai-chat:gpt-5"),
        ("local:smollm2", "local:smollm2"),
        ("ft:gpt-4:me", "openai-chat:ft:gpt-4:me"),
        ({"id": "gpt-5", "provider": "openai"}, "openai-chat:gpt-5"),
        ({"id": "gpt-5", "provider": "OpenAI", "apiType": "responses"}, "openai:gpt-5"),
        ({"id": "c", "provider": "anthropic"}, "anthropic:c"),
        ({"id": "g", "provider": "google"}, "gemini:g"),
        ({"id": "m", "provider": "mistral"}, "mistral:m"),
        ({"id": "m", "provider": "local"}, "local:m"),
        ({"id": "d", "provider": "azure", "connection": key("https://x.openai.azure.com", "k")}, "openai-chat:d"),
        (
            {"id": "d", "provider": "foundry", "apiType": "responses", "connection": key("https://x.azure.com/a", "k")},
            "openai:d",
        ),
    ],
)
def test_provider_and_api_type_name_one_of_our_models(model: Any, spec: str) -> None:
    assert upstream_of(file(model)).spec == spec


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("https://x.openai.azure.com/", "https://x.openai.azure.com/openai/v1"),
        ("https://x.services.ai.azure.com/api/projects/p", "https://x.services.ai.azure.com/api/projects/p/openai/v1"),
        (
            "https://x.azure.com/openai/deployments/d?api-version=1",
            "https://x.azure.com/openai/deployments/d?api-version=1",
        ),
        ("http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1"),
    ],
)
def test_an_azure_endpoint_gets_the_path_that_it_lacks(endpoint: str, address: str) -> None:
    assert upstream_of(file({"id": "d", "provider": "azure", "connection": key(endpoint, "k")})).base_url == address


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        (None, None),  # the environment's
        (key(key="k"), "k"),
        (key("https://api.openai.com/v1"), None),
        (key("https://somebody.example/v1"), NO_KEY),
        (key("https://somebody.example/v1", "k"), "k"),
        ({"kind": "anonymous", "endpoint": "https://api.openai.com/v1"}, NO_KEY),
        ({"kind": "remote", "name": "r", "endpoint": "https://somebody.example"}, NO_KEY),
        ({"kind": "foundry", "endpoint": "https://somebody.example", "apiKey": "k"}, "k"),
        ({"kind": "oauth", "endpoint": "https://somebody.example", "accessToken": "t"}, "t"),
    ],
)
def test_the_environments_key_goes_to_the_providers_own_address_alone(connection: Any, expected: str | None) -> None:
    assert upstream_of(file({"id": "gpt-5", "provider": "openai", "connection": connection})).key == expected


def test_a_key_is_not_in_what_is_printed() -> None:
    assert "secret" not in repr(upstream_of(file({"id": "m", "connection": key(key="secret")})))


def test_a_registered_connection_may_be_a_provider_itself() -> None:
    model = ScriptedModel()
    register_connection("a-model", model)
    assert upstream_of(file({"id": "m", "connection": {"kind": "reference", "name": "a-model"}})).provider is model


def test_a_registered_executor_is_asked_for_a_provider_nobody_knows() -> None:
    model = ScriptedModel()
    register("executor", "my-own", lambda: model)
    assert upstream_of(file({"id": "m", "provider": "my-own"})).provider is model


def test_a_script_is_looked_for_beside_its_file_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "s.json").write_text('["hi"]')
    (tmp_path / "s.json").write_text('["hi"]')
    path = tmp_path / "agents" / "a.prompty"
    path.write_text(text_of({"model": "script:s.json"}))
    assert upstream_of(load(path)).model == str(tmp_path / "agents" / "s.json")
    path.write_text(text_of({"model": "script:../s.json"}))
    with pytest.raises(ValueError, match=r"\.\./s\.json resolves outside allowed roots"):
        upstream_of(load(path))


@pytest.mark.parametrize(
    ("front_matter", "error", "message"),
    [
        ({}, ValueError, "the prompty '' names no model"),
        ({"model": {"provider": "openai"}}, ValueError, "names no model; `model.id` is empty"),
        ({"model": {"id": "m", "apiType": "poem"}}, ValueError, "^Unsupported API type: poem$"),
        (
            {"model": {"id": "m", "provider": "anthropic", "apiType": "embedding"}},
            ValueError,
            "^Unsupported API type: embedding$",
        ),
        ({"model": {"id": "m", "provider": "nobody"}}, InvokerError, "^No executor registered for key: nobody$"),
        ({"model": {"id": "m", "provider": "opnai"}}, InvokerError, r"key: opnai; did you mean 'openai'\?$"),
        ({"model": {"id": "m", "provider": "azure"}}, ValueError, "the provider 'azure' needs a connection"),
        (
            {"model": {"id": "m", "connection": {"kind": "oauth", "endpoint": "https://x", "clientId": "me"}}},
            ValueError,
            "needs a tokenUrl, a clientId and a clientSecret",
        ),
        (
            {"model": {"id": "m", "connection": {"kind": "reference", "name": "gone"}}},
            ValueError,
            "no connection named 'gone' is registered",
        ),
    ],
)
def test_a_model_that_cannot_be_found_says_why(front_matter: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        upstream_of(loads(text_of(front_matter)))
    assert isinstance(raised.value, RondaError)


# ---- options ----------------------------------------------------------------------------------------------------------

SAID = {
    "temperature": 0.5,
    "maxOutputTokens": 100,
    "topP": 0.9,
    "topK": 40,
    "frequencyPenalty": 0.1,
    "presencePenalty": 0.2,
    "seed": 42,
    "stopSequences": ["END"],
    "allowMultipleToolCalls": False,
    "additionalProperties": {"logprobs": True, "temperature": 2, "model": "other", "stream": True},
}


def plain(options: Options) -> Any:
    return msgspec.to_builtins(options)


@pytest.mark.parametrize(
    ("kind", "extra"),
    [
        (
            "openai-chat",
            {"logprobs": True, "frequency_penalty": 0.1, "presence_penalty": 0.2, "max_completion_tokens": 100},
        ),
        ("anthropic", {"logprobs": True, "top_k": 40}),
        ("gemini", {"logprobs": True, "top_k": 40, "frequency_penalty": 0.1, "presence_penalty": 0.2}),
    ],
)
def test_options_go_out_under_the_names_of_whoever_is_asked(kind: str, extra: Any) -> None:
    options = options_of(file({"id": "m", "options": SAID}), kind)

    assert {name: msgspec.json.decode(value) for name, value in options.extra.items()} == extra
    assert msgspec.structs.replace(options, extra={}) == Options(
        max_tokens=100, temperature=0.5, top_p=0.9, stop=("END",), seed=42, parallel_tool_calls=False
    )


def test_what_the_responses_api_has_no_word_for_is_left_out() -> None:
    options = options_of(file({"id": "m", "options": SAID}), "openai")
    assert (options.stop, options.seed, list(options.extra)) == ((), None, ["logprobs"])


def test_anthropic_is_asked_for_the_specifications_number_of_tokens_and_in_the_version_that_samples() -> None:
    said = {"id": "claude-sonnet-4-5", "provider": "anthropic"}
    assert options_of(file(said), "anthropic").max_tokens == 4096
    assert upstream_of(file(said)).base_url is None
    warm = {**said, "options": {"temperature": 1}}
    assert upstream_of(file(warm)).base_url == "https://api.anthropic.com?anthropic-version=2023-06-01"


def test_outputs_ask_for_json_and_a_files_wish_for_a_stream_is_no_field_of_a_request() -> None:
    prompty = file(
        {"id": "m", "options": {"additionalProperties": {"stream": True}}}, outputs={"a": {"kind": "string"}}
    )
    options = options_of(prompty, "openai-chat")

    assert wants_stream(prompty)
    assert options.extra == {}
    assert options.response_format == ResponseFormat(
        "json_schema",
        "structured_output",
        msgspec.Raw(
            b'{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"],'
            b'"additionalProperties":false}'
        ),
        strict=True,
    )

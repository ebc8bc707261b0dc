"""What backends are told: plain values, and no secrets."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest
from tests.trace.spying import Spy

from ronda.core.parts import Image, Text, ToolCall, UserTurn
from ronda.prompty.model import KeyConnection
from ronda.trace import redact, span, to_dict


@pytest.mark.parametrize(
    "key",
    [
        "secret",
        "client_secret",
        "clientSecret",
        "password",
        "db_passwd",
        "passphrase",
        "api_key",
        "apikey",
        "apiKey",
        "x-api-key",
        "API_KEY",
        "token",
        "access_token",
        "accessToken",
        "auth",
        "Authorization",
        "authentication",
        "credential",
        "credentials",
        "cookie",
        "Set-Cookie",
        "bearer",
        "private_key",
    ],
)
@pytest.mark.parametrize("value", ["hunter2", ["hunter2"], {"inside": "hunter2"}], ids=["text", "list", "object"])
def test_what_stands_under_a_secret_s_name_is_not_told(key: str, value: Any) -> None:
    assert "hunter2" not in json.dumps(redact({"deep": [{key: value}]}))
    assert redact({"secret": value}) == {"secret": "[REDACTED]"}


@pytest.mark.parametrize(
    "harmless",
    [
        {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
        {"max_tokens": 100, "maxOutputTokens": 5, "max_completion_tokens": "100"},
        {"completion_tokens_details": {"reasoning_tokens": 4}, "tokens": [1, 2]},
        {"token_count": 7, "token": 3},
        {"author": "Ada", "authors": ["Ada", "Grace"], "key": "primary", "sort_key": "name", "keyboard": "us"},
        {"password": None, "api_key": None, "has_token": True},
    ],
)
def test_counts_and_names_that_only_look_like_secrets_are_told(harmless: dict[str, Any]) -> None:
    assert redact(harmless) == harmless


def test_a_number_that_is_a_password_is_not_told() -> None:
    assert redact({"password": 1234}) == {"password": "[REDACTED]"}


def test_the_name_that_something_is_emitted_under_counts_too(spy: Spy) -> None:
    with span("a") as emit:
        emit("api_key", "hunter2")
        emit("inputs", {"headers": {"Authorization": "Bearer hunter2"}, "prompt_tokens": 3})

    assert spy.told("a") == [
        {"api_key": "[REDACTED]", "inputs": {"headers": {"Authorization": "[REDACTED]"}, "prompt_tokens": 3}}
    ]


def test_secrets_inside_of_json_text_are_not_told() -> None:
    call = {"arguments": '{"user": "ada", "password": "hunter2"}', "content": '[{"token": "hunter2"}]'}

    assert redact(call) == {
        "arguments": '{"user":"ada","password":"[REDACTED]"}',
        "content": '[{"token":"[REDACTED]"}]',
    }
    for text in ('{"total_tokens": 3}', '{"a": "the password"}', "{ token, not JSON", "token"):
        assert redact({"text": text}) == {"text": text}


def test_a_connection_keeps_its_key_to_itself() -> None:
    said = redact(to_dict(KeyConnection(endpoint="https://api.test", api_key="hunter2", extra={"token": "hunter2"})))

    assert said["endpoint"] == "https://api.test"
    assert "hunter2" not in json.dumps(said)


@dataclasses.dataclass
class Point:
    x: int
    where: Path


class Model(pydantic.BaseModel):
    name: str
    when: date


class Odd:
    def __str__(self) -> str:
        raise RuntimeError("not today")


PLAIN: dict[str, tuple[Any, Any]] = {
    "JSON values": ({"a": [1, 2.5, True, None, "x"]}, {"a": [1, 2.5, True, None, "x"]}),
    "a datetime": (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00+00:00"),
    "a dataclass": (Point(1, Path("a/b")), {"x": 1, "where": "a/b"}),
    "a pydantic model": (Model(name="n", when=date(2026, 1, 2)), {"name": "n", "when": "2026-01-02"}),
    "a struct": (
        UserTurn((Text("hi"), Image("https://a.test/i.png"))),
        {"type": "user", "parts": [{"type": "text", "text": "hi"}, {"type": "image", "url": "https://a.test/i.png"}]},
    ),
    "a struct with defaults": (
        ToolCall("1", "f", "{}"),
        {"type": "tool_call", "id": "1", "name": "f", "arguments": "{}"},
    ),
    "raw JSON": (msgspec.Raw(b'{"a":1}'), {"a": 1}),
    "sets and tuples": (({"x"}, ("y",)), [["x"], ["y"]]),
    "keys that are no text": ({1: "a", None: "b"}, {"1": "a", "None": "b"}),
    "bytes": (b"abc", "[3 bytes]"),
    "anything else": (complex(1, 2), "(1+2j)"),
    "what cannot even be printed": (Odd(), "<Odd>"),
    "a type": (Point, str(Point)),
}


@pytest.mark.parametrize(("value", "said"), PLAIN.values(), ids=PLAIN.keys())
def test_every_value_becomes_plain(value: Any, said: Any) -> None:
    assert to_dict(value) == said


def test_a_value_that_contains_itself_comes_to_an_end() -> None:
    round_and_round: list[Any] = []
    round_and_round.append(round_and_round)

    assert "…" in json.dumps(to_dict(round_and_round), ensure_ascii=False)

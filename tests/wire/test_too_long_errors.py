"""How upstreams say that a conversation is more than the model can take, and what only sounds like it."""

from typing import Any

import msgspec
import pytest

from ronda.wire.gemini import errors as gemini
from ronda.wire.openai_responses.failures import Failure, upstream_error
from ronda.wire.upstream import errors

SAID: dict[str, tuple[int, Any]] = {
    "openai": (400, {"message": "Input tokens exceed the configured limit.", "code": "context_length_exceeded"}),
    "openai, in words": (400, {"message": "Your input exceeds the context window of this model.", "code": None}),
    "vllm": (400, {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000."}),
    "mistral": (
        400,
        {"message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"},
    ),
    "anthropic": (
        400,
        {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"},
    ),
    "anthropic, with the answer": (
        400,
        {"message": "input length and `max_tokens` exceed context limit: 199000 + 4096"},
    ),
    "llama.cpp": (400, {"message": "the request is larger than what there is", "type": "exceed_context_size_error"}),
    "xai": (400, {"message": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}),
    "groq": (400, {"message": "Please reduce the length of the messages or completion."}),
    "lm studio": (400, "The number of tokens to keep is greater than the context length"),
}


@pytest.mark.parametrize("who", SAID)
def test_it_is_known_whoever_says_it(who: str) -> None:
    status, error = SAID[who]

    assert errors.error_of(msgspec.json.encode({"error": error}), status).too_long


def test_gemini_says_it_its_own_way() -> None:
    message = "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."
    said = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}

    assert gemini.error_of(msgspec.json.encode(said), 400).too_long


def test_a_response_that_failed_says_it_by_its_code() -> None:
    assert upstream_error(Failure("too much", "context_length_exceeded")).too_long
    assert upstream_error(Failure("Your input exceeds the context window of this model.", "invalid_prompt")).too_long


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (
            429,
            {
                "message": "Rate limit reached: the request exceeds the context window of your tier",
                "code": "rate_limit",
            },
        ),
        (400, {"message": "max_tokens is too large: 100000. This model supports at most 16384 completion tokens."}),
        (400, {"message": "Invalid 'tools': string too long."}),
        (500, {"message": "prompt is too long"}),
    ],
)
def test_what_only_sounds_like_it_is_not(status: int, error: dict[str, Any]) -> None:
    assert not errors.error_of(msgspec.json.encode({"error": error}), status).too_long

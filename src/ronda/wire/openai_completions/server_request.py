"""Text completions as their server, the way in: request bytes → one turn and options; or a 400 that names the field.

A prompt is what a user says, to whichever model the server has. No tool is offered for it: the API has no words for one.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw

from ronda.core.parts import Text, UserTurn
from ronda.core.plan import Options, ToolChoice
from ronda.errors import BadRequest
from ronda.wire.openai_chat import API
from ronda.wire.openai_chat.server_request import MAX_CHOICES, read_stream_options
from ronda.wire.openai_completions.server_answer import TextOptions
from ronda.wire.shared.door_request import DoorRequest
from ronda.wire.shared.fields import NOT_HERE, bad, field, misspelt, read_bounded, read_fields, whole

MAX_LOGPROBS: Final = 5  # OpenAI's

_REFUSED: Final = {
    "suffix": "models are asked for the text after a prompt only",
    **NOT_HERE,
}

# Every field that is known here, and what becomes of it. What is not named is passed on.
FIELDS: Final[dict[str, str]] = {
    "model": "read: `default` if left out",
    "prompt": "read: a text, or a list of one; tokens are refused",
    "max_tokens": "read",
    "temperature": "read",
    "top_p": "read",
    "n": f"read: up to {MAX_CHOICES}",
    "best_of": "read: only as many as `n`; answers are not compared here",
    "stream": "read",
    "stream_options": "read: include_usage",
    "stop": "read",
    "seed": "read",
    "echo": "read: the text begins with the prompt",
    "logprobs": f"read: up to {MAX_LOGPROBS}; passed on to an upstream that knows Chat Completions",
    "user": "passed on",
    "frequency_penalty": "passed on",
    "presence_penalty": "passed on",
    "logit_bias": "passed on",
    **{name: f"refused: {why}" for name, why in _REFUSED.items()},
    "any other": "passed on: to an upstream of Chat Completions; another gets what it knows, and `warnings` names the rest",
}
_READ: Final = frozenset({name for name, fate in FIELDS.items() if fate.startswith("read")})


class TextRequest(DoorRequest, frozen=True, kw_only=True):
    answer: TextOptions = TextOptions()


def read_request(body: bytes) -> TextRequest:
    fields = read_fields(body)
    for name in fields.keys() & _REFUSED.keys():
        raise BadRequest(f"'{name}' is not supported here: {_REFUSED[name]}", param=name)
    n = read_bounded(fields, "n", 1, MAX_CHOICES) or 1
    best_of = read_bounded(fields, "best_of", 1)
    if best_of is not None and best_of != n:
        raise bad("best_of", f"is {best_of}; it can only be {n}, as 'n' is: answers are not compared here")
    stream = field(fields, "stream", bool, False)
    streamed = read_stream_options(fields, stream)
    return TextRequest(
        model=field(fields, "model", str, "default"),
        turns=(UserTurn((Text(_read_prompt(fields)),)),),
        choice=ToolChoice.NoTools,
        options=_read_options(fields),
        stream=stream,
        n=n,
        answer=TextOptions(
            include_usage=bool(streamed.include_usage),
            echo=field(fields, "echo", bool, False),
            warnings=misspelt(fields, FIELDS),
        ),
    )


def _read_prompt(fields: dict[str, Raw]) -> str:
    if "prompt" not in fields:
        raise BadRequest("'prompt' is missing: it is what the model is to answer", param="prompt")
    prompt: Any = field(fields, "prompt", str | list[Any], "")
    if isinstance(prompt, str):
        return prompt
    if prompt and not all(isinstance(one, str) for one in prompt):
        raise bad("prompt", "must be text: tokens of one model mean nothing to another")
    if len(prompt) != 1:
        raise bad("prompt", f"has {len(prompt)} texts; a request has one")
    text: str = prompt[0]
    return text


def _read_options(fields: dict[str, Raw]) -> Options:
    extra = {name: value.copy() for name, value in fields.items() if name not in _READ}
    logprobs = read_bounded(fields, "logprobs", 0, MAX_LOGPROBS)
    if logprobs is not None:
        extra |= {"logprobs": Raw(b"true"), "top_logprobs": Raw(b"%d" % logprobs)}
    stop: str | list[str] = field(fields, "stop", str | list[str], [])
    return Options(
        max_tokens=read_bounded(fields, "max_tokens", 0),
        temperature=field(fields, "temperature", float, None),
        top_p=field(fields, "top_p", float, None),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        seed=whole(fields, "seed"),
        extra=extra,
        native_api=API if extra else "",
    )

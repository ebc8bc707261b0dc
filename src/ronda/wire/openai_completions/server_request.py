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
from ronda.wire.shared.field_table import STOP, WHOLE, Field, Table, bounded
from ronda.wire.shared.fields import NOT_HERE, bad, field, misspelt, read_bounded, read_fields

MAX_LOGPROBS: Final = 5  # OpenAI's

_REFUSED: Final = {
    "suffix": "models are asked for the text after a prompt only",
    **NOT_HERE,
}

# Every field that is known here, and what becomes of it. What is not named is passed on.
TABLE: Final = Table(
    [
        Field("model", str, "model", "read: `default` if left out"),
        Field("prompt", fate="read: a text, or a list of one; tokens are refused"),
        Field("max_tokens", bounded(0), "options.max_tokens"),
        Field("max_completion_tokens", fate="read: another name for max_tokens"),
        Field("temperature", float, "options.temperature"),
        Field("top_p", float, "options.top_p"),
        Field("n", fate=f"read: up to {MAX_CHOICES}"),
        Field("best_of", fate="read: only as many as `n`; answers are not compared here"),
        Field("stream"),
        Field("stream_options", fate="read: include_usage"),
        Field("stop", STOP, "options.stop"),
        Field("seed", WHOLE, "options.seed"),
        Field("echo", bool, "answer.echo", "read: the text begins with the prompt"),
        Field("logprobs", fate=f"read: up to {MAX_LOGPROBS}; passed on to an upstream that knows Chat Completions"),
        *[Field(name, fate="passed on") for name in ("user", "frequency_penalty", "presence_penalty", "logit_bias")],
        *[Field(name, fate=f"refused: {why}") for name, why in _REFUSED.items()],
        Field(
            "any other",
            fate="passed on: to an upstream of Chat Completions; another gets what it knows, and `warnings` names the rest",
        ),
    ]
)
FIELDS: Final = TABLE.fates
_READ: Final = TABLE.names("read")


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
    members = TABLE.read(fields)
    return TextRequest(
        turns=(UserTurn((Text(_read_prompt(fields)),)),),
        choice=ToolChoice.NoTools,
        options=_read_options(fields, members.options),
        stream=stream,
        n=n,
        answer=TextOptions(
            include_usage=bool(streamed.include_usage), warnings=misspelt(fields, FIELDS), **members.answer
        ),
        **{"model": "default", **members.request},
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


def _read_options(fields: dict[str, Raw], members: dict[str, Any]) -> Options:
    extra = {name: value.copy() for name, value in fields.items() if name not in _READ}
    limit = read_bounded(fields, "max_completion_tokens", 0)
    if limit is not None and members.setdefault("max_tokens", limit) != limit:
        why = "'max_completion_tokens' is another name for 'max_tokens' here, and they differ"
        raise BadRequest(why, param="max_completion_tokens")
    logprobs = read_bounded(fields, "logprobs", 0, MAX_LOGPROBS)
    if logprobs is not None:
        extra |= {"logprobs": Raw(b"true"), "top_logprobs": Raw(b"%d" % logprobs)}
    return Options(extra=extra, native_api=API if extra else "", **members)

"""The caller's options → the engine's words for them, or a BadRequest that names what cannot be done.

Every option works, is refused by name, or is on the short list of those that mean nothing to a model on this machine. How much
to think is asked of every model by some clients; one that was not taught to answers anyway, with a warning.
Pure: the prompt, the number of tokens and the grammar are added where they are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.core.plan import Options
from ronda.errors import BadRequest

# Said for the caller's own books or for a vendor's: nothing a model could do differently.
IGNORED = {
    "user": "whose request it is",
    "metadata": "the caller's notes",
    "store": "whether the vendor keeps a copy; nothing leaves this machine",
    "service_tier": "which queue of the vendor's",
    "prompt_cache_key": "prompts are matched by their text",
    "prompt_cache_retention": "prompts stay until their slot is needed",
    "safety_identifier": "the vendor's abuse detection",
    "verbosity": "a hint for models that were trained on it",
    "max_completion_tokens": "already read as max_tokens",
    "modalities": "already checked: text",
}

MAX_TOP_LOGPROBS = 20
MAX_STOPS, MAX_STOP = 64, 1000  # texts, characters: looked for after every token
MAX_BREAKERS, MAX_BREAKER = 64, 40  # the engine cuts longer ones, and compares each with its whole vocabulary
MAX_BIASES = 1024
MAX_OPTION_BYTES = 64 * 1024
_LOOK_BACK = 32_768  # tokens

# What keeps a small model from going round in circles until its tokens are used up. A token that would continue what was
# written before, for more than eight tokens, gets the less likely the longer it goes on (the engine's DRY sampler). Matches do
# not reach across the end of a JSON key, so that objects may look alike. Ending the answer gets likelier. Of short answers of
# the default model 2 of 36 came to no end by themselves, with only the first 5 of 144, with both none of 224.
DRY = {"dry_multiplier": 0.8, "dry_allowed_length": 8, "dry_sequence_breakers": ['":']}
END_BIAS = 3.0

_SEEDS = 2**32 - 1  # the engine's seed has 32 bits, and the last value asks it for a random one


class Settings(Struct, frozen=True):
    """`body` is for the engine, `template` for the chat template; `logprobs` is how many alternatives to show, if any.

    `guide_calls`: whether it is decided for the model when it calls a tool; None leaves that to what the model is.
    """

    body: dict[str, Any]
    template: dict[str, Any]
    logprobs: int | None = None
    guide_calls: bool | None = None
    warnings: tuple[str, ...] = ()


def read_settings(options: Options, *, thinks: bool) -> Settings:
    """`thinks`: the model's template can be told how much to think."""
    body: dict[str, Any] = {}
    template: dict[str, Any] = {}
    unused: list[str] = []
    if options.max_tokens is not None and options.max_tokens < 1:
        name = "max_completion_tokens" if "max_completion_tokens" in options.extra else "max_tokens"
        raise BadRequest(f"{name} must be at least 1.", param=name)
    if options.temperature is not None:
        body["temperature"] = _within(options.temperature, "temperature", 0, 100)
    if options.top_p is not None:
        body["top_p"] = _within(options.top_p, "top_p", 0, 1)
    if options.stop:
        if not all(options.stop):
            raise BadRequest("'stop' has an empty text in it, which would stop at once", param="stop")
        body["stop"] = _check_texts(list(options.stop), "stop", MAX_STOPS, MAX_STOP)
    if options.seed is not None:
        body["seed"] = options.seed % _SEEDS
    if options.reasoning_effort is not None:
        if thinks:
            template["reasoning_effort"] = options.reasoning_effort
            template["enable_thinking"] = options.reasoning_effort not in ("none", "off")
        elif options.reasoning_effort not in ("none", "off", "minimal"):
            unused.append("reasoning_effort")
    for name, raw in options.extra.items():
        if raw == NULL or name in IGNORED or name in _READ_APART:
            continue
        if name in _TEMPLATE:
            if not _read_template(name, raw, template, thinks):
                unused.append(name)
        elif name in _NUMBERS:
            to, kind, least, most = _NUMBERS[name]
            body[to] = _within(_decode(raw, kind, name), name, least, most)
        elif name in _OTHERS:
            to, read = _OTHERS[name]
            body[to] = read(raw)
        else:
            raise BadRequest(f"local models do not support '{name}'", param=name)
    if body.keys() & _PENALTIES:
        # Of the whole text, as the caller's dialect means it; the engine looks back 64 tokens. It reserves room for as many.
        body["repeat_last_n"] = _LOOK_BACK
    guide = options.extra.get("guide_calls", NULL)
    guide_calls = None if guide == NULL else _decode(guide, bool, "guide_calls")
    warnings = tuple([f"'{name}' is not used: this local model cannot be told how to think" for name in unused])
    return Settings(body, template, _read_logprobs(options, body), guide_calls, warnings)


def avoid_loops(body: dict[str, Any], ends: Sequence[int]) -> dict[str, Any]:
    """A body of settings for text that no grammar bounds, with what the caller does not say itself.

    `ends` are the tokens that end an answer.
    """
    samplers = body if body.keys() & _AGAINST_LOOPS else {**DRY, **body}
    if not ends or body.get("ignore_eos"):
        return samplers
    bias = dict.fromkeys(ends, END_BIAS) | {int(token): value for token, value in body.get("logit_bias", ())}
    return {**samplers, "logit_bias": [list(pair) for pair in bias.items()]}


def _read_logprobs(options: Options, body: dict[str, Any]) -> int | None:
    top: int | None = None
    if (raw := options.extra.get("top_logprobs")) is not None:
        top = _within(_decode(raw, int, "top_logprobs"), "top_logprobs", 0, MAX_TOP_LOGPROBS)
    raw = options.extra.get("logprobs")
    if raw is None or not _decode(raw, bool, "logprobs"):
        if top:
            raise BadRequest("'top_logprobs' goes with 'logprobs': true", param="top_logprobs")
        return None
    body["n_probs"] = max(1, top or 0)
    return top or 0


def _read_template(name: str, raw: Raw, template: dict[str, Any], thinks: bool) -> bool:
    """False where the model has no use for it."""
    if name == "chat_template_kwargs":
        template |= _decode(raw, dict[str, Any], name)
        return True
    value = _decode(raw, bool, name)
    if thinks:
        template[name] = value
    return thinks or not value


def _read_bias(raw: Raw) -> list[list[float]]:
    bias = _decode(raw, dict[str, float], "logit_bias")
    if len(bias) > MAX_BIASES:
        raise BadRequest(
            f"'logit_bias' has {len(bias)} tokens; a local model takes at most {MAX_BIASES}", param="logit_bias"
        )
    for token in bias:
        if not token.isdecimal() or len(token) > 10:
            raise BadRequest(
                f"'logit_bias' has {token[:20]!r} for a token; it must be a token's number", param="logit_bias"
            )
    return [[int(token), _within(value, "logit_bias", -100, 100)] for token, value in bias.items()]


def _read_breakers(raw: Raw) -> list[str]:
    texts = _decode(raw, list[str], "dry_sequence_breakers")
    return _check_texts(texts, "dry_sequence_breakers", MAX_BREAKERS, MAX_BREAKER)


# The caller's name → the engine's, its type, and the least and most it may be.
_NUMBERS: dict[str, tuple[str, type[int] | type[float] | type[bool], float, float]] = {
    "top_k": ("top_k", int, 0, 2**31 - 1),
    "min_p": ("min_p", float, 0, 1),
    "typical_p": ("typical_p", float, 0, 1),
    "repetition_penalty": ("repeat_penalty", float, 0.01, 10),
    "repeat_penalty": ("repeat_penalty", float, 0.01, 10),
    "presence_penalty": ("presence_penalty", float, -2, 2),
    "frequency_penalty": ("frequency_penalty", float, -2, 2),
    "dry_multiplier": ("dry_multiplier", float, 0, 100),
    "dry_base": ("dry_base", float, 0, 100),
    "dry_allowed_length": ("dry_allowed_length", int, 0, 2**31 - 1),
    "ignore_eos": ("ignore_eos", bool, 0, 1),
}
_OTHERS: dict[str, tuple[str, Callable[[Raw], Any]]] = {
    "logit_bias": ("logit_bias", _read_bias),
    "dry_sequence_breakers": ("dry_sequence_breakers", _read_breakers),
}
_TEMPLATE = frozenset({"enable_thinking", "chat_template_kwargs"})
_READ_APART = frozenset({"logprobs", "top_logprobs", "grammar", "guide_calls"})
_AGAINST_LOOPS = frozenset({"repeat_penalty", "presence_penalty", "frequency_penalty", *DRY})
_PENALTIES = frozenset({"repeat_penalty", "presence_penalty", "frequency_penalty"})


def _within(value: Any, name: str, least: float, most: float) -> Any:
    if not least <= value <= most:
        raise BadRequest(f"'{name}' is {value:g}; it must be from {least:g} to {most:g}", param=name)
    return value


def _check_texts(texts: list[str], name: str, limit: int, longest: int) -> list[str]:
    if len(texts) > limit:
        raise BadRequest(f"'{name}' has {len(texts)} texts; a local model takes at most {limit}", param=name)
    for text in texts:
        if len(text) > longest:
            raise BadRequest(
                f"'{name}' has a text of {len(text)} characters; a local model takes at most {longest}", param=name
            )
    return texts


def _decode(raw: Raw, kind: Any, name: str) -> Any:
    if len(raw) > MAX_OPTION_BYTES:
        raise BadRequest(f"'{name}' has {len(raw)} bytes; a local model takes at most {MAX_OPTION_BYTES}", param=name)
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadRequest(f"'{name}': {error}", param=name) from error

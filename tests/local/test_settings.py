"""Options → the engine's words, or a refusal that names them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from ronda.core.plan import Options
from ronda.errors import BadRequest
from ronda.local.settings import DRY, END_BIAS, IGNORED, Settings, avoid_loops, read_settings


def read(thinks: bool = False, extra: dict[str, str] | None = None, **options: Any) -> Settings:
    raws = {name: Raw(value.encode()) for name, value in (extra or {}).items()}
    return read_settings(Options(extra=raws, **options), thinks=thinks)


def test_nothing_said_leaves_everything_to_the_engine() -> None:
    assert read() == Settings({}, {})


def test_every_option_has_its_word() -> None:
    extra = {
        "top_k": "5",
        "min_p": "0.1",
        "typical_p": "0.9",
        "repetition_penalty": "1.1",
        "presence_penalty": "0.5",
        "frequency_penalty": "-0.5",
        "dry_multiplier": "0.8",
        "dry_base": "1.75",
        "dry_allowed_length": "2",
        "dry_sequence_breakers": '["\\n"]',
        "ignore_eos": "true",
        "logit_bias": '{"15": -100, "16": 2}',
        "logprobs": "true",
        "top_logprobs": "3",
        "min_tokens": "null",
    }
    assert read(extra=extra, temperature=0.5, top_p=0.9, seed=3, stop=("END",)) == Settings(
        {
            "temperature": 0.5,
            "top_p": 0.9,
            "stop": ["END"],
            "seed": 3,
            "top_k": 5,
            "min_p": 0.1,
            "typical_p": 0.9,
            "repeat_penalty": 1.1,
            "presence_penalty": 0.5,
            "frequency_penalty": -0.5,
            "dry_multiplier": 0.8,
            "dry_base": 1.75,
            "dry_allowed_length": 2,
            "dry_sequence_breakers": ["\n"],
            "ignore_eos": True,
            "logit_bias": [[15, -100.0], [16, 2.0]],
            "repeat_last_n": 32768,
            "n_probs": 3,
        },
        {},
        3,
    )


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        ({"prediction": "{}"}, "local models do not support 'prediction'"),
        ({"top_k": "-1"}, "'top_k' is -1; it must be from 0"),
        ({"top_k": '"many"'}, "'top_k'"),
        ({"min_p": "1.5"}, "'min_p' is 1.5; it must be from 0 to 1"),
        ({"presence_penalty": "3"}, "'presence_penalty' is 3"),
        ({"logit_bias": '{"hello": 1}'}, "'logit_bias' has 'hello'"),
        ({"logit_bias": '{"1": 101}'}, "'logit_bias' is 101"),
        ({"top_logprobs": "3"}, "'top_logprobs' goes with 'logprobs'"),
        ({"logprobs": "true", "top_logprobs": "21"}, "'top_logprobs' is 21"),
        ({"logprobs": "5"}, "'logprobs'"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(extra: dict[str, str], problem: str) -> None:
    with pytest.raises(BadRequest, match=problem) as refused:
        read(extra=extra)

    assert refused.value.param in extra


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"temperature": -1.0}, "'temperature' is -1"),
        ({"top_p": 1.1}, "'top_p' is 1.1"),
        ({"stop": ("",)}, "'stop' has an empty text"),
    ],
)
def test_so_is_an_option_out_of_bounds(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadRequest, match=problem):
        read(**options)


def test_what_means_nothing_here_is_left_out() -> None:
    assert read(extra=dict.fromkeys(IGNORED, '"anything"')) == Settings({}, {})


def test_a_model_that_thinks_is_told_how_much() -> None:
    assert read(thinks=True, reasoning_effort="high").template == {"reasoning_effort": "high", "enable_thinking": True}
    assert read(thinks=True, extra={"enable_thinking": "false"}).template == {"enable_thinking": False}
    assert read(reasoning_effort="none") == Settings({}, {})


def test_a_model_that_was_not_taught_to_think_answers_all_the_same() -> None:
    told = "is not used: this local model cannot be told how to think"
    asked = read(reasoning_effort="high", extra={"enable_thinking": "true"})
    assert asked == Settings({}, {}, warnings=(f"'reasoning_effort' {told}", f"'enable_thinking' {told}"))
    assert read(extra={"enable_thinking": "false"}) == Settings({}, {})


@pytest.mark.parametrize("seed", [-1, 2**32 - 1, 2**63])
def test_a_seed_never_asks_for_a_random_one(seed: int) -> None:
    assert 0 <= read(seed=seed).body["seed"] < 2**32 - 1


def test_a_small_model_is_kept_from_repeating_itself() -> None:
    assert avoid_loops({"temperature": 0}, [2]) == {**DRY, "temperature": 0, "logit_bias": [[2, END_BIAS]]}
    assert avoid_loops({}, []) == DRY


@pytest.mark.parametrize("extra", [{"repetition_penalty": "1.1"}, {"dry_multiplier": "0"}, {"presence_penalty": "0.5"}])
def test_a_caller_who_says_how_much_may_be_repeated_is_obeyed(extra: dict[str, str]) -> None:
    body = read(extra=extra).body

    assert avoid_loops(body, [2]) == {**body, "logit_bias": [[2, END_BIAS]]}


def test_a_bias_of_the_callers_stands_beside_ours() -> None:
    body = read(extra={"logit_bias": '{"5": -100, "2": -1}'}).body

    assert avoid_loops(body, [2, 7])["logit_bias"] == [[2, -1.0], [7, END_BIAS], [5, -100.0]]
    assert avoid_loops({"ignore_eos": True}, [2]) == {**DRY, "ignore_eos": True}

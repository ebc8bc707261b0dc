"""Options of an agent and of a run: typed, taken as a mapping, and refused at once by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.pipeline.files import scripted

from ronda import Agent, invoke_agent, run_agent
from ronda.core.plan import Options
from ronda.errors import BadConfig
from ronda.providers import KEY_NAMES, URL_NAMES
from ronda.testing import ScriptedModel, says


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in (*KEY_NAMES.values(), URL_NAMES.values()):
        for name in names:
            monkeypatch.delenv(name, raising=False)


def test_options_may_be_a_mapping() -> None:
    model = ScriptedModel(says("hi"), says("hi"), says("hi"))
    agent = Agent(model, options={"temperature": 0, "stop": "END", "extra": {"top_k": 3}})

    run_agent(agent, "go")
    run_agent(agent, "go", options={"temperature": 1, "max_tokens": 9, "extra": {"min_p": 0.5}})
    run_agent(scripted(model, options={"seed": 7, "temperature": 0.5}), options={"temperature": 1})

    first, second, third = [request.options for request in model.requests]
    assert first == Options(temperature=0.0, stop=("END",), extra={"top_k": first.extra["top_k"]})
    assert bytes(first.extra["top_k"]) == b"3"
    assert (second.temperature, second.max_tokens, second.stop) == (1.0, 9, ("END",))
    assert sorted(second.extra) == ["min_p", "top_k"]
    assert (third.temperature, third.seed) == (1.0, 7)


def ask(**options: Any) -> Any:
    return invoke_agent(Agent(ScriptedModel(says("3"))), "go", **options)


MISTAKES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "a misspelt option": (
        lambda: Agent(ScriptedModel(), options={"temprature": 0}),  # type: ignore[arg-type]  # that is the mistake
        BadConfig,
        "options has 'temprature'; did you mean 'temperature'? What only one provider knows goes into 'extra'",
    ),
    "an option of one provider": (
        lambda: ask(options={"top_k": 3}),
        BadConfig,
        "options has 'top_k'; did you mean 'top_p'? What only one provider knows goes into 'extra'",
    ),
    "an option of another type": (
        lambda: ask(options={"temperature": "hot"}),
        BadConfig,
        "options do not fit: Expected `float | null`, got `str` - at `$.temperature`",
    ),
    "options that are none": (lambda: ask(options=3), BadConfig, "options is 3; write options={'temperature': 0}"),
    "an option of the model among those of the run": (
        lambda: ask(temperature=0),
        TypeError,
        "unknown option 'temperature'; write options={'temperature': …}",
    ),
    "a choice that is none": (
        lambda: Agent(ScriptedModel(), tool_choice="always"),
        BadConfig,
        '\'tool_choice\' is \'always\'; it can be "none", "auto", "required" or an object',
    ),
    "a choice of another type": (
        lambda: Agent(ScriptedModel(), tool_choice=3),  # type: ignore[arg-type]  # that is the mistake
        BadConfig,
        "'tool_choice': Expected `str | object`, got `int`",
    ),
    "a model without its key": (
        lambda: Agent("openai:gpt-5.5"),
        BadConfig,
        "openai:gpt-5.5 needs a key: set OPENAI_API_KEY, or give api_key=…, or base_url=… of a server of your own",
    ),
    "a file whose model is without its key": (
        lambda: run_agent(scripted_without_key()),
        BadConfig,
        "openai:gpt-5.5 needs a key: set OPENAI_API_KEY, or give api_key=…, or base_url=… of a server of your own",
    ),
}


def scripted_without_key() -> Any:
    from ronda.prompty import loads

    return loads("---\nmodel: openai:gpt-5.5\n---\nuser:\nhi")


@pytest.mark.parametrize(("mistake", "kind", "said"), MISTAKES.values(), ids=MISTAKES.keys())
def test_the_mistake_is_named_before_a_model_is_called(
    mistake: Callable[[], object], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind) as caught:
        mistake()
    assert str(caught.value) == said


def test_a_key_that_is_there_or_not_needed_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these would say at once that its key is missing, as the last does."""
    Agent("openai:any", api_key="k")
    Agent("openai-chat:any", base_url="http://127.0.0.1:1/v1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    Agent("anthropic:any")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(BadConfig, match="ANTHROPIC_API_KEY"):
        Agent("anthropic:any")

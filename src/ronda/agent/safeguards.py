"""Guardrails and compaction as people give them → what a run is driven with, in the library and in a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from ronda.agent.conversation import read_turns
from ronda.agent.value import Agent, AnyAgent
from ronda.core.guardrails import GuardrailResult, Guardrails
from ronda.core.parts import Turn
from ronda.core.summary import written_out
from ronda.drive import Summarize
from ronda.errors import BadRequest

AnyGuardrails: TypeAlias = Guardrails | Mapping[str, Callable[..., Any]]
AnyCompaction: TypeAlias = "Summarize | AnyAgent"
Stage: TypeAlias = Literal["input", "output", "tool"]

_STAGES: tuple[Stage, ...] = ("input", "output", "tool")


def guarded_stages(guardrails: Guardrails | None) -> tuple[Stage, ...]:
    return tuple([stage for stage in _STAGES if getattr(guardrails, stage, None) is not None])


def read_guardrails(given: AnyGuardrails | None) -> Guardrails | None:
    if given is None:
        return None
    if not isinstance(given, Guardrails):
        unknown = given.keys() - set(_STAGES)
        if unknown:
            stages = ", ".join(_STAGES)
            raise BadRequest(f"there is no guardrail {min(unknown)!r}; there are {stages}", param="guardrails")
        given = Guardrails(**given)
    return given if given.input is None else replace(given, input=_rewriting(given.input))


def _rewriting(judge: Callable[[Sequence[Turn]], Any]) -> Callable[[Sequence[Turn]], Any]:
    """An input guardrail may write the turns to show as messages, as everybody who gives turns may."""

    async def judged(turns: Sequence[Turn]) -> Any:
        verdict = judge(turns)
        if isinstance(verdict, Awaitable):
            verdict = await verdict
        if isinstance(verdict, GuardrailResult) and isinstance(verdict.rewrite, list | tuple) and verdict.rewrite:
            return replace(verdict, rewrite=read_turns(verdict.rewrite, "rewrite"))
        return verdict

    return judged


def read_budget(characters: int | None) -> int | None:
    if characters is not None and characters < 1:
        raise BadRequest(f"context_budget is {characters}; it counts characters, from 1 on", param="context_budget")
    return characters


def read_summarizer(compaction: AnyCompaction | None) -> Summarize | None:
    """Whoever sums up: a function of the turns that go, or an agent that is given them as text."""
    if compaction is None or (callable(compaction) and not isinstance(compaction, Agent)):
        return compaction
    agent = compaction

    async def ask(turns: Sequence[Turn]) -> str:
        from ronda.agent.invoke import invoke_agent_async

        text = written_out(turns)
        return str(await invoke_agent_async(agent, {"input": text, "conversation": text}))

    return ask

"""Guardrails as they are given to a run: callables that see what goes in, what comes out and what is called, and judge it.

They live with the run's driver, as tool handlers do. The run itself knows only which of the three there are (its plan)
and what they said (`Checked`), so a run that is resumed does not ask again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ronda.core.events import Checked, CheckStage
from ronda.core.parts import AssistantTurn, Turn
from ronda.errors import BadRequest


class GuardrailResult(Struct, frozen=True):
    """`rewrite` goes in the place of what was judged: turns for input, a text for output, arguments for a tool."""

    allowed: bool
    reason: str | None = None
    rewrite: Any = None


Judgement: TypeAlias = GuardrailResult | bool
Judged: TypeAlias = Judgement | Awaitable[Judgement]


class Guardrails(Struct, frozen=True):
    """Each is a function, sync or async, that returns a `GuardrailResult` or a bool. One that fails has said no.

    `input` sees all the model is about to be shown, before every model call. `output` sees what the model said before anything
    else does. `tool` sees name and arguments of a call before it is run; the model is told about a no and goes on.
    """

    input: Callable[[Sequence[Turn]], Judged] | None = None
    output: Callable[[AssistantTurn], Judged] | None = None
    tool: Callable[[str, dict[str, Any]], Judged] | None = None


AnyGuardrails: TypeAlias = Guardrails | Mapping[str, Callable[..., Any]]
Stage: TypeAlias = Literal["input", "output", "tool"]
_STAGES: Final[tuple[Stage, ...]] = ("input", "output", "tool")


def read_guardrails(given: AnyGuardrails | None) -> Guardrails | None:
    """As people give them: a mapping will do."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        if unknown := given.keys() - set(_STAGES):
            stages = ", ".join(_STAGES)
            raise BadRequest(f"there is no guardrail {min(unknown)!r}; there are {stages}", param="guardrails")
        given = Guardrails(**given)
    if not isinstance(given, Guardrails):
        raise BadRequest(f"guardrails is {given!r:.200}; write guardrails=Guardrails(tool=…)", param="guardrails")
    for stage in _STAGES:
        guard = getattr(given, stage)
        if guard is not None and not callable(guard):
            raise BadRequest(f"the guardrail {stage!r} is {guard!r:.200}; it has to be a function", param="guardrails")
    return given


def guarded_stages(guardrails: Guardrails | None) -> tuple[Stage, ...]:
    return tuple([stage for stage in _STAGES if getattr(guardrails, stage, None) is not None])


def verdict(answer: object, stage: CheckStage, call_id: str | None = None, at: float = 0.0) -> Checked:
    """What a guardrail returned, as an event. What cannot be understood is a no: a guardrail that is broken guards nothing."""
    if isinstance(answer, bool):
        answer = GuardrailResult(answer)
    if not isinstance(answer, GuardrailResult):
        what = "nothing" if answer is None else type(answer).__name__
        return refusal(
            f"the guardrail returned {what}; it has to return a GuardrailResult or a bool", stage, call_id, at
        )
    if not answer.allowed:
        return refusal(None if answer.reason is None else str(answer.reason), stage, call_id, at)
    if answer.rewrite is None:
        return Checked(None, at, stage, True, call_id)
    rewrite = _rewritten(answer.rewrite, stage)
    if rewrite is None:
        what = type(answer.rewrite).__name__
        return refusal(
            f"the guardrail's rewrite is of type {what}; it has to be {_REWRITES[stage]}", stage, call_id, at
        )
    return Checked(None, at, stage, True, call_id, rewrite)


def refusal(why: str | None, stage: CheckStage, call_id: str | None = None, at: float = 0.0) -> Checked:
    """`why` without lone surrogates, which no journal could write."""
    return Checked(why and why.encode("utf-8", "replace").decode(), at, stage, False, call_id)


_REWRITES = {"input": "the turns to show", "output": "a text", "tool": "a mapping of arguments"}


def _rewritten(rewrite: Any, stage: CheckStage) -> tuple[Turn, ...] | str | None:
    match stage:
        case "input" if isinstance(rewrite, Sequence) and not isinstance(rewrite, str):
            turns = tuple(rewrite)
            return turns if turns and all(isinstance(turn, Turn) for turn in turns) else None
        case "output" if isinstance(rewrite, str):
            return rewrite
        case "tool" if isinstance(rewrite, Mapping):
            try:
                return msgspec.json.encode(rewrite).decode()
            except (TypeError, ValueError):
                return None
        case _:
            return None

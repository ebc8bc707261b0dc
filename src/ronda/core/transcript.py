"""Conversations that fit: what a model wrote, settled into calls that can be run, histories with every call answered once,
what was said before joined with what is said now, and what was said in the end.

All work on copies: what was stored is never touched.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ronda.core.arguments import recover
from ronda.core.call_ids import CallIds, derived_id
from ronda.core.events import ModelFinished
from ronda.core.live_calls import offered_name
from ronda.core.parts import AssistantPart, AssistantTurn, KnownTurns, ToolCall, ToolResult, ToolTurn, Turn
from ronda.core.run import Run
from ronda.errors import BadRequest

_INVALID = "Invalid JSON in tool arguments: "
NO_RESULT = (
    "Error: no result: this call was interrupted before its outcome was recorded. "
    "It may or may not have taken effect; check before calling again."
)


def settle(finished: ModelFinished, run: Run) -> tuple[ModelFinished, list[str]]:
    """Give every call of a finished turn an id of its own and arguments that parse; say what was changed.

    Returned is the same object where there was nothing to do, so that the provider's own JSON goes back byte for byte.
    """
    turn = finished.turn
    calls = turn.calls
    if not calls:
        return finished, []
    warnings: list[str] = []
    parts: list[AssistantPart] = []
    keep_native = True
    seen: set[str] = set()
    ids: CallIds | None = None
    runs_tools = run.runs_tools
    keep = len(calls)
    if run.in_last_call or run.plan.choice.mode == "none":
        when = "after the last round" if run.in_last_call else "although tool_choice is none"
        warnings.append(f"the model asked for tools {when}; its calls were dropped")
        keep, keep_native = 0, False
    elif runs_tools and run.plan.tool_calls == "first" and len(calls) > 1:
        warnings.append(f"the model made {len(calls)} calls in one turn; only the first, '{calls[0].name}', is run")
        keep, keep_native = 1, False
    for part in turn.parts:
        if type(part) is not ToolCall:
            parts.append(part)
            continue
        if len(seen) == keep:
            continue
        call = part
        spec = run.tools.get(call.name)
        if spec is None and runs_tools and (name := offered_name(call.name, run.tools)) != call.name:
            warnings.append(f"the model called '{call.name}', which was taken for '{name}'")
            call = ToolCall(call.id, name, call.arguments)
            spec, keep_native = run.tools[name], False
        callers = spec if spec is not None and spec.kind == "caller" else None
        if callers is not None and ids is None:
            ids = CallIds(run)
        if not call.id or call.id in seen or (ids is not None and ids.is_known(call)):
            call = ToolCall(derived_id(run, len(seen)), call.name, call.arguments)
            keep_native = False
        seen.add(call.id)
        # The caller gets what the model wrote, and judges it; unless it asked for strictness.
        if runs_tools and (callers is None or callers.strict):
            call = _readable(call, run)
        parts.append(call)
        if call.repairs:
            warnings.append(f"the arguments of '{call.name}' were repaired: {', '.join(call.repairs)}")
    if tuple(parts) == turn.parts:
        return finished, warnings
    stop = "stop" if turn.stop == "tool_calls" and not keep else turn.stop
    settled = AssistantTurn(tuple(parts), stop, turn.native if keep_native else None)
    return msgspec.structs.replace(finished, turn=settled), warnings


def _readable(call: ToolCall, run: Run) -> ToolCall:
    recovered = recover(call.arguments)
    if recovered is not None:
        if not recovered.repairs:
            return call
        return ToolCall(call.id, call.name, recovered.text, recovered.repairs, written=call.arguments)
    if not call.arguments.strip():
        spec = run.tools.get(call.name)
        if spec is not None and spec.no_arguments_needed:
            return ToolCall(call.id, call.name, "{}", ("empty",), written=call.arguments)
        return ToolCall(call.id, call.name, call.arguments, problem=_INVALID + "they are empty; send a JSON object")
    return ToolCall(
        call.id, call.name, call.arguments, problem=_INVALID + "not an object, and no way was found to read it as one"
    )


def repair(turns: Sequence[Turn], known: int = 0) -> Sequence[Turn]:
    """Every call answered once, every result asked for: what any provider demands before it reads a word.

    Works both ways and in order; the very same sequence comes back when nothing was wrong with it. The first `known` turns are
    not looked at.
    """
    if known:
        behind = turns[known:]
        fixed_behind = repair(behind)
        return turns if fixed_behind is behind else [*turns[:known], *fixed_behind]
    for turn in turns:
        if type(turn) is AssistantTurn or type(turn) is ToolTurn:
            break
    else:
        return turns  # nearly always: nothing was called
    fixed: list[Turn] = []
    changed = False
    waiting: tuple[ToolCall, ...] = ()  # calls of the assistant turn just before
    late: _Late | None = None
    results: dict[str, ToolResult] = {}

    def close() -> None:
        nonlocal waiting, results, changed
        if waiting:
            answers = [results.get(call.id) or ToolResult(call.id, NO_RESULT, failed=True) for call in waiting]
            changed = changed or len(results) < len(waiting)
            fixed.append(ToolTurn(tuple(answers)))
        waiting, results = (), {}

    for index, turn in enumerate(turns):
        if type(turn) is ToolTurn:
            asked = {call.id for call in waiting}
            in_order = [call.id for call in waiting] == [result.call_id for result in turn.results]
            changed = changed or bool(results) or not in_order
            for result in turn.results:
                if result.call_id in asked:
                    results.setdefault(result.call_id, result)
            if in_order and len(results) == len(waiting) and waiting:
                fixed.append(turn)
                waiting, results = (), {}
            continue
        if waiting and type(turn) is AssistantTurn:  # said in two turns, and answered behind the second
            if late is None or index >= late.end:
                late = _Late(turns, index)
            results = {**late.results(index, waiting), **results}
            changed = True
        close()
        fixed.append(turn)
        if type(turn) is AssistantTurn:
            waiting = turn.calls
    close()
    return fixed if changed else turns


class _Late:
    """Results for calls that another turn of the assistant's follows: they stand behind the last of such turns, with its own.

    Looked for once for all of them, from the first on: there may be thousands. Of calls with the same id the last is meant.
    """

    def __init__(self, turns: Sequence[Turn], at: int) -> None:
        self._last_call: dict[str, int] = {}
        self._results: dict[str, ToolResult] = {}
        while at < len(turns) and type(turn := turns[at]) is AssistantTurn:
            self._last_call.update(dict.fromkeys([call.id for call in turn.calls], at))
            at += 1
        self.end = at
        while at < len(turns) and type(answer := turns[at]) is ToolTurn:
            for result in answer.results:
                self._results.setdefault(result.call_id, result)
            at += 1

    def results(self, at: int, calls: Sequence[ToolCall]) -> dict[str, ToolResult]:
        """For the calls of the turn before the one at `at`."""
        results, last_call = self._results, self._last_call
        return {call.id: results[call.id] for call in calls if call.id in results and last_call.get(call.id, -1) < at}


class UnknownCall(BadRequest):
    """A result answers a call that the conversation does not wait for."""

    def __init__(self, call_id: str) -> None:
        super().__init__(f"a tool result answers the call {call_id[:100]!r}, which the conversation does not wait for")
        self.call_id = call_id


def join_turns(before: Sequence[Turn], new: Sequence[Turn], ours: Sequence[ToolResult] = ()) -> tuple[Turn, ...]:
    """What was said before and what is said now. `ours` are the results we have of the last turn's calls.

    The caller's half of that turn is among the new turns, wherever it stands before the next answer of a model; the two
    halves become one turn, in the order the model asked.
    """
    asked = before[-1] if before else None
    calls = [call.id for call in asked.calls] if type(asked) is AssistantTurn else []
    by_id = {result.call_id: result for result in ours}
    is_open = {*calls} - by_id.keys()
    rest: list[Turn] = []
    for index, turn in enumerate(new):
        if type(turn) is AssistantTurn:  # from here on the results are of its calls
            rest += new[index:]
            break
        if type(turn) is not ToolTurn:
            rest.append(turn)
            continue
        for result in turn.results:
            if result.call_id not in is_open:
                raise UnknownCall(result.call_id)
            by_id[result.call_id] = result
    results = tuple([by_id[call_id] for call_id in calls if call_id in by_id])
    return (*before, *((ToolTurn(results),) if results else ()), *rest)


def whole_results(turns: Sequence[Turn]) -> frozenset[str]:
    """The ids of files that have all of a result of which a model was shown a part."""
    known: frozenset[str] = frozenset()
    if type(turns) is KnownTurns:
        known, turns = turns.whole, turns[turns.known :]
    if ToolTurn not in map(type, turns):  # nearly always
        return known
    tools = [turn for turn in turns if type(turn) is ToolTurn]
    return known.union([result.whole for turn in tools for result in turn.results if result.whole])


def final_text(run: Run) -> str:
    """The text of the last turn, which is the answer; a refusal where the model refused."""
    for turn in reversed(run.turns):
        if type(turn) is AssistantTurn:
            return turn.text or turn.refusal
    return ""

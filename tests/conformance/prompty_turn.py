"""Every vector of TurnConformance.run, through `turn`: a prompty file with the vector's tools, a model that says its sequence.

The model's answers are Chat Completions bodies, read by the wire that reads real ones. What the vector injects (a cancellation,
a steering message) comes from inside the tools, as it would from a person while they run.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from tests.conformance import prompty_replay, prompty_run_turn
from tests.conformance.prompty_vectors import Json, expected_of, fits, run_vectors
from tests.conformance.report import PartResult

from ronda import Cancel, turn_async
from ronda.core.context import SUMMARY
from ronda.core.events import ModelFinished
from ronda.core.guardrails import GuardrailResult, Guardrails
from ronda.core.parts import ToolTurn, Turn
from ronda.core.plan import ToolSpec
from ronda.core.request import ModelRequest
from ronda.core.steering import Steering
from ronda.drive import Show, ToolContext, ToolOutput
from ronda.errors import LimitExceeded, ToolFailed, UpstreamError
from ronda.prompty.connections import register_connection
from ronda.prompty.load import loads
from ronda.prompty.message_parts import Message
from ronda.prompty.turns import messages_of
from ronda.wire.openai_chat.client_answer import read_plain

_numbers = itertools.count()
_BAD_JSON = "Error: Invalid JSON in tool arguments"
_TOOL_FAILED = "Error: Tool '{}' failed: "


def run(data: Path) -> PartResult:
    return run_vectors(
        data,
        {
            "TurnConformance.run": lambda vector: asyncio.run(_Case(vector).check()),
            "TurnConformance.runTurn": prompty_run_turn.check,
            "TurnConformance.replay": prompty_replay.check,
        },
    )


@dataclass
class _Model:
    """Says the sequence; hears what the loop shows it."""

    sequence: list[Json]
    heard: list[list[Turn]] = field(default_factory=list)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        at = len(self.heard)
        self.heard.append(list(request.turns))
        if at >= len(self.sequence):
            raise UpstreamError("the sequence of the vector is over")
        step = self.sequence[at]
        if "llm_response" not in step:
            raise UpstreamError(str(step.get("error") or step.get("llm_error")), retryable=True)
        return read_plain(json.dumps(step["llm_response"]).encode())


@dataclass
class _Tool:
    """Returns what the vector says its call returns, and does what the vector injects after it."""

    spec: ToolSpec
    case: _Case

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput(self.case.tool_ran(self.spec.name, arguments, context))


class _Case:
    def __init__(self, vector: Json) -> None:
        self.said: Json = vector["input"]
        self.expected: Json = expected_of(vector)
        self.sequence: list[Json] = vector.get("sequence") or []
        self.model = _Model(self.sequence)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.cancel = Cancel()
        self.steering = Steering()
        self.ran: list[tuple[str, dict[str, Any]]] = []
        self.denied: list[str] = []
        self.turns: list[Message] = []

    async def check(self) -> None:
        said = self.said
        if (said.get("cancel") or {}).get("cancelled_at") in ("before_iteration", "before_iteration_1"):
            self.cancel.cancel()
        self._steer(1)
        error: Exception | None = None
        result: Any = None
        try:
            result = await turn_async(
                self._file(),
                {"conversation": said["messages"], **(said.get("parent_inputs") or {})},
                {name: _Tool(ToolSpec(name), self) for name in said.get("tool_functions") or {}},
                on_event=lambda kind, data: self.events.append((kind, data)),
                cancel=self.cancel,
                steering=self.steering,
                guardrails=self._guardrails(),
                context_budget=said.get("context_budget"),
                compaction=self._compaction(),
                parallel_tool_calls=said.get("parallel_tool_calls", False),
                max_iterations=said.get("max_iterations", 10),
            )
        except Exception as raised:
            error = raised
        self._compare(result, error)

    # ---- the doubles -------------------------------------------------------------------------------------------------

    def _file(self) -> Any:
        name = f"vector-{next(_numbers)}"
        register_connection(name, self.model)
        inputs: Json = {"conversation": {"kind": "thread"}}
        inputs |= {name: {"kind": "string"} for name in self.said.get("parent_inputs") or {}}
        front: Json = {
            "name": "vector",
            "model": {"id": "scripted", "provider": "openai", "connection": {"kind": "reference", "name": name}},
            "inputs": inputs,
            "tools": self.said.get("tools") or [],
        }
        if outputs := self.said.get("outputs"):
            front["outputs"] = outputs
        return loads(f"---\n{json.dumps(front)}\n---\n{{{{conversation}}}}")

    def _guardrails(self) -> Guardrails | None:
        given = self.said.get("guardrails")
        if given is None:
            return None

        def judge(rule: Json) -> GuardrailResult:
            return GuardrailResult(rule.get("action", "allow") != "deny", rule.get("reason"))

        def judge_tool(name: str, arguments: dict[str, Any]) -> GuardrailResult:
            rule = given["tool"]
            if name not in rule.get("deny_tools", ()) and rule.get("action") != "deny":
                return GuardrailResult(True)
            self.denied.append(name)
            return GuardrailResult(False, rule.get("reason"))

        async def judge_output(message: object) -> GuardrailResult:
            return judge(given["output"])

        return Guardrails(
            input=(lambda messages: judge(given["input"])) if "input" in given else None,
            output=judge_output if "output" in given else None,
            tool=judge_tool if "tool" in given else None,
        )

    def _compaction(self) -> Any:
        """Where the vector writes the summary out, a model wrote it; else it is the loop's own."""
        for message in self.expected.get("trimmed_messages") or []:
            text = message.get("content")
            if isinstance(text, str) and text.startswith(SUMMARY):
                return lambda turns: text.removeprefix(SUMMARY)
        return None

    def _steer(self, iteration: int) -> None:
        for message in (self.said.get("steering") or {}).get("messages", ()):
            if message["inject_before_iteration"] == iteration:
                self.steering.send(message["text"])

    def tool_ran(self, name: str, arguments: dict[str, Any], context: ToolContext) -> str:
        step = self.sequence[context.round]
        self.ran.append((name, arguments))
        wanted = (step.get("expected_execution_args") or {}).get(name)
        if wanted is not None:
            fits(arguments, wanted, f"the arguments of {name}")
        ids = [call["id"] for call in step["llm_response"]["choices"][0]["message"]["tool_calls"]]
        place = ids.index(context.call_id)
        at = (self.said.get("cancel") or {}).get("cancelled_at")
        is_last = place == len(ids) - 1
        if at == f"after_tool_{place}" or (is_last and at == f"before_iteration_{context.round + 2}"):
            self.cancel.cancel()
        if is_last:
            self._steer(context.round + 2)
        return _returned(name, next(item for item in step["tool_results"] if item["tool_call_id"] == context.call_id))

    # ---- its result ---------------------------------------------------------------------------------------------

    def _compare(self, result: Any, error: Exception | None) -> None:
        expected = self.expected
        self.turns = _last_messages(self.events) if error is None else messages_of(getattr(error, "messages", []))
        if error is not None and "error" not in expected:
            raise error
        known = {"notes", "rust_expected_error", "error", "error_type", "error_reason", "result"}
        if "error" in expected:
            self._compare_error(error)
        elif "result" in expected:
            fits(result, expected["result"], "result")
        for key, wanted in expected.items():
            if key not in known:
                getattr(self, f"_{key}", self._unknown(key))(wanted, error)
        self._compare_calls()

    def _unknown(self, key: str) -> Any:
        def fail(wanted: Json, error: object) -> None:
            raise AssertionError(f"this adapter does not know how to compare {key!r}")

        return fail

    def _compare_error(self, error: Exception | None) -> None:
        expected = self.expected
        assert error is not None, f"no error was raised; expected {expected['error']!r}"
        types = {one.__name__ for one in type(error).__mro__}
        said = f"{type(error).__name__}: {error}"
        assert expected["error"] in types or expected["error"] in str(error), f"ours {said}, expected {expected!r}"
        if "error_type" in expected:
            assert expected["error_type"] in types, f"ours {said}, expected {expected['error_type']}"
        if "error_reason" in expected:
            fits(getattr(error, "reason", None), expected["error_reason"], "error_reason")

    def _compare_calls(self) -> None:
        """What the model asked for was read as the vector reads it, and it heard of each call what the vector says."""
        for at, heard in enumerate(self.model.heard[1:]):
            step = self.sequence[at]
            results = heard_results(heard)
            for item in step.get("tool_results") or ():
                text = results[item["tool_call_id"]]
                if str(item.get("result", "")).startswith(_BAD_JSON):
                    assert text.startswith(_BAD_JSON), f"ours {text!r}, expected {item!r}"
                elif "result" not in item:  # what the tool raised; how the loop words it is the loop's
                    assert str(item["error"]) in text, f"ours {text!r}, expected {item!r}"
                else:
                    fits(text, _told(item["result"]), f"the result of {item['tool_call_id']}")

    def _iterations(self, wanted: int, error: Exception | None) -> None:
        # The round that the limit refuses is counted: it was begun.
        refused = isinstance(error, LimitExceeded) and "iterations" in str(error)
        fits(len(self.model.heard) + refused, wanted, "iterations")

    def _total_messages(self, wanted: int, error: Exception | None) -> None:
        # The vectors count one too many once there was a tool round (their notes say so themselves), whether the tool ran
        # or not; the true number will do too.
        count = len(self.turns)
        had_a_round = any(message.role == "tool" for message in self.turns)
        assert wanted in (count, count + had_a_round), f"ours {count}, expected {wanted}"

    def _events(self, wanted: Json, error: Exception | None) -> None:
        types = {event["type"] for event in wanted}
        ours = [{"type": kind, "data": _plain(data)} for kind, data in self.events if kind in types]
        fits(ours, wanted, "events")

    def _message_sequence(self, wanted: Json, error: Exception | None) -> None:
        fits(_like(self.turns, wanted), wanted, "message_sequence")

    def _trimmed_messages(self, wanted: Json, error: Exception | None) -> None:
        trimmed = any(kind == "compaction_complete" for kind, _ in self.events)
        if wanted is None or not trimmed:
            assert trimmed is (wanted is not None), f"trimmed: {trimmed}, expected {wanted!r}"
            return
        fits(_like(messages_of(self.model.heard[0]), wanted), wanted, "trimmed_messages")

    def _summary_contains(self, wanted: str, error: Exception | None) -> None:
        said = [turn.text for turn in messages_of(self.model.heard[-1]) if turn.text.startswith(SUMMARY)]
        assert wanted in "".join(said[:1]), f"ours {said!r}, expected {wanted!r}"

    def _denied_tools(self, wanted: Json, error: Exception | None) -> None:
        fits(self.denied, wanted, "denied_tools")

    def _tool_execution_order(self, wanted: Json, error: Exception | None) -> None:
        fits([name for name, _ in self.ran], wanted, "tool_execution_order")

    def _tools_executed(self, wanted: int, error: Exception | None) -> None:
        fits(len(self.ran), wanted, "tools_executed")

    def _tool_result_message(self, wanted: Json, error: Exception | None) -> None:
        found = [message for message in self.turns if message.role == "tool"]
        fits(_like(found[:1], [wanted]), [wanted], "tool_result_message")

    def _assistant_tool_calls_message(self, wanted: Json, error: Exception | None) -> None:
        found = [message for message in self.turns if message.metadata.get("tool_calls")]
        fits(_like(found[:1], [wanted]), [wanted], "assistant_tool_calls_message")


def heard_results(turns: list[Turn]) -> dict[str, str]:
    return {result.call_id: result.content for turn in turns if type(turn) is ToolTurn for result in turn.results}


def _returned(name: str, item: Json) -> str:
    """What a handler does for the model to hear what the vector says it hears."""
    if "error" in item:
        raise RuntimeError(str(item["error"]))
    result = item["result"]
    failed = _TOOL_FAILED.format(name)
    if isinstance(result, str) and result.startswith(failed):
        raise ToolFailed(result.removeprefix(failed))
    return _told(result)


def _told(result: Json) -> str:
    return result if isinstance(result, str) else json.dumps(result)


def _last_messages(events: list[tuple[str, dict[str, Any]]]) -> list[Message]:
    return next((data["messages"] for kind, data in reversed(events) if kind == "done"), [])


def _plain(data: dict[str, Any]) -> Json:
    return {key: msgspec.to_builtins(value) for key, value in data.items()}


def _like(messages: list[Message], wanted: list[Json]) -> list[Json]:
    """Messages in the form the vector writes them: text or parts, `type` or `kind`, and what only has to be contained."""
    written: list[Json] = []
    for message, like in itertools.zip_longest(messages, wanted):
        if message is None:
            break
        content = (like or {}).get("content")
        form: Json = {"role": message.role, "content": message.text, "metadata": message.metadata}
        if isinstance(content, list):
            form["content"] = [
                {"type": part.kind, "kind": part.kind, "text": part.value, "value": part.value}
                for part in message.content
            ]
        for key, part in (like or {}).items():
            if key.endswith("contains"):
                assert part in message.text, f"{message.text!r} does not contain {part!r}"
                form[key] = part
        written.append(form)
    return written

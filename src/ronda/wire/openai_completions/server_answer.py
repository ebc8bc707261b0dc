"""Text completions as their server, the way out: events → SSE bytes, or one JSON body. Both are folds of the same events.

What is shown when is decided in `wire.shared.showing`. A model's reasoning is not shown: the API has no equivalent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, assert_never

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import (
    Event,
    LogprobsDelta,
    NativeDelta,
    ReasoningDelta,
    RefusalDelta,
    RunStarted,
    TextDelta,
    ToolProgressed,
)
from ronda.core.parts import NO_USAGE, NULL, Text, Usage, UserTurn
from ronda.core.run import Run
from ronda.wire.codec.json import encode
from ronda.wire.openai_chat.choice import Choice
from ronda.wire.openai_chat.server_answer import DONE, write_usage
from ronda.wire.shared import updates
from ronda.wire.shared.door_request import AnswerOptions
from ronda.wire.shared.endings import extensions, finish_reason, interruption
from ronda.wire.shared.failures import Failure, error_in_stream
from ronda.wire.shared.showing import Showing
from ronda.wire.upstream.logprobs import join_logprobs

_NOTHING: Final[Mapping[str, Any]] = {}


class TextOptions(AnswerOptions, frozen=True, kw_only=True, omit_defaults=True):
    key: ClassVar[str] = "text_completion"

    include_usage: bool = False
    echo: bool = False  # the text begins with the prompt


class TextAnswer:
    """The answer to one request: one choice per run. `feed` gives the bytes of a stream, `body` the plain answer."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._start: RunStarted = runs[0].start
        self._options = TextOptions.of(self._start)
        self._choices = [
            Choice(index, run, Showing(run, choice=index, refusal_is_text=True)) for index, run in enumerate(runs)
        ]
        self._open = len(runs)
        self._errors: list[dict[str, str | None]] = []  # why choices failed
        self._echo = _prompt(self._start) if self._options.echo else ""

    # ---- stream ------------------------------------------------------------------------------------------------------

    def feed(self, sibling: int, batch: Sequence[Event | Failure]) -> bytes:
        choice = self._choices[sibling]
        out: list[bytes] = []
        for event in batch:
            if (update := choice.showing.take(event)) is not None:
                self._write(choice, update, out)
        return b"".join(out)

    def _write(self, choice: Choice, update: updates.Update, out: list[bytes]) -> None:
        match update:
            case TextDelta(text=text):
                if text:
                    out.append(self._chunk(choice, self._begun(choice) + choice.text.add(text, choice.round)))
            case LogprobsDelta(logprobs=logprobs):
                out.append(self._chunk(choice, self._begun(choice), logprobs=_legacy(logprobs)))
            case updates.TurnBegan(broken=broken):
                if broken is not None:
                    out.append(self._chunk(choice, "", more=interruption(broken)))
                choice.begin_round()
            case updates.TurnClosed(unseen=unseen) | updates.TurnBroke(unseen=unseen):
                for delta in unseen:
                    self._write(choice, delta, out)
            case updates.Ended(text=text, failure=failure):
                if text:
                    choice.begin_round()
                    out.append(self._chunk(choice, self._begun(choice) + choice.text.add(text, choice.round)))
                self._close(choice, failure, out)
            case updates.Paused():
                self._close(choice, None, out)
            case ReasoningDelta() | RefusalDelta() | NativeDelta() | ToolProgressed():
                pass
            case updates.CallsGrew() | updates.ToolBegan() | updates.ToolEnded() | updates.Withdrawn():
                pass  # no tool is offered: a call that a model makes up is answered by the loop
            case updates.QuestionAsked() | updates.QuestionClosed():
                pass
            case _:
                assert_never(update)

    def _begun(self, choice: Choice) -> str:
        """What stands before the first piece of a choice: its prompt, if it is to be echoed."""
        if choice.has_begun:
            return ""
        choice.has_begun = True
        return self._echo

    def _close(self, choice: Choice, failure: Failure | None, out: list[bytes]) -> None:
        self._open -= 1
        if failure is not None:
            self._errors.append(error_in_stream(failure))
        more: dict[str, Any] = {}
        if self._open == 0:
            more = extensions(self._start.session, [one.showing for one in self._choices], self._options.warnings)
            if not self._options.include_usage:
                more["usage"] = write_usage(self._usage())
        out.append(self._chunk(choice, self._begun(choice), finish_reason(choice.run.ended), more=more))
        if self._open == 0:
            if self._options.include_usage:
                out.append(_event({**self._frame(), "choices": [], "usage": write_usage(self._usage())}))
            out += [_event({"error": error}) for error in self._errors]
            out.append(DONE)

    def _chunk(
        self,
        choice: Choice,
        text: str,
        finish: str | None = None,
        logprobs: Any = None,
        more: Mapping[str, Any] = _NOTHING,
    ) -> bytes:
        shown = {"index": choice.index, "text": text, "logprobs": logprobs, "finish_reason": finish}
        return _event({**self._frame(), "choices": [shown], **more})

    # ---- plain -------------------------------------------------------------------------------------------------------

    def fold(self, sibling: int, batch: Sequence[Event]) -> None:
        self._choices[sibling].fold(batch)

    def body(self) -> bytes:
        choices = [
            {
                "index": choice.index,
                "text": self._echo + choice.text.all(),
                "logprobs": _legacy(join_logprobs(choice.logprobs)),
                "finish_reason": finish_reason(choice.run.ended),
            }
            for choice in self._choices
        ]
        more = extensions(self._start.session, [one.showing for one in self._choices], self._options.warnings)
        return encode({**self._frame(), "choices": choices, "usage": write_usage(self._usage()), **more})

    # ---- both --------------------------------------------------------------------------------------------------------

    def _frame(self) -> dict[str, Any]:
        return {
            "id": "cmpl-" + self._start.run.removeprefix("run_"),
            "object": "text_completion",
            "created": int(self._start.at),
            "model": self._options.model,
            "system_fingerprint": "ronda",
        }

    def _usage(self) -> Usage:
        used = NO_USAGE
        for choice in self._choices:
            used += choice.run.usage
        return used


def _event(value: object) -> bytes:
    return b"data: %b\n\n" % encode(value)


def _prompt(start: RunStarted) -> str:
    prompts = [turn for turn in start.turns if isinstance(turn, UserTurn)]
    return "".join([part.text for part in prompts[-1].parts if isinstance(part, Text)]) if prompts else ""


# ---- token probabilities: the loop carries them in the shape of Chat Completions --------------------------------------------


class _Top(Struct):
    token: str
    logprob: float


class _Token(Struct):
    token: str
    logprob: float
    top_logprobs: list[_Top] = []


class _Logprobs(Struct):
    content: list[_Token] | None = None


_decode_logprobs = msgspec.json.Decoder(_Logprobs).decode


def _legacy(logprobs: Raw) -> dict[str, Any] | None:
    """In lists, one next to another. None where there are none, or where an upstream has a shape of its own."""
    if logprobs == NULL:
        return None
    try:
        tokens = _decode_logprobs(logprobs).content
    except msgspec.DecodeError:
        return None
    if tokens is None:
        return None
    offsets, position = [], 0
    for one in tokens:
        offsets.append(position)
        position += len(one.token)
    return {
        "tokens": [one.token for one in tokens],
        "token_logprobs": [one.logprob for one in tokens],
        "top_logprobs": [{top.token: top.logprob for top in one.top_logprobs} for one in tokens],
        "text_offset": offsets,
    }

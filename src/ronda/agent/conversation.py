"""Questions one after another: each run goes on from what was said before.

conversation = Conversation(agent)
conversation.ask("My name is Ada.")
conversation.ask("What is my name?").output

The messages are those of the runs; nothing is kept elsewhere. `ronda.host.sessions` is for conversations that a server keeps.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Generic, Unpack

import msgspec

from ronda.agent.invoke import run_agent, run_agent_async
from ronda.agent.result import Result, T
from ronda.agent.start import RunOptions
from ronda.agent.value import Agent, Inputs
from ronda.core.parts import NO_USAGE, Turn, Usage
from ronda.errors import BadRequest
from ronda.wire.shared.conversation import read_turns

if TYPE_CHECKING:
    from typing import Self

    from ronda.prompty.model import Prompty


class Conversation(Generic[T]):
    """An agent, and what was said with it. `options` are those of `run_agent`, for every question; `history` is what was said
    before the first."""

    def __init__(
        self,
        agent: Agent[T] | Prompty | str | os.PathLike[str],
        **options: Unpack[RunOptions],
    ) -> None:
        history = options.pop("history", None)
        self.agent = agent
        self.usage: Usage = NO_USAGE  # of all questions together
        self._turns: list[Turn] = list(read_turns(history, "history")) if history else []
        self._options = options
        self._busy = False

    @property
    def messages(self) -> list[Turn]:
        """What was said so far, with what tools gave."""
        return list(self._turns)

    def ask(self, inputs: Inputs, **options: Unpack[RunOptions]) -> Result[T]:
        """The next question. If its run fails, the conversation stays as it was."""
        self._begin()
        try:
            return self._take(run_agent(self.agent, inputs, **self._with(options)))
        finally:
            self._busy = False

    async def ask_async(self, inputs: Inputs, **options: Unpack[RunOptions]) -> Result[T]:
        self._begin()
        try:
            return self._take(await run_agent_async(self.agent, inputs, **self._with(options)))
        finally:
            self._busy = False

    def dump(self) -> bytes:
        """The messages as JSON, to be kept in a file or a database."""
        return msgspec.json.encode(self._turns)

    @classmethod
    def load(
        cls, agent: Agent[T] | Prompty | str | os.PathLike[str], data: bytes | str, **options: Unpack[RunOptions]
    ) -> Self:
        """A conversation that was dumped goes on."""
        try:
            messages = msgspec.json.decode(data, type=list)
        except msgspec.DecodeError as error:
            raise BadRequest(f"this is no dumped conversation: {error}", param="data") from error
        options["history"] = messages
        return cls(agent, **options)

    def _begin(self) -> None:
        """Two questions at a time would each know nothing of the other."""
        if self._busy:
            raise RuntimeError("the conversation waits for an answer; ask the next question when it is there")
        self._busy = True

    def _with(self, options: RunOptions) -> RunOptions:
        if "history" in options:
            raise BadRequest("a conversation has a history of its own", param="history")
        merged = self._options.copy()
        merged.update(options)
        if self._turns:
            merged["history"] = self._turns
        return merged

    def _take(self, result: Result[T]) -> Result[T]:
        if not result.questions:  # one that waits for a person goes on by `resume_agent`
            self._turns = result.messages
        self.usage += result.usage
        return result

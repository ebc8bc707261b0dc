"""A mock of a file → a tool that gives what the file says, and calls nothing."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from ronda.core.plan import ANY_OBJECT, ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.errors import ToolFailed
from ronda.evals.suite import Mock, MockAnswer
from ronda.tools.function import to_output


class MockTool:
    """`real` is the tool in whose place it stands, if there is one: the model sees that one's declaration."""

    def __init__(self, mock: Mock, real: ToolSpec | None = None) -> None:
        self._mock = mock
        self._calls = 0
        parameters = ANY_OBJECT if mock.parameters is None else Raw(msgspec.json.encode(mock.parameters))
        declared = real or ToolSpec(mock.name, mock.description, parameters)
        # It has no effect, so that it may run again after a crash, and no person has to be asked.
        self.spec = msgspec.structs.replace(declared, name=mock.name, repeatable=True, kind="function")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        answer = self._answer(arguments)
        self._calls += 1
        if answer is None:
            raise ToolFailed(f"the mock of '{self._mock.name}' has no answer for these arguments")
        if answer.fails is not None:
            raise ToolFailed(answer.fails)
        return to_output(answer.returns, self._mock.name)

    def _answer(self, arguments: dict[str, Any]) -> MockAnswer | None:
        answers = self._mock.answers
        if self._mock.sequence:
            return answers[min(self._calls, len(answers) - 1)]
        for answer in answers:
            wanted = answer.arguments
            if wanted is None or all(arguments.get(name) == value for name, value in wanted.items()):
                return answer
        return None

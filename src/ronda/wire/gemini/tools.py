"""Tools → functionDeclarations and their functionCallingConfig, and a call of the model's → the tool's own names.

Every tool of a request is lowered to what Gemini takes: one schema it refuses is a 400 for all of them. What the tool really
takes is checked by the loop, against the tool's own schema.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ronda.core.plan import ToolChoice, ToolSpec
from ronda.schema.lower import GEMINI, lower_json, lower_names

_compact = msgspec.json.format


class Tools:
    """The tools of a request under the names that Gemini knows them by."""

    __slots__ = ("_own", "called", "of")

    def __init__(self, tools: tuple[ToolSpec, ...]) -> None:
        self.of = tools
        self.called = lower_names([tool.name for tool in tools], GEMINI)
        self._own = {self.called[tool.name]: tool for tool in tools}

    def call_it(self, name: str) -> str:
        """The wire's name of a tool, also of one that was called long ago and is no longer there."""
        return self.called.get(name) or lower_names([name], GEMINI)[name]

    def read_call(self, name: str, arguments: bytes | None) -> tuple[str, str]:
        """The tool's own name, and the arguments as JSON text under the tool's own names."""
        text = "{}" if arguments is None else _compact(arguments, indent=-1).decode()
        tool = self._own.get(name)
        return (name if tool is None else tool.name), text

    def write(self) -> list[dict[str, Any]]:
        declarations = []
        for tool in self.of:
            declaration: dict[str, Any] = {"name": self.called[tool.name]}
            if tool.description:
                declaration["description"] = tool.description
            declaration["parametersJsonSchema"] = lower_json(bytes(tool.parameters), GEMINI).schema
            declarations.append(declaration)
        return [{"functionDeclarations": declarations}] if declarations else []

    def write_choice(self, choice: ToolChoice) -> dict[str, Any] | None:
        """None where Gemini would do the same unasked."""
        if choice.mode == "none":
            return {"mode": "NONE"}
        allowed = [self.call_it(name) for name in choice.names]
        if choice.mode == "required":
            return {"mode": "ANY", "allowedFunctionNames": allowed} if allowed else {"mode": "ANY"}
        if allowed:  # "only set when the Mode is ANY or VALIDATED": a call or text, and only of these
            return {"mode": "VALIDATED", "allowedFunctionNames": allowed}
        # It holds for all that is declared, so all must have asked for it.
        return {"mode": "VALIDATED"} if all(tool.strict for tool in self.of) else None

"""Tools and the choice of one → as Mistral takes them, and its names for them → the tools' own."""

from __future__ import annotations

from typing import Any

from ronda.core.plan import ToolChoice, ToolSpec
from ronda.schema.lower import MISTRAL, lower_json, lower_names


class Tools:
    """The tools of a request under the names that Mistral knows them by."""

    __slots__ = ("_own", "called", "of")

    def __init__(self, tools: tuple[ToolSpec, ...]) -> None:
        self.of = tools
        self.called = lower_names([tool.name for tool in tools], MISTRAL)
        self._own = {self.called[tool.name]: tool.name for tool in tools}

    def call_it(self, name: str) -> str:
        """The wire's name of a tool, also of one that was called long ago and is no longer there."""
        return self.called.get(name) or lower_names([name], MISTRAL)[name]

    def own_name(self, name: str) -> str:
        return self._own.get(name, name)

    def write(self, choice: ToolChoice) -> dict[str, Any]:
        """`tools` and `tool_choice`. There is no list of allowed tools in this dialect: others are not declared then."""
        fields: dict[str, Any] = {}
        tools = self.of if not choice.names or choice.named else [tool for tool in self.of if tool.name in choice.names]
        if tools:
            fields["tools"] = [self._declare(tool) for tool in tools]
            if choice.named:
                fields["tool_choice"] = {"type": "function", "function": {"name": self.call_it(choice.names[0])}}
            elif choice.mode != "auto":
                # "required" came later than "any", which means the same.
                fields["tool_choice"] = "any" if choice.mode == "required" else "none"
        return fields

    def _declare(self, tool: ToolSpec) -> dict[str, Any]:
        fitted = lower_json(bytes(tool.parameters), MISTRAL)
        function: dict[str, Any] = {"name": self.called[tool.name]}
        if tool.description:
            function["description"] = tool.description
        function["parameters"] = fitted.schema
        if tool.strict and fitted.strict:
            function["strict"] = True
        return {"type": "function", "function": function}

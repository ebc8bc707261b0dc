"""A function that is registered by its name: what the model sees of it comes from the request that declares the tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.tools.function import call_either
from ronda.tools.output import output_of


class CallbackTool:
    """Called with the arguments as keywords; or as `callback(name, arguments)` if that is what its parameters are called."""

    def __init__(self, spec: ToolSpec, function: Callable[..., Any]) -> None:
        self.spec = spec
        self._function = function
        self._takes_name = _takes_name(function)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        if self._takes_name:
            return await output_of(await call_either(self._function, self.spec.name, arguments), self.spec.name)
        return await output_of(await call_either(self._function, **arguments), self.spec.name)


def _takes_name(function: Callable[..., Any]) -> bool:
    names = list(inspect.signature(function).parameters)
    return len(names) == 2 and names[0] == "name" and names[1] in ("args", "arguments")

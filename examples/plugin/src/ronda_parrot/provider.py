"""`parrot:NAME`: a model that repeats the last thing it was told, and calls the first tool once if it is asked to."""

from __future__ import annotations

from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import AssistantTurn, Text, ToolCall, ToolTurn, Usage, UserTurn
from ronda.core.request import ModelRequest
from ronda.drive import Provider, Show
from ronda.providers import Where


class Parrot:
    """`call` is all that a provider must have. What goes wrong with the model, it raises as `ronda.errors.UpstreamError`."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        last = request.turns[-1]
        if isinstance(last, UserTurn):
            text = "".join([part.text for part in last.parts if isinstance(part, Text)])
        else:
            text = "\n".join([result.content for result in last.results]) if isinstance(last, ToolTurn) else ""
        word, _, argument = text.partition(" ")
        if word == "call" and request.tools and isinstance(last, UserTurn):
            turn = AssistantTurn((ToolCall("parrot_1", request.tools[0].name, argument or "{}"),), "tool_calls")
            return ModelFinished(turn, Usage(len(text), 1))
        said = f"{self._name}: {text}"
        show([TextDelta(said)])  # as soon as there is something to show, and as often as there is
        return ModelFinished(AssistantTurn((Text(said),), "stop"), Usage(len(text), len(said)))


def open_parrot(name: str, where: Where) -> Provider:
    """What the entry point names. `where` has an address and a key, if there are some."""
    return Parrot(name)


# Where Ronda looks for a key and an address that were not given; leave them out if there is nothing to look for.
open_parrot.key_names = ()  # type: ignore[attr-defined]  # e.g. ("PARROT_API_KEY",)
open_parrot.url_name = "PARROT_BASE_URL"  # type: ignore[attr-defined]  # functions take attributes

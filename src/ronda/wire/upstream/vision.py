"""Turns for a model that cannot see: every image becomes a note that there was one. The stored turns are not touched."""

from __future__ import annotations

from collections.abc import Sequence

from ronda.core.parts import File, Image, Text, ToolResult, ToolTurn, Turn, UserPart, UserTurn
from ronda.wire.upstream.projection import Changes

_WHY = "this model cannot see"


class Unseen:
    """Remembers what it made of each turn: a wire that goes on where it stopped knows turns by who they are."""

    __slots__ = ("_made", "changes")

    def __init__(self) -> None:
        self._made: list[tuple[Turn, Turn]] = []
        self.changes = Changes()

    def turns(self, turns: Sequence[Turn]) -> list[Turn]:
        made = self._made
        same = len(made) <= len(turns) and all(before is now for (before, _), now in zip(made, turns, strict=False))
        if not same:
            self.changes.forget()
            made.clear()
        for index in range(len(made), len(turns)):
            self.changes.turn = index
            made.append((turns[index], self._without_images(turns[index])))
        return [shown for _, shown in made]

    def _without_images(self, turn: Turn) -> Turn:
        match turn:
            case UserTurn(parts=parts) if any(_is_image(part) for part in parts):
                return UserTurn(tuple([self._note(part) if _is_image(part) else part for part in parts]), turn.name)
            case ToolTurn(results=results) if any(_is_image(item) for one in results for item in one.attachments):
                return ToolTurn(tuple([self._result(result) for result in results]))
            case _:
                return turn

    def _result(self, result: ToolResult) -> ToolResult:
        images = [item for item in result.attachments if _is_image(item)]
        if not images:
            return result
        text = "\n".join([*([result.content] if result.content else []), *[self._note(image).text for image in images]])
        others = tuple([item for item in result.attachments if not _is_image(item)])
        return ToolResult(result.call_id, text, result.failed, others)

    def _note(self, part: UserPart) -> Text:
        name = part.name if type(part) is File else None
        what = f"an image named {name!r}" if name else "an image"
        self.changes.tell("media_noted", f"{what} is only mentioned to the model", _WHY)
        return Text(f"[{what} was attached here, which you cannot see]")


def _is_image(part: UserPart) -> bool:
    return type(part) is Image or (type(part) is File and (part.data or "").startswith("data:image/"))

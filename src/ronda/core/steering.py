"""What people say to a run while it is under way: any thread puts it in, the run's driver takes it out."""

from __future__ import annotations

from collections import deque


class Steering:
    """Messages for the next model call of a run. Sending never interrupts: a tool that is running runs to its end.

    What was sent after the last model call of a run stays here: `has_pending` says so, and no model is called for it.
    """

    __slots__ = ("_messages",)

    def __init__(self) -> None:
        self._messages: deque[str] = (
            deque()
        )  # appending and taking are single steps of the interpreter: no lock is needed

    def send(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"a steering message is a text, not {type(text).__name__}")
        if not text.strip():
            raise ValueError("a steering message has to say something")
        self._messages.append(text)

    def drain(self) -> list[str]:
        """Everything sent so far, in order; each message is given out once."""
        taken: list[str] = []
        for _ in range(len(self._messages)):
            try:
                taken.append(self._messages.popleft())
            except IndexError:  # another thread drains too
                break
        return taken

    @property
    def has_pending(self) -> bool:
        return bool(self._messages)

"""`ronda run` asks at the terminal whether a call may run: yes, no, with other arguments, or always."""

from __future__ import annotations

import sys
from typing import TextIO

import msgspec

from ronda.core.events import Answered, Asked
from ronda.core.run import Run
from ronda.drive import check_answer
from ronda.errors import BadRequest

_CHOICE = "May it run? [y]es, [n]o, [e]dit its arguments, [a]lways in this run: "


class TerminalApproval:
    """A person at a terminal. Where there is none, nothing is approved, and a line says so."""

    def __init__(self, stdin: TextIO | None = None, shown: TextIO | None = None) -> None:
        self._in = sys.stdin if stdin is None else stdin
        self._out = sys.stderr if shown is None else shown
        self.run: Run | None = None  # the one that asks; its tools say which arguments fit

    def __call__(self, question: Asked) -> Answered:
        if not self._in.isatty():
            self._say(
                f"ronda: '{question.tool}' needs an approval, and there is no terminal to ask at: it is not run\n"
            )
            return question.deny("there is no person to ask")
        self._say(f"{question.tool} {_visible(question.arguments)}\n")
        while (word := self._ask(_CHOICE)) is not None:
            match word.strip().lower():
                case "y" | "yes":
                    return question.approve()
                case "n" | "no":
                    return question.deny()
                case "a" | "always":
                    return question.approve(remember=True)
                case "e" | "edit":
                    if (answer := self._edited(question)) is not None:
                        return answer
                case _:
                    pass  # asked again
        return question.deny()  # the end of the input

    def _edited(self, question: Asked) -> Answered | None:
        text = self._ask("Its arguments, as JSON in one line: ")
        if text is None:
            return None
        answer = Answered(question.id, "approve", text.strip())
        try:
            if self.run is not None and question in self.run.questions:  # else it is an agent's that runs as a tool
                check_answer(self.run, answer)
            return question.approve(msgspec.json.decode(text, type=dict))
        except (BadRequest, msgspec.MsgspecError, UnicodeError) as error:
            self._say(f"{error}\n")
            return None

    def _ask(self, prompt: str) -> str | None:
        self._say(prompt)
        return self._in.readline() or None

    def _say(self, text: str) -> None:
        print(text, end="", file=self._out, flush=True)


def _visible(arguments: str) -> str:
    """All of it, and what a terminal would hide or act on written out: what is approved is what is seen."""
    text = msgspec.json.format(arguments, indent=2)
    return "".join([one if one.isprintable() or one == "\n" else f"\\u{ord(one):04x}" for one in text])

"""The questions that people are asked about one turn's calls: which are open, and which calls were announced with them."""

from __future__ import annotations

from ronda.core.events import Answered
from ronda.wire.shared.approvals import Approval


class Questions:
    """`open` are those that are not decided, by their ids. `ids` are the questions of calls, by the ids of the calls."""

    __slots__ = ("_of_children", "announced", "ids", "open")

    def __init__(self) -> None:
        self.open: dict[str, Approval] = {}
        self.ids: dict[str, str] = {}
        self.announced: set[str] = set()  # calls that were announced when people were asked about them
        self._of_children: set[str] = set()  # calls under way whose own run asks

    def ask(self, approval: Approval) -> bool:
        """Whether the call was not announced before."""
        question = approval.question
        call_id = question.call_id
        self.open[question.id] = approval
        if question.child:
            self._of_children.add(call_id)
            return False
        if question.kind == "input":  # a tool asks while it runs
            return False
        is_news = call_id not in self.announced
        self.announced.add(call_id)
        self.ids[call_id] = question.id
        return is_news

    def is_under_way(self, call_id: str) -> bool:
        """The call was announced, and waits for people: when it goes on, it is not announced again."""
        return call_id in self._of_children

    def close(self, answer: Answered) -> list[Approval]:
        """What the answer decides: the question that it names, and those like it where it is to be remembered."""
        approval = self.open.get(answer.id)
        if approval is None:
            return []
        closed = [approval]
        question = approval.question
        if answer.remember and question.kind == "approval" and not question.child:
            others = [one for one in self.open.values() if one.question.tool == question.tool]
            closed += [one for one in others if one is not approval and not one.question.child]
        for one in closed:
            del self.open[one.question.id]
        return closed

    def end_call(self, call_id: str) -> None:
        """The call has ended: its question needs no answer any more."""
        self.open = {question_id: one for question_id, one in self.open.items() if one.question.call_id != call_id}

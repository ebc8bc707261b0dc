"""A request → the grammar of one decode, for a model of a family.

What a caller may be promised, in the words llguidance enforces:

- an answer in JSON, or by the caller's own grammar;
- calls whose arguments follow the schema of a strict tool, wherever the model chooses to call;
- no call, when there may be none;
- a call, when one is owed: text and thought may come first, up to a number of tokens; then the call must begin, and it is
  bounded to fit in the tokens that are left. After it comes the end.

`None` where nothing is promised: free text is read as it comes. Pure text: no engine, no vocabulary; which markers are control
tokens may be told (`tokens`), as may how many tokens a literal takes (`count`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from ronda.core.plan import ANY_OBJECT, ResponseFormat, ToolChoice, ToolSpec
from ronda.errors import BadRequest, quote_names
from ronda.local.grammar import BoundedSchema, Cost, TooSmall, is_exact
from ronda.local.markup.custom import Custom, custom_of, lark_of, regex_of
from ronda.local.markup.family import Family
from ronda.local.markup.forms import form_of
from ronda.local.markup.frame import Frame
from ronda.local.markup.lark import Lark
from ronda.schema.bounds import SchemaError

_SLACK: Final = 4  # tokens: the end, and what a limit that is noticed late lets through
_LAVISH: Final = 32_768  # tokens within which little needs to be left out
_ANY: Final = {"type": "object"}


def grammar_for(
    family: Family,
    tools: Sequence[ToolSpec],
    choice: ToolChoice,
    answer_format: ResponseFormat | None,
    *,
    budget: int,
    deadline: int,
    extra: Mapping[str, Raw],
    thinking_open: bool = False,
    parallel: bool = True,
    tokens: Mapping[str, int] | None = None,
    count: Callable[[str], int] | None = None,
    tell: Callable[[str], None] | None = None,
) -> str | None:
    """The grammar, as text that begins with `%llguidance`, or None where decoding is free.

    `budget` is how many tokens there are for this answer; `deadline` how many before its end an owed call must begin.
    `thinking_open`: the prompt began a thought. `tokens` are those of the family's markers that the vocabulary holds as
    control tokens, with their numbers; without it, the usual ones by name. `tell` hears what a call that is owed cannot hold.

    Raises BadRequest, naming the tool and the place in its schema, for what cannot be enforced; and `TooSmall`, with the
    tokens that are needed, for a call that is owed and cannot be made within the budget.
    """
    custom = custom_of(extra)
    if custom is not None and answer_format is not None:
        raise BadRequest("`grammar` and `response_format` are mutually exclusive: send one of them", param="grammar")
    allowed = [] if choice.mode == "none" else [tool for tool in tools if not choice.names or tool.name in choice.names]
    lark = Lark(family.control, tokens)
    writer = _Writer(family, lark, Frame(family, lark, thinking_open=thinking_open), budget, count, tell or _ignore)
    if choice.mode == "required":
        if not allowed:
            raise BadRequest("a call is required, but there is no tool that may be called", param="tool_choice")
        return lark.write(writer.owed(allowed, deadline))
    if custom is not None or answer_format is not None:
        answer = writer.custom(custom) if custom is not None else writer.answer(answer_format)
        return lark.write(writer.frame.instead(writer.calls(allowed), answer, parallel=parallel))
    if choice.mode == "none" and tools:  # they stay in the prompt, where a small model takes them for an invitation
        return lark.write(writer.frame.never())
    is_bound = any(tool.strict for tool in allowed) or len(allowed) < len(tools)
    if not allowed or not is_bound:
        return None
    return lark.write(writer.frame.anywhere(writer.calls(allowed), parallel=parallel))


def _ignore(note: str) -> None:
    """For who does not ask."""


class _Writer:
    def __init__(
        self,
        family: Family,
        lark: Lark,
        frame: Frame,
        budget: int,
        count: Callable[[str], int] | None,
        tell: Callable[[str], None],
    ) -> None:
        self.frame = frame
        self._tell = tell
        self._lark = lark
        self._form = form_of(family)
        self._budget = budget
        self._json_cost = Cost(count)
        self._cost = Cost(count, self._form.key, self._form.quotes)

    # ---- answers -------------------------------------------------------------------------------------------------------

    def answer(self, answer_format: ResponseFormat | None) -> str:
        schema = (
            msgspec.json.decode(answer_format.schema)
            if answer_format is not None and answer_format.type == "json_schema"
            else None
        )
        if schema is None:  # any object: limits on what is not described would only be in the way
            return self._lark.json(BoundedSchema(_ANY).schema())
        return self._json(schema, "response_format")

    def custom(self, custom: Custom) -> str:
        match custom.type:
            case "json_schema":
                if not is_exact(Raw(msgspec.json.encode(custom.value))):
                    raise BadRequest(
                        "`grammar`: this schema has words that cannot be enforced to the letter (`oneOf`, `not`, `if`, …); "
                        "send it as `response_format`, where the answer is checked as well",
                        param="grammar",
                    )
                return self._json(custom.value, "grammar")
            case "regex":
                return self._lark.rule(self._lark.terminal(regex_of(custom)))
            case _:
                return self._lark.rule(f"%lark {{\n{lark_of(custom)}\n}}")

    def _json(self, schema: Any, param: str) -> str:
        """Bounded, so that it ends in time; without limits if it cannot be had within the budget anyway."""
        try:
            read = BoundedSchema(schema, self._json_cost)
            room = self._budget - _SLACK - self.frame.head_cost(self._json_cost)
            return self._lark.json(read.fit(room).schema if room >= read.needed else read.schema())
        except SchemaError as error:
            raise BadRequest(f"`{param}`: this schema cannot be enforced: {error}", param=param) from error

    # ---- calls -----------------------------------------------------------------------------------------------------------

    def calls(self, tools: Sequence[ToolSpec]) -> list[str]:
        """One branch for each tool: a strict one by its schema, the others with any object."""
        found = []
        for tool in tools:
            read = self._read(tool, tool.parameters if tool.strict else ANY_OBJECT)
            if self._form.native is None:
                arguments = self._lark.json(read.schema())
            else:
                arguments = self._arguments(tool, read, max(_LAVISH, read.needed))
            found.append(self._form.call(self._lark, tool.name, arguments))
        return found

    def owed(self, tools: Sequence[ToolSpec], deadline: int) -> str:
        """A call of one of the tools, in the tokens before the deadline's end. Those that do not fit are left out, and told."""
        ahead = max(0, self._budget - deadline)
        reserve = self._budget - ahead - self.frame.head_cost(self._cost) - _SLACK
        calls: list[str] = []
        missing: dict[str, int] = {}
        for tool in tools:
            room = reserve - self._form.cost(tool.name, self._cost)
            read = self._read(tool, tool.parameters, tell=True)
            if read.needed > room:
                missing[tool.name] = read.needed - room
            else:
                calls.append(self._form.call(self._lark, tool.name, self._arguments(tool, read, room, tell=True)))
        if calls and missing:
            self._tell(f"max_tokens leaves no room for a call of {quote_names(missing)}")
        if not calls:
            needed = min(self._budget, deadline) + min(missing.values())
            names = quote_names([tool.name for tool in tools[:5]])
            raise TooSmall(
                f"a call of {names} takes {needed} tokens at least, and max_tokens leaves {min(self._budget, deadline)}",
                needed,
            )
        return self.frame.owed(calls, ahead)

    def _read(self, tool: ToolSpec, schema: Raw, *, tell: bool = False) -> BoundedSchema:
        """The schema of a tool. One that cannot be enforced stands for any object, unless it was to be strict."""
        try:
            return BoundedSchema(msgspec.json.decode(schema), self._cost)
        except SchemaError as error:
            self._give_up(tool, error, tell=tell)
            return BoundedSchema(_ANY, self._cost)

    def _arguments(self, tool: ToolSpec, read: BoundedSchema, room: int, *, tell: bool = False) -> str:
        try:
            fitted = read.fit(room)
            arguments = self._form.arguments(self._lark, fitted.shape)
        except SchemaError as error:
            self._give_up(tool, error, tell=tell)
            return self._form.arguments(self._lark, BoundedSchema(_ANY, self._cost).fit(room).shape)
        # A tool without parameters has no use for any, though its schema admits them.
        paths = [
            path or "arguments" for path in fitted.left_out if path or b'"properties"' not in bytes(tool.parameters)
        ]
        if tell and paths:
            self._tell(f"max_tokens leaves no room for {quote_names(paths)} in a call of '{tool.name}'")
        return arguments

    def _give_up(self, tool: ToolSpec, error: SchemaError, *, tell: bool) -> None:
        if tool.strict:
            raise self._refused(tool, error) from error
        if tell:
            self._tell(f"the parameters of '{tool.name}' cannot be enforced, and any object is taken: {error}")

    def _refused(self, tool: ToolSpec, error: Exception) -> BadRequest:
        return BadRequest(f"the parameters of the strict tool '{tool.name}' cannot be enforced: {error}", param="tools")

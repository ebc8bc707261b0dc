"""Which calls may run: rules as data, kept in a run's plan. Of all rules that match a call the strictest counts.

A rule can only make a call harder. So it does not matter who adds one: an operator, an agent's file or a request. None of them
widens what another has allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ronda.core.plan import Approval, PermissionRule, Plan, ToolSpec
from ronda.core.taint import may_leak
from ronda.errors import BadConfig

_STRICTNESS: dict[Approval, int] = {"auto": 0, "ask": 1, "deny": 2}
_LONGEST = 4096  # characters of an argument that a pattern is tried on; a longer one is treated as a match


def strictest(modes: Iterable[Approval]) -> Approval:
    return max(modes, key=_STRICTNESS.__getitem__, default="auto")


def permitted_tools(plan: Plan) -> dict[str, ToolSpec]:
    """The tools of a run, each with what the rules say of all its calls. Those of the caller are the caller's business."""
    if not plan.permissions and not plan.remembered:
        return {tool.name: tool for tool in plan.tools}
    return {tool.name: permit_tool(plan, tool) for tool in plan.tools}


def permit_tool(plan: Plan, tool: ToolSpec) -> ToolSpec:
    """A tool of a run, as `permitted_tools` has it."""
    rules = [rule for rule in plan.permissions if not rule.arguments]
    return tool if tool.kind == "caller" else _under(rules, tool, plan.remembered)


def _under(rules: Sequence[PermissionRule], tool: ToolSpec, remembered: Sequence[str]) -> ToolSpec:
    mode = strictest([tool.approval, *[rule.mode for rule in rules if _is_about(rule, tool)]])
    return replace(tool, approval="auto" if mode == "ask" and tool.name in remembered else mode)


def approval_of(plan: Plan, tool: ToolSpec, arguments: str) -> Approval:
    """What becomes of one call. `tool` is as `permitted_tools` has it, or as a person has decided since."""
    if not plan.permissions:
        return tool.approval
    rules = [rule for rule in plan.permissions if rule.arguments and _is_about(rule, tool)]
    if not rules:
        return tool.approval
    try:
        values = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return strictest([tool.approval, *[rule.mode for rule in rules]])
    return strictest([tool.approval, *[rule.mode for rule in rules if _fits(rule.arguments, values)]])


def unseen_approval(rules: Iterable[PermissionRule], names: Iterable[str]) -> Approval:
    """What the rules say of calls that are made out of our sight, of a tool that goes by one of these names. Its labels and
    arguments are not known, so that a rule counts whatever it says of them."""
    names = list(names)
    return strictest([rule.mode for rule in rules if any(_is_named(rule, name) for name in names)])


def would_ask(plan: Plan) -> bool:
    """Whether the plan has calls of some tool wait for a person."""
    return any(rule.mode == "ask" for rule in plan.permissions) or any(tool.approval == "ask" for tool in plan.tools)


def may_ask(plan: Plan, tools: Mapping[str, ToolSpec]) -> bool:
    """Whether some call of the run may have to wait for a person."""
    if any(rule.mode == "ask" for rule in plan.permissions):
        return True
    return any(tool.approval == "ask" for tool in tools.values()) or (
        plan.has_labels and may_leak(tool for tool in plan.tools if not tool.is_hosted)
    )


def may_deny(plan: Plan) -> bool:
    """Whether some call of the run may be refused."""
    return any(rule.mode == "deny" for rule in plan.permissions) or any(tool.approval == "deny" for tool in plan.tools)


def approved_for_good(plan: Plan, tools: Mapping[str, ToolSpec]) -> list[str]:
    """The tools of a run that people were to be asked about, and have decided not to be any more. `tools` are as the run has
    them now."""
    first = {name: permit_tool(plan, replace(tool, approval="auto")) for name, tool in tools.items()} | permitted_tools(
        plan
    )
    return [name for name, tool in tools.items() if tool.approval == "auto" and first[name].approval == "ask"]


def _is_about(rule: PermissionRule, tool: ToolSpec) -> bool:
    if rule.labels and not set(rule.labels) & set(tool.labels):
        return False
    return _is_named(rule, tool.name)


def _is_named(rule: PermissionRule, name: str) -> bool:
    if rule.tool != "*" and not fits_name(rule.tool, name):
        return False
    return not any(fits_name(pattern, name) for pattern in rule.but)


def fits_name(pattern: str, name: str) -> bool:
    """`*` in the pattern is any text, `?` any character."""
    return re.fullmatch(_glob(pattern), name, re.DOTALL) is not None


def _glob(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")


def _fits(patterns: Mapping[str, str], values: Any) -> bool:
    """Whether every pattern is found at its place."""
    for pointer, pattern in patterns.items():
        text = _text_at(values, pointer)
        if text is None or (len(text) <= _LONGEST and re.search(pattern, text) is None):
            return False
    return True


def _text_at(values: Any, pointer: str) -> str | None:
    """What a JSON pointer (RFC 6901) points to: a text as it is, anything else as JSON; None where there is nothing."""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(values, dict) and key in values:
            values = values[key]
        elif isinstance(values, list) and re.fullmatch("[0-9]{1,9}", key) and int(key) < len(values):
            values = values[int(key)]
        else:
            return None
    return values if isinstance(values, str) else msgspec.json.encode(values).decode()


def check_rules(rules: Iterable[PermissionRule]) -> None:
    """Raises BadConfig for a rule that cannot be gone by."""
    for number, rule in enumerate(rules, 1):
        if rule.mode not in _STRICTNESS:
            raise BadConfig(f"permission {number}: 'mode' is {rule.mode!r}; it can be 'auto', 'ask' or 'deny'")
        if not rule.tool:
            raise BadConfig(f"permission {number}: 'tool' is empty; write '*' for every tool")
        for name in ("labels", "but"):
            if isinstance(text := getattr(rule, name), str):  # its letters would be taken for the names
                raise BadConfig(f"permission {number}: '{name}' is {text!r}; write {name}=({text!r},)")
        for pointer, pattern in rule.arguments.items():
            if pointer and not pointer.startswith("/"):
                raise BadConfig(f"permission {number}: {pointer!r} is no JSON pointer; write {'/' + pointer!r}")
            try:
                re.compile(pattern)
            except re.error as error:
                raise BadConfig(f"permission {number}: {pattern!r} is no regular expression: {error}") from error

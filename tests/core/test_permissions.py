"""Rules on calls: the strictest counts, whichever side adds one, and what cannot be read is treated as if it matched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.core.permissions import approval_of, check_rules, permitted_tools, strictest
from ronda.core.plan import Approval, PermissionRule, Plan, ToolSpec
from ronda.errors import BadConfig

MODES = st.sampled_from(["auto", "ask", "deny"])
RULES = st.lists(
    st.builds(
        PermissionRule,
        mode=MODES,
        tool=st.sampled_from(["*", "fetch", "fet??", "mcp_*", "other"]),
        labels=st.sampled_from([(), ("network",), ("code", "files")]),
        arguments=st.sampled_from([{}, {"/url": "example"}, {"/url": "^https://"}, {"/missing": ""}]),
    ),
    max_size=5,
)
ORDER = ["auto", "ask", "deny"]


def decide(rules: Any, tool: ToolSpec, **arguments: Any) -> Approval:
    plan = Plan("m", (tool,), permissions=tuple(rules))
    return approval_of(plan, permitted_tools(plan)[tool.name], json.dumps(arguments))


@given(rules=RULES, more=RULES, own=MODES, labels=st.sampled_from([(), ("network",), ("code",)]))
def test_another_rule_never_widens_what_was_allowed(rules: Any, more: Any, own: Approval, labels: Any) -> None:
    tool = ToolSpec("fetch", approval=own, labels=labels)
    before, after = (decide(some, tool, url="https://example.org") for some in (rules, [*rules, *more]))
    assert ORDER.index(own) <= ORDER.index(before) <= ORDER.index(after)


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        (PermissionRule("deny"), True),
        (PermissionRule("deny", tool="fetch"), True),
        (PermissionRule("deny", tool="f*h"), True),
        (PermissionRule("deny", tool="f?tch"), True),
        (PermissionRule("deny", tool="fetc"), False),
        (PermissionRule("deny", tool="f.*"), False),
        (PermissionRule("deny", labels=("network", "other")), True),
        (PermissionRule("deny", labels=("other",)), False),
        (PermissionRule("deny", arguments={"/url": "^http://"}), True),
        (PermissionRule("deny", arguments={"/url": "^https://"}), False),
        (PermissionRule("deny", arguments={"/url": "x", "/missing": ""}), False),
        (PermissionRule("deny", arguments={"/headers/0/a~1b": "secret"}), True),
        (PermissionRule("deny", arguments={"/headers/1": "secret"}), False),
        (PermissionRule("deny", arguments={"/count": "^3$"}), True),
        (PermissionRule("deny", arguments={"": "secret"}), True),
        (PermissionRule("deny", tool="fetch", labels=("other",), arguments={"/url": "x"}), False),
    ],
)
def test_what_a_rule_matches(rule: PermissionRule, matches: bool) -> None:
    tool = ToolSpec("fetch", labels=("network",))
    decided = decide([rule], tool, url="http://x", headers=[{"a/b": "a secret"}], count=3)
    assert decided == ("deny" if matches else "auto")


def test_an_argument_too_long_to_look_at_counts_as_matched() -> None:
    rule = PermissionRule("ask", arguments={"/url": "^never$"})
    assert decide([rule], ToolSpec("fetch"), url="x" * 4096) == "auto"
    assert decide([rule], ToolSpec("fetch"), url="x" * 4097) == "ask"


def test_arguments_that_cannot_be_read_count_as_matched() -> None:
    plan = Plan("m", (ToolSpec("fetch"),), permissions=(PermissionRule("deny", arguments={"/url": "^never$"}),))
    for arguments in ("{", "[" * 100_000 + "]" * 100_000):
        assert approval_of(plan, plan.tools[0], arguments) == "deny"


def test_tools_of_the_caller_are_the_callers_business() -> None:
    plan = Plan("m", (ToolSpec("mine", kind="caller"),), permissions=(PermissionRule("deny"),))
    assert permitted_tools(plan)["mine"].approval == "auto"


def test_the_strictest_of_none_is_auto() -> None:
    assert strictest([]) == "auto"
    assert strictest(["ask", "deny", "auto"]) == "deny"


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (PermissionRule("ask", tool=""), "permission 2: 'tool' is empty"),
        (PermissionRule("deny", labels="egress"), r"'labels' is 'egress'; write labels=\('egress',\)"),  # type: ignore[arg-type]  # that is the mistake
        (PermissionRule("deny", but="add"), r"'but' is 'add'; write but=\('add',\)"),  # type: ignore[arg-type]
        (PermissionRule("ask", arguments={"url": "x"}), "'url' is no JSON pointer; write '/url'"),
        (PermissionRule("ask", arguments={"/url": "("}), "is no regular expression"),
    ],
)
def test_a_rule_that_cannot_be_gone_by_is_refused(rule: PermissionRule, problem: str) -> None:
    with pytest.raises(BadConfig, match=problem):
        check_rules([PermissionRule("auto"), rule])

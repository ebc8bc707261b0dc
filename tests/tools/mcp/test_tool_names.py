"""The names under which a model is offered the tools of MCP servers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.tools.mcp.config import slug
from ronda.tools.mcp.names import distinct_names, offered_name


@pytest.mark.parametrize(
    ("prefix", "tool", "name"),
    [
        ("fs", "read_file", "fs_read_file"),
        (None, "read_file", "read_file"),
        ("fs", "read-file", "fs_read-file"),
    ],
)
def test_a_plain_name_has_its_prefix_and_no_more(prefix: str | None, tool: str, name: str) -> None:
    assert offered_name(prefix, tool) == name


@pytest.mark.parametrize(("name", "result"), [("Filesystem Tools", "filesystem_tools"), ("a.b/c", "a_b_c"), ("…", "")])
def test_a_server_s_name_becomes_a_prefix(name: str, result: str) -> None:
    assert slug(name) == result


_tools = st.tuples(st.text(max_size=3), st.none() | st.text("ab_", min_size=1, max_size=70), st.text(max_size=80))


@given(st.lists(_tools, unique_by=lambda tool: (tool[0], tool[2])))
def test_names_are_distinct_and_fit_every_vendor(tools: list[tuple[str, str | None, str]]) -> None:
    names = distinct_names(tools)
    assert len(set(names.values())) == len(tools)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name) for name in names.values())


@given(st.lists(_tools, unique_by=lambda tool: (tool[0], tool[2]), max_size=6), st.data())
def test_a_name_stays_when_other_tools_come_behind_it(
    tools: list[tuple[str, str | None, str]], data: st.DataObject
) -> None:
    fewer = tools[: data.draw(st.integers(0, len(tools)))]
    names = distinct_names(tools)
    assert distinct_names(fewer) == {(server, tool): names[server, tool] for server, _, tool in fewer}

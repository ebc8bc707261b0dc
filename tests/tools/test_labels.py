"""What tools say of themselves about data: whether it is private, whether strangers wrote it, whether they send it out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ronda import Agent, tool
from ronda.core.limits import RETRY
from ronda.core.plan import ToolSpec
from ronda.prompty.load import load
from ronda.prompty.registry import Lent
from ronda.prompty.tool_kinds import tools_of
from ronda.sandbox.policy import AllowedHosts, FullNetwork, Loopback, Network, NoNetwork, Policy
from ronda.server.features.dispatch.addresses import Addresses
from ronda.server.features.dispatch.settings import DispatchSettings
from ronda.testing import ScriptedModel
from ronda.tools.code.python import PythonTool
from ronda.tools.code.shell import ShellTool
from ronda.tools.code.workbench import Workbench
from ronda.tools.function import as_tool
from ronda.tools.mcp.read import read_config


@pytest.mark.parametrize(
    ("network", "sends"),
    [(NoNetwork(), False), (Loopback(), False), (AllowedHosts(("a.example",)), True), (FullNetwork(), True)],
)
def test_code_reads_what_is_private_and_sends_it_out_where_it_has_a_network(network: Network, sends: bool) -> None:
    workbench = Workbench(Policy(network=network), lambda context: Path("nowhere"), outside={})
    for made in (PythonTool(workbench), ShellTool(workbench)):
        assert set(made.spec.labels) == {"code", "private", *(["egress"] if sends else [])}


def test_calls_that_are_sent_to_an_address_leave() -> None:
    made = Addresses(DispatchSettings("http://127.0.0.1:1"), RETRY).tool(ToolSpec("any"))
    assert made is not None
    assert made.spec.labels == ("egress",)


def test_the_configuration_labels_the_tools_of_a_server() -> None:
    [server] = read_config(b'{"mcpServers": {"mail": {"command": "mail", "labels": ["private", "egress"]}}}', {}, "x")
    assert server.labels == ("private", "egress")


def test_an_agent_that_is_a_tool_does_what_its_tools_do() -> None:
    @tool(labels=["untrusted", "other"])
    def fetch() -> str:
        """Fetch."""
        return ""

    assert Agent(ScriptedModel(), tools=[fetch], name="a").as_tool().spec.labels == ("untrusted",)


async def test_a_file_that_is_a_tool_does_what_its_tools_do_and_those_of_the_files_below_it(tmp_path: Path) -> None:
    @tool(labels=["untrusted", "other"])
    def fetch() -> str:
        """Fetch."""
        return ""

    head = "---\nmodel: script:x.json\n{}\n---\nsystem:\nHi.\n"
    declared = "tools: [{name: fetch, kind: function}]\nagents: [middle]"
    (tmp_path / "reader.prompty").write_text(head.format(declared))
    (tmp_path / "middle.prompty").write_text(head.format("tools: [{name: low, kind: prompty, path: ./reader.prompty}]"))
    (tmp_path / "top.prompty").write_text(head.format("agents: [middle]"))
    (tmp_path / "clean.prompty").write_text(head.format("agents: [harmless]"))
    (tmp_path / "harmless.prompty").write_text(head.format("tools: [{name: other, kind: function}]"))
    (tmp_path / "x.json").write_text("[]")
    for name, labels in (("top", ("untrusted",)), ("clean", ())):
        [made] = (await tools_of(load(tmp_path / f"{name}.prompty"), Lent({"fetch": as_tool(fetch)}))).values()
        assert made.spec.labels == labels

"""Python and a shell in a `Runner`, under our names and under mistral.rs's."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.server.coding import require_isolation

from ronda import ChatCompletionRequest, Runner, mistralrs
from ronda.core.parts import ToolTurn
from ronda.errors import BadConfig
from ronda.runner import CodeExecutionConfig, ShellConfig
from ronda.sandbox.policy import Loopback, NoNetwork, Policy
from ronda.store.files import FileQuota
from ronda.testing import ScriptedModel, calls, says


@pytest.fixture(autouse=True)
def isolated() -> None:
    require_isolation(Policy())


def ask(runner: Runner, **more: Any) -> Any:
    return runner.send_chat_completion_request(ChatCompletionRequest(messages="go", **more))


def python(code: str) -> Any:
    return calls("mistralrs_execute_python", code=code)


def test_a_session_keeps_its_python_over_requests_plain_and_streamed() -> None:
    model = ScriptedModel(python("x = 41"), says("one"), python("print(x + 1)"), says("two"))
    with Runner(model, code_execution_config=CodeExecutionConfig()) as runner:
        ask(runner, enable_code_execution=True, session_id="s")
        chunks = list(ask(runner, enable_code_execution=True, session_id="s", stream=True))
    [complete] = [chunk.data for chunk in chunks if chunk.phase == "complete"]
    assert complete["stdout"] == "42\n"


def test_a_shell_and_the_files_of_its_session() -> None:
    model = ScriptedModel(
        python("open('a.txt', 'w').write('here')"), calls("mistralrs_shell", commands=["cat a.txt"]), says("done")
    )
    with Runner(model, code_execution_config=CodeExecutionConfig(), shell_config=ShellConfig()) as runner:
        answer = ask(runner, enable_code_execution=True, enable_shell=True)
    first, second = answer.agentic_tool_calls
    assert len(first.file_ids) == 1
    assert json.loads(second.result_content)["stdout"] == "here"


def test_files_go_with_their_session() -> None:
    look = python("print(open('a.txt').read())")
    model = ScriptedModel(python("open('a.txt', 'w').write('here')"), says("made"), *[look, says("seen")] * 2)
    with Runner(model, code_execution_config=CodeExecutionConfig()) as runner:
        ask(runner, enable_code_execution=True, session_id="s")
        document = runner.export_session("s")
        assert document is not None
        assert [file["name"] for file in json.loads(document)["files"]] == ["a.txt"]
        runner.import_session("moved", document)
        runner.fork_session("moved", "forked")
        for name in ("moved", "forked"):
            answer = ask(runner, enable_code_execution=True, session_id=name, session_mode="append")
            assert "here" in answer.agentic_tool_calls[0].result_content
        assert runner.delete_session("moved")
        runner.import_session("moved", '{"messages": []}')
        assert json.loads(runner.export_session("moved") or "")["files"] == []


def test_a_request_that_does_not_ask_gets_nothing_and_a_runner_that_has_nothing_warns() -> None:
    with Runner(ScriptedModel(says("done")), shell_config=ShellConfig()) as runner:
        assert ask(runner).warnings == []
    [warning] = ask(Runner(ScriptedModel(says("done"))), enable_shell=True).warnings
    assert "enable_shell" in warning


@pytest.mark.parametrize("where", ["the runner", "the request"])
def test_code_can_be_refused(where: str) -> None:
    model = ScriptedModel(python("1"), says("done"))
    code = CodeExecutionConfig(permission="deny" if where == "the runner" else None)
    with Runner(model, code_execution_config=code) as runner:
        ask(runner, enable_code_execution=True, agent_permission="deny" if where == "the request" else None)
    [*_, turn] = model.heard[-1]
    assert isinstance(turn, ToolTurn)
    assert turn.results[0].failed
    assert "not permitted" in turn.results[0].content


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("decide", "output"),
    [
        (lambda approval: True, "stdout: 1\n"),
        (lambda approval: approval.approve({"code": "print(2)"}), "stdout: 2\n"),
        (lambda approval: mistralrs.AgentToolApprovalDecision.approve(remember_for_session=True), "stdout: 1\n"),
        (lambda approval: False, "it was not approved"),
        (lambda approval: mistralrs.AgentToolApprovalDecision.deny("not today"), "not today"),
    ],
)
def test_a_callback_decides_about_a_call(stream: bool, decide: Any, output: str) -> None:
    asked: list[mistralrs.AgentToolApproval] = []

    def callback(approval: mistralrs.AgentToolApproval) -> Any:
        asked.append(approval)
        return decide(approval)

    model = ScriptedModel(python("print(1)"), says("done"))
    with Runner(model, code_execution_config=CodeExecutionConfig()) as runner:
        answer = ask(
            runner,
            enable_code_execution=True,
            agent_permission="ask",
            agent_approval_callback=callback,
            session_id="s",
            stream=stream,
        )
        if stream:
            for _ in answer:
                pass
    [approval] = asked
    assert (approval.session_id, approval.round, approval.tool.label, approval.code) == (
        "s",
        0,
        "Python code",
        "print(1)",
    )
    assert approval.tool.kind == mistralrs.AgentToolKind.CodeExecution
    [*_, turn] = model.heard[-1]
    assert isinstance(turn, ToolTurn)
    assert output.removeprefix("stdout: ").strip() in turn.results[0].content


async def decide_later(approval: mistralrs.AgentToolApproval) -> bool:
    return True


async def fail_later(approval: mistralrs.AgentToolApproval) -> bool:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("decide", "output"),
    [
        (decide_later, '"stdout":"1\\n"'),
        (fail_later, "the approval handler failed."),
        (lambda approval: approval.approve({"cod": "print(2)"}), "the approval handler failed."),
        (lambda approval: None, "the approval handler failed."),
    ],
)
def test_a_callback_may_be_async_and_one_that_fails_is_a_no(decide: Any, output: str) -> None:
    model = ScriptedModel(python("print(1)"), says("done"))
    with Runner(model, code_execution_config=CodeExecutionConfig()) as runner:
        ask(runner, enable_code_execution=True, agent_permission="ask", agent_approval_callback=decide)
    [*_, turn] = model.heard[-1]
    assert isinstance(turn, ToolTurn)
    assert output in turn.results[0].content
    assert ".." not in turn.results[0].content


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"shell_config": ShellConfig(shell_path="/nowhere/sh")},
            "--shell-path is '/nowhere/sh', and there is no such",
        ),
        ({"code_execution_config": CodeExecutionConfig(python_path="/nowhere/python")}, "--code-exec-python is"),
        ({"shell_config": ShellConfig(permission="maybe")}, "'mode' is 'maybe'; it can be 'auto', 'ask' or 'deny'"),  # type: ignore[arg-type]  # the mistake
    ],
)
def test_what_cannot_work_is_told_at_once(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadConfig, match=re.escape(problem)):
        Runner(ScriptedModel(says("done")), **settings)


def test_a_shell_may_be_named_without_its_folder() -> None:
    model = ScriptedModel(calls("mistralrs_shell", commands=["echo ${BASH_VERSION:+bash}"]), says("done"))
    with Runner(model, shell_config=ShellConfig(shell_path="bash")) as runner:
        answer = ask(runner, enable_shell=True)
    assert json.loads(answer.agentic_tool_calls[0].result_content)["stdout"] == "bash\n"


def test_a_runner_that_is_closed_leaves_no_folder_and_can_be_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(tempfile.mkdtemp(prefix="ronda-test-"))  # pytest's own is closed for the sandbox's user
    root.chmod(0o755)
    monkeypatch.setattr("tempfile.tempdir", str(root))
    try:
        model = ScriptedModel(python("x = 1"), says("one"), python("print('again')"), says("two"))
        runner = Runner(model, code_execution_config=CodeExecutionConfig())
        ask(runner, enable_code_execution=True)
        assert list(root.iterdir()) != []
        runner.close()
        assert list(root.iterdir()) == []
        answer = ask(runner, enable_code_execution=True)
        assert "again" in answer.agentic_tool_calls[0].result_content
        runner.close()
        assert list(root.iterdir()) == []
    finally:
        shutil.rmtree(root)


def test_a_runner_that_makes_many_files_keeps_the_newest() -> None:
    make = python("open('a.txt', 'w').write('made')")
    with Runner(ScriptedModel(*[make, says("done")] * 3), code_execution_config=CodeExecutionConfig()) as runner:
        files = runner._server.files
        files.limits = msgspec.structs.replace(files.limits, quota=FileQuota(files=2))
        made = [ask(runner, enable_code_execution=True).files[0] for _ in range(3)]
        assert [file.text for file in made] == ["made"] * 3
        assert [runner.find_file(file.id) is not None for file in made] == [False, True, True]


def test_a_long_result_is_as_long_as_the_runner_says() -> None:
    def report() -> str:
        """Write a report."""
        return "x" * 5000

    shown = []
    for most in (1000, None):
        model = ScriptedModel(calls("report"), says("done"))
        answer = ask(Runner(model, tools=[report], max_result_chars=most))
        shown.append(len(answer.agentic_tool_calls[0].result_content))
    assert (shown[0] < 1500, shown[1]) == (True, 5000)


def test_the_callback_of_the_configuration_gets_a_dictionary() -> None:
    asked: list[dict[str, Any]] = []
    model = ScriptedModel(python("1"), says("done"))

    def callback(told: dict[str, Any]) -> bool:
        asked.append(told)
        return True

    code = CodeExecutionConfig(permission="ask", approval_callback=callback)
    with Runner(model, code_execution_config=code) as runner:
        ask(runner, enable_code_execution=True)
    assert (asked[0]["code"], asked[0]["tool"]["kind"]) == ("1", "code_execution")


def test_both_share_a_policy() -> None:
    small, large = Policy(max_memory_mb=128), Policy(max_memory_mb=256)
    with pytest.raises(BadConfig, match="share a sandbox"):
        Runner(
            ScriptedModel(),
            code_execution_config=CodeExecutionConfig(sandbox_policy=small),
            shell_config=ShellConfig(sandbox_policy=large),
        )


def test_a_program_for_mistralrs_runs_code(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    code = (
        "import socket\ntry: socket.create_connection(('127.0.0.1', 9))\nexcept OSError as e: print(type(e).__name__)"
    )
    call = {"name": "mistralrs_execute_python", "arguments": {"code": code}}
    script.write_text(json.dumps([{"calls": [call]}, "It is 42."]))
    policy = mistralrs.SandboxPolicy(
        max_memory_mb=1024, max_cpu_secs=120, max_procs=32, network=mistralrs.NetworkMode.NoNetwork
    )
    runner = mistralrs.Runner(
        which=mistralrs.Which.Plain(model_id=f"script:{script}"),
        code_execution_config=mistralrs.CodeExecutionConfig(sandbox_policy=policy),
    )
    answer = runner.send_chat_completion_request(
        mistralrs.ChatCompletionRequest(
            model="default",
            messages=[{"role": "user", "content": "Compute 6 * 7 with Python."}],
            enable_code_execution=True,
            max_tool_rounds=4,
            agent_permission=mistralrs.AgentPermission.Auto,
        )
    )
    assert answer.choices[0].message.content == "It is 42."
    assert answer.agentic_tool_calls[0].result_content == "stdout: PermissionError\n"
    runner.close()


def test_the_originals_policy_is_ours() -> None:
    assert mistralrs.SandboxPolicy(max_procs=7, extra_env=["A=1"]).as_ours() == Policy(
        network=Loopback(), max_cpu_secs=300, max_procs=7, extra_env=("A=1",)
    )
    none = mistralrs.CodeExecutionConfig().as_ours()
    assert (none.sandbox_policy, Policy().network) == (None, NoNetwork())

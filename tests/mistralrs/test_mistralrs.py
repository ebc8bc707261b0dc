"""`ronda.mistralrs`: programs written for mistral.rs's Python module run after changing one import."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.timeouts import TIMEOUT
from tests.tools.mcp.serving import TINY
from tests.weather import WEATHER, program

import ronda
from ronda.core.parts import AssistantTurn, ToolCall, ToolResult, ToolTurn, user
from ronda.errors import BadConfig, BadRequest
from ronda.local.files import default_path
from ronda.mistralrs import (
    ApproximateUserLocation,
    Architecture,
    ChatCompletionRequest,
    McpClientConfigPy,
    McpServerConfigPy,
    McpServerSourcePy,
    Runner,
    SearchContextSize,
    ToolChoice,
    WebSearchOptions,
    WebSearchUserLocation,
    Which,
)
from ronda.mistralrs.request import repair_messages
from ronda.mistralrs.which import WhichModel
from ronda.wire.openai_chat.messages import read_messages

EXAMPLE = program(
    imports="from ronda.mistralrs import ChatCompletionRequest, Runner, ToolChoice, Which",
    runner='Runner(which=Which.Plain(model_id="Qwen/Qwen3-4B"), in_situ_quant="4")',
)


@pytest.mark.skipif(default_path() is None, reason="the local model is not installed: make setup gets it")
@pytest.mark.xdist_group("local")
def test_the_example_runs_with_a_model_of_that_name(tmp_path: Path) -> None:
    folder = tmp_path / ".local/share/ronda/models"
    folder.mkdir(parents=True)
    model = default_path()
    assert model is not None
    (folder / "Qwen3-4B-Q4_K_M.gguf").symlink_to(model)

    done = subprocess.run(
        [sys.executable, "-c", EXAMPLE],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "None" or "get_weather" in done.stdout  # a small model may say what it thinks instead
    assert "UserWarning: Ronda has no use for in_situ_quant" in done.stderr


def test_a_model_that_is_not_here_says_which_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    which: list[WhichModel] = [
        Which.Plain(model_id="Qwen/Qwen3-4B", arch=Architecture.Qwen3),
        Which.GGUF(tok_model_id="a", quantized_model_id="a/b", quantized_filename="Qwen3-4B.Q4_K_M.gguf"),
    ]
    for one in which:
        with pytest.raises(BadConfig) as caught:
            Runner(which=one)
        assert "Qwen3-4B" in str(caught.value)
        assert "on this machine; there is local:smollm2. Ronda downloads no models" in str(caught.value)


def test_a_file_or_a_name_finds_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".local/share/ronda/models"
    folder.mkdir(parents=True)
    for name in ("qwen3-4b-q4_k_m.gguf", "Llama-3.1-8B.gguf", "Llama-3.1-70B.gguf"):
        (folder / name).write_bytes(b"GGUF")
    file = folder / "qwen3-4b-q4_k_m.gguf"

    assert Which.Plain("Qwen/Qwen3-4B").spec() == f"local:{file}"
    assert Which.VisionPlain(model_id=str(file)).spec() == f"local:{file}"
    assert Which.GGUF(quantized_model_id=str(folder), quantized_filename=file.name).spec() == f"local:{file}"
    assert Which.GGUF(quantized_model_id="Qwen/GGUF", quantized_filename=file.name).spec() == f"local:{file}"
    assert Which.Plain("openai-chat:qwen3").spec() == "openai-chat:qwen3"
    with pytest.raises(BadConfig, match=r"'meta/Llama-3.1' may be one of local:Llama-3.1-70B, local:Llama-3.1-8B"):
        Which.Plain("meta/Llama-3.1").spec()
    with pytest.raises(BadConfig, match=r"the model 'Qwen/Qwen3-4' is not on this machine"):
        Which.Plain("Qwen/Qwen3-4").spec()
    with pytest.raises(BadConfig, match=r"^Ronda loads no adapters"):
        Which.Lora(adapters_model_id="a", order="b")


# ---- requests ----------------------------------------------------------------------------------------------------------


def runner(tmp_path: Path, *turns: Any, **more: Any) -> Runner:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(turns))
    return Runner(which=Which.Plain(model_id=f"script:{script}"), **more)


CALL = {"calls": [{"name": "get_weather", "arguments": {"city": "Tokyo"}, "id": "c1"}]}


def ask(made: Runner, **fields: Any) -> Any:
    request = ChatCompletionRequest(model="any-name", messages=[{"role": "user", "content": "hi"}], **fields)
    return made.send_chat_completion_request(request)


def test_calls_are_handed_over_or_run_by_a_callback(tmp_path: Path) -> None:
    answer = ask(runner(tmp_path, CALL), tool_schemas=[WEATHER], tool_choice=ToolChoice.Auto)
    [call] = answer.choices[0].message.tool_calls
    assert (call.tp, call.id, call.index, call.function.name) == ("function", "c1", 0, "get_weather")
    assert call.function.arguments == '{"city":"Tokyo"}'

    def local(tool: str, args: dict[str, Any]) -> str:
        return f"{tool} {args['city']}"

    made = runner(tmp_path, CALL, "Sunny.", tool_callbacks={"get_weather": local})
    answer = ask(made, tool_schemas=[WEATHER], max_tool_rounds=5)
    assert answer.choices[0].message.content == "Sunny."
    assert [record.result_content for record in answer.agentic_tool_calls] == ["get_weather Tokyo"]


def test_a_stream_has_text_in_every_chunk_and_no_news_of_tools(tmp_path: Path) -> None:
    made = runner(tmp_path, CALL, "It is sunny.", tool_callbacks={"get_weather": lambda name, args: "sun"})
    chunks = list(ask(made, tool_schemas=[WEATHER], stream=True))
    assert "".join(chunk.choices[0].delta.content for chunk in chunks) == "It is sunny."
    assert all(chunk.type is None for chunk in chunks)


def test_a_choice_is_the_package_s() -> None:
    assert ToolChoice is ronda.ToolChoice


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("adapter", "a", "adapter: Ronda loads no adapters"),
        ("grammar", "[0-9]+", "a grammar needs its grammar_type: 'regex', 'lark', 'json_schema' or 'llguidance'"),
    ],
)
def test_what_ronda_cannot_do_is_refused_by_name(tmp_path: Path, field: str, value: Any, said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        ask(runner(tmp_path, "hi"), **{field: value})
    assert str(caught.value) == said


def test_arguments_about_loading_are_taken_with_a_warning_and_others_refused(tmp_path: Path) -> None:
    with pytest.warns(
        UserWarning, match="Ronda has no use for in_situ_quant, max_seqs: a local model is loaded as its"
    ):
        runner(tmp_path, "hi", in_situ_quant="4", max_seqs=32, no_kv_cache=False)
    with pytest.raises(BadConfig, match=r"shell_config is {}; write ShellConfig\(…\)"):
        runner(tmp_path, "hi", shell_config={})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner(tmp_path, "hi", enable_search=False, mcp_client_config=None)


def test_a_model_calls_the_tools_of_mcp_servers(tmp_path: Path) -> None:
    source = McpServerSourcePy.Process(sys.executable, [TINY], None, None)
    servers = [McpServerConfigPy(id="1", name="Tiny Tools", source=source)]
    config = McpClientConfigPy(servers)
    answer = ask(runner(tmp_path, {"calls": [{"name": "pid", "arguments": {}}]}, "done", mcp_client_config=config))
    assert answer.choices[0].message.content == "done"
    assert [(call.name, call.failed) for call in answer.agentic_tool_calls] == [("pid", False)]
    broken = McpServerConfigPy("1", "x", McpServerSourcePy.Http("nowhere", None, None))
    with pytest.raises(BadConfig, match=r"mcp_client_config: servers\[0\]\.source needs a 'url'"):
        runner(tmp_path, "hi", mcp_client_config=McpClientConfigPy([broken]))


def test_a_server_may_leave_out_what_the_original_s_examples_leave_out(tmp_path: Path) -> None:
    http = McpServerConfigPy(name="far", source=McpServerSourcePy.Http(url="https://mcp.example/mcp"), enabled=False)
    tiny = McpServerConfigPy(name="Tiny Tools", source=McpServerSourcePy.Process(sys.executable, [TINY]))
    config = McpClientConfigPy(servers=[tiny, http])
    made = runner(tmp_path, {"calls": [{"name": "pid", "arguments": {}}]}, "done", mcp_client_config=config)

    async def program() -> Any:
        request = ChatCompletionRequest(model="default", messages="hi", tool_choice="auto")  # type: ignore[arg-type]
        return await made.send_chat_completion_request(request)  # an answer that is there, awaited anyway

    answer = asyncio.run(program())
    assert answer.choices[0].message.content == "done"
    assert [call.name for call in answer.agentic_tool_calls] == ["pid"]
    nowhere = McpClientConfigPy([McpServerConfigPy(name="x")])
    with pytest.raises(BadConfig, match=r"mcp_client_config: servers\[0\]\.source\.type is None; it must be 'Process'"):
        runner(tmp_path, "hi", mcp_client_config=nowhere)


def test_a_result_without_an_id_is_paired_with_its_call() -> None:
    history = [
        {"role": "user", "content": "Add 2 and 3."},
        {"role": "assistant", "content": '{"name": "add", "parameters": {"a": 2, "b": 3}}'},
        {"role": "tool", "content": "5"},
    ]
    assert read_messages({"messages": json_of(repair_messages(history))}) == (
        user("Add 2 and 3."),
        AssistantTurn((ToolCall("call_1", "add", '{"a":2,"b":3}'),), "tool_calls"),
        ToolTurn((ToolResult("call_1", "5"),)),
    )
    lone = [{"role": "assistant", "content": "I add."}, {"role": "tool", "content": "5"}]
    assert repair_messages(lone)[1] == {"role": "user", "content": "5"}
    paired: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"id": "x"}]},
        {"role": "tool", "content": "5", "tool_call_id": "x"},
    ]
    assert repair_messages(paired) == paired


def json_of(value: Any) -> Any:
    import msgspec

    return msgspec.Raw(msgspec.json.encode(value))


def test_the_package_itself_does_not_load_it() -> None:
    code = "import ronda, sys; ronda.Agent; print('ronda.mistralrs' in sys.modules, 'ronda.mistralrs.runner' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"


# ---- search ------------------------------------------------------------------------------------------------------------

SEARCHES = {"calls": [{"name": "mistralrs_search_the_web", "arguments": {"query": "Cargo.toml"}}]}


def find(query: str) -> list[dict[str, str]]:
    return [{"title": query, "description": "a file", "url": f"./{query}", "content": "[package]"}]


def test_a_request_that_asks_for_it_searches_with_the_callback(tmp_path: Path) -> None:
    made = runner(tmp_path, SEARCHES, "It is ./Cargo.toml [1].", enable_search=True, search_callback=find)
    options = WebSearchOptions(
        search_context_size=SearchContextSize.Low,
        user_location=WebSearchUserLocation.approximate(
            ApproximateUserLocation("Porto", "PT", "Norte", "Europe/Lisbon")
        ),
        search_description="Local filesystem search",
    )

    answer = ask(made, web_search_options=options, max_tokens=64)

    assert answer.choices[0].message.content == "It is ./Cargo.toml [1]."
    assert [record.result_content for record in answer.agentic_tool_calls] == ["1 results"]
    places = [one["url_citation"] for one in answer.choices[0].message.annotations]
    assert [(one["url"], one["start_index"]) for one in places] == [("./Cargo.toml", 6), ("./Cargo.toml", 19)]


def test_a_request_that_does_not_ask_for_it_cannot_search(tmp_path: Path) -> None:
    made = runner(tmp_path, SEARCHES, "No.", enable_search=True, search_callback=find)

    answer = ask(made)

    assert [record.result_content for record in answer.agentic_tool_calls] == []


def test_without_the_switch_there_is_no_search(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="--enable-search switches it on"):
        ask(runner(tmp_path, "hi"), web_search_options=WebSearchOptions())
    with pytest.raises(BadConfig, match="search_callback has no use without"):
        runner(tmp_path, "hi", search_callback=find)


def test_a_search_that_fails_is_news_for_the_model(tmp_path: Path) -> None:
    def fail(query: str) -> list[dict[str, str]]:
        raise OSError("the disk is gone")

    made = runner(tmp_path, SEARCHES, "I could not.", enable_search=True, search_callback=fail)

    answer = ask(made, web_search_options={})

    [record] = answer.agentic_tool_calls
    assert record.failed
    assert answer.choices[0].message.content == "I could not."


def test_sessions_are_there_under_the_originals_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[["One."], ["Two."]]')
    runner = Runner(which=Which.Plain(model_id=f"script:{script}"))
    for text in ("First?", "Second?"):
        request = ChatCompletionRequest(
            model="default", messages=[{"role": "user", "content": text}], session_id="user-42"
        )
        answer = runner.send_chat_completion_request(request)
    assert (answer.choices[0].message.content, answer.session_id) == ("Two.", "user-42")
    assert runner.list_session_ids() == ["user-42"]
    document = runner.export_session("user-42", model_id=None)
    assert document is not None
    runner.import_session("copy", document)
    runner.fork_session("copy", "short", 1)
    assert [len(json.loads(runner.export_session(name) or "")["messages"]) for name in ("copy", "short")] == [4, 2]
    assert (runner.delete_session("copy"), runner.delete_session("copy"), runner.export_session("copy")) == (
        True,
        False,
        None,
    )

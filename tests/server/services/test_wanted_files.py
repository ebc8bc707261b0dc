"""Files that a request wants, and files that code made: told about once, cited by answers, and to be had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from mistralai.client import Mistral
from tests.interaction.doors import TIMEOUT, Door, Json, soon
from tests.server.coding import post, serving, stream
from tests.server.coding import root as root

from ronda.testing import ScriptedModel, calls, says

HI = [{"role": "user", "content": "go"}]
WANTED = [{"name": "a.csv", "format": "csv"}, {"name": "report", "format": "md", "description": "What was found."}]
CHAT: Json = {"messages": HI, "enable_code_execution": True, "files": WANTED}
MESSAGES: Json = {
    "messages": HI, "max_tokens": 99, "files": WANTED,
    "tools": [{"type": "code_execution_20250522", "name": "code_execution"}],
}  # fmt: skip
RESPONSES: Json = {
    "input": "go",
    "files": WANTED,
    "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
}


def python(code: str) -> Any:
    return calls("mistralrs_execute_python", code=code)


MAKE = python("open('a.csv', 'w').write('x'); open('report', 'w').write('# R')")


async def test_the_model_is_told_what_is_wanted(door: Door, root: Path) -> None:
    model = ScriptedModel(says("done"))
    async with serving(door, model, root):
        await post(door, "chat/completions", CHAT)
    [tool] = [tool for tool in model.requests[0].tools if tool.name == "mistralrs_execute_python"]
    assert tool.description.endswith("- a.csv (csv)\n- report (md): What was found.")


@pytest.mark.parametrize(("path", "body"), [("chat/completions", CHAT), ("messages", MESSAGES)])
async def test_a_wanted_file_is_listed_as_it_is_in_the_end(door: Door, root: Path, path: str, body: Json) -> None:
    """Not after each call that has not made it: a client that downloads what is listed would fail."""
    model = ScriptedModel(python("1"), MAKE, python("2"), says("done"))
    async with serving(door, model, root):
        status, answer = await post(door, path, body)
    assert status == 200, answer
    assert [(file["name"], file["format"], file.get("text")) for file in answer["files"]] == [
        ("a.csv", "csv", "x"), ("report", "md", "# R"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "body"), [("chat/completions", CHAT), ("messages", MESSAGES), ("responses", RESPONSES)]
)
async def test_a_file_that_was_not_made_is_told_of_once(door: Door, root: Path, path: str, body: Json) -> None:
    lines = python("open('a.csv', 'w').write('x')"), python("1"), says("done")
    model = ScriptedModel(*lines)
    async with serving(door, model, root):
        events = await stream(door, path, body)
        made = [event for name, event in events if name == "file_produced"]
        assert [(file["name"], file.get("code")) for file in made] == [("a.csv", None), ("report", "not_produced")]
        ScriptedModel.__init__(model, *lines)
        _, answer = await post(door, path, body)
        if path != "responses":
            assert [(file["name"], file.get("code")) for file in answer["files"]] == [
                ("a.csv", None), ("report", "not_produced"),
            ]  # fmt: skip
        async with door.http.get(f"{door.url}/files/{made[1]['id']}/content") as content:
            assert (content.status, (await content.json())["error"]["code"]) == (422, "not_produced")


async def test_nothing_is_missed_where_no_code_ran(door: Door, root: Path) -> None:
    async with serving(door, ScriptedModel(says("done")), root):
        _, answer = await post(door, "chat/completions", CHAT)
    assert "files" not in answer


@pytest.mark.parametrize("name", ["", "../a", "/etc/passwd", "a/../../b", "a\0b"])
async def test_a_name_that_leads_out_is_refused(door: Door, root: Path, name: str) -> None:
    async with serving(door, ScriptedModel(), root):
        status, answer = await post(door, "chat/completions", {**CHAT, "files": [{"name": name}]})
    assert (status, answer["error"]["param"]) == (400, "files[0].name")


@pytest.mark.parametrize("streamed", [False, True])
async def test_openais_client_finds_a_cited_file(door: Door, root: Path, streamed: bool) -> None:
    model = ScriptedModel(MAKE, says("I wrote a.csv for you."))
    async with serving(door, model, root):
        client = door.client("test")
        tools: Any = [{"type": "code_interpreter", "container": {"type": "auto"}}]
        answer: openai.types.responses.Response
        if streamed:
            async with client.responses.stream(model="default", input="go", tools=tools) as events:
                added = [event async for event in events if event.type == "response.output_text.annotation.added"]
                answer = await events.get_final_response()
            assert len(added) == 2
        else:
            answer = await client.responses.create(model="default", input="go", tools=tools)
        message: Any = answer.output[-1]
        part = message.content[0]
        cited = part.annotations[0]
        assert isinstance(cited, openai.types.responses.response_output_text.AnnotationContainerFileCitation)
        assert part.text[cited.start_index : cited.end_index] == cited.filename == "a.csv"
        assert (await client.files.content(cited.file_id)).content == b"x"
        code = next(item for item in answer.output if item.type == "code_interpreter_call")
        assert cited.container_id == code.container_id


async def test_mistrals_client_finds_a_file_in_the_answer(door: Door, root: Path) -> None:
    model = ScriptedModel(MAKE, says("Here it is."))
    async with serving(door, model, root):
        url = door.url.removesuffix("/v1")
        async with soon(), Mistral(api_key="test", server_url=url, timeout_ms=10_000) as client:
            tools: Any = [{"type": "code_interpreter"}]
            started = await client.beta.conversations.start_async(model="default", inputs="go", tools=tools)
            content: Any = started.outputs[-1]
            text, first, _ = content.content
            assert (text.text, first.type, first.file_name, first.tool) == (
                "Here it is.", "tool_file", "a.csv", "code_interpreter",
            )  # fmt: skip
            download = await client.files.download_async(file_id=first.file_id)
            assert await download.aread() == b"x"


async def test_anthropics_client_uploads_a_file_and_downloads_what_was_made_of_it(door: Door, root: Path) -> None:
    model = ScriptedModel(
        calls("mistralrs_shell", commands=["tr a-z A-Z < notes.txt > loud.txt"]),
        python("open('more.txt', 'w').write(open('loud.txt').read() * 2)"),
        says("done"),
    )
    url = door.url.removesuffix("/v1")
    async with (
        serving(door, model, root),
        anthropic.AsyncAnthropic(base_url=url, api_key="test", max_retries=0, timeout=TIMEOUT) as client,
    ):
        sent = await client.beta.files.upload(file=("notes.txt", b"words"))
        content: Any = [{"type": "container_upload", "file_id": sent.id}, {"type": "text", "text": "Louder."}]
        tools: Any = [{"type": "code_execution_20250825", "name": "code_execution"}]
        answer: Any = await client.messages.create(
            model="default", max_tokens=99, messages=[{"role": "user", "content": content}], tools=tools
        )
        made = [
            output.file_id
            for block in answer.content
            if block.type.endswith("tool_result")
            for output in block.content.content
        ]
        read = [await (await client.beta.files.download(file_id)).read() for file_id in made]
        assert read == [b"WORDS", b"WORDSWORDS"]
        listed = [file.filename async for file in client.beta.files.list()]
        assert listed == ["notes.txt", "loud.txt", "more.txt"]

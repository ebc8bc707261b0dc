"""Files that a request brings, at every door: shown to the model, read with tools, and there for code."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.interaction.doors import Door, Json
from tests.interaction.upstreams import Upstream, completes
from tests.server.coding import post, serving
from tests.server.coding import root as root

from ronda.core.parts import SystemTurn, ToolTurn
from ronda.testing import ScriptedModel, calls, says

CSV = "city,sales\nParis,7\n"


async def upload(door: Door, name: str, data: bytes, owner: str = "") -> str:
    form = aiohttp.FormData({"purpose": "user_data"}, quote_fields=False)
    form.add_field("file", data, filename=name)
    headers = {"authorization": f"Bearer {owner}"} if owner else {}
    async with door.http.post(f"{door.url}/files", data=form, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return str((await answer.json())["id"])


def data_url(data: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def asking(door: str, part: Json, **more: Any) -> tuple[str, Json]:
    """A question with a file, in a dialect's own words."""
    words = {"responses": "input_text"}.get(door, "text")
    message = {"role": "user", "content": [part, {"type": words, "text": "What is in it?"}]}
    match door:
        case "responses":
            return door, {"input": [message], **more}
        case "messages":
            return door, {"messages": [message], "max_tokens": 99, **more}
        case "conversations":
            return door, {"model": "default", "inputs": [message], **more}
        case "agents/completions":
            return door, {"agent_id": "default", "messages": [message], **more}
        case _:
            return door, {"messages": [message], **more}


def by_id(door: str, id: str) -> Json:
    parts: dict[str, Json] = {
        "chat/completions": {"type": "file", "file": {"file_id": id}},
        "responses": {"type": "input_file", "file_id": id},
        "messages": {"type": "document", "source": {"type": "file", "file_id": id}},
        "conversations": {"type": "file", "file_id": id},
        "agents/completions": {"type": "file", "file_id": id},
    }
    return parts[door]


DOORS = ["chat/completions", "responses", "messages", "conversations", "agents/completions"]


def told(model: ScriptedModel) -> str:
    first = model.heard[0][0]
    assert isinstance(first, SystemTurn)
    return first.text


def results(model: ScriptedModel) -> list[str]:
    return [result.content for turn in model.heard[-1] if isinstance(turn, ToolTurn) for result in turn.results]


@pytest.mark.parametrize("name", DOORS)
async def test_a_model_is_shown_the_beginning_of_a_file_and_reads_the_rest(door: Door, name: str) -> None:
    model = ScriptedModel()
    async with door.serving(model):
        file_id = await upload(door, "sales.csv", CSV.encode())
        ScriptedModel.__init__(model, calls("mistralrs_read_file", file_id=file_id, start=5, end=10), says("7"))
        status, answer = await post(door, *asking(name, by_id(name, file_id)))
    assert status == 200, answer
    assert file_id in told(model)
    assert "sales.csv" in told(model)
    assert CSV in told(model)
    [read] = results(model)
    assert json.loads(read) == {
        "file_id": file_id, "name": "sales.csv", "format": "csv", "start": 5, "end": 10, "total_chars": 19,
        "max_slice_chars": 65536, "text": "sales",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["chat/completions", "responses", "conversations"])
async def test_a_file_that_comes_along_is_read_like_one_that_is_kept(door: Door, name: str) -> None:
    long = "0123456789" * 1000
    url = data_url(long.encode(), "text/plain")
    parts: dict[str, Json] = {
        "chat/completions": {"type": "file", "file": {"filename": "long.txt", "file_data": url}},
        "responses": {"type": "input_file", "filename": "long.txt", "file_data": url},
        "conversations": {"type": "document_url", "document_url": url, "document_name": "long.txt"},
    }
    part = parts[name]
    model = ScriptedModel(calls("mistralrs_list_files"), says("done"))
    async with door.serving(model):
        status, answer = await post(door, *asking(name, part))
        assert status == 200, answer
        [file] = json.loads(results(model)[0])["files"]
        assert (file["name"], file["format"], file["bytes"], file["source"]) == (
            "long.txt", "txt", 10_000, "input_file",
        )  # fmt: skip
        assert long[:4096] in told(model)
        assert long[:4097] not in told(model)
        assert "start=4096" in told(model)
        ScriptedModel.__init__(model, calls("mistralrs_read_file", file_id=file["id"], start=9_990), says("done"))
        await post(door, *asking(name, part))
    assert json.loads(results(model)[0])["text"] == "0123456789"


async def test_previews_of_many_files_have_one_budget(door: Door) -> None:
    parts = [
        {"type": "input_file", "filename": f"{n}.txt", "file_data": data_url(str(n).encode() * 5000, "text/plain")}
        for n in range(10)
    ]
    model = ScriptedModel(says("done"))
    async with door.serving(model):
        await post(door, "responses", {"input": [{"role": "user", "content": parts}]})
    shown = [told(model).count(str(n) * 4096) for n in range(10)]
    assert shown == [1] * 8 + [0] * 2


@pytest.mark.parametrize("name", DOORS)
async def test_a_file_that_is_not_there_is_told_by_its_id(door: Door, name: str) -> None:
    async with door.serving(ScriptedModel()):
        status, answer = await post(door, *asking(name, by_id(name, "file-gone")))
    assert status == 400
    assert "Input file `file-gone` was not found." in json.dumps(answer)


async def test_nobody_reads_a_file_of_somebody_else(door: Door) -> None:
    model = ScriptedModel()
    async with door.serving(model):
        theirs = await upload(door, "secret.txt", b"secret", owner="bob")
        status, answer = await post(door, *asking("responses", by_id("responses", theirs)))
        assert (status, answer["error"]["message"]) == (400, f"Input file `{theirs}` was not found.")
        mine = await upload(door, "a.txt", b"mine")
        other = await upload(door, "b.txt", b"of no session")
        lines = [calls("mistralrs_read_file", file_id=file_id) for file_id in (theirs, other, mine)]
        ScriptedModel.__init__(model, *lines, says("done"))
        await post(door, *asking("responses", by_id("responses", mine)))
    first, second, third = [json.loads(one) for one in results(model)]
    assert "there is no file with the id" in first["error"]
    assert "there is no file with the id" in second["error"]
    assert third["text"] == "mine"


async def test_code_finds_the_files_under_clean_names(door: Door, root: Path) -> None:
    model = ScriptedModel()
    async with serving(door, model, root):
        kept = await upload(door, "my sales.csv", CSV.encode())
        again = await upload(door, "my sales.csv", b"other")
        read = "print(open('my_sales.csv').read(), open('my_sales-2.csv').read(), open('n.json').read())"
        ScriptedModel.__init__(
            model, calls("mistralrs_execute_python", code=read), calls("mistralrs_shell", commands=["ls"]), says("done")
        )
        parts = [by_id("responses", kept), by_id("responses", again)]
        parts.append({"type": "input_file", "filename": "n.json", "file_data": data_url(b"{}", "application/json")})
        tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
        tools.append({"type": "shell", "environment": {"type": "container_auto"}})
        status, answer = await post(door, "responses", {"input": [{"role": "user", "content": parts}], "tools": tools})
    assert status == 200, answer
    assert "my sales.csv -> ./my_sales.csv" in told(model)
    python, shell = results(model)
    assert json.loads(python)["stdout"] == f"{CSV} other {{}}\n"
    assert json.loads(shell)["stdout"] == "my_sales-2.csv\nmy_sales.csv\nn.json\n"


@pytest.mark.parametrize("tool", ["code_interpreter", "shell"])
async def test_a_container_is_given_files_that_no_message_shows(door: Door, root: Path, tool: str) -> None:
    model = ScriptedModel()
    async with serving(door, model, root):
        file_id = await upload(door, "a.txt", b"inside")
        auto = {"file_ids": [file_id]}
        place = (
            {"container": {"type": "auto", **auto}}
            if tool == "code_interpreter"
            else {"environment": {"type": "container_auto", **auto}}
        )
        call = (
            calls("mistralrs_execute_python", code="print(open('a.txt').read())")
            if tool == "code_interpreter"
            else calls("mistralrs_shell", commands=["cat a.txt"])
        )
        ScriptedModel.__init__(model, call, says("done"))
        status, answer = await post(door, "responses", {"input": "go", "tools": [{"type": tool, **place}]})
    assert status == 200, answer
    assert file_id in told(model)
    assert json.loads(results(model)[0])["stdout"].strip() == "inside"


async def test_a_session_goes_on_with_the_files_of_its_first_request(door: Door, root: Path) -> None:
    model = ScriptedModel()
    async with serving(door, model, root):
        session_id = await upload(door, "a.txt", b"text")
        read = calls("mistralrs_read_file", file_id=session_id)
        look = calls("mistralrs_execute_python", code="print(open('a.txt').read())")
        ScriptedModel.__init__(model, says("one"), read, look, says("two"))
        more = {"session_id": "s", "enable_code_execution": True}
        await post(door, *asking("chat/completions", by_id("chat/completions", session_id), **more))
        status, answer = await post(
            door, "chat/completions", {"messages": [{"role": "user", "content": "And now?"}], **more}
        )
    assert status == 200, answer
    first, second = results(model)
    assert json.loads(first)["text"] == "text"
    assert json.loads(second)["stdout"] == "text\n"


async def test_a_model_whose_api_takes_a_file_gets_it_as_it_is(door: Door) -> None:
    pdf = b"%PDF-1.4 nearly"
    async with Upstream(completes("Short.")) as upstream, door.serving(upstream.url):
        file_id = await upload(door, "a.pdf", pdf)
        status, answer = await post(door, *asking("chat/completions", by_id("chat/completions", file_id)))
    assert status == 200, answer
    [request] = upstream.requests
    assert "tools" not in request
    assert request["messages"][0]["content"][0] == {
        "type": "file",
        "file": {"filename": "a.pdf", "file_data": data_url(pdf, "application/pdf")},
    }


async def test_a_picture_that_is_kept_is_shown(door: Door) -> None:
    async with Upstream(completes("A dot."), completes("A dot.")) as upstream, door.serving(upstream.url):
        file_id = await upload(door, "dot.png", b"PNG")
        part = {"type": "image", "source": {"type": "file", "file_id": file_id}}
        status, answer = await post(door, *asking("messages", part))
        assert status == 200, answer
        status, answer = await post(door, *asking("responses", {"type": "input_image", "file_id": file_id}))
    assert status == 200, answer
    for request in upstream.requests:
        assert request["messages"][0]["content"][0] == {
            "type": "image_url",
            "image_url": {"url": data_url(b"PNG", "image/png")},
        }

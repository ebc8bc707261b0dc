"""Programs that were written for mistral.rs's server: file inputs, skills of both APIs, hosted tools, agentic rounds.

Each does what the example of its name does: the same requests in the same order, with the same headers, read in the same way.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import openai
from tests.interaction.doors import TIMEOUT, Door
from tests.server.coding import root as root
from tests.server.coding import serving
from tests.server.services.test_input_files import told

from ronda.testing import ScriptedModel, calls, says

CHECK = b"""import sys
rows = open(sys.argv[1]).read().split()
open(sys.argv[2], "w").write(f"{len(rows)} rows")
print("checked")
"""
COMMAND = "python3 skills/invoice-auditor/check_invoice.py skills/invoice-auditor/invoice.csv audit.txt"


def skill_zip() -> bytes:
    """Files alone, in any order, as the examples pack them."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("invoice-auditor/invoice.csv", "total\n7\n")
        archive.writestr("invoice-auditor/check_invoice.py", CHECK)
        archive.writestr(
            "invoice-auditor/SKILL.md",
            "---\nname: invoice-auditor\ndescription: Audits invoices.\n---\nRun the check.\n",
        )
    return packed.getvalue()


def call(url: str, path: str, data: bytes | None = None, **headers: str) -> bytes:
    """urllib raises at every status from 400 on."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(
        url.removesuffix("/v1") + path, data, {"x-api-key": "local", "anthropic-version": "2023-06-01", **named}
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        content: bytes = answer.read()
        return content


def anthropic_skills(url: str, folder: Path) -> list[str]:
    boundary = "----boundary"
    form = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="invoice-auditor.zip"\r\n'
        "Content-Type: application/zip\r\n\r\n"
    ).encode()
    form += skill_zip() + f"\r\n--{boundary}--\r\n".encode()
    multipart = f"multipart/form-data; boundary={boundary}"
    skill = json.loads(call(url, "/v1/skills", form, content_type=multipart, anthropic_beta="skills-2025-10-02"))
    assert skill["display_title"]
    body = {
        "model": "default",
        "max_tokens": 1024,
        "agent_permission": "auto",
        "max_tool_rounds": 6,
        "container": {"skills": [{"type": "custom", "skill_id": skill["id"], "version": "latest"}]},
        "tools": [{"type": "code_execution_20250825", "name": "code_execution"}],
        "messages": [{"role": "user", "content": "Audit it."}],
        "files": [{"name": "audit.txt", "format": "txt"}],
    }
    beta = "code-execution-2025-08-25,skills-2025-10-02"
    answer = json.loads(
        call(url, "/v1/messages", json.dumps(body).encode(), content_type="application/json", anthropic_beta=beta)
    )
    printed = [block["text"] for block in answer["content"] if block["type"] == "text"]
    for file in answer["files"]:
        data = call(url, f"/v1/files/{file['id']}/content", anthropic_beta="files-api-2025-04-14")
        (folder / file["name"]).write_bytes(data)
    return printed


async def test_a_skill_on_messages_and_its_file_made_by_the_second_call(door: Door, root: Path, tmp_path: Path) -> None:
    model = ScriptedModel(
        calls("mistralrs_shell", commands=["cat skills/invoice-auditor/SKILL.md"]),
        calls("mistralrs_shell", commands=[COMMAND]),
        says("Two rows."),
    )
    async with serving(door, model, root):
        printed = await asyncio.to_thread(anthropic_skills, door.url, tmp_path)
    assert printed[-1] == "Two rows."
    assert (tmp_path / "audit.txt").read_text() == "2 rows"


def skills(url: str, folder: Path) -> tuple[str, list[Any]]:
    archive = folder / "invoice-auditor.zip"
    archive.write_bytes(skill_zip())
    with openai.OpenAI(base_url=url, api_key="foobar", timeout=TIMEOUT) as client:
        with archive.open("rb") as handle:
            # A low-level call: its multipart body goes out under `Content-Type: application/json`.
            skill: Any = client.post("/skills", cast_to=dict, files={"file": (archive.name, handle, "application/zip")})
        assert skill["name"] == "invoice-auditor"
        reference = {"type": "skill_reference", "skill_id": skill["id"], "version": "latest"}
        tools: Any = [{"type": "shell", "environment": {"type": "container_auto", "skills": [reference]}}]
        answer = client.responses.create(model="default", input="Audit it.", tools=tools, tool_choice="required")
        return answer.output_text, answer.output


async def test_a_skill_on_responses(door: Door, root: Path, tmp_path: Path) -> None:
    model = ScriptedModel(calls("mistralrs_shell", commands=[COMMAND, "cat audit.txt"]), says("Two rows."))
    async with serving(door, model, root):
        text, output = await asyncio.to_thread(skills, door.url, tmp_path)
    assert text == "Two rows."
    assert [item.type for item in output] == ["shell_call", "shell_call_output", "message"]
    assert [(one.stdout, one.outcome.exit_code) for one in output[1].output] == [("checked\n", 0), ("2 rows", 0)]


def file_inputs(url: str, folder: Path) -> list[str | None]:
    sales = folder / "sales.csv"
    sales.write_text("city,sales\nParis,7\n")
    with openai.OpenAI(base_url=url, api_key="foobar", timeout=TIMEOUT) as client:
        uploaded = client.files.create(file=sales, purpose="user_data")
        assert uploaded.filename == "sales.csv"
        parts: Any = [{"type": "input_file", "file_id": uploaded.id}, {"type": "input_text", "text": "Best city?"}]
        first = client.responses.create(model="default", input=[{"role": "user", "content": parts}])
        data = base64.b64encode(b'{"profit": 3}').decode()
        file = {"filename": "report.json", "file_data": f"data:application/json;base64,{data}"}
        content: Any = [{"type": "file", "file": file}, {"type": "text", "text": "What profit?"}]
        second = client.chat.completions.create(model="default", messages=[{"role": "user", "content": content}])
        return [first.output_text, second.choices[0].message.content]


async def test_files_are_inputs_without_any_tool_being_declared(door: Door, root: Path, tmp_path: Path) -> None:
    model = ScriptedModel(says("Paris."), says("Three."))
    async with serving(door, model, root):
        assert await asyncio.to_thread(file_inputs, door.url, tmp_path) == ["Paris.", "Three."]
    assert "Paris,7" in told(model)
    assert '{"profit": 3}' in str(model.heard[1][0])
    assert {tool.name for tool in model.requests[1].tools} == {"mistralrs_read_file", "mistralrs_list_files"}


def responses_tools(url: str) -> str:
    with openai.OpenAI(base_url=url, api_key="not-used", timeout=TIMEOUT) as client:
        tools: Any = [{"type": "code_interpreter", "container": {"type": "auto"}}]
        answer = client.responses.create(model="default", input="6 * 7?", tools=tools, tool_choice="required")
        return answer.output_text


async def test_a_hosted_tool_may_be_required(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_execute_python", code="6 * 7"), says("42"))
    async with serving(door, model, root):
        assert await asyncio.to_thread(responses_tools, door.url) == "42"


def anthropic_agentic(url: str) -> tuple[list[str], list[tuple[str, str]]]:
    body = {
        "model": "default",
        "max_tokens": 1024,
        "stream": True,
        "session_id": "anthropic-agentic-demo",
        "agent_permission": "auto",
        "max_tool_rounds": 6,
        "tools": [{"type": "code_execution_20250825", "name": "code_execution"}],
        "messages": [{"role": "user", "content": "Write a file."}],
    }
    beta = "code-execution-2025-08-25"
    stream = call(url, "/v1/messages", json.dumps(body).encode(), content_type="application/json", anthropic_beta=beta)
    text, files = [], []
    for frame in stream.decode().split("\n\n"):
        lines = [line.strip() for line in frame.splitlines()]
        name = next((line[6:].strip() for line in lines if line.startswith("event:")), None)
        if name is None:
            continue
        data = json.loads("".join(line[5:].strip() for line in lines if line.startswith("data:")))
        if name == "content_block_delta" and data["delta"]["type"] == "text_delta":
            text.append(data["delta"]["text"])
        elif name == "file_produced":
            files.append((data["id"], data["name"]))
    return text, files


async def test_an_agent_on_messages_tells_of_files_in_its_stream(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_execute_python", code="open('a.txt', 'w').write('hi')"), says("Written."))
    async with serving(door, model, root):
        text, [(file_id, name)] = await asyncio.to_thread(anthropic_agentic, door.url)
        assert ("".join(text), name) == ("Written.", "a.txt")
        assert await asyncio.to_thread(call, door.url, f"/v1/files/{file_id}/content") == b"hi"


def agentic_tool_rounds(url: str) -> tuple[str | None, int]:
    with openai.OpenAI(base_url=f"{url}/", api_key="placeholder", timeout=TIMEOUT) as client:
        answer = client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": "Compute it."}],
            tool_choice="auto",
            extra_body={"max_tool_rounds": 5, "enable_code_execution": True},
        )
        assert answer.usage is not None
        return answer.choices[0].message.content, answer.usage.total_tokens


async def test_rounds_of_tools_end_in_one_answer(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_execute_python", code="6 * 7"), says("42"))
    async with serving(door, model, root):
        assert await asyncio.to_thread(agentic_tool_rounds, door.url) == ("42", 30)


def code_execution_approval(url: str, remember: bool) -> list[str]:
    """What the example prints, while it reads the stream line by line and answers in between."""
    body = {
        "model": "default",
        "stream": True,
        "messages": [{"role": "user", "content": "Plot it."}],
        "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
        "agent_permission": "ask",
        "max_tool_rounds": 4,
        "session_id": "approval-demo",
    }
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)
    printed: list[str] = []
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        event = "message"
        for line in answer:
            name, _, text = line.decode().strip().partition(": ")
            if name == "event":
                event = text
            if name != "data" or text == "[DONE]":
                continue
            payload = json.loads(text)
            if event == "agentic_tool_approval_required":
                tool, arguments = payload["tool"], payload["arguments"]
                printed.append(f"{tool['label']} ({tool['kind']}): {', '.join(arguments['outputs'])}")
                decision = {"decision": "approve", "remember_for_session": remember, "message": None}
                place = f"{url}/agent/approvals/{payload['approval_id']}"
                decided = urllib.request.Request(place, json.dumps(decision).encode(), headers)
                with urllib.request.urlopen(decided, timeout=TIMEOUT) as status:
                    printed.append(json.loads(status.read())["status"])
            elif event == "agentic_tool_call_progress":
                printed.append(payload["phase"])
            elif event == "file_produced":
                printed.append(f"{payload['name']} ({payload['format']})")
            event = "message"
    return printed


async def test_code_runs_once_a_person_has_approved_it(door: Door, root: Path) -> None:
    code = "open('a.csv', 'w').write('x')"
    script = [calls("mistralrs_execute_python", code=code, outputs=[{"name": "a.csv", "format": "csv"}]), says("Done.")]
    async with serving(door, ScriptedModel(*script, *script, *script), root):
        once = await asyncio.to_thread(code_execution_approval, door.url, False)
        always = await asyncio.to_thread(code_execution_approval, door.url, True)
        later = await asyncio.to_thread(code_execution_approval, door.url, True)
    ends = ["a.csv (csv)", "complete"]
    assert once == ["calling", "Python code (code_execution): a.csv", "resolved", *ends]
    assert (always, later) == (once, ["calling", *ends])

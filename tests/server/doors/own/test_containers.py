"""/v1/containers with OpenAI's client: made, listed, filled, used by code, and no other owner's."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.interaction.doors import Door, Json
from tests.server.coding import post, require_isolation, serving
from tests.server.coding import root as root
from tests.server.services.test_input_files import results, told
from tests.server.services.test_mounted_skills import RUN, SKILL

from ronda.core.parts import ToolTurn
from ronda.files.file_store import FileFacts
from ronda.sandbox.policy import FullNetwork, Loopback, Policy
from ronda.testing import ScriptedModel, calls, says

NAMED = FileFacts("a.txt")


async def test_a_container_is_made_listed_and_deleted(door: Door, root: Path) -> None:
    async with serving(door, ScriptedModel(), root):
        containers = door.client("test").containers
        made = [await containers.create(name=name) for name in ("a", "b", "c")]
        expires: Any = {"anchor": "last_active_at", "minutes": 20}
        made.append(await containers.create(name="d", expires_after=expires, memory_limit="1g"))
        assert all(one.id.startswith("cntr_") and one.object == "container" for one in made)
        assert made[3].expires_after is not None
        assert made[3].expires_after.minutes == 20
        found = await containers.retrieve(made[0].id)
        assert (found.name, found.status, found.last_active_at) == ("a", "active", found.created_at)
        assert [one.name async for one in containers.list(limit=2, order="asc")] == ["a", "b", "c", "d"]
        assert [one.name async for one in containers.list(limit=3)] == ["d", "c", "b", "a"]
        assert [one.id async for one in containers.list(name="b")] == [made[1].id]
        await containers.delete(made[0].id)
        with pytest.raises(openai.NotFoundError, match="not found"):
            await containers.retrieve(made[0].id)


async def test_a_container_has_files(door: Door, root: Path) -> None:
    async with serving(door, ScriptedModel(), root):
        client = door.client("test")
        kept = await client.files.create(file=("kept.txt", b"kept"), purpose="user_data")
        container = await client.containers.create(name="a", file_ids=[kept.id])
        files = client.containers.files
        sent = await files.create(container.id, file=("sent.txt", b"sent"))
        assert (sent.object, sent.container_id, sent.bytes, sent.path, sent.source) == (
            "container.file", container.id, 4, "/workspace/sent.txt", "user",
        )  # fmt: skip
        copied = await files.create(container.id, file_id=kept.id)
        assert copied.id != kept.id
        assert [one.path async for one in files.list(container.id, limit=1, order="asc")] == [
            "/workspace/kept.txt", "/workspace/sent.txt", "/workspace/kept.txt",
        ]  # fmt: skip
        assert (await files.content.retrieve(sent.id, container_id=container.id)).content == b"sent"
        assert (await files.retrieve(sent.id, container_id=container.id)).bytes == 4
        await files.delete(sent.id, container_id=container.id)
        with pytest.raises(openai.NotFoundError):
            await files.retrieve(sent.id, container_id=container.id)
        with pytest.raises(openai.NotFoundError):  # it is there, and in no container
            await files.retrieve(kept.id, container_id=container.id)
        with pytest.raises(openai.BadRequestError, match="was not found"):
            await client.containers.create(name="b", file_ids=["file-gone"])
        await client.containers.delete(container.id)
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(copied.id)
        assert (await client.files.retrieve(kept.id)).bytes == 4


async def test_nobody_sees_a_container_of_somebody_else(door: Door, root: Path) -> None:
    async with serving(door, ScriptedModel(), root):
        mine, theirs = door.client("ann").containers, door.client("bob").containers
        made = await mine.create(name="a")
        file = await mine.files.create(made.id, file=("a.txt", b"secret"))
        for call in (
            theirs.retrieve(made.id),
            theirs.delete(made.id),
            theirs.files.list(made.id),
            theirs.files.create(made.id, file=("b.txt", b"")),
            theirs.files.retrieve(file.id, container_id=made.id),
            theirs.files.content.retrieve(file.id, container_id=made.id),
            theirs.files.delete(file.id, container_id=made.id),
        ):
            with pytest.raises(openai.NotFoundError):
                await call
        assert [one async for one in theirs.list()] == []
        tools: Any = [{"type": "code_interpreter", "container": made.id}]
        with pytest.raises(openai.NotFoundError):
            await door.client("bob").responses.create(model="default", input="go", tools=tools)


async def test_code_works_in_a_container_that_a_request_names(door: Door, root: Path) -> None:
    model = ScriptedModel(
        calls("mistralrs_execute_python", code="open('out.txt', 'w').write(open('in.txt').read() * 2)"),
        says("done"),
        calls("mistralrs_shell", commands=["cat out.txt"]),
        says("done"),
    )
    async with serving(door, model, root):
        client = door.client("test")
        container = await client.containers.create(name="a")
        await client.containers.files.create(container.id, file=("in.txt", b"ab"))
        python: Any = [{"type": "code_interpreter", "container": container.id}]
        first = await client.responses.create(model="default", input="go", tools=python)
        assert "in.txt -> ./in.txt" in told(model)
        reference = {"type": "container_reference", "container_id": container.id}
        shell: Any = [{"type": "shell", "environment": reference}]
        await client.responses.create(model="default", input="go", tools=shell)
        assert '"stdout":"abab"' in results(model)[-1]
        paths = [(one.path, one.source) async for one in client.containers.files.list(container.id, order="asc")]
        assert paths == [("/workspace/in.txt", "user"), ("/workspace/out.txt", "assistant")]
        used: Any = next(item for item in first.output if item.type == "code_interpreter_call")
        assert used.container_id == container.id


async def test_a_response_goes_on_in_the_container_of_the_one_before(door: Door, root: Path) -> None:
    model = ScriptedModel(
        calls("mistralrs_execute_python", code="x = 41; open('a.txt', 'w').write('a')"),
        says("one"),
        calls("mistralrs_execute_python", code="x + len(open('a.txt').read())"),
        says("two"),
    )
    async with serving(door, model, root):
        client = door.client("test")
        tools: Any = [{"type": "code_interpreter", "container": {"type": "auto"}}]
        first = await client.responses.create(model="default", input="go", tools=tools)
        await client.responses.create(model="default", input="on", tools=tools, previous_response_id=first.id)
        assert '"result":"42"' in results(model)[-1]
        listed = [one async for one in client.containers.list()]
        used: Any = first.output[0]
        assert [one.id for one in listed] == [used.container_id]


async def test_a_container_may_have_skills(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_shell", commands=[RUN]), says("done"))
    async with serving(door, model, root):
        client = door.client("test")
        skill = await client.skills.create(files=list(SKILL.items()))
        wish: Any = {"type": "skill_reference", "skill_id": skill.id}
        container = await client.containers.create(name="a", skills=[wish])
        shell: Any = [{"type": "shell", "environment": {"type": "container_reference", "container_id": container.id}}]
        await client.responses.create(model="default", input="go", tools=shell)
    assert "checked total,7" in results(model)[0]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a", "network_policy": {"type": "allowlist", "allowed_domains": ["a.org"]}}, "network_policy"),
        ({"name": "a", "expires_after": {"anchor": "last_active_at", "minutes": 0}}, "expires_after.minutes"),
        ({"name": "a", "skills": [{"type": "skill_reference", "skill_id": "skill_gone"}]}, "skills[0].skill_id"),
        ({"name": "a", "file_ids": ["x"] * 101}, "file_ids"),
    ],
)
async def test_a_container_that_cannot_be_made_is_refused(door: Door, body: dict[str, Any], param: str) -> None:
    async with door.serving(ScriptedModel()):
        status, answer = await post(door, "containers", body)
    assert (status, answer["error"]["param"]) == (400, param)


async def test_a_container_that_nobody_used_for_its_minutes_is_gone_with_its_files(door: Door, root: Path) -> None:
    async with serving(door, ScriptedModel(), root) as server:
        client = door.client("test")
        expires: Any = {"anchor": "last_active_at", "minutes": 20}
        container = await client.containers.create(name="a", expires_after=expires)
        file = await client.containers.files.create(container.id, file=("a.txt", b"a"))
        server.containers._clock = lambda: time.time() + 19 * 60
        assert (await client.containers.retrieve(container.id)).name == "a"
        server.containers._clock = lambda: time.time() + 20 * 60
        assert [one async for one in client.containers.list(name="a")] == []
        with pytest.raises(openai.NotFoundError):
            await client.containers.retrieve(container.id)
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(file.id)


async def test_a_session_that_is_deleted_takes_its_files_with_it(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_execute_python", code="open('a.txt', 'w').write('a')"), says("done"))
    async with serving(door, model, root):
        asked = {"messages": [{"role": "user", "content": "go"}], "enable_code_execution": True, "session_id": "s"}
        _, answer = await post(door, "chat/completions", asked)
        [file] = answer["files"]
        async with door.http.delete(f"{door.url}/sessions/s") as gone:
            assert gone.status == 200
        async with door.http.get(f"{door.url}/files/{file['id']}") as found:
            assert found.status == 404


GRAB = """
import mmap
try:
    mmap.mmap(-1, 1500 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    print("had")
except OSError:
    print("refused")
"""
CONNECT = """
import socket
try:
    server = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(server.getsockname())
    print("connected")
except OSError:
    print("offline")
"""
OFFLINE: Json = {"network_policy": {"type": "disabled"}}
LIMITS: dict[str, tuple[Policy, str, Json, list[str]]] = {
    "memory": (Policy(max_memory_mb=4096), GRAB, {"memory_limit": "1g"}, ["had", "refused"]),
    "network": (Policy(network=FullNetwork()), CONNECT, OFFLINE, ["connected", "offline"]),
    "loopback": (Policy(network=Loopback()), CONNECT, OFFLINE, ["connected", "offline"]),
}


@pytest.mark.parametrize(("policy", "code", "limit", "outputs"), LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("where", ["container", "request"])
async def test_code_gets_no_more_than_its_client_allows(
    door: Door, root: Path, policy: Policy, code: str, limit: Json, outputs: list[str], where: str
) -> None:
    require_isolation(policy)
    model = ScriptedModel(*[calls("mistralrs_execute_python", code=code), says("done")] * 2)
    async with serving(door, model, root, sandbox=policy):
        for more in ({}, limit):
            place: Any = {"type": "auto", **more}
            if where == "container":
                _, made = await post(door, "containers", {"name": "a", **more})
                place = made["id"]
            body = {"input": "go", "tools": [{"type": "code_interpreter", "container": place}]}
            if where == "request":  # one session, whose Python begins anew with the limit
                body["session_id"] = "s"
            status, answer = await post(door, "responses", body)
            assert status == 200, answer
    results = [turn.results[0].content for heard in model.heard for turn in heard if isinstance(turn, ToolTurn)]
    assert [json.loads(content)["stdout"].strip() for content in results][-2:] == outputs


@pytest.mark.parametrize(
    ("limit", "most", "shown"), [(None, 2048, "2g"), ("1g", 2048, "1g"), ("64g", 2048, "2g"), ("1g", 600, "600m")]
)
async def test_a_container_says_how_much_memory_its_code_has(
    door: Door, root: Path, limit: str | None, most: int, shown: str
) -> None:
    body = {"name": "a"} if limit is None else {"name": "a", "memory_limit": limit}
    async with serving(door, ScriptedModel(), root, sandbox=Policy(max_memory_mb=most)):
        _, made = await post(door, "containers", body)
        async with door.http.get(f"{door.url}/containers/{made['id']}") as answer:
            found = await answer.json()
    assert (made["memory_limit"], found["memory_limit"]) == (shown, shown)
    assert found["network_policy"] == {"type": "disabled"}


async def test_containers_whose_time_is_up_are_removed_though_nobody_asks_for_them(door: Door, root: Path) -> None:
    async with serving(door, ScriptedModel(), root) as server:
        for minutes in (20, 30):
            expires = {"anchor": "last_active_at", "minutes": minutes}
            _, made = await post(door, "containers", {"name": str(minutes), "expires_after": expires})
            await post(
                door, f"containers/{made['id']}/files", {"file_id": (await server.files.add("", b"a", NAMED)).id}
            )
        await post(door, "containers", {"name": "stays"})
        server.containers._clock = lambda: time.time() + 25 * 60
        await server.containers.sweep()
        rows = await server.catalog.containers.of("")
        kept = [file.session for file in await server.files.of("") if file.session]
    assert [row.name for row in rows] == ["30", "stays"]
    assert kept == [rows[0].session]


async def test_files_of_a_session_stay_for_as_long_as_it_is_used(door: Door, root: Path) -> None:
    model = ScriptedModel(
        calls("mistralrs_execute_python", code="open('a.txt', 'w').write('a')"), says("made"),
        calls("mistralrs_execute_python", code="1"), says("used"),
    )  # fmt: skip
    body = {"messages": [{"role": "user", "content": "go"}], "enable_code_execution": True}
    async with serving(door, model, root) as server:
        _, answer = await post(door, "chat/completions", {**body, "session_id": "s"})
        [before] = await server.files.of("", "s")
        server.files._clock = lambda: time.time() + 86400
        await post(door, "chat/completions", {**body, "session_id": "s"})
        [after] = await server.files.of("", "s")
        ends = [before.expires or 0.0, after.expires or 0.0]
        assert ends[1] - ends[0] >= 86400
        server.files._clock = lambda: ends[1]
        async with door.http.get(f"{door.url}/files/{answer['files'][0]['id']}") as gone:
            assert gone.status == 404


async def test_what_is_larger_than_8_mib_is_fetched_by_its_id(door: Door, root: Path) -> None:
    most = 8 << 20
    code = f"open('most.csv', 'w').write('x' * {most}); None"
    more = f"open('more.csv', 'w').write('y' * {most + 1}); None"
    model = ScriptedModel(*[calls("mistralrs_execute_python", code=one) for one in (code, more)], says("done"))
    body = {"messages": [{"role": "user", "content": "go"}], "enable_code_execution": True}
    async with serving(door, model, root):
        _, answer = await post(door, "chat/completions", body)
        whole, cut = answer["files"]
        async with door.http.get(f"{door.url}/files/{cut['id']}/content") as content:
            fetched = await content.read()
    assert (len(whole["text"]), whole["bytes"], whole["mime_type"]) == (most, most, "text/csv")
    assert ("text" in cut, cut["bytes"], cut["mime_type"], cut["preview"]) == (False, most + 1, "text/csv", "y" * 1024)
    assert fetched == b"y" * (most + 1)

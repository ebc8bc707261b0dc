"""/v1/skills through the libraries of OpenAI and Anthropic, and as mistral.rs's examples send them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest
from tests.interaction.doors import TIMEOUT, Door

from ronda.files.archives import pack_zip, unpack_zip
from ronda.testing import ScriptedModel


@pytest.fixture
async def served(door: Door) -> AsyncIterator[Door]:
    async with door.serving(ScriptedModel()):
        yield door


def folder(name: str = "auditor") -> dict[str, bytes]:
    return {f"{name}/SKILL.md": f"---\nname: {name}\ndescription: audits\n---\n".encode(), f"{name}/a.py": b"1"}


def parts(name: str = "auditor") -> list[Any]:
    return [(path, data) for path, data in folder(name).items()]


def anthropic_client(door: Door, **more: Any) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url=door.url.removesuffix("/v1"), api_key="test", max_retries=0, timeout=TIMEOUT, **more
    )


async def test_openais_client_keeps_a_skill_and_its_versions(served: Door) -> None:
    skills = served.client("test").skills
    made = await skills.create(files=parts())
    assert (made.object, made.name, made.description) == ("skill", "auditor", "audits")
    assert (made.default_version, made.latest_version) == ("1", "1")
    second = await skills.versions.create(made.id, files=("a.zip", pack_zip(folder("second"))))
    assert (second.object, second.version, second.name, second.skill_id) == ("skill.version", "2", "second", made.id)
    assert (await skills.retrieve(made.id)).latest_version == "2"
    assert unpack_zip((await skills.content.retrieve(made.id)).content) == folder()
    assert (await skills.update(made.id, default_version="2")).name == "second"
    assert [one.version async for one in skills.versions.list(made.id, limit=1)] == ["1", "2"]
    content = await skills.versions.content.retrieve("1", skill_id=made.id)
    assert unpack_zip(content.content) == folder()
    gone = await skills.versions.delete("1", skill_id=made.id)
    assert (gone.deleted, gone.version) == (True, "1")
    assert [one.id async for one in skills.list()] == [made.id]
    assert (await skills.delete(made.id)).deleted
    with pytest.raises(openai.NotFoundError, match=f"Skill `{made.id}` was not found"):
        await skills.retrieve(made.id)


async def test_anthropics_client_keeps_a_skill_and_its_versions(served: Door) -> None:
    async with anthropic_client(served) as client:
        made = await client.skills.create(files=parts(), display_name="Auditor of mine")
        assert (made.type, made.display_name, made.source.type) == ("skill", "Auditor of mine", "custom")
        second = await client.skills.versions.create(made.id, files=parts("second"))
        assert (second.type, second.name) == ("skill_version", "second")
        assert (await client.skills.retrieve(made.id)).latest_version_id == second.id
        assert [one.id async for one in client.skills.versions.list(made.id, limit=1)] == [
            made.latest_version_id,
            second.id,
        ]
        assert [one.id async for one in client.skills.list(source="custom")] == [made.id]
        assert [one.id async for one in client.skills.list(source="anthropic")] == []
        assert (await client.skills.versions.delete(second.id, skill_id=made.id)).type == "skill_version_deleted"
        assert (await client.skills.delete(made.id)).type == "skill_deleted"
        with pytest.raises(anthropic.NotFoundError):
            await client.skills.retrieve(made.id)


def form(field: str, name: str, data: bytes) -> bytes:
    head = f'--0f\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'
    return head.encode() + data + b"\r\n--0f--\r\n"


async def test_the_examples_of_mistralrs_upload_a_zip(served: Door) -> None:
    body = form("file", "auditor.zip", pack_zip(folder()))
    # Its example for OpenAI sends the form under the type of JSON; the one for Anthropic reads `display_title`.
    async with served.http.post(
        f"{served.url}/skills", data=body, headers={"content-type": "application/json"}
    ) as answer:
        made = await answer.json()
    assert (answer.status, made["name"]) == (200, "auditor")
    headers = {
        "content-type": "multipart/form-data; boundary=0f",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "skills-2025-10-02",
    }
    async with served.http.post(f"{served.url}/skills", data=body, headers=headers) as answer:
        made = await answer.json()
    assert (made["display_title"], made["latest_version"], made["source"]) == ("auditor", "1", "custom")


async def test_a_skill_is_its_owners_alone(served: Door) -> None:
    made = await served.client("test").skills.create(files=parts())
    other = served.client("other").skills
    for ask_for in (other.retrieve, other.delete, other.content.retrieve):
        with pytest.raises(openai.NotFoundError):
            await ask_for(made.id)
    for owner in ("test", "other"):
        with pytest.raises(openai.NotFoundError):
            await served.client(owner).files.retrieve(f"{made.id}_v1")


@pytest.mark.parametrize(
    ("field", "name", "data", "problem"),
    [
        ("files", "a/readme.md", b"", "must contain SKILL.md"),
        ("files", "../SKILL.md", b"", "unsafe path"),
        ("files", "a.zip", b"PK\x03\x04 broken", "the zip cannot be read"),
        ("other", "a/SKILL.md", b"", "`other` is no field for files"),
        ("files", "a.zip", pack_zip({"a/zeros": bytes(30_000_000)}), "unpacks to more than is allowed"),
    ],
)
async def test_what_is_no_skill_is_refused(served: Door, field: str, name: str, data: bytes, problem: str) -> None:
    headers = {"content-type": "multipart/form-data; boundary=0f"}
    async with served.http.post(f"{served.url}/skills", data=form(field, name, data), headers=headers) as answer:
        assert answer.status in (400, 413)
        assert problem in (await answer.json())["error"]["message"]

"""Servers that people have, as they come from the package index."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
from tests.tools.mcp.serving import call, config, opened

from ronda.tools.mcp.config import Process


def module(name: str, *arguments: str) -> Process:
    return Process(sys.executable, ("-m", name, *arguments))


async def test_the_time() -> None:
    async with opened(config(module("mcp_server_time", "--local-timezone=UTC"), "time")) as servers:
        assert [tool.spec.name for tool in servers.tools()] == ["time_convert_time", "time_get_current_time"]
        output = await call(
            servers,
            "time_convert_time",
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        )
        assert not output.failed
        assert msgspec.json.decode(output.content)["time_difference"] == "+9.0h"
        wrong = await call(servers, "time_get_current_time", {"timezone": "Moon/Crater"})
        assert wrong.failed
        assert "Moon/Crater" in wrong.content


async def test_a_repository(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *author, *arguments], check=True, capture_output=True)

    git("init", "--initial-branch=main")
    (tmp_path / "a.txt").write_text("one\n")
    git("add", "a.txt")
    git("commit", "--message", "Say one")
    (tmp_path / "a.txt").write_text("two\n")
    async with opened(config(module("mcp_server_git", "--repository", str(tmp_path)), "git")) as servers:
        where = {"repo_path": str(tmp_path)}
        assert "modified:   a.txt" in (await call(servers, "git_git_status", where)).content
        assert "+two" in (await call(servers, "git_git_diff_unstaged", where)).content
        await call(servers, "git_git_add", {**where, "files": ["a.txt"]})
        assert "Say one" in (await call(servers, "git_git_log", {**where, "max_count": 1})).content


def test_who_has_no_server_does_not_load_the_package() -> None:
    code = "import sys, ronda.tools.mcp.servers, ronda.tools.mcp.read; print({'mcp', 'pydantic'} & sys.modules.keys())"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert loaded.stdout.strip() == "set()"

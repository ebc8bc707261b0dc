"""`make test-mcp`: a server that ends 500 times leaves processes, descriptors, tasks and memory where they were."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import pytest
from tests.tools.mcp.serving import TINY, call, config, opened

from ronda.errors import ToolFailed
from ronda.tools.mcp.config import Process

TURNS = 500
WARM = 50  # after which everything that is made once is there
MOST_GROWTH = 4 * 1024 * 1024  # of 450 connections: what the allocator keeps, and nothing per connection


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def children() -> int:
    return len(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


def held() -> tuple[int, int, int]:
    gc.collect()
    return len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), children()


async def test_500_reconnects_leave_everything_where_it_was() -> None:
    import sys

    async with opened(config(Process(sys.executable, (TINY,)), "tiny")) as servers:
        for turn in range(TURNS):
            await call(servers, "tiny_pid")
            if turn == WARM:
                before, memory = held(), resident()
            with pytest.raises(ToolFailed):
                await call(servers, "tiny_die")
        await call(servers, "tiny_pid")
        assert held() == before
        growth = resident() - memory
    print(
        f"{TURNS} reconnects: {before} descriptors, tasks and processes as before; {growth / 1024:.0f} KiB more memory"
    )
    assert growth < MOST_GROWTH

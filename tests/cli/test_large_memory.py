"""What a server took for large bodies and answers goes back to the system."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import textwrap

import pytest

# Blocks of 8 MB, and behind each a small one that stays: in a heap, the small ones would keep all of them.
PROGRAM = """
import os, sys
from ronda.cli.memory import LargeMemory

def megabytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20

freed = bytearray(b"x") * (30 << 20)
del freed  # from now on, glibc takes blocks of up to 30 MB from its heaps
memory = LargeMemory()
grown = bytearray(b"x") * (100 << 20)
if len(sys.argv) > 1:
    memory.look()
del grown
before = megabytes()
large, small = [], []
for number in range(40):
    large.append(bytearray(b"x") * (8 << 20))
    small.append(bytes([number]) * 4096)
large.clear()
print(megabytes() - before)
"""


def left_over(*arguments: str) -> int:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), *arguments]
    return int(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps large blocks in its heaps")
def test_a_process_that_has_grown_gives_large_blocks_back() -> None:
    assert left_over() > 150  # or there would be nothing to do
    assert left_over("looks") < 50

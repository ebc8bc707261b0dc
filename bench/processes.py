"""Child processes: started on a core, or on all, asked for their CPU time and memory from outside, ended by id. Linux only.

The process under test has a core to itself; the fake model and the client share the other. With one core all share
it: the figures are CPU time, not wall time, and stay comparable. Only the local model, which has threads of its own, gets
every core (`core=None`).
"""

import os
import select
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = os.sysconf("SC_PAGE_SIZE")
MB = 1e6


Command = Sequence[str | Path]


class BenchError(Exception):
    """Something could not be measured; the message says what and why."""


class Cores(NamedTuple):
    """`tested` is for the process under test, `rest` for everything else, `every` are those this benchmark may use."""

    tested: int
    rest: int
    every: frozenset[int]


def pick_cores() -> Cores:
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(allowed[0], allowed[min(1, len(allowed) - 1)], frozenset(allowed))


@contextmanager
def pinned(cores: frozenset[int]) -> Iterator[None]:
    """A child inherits the cores of the process that starts it, so that it never runs a single instruction elsewhere."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Children:
    """Every process of a benchmark. Leaving the block ends those that still run."""

    def __init__(self, folder: Path, cores: Cores) -> None:
        self.folder = folder
        self.cores = cores
        self._open = ExitStack()

    def __enter__(self) -> "Children":
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def start(
        self, name: str, command: Command, *, core: int | None, env: dict[str, str] | None = None, tree: Path = ROOT
    ) -> "Child":
        """A process that is only watched: all it prints goes to its log. `tree` is the checkout whose Ronda it runs."""
        log = self.folder / f"{name}.log"
        return self._keep(Child(name, command, self._cores(core), log, source(tree) | (env or {}), None))

    def start_talking(
        self, name: str, command: Command, *, core: int | None, tree: Path = ROOT, cwd: Path = ROOT
    ) -> "Child":
        """A process that takes orders on its stdin and answers on its stdout."""
        log = self.folder / f"{name}.log"
        return self._keep(Child(name, command, self._cores(core), log, source(tree), subprocess.PIPE, cwd))

    def _cores(self, core: int | None) -> frozenset[int]:
        return self.cores.every if core is None else frozenset({core})

    def _keep(self, child: "Child") -> "Child":
        self._open.callback(child.end)
        return child


class Child:
    """One process and its log."""

    def __init__(
        self,
        name: str,
        command: Command,
        cores: frozenset[int],
        log: Path,
        env: dict[str, str],
        pipe: int | None,
        cwd: Path = ROOT,
    ) -> None:
        self.name = name
        self._log = log
        with pinned(cores), log.open("wb") as output:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                cwd=cwd,
                env=environment() | env,
                stdin=pipe or subprocess.DEVNULL,
                stdout=pipe or output,
                stderr=output,
                text=True,
            )

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            print(line, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise BenchError(f"{self.name} ended: {self.last_words()}") from None

    def hear(self, seconds: float = 30) -> str:
        """The next line that the process prints; it prints one at a time, and only when told to."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise BenchError(f"{self.name} said nothing for {seconds:.0f} s: {self.last_words()}")
        if line := self.process.stdout.readline():
            return line.strip()
        self.process.wait(10)
        raise BenchError(f"{self.name} ended: {self.last_words()}")

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # an order that was never read
                    pipe.close()

    def last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()[-8:]
        return "\n".join(lines) or f"no word, exit code {self.process.poll()}"

    def wait_for_http(self, url: str, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise BenchError(f"{self.name} ended: {self.last_words()}")
            try:
                with urllib.request.urlopen(url, timeout=2):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.05)
        raise BenchError(f"{self.name} did not answer {url} within {seconds:.0f} s: {self.last_words()}")

    def cpu_seconds(self) -> float:
        return sum(cpu_clock(pid) for pid in family(self.process.pid))

    def memory_mb(self) -> float:
        return (
            sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in family(self.process.pid)) * PAGE / MB
        )

    def peak_mb(self) -> float:
        """Not `ru_maxrss`: that one counts the memory of the process that forked it, too."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / MB
        raise BenchError(f"{self.name} has no memory to measure")


def cpu_clock(pid: int) -> float:
    """User and system seconds of a process and all its threads, by the clock that `clock_getcpuclockid` names."""
    return time.clock_gettime((~pid << 3) | 2)


def family(pid: int) -> list[int]:
    """A process and its descendants, so that work handed to a child is counted."""
    members = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            members += family(int(child))
    return members


def environment() -> dict[str, str]:
    ours = {**os.environ, "OPENAI_API_KEY": "bench"}
    ours.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program does not compile itself at every start
    return ours


def source(tree: Path) -> dict[str, str]:
    """Lets a child import Ronda from a checkout, whichever one is installed."""
    return {"PYTHONPATH": str(tree / "src")}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def python(*words: str | Path) -> list[str | Path]:
    return [sys.executable, *words]

"""One life of the engine's process: started, watched, ended. What happens after that is `supervisor`'s to say.

    ready    loaded, and where it listens is known; or the reason why not
    ended    why it is gone: it ended by itself, or it took too much memory, or it worked and worked and said nothing

A thread of its own starts it, since a child gets a signal at the end of the thread that started it, not of the process; that
thread then looks at it a few times a second. Memory is what it has beyond the mapped model (`RssAnon`), so that other programs
which use the same file do not count. Time is its CPU time since it last said something: a busy machine makes no engine hang. Both
can only be looked at on Linux.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from ronda.errors import BadConfig
from ronda.local.binding import way_out
from ronda.local.engine_http import Door
from ronda.local.machine import Sizing

log = logging.getLogger("ronda.local")

CHILD = (sys.executable, "-P", str(Path(__file__).with_name("engine_child.py")))
_STDERR_TAIL = 2000
# Seconds of CPU time that a token takes for each byte of the model: the default one, of 98 MB, reads 109 tokens a second on one
# slow core. With a margin for slower ones, and for formats that are more work.
_CPU_PER_BYTE: Final = 1 / 109 / 98e6
_MARGIN: Final = 5.0
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Watch(Struct, frozen=True):
    """What a process may take. A bomb takes up to a gigabyte a second, so it is looked at often."""

    interval: float = 0.2  # seconds between two looks
    memory: int = 512 * 2**20  # bytes more than it had when it was loaded
    seconds: float = 20.0  # of CPU time without a piece of an answer: a batch of a large prompt takes one or two
    seconds_alone: float = 5.0  # … when no caller waits for an answer

    def at_least(self, size: int, tokens: int) -> Watch:
        """With time for so many tokens at once of a model of so many bytes: a large one works for minutes at what the default one
        does in a second."""
        enough = size * tokens * _CPU_PER_BYTE * _MARGIN
        seconds, alone = max(self.seconds, enough), max(self.seconds_alone, enough)
        return structs.replace(self, seconds=seconds, seconds_alone=alone)


class _Report(Struct, frozen=True):
    address: str = ""
    not_imported: str = ""
    not_loaded: str = ""


class EngineProcess:
    def __init__(
        self,
        path: Path,
        template: str,
        sizing: Sizing,
        *,
        command: Sequence[str] = CHILD,
        watch: Watch | None = None,
        embeds: bool = False,
    ) -> None:
        """`embeds`: the model makes vectors, not answers."""
        self.ready: Future[None] = Future()
        self.ended: Future[str] = Future()
        self.door = Door()
        self.is_closing = False
        self._path = path
        self._settings = {
            "path": str(path),
            "template": template,
            "slots": sizing.slots,
            "cache": sizing.cache,
            "batch": sizing.batch,
            "threads": sizing.threads,
            "threads_alone": sizing.threads_alone,
            "key": self.door.key,
            "host": self.door.host,
            "parent": os.getpid(),
            "embeds": embeds,
        }
        self._command = command
        self._watch = watch or Watch()
        self._process: subprocess.Popen[bytes] | None = None
        self._verdict = ""
        self._tail = b""
        self._lock = threading.Lock()
        self._under_way = 0
        self._most = 0  # bytes
        self._stirred = True
        self._seen_cpu = 0.0
        self._thread = threading.Thread(target=self._live, name="ronda-engine", daemon=True)

    # ---- for its callers ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return self.ended.done()

    @property
    def is_busy(self) -> bool:
        return self._under_way > 0

    def stir(self) -> None:
        """It said something."""
        self._stirred = True

    def note_request(self) -> None:
        """It has other work than answers. During an answer this says nothing: the answer may hang while others are asked for."""
        if not self._under_way:
            self._stirred = True

    @contextmanager
    def working(self) -> Iterator[None]:
        """A caller waits for an answer."""
        with self._lock:
            self._under_way += 1
        self._stirred = True
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1

    def close(self) -> None:
        """SIGTERM, a second, SIGKILL. Waits until it is gone."""
        self.is_closing = True
        process = self._process
        if process is not None:
            with suppress(OSError):
                process.terminate()
            self._thread.join(1.0)
            with suppress(OSError):
                process.kill()
        if self._thread.is_alive():
            self._thread.join(1.0)
        self.door.close()

    # ---- in the thread -----------------------------------------------------------------------------------------------

    def _live(self) -> None:
        report, why = _Report(), "it was not started"
        try:
            self._process = process = self._spawn()
            report = self._greet(process)
            if report.address:
                used = self._memory()
                self._most = sys.maxsize if used is None else used + self._watch.memory
                self.ready.set_result(None)
                self._keep_watch(process)
            why = self._reap(process)
        except Exception as error:  # no memory for a process, no place for its socket
            why = f"{type(error).__name__}: {error}"
        self.door.close()
        if not self.ready.done():
            self.ready.set_exception(BadConfig(self._problem(report, why)))
        elif not self.is_closing:
            log.warning("the local engine ended: %s%s", why, self._last_words())
        self.ended.set_result(why)

    def _problem(self, report: _Report, why: str) -> str:
        if report.not_imported:
            return way_out(report.not_imported)
        file = f"the engine cannot load the model file {self._path}"
        if report.not_loaded:
            return f"{file}: it is of a kind it does not know, or memory ran out"
        return f"{file}: its process ended: {why}{self._last_words()}"

    def _spawn(self) -> subprocess.Popen[bytes]:
        posix = os.name == "posix"
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if posix else subprocess.DEVNULL,
            # With the default two busy cores fell to half a token per second: waiting threads spin.
            env={"OMP_WAIT_POLICY": "passive", **os.environ, "GGML_NO_BACKTRACE": "1"},
            process_group=0 if posix else None,  # Ctrl-C is for us: we end it
        )
        assert process.stdin is not None
        settings = self._settings | {"room": self._watch.memory * 7 // 8}  # it fails by itself before it is killed
        with suppress(BrokenPipeError):  # its report says why, or its end
            process.stdin.write(msgspec.json.encode(settings) + b"\n")
            process.stdin.flush()
        return process

    def _greet(self, process: subprocess.Popen[bytes]) -> _Report:
        """Wait for its report, or its end. A large model takes its time, so there is no limit."""
        assert process.stdout is not None
        line = process.stdout.readline()
        report = msgspec.json.decode(line, type=_Report) if line else _Report()
        if report.address:
            self.door.opened(report.address)
        return report

    def _keep_watch(self, process: subprocess.Popen[bytes]) -> None:
        """Until it is gone: its end closes its stderr."""
        while not self._hear(process):
            if process.poll() is not None:
                return
            used, cpu = self._memory(), self._cpu()
            if used is None or cpu is None:
                continue
            if used > self._most:
                self._kill(process, f"it took {used // 2**20} MB of memory")
            if self._stirred:
                self._stirred = False
                self._seen_cpu = cpu
            timeout = self._watch.seconds if self._under_way else self._watch.seconds_alone
            if cpu - self._seen_cpu > timeout:
                self._kill(process, f"it worked for {timeout:g} seconds and said nothing")

    def _hear(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for a moment, or for its last words; whether those were all."""
        if process.stderr is None:
            threading.Event().wait(self._watch.interval)
            return process.poll() is not None
        found, _, _ = select.select([process.stderr], [], [], self._watch.interval)
        if not found:
            return False
        text = os.read(process.stderr.fileno(), 65536)
        self._tail = (self._tail + text)[-_STDERR_TAIL:]
        return not text

    def _kill(self, process: subprocess.Popen[bytes], why: str) -> None:
        self._verdict = self._verdict or why
        process.kill()

    def _reap(self, process: subprocess.Popen[bytes]) -> str:
        while not self._hear(process):
            pass
        code = process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        if self._verdict:
            return self._verdict
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def _last_words(self) -> str:
        text = self._tail.decode("utf-8", "replace").strip()
        return f"; it said: {text}" if text else ""

    def _memory(self) -> int | None:
        for line in self._proc("status").splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        return None

    def _cpu(self) -> float | None:
        """Seconds of CPU time since it began."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS if len(fields) > 12 else None

    def _proc(self, name: str) -> str:
        process = self._process
        try:
            return "" if process is None else Path(f"/proc/{process.pid}/{name}").read_text()
        except OSError:
            return ""

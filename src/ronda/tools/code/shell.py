"""`mistralrs_shell` and `mistralrs_surface_outputs`: commands of the model's in its session's folder.

One call is one shell. Each command is run and reported by itself: its output, and how it ended. Its folder and exported variables
carry over to the next command of the call; processes in the background end with the call.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import msgspec

from ronda.core.plan import ToolSpec
from ronda.core.taint import PRIVATE
from ronda.drive import ToolContext, ToolOutput
from ronda.errors import ToolFailed
from ronda.sandbox.box import Sandbox
from ronda.sandbox.process import Process, Stream, tell
from ronda.tools.code.long_output import LongCapture, shown_text, text_decoder
from ronda.tools.code.outputs import output_names, snapshot
from ronda.tools.code.python import EXCLUSIVE, OUTPUTS, TOO_MANY_FILES
from ronda.tools.code.workbench import Workbench
from ronda.tools.parameters import parameters
from ronda.wire.shared.code_tools import SHELL

SURFACE = "mistralrs_surface_outputs"
MAX_OUTPUT = 4096  # characters of each stream, unless the call says otherwise …
_MOST_OUTPUT = 256 * 1024  # … and this at the most
MOST_COMMANDS = 100
_LONGEST_SCRIPT = 128 * 1024 - 1  # the kernel's limit of one argument (MAX_ARG_STRLEN): all of them are one

_SHELL_PARAMETERS = parameters(
    {
        "commands": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MOST_COMMANDS},
        "outputs": OUTPUTS,
        "timeout_ms": {
            "type": "integer",
            "minimum": 1,
            "description": "For all commands together; it can only be lowered.",
        },
        "max_output_length": {
            "type": "integer",
            "minimum": 1,
            "description": "Characters of each stream of each command.",
        },
    },
    "commands",
)


class ShellTool:
    """Runs commands one after another; a failing one does not stop the next."""

    def __init__(self, workbench: Workbench, *, shell: str = "/bin/sh", timeout: float = 600.0) -> None:
        self._workbench = workbench
        self._shell = shell
        self._timeout = timeout
        self.spec = ToolSpec(
            SHELL,
            "Run shell commands in the session's working directory, one after another. Files stay for later calls; background "
            "processes end with the call. No person can type input, and by default no network.",
            _SHELL_PARAMETERS,
            strict=True,
            exclusive=EXCLUSIVE,
            labels=workbench.labels,
            tool_type="shell",
        )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        commands = [str(command) for command in arguments.get("commands") or []]
        if not commands:
            raise ToolFailed("Missing shell commands")
        if any("\0" in command for command in commands):
            raise ToolFailed("a command has a NUL character in it")
        if (length := len(_script(commands).encode())) > _LONGEST_SCRIPT:
            raise ToolFailed(
                f"the commands have {length} bytes in all, and {_LONGEST_SCRIPT} are allowed; write a large file in several calls"
            )
        timeout = min(self._timeout, (arguments.get("timeout_ms") or self._timeout * 1000) / 1000)
        limit = min(arguments.get("max_output_length") or MAX_OUTPUT, _MOST_OUTPUT)
        async with self._workbench.use(context) as session:
            sandbox = session.sandbox
            before = await asyncio.to_thread(snapshot, sandbox.workspace)
            call = _Call(sandbox, self._shell, limit, context)
            outputs = await call.run(commands, timeout)
            made = await self._workbench.collector(session, SHELL, context).collect(before, output_names(arguments))
        result = _result(commands, outputs, sandbox.workdir)
        note: dict[str, Any] = {} if call.may_write else {"note": TOO_MANY_FILES}
        if not_run := commands[len(outputs) :]:
            note["not_run"] = not_run
        return ToolOutput(
            msgspec.json.encode(result | note).decode() + made.section(),
            failed=result["status"] != "success",
            details={"tool_type": "shell", **result, "outputs": outputs, "max_output_length": limit},
            files=made.files,
        )


def _result(commands: list[str], outputs: list[dict[str, Any]], workdir: str) -> dict[str, Any]:
    """The call as one, as the model reads it; `outputs` tells each command's own."""
    last = outputs[-1]["outcome"]
    timed_out = last["type"] == "timeout"
    exit_code = last.get("exit_code")
    is_done = exit_code == 0 and len(outputs) == len(commands)
    return {
        "status": "timeout" if timed_out else "success" if is_done else "error",
        "commands": commands,
        "working_directory": workdir,
        "stdout": "".join(output["stdout"] for output in outputs),
        "stderr": "".join(output["stderr"] for output in outputs),
        "exit_code": exit_code,
        "timed_out": timed_out,
    }


class _Call:
    """One shell that is handed one command after another, and says on a channel of its own how each ended."""

    def __init__(self, sandbox: Sandbox, shell: str, limit: int, context: ToolContext) -> None:
        self._sandbox = sandbox
        self._shell = shell
        self._most = limit
        self._context = context
        self.may_write = True
        self._count = 0  # of commands that have ended
        self._captures = self._fresh()
        self._decoders = {name: text_decoder() for name in self._captures}

    def _fresh(self) -> dict[Stream, LongCapture]:
        return {"stdout": LongCapture(self._most), "stderr": LongCapture(self._most)}

    def _take(self, stream: Stream, data: bytes) -> None:
        self._captures[stream].add(data)
        if self._captures[stream].total <= self._most:  # a flood is not worth watching
            self._context.progress(self._decoders[stream].decode(data), stream, self._count)

    async def run(self, commands: list[str], timeout: float) -> list[dict[str, Any]]:
        outputs: list[dict[str, Any]] = []
        process = await self._sandbox.start([self._shell, "-c", _script(commands)], on_output=self._take, channel=True)
        self.may_write = process.may_write
        try:
            async with asyncio.timeout(timeout):
                while len(outputs) < len(commands):
                    outputs += [await self._next(process)]
        except TimeoutError:
            process.kill("timeout")
            await process.wait()
            self._tell_not_run(len(commands) - len(outputs) - 1, "this command took too long")
            outputs.append(await self._output({"type": "timeout"}))
        except ToolFailed:  # the shell is gone: `exit`, or it was ended; or it has said something that is no exit code
            process.kill()
            ended = await process.wait()
            if ended.why != "exited":
                self._captures["stderr"].add(f"\n{tell(ended)}\n".encode())
            self._tell_not_run(len(commands) - len(outputs) - 1, "this command ended the shell")
            outputs.append(await self._output({"type": "exit", "exit_code": ended.code}))
        finally:
            process.kill()
        await process.wait()
        return outputs

    def _tell_not_run(self, count: int, why: str) -> None:
        if count > 0:
            later = "1 later command" if count == 1 else f"{count} later commands"
            self._captures["stderr"].add(f"\n[{why}: {later} did not run]\n".encode())

    async def _next(self, process: Process) -> dict[str, Any]:
        code = await process.receive(most=16)
        process.drain()
        output = await self._output({"type": "exit", "exit_code": _exit_code(code)})
        await process.send(b"\n")  # what comes from here on is the next command's
        return output

    async def _output(self, outcome: dict[str, Any]) -> dict[str, Any]:
        captures, self._captures = self._captures, self._fresh()
        self._decoders = {name: text_decoder() for name in captures}
        self._count += 1
        name = f"{self._context.call_id}-{self._count}"
        stdout = await shown_text(captures["stdout"], self._sandbox, f"{name}-stdout")
        stderr = await shown_text(captures["stderr"], self._sandbox, f"{name}-stderr")
        return {"stdout": stdout, "stderr": stderr, "outcome": outcome}


def _script(commands: list[str]) -> str:
    """Each command in the same shell, by `eval`, so that its folder and variables stay; then a frame with its code on the
    channel, and a line from there before the next.

    A frame is four bytes of length and the code in three digits. Commands can forge one, and only lie about themselves.
    """
    report = "__ronda_" + secrets.token_hex(4)
    lines = [f"{report}() {{ printf '\\000\\000\\000\\003%03d' \"$1\" >&3; read -r {report} <&3; }}"]
    for command in commands:
        lines += [f"eval {_quote(command)}", f"{report} $?"]
    return "\n".join(lines)


def _exit_code(frame: bytes) -> int:
    try:
        return int(frame)
    except ValueError:
        raise ToolFailed("a command has sent something that is no exit code") from None


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


class SurfaceTool:
    """Hands files of the session's folder to the user."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self.spec = ToolSpec(
            SURFACE,
            "Give files of the working directory to the user.",
            parameters({"outputs": {**OUTPUTS, "minItems": 1}}, "outputs"),
            strict=True,
            exclusive=EXCLUSIVE,
            labels=("code", PRIVATE),
        )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        async with self._workbench.use(context) as session:
            everything = await asyncio.to_thread(snapshot, session.sandbox.workspace)
            collector = self._workbench.collector(session, SURFACE, context)
            made = await collector.collect(everything, output_names(arguments))
        status = "error" if made.problems else "success"
        return ToolOutput(f'{{"status":"{status}"}}' + made.section(), failed=not made.files, files=made.files)

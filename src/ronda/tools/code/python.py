"""`mistralrs_execute_python` and `mistralrs_reset_python_session`: code of the model's, in its session's own Python."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from ronda.core.parts import Image
from ronda.core.plan import ToolSpec
from ronda.core.taint import PRIVATE
from ronda.drive import ToolContext, ToolOutput
from ronda.sandbox.box import Sandbox
from ronda.sandbox.process import FULL
from ronda.tools.code.long_output import shown_text
from ronda.tools.code.outputs import output_names, snapshot
from ronda.tools.code.session import Execution, PythonResult, Session
from ronda.tools.code.workbench import Workbench
from ronda.tools.parameters import object_schema, parameters
from ronda.wire.shared.code_tools import PYTHON

RESET = "mistralrs_reset_python_session"
EXCLUSIVE = "code"  # Python and shell of one session share a folder

OUTPUTS = {
    "type": "array",
    "description": "Files that the code makes and that the user should get.",
    "items": {
        "anyOf": [
            object_schema({"name": {"type": "string"}, "format": {"type": "string"}}, "name"),
            {"type": "string"},  # its name, as models that were trained with other tools write it
        ]
    },
}

BEGAN_ANEW = (
    "This is a new Python: the one of earlier calls has ended. Its variables and imports are gone; the files are there."
)
TOO_MANY_FILES = f"The files of this session take more disk than is allowed. {FULL}"


class PythonTool:
    """Runs code where variables and imports of earlier calls are still there."""

    def __init__(self, workbench: Workbench, *, timeout: float = 60.0) -> None:
        self._workbench = workbench
        self._timeout = timeout
        self.spec = ToolSpec(
            PYTHON,
            "Run Python code. Variables and imports stay until the session is reset. Files that the code writes into its working "
            "directory are given to the user. There is no input(), and by default no network.",
            parameters({"code": {"type": "string", "description": "Python code."}, "outputs": OUTPUTS}, "code"),
            strict=True,
            exclusive=EXCLUSIVE,
            labels=workbench.labels,
            tool_type="code_execution",
        )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        async with self._workbench.use(context) as session:
            return await self._run(session, arguments, context)

    async def _run(self, session: Session, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        workspace, code = session.sandbox.workspace, arguments["code"]
        before = await asyncio.to_thread(snapshot, workspace)
        execution = await session.execute(code, timeout=self._timeout, show=context.progress)
        made = await self._workbench.collector(session, PYTHON, context).collect(before, output_names(arguments))
        result = await self._result(execution, session.sandbox, context.call_id)
        executed = execution.executed or PythonResult()
        details = {"tool_type": "code_execution", "code": code} | {
            name: result[name]
            for name in ("stdout", "stderr", "exception", "result", "working_directory", "execution_time_ms")
            if name in result
        }
        if execution.interrupted:
            details["timed_out"] = True
        if executed.frame_count:
            details |= {"video_frames_base64": executed.frames, "video_frame_count": executed.frame_count}
        return ToolOutput(
            msgspec.json.encode(result).decode() + made.section(),
            tuple(Image(f"data:image/png;base64,{image}") for image in executed.images),
            failed=result["status"] != "success",
            details=details,
            files=made.files,
        )

    async def _result(self, execution: Execution, sandbox: Sandbox, call: str) -> dict[str, Any]:
        """What the model reads; what is empty is left out."""
        executed = execution.executed
        streams = {"stdout": execution.stdout, "stderr": execution.stderr}
        texts = {name: await shown_text(stream, sandbox, f"{call}-{name}") for name, stream in streams.items()}
        result: dict[str, Any] = {"status": "success", "working_directory": sandbox.workdir}
        if notes := [BEGAN_ANEW] * execution.began_anew + [TOO_MANY_FILES] * (not execution.may_write):
            result["note"] = " ".join(notes)
        if execution.interrupted:
            killed = executed is None
            result["status"] = "timeout"
            result["timeout_info"] = {"timeout_secs": self._timeout, "interrupted": not killed, "killed": killed}
        elif executed is None:
            result["status"] = "error"
            texts["exception"] = f"Python subprocess error: {execution.problem}"
        if executed is not None:
            result["execution_time_ms"] = executed.execution_time_ms
            texts["exception"] = executed.exception or ""
            texts["result"] = executed.result or ""
            texts["result_type"] = executed.result_type or ""
            if executed.exception and not execution.interrupted:
                result["status"] = "error"
            if executed.images:
                result["images_generated"] = len(executed.images)
            if executed.frame_count:
                result["video_frames_generated"] = executed.frame_count
        return result | {name: text for name, text in texts.items() if text}


class ResetTool:
    """Forgets the session's variables; its files stay."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self.spec = ToolSpec(
            RESET,
            "Begin with a new Python: variables and imports are gone, files stay.",
            parameters({}),
            exclusive=EXCLUSIVE,
            labels=("code", PRIVATE),
            tool_type="code_execution",
            no_arguments_needed=True,
        )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        async with self._workbench.use(context) as session:
            await session.reset()
        return ToolOutput('{"status":"success"}', details={"tool_type": "code_execution"})

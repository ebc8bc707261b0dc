"""The Python and shell tools, each call in its session's sandbox, under the layer that this machine gives."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.timeouts import soon

from ronda.core.files import FileSource
from ronda.core.parts import File
from ronda.drive import ToolContext, ToolOutput
from ronda.errors import BadConfig, ToolFailed
from ronda.files.blobs import MemoryBlobs
from ronda.files.file_store import FileLimits, FileStore
from ronda.files.workspaces import Workspaces
from ronda.sandbox.folders import remove_tree
from ronda.sandbox.layers import Layers, choose_layer, find_layers
from ronda.sandbox.policy import Policy
from ronda.store.files import FileQuota
from ronda.store.memory import MemoryCatalog
from ronda.tools.code.outputs import Collector
from ronda.tools.code.python import PythonTool, ResetTool
from ronda.tools.code.shell import ShellTool, SurfaceTool
from ronda.tools.code.workbench import Workbench


class Watcher:
    """A follower of a run."""

    files: tuple[File, ...] = ()
    whole_results: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.shown = ""
        self.seen = asyncio.Event()

    def progress(self, call_id: str, text: str, stream: str = "", part: int = 0) -> None:
        self.shown += text
        self.seen.set()

    async def ask(self, call_id: str, message: str, schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return None


class Sessions:
    """A workbench, and calls of its tools by any session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.watcher = Watcher()
        self.workbench = Workbench(Policy(max_memory_mb=512), self._workspace, outside=os.environ)

    def _workspace(self, context: ToolContext) -> Path:
        workspace = self._folder / f"{context.owner}-{context.session}"
        workspace.mkdir(exist_ok=True)
        return workspace

    def context(self, session: str) -> ToolContext:
        return ToolContext("run", session, 0, "call", owner="me", channel=self.watcher)

    async def python(self, code: str, *, session: str = "s", timeout: float = 60.0, **more: Any) -> ToolOutput:
        return await PythonTool(self.workbench, timeout=timeout).run({"code": code, **more}, self.context(session))

    async def shell(self, *commands: str, shell: str = "/bin/sh", timeout: float = 60.0, **more: Any) -> ToolOutput:
        tool = ShellTool(self.workbench, shell=shell, timeout=timeout)
        return await tool.run({"commands": list(commands), **more}, self.context("s"))


@pytest.fixture(scope="module")
def layers() -> Layers:
    return find_layers()


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="ronda-test-"))  # pytest's own is closed for other users
    made.chmod(0o755)
    yield made
    for workspace in list(made.iterdir()):
        remove_tree(workspace)
    shutil.rmtree(made)


@pytest.fixture
async def sessions(layers: Layers, folder: Path) -> AsyncIterator[Sessions]:
    try:
        choose_layer(Policy(), layers)
    except BadConfig as error:
        pytest.skip(str(error))
    opened = Sessions(folder)
    yield opened
    await opened.workbench.close()


def result(output: ToolOutput) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(output.content.split("\nFiles:")[0])
    return {name: value for name, value in told.items() if name not in ("execution_time_ms", "working_directory")}


def contents(output: ToolOutput) -> dict[str | None, bytes]:
    return {file.name: base64.b64decode((file.data or "").partition(",")[2]) for file in output.files}


async def test_variables_and_imports_stay_and_sessions_are_apart(sessions: Sessions) -> None:
    await sessions.python("import math\nx = 20")

    assert result(await sessions.python("x += 1\nmath.floor(x * 2.1)")) == {
        "status": "success",
        "result": "44",
        "result_type": "int",
    }
    other = await sessions.python("x", session="another")
    assert (other.failed, result(other)["exception"].splitlines()[-1]) == (True, "NameError: name 'x' is not defined")


async def test_everything_it_says_is_told_and_shown_while_it_runs(sessions: Sessions) -> None:
    code = (
        "import os, sys\nprint('out')\nprint('err', file=sys.stderr)\nos.system('echo child')\nos.write(1, b'raw\\n')\n"
    )

    output = await sessions.python(code)

    assert result(output) == {
        "status": "success",
        "stdout": "out\nchild\nraw\n",
        "stderr": "err\n",
        "result": "4",
        "result_type": "int",
    }
    assert sorted(sessions.watcher.shown.split()) == ["child", "err", "out", "raw"]
    assert output.details is not None
    assert dict(output.details) | {"execution_time_ms": 0} == {
        "tool_type": "code_execution",
        "code": code,
        "stdout": "out\nchild\nraw\n",
        "stderr": "err\n",
        "result": "4",
        "working_directory": json.loads(output.content)["working_directory"],
        "execution_time_ms": 0,
    }


async def test_an_exception_has_the_traceback_of_the_code_alone(sessions: Sessions) -> None:
    told = result(await sessions.python("def f(x):\n    return 1 / x\n\nf(0)\n"))

    # Which of the lines have marks below them depends on the version of Python.
    lines = [line for line in told.pop("exception").splitlines() if set(line) - set(" ~^")]
    assert told == {"status": "error"}
    assert lines == [
        "Traceback (most recent call last):",
        '  File "<call 1>", line 4, in <module>',
        "    f(0)",
        '  File "<call 1>", line 2, in f',
        "    return 1 / x",
        "ZeroDivisionError: division by zero",
    ]


@pytest.mark.parametrize(
    ("code", "exception"),
    [
        ("import sys; sys.exit(3)", "SystemExit: Code called sys.exit(3)."),
        (
            "import sys; sys.stdin.readline()",
            "RuntimeError: no person can type an answer here: input() is not available",
        ),
        ("input('name? ')", "RuntimeError: no person can type an answer here: input() is not available"),
        ("1 +", "SyntaxError: invalid syntax"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: Execution was interrupted."),
    ],
)
async def test_what_the_code_does_to_itself_is_told(sessions: Sessions, code: str, exception: str) -> None:
    output = await sessions.python(code)

    assert result(output)["exception"].splitlines()[-1] == exception
    assert result(await sessions.python("1")) == {"status": "success", "result": "1", "result_type": "int"}


async def test_at_its_timeout_it_is_interrupted_and_keeps_its_variables(sessions: Sessions) -> None:
    output = await sessions.python("x = 1\nprint('begun', flush=True)\nwhile True: pass", timeout=1.0)

    assert result(output) == {
        "status": "timeout",
        "timeout_info": {"timeout_secs": 1.0, "interrupted": True, "killed": False},
        "stdout": "begun\n",
        "exception": "KeyboardInterrupt: Execution was interrupted.",
    }
    assert result(await sessions.python("x"))["result"] == "1"


async def test_code_that_dies_is_told_and_the_next_call_has_a_new_python(sessions: Sessions) -> None:
    output = await sessions.python("x = 1\nprint('here', flush=True)\nimport os; os._exit(9)")

    assert result(output) == {
        "status": "error",
        "stdout": "here\n",
        "exception": "Python subprocess error: the sandboxed program is gone: it exited with code 9",
    }
    assert "NameError" in result(await sessions.python("x"))["exception"]


@pytest.mark.parametrize(
    "answer",
    [
        b"null",
        b"",
        b'{"call": "\xff"}',
        b'{"\xff": 1}',
        b'{"call": "x", "frame_count": 1e999}',
        b'{"call": "x", "images": ' + b"[" * 5000,
    ],
    ids=["null", "nothing", "no text", "no key", "no number", "no end"],
)
async def test_a_forged_answer_is_no_result(sessions: Sessions, answer: bytes) -> None:
    frame = len(answer).to_bytes(4, "big") + answer
    code = f"import os\nfor fd in range(3, 64):\n    try: os.write(fd, {frame!r})\n    except OSError: pass"

    assert result(await sessions.python(code))["exception"] == (
        "Python subprocess error: the code has sent something that is no result"
    )


@pytest.mark.parametrize(
    "code",
    [
        "import json; json.dumps = lambda *_, **__: 'x'",
        "import json.encoder; json.encoder.JSONEncoder.encode = lambda *_: 'x'",
        "import os; os.write = os.read = None",
        "import struct, time; struct.pack = struct.unpack = time.monotonic = None",
    ],
)
async def test_code_that_changes_what_results_travel_with_is_not_the_end_of_its_session(
    sessions: Sessions, code: str
) -> None:
    await sessions.python(code)

    assert result(await sessions.python("1 + 1"))["result"] == "2"


AHEAD = """
import json, os, struct, sys

class Late:
    def __repr__(self):
        call = sys._getframe(2).f_locals["request"]["call"]
        for answer in ({"call": call, "result": "first"}, {"call": call, "result": "forged"}):
            frame = json.dumps(answer).encode()
            os.write(3, struct.pack("!I", len(frame)) + frame)
        return ""

Late()
"""


async def test_an_answer_written_ahead_is_not_that_of_the_next_call(sessions: Sessions) -> None:
    """The name of a call is not known before it is made."""
    first = await sessions.python(AHEAD)
    second = await sessions.python("1")

    assert result(first)["result"] == "first"
    assert "something that is no result" in result(second)["exception"]
    assert result(await sessions.python("2"))["result"] == "2"


async def test_a_python_that_does_not_listen_is_ended_in_time(sessions: Sessions) -> None:
    """More than its channel holds."""
    code = (
        "import sys, time\nframe = sys._getframe()\nwhile '_read_some' not in frame.f_globals: frame = frame.f_back\n"
    )
    await sessions.python(code + "frame.f_globals['_read_some'] = lambda *_: time.sleep(1000)")
    output = await sessions.python("#" * 2_000_000, timeout=0.5)

    assert result(output)["status"] == "timeout"
    assert result(await sessions.python("1"))["result"] == "1"


async def test_a_command_that_says_no_exit_code_ends_the_call(sessions: Sessions) -> None:
    async with soon():
        output = await sessions.shell("printf '\\000\\000\\000\\003abc' >&3; sleep 100000", "echo two")

    assert result(output)["status"] == "error"
    assert len((output.details or {})["outputs"]) == 1
    assert result(await sessions.shell("echo again"))["stdout"] == "again\n"


async def test_text_that_is_none_is_told_all_the_same(sessions: Sessions) -> None:
    output = await sessions.python("raise ValueError('\\udcff')")

    assert result(output)["exception"].endswith("ValueError: \\udcff")


async def test_nobody_can_ask_for_output_without_end(sessions: Sessions) -> None:
    output = await sessions.shell("yes | head -c 3000000", max_output_length=10**15)

    assert len(result(output)["stdout"]) < 300_000


async def test_a_file_with_the_name_of_a_module_is_the_codes_alone(sessions: Sessions) -> None:
    """Limits are set before anything of the workspace is looked at."""
    bomb = "import resource; open('limit', 'w').write(str(resource.getrlimit(resource.RLIMIT_NPROC)[0]))"
    names = ("json", "resource", "ast", "site", "sitecustomize", "usercustomize")
    await sessions.python(f"for name in {names!r}: open(name + '.py', 'w').write({bomb!r})")
    await ResetTool(sessions.workbench).run({}, sessions.context("s"))

    assert result(await sessions.python("import os; os.path.exists('limit')"))["result"] == "False"
    limits = "import sys; sys.path.pop(0); import resource; resource.getrlimit(resource.RLIMIT_NOFILE)"
    assert result(await sessions.python(limits))["result"] == "(1024, 1024)"


async def test_a_reset_forgets_variables_and_keeps_files(sessions: Sessions) -> None:
    await sessions.python("x = 1\nopen('kept.txt', 'w').write('here')")

    reset = await ResetTool(sessions.workbench).run({}, sessions.context("s"))

    assert reset.content == '{"status":"success"}'
    assert result(await sessions.python("open('kept.txt').read(), 'x' in globals()"))["result"] == "('here', False)"


async def test_files_it_makes_and_names_are_handed_on(sessions: Sessions) -> None:
    first = await sessions.python(
        "import os\nos.makedirs('a/__pycache__')\nopen('a/new.csv', 'w').write('1')\nopen('a/__pycache__/x', 'w').close()\n"
        "os.symlink('/etc/hostname', 'link.txt')",
        outputs=[{"name": "link.txt"}, {"name": "gone.txt"}],
    )
    second = await sessions.python("open('two.csv', 'w').write('2')", outputs=["a/new.csv"])

    assert contents(first) == {"a/new.csv": b"1"}
    assert first.content.partition("\nFiles:\n")[2].splitlines() == [
        "- a/new.csv",
        "- link.txt: the output 'link.txt' cannot be read: it is a symbolic link, or in a folder that is one",
        "- gone.txt: the output 'gone.txt' cannot be read: not produced",
    ]
    assert contents(second) == {"a/new.csv": b"1", "two.csv": b"2"}


async def test_a_picture_that_is_none_is_left_out(sessions: Sessions) -> None:
    """Code can write answers of its own; what it calls a picture would be sent to a model."""
    forged = {"images": ["no base64", "QUJD"], "frames": ["QUJD"], "frame_count": 1, "result": "x" * 100_000}
    output = await sessions.python(
        "import json, os, struct, sys\n"
        f"answer = {forged!r}\n"
        "answer['call'] = sys._getframe(3).f_locals['request']['call']\n"
        "frame = json.dumps(answer).encode()\n"
        "os.write(3, struct.pack('!I', len(frame)) + frame)"
    )
    assert output.attachments == ()
    assert 60_000 < len(result(output)["result"]) < 70_000


async def test_a_call_that_is_cancelled_ends_its_python(sessions: Sessions) -> None:
    call = asyncio.create_task(sessions.python("print('begun', flush=True)\nwhile True: pass"))
    async with soon():
        await sessions.watcher.seen.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    assert result(await sessions.python("1"))["result"] == "1"


async def test_an_idle_session_loses_its_processes_and_no_file(sessions: Sessions) -> None:
    await sessions.python("x = 1\nopen('kept.txt', 'w').write('here')")

    await sessions.workbench.close_idle(0.0)

    assert result(await sessions.python("open('kept.txt').read(), 'x' in globals()"))["result"] == "('here', False)"


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
async def test_each_command_is_reported_by_itself(sessions: Sessions, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    output = await sessions.shell(
        "mkdir d; cd d; export A=1",
        "pwd | sed 's:.*/::'; echo $A",
        "echo 'it'\\''s' >&2; (exit 3)",
        "true",
        shell=shell,
    )

    assert output.details is not None
    assert output.details["outputs"] == [
        {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
        {"stdout": "d\n1\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
        {"stdout": "", "stderr": "it's\n", "outcome": {"type": "exit", "exit_code": 3}},
        {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
    ]
    told = result(output)
    assert (told["status"], told["stdout"], told["stderr"], told["exit_code"], told["timed_out"]) == (
        *("success", "d\n1\n", "it's\n", 0, False),
    )


async def test_a_failing_last_command_fails_the_call(sessions: Sessions) -> None:
    output = await sessions.shell("echo a", "exit 4", "echo never")

    assert (output.failed, result(output)["status"], result(output)["exit_code"], result(output)["stdout"]) == (
        True,
        "error",
        4,
        "a\n",
    )


@pytest.mark.parametrize("code", [0, 3])
async def test_commands_behind_one_that_ends_the_shell_are_told_as_not_run(sessions: Sessions, code: int) -> None:
    output = await sessions.shell("echo a", f"exit {code}", "echo never", "echo ever")

    told = result(output)
    assert (output.failed, told["status"], told["exit_code"], told["stdout"]) == (True, "error", code, "a\n")
    assert told["not_run"] == ["echo never", "echo ever"]
    assert "2 later commands did not run" in told["stderr"]
    assert output.details is not None
    assert "2 later commands did not run" in output.details["outputs"][-1]["stderr"]


async def test_a_request_can_lower_the_timeout_and_not_raise_it(sessions: Sessions) -> None:
    lowered = await sessions.shell("echo a", "sleep 600", timeout_ms=2000)
    clamped = await sessions.shell("sleep 600", timeout=0.3, timeout_ms=600_000)

    assert lowered.details is not None
    assert [output["outcome"]["type"] for output in lowered.details["outputs"]] == ["exit", "timeout"]
    assert [result(output)["status"] for output in (lowered, clamped)] == ["timeout", "timeout"]
    assert result(lowered)["stdout"] == "a\n"


async def test_background_processes_end_with_the_call_and_files_stay(sessions: Sessions) -> None:
    await sessions.shell("(sleep 600; touch late) & echo here > file")

    assert result(await sessions.shell("cat file; ls"))["stdout"] == "here\nfile\n"
    assert result(await sessions.python("open('file').read()"))["result"] == "'here\\n'"


async def test_long_output_is_cut_in_its_middle_and_can_be_read_from_a_file(sessions: Sessions) -> None:
    output = await sessions.shell("echo ok", "printf '%01000d' 7", max_output_length=250)
    flood = await sessions.python("print('x' * 100_000 + 'end')")
    small = await sessions.python("len(open('.outputs/call-stdout.txt').read()), 1")

    *_, second = (output.details or {})["outputs"]
    assert "\n… 750 of 1000 bytes left out; all of them are in .outputs/call-2-stdout.txt …\n" in second["stdout"]
    shown = result(flood)["stdout"]
    assert shown.startswith("xxx")
    assert shown.endswith("end\n")
    assert len(shown) < 33_000
    assert result(small)["result"] == "(100004, 1)"
    assert output.files == flood.files == ()


async def test_a_file_of_output_is_never_written_through_a_link(sessions: Sessions) -> None:
    await sessions.python("import os; os.mkdir('elsewhere'); os.symlink('elsewhere', '.outputs')")
    flood = await sessions.python("print('x' * 100_000)")
    assert "bytes left out …" in result(flood)["stdout"]
    assert result(await sessions.python("os.listdir('elsewhere')"))["result"] == "[]"


async def test_what_one_call_hands_over_has_an_end(tmp_path: Path) -> None:
    """However many files there are, and however little room they take: these are holes."""
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, 1_000_000)
    store = FileStore(MemoryCatalog().files, MemoryBlobs())
    context = ToolContext("run", "s", 0, "call", owner="me")

    made = await Collector(tmp_path, "python", context, store, total=2_500_000).collect({}, [])

    assert [file.name for file in made.files] == ["a", "b"]
    assert [name for name, problem in made.problems if "exceeds max output size" in problem] == ["c"]


async def test_files_are_surfaced_by_name(sessions: Sessions) -> None:
    await sessions.shell("echo 1 > a.csv; ln -s /etc/hostname b.csv")

    surfaced = await SurfaceTool(sessions.workbench).run(
        {"outputs": [{"name": "a.csv"}, {"name": "b.csv"}]}, sessions.context("s")
    )

    assert contents(surfaced) == {"a.csv": b"1\n"}
    assert "symbolic link" in surfaced.content


@pytest.mark.parametrize(
    ("commands", "problem"),
    [
        ([], "Missing shell commands"),
        (["echo \0"], "NUL"),
        (["true", "echo " + "x" * 140_000], "write a large file in several calls"),
    ],
)
async def test_commands_that_are_none_are_refused(sessions: Sessions, commands: list[str], problem: str) -> None:
    with pytest.raises(ToolFailed, match=problem):
        await sessions.shell(*commands)


async def test_where_code_cannot_be_isolated_no_tool_runs(sessions: Sessions) -> None:
    workbench = Workbench(Policy(), sessions._workspace, outside={}, layers=Layers())

    with pytest.raises(BadConfig, match="code cannot be isolated on this machine"):
        await PythonTool(workbench).run({"code": "1"}, sessions.context("s"))


# ---- files that are kept -----------------------------------------------------------------------------------------------


@pytest.fixture
async def kept(folder: Path) -> AsyncIterator[tuple[Sessions, FileStore]]:
    sessions, store = Sessions(folder), FileStore(MemoryCatalog().files, MemoryBlobs())
    workspaces = Workspaces(folder / "work")
    sessions.workbench = Workbench(
        Policy(max_memory_mb=512),
        lambda context: workspaces.folder(context.owner, context.session),
        outside=os.environ,
        files=store,
    )
    yield sessions, store
    await sessions.workbench.close()
    remove_tree(folder / "work")


async def test_what_code_makes_is_kept_for_its_session(kept: tuple[Sessions, FileStore]) -> None:
    sessions, store = kept
    output = await sessions.python("open('a.csv', 'w').write('x,y'); open('b.bin', 'wb').write(bytes([255]))")
    first, second = await store.of("me", "s")
    assert [(file.name, file.is_text, file.purpose) for file in (first, second)] == [
        ("a.csv", True, "agent_output"),
        ("b.bin", False, "agent_output"),
    ]
    assert first.source == FileSource("mistralrs_execute_python", 0)
    assert await store.read(first) == b"x,y"
    assert [file.id for file in output.files] == [first.id, second.id]
    assert output.content.endswith(
        f"\nFiles:\n- a.csv (csv, text, 3 bytes, id {first.id})\n- b.bin (bin, binary, 1 bytes, id {second.id})"
    )
    again = await sessions.shell("echo z >> a.csv")
    assert [file.name for file in again.files] == ["a.csv"]
    assert len(await store.of("me", "s")) == 3


async def test_a_large_file_is_kept_and_does_not_travel_with_the_result(kept: tuple[Sessions, FileStore]) -> None:
    sessions, store = kept
    output = await sessions.python("for n in range(3): open(f'{n}.bin', 'wb').write(bytes(4_000_000))")
    assert [file.data is None for file in output.files] == [False, False, True]
    assert [file.size for file in await store.of("me", "s")] == [4_000_000] * 3


async def test_what_is_over_the_quota_is_told_to_the_model(kept: tuple[Sessions, FileStore]) -> None:
    sessions, store = kept
    store.limits = FileLimits(quota=FileQuota(files=1))
    output = await sessions.python("open('a', 'w').write('1'); open('b', 'w').write('2')")
    assert [file.name for file in output.files] == ["a"]
    assert "- b: there is no room for this file" in output.content


async def test_a_session_with_too_many_files_can_delete_some_and_goes_on(layers: Layers, sessions: Sessions) -> None:
    sessions.workbench = Workbench(Policy(max_disk_mb=10), sessions._workspace, outside=os.environ)
    try:
        large = sessions._workspace(sessions.context("s")) / "large"
        large.write_bytes(b"x" * (11 << 20))
        ended = await sessions.python("import signal; signal.pause()")
        written = await sessions.python("import pathlib\npathlib.Path('new').write_text('x')")
        shell = await sessions.shell("echo x > new", "rm -f large new", "ls")
        again = await sessions.python("import pathlib\npathlib.Path('new').write_text('x')")
    finally:
        await sessions.workbench.close()

    assert "more disk than the sandbox allows" in result(ended)["exception"]
    assert "can delete files and write none" in result(ended)["exception"]
    assert result(written)["exception"].splitlines()[-1] == "OSError: [Errno 27] File too large"
    assert "take more disk than is allowed" in result(written)["note"]
    assert "take more disk than is allowed" in result(shell)["note"]
    assert result(again) == {"status": "success", "result": "1", "result_type": "int"}

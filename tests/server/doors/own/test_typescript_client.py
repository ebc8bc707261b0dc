"""The small client, in TypeScript: it passes the compiler, and works with a real server."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.interaction.doors import Door, soon
from tests.server.doors.own.test_python_client import until_asked
from tests.server.runs_door import Deleting

from ronda.providers.script import ScriptedModel, calls, says

ROOT = Path(__file__).parents[4]
TSC = ROOT / "web/node_modules/.bin/tsc"
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.skipif(NODE is None, reason="node is not installed"),
    pytest.mark.skipif(not TSC.exists(), reason="web has no packages: npm ci --prefix web"),
]

PROGRAM = """
import { Ronda, RondaHttpError } from "./ronda.js";

const client = new Ronda({ baseUrl: process.env.RONDA_URL });
const [act, run] = process.argv.slice(2);
if (act === "start") {
  const started = await client.startRuns({ input: "go" });
  console.log(started.data[0].id);
} else if (act === "decide") {
  const waiting = await client.listApprovals();
  console.log((await client.decide(waiting.data[0].approval_id, { decision: "approve" })).status);
} else {
  const kinds = [];
  for await (const { event } of client.followRun(run)) kinds.push(event.type);
  const found = await client.getRun(run);
  const listed = await client.listRuns({ limit: 5, children: false });
  const refused = await client.getRun("run_x").catch((error) => error instanceof RondaHttpError && error.code);
  const text = found.result.text;
  console.log(JSON.stringify({ first: kinds[0], last: kinds.at(-1), text, count: listed.data.length, refused }));
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("client")
    options = [
        "--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--noUnusedLocals", "--target", "es2023",
        "--lib", "es2023,dom,dom.iterable,dom.asynciterable", "--module", "esnext", "--moduleResolution", "bundler",
        "--rewriteRelativeImportExtensions", "--ignoreConfig", "--types", "", "--outDir", str(folder),
    ]  # fmt: skip
    source = ROOT / "clients/typescript/ronda.ts"
    done = subprocess.run(
        [str(TSC), *options, str(source)], capture_output=True, text=True, timeout=240, cwd=ROOT / "web"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "package.json").write_text(json.dumps({"type": "module"}))
    (folder / "program.js").write_text(PROGRAM)
    return folder


async def _run(compiled: Path, url: str, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        str(NODE),
        str(compiled / "program.js"),
        *arguments,
        env={**os.environ, "RONDA_URL": url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with soon():
        out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return out.decode().strip()


async def test_a_run_is_started_decided_about_followed_and_read(door: Door, compiled: Path) -> None:
    deleting = Deleting()
    async with door.serving(ScriptedModel(calls("delete", path="x"), says("Gone.")), deleting.tool) as served:
        run = await _run(compiled, served.url, "start")
        await until_asked(served)
        decided = await _run(compiled, served.url, "decide")
        found = json.loads(await _run(compiled, served.url, "read", run))
    assert (decided, deleting.deleted) == ("resolved", ["x"])
    assert found == {
        "first": "run_started",
        "last": "run_finished",
        "text": "Gone.",
        "count": 1,
        "refused": "run_not_found",
    }

"""`pip install ronda` has the library and a few commands. Everything else names the extra that it lacks, in one line."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from packaging.requirements import Requirement
from tests.bare_install import install, needed, python
from tests.test_lock_files import PROJECT, USERS_EXTRAS

from ronda import _extras

CORE = {"msgspec", "httptools", "aiohappyeyeballs", "jsonschema-rs", "pyyaml", "jinja2", "markupsafe"}

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[str]], Path]:
    @cache
    def made(extras: tuple[str, ...]) -> Path:
        folder = tmp_path_factory.mktemp("install") / "site"
        install(folder, extras)
        return folder

    return lambda extras: made(tuple(extras))


@pytest.fixture
def run(installed: Callable[[Sequence[str]], Path], tmp_path: Path) -> Run:
    """Python without extras, or with those that are named."""
    (tmp_path / "script.json").write_text('["hello"]')
    (tmp_path / "hi.prompty").write_text("---\nname: hi\nmodel: script:script.json\n---\nuser:\nHi\n")

    def run(*words: str, extras: Sequence[str] = ()) -> CompletedProcess[str]:
        return python(installed(extras), *words, cwd=tmp_path)

    return run


def test_the_library_brings_seven_packages() -> None:
    assert needed() == CORE


def test_the_table_of_extras_is_that_of_the_project() -> None:
    assert sorted(_extras.MODULES) == USERS_EXTRAS
    assert PROJECT["optional-dependencies"]["all"] == [f"ronda[{','.join(USERS_EXTRAS)}]"]


# ---- what works without any ------------------------------------------------------------------------------------------

PROGRAM = """
import json
import re
from ronda import Agent, run_agent, tool

@tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

from ronda.testing import ScriptedModel, calls, says
result = run_agent(Agent(ScriptedModel(calls("add", a=1, b=2), says("three")), tools=[add]), "add")
print(json.dumps([result.output, result.tool_calls[0].content]))
"""


def test_an_agent_with_a_tool_runs(run: Run) -> None:
    done = run("-c", PROGRAM)

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == ["three", "3"]


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (["run", "--model", "script:script.json", "hi"], "hello"),
        (["validate", "hi.prompty"], "hi.prompty: no problems"),
        (["render", "hi.prompty"], "Hi"),
        (["doctor"], "page"),
        (["schema"], '"$schema"'),
        (["sessions", "list"], ""),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_of_the_library_works(run: Run, command: list[str], printed: str) -> None:
    done = run("-m", "ronda", *command)

    assert printed in done.stdout, done.stderr
    assert "Traceback" not in done.stderr


def test_a_cassette_is_recorded_and_played(run: Run) -> None:
    recorded = run("-m", "ronda", "record", "-o", "a.jsonl", "--model", "script:script.json", "hi")
    played = run("-m", "ronda", "replay", "a.jsonl")

    assert (recorded.returncode, played.returncode) == (0, 0), recorded.stderr + played.stderr
    assert "hello" in played.stdout


# ---- what does not, and says so --------------------------------------------------------------------------------------

OPENAPI = """---
name: api
model: script:script.json
tools:
  - name: shop
    kind: openapi
    specification: shop.json
---
user:
Hi
"""
MCP = """---
name: time
model: script:script.json
tools:
  - name: clock
    kind: mcp
    serverName: clock
---
user:
Hi
"""
REDACT = 'model = "script:script.json"\n[[redact]]\npattern = "secret"\n'
OIDC = """model = "script:script.json"
[oidc]
issuer = "https://login.example"
client_id = "ronda"
redirect_url = "https://ronda.example/v1/oidc/callback"
"""
# A request that would cost an unknown amount, where money is limited: refused before the model is called.
BUDGET = """
import asyncio
import json
from ronda.server import create_app

LIMITS = {"enabled": True, "limits": [{"scope": "owner", "per": "day", "usd": 1.0}]}
app = create_app("openai:gpt-5.5", base_url="http://127.0.0.1:9/v1", data_dir=":memory:", budgets=LIMITS)
body = json.dumps({"model": "default", "messages": [{"role": "user", "content": "Hi"}]}).encode()

async def receive():
    return {"type": "http.request", "body": body}

async def send(message):
    print(message.get("body", b"").decode())

headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b"", "headers": headers}
asyncio.run(app(scope, receive, send))
"""
SERVER = ("server",)
DATABASE = ("server", "postgres")
SERVE = ["serve", "--port", "0", "--data-dir", ":memory:", "--model", "script:script.json"]
# What is asked, which extras are there, and which one is missing.
COMMANDS = {
    "serve": (["serve"], (), "server"),
    "worker": (["worker", "--database", "postgresql://127.0.0.1:1/x"], (), "server"),
    "chat": (["chat"], (), "cli"),
    "run": (["run", "hi"], (), "local"),
    "run --enable-search": (["run", "--model", "script:script.json", "--enable-search", "hi"], (), "web"),
    "run --search-folder": (["run", "--model", "script:script.json", "--search-folder", ".", "hi"], (), "web"),
    "run FILE with openapi": (["run", "api.prompty"], (), "web"),
    "run FILE with mcp": (["run", "time.prompty"], (), "mcp"),
    "mcp serve": (["mcp", "serve"], (), "mcp"),
    "mcp serve with mcp": (["mcp", "serve"], ("mcp",), "server"),
    "page setup": (["page", "setup"], (), "page"),
    "serve local": (["serve", "--port", "0", "--data-dir", ":memory:"], SERVER, "local"),
    "serve --enable-search": ([*SERVE, "--enable-search"], SERVER, "web"),
    "serve --otel": ([*SERVE, "--otel"], SERVER, "otel"),
    "serve --metrics": ([*SERVE, "--metrics"], SERVER, "metrics"),
    "serve --database": ([*SERVE, "--database", "postgresql://127.0.0.1:1/x"], SERVER, "postgres"),
    "serve --queue dbos": ([*SERVE, "--database", "postgresql://127.0.0.1:1/x", "--queue", "dbos"], DATABASE, "dbos"),
    "worker --queue dbos": (
        ["worker", "--database", "postgresql://127.0.0.1:1/x", "--queue", "dbos"],
        DATABASE,
        "dbos",
    ),
    "serve --schedules": ([*SERVE, "--schedules"], SERVER, "schedules"),
    "schedule list": (["schedule", "list"], SERVER, "schedules"),
    "serve with [[redact]]": (["serve", "--port", "0", "--config", "redact.toml"], SERVER, "redact"),
    "serve with [oidc]": (["serve", "--port", "0", "--config", "oidc.toml"], SERVER, "oidc"),
    "serve --file-store": (
        ["serve", "--port", "0", "--model", "script:script.json", "--data-dir", "d", "--file-store", "s3://b/p"],
        SERVER,
        "s3",
    ),
}


@pytest.mark.parametrize(("words", "extras", "missing"), COMMANDS.values(), ids=COMMANDS.keys())
def test_a_command_names_the_extra_in_one_line(
    run: Run, tmp_path: Path, words: list[str], extras: tuple[str, ...], missing: str
) -> None:
    (tmp_path / "api.prompty").write_text(OPENAPI)
    (tmp_path / "time.prompty").write_text(MCP)
    (tmp_path / "shop.json").write_text('{"openapi": "3.0.0", "info": {}, "paths": {}}')
    (tmp_path / "redact.toml").write_text(REDACT)
    (tmp_path / "oidc.toml").write_text(OIDC)

    done = run("-m", "ronda", *words, extras=extras)

    [line] = done.stderr.splitlines()
    assert line.startswith("ronda: ")
    way_out = "; or ask another model: --model ollama:qwen3, --model openai:gpt-5.5, …" if missing == "local" else ""
    assert line.endswith(f"pip install 'ronda[{missing}]'{way_out}")
    assert (done.returncode, done.stdout) == (2, "")


def test_a_new_project_answers_before_there_is_a_model(run: Run, tmp_path: Path) -> None:
    (tmp_path / "script.json").unlink()  # the project brings its own
    made = run("-m", "ronda", "init", ".")
    [command] = [line.strip() for line in made.stdout.splitlines() if line.startswith("    ronda run")]

    done = run("-m", *shlex.split(command))

    assert (done.returncode, done.stdout) == (0, "A pear costs 0.40 euros.\n")


LIBRARY = {
    "local:": ("from ronda import Agent, run_agent; run_agent(Agent('local:smollm2'), 'hi')", "local"),
    "web_search": ("import ronda; ronda.web_search()", "web"),
    "fetch": ("import ronda; ronda.fetch()", "web"),
    "folder": ("import ronda; ronda.folder('.')", "web"),
    "mcp": ("import ronda; ronda.mcp('uvx', 'mcp-server-time')", "mcp"),
    "create_app": ("from ronda.server import create_app; create_app('script:script.json')", "server"),
    "Runner": ("from ronda import Runner; Runner('script:script.json')", "server"),
    "mistralrs": ("from ronda.mistralrs import Runner, Which; Runner(Which.Plain('script:script.json'))", "server"),
    "open_page_services": (
        "from ronda.tools.page import open_page_services, PageProject; open_page_services('page', 'page')",
        "page",
    ),
}


@pytest.mark.parametrize(("program", "missing"), LIBRARY.values(), ids=LIBRARY.keys())
def test_a_program_gets_an_error_that_names_the_extra(run: Run, program: str, missing: str) -> None:
    done = run("-c", program)

    assert done.stderr.splitlines()[-1].endswith(f"pip install 'ronda[{missing}]'"), done.stderr
    assert "MissingPackages" in done.stderr


def test_a_doctor_names_the_extra_that_knows_prices(run: Run, tmp_path: Path) -> None:
    """Without it a server answers: what a call costs is unknown."""
    (tmp_path / "ronda.toml").write_text('model = "openai:gpt-5.5"\nbase_url = "http://127.0.0.1:9/v1"\n')

    done = run("-m", "ronda", "doctor", "--config", "ronda.toml", extras=SERVER)

    [line] = [line for line in done.stdout.splitlines() if line.startswith("prices ")]
    assert line.endswith("no price is known of 'openai:gpt-5.5'  → pip install 'ronda[prices]'"), line


def test_a_budget_in_dollars_names_the_extra_that_knows_prices(run: Run) -> None:
    done = run("-c", BUDGET, extras=SERVER)

    assert (
        "the operator can give a price under [prices], install the table of prices (pip install 'ronda[prices]')"
        in (done.stdout)
    ), done.stderr


def test_each_extra_is_tried() -> None:
    """`files` in tests/server/services/test_documents.py: what is missing is missing inside a sandbox."""
    tried = {missing for *_, missing in [*COMMANDS.values(), *LIBRARY.values()]}
    assert sorted({*tried, "prices", "files"}) == USERS_EXTRAS


def test_validate_warns_of_a_tool_that_it_cannot_look_at(run: Run, tmp_path: Path) -> None:
    (tmp_path / "api.prompty").write_text(OPENAPI)

    done = run("-m", "ronda", "validate", "api.prompty")

    assert done.returncode == 0
    assert "warning: the tool 'shop' of kind 'openapi' needs packages" in done.stdout
    assert "pip install 'ronda[web]'" in done.stdout


def test_the_page_about_installing_lists_what_each_extra_brings() -> None:
    page = (Path(__file__).parent.parent / "docs" / "install.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", page, re.MULTILINE))
    extras = PROJECT["optional-dependencies"]
    brought = {name: [Requirement(one).name for one in extras[name]] for name in USERS_EXTRAS}

    assert {name: row.strip().split(", ") for name, row in rows.items() if row.strip()} == brought

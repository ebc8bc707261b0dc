"""What people get wrong on the command line: one message each, which says what to do, and never a traceback."""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import script, shown
from tests.timeouts import TIMEOUT

from ronda.cli.commands import COMMANDS, Command
from ronda.cli.settings import read_config
from ronda.errors import BadConfig
from ronda.server.features.agents.settings import AgentSettings

KEYS = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
)
LONG = "line\n" * 100_000


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*KEYS, "MISTRAL_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def prompty(folder: Path, text: str) -> str:
    script(folder)
    file = folder / "agent.prompty"
    file.write_text(text)
    return str(file)


def started(*arguments: str, **environ: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "ronda", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environ},
    )


# ---- flags and commands ----------------------------------------------------------------------------------------------


def test_without_a_command_it_says_where_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = shown(capsys)
    assert (code, out) == (2, "")
    assert "'ronda --help' lists all commands" in err

    code, out, err = shown(capsys, "--help")
    assert (code, err) == (0, "")
    assert "list what is wrong with prompty files" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["run", "hi", "--streem"],
            "there is no flag '--streem'; did you mean '--stream'? 'ronda run --help' lists them",
        ),
        (["serve", "--prot=80"], "there is no flag '--prot'; did you mean '--port'? 'ronda serve --help' lists them"),
        (["render", "a.prompty", "--zzz"], "there is no flag '--zzz'; 'ronda render --help' lists them"),
        (["run", "two", "words"], "'words' is one argument too many; put quotes around a prompt of several words"),
        (["render", "a.prompty", "b.prompty"], "'b.prompty' is one argument too many"),
    ],
)
def test_a_misspelt_flag_is_named_with_the_right_one(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    code, out, err = shown(capsys, *arguments)

    assert (code, out) == (2, "")
    assert err == f"ronda: {said}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["backup"], "'ronda backup' needs FILE.tar.gz"),
        (["run", "hi", "--max-tokens", "x"], "--max-tokens is 'x'; it is a whole number"),
        (["run", "hi", "--temperature", "hot"], "--temperature is 'hot'; it is a number"),
        (["run", "hi", "-m"], "--model needs something behind it"),
        (["run", "hi", "--json=yes"], "--json takes nothing behind it"),
    ],
)
def test_a_flag_that_was_given_in_the_wrong_way_says_how(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    code, out, err = shown(capsys, *arguments)

    assert (code, out) == (2, "")
    assert err == f"ronda: {said}; 'ronda {arguments[0]} --help' says what it takes\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve", "--agen", "folder"], "there is no flag '--agen'; did you mean '--agent'?"),
        (["serve", "--acc"], "there is no flag '--acc'"),
        (["run", "hi", "--str"], "there is no flag '--str'; did you mean '--stream'?"),
        (["--vers"], "there is no flag '--vers'; did you mean '--version'?"),
    ],
)
def test_a_flag_cannot_be_abbreviated(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    code, out, err = shown(capsys, *arguments)

    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["srve"], "there is no command 'srve'; did you mean 'serve'? 'ronda --help' lists them"),
        (["model"], "there is no command 'model'; did you mean 'models'? 'ronda --help' lists them"),
        (["zzz"], "there is no command 'zzz'; 'ronda --help' lists them"),
        (["How are you?"], "there is no command 'How are you?'; 'ronda run \"How are you?\"' asks a model"),
        (["a.prompty"], "there is no command 'a.prompty'; 'ronda run a.prompty' runs the file"),
        (["models", "pul"], "there is no 'ronda models pul'; did you mean 'pull'? choose from list, pull, default"),
        (["keys", "zzz"], "there is no 'ronda keys zzz'; choose from create, list, revoke, audit"),
        (
            ["schema", "event"],
            "there is no 'ronda schema event'; did you mean 'events'? choose from prompty, events, eval",
        ),
        (
            ["serve", "--tool-calls", "firs"],
            "there is no 'ronda serve --tool-calls firs'; did you mean 'first'? choose from all, first",
        ),
    ],
)
def test_a_misspelt_command_is_named_with_the_right_one(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    code, out, err = shown(capsys, *arguments)

    assert (code, out) == (2, "")
    assert err == f"ronda: {said}\n"


# ---- models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("openai-chat:gpt-5", "OPENAI_API_KEY"),
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("anthropic:claude", "ANTHROPIC_API_KEY"),
        ("gemini:pro", "GEMINI_API_KEY"),
        ("mistral:large", "MISTRAL_API_KEY"),
    ],
)
def test_a_model_whose_key_is_missing_is_not_called(capsys: pytest.CaptureFixture[str], model: str, key: str) -> None:
    said = f"{model} needs a key: set {key}, or name a server of your own with --base-url"
    assert shown(capsys, "run", "hi", "--model", model) == (2, "", f"ronda: {said}\n")
    with pytest.raises(BadConfig, match=f"^{said}$"):
        read_config(argparse.Namespace(config=None, model=model))


def test_the_key_of_another_provider_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    said = "ronda: openai:gpt-5 needs a key: set OPENAI_API_KEY, or name a server of your own with --base-url\n"
    assert shown(capsys, "run", "hi", "--model", "openai:gpt-5") == (2, "", said)


def test_a_file_whose_model_has_no_key_is_not_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = prompty(tmp_path, "---\nmodel: gpt-5\n---\nuser:\nhi")
    said = "ronda: openai-chat:gpt-5 needs a key: set OPENAI_API_KEY, or name a server of your own with --base-url\n"
    assert shown(capsys, "run", path) == (2, "", said)


def test_a_key_that_only_a_dotenv_file_has_must_be_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = prompty(tmp_path, "---\nmodel: gpt-5\n---\nuser:\nhi")
    (tmp_path / ".env").write_text("OPENAI_API_KEY=k\n")
    said = (
        "ronda: openai-chat:gpt-5 needs a key: the .env file has OPENAI_API_KEY, but is read for references of the file "
        "only; write `connection: {kind: key, apiKey: '${env:OPENAI_API_KEY}'}` below its model, or set the variable\n"
    )
    assert shown(capsys, "run", path) == (2, "", said)


@pytest.mark.parametrize("address", ["127.0.0.1:8000/v1", "localhost", "http://", "ftp://host/v1"])
def test_an_address_that_is_none_is_a_clear_error(capsys: pytest.CaptureFixture[str], address: str) -> None:
    why = "it names no host" if address == "http://" else "it must begin with http:// or https://"
    said = f"ronda: the model's address is {address!r}: {why}\n"
    assert shown(capsys, "run", "hi", "--model", "openai-chat:x", "--base-url", address) == (2, "", said)


def test_an_address_for_a_model_that_has_none_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = script(tmp_path)
    said = f"ronda: --base-url is for models on a server, and {model} runs on this machine\n"
    assert shown(capsys, "run", "hi", "--model", model, "--base-url", "http://127.0.0.1:1/v1") == (2, "", said)


def test_an_empty_model_is_not_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = shown(capsys, "run", "hi", "--model", "")

    assert (code, out) == (2, "")
    assert err.startswith("ronda: no model can be found under ''; name one as PROVIDER:MODEL")


# ---- prompts ---------------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_prompty_file_is_not_taken_for_a_prompt(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("Why?")
    said = f"ronda: {notes} is a file, but no .prompty file; 'ronda run < {notes}' asks what it says\n"
    assert shown(capsys, "run", str(notes), "--model", script(tmp_path)) == (2, "", said)
    said = f"ronda: {tmp_path} is a folder; name a .prompty file in it, or a prompt\n"
    assert shown(capsys, "run", str(tmp_path), "--model", script(tmp_path)) == (2, "", said)


def test_a_long_prompt_that_ends_like_a_file_is_a_prompt(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert shown(capsys, "run", "why " * 2000 + ".prompty", "--model", script(tmp_path)) == (0, "Hello.\n", "")


def test_a_person_at_a_terminal_is_told_what_is_waited_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    typed = io.StringIO("Why?\n")
    monkeypatch.setattr(typed, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", typed)
    said = "What do you want to ask? (Ctrl-D ends it)\n"
    assert shown(capsys, "run", "--model", script(tmp_path)) == (0, "Hello.\n", said)


def test_a_prompt_that_is_not_utf_8_is_a_clear_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ronda", "run", "--model", script(tmp_path)],
        input=b"caf\xe9",
        capture_output=True,
        timeout=TIMEOUT,
        env={**os.environ, "PYTHONUTF8": "1"},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"ronda: the prompt is not UTF-8 text\n")


def test_flags_say_the_options_of_a_files_model_anew(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = "temperature: 0.7\n    seed: 4"
    path = prompty(tmp_path, f"---\nmodel:\n  id: script:script.json\n  options:\n    {options}\n---\nuser:\nhi")
    cassette = tmp_path / "run.jsonl"

    flags = ["--max-tokens", "5", "--temperature", "0"]
    assert shown(capsys, "record", path, *flags, "-o", str(cassette)) == (0, "Hello.\n", "")

    header = json.loads(cassette.read_text().splitlines()[0])
    assert header["start"]["plan"]["options"] == {"max_tokens": 5, "temperature": 0.0, "seed": 4}
    said = "ronda: --max-tokens is 0; it must be at least 1\n"
    assert shown(capsys, "run", "hi", "--max-tokens", "0") == (2, "", said)
    assert shown(capsys, "run", path, "--max-tokens", "0") == (2, "", said)


# ---- what is printed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [[], ["--stream"]])
def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path, flags: list[str]) -> None:
    with started("run", "hi", "--model", script(tmp_path, LONG), *flags) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"line\n"
        process.stdout.close()
        assert (process.stderr.read(), process.wait(TIMEOUT)) == (b"", 141)


def test_what_the_terminal_cannot_show_is_written_as_an_escape(tmp_path: Path) -> None:
    with started("run", "hi", "--model", script(tmp_path, "São"), PYTHONIOENCODING="ascii") as process:
        assert process.communicate(timeout=TIMEOUT) == (b"S\\xe3o\n", b"")
        assert process.returncode == 0


def test_a_limit_says_how_to_lift_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tools = tmp_path / "my_tools.py"
    tools.write_text("from ronda import tool\n\n@tool\ndef look() -> str:\n    return 'nothing'\n")
    model = script(tmp_path, {"calls": [{"name": "look"}]}, {"calls": [{"name": "look"}]})

    code, out, err = shown(capsys, "run", "hi", "--model", model, "--tools", str(tools), "--max-iterations", "1")

    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == "ronda: Agent loop exceeded 1 iterations; --max-iterations allows more"


def test_why_a_tool_failed_is_shown_to_its_end(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    tools = tmp_path / "my_tools.py"
    why = "no " * 100 + "luck"
    tools.write_text(f"from ronda import tool\n\n@tool\ndef look() -> str:\n    raise ValueError({why!r})\n")
    model = script(tmp_path, {"calls": [{"name": "look"}]}, "It failed.")

    code, out, err = shown(capsys, "run", "hi", "--model", model, "--tools", str(tools))

    assert (code, out) == (0, "It failed.\n")
    assert err.splitlines() == [
        "[look {}]",
        f"[tracebacks are in {tmp_path / 'ronda' / 'ronda.log'}]",
        f"[look failed: ValueError: {why}]",
    ]


@pytest.mark.parametrize("how", ["def", "async def"])
def test_a_tool_that_ends_the_program_has_only_failed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, how: str
) -> None:
    tools = tmp_path / "my_tools.py"
    tools.write_text(f"import sys\nfrom ronda import tool\n\n@tool\n{how} look() -> str:\n    sys.exit(3)\n")
    model = script(tmp_path, {"calls": [{"name": "look"}, {"name": "look"}]}, "It failed.")

    code, out, err = shown(capsys, "run", "hi", "--model", model, "--tools", str(tools))

    assert (code, out) == (0, "It failed.\n")
    assert err.splitlines()[2:] == ["[look failed: it tried to end the program: SystemExit(3)]"] * 2


def test_a_tools_file_that_ends_the_program_is_a_clear_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tools = tmp_path / "my_tools.py"
    tools.write_text("raise SystemExit('no')\n")
    said = f"ronda: the tools file '{tools}:1' cannot be loaded: SystemExit: no\n"
    assert shown(capsys, "run", "hi", "--tools", str(tools)) == (2, "", said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import json\n\nimport nowhere\n", ":3' cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"),
        ("def look(:\n", ":1' cannot be loaded: SyntaxError: "),
        ("def fail():\n    raise KeyError(3)\n\n\nfail()\n", ":2' cannot be loaded: KeyError: 3"),
        ("import json\njson.loads('{')\n", ":2' cannot be loaded: JSONDecodeError: "),
    ],
)
def test_a_tools_file_that_cannot_be_loaded_says_in_which_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str
) -> None:
    tools = tmp_path / "my_tools.py"
    tools.write_text(text)
    code, out, err = shown(capsys, "run", "hi", "--tools", str(tools))
    assert (code, out) == (2, "")
    assert err.startswith(f"ronda: the tools file '{tools}{said}")
    assert len(err.splitlines()) == 1


def test_the_line_is_told_of_a_file_that_is_named_from_where_one_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_tools.py").write_text("import json\n\nimport nowhere\n")
    monkeypatch.chdir(tmp_path)
    said = "ronda: the tools file 'my_tools.py:3' cannot be loaded: ModuleNotFoundError: No module named 'nowhere'\n"
    assert shown(capsys, "run", "hi", "--tools", "my_tools.py") == (2, "", said)


def test_a_tools_file_with_callbacks_alone_is_for_a_server(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tools = tmp_path / "my_tools.py"
    tools.write_text("tool_callbacks = {'look': print}\n")
    said = f"ronda: the tools file {str(tools)!r} has only callbacks, which need a server; make tools with @tool\n"
    assert shown(capsys, "run", "hi", "--tools", str(tools)) == (2, "", said)


def test_guardrails_of_a_tools_file_act_in_a_terminal_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tools = tmp_path / "my_tools.py"
    tools.write_text("guardrails = {'input': lambda turns: False}\n")
    code, out, err = shown(capsys, "run", "hi", "--model", script(tmp_path), "--tools", str(tools))
    assert (code, out, err) == (1, "", "ronda: Input guardrail denied\n")


# ---- prompty files ---------------------------------------------------------------------------------------------------


def test_a_misspelt_input_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = prompty(tmp_path, "---\nmodel: script:script.json\ninputs: {who: x, how: y}\n---\nuser:\n{{who}} {{when}}")
    said = "ronda: the file has no input 'whom'; it has 'who', 'how'\n"
    assert shown(capsys, "run", path, "-i", "whom=Ada") == (0, "Hello.\n", said)
    assert shown(capsys, "render", path, "-i", "whom=Ada") == (0, "user:\nx \n", said)
    assert shown(capsys, "render", path, "-i", "when=now") == (0, "user:\nx now\n", "")


def test_a_misspelt_key_is_named_when_the_file_is_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = prompty(tmp_path, "---\nmodel: script:script.json\ninput: {who: x}\n---\nuser:\nHi {{who}}")
    said = f"ronda: {path}:3: input: unknown key 'input'; did you mean 'inputs'?\n"
    assert shown(capsys, "run", path) == (0, "Hello.\n", said)
    assert shown(capsys, "render", path) == (0, "user:\nHi \n", said)


def test_a_picture_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = prompty(tmp_path, "---\nmodel: script:script.json\ninputs: [{name: it, kind: image}]\n---\nuser:\n{{it}}")
    notes = tmp_path / "notes.txt"
    notes.write_text("no picture")
    said = f"ronda: the input 'it' is of kind 'image', and {notes} is text/plain\n"
    assert shown(capsys, "run", path, "-i", f"it=@{notes}") == (2, "", said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ":1: warning: the file has no front matter, which stands between two lines of ---"),
        ("model: x\n\nuser:\nhi", ":1: warning: the file has no front matter, which stands between two lines of ---"),
        ("---\nmodel: script:script.json\n---\n", ":4: warning: there is no prompt below the front matter"),
        (
            "---\nmodel: script:script.json\ntools: [{name: a, kind: functoin}]\n---\nuser:\nhi",
            ":3: tools[0].kind: warning: unknown kind 'functoin'; did you mean 'function'?",
        ),
        (
            "---\nmodel: script:script.json\ninputs: {city: Lisbon}\n---\nuser:\n{% for a in city %}{{a}}{% endfor %}\n{{citty}}",
            ":7: warning: the template uses 'citty', which is no input; did you mean 'city'?",
        ),
    ],
)
def test_what_is_probably_a_mistake_is_a_warning(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str
) -> None:
    path = prompty(tmp_path, text)

    code, out, err = shown(capsys, "validate", path)

    assert (code, err) == (0, "")
    assert path + said in out.splitlines()


# ---- settings of the server ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"port": 99999}, "--port is 99999; it can be 1 to 65535, or 0 for any that is free"),
        ({"port": -1}, "--port is -1; it can be 1 to 65535, or 0 for any that is free"),
        ({"max_result_chars": 10}, "--max-result-chars is 10; it counts characters, from 1000 on; 0 shows a model all"),
        ({"max_run_seconds": 0.0}, "--max-run-seconds is 0; it must be more than 0 seconds"),
        ({"max_run_seconds": float("nan")}, "--max-run-seconds is nan; it must be more than 0 seconds"),
        ({"tool_dispatch_timeout": -1.0}, "--tool-dispatch-timeout is -1; it must be more than 0 seconds"),
        (
            {"tool_dispatch_url": "ftp://me:pw@x"},
            "--tool-dispatch-url is 'ftp://x': it must begin with http:// or https",
        ),
        ({"slots": 0}, "--slots is 0; it can be 1 to 64"),
        ({"context": 100}, "--context is 100; it can be 512 to 1048576"),
        ({"slots": 2, "model": "script:a.json"}, "--slots is for local models; script:a.json decides that itself"),
        ({"model": ""}, "no model can be found under ''"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_before_anything_starts(flags: dict[str, Any], said: str) -> None:
    with pytest.raises(BadConfig) as caught:
        read_config(argparse.Namespace(config=None, **flags))
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 3", "the settings file '{file}' has no use for 'prot'; did you mean 'port'?"),
        ("port = 'abc'", "the settings file '{file}': port: Expected int, got str"),
        ("tools = 3", "the settings file '{file}': tools: Expected array, got int"),
        ("tools = [3]", "the settings file '{file}': tools[0]: Expected str, got int"),
        ("sandbox = 3", "the settings file '{file}': sandbox must be a table, [sandbox]"),
        ("[retry]\ntries = 'x'", "the settings file '{file}': retry.tries: Expected int, got str"),
        ("[server]\nport = 3", "the settings file '{file}' has no use for 'server'; there is model, base_url, "),
    ],
)
def test_what_is_wrong_in_a_file_of_settings_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "ronda.toml"
    file.write_text(text)
    with pytest.raises(BadConfig) as caught:
        read_config(argparse.Namespace(config=str(file)))
    assert str(caught.value).startswith(said.format(file=file))


def test_paths_in_a_file_of_settings_are_meant_from_there(tmp_path: Path) -> None:
    file = tmp_path / "ronda.toml"
    file.write_text('model = "script:a.json"\ntools = "t.py"\nagents = "agents"\ndata-dir = "data"\n')

    config = read_config(argparse.Namespace(config=str(file)))

    assert (config.model, config.tools, config.part(AgentSettings).agents, config.data_dir) == (
        f"script:{tmp_path / 'a.json'}",
        (str(tmp_path / "t.py"),),
        str(tmp_path / "agents"),
        str(tmp_path / "data"),
    )


def test_a_host_that_is_none_is_not_blamed_on_the_port(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = shown(capsys, "serve", "--host", "192.0.2.1", "--port", "0", "--model", "script:none.json")

    assert (code, out) == (2, "")
    assert err.startswith("ronda: cannot listen on 192.0.2.1:0: ")
    assert err.endswith("; choose another address with --host\n")


def test_a_journal_that_is_none_is_a_clear_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    journal.write_text("This is a text, and by no means a database.")
    said = f"ronda: {journal}: file is not a database; move that file away, or choose another path (--data-dir says where)\n"
    model = script(tmp_path)
    assert shown(capsys, "serve", "--port", "0", "--model", model, "--data-dir", str(tmp_path)) == (2, "", said)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_module_of_a_command_has_its_function(command: Command) -> None:
    assert callable(command.load())

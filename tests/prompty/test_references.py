"""`${env:…}` and `${file:…}` become what they stand for, and never more than the host allows."""

import json
import os
import time
from pathlib import Path

import pytest

from ronda.prompty import (
    BadPrompty,
    PromptyNotFound,
    clear_connections,
    get_connection,
    load,
    loads,
    register_connection,
    resolve_connection,
)
from ronda.prompty.dotenv import read_dotenv, with_dotenv
from ronda.prompty.model import KeyConnection, ModelOptions, ReferenceConnection


def agent(folder: Path, yaml: str, body: str = "Hi") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "agent.prompty"
    file.write_text(f"---\n{yaml}\n---\n{body}\n")
    return file


# ---- env --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${env:SET}", "here"),
        ("${ENV:SET}", "here"),
        ("${env:SET:other}", "here"),
        ("${env:EMPTY:other}", ""),
        ("${env:UNSET:https://host:80/v1}", "https://host:80/v1"),
        ("${env:NESTED}", "${env:SET}"),
        ("${vault:SET}", "${vault:SET}"),
        ("a ${env:SET}", "a ${env:SET}"),
        ("${env:SET} b", "${env:SET} b"),
        ("$env:SET", "$env:SET"),
        ("${SET}", "${SET}"),
    ],
)
def test_a_whole_string_is_a_reference_or_text(text: str, value: str) -> None:
    env = {"SET": "here", "EMPTY": "", "NESTED": "${env:SET}"}

    found = loads(f"---\nmetadata: {{a: '{text}', b: ['{text}', {{c: '{text}'}}]}}\n---\nHi", env=env)

    assert found.metadata == {"a": value, "b": [value, {"c": value}]}


@pytest.mark.parametrize("text", ["${env:UNSET}", "${env:UNSET:}"])
def test_a_variable_that_is_not_set_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Environment variable 'UNSET' not set$"):
        loads(f"---\nname: '{text}'\n---\nHi", env={})


@pytest.mark.parametrize("text", ["${env::default}", "${env:A=B:default}"])
def test_what_is_no_name_is_not_looked_up(text: str) -> None:
    with pytest.raises(BadPrompty, match="is not the name of an environment variable"):
        loads(f"---\nname: '{text}'\n---\nHi", env={"": "x"})


def test_the_processs_environment_is_used_unless_another_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RONDA_TEST_NAME", "from outside")
    text = "---\nname: ${env:RONDA_TEST_NAME:hidden}\n---\nHi"

    assert loads(text).name == "from outside"
    assert loads(text, env={}).name == "hidden"


def test_numbers_and_flags_may_come_from_the_environment() -> None:
    found = loads(
        "---\nmodel: {options: {temperature: '${env:T}', seed: '${env:S}', allowMultipleToolCalls: '${env:F}'}}\n---\nHi",
        env={"T": "0.5", "S": "7", "F": "True"},
    )

    assert found.model is not None
    assert found.model.options == ModelOptions(temperature=0.5, seed=7, allow_multiple_tool_calls=True)
    with pytest.raises(BadPrompty, match="a whole number is needed here, not text"):
        loads("---\nmodel: {options: {seed: '${env:S}'}}\n---\nHi", env={"S": "many"})
    with pytest.raises(BadPrompty, match="a whole number is needed here, not text"):
        loads("---\nmodel: {options: {seed: '7'}}\n---\nHi")


def test_a_missing_variable_is_one_problem_not_two() -> None:
    with pytest.raises(BadPrompty, match="'K' not set") as caught:
        loads("---\nmodel: {connection: {kind: '${env:K}'}}\n---\nHi", env={})

    assert not hasattr(caught.value, "__notes__")


# ---- file -------------------------------------------------------------------------------------------------------------


def test_files_are_read_by_their_ending(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.json").write_text('{"x": [1, {"y": null}]}')
    (tmp_path / "sub" / "b.YML").write_text("x: no\ny: 1\n")
    (tmp_path / "c.txt").write_text("${env:SET}\n")
    file = agent(tmp_path, "metadata: {a: '${file:a.json}', b: '${file:sub/../sub/b.YML}', c: '${file:c.txt}'}")

    assert load(file, env={"SET": "x"}).metadata == {
        "a": {"x": [1, {"y": None}]},
        "b": {"x": "no", "y": 1},
        "c": "${env:SET}\n",
    }


def test_a_connection_can_be_shared_and_keep_its_key_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "shared.json").write_text('{"kind": "key", "endpoint": "https://e", "apiKey": "${env:KEY}"}')
    file = agent(tmp_path, "model: {id: m, connection: '${file:shared.json}'}")

    found = load(file, env={"KEY": "secret"}).model

    assert found is not None
    assert found.connection == KeyConnection(endpoint="https://e", api_key="secret")


def test_a_body_that_is_a_reference_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("system:\nBe brief.\n")
    (tmp_path / "list.json").write_text("[1]")

    assert load(agent(tmp_path, "name: x", "${file:prompt.md}")).instructions == "system:\nBe brief.\n"
    with pytest.raises(BadPrompty, match="the body is text") as caught:
        load(agent(tmp_path, "name: x", "${file:list.json}"))
    assert (caught.value.line, caught.value.field) == (4, "body")


def test_a_missing_file_is_the_specifications_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^Referenced file not found: no\.json$") as caught:
        load(agent(tmp_path, "name: x\nmodel: '${file:no.json}'"))

    assert isinstance(caught.value, PromptyNotFound)
    assert (caught.value.line, caught.value.field) == (3, "model")


@pytest.mark.parametrize(
    "reference",
    [
        "../secret.json",
        "sub/../../secret.json",
        "{root}/secret.json",
        "link.json",
        "folder/secret.json",
        "/etc/passwd",
        "../no.json",
    ],
)
def test_nothing_outside_the_files_own_folder_is_read(tmp_path: Path, reference: str) -> None:
    (tmp_path / "secret.json").write_text('"leaked"')
    file = agent(tmp_path / "app", f"name: ${{file:{reference.format(root=tmp_path)}}}")
    (tmp_path / "app" / "sub").mkdir()
    (tmp_path / "app" / "link.json").symlink_to(tmp_path / "secret.json")
    (tmp_path / "app" / "folder").symlink_to(tmp_path)

    with pytest.raises(ValueError, match="resolves outside allowed roots") as caught:
        load(file)
    assert not isinstance(caught.value, FileNotFoundError)  # whether it is there is not told either


def test_the_host_can_allow_more_folders_and_the_file_cannot(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "a.json").write_text('"shared"')
    (tmp_path / "shared-not").mkdir()
    (tmp_path / "shared-not" / "a.json").write_text('"leaked"')
    file = agent(tmp_path / "app", "allowed_file_roots: [/]\nname: ${file:../shared/a.json}")

    assert load(file, allowed_file_roots=[tmp_path / "shared"]).name == "shared"
    with pytest.raises(BadPrompty, match="outside allowed roots"):
        load(file)
    with pytest.raises(BadPrompty, match="outside allowed roots"):
        load(agent(tmp_path / "app", "name: ${file:../shared-not/a.json}"), allowed_file_roots=[tmp_path / "shared"])


def test_a_link_that_stays_inside_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("inside")
    (tmp_path / "link.txt").symlink_to("a.txt")

    assert load(agent(tmp_path, "name: ${file:link.txt}")).name == "inside"


def test_text_without_a_folder_reads_no_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("inside")

    with pytest.raises(BadPrompty, match="outside allowed roots"):
        loads("---\nname: ${file:/etc/hostname}\n---\nHi")
    assert loads("---\nname: ${file:a.txt}\n---\nHi", folder=tmp_path).name == "inside"
    assert loads("---\nname: ${file:a.txt}\n---\nHi", allowed_file_roots=[tmp_path]).name == "inside"


def test_files_that_bring_in_themselves_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"b": "${file:b.json}"}')
    (tmp_path / "b.json").write_text('["${file:a.json}"]')

    with pytest.raises(BadPrompty, match=r"brings in itself: a\.json → b\.json → a\.json") as caught:
        load(agent(tmp_path, "metadata: ${file:a.json}"))
    assert caught.value.field == "metadata.b[0]"


def test_a_long_chain_of_files_is_refused(tmp_path: Path) -> None:
    for at in range(20):
        (tmp_path / f"{at}.json").write_text(f'["${{file:{at + 1}.json}}"]')

    with pytest.raises(BadPrompty, match="by more than 8 files"):
        load(agent(tmp_path, "metadata: ${file:0.json}"))


def test_files_that_double_each_other_are_refused_soon(tmp_path: Path) -> None:
    for at in range(7):
        (tmp_path / f"{at}.json").write_text(json.dumps([f"${{file:{at + 1}.json}}"] * 40))
    (tmp_path / "7.json").write_text("[1]")
    (tmp_path / "large.json").write_text(json.dumps([0] * 100_000))
    began = time.process_time()

    with pytest.raises(BadPrompty, match="more than 100 files are brought in"):
        load(agent(tmp_path, "metadata: {a: '${file:0.json}'}"))
    with pytest.raises(BadPrompty, match="more than 300000 values are brought in"):
        load(agent(tmp_path, "metadata: ['${file:large.json}', '${file:large.json}', '${file:large.json}']"))
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.json", b"{", "a.json is not JSON"),
        ("a.json", b"[" * 100_000, "a.json is not JSON"),
        ("a.json", b"[" * 500 + b"]" * 500, "what is brought in is nested more than 60 deep"),
        ("a.yaml", b"[" * 5000, "nested more than 60 deep"),
        ("a.yaml", b"a: 1\na: 2", "stands here twice"),
        ("a.txt", b"\xff\xfe", "a.txt is not UTF-8 text: byte 0xff in line 1"),
        ("a.txt", b"a\nb\0", "a.txt is binary: a zero byte in line 2"),
        ("a.txt", b" " * 8_000_001, "a.txt is larger than 8000000 bytes"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)

    with pytest.raises(BadPrompty, match=message):
        load(agent(tmp_path, f"metadata: {{a: '${{file:{name}}}'}}"))


@pytest.mark.parametrize("reference", ["pipe", ".", "sub", "loop", "a\\0b", "x" * 5000])
def test_only_plain_files_are_opened(tmp_path: Path, reference: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "sub").mkdir()
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(BadPrompty):
        load(agent(tmp_path, f'name: "${{file:{reference}}}"'))


# ---- registered connections ---------------------------------------------------------------------------------------------


def test_a_reference_finds_what_the_host_registered() -> None:
    clear_connections()
    register_connection("main", {"kind": "key", "endpoint": "https://e", "apiKey": "k"})
    register_connection("alias", ReferenceConnection(name="main"))
    try:
        assert resolve_connection(ReferenceConnection(name="alias")) == KeyConnection(endpoint="https://e", api_key="k")
        assert get_connection("main") == KeyConnection(endpoint="https://e", api_key="k")
        with pytest.raises(ValueError, match="no connection named 'other' is registered; there are 'alias', 'main'"):
            get_connection("other")
        register_connection("main", ReferenceConnection(name="alias"))
        with pytest.raises(BadPrompty, match="refers to itself: main → alias → main"):
            resolve_connection(ReferenceConnection(name="main"))
    finally:
        clear_connections()
    with pytest.raises(BadPrompty, match="none is"):
        get_connection("main")


# ---- .env ---------------------------------------------------------------------------------------------------------------


def test_a_dotenv_file_is_read_only_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "# comment\n\nA=one\nexport B = 'two # kept'\nC=\"three\" # gone\nD=four # gone\nE=\nSET=file\nnonsense\n"
    )
    file = agent(tmp_path, "name: ${env:A:none}")

    assert read_dotenv(tmp_path / ".env") == {
        "A": "one",
        "B": "two # kept",
        "C": "three",
        "D": "four",
        "E": "",
        "SET": "file",
    }
    assert load(file, env={}).name == "none"
    env = with_dotenv({"SET": "process"}, tmp_path / ".env", tmp_path / "no.env")
    assert env["SET"] == "process"
    assert load(file, env=env).name == "one"

"""Files that were written to hurt are refused with a sentence, soon."""

import contextlib
import tempfile
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.prompty.any_front_matter import FRONT_MATTER

from ronda.prompty import BadPrompty, check, load, loads, to_dict

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]\n" for at in range(1, 10)
)
MERGES = (
    "a0: &a0 {"
    + ", ".join(f"k{at}: {at}" for at in range(50))
    + "}\n"
    + "".join(f"b{at}: {{<<: [{', '.join(['*a0'] * 50)}]}}\n" for at in range(50))
)


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        (LAUGHS, "more than 20000 values"),
        (MERGES, "more than 20000 values"),
        ("a: " + "[" * 100_000, "nested more than 60 deep"),
        ("a: " + "{a: " * 100_000, "nested more than 60 deep"),
        ("\n".join(f"{' ' * at}a:" for at in range(500)), "nested more than 60 deep"),
        ("a: &a [*a]", "stands inside of what it names"),
        ("a: *b", r"the alias \*b has no anchor before it"),
        ("? [a]\n: b", "a list or a mapping cannot be a key"),
        ("? &k a\n: b\n? *k\n: c", "an alias cannot be a key"),
        ("a: 1\n--- \n", "Malformed|Hi|second document"),
        ("a: 1\n... \nb: 2", "did not find expected|second document|expected"),
        ("a: " + "9" * 5_000, "none that JSON has room for"),
        ("a: 1e999", "none that JSON has room for"),
        ("a: 18446744073709551616", "none that JSON has room for"),
        ("a: !!binary aGk=", "is not allowed"),
        ("a: !!set {b, c}", "is not allowed"),
        ("a: !include /etc/passwd", "is not allowed"),
        ("<<: 5", "only mappings can be merged"),
        ("null: 5", "is not text"),
        ("a: '\x01'", "Invalid frontmatter YAML"),
        ("a:\tb:\tc", "Invalid frontmatter YAML"),
        ("a: '\ud800'", "Invalid frontmatter YAML"),
    ],
)
def test_hostile_yaml_is_refused_soon(yaml: str, message: str) -> None:
    began = time.process_time()
    if message.startswith("Malformed"):
        assert loads(f"---\n{yaml}\n---\nHi").instructions == "---\nHi"
    else:
        with pytest.raises(BadPrompty, match=message) as caught:
            loads(f"---\n{yaml}\n---\nHi")
        assert str(caught.value).startswith("Invalid frontmatter YAML")
        assert caught.value.line is not None

    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "yaml",
    [
        "\n".join(f"k{at}: ${{env:NOT_{at}}}" for at in range(4_000)),
        "\n".join(f"nam{at}: 1" for at in range(4_000)),
        "x" * 900_000 + ": 1",
        "inputs:\n" + "\n".join("- {name: a}" for _ in range(6_000)),
        "tools:\n" + "\n".join(f"- {{name: t{at}, kind: function, bindings: {{a: b}}}}" for at in range(1_500)),
        "name: '" + "${env:" * 100_000 + "'",
    ],
    ids=["references", "keys", "a key", "names", "bindings", "braces"],
)
def test_many_problems_are_listed_soon(tmp_path: Path, yaml: str) -> None:
    file = tmp_path / "a.prompty"
    file.write_text(f"---\n{yaml}\n---\nHi")
    began = time.process_time()

    check(file, env={})

    assert time.process_time() - began < 3


def test_aliases_and_merges_in_moderation_work() -> None:
    found = loads(
        "---\nmetadata:\n  a: &a {x: 1, y: 2}\n  b: *a\n  c: {<<: *a, y: 3}\n  d: {<<: [*a, {z: 4}]}\n---\nHi"
    )

    assert found.metadata == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 2},
        "c": {"y": 3, "x": 1},
        "d": {"x": 1, "y": 2, "z": 4},
    }


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"---\nname: x\n---\n" + b"y" * 1_000_000, "is larger than 1000000 bytes"),
        (b"\x7fELF\x02\x01\x01\x00", "is binary: a zero byte in line 1"),
        (b"---\nname: \xe9\n---\nHi", "is not UTF-8 text: byte 0xe9 in line 2"),
        ("---\nname: x\n---\nHi".encode("utf-16"), "is binary|is not UTF-8"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    file = tmp_path / "a.prompty"
    file.write_bytes(data)

    with pytest.raises(BadPrompty, match=message) as caught:
        load(file)
    assert caught.value.path == str(file)
    assert [problem.message for problem in check(file)] == [str(caught.value)]


def test_an_empty_file_is_an_empty_prompt(tmp_path: Path) -> None:
    file = tmp_path / "a.prompty"
    file.write_text("")

    assert load(file).instructions == ""


@pytest.mark.parametrize(
    "blank", [" " * 500_000, "\n" * 500_000, " \n" * 250_000, "---\n" * 100_000, "  ---\n" * 100_000]
)
def test_blanks_and_markers_in_any_number_are_split_soon(blank: str) -> None:
    began = time.process_time()
    for text in (blank, f"{blank}---\nname: x\n---\nHi", f"---\nname: x\n---\n{blank}", f"---\n{blank}x: 1"):
        with contextlib.suppress(BadPrompty):
            loads(text)

    assert time.process_time() - began < 3


FOLDER = tempfile.TemporaryDirectory()  # one file, written anew for each example


@settings(max_examples=60, deadline=None)
@given(FRONT_MATTER)
def test_any_front_matter_loads_or_is_a_bad_prompty(value: dict[str, object]) -> None:
    file = Path(FOLDER.name) / "any.prompty"
    file.write_bytes(b"---\n" + msgspec.json.encode(value) + b"\n---\nHi\n")
    errors = [problem for problem in check(file, env={}) if problem.severity == "error"]

    if not errors:
        to_dict(load(file, env={}))
        return
    with pytest.raises(BadPrompty) as caught:
        load(file, env={})
    assert str(caught.value) in {problem.message for problem in errors}


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200) | st.lists(st.sampled_from(list("-+:\n []{}&*a1!|>#'\"%@`${}")), max_size=60).map("".join))
def test_any_text_loads_or_is_a_bad_prompty(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\nHi"):
        with contextlib.suppress(BadPrompty):
            to_dict(loads(whole, env={}))

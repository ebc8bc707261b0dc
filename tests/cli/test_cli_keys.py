"""`ronda keys`, and what a server makes of them: who is let in, and where it may listen."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.cli.commands import shown
from tests.cli.serving import Started
from tests.timeouts import TIMEOUT


def made(capsys: pytest.CaptureFixture[str], folder: Path, owner: str = "ann") -> str:
    code, out, _ = shown(capsys, "keys", "create", "--owner", owner, "--data-dir", str(folder))
    assert code == 0
    return out.strip()


def test_a_key_is_printed_by_itself_and_listed_without_itself(capsys: Any, tmp_path: Path) -> None:
    code, out, err = shown(capsys, "keys", "create", "--owner", "Ann B.", "--data-dir", str(tmp_path))
    key = out.removesuffix("\n")
    listed, table, _ = shown(capsys, "keys", "list", "--data-dir", str(tmp_path))

    assert (code, listed) == (0, 0)
    assert key.startswith("rk_")
    assert len(key) == 46
    assert "not shown again" in err
    assert key not in err + table
    [heading, row] = table.splitlines()
    assert heading.split() == ["ID", "OWNER", "CREATED", "LAST", "USED", "SCOPES", "ENDS"]
    assert row.split()[0] in err
    assert "Ann B." in row
    assert row.endswith("  -")


def test_a_revoked_key_stays_in_the_list(capsys: Any, tmp_path: Path) -> None:
    made(capsys, tmp_path)
    key_id = shown(capsys, "keys", "list", "--data-dir", str(tmp_path))[1].splitlines()[1].split()[0]
    code, _, err = shown(capsys, "keys", "revoke", key_id, "--data-dir", str(tmp_path))
    row = shown(capsys, "keys", "list", "--data-dir", str(tmp_path))[1].splitlines()[1]

    assert (code, key_id in err) == (0, True)
    assert row.startswith(key_id)
    assert not row.endswith("-")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["create"], "--owner NAME"),
        (["create", "--owner", ""], "1 to 64 printable characters"),
        (["create", "--owner", "x" * 65], "1 to 64 printable characters"),
        (["create", "--owner", " ann"], "without spaces around"),
        (["create", "--owner", "a\nb"], "printable"),
        (["revoke"], "'ronda keys list'"),
        (["revoke", "key_none"], "there is no key 'key_none'"),
        (["list", "--data-dir", ":memory:"], "':memory:' keeps nothing"),
        (["list", "--data-dir", "{file}"], "--data-dir says where"),
        (["lst"], "there is no 'ronda keys lst'; did you mean 'list'?"),
        (["list", "--ownr", "x"], "did you mean '--owner'?"),
    ],
)
def test_what_cannot_be_done_is_said_with_the_way_out(
    capsys: Any, tmp_path: Path, arguments: list[str], said: str
) -> None:
    file = tmp_path / "file"
    file.mkdir()
    (file / "catalog.db").write_text("no database " * 100)
    given = [one.format(file=file) for one in arguments]
    where = [] if "--data-dir" in given else ["--data-dir", str(tmp_path)]
    code, out, err = shown(capsys, "keys", *given, *where)

    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_without_keys_there_is_a_word_on_how_to_make_one(capsys: Any, tmp_path: Path) -> None:
    code, out, _ = shown(capsys, "keys", "list", "--data-dir", str(tmp_path / "new"))

    assert (code, "ronda keys create --owner NAME" in out) == (0, True)
    assert not (tmp_path / "new").exists()


# ---- the server --------------------------------------------------------------------------------------------------------


def test_without_keys_a_server_listens_on_this_machine_alone(start: Started, tmp_path: Path) -> None:
    data = tmp_path / "data"
    code, said = start.fails(*start.model, "--port", "0", "--host", "0.0.0.0", "--data-dir", str(data))
    nowhere = start.fails(*start.model, "--port", "0", "--host", "0.0.0.0", "--data-dir", ":memory:")[1]

    assert (code, len(said.splitlines())) == (2, 1)
    assert "can reach 0.0.0.0, and there are no API keys" in said
    assert f"'ronda keys create --owner NAME --data-dir {data}'" in said
    assert "--insecure" in said
    assert "keep keys in a folder with --data-dir" in nowhere


def test_whoever_insists_is_reminded(start: Started) -> None:
    start.script.write_text(json.dumps(["Hello."]))
    with start.serving(*start.model, "--host", "0.0.0.0", "--insecure") as served:
        said = [line for line in served.startup if "--insecure" in line]

    assert len(said) == 1
    assert "there are no API keys" in said[0]


def ask_until_refused(client: openai.OpenAI) -> None:
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        client.models.list()


def test_with_a_key_a_server_listens_everywhere_and_answers_nobody_without_one(
    capsys: Any, start: Started, tmp_path: Path
) -> None:
    """And refuses the key once it is revoked, while it runs."""
    start.script.write_text(json.dumps(["Hello."] * 3))
    key = made(capsys, tmp_path)
    key_id = shown(capsys, "keys", "list", "--data-dir", str(tmp_path))[1].splitlines()[1].split()[0]
    with start.serving(*start.model, "--host", "0.0.0.0", "--data-dir", str(tmp_path)) as served:
        url = served.url.replace("0.0.0.0", "127.0.0.1") + "/v1"
        assert "Authorization: Bearer KEY" in served.startup[-1]
        with (
            openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=TIMEOUT) as client,
            openai.OpenAI(base_url=url, api_key="sk-other", max_retries=0, timeout=TIMEOUT) as other,
        ):
            with pytest.raises(openai.AuthenticationError):
                other.models.list()
            answer = client.chat.completions.create(model="default", messages=[{"role": "user", "content": "hi"}])
            assert shown(capsys, "keys", "revoke", key_id, "--data-dir", str(tmp_path))[0] == 0
            with pytest.raises(openai.AuthenticationError, match="was revoked"):
                ask_until_refused(client)

    assert answer.choices[0].message.content == "Hello."

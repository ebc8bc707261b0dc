"""`ronda owner`: all that is kept of one owner, beside a server that works: taken along, and then nowhere any more."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psycopg
import pytest
from minio import Minio
from msgspec import Struct
from tests import s3
from tests.cli.commands import shown
from tests.cli.serving import Served, Started
from tests.timeouts import TIMEOUT

from ronda.files.s3_blobs import S3Blobs
from ronda.files.workspaces import Workspaces
from ronda.server.features.code.code_tools import workspaces_root

CANARY = "canary-7f3a"
OTHER = "other-91c2"
BUCKET = "owners"
STUCK = """---
model: script:stuck.json
tools:
  - name: endless
    kind: function
---
system:
Go.
"""


class Caller:
    """What one owner does with a server, with a word of its own in all of it."""

    def __init__(self, url: str, key: str, word: str) -> None:
        self.word = word
        self.http = httpx.Client(
            base_url=f"{url}/v1", headers={"authorization": f"Bearer {key}"}, timeout=TIMEOUT, trust_env=False
        )

    def ask(self, method: str, path: str, **more: Any) -> Any:
        answer = self.http.request(method, path, **more)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def use_everything(self) -> str:
        """The id of a run that a server still drives."""
        word = self.word
        said = [{"role": "user", "content": f"say {word}"}]
        self.ask("POST", "/chat/completions", json={"messages": said, "session_id": f"s {word}"})
        self.ask("PATCH", f"/sessions/s {word}", json={"title": f"about {word}"})
        self.ask("POST", "/conversations", json={"model": "default", "inputs": f"tell {word}"})
        self.ask("POST", "/agents", json={"model": "default", "name": word, "instructions": f"be {word}"})
        file = {"file": (f"{word}.txt", f"{word} in a file".encode())}
        self.ask("POST", "/files", files=file, data={"purpose": "user_data"})
        skill = f"---\nname: told\ndescription: of {word}\n---\nSay {word}."
        self.ask("POST", "/skills", files={"files": ("told/SKILL.md", skill.encode())})
        self.ask("POST", "/containers", json={"name": word})
        self.ask("POST", "/notices", json={"url": f"https://93.184.216.34/{word}", "events": ["budget.warning"]})
        request = {"model": "default", "input": f"daily {word}"}
        self.ask("POST", "/schedules", json={"cron": "0 3 * * *", "timezone": "UTC", "request": request})
        queued = {"model": "stuck", "messages": said, "background": True}
        answer = self.http.post("/chat/completions", json=queued)
        assert answer.status_code == 202, answer.text
        return str(answer.headers["x-ronda-run"])

    def wait_until_driven(self, run: str) -> None:
        while self.ask("GET", f"/runs/{run}").get("state") != "running":
            pass

    def close(self) -> None:
        self.http.close()


@contextmanager
def used(
    start: Started, tmp_path: Path, capsys: pytest.CaptureFixture[str], *storage: str
) -> Iterator[tuple[Served, Caller, Caller]]:
    """A server with two owners, who have used all of it."""
    agents = tmp_path / "agents"
    agents.mkdir()
    (tmp_path / "hello.json").write_text(json.dumps(["Hello."]))
    (agents / "stuck.json").write_text(json.dumps([{"calls": [{"name": "endless"}]}, "Over."]))
    (agents / "stuck.prompty").write_text(STUCK)
    keys = [shown(capsys, "keys", "create", "--owner", name, *storage)[1].strip() for name in ("ann", "bob")]
    model = ("--model", f"script:{tmp_path / 'hello.json'}", "--tools", str(start.tools), "--agents", str(agents))
    with start.serving(*model, "--notices", "--schedules", *storage) as server:
        ann, bob = Caller(server.url, keys[0], CANARY), Caller(server.url, keys[1], OTHER)
        try:
            for one in (ann, bob):
                one.wait_until_driven(one.use_everything())
            yield server, ann, bob
        finally:
            ann.close()
            bob.close()


def words_in(folder: Path, word: str) -> list[str]:
    """Files below a folder, and what databases have next to them, that have this word in them."""
    return [str(path) for path in sorted(folder.rglob("*")) if path.is_file() and word.encode() in path.read_bytes()]


def test_what_is_deleted_is_in_no_file_and_others_keep_theirs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], start: Started
) -> None:
    data = tmp_path / "data"
    storage = ("--data-dir", str(data))
    with used(start, tmp_path, capsys, *storage) as (_, ann, bob):
        before = bob.ask("GET", "/runs")["data"]
        root = workspaces_root(data, is_root=os.getuid() == 0)
        anns, bobs = Workspaces(root).folder("ann", f"s {CANARY}"), Workspaces(root).folder("bob", f"s {OTHER}")
        (anns / "notes.txt").write_text(CANARY)
        code, out, err = shown(capsys, "owner", "delete", "ann", "--yes", *storage)

        assert (code, err) == (0, "ronda: all of this is deleted; nothing is kept of 'ann' any more\n")
        assert ann.http.get("/runs").status_code == 401
        told = dict(line.rsplit(maxsplit=1) for line in out.splitlines()[1:])
        assert told["run"] == "3"
        kinds = {"agent", "container", "conversation", "file", "key", "notice address", "schedule", "session", "skill"}
        assert kinds <= told.keys()
        assert [run["id"] for run in bob.ask("GET", "/runs")["data"]] == [run["id"] for run in before]
        assert [one["name"] for one in bob.ask("GET", "/agents")] == [OTHER]
        bob.ask("POST", "/chat/completions", json={"messages": [{"role": "user", "content": "again"}]})
        assert words_in(data, CANARY) == []
        assert words_in(data, OTHER) != []
        assert (anns.exists(), bobs.exists()) == (False, True)

    code, _, err = shown(capsys, "owner", "delete", "ann", "--yes", *storage)
    assert code != 0
    assert "nothing is kept of an owner 'ann'" in err
    acts = shown(capsys, "keys", "audit", *storage)[1]
    assert "owner.delete" in acts
    assert " ann" not in acts


def test_an_archive_has_all_of_one_owner_and_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], start: Started
) -> None:
    storage, file = ("--data-dir", str(tmp_path / "data")), tmp_path / "ann.tar.gz"
    with used(start, tmp_path, capsys, *storage) as (_, ann, _bob):
        [stored] = ann.ask("GET", "/files")["data"]
        assert shown(capsys, "owner", "export", "ann", str(file), *storage)[0] == 0
        assert "is there already" in shown(capsys, "owner", "export", "ann", str(file), *storage)[2]

    with tarfile.open(file) as archive:
        entries = {one.name: archive.extractfile(one) for one in archive if one.isfile()}
        texts = {name: opened.read() for name, opened in entries.items() if opened is not None}
    whole = b"".join(texts.values())
    assert OTHER.encode() not in whole
    assert texts[f"files/{stored['id']}"] == f"{CANARY} in a file".encode()
    kinds = {name.partition("/")[0] for name in texts}
    assert kinds == {"ronda-owner.json", "runs", "sessions", "files", "skills", "tables"}
    tables = {name.removeprefix("tables/").removesuffix(".jsonl") for name in texts if name.startswith("tables/")}
    assert {"agent_version", "container", "key", "notice_address", "schedule", "session", "skill"} <= tables
    assert all(b'"hash"' not in line for line in texts["tables/key.jsonl"].splitlines())
    runs = [name for name in texts if name.startswith("runs/") and name.endswith(".jsonl")]
    assert len(runs) == 3
    assert all(json.loads(texts[name].splitlines()[0])["type"] == "run_started" for name in runs)
    assert json.loads(texts["ronda-owner.json"])["kept"]["run"] == 3


def tables_of(database: str) -> dict[str, str]:
    """All rows of each table."""
    with psycopg.connect(database) as db:
        question = "SELECT tablename FROM pg_tables WHERE schemaname = ANY(current_schemas(false))"
        names = [name for (name,) in db.execute(question)]
        return {name: str(db.execute(f'SELECT * FROM "{name}"').fetchall()) for name in names}


def test_nothing_of_a_deleted_owner_is_left_in_postgresql(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], start: Started, postgres: str
) -> None:
    data = tmp_path / "data"
    storage = ("--data-dir", str(data), "--database", postgres)
    with used(start, tmp_path, capsys, *storage) as (_, ann, bob):
        code, _, err = shown(capsys, "owner", "delete", "ann", "--yes", *storage)
        assert code == 0, err
        assert ann.http.get("/runs").status_code == 401
        assert len(bob.ask("GET", "/runs")["data"]) == 3
        found = tables_of(postgres)
    assert [name for name, rows in found.items() if CANARY in rows] == []
    assert [name for name, rows in found.items() if OTHER in rows] != []
    assert words_in(data, CANARY) == []


class Everywhere(Struct):
    """All that a server keeps, on this machine and on others."""

    data: Path
    database: str = ""
    bucket: Minio | None = None

    def has(self, word: str) -> list[str]:
        """Where this word is."""
        found = words_in(self.data, word)
        if self.database:
            found += [name for name, rows in tables_of(self.database).items() if word in rows]
        if self.bucket is not None:
            found += [name for name, data in objects_of(self.bucket) if word.encode() in name.encode() + data]
        return found


def objects_of(bucket: Minio) -> Iterator[tuple[str, bytes]]:
    for one in bucket.list_objects(BUCKET, recursive=True):
        with closing(bucket.get_object(BUCKET, str(one.object_name))) as answer:
            yield str(one.object_name), answer.read()
            answer.release_conn()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql and s3"])
def test_the_name_of_a_deleted_owner_is_nowhere(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    start: Started,
    kind: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With all that counts and limits owners, sign-ins, previews, and what an operator did for this owner."""
    owner, data = "canary-9d40@example.com", tmp_path / "data"
    storage: tuple[str, ...] = ("--data-dir", str(data))
    files: tuple[str, ...] = ()
    with ExitStack() as stack:
        kept = Everywhere(data)
        if kind != "sqlite":
            kept.database = request.getfixturevalue("postgres")
            kept.bucket = stack.enter_context(a_bucket(monkeypatch))
            storage, files = (*storage, "--database", kept.database), ("--file-store", f"s3://{BUCKET}/files")
        keys = {
            name: shown(capsys, "keys", "create", "--owner", name, *flags, *storage)[1].strip()
            for name, flags in ((owner, ()), ("op", ("--scope", "operate:write", "--scope", "decide")))
        }
        assert (
            shown(capsys, "budget", "set", "owner", owner, "--per", "month", "--tokens", "99999999", *storage)[0] == 0
        )
        more = ("--budgets", "--rate-requests", "999", "--rate-runs", "99", "--keep-previews", "3600")
        (tmp_path / "hello.json").write_text(json.dumps([f"Hello {CANARY}."]))
        server = stack.enter_context(
            start.serving("--model", f"script:{tmp_path / 'hello.json'}", *more, *storage, *files)
        )
        mine = Caller(server.url, keys[owner], CANARY)
        operator = Caller(server.url, keys["op"], OTHER)
        stack.callback(mine.close)
        stack.callback(operator.close)
        body = {"messages": [{"role": "user", "content": f"say {CANARY}"}], "stream": True, "session_id": f"s {CANARY}"}
        assert "[DONE]" in mine.http.post("/chat/completions", json=body).text
        mine.ask("POST", "/files", files={"file": (f"{CANARY}.txt", CANARY.encode())}, data={"purpose": "user_data"})
        queued = mine.ask("POST", "/responses", json={"model": "default", "input": CANARY, "background": True})
        assert mine.http.post("/login", json={"key": keys[owner]}).status_code == 200
        run = queued["id"].replace("resp_", "run_")
        operator.http.post(f"/runs/{run}/cancel", params={"owner": owner})
        made = operator.ask("POST", "/keys", json={"owner": owner})
        operator.ask("DELETE", f"/keys/{made['id']}")
        before = kept.has(owner), kept.has(CANARY)

        code, _, err = shown(capsys, "owner", "delete", owner, "--yes", *storage, *files)
        assert code == 0, err
        assert all(before), before
        assert any(place.startswith("files/") for place in before[1]) is (kept.bucket is not None), before
        assert (kept.has(owner), kept.has(CANARY)) == ([], [])
        assert mine.http.get("/runs").status_code == 401
        server.end()
    assert (words_in(data, owner), words_in(data, CANARY)) == ([], [])


@contextmanager
def a_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Minio]:
    if not s3.is_there():
        pytest.skip(s3.MISSING)
    with s3.serving() as url:
        for name, value in s3.environment(url).items():
            monkeypatch.setenv(name, value)
        client = S3Blobs(f"s3://{BUCKET}").client
        client.make_bucket(BUCKET)
        yield client
        client._http.clear()


def test_a_server_whose_last_key_is_deleted_stays_closed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], start: Started
) -> None:
    storage = ("--data-dir", str(tmp_path / "data"))
    shown(capsys, "keys", "create", "--owner", "ann", *storage)
    assert shown(capsys, "owner", "delete", "ann", "--yes", *storage)[0] == 0
    with start.serving(*start.model, *storage) as server:
        assert httpx.get(f"{server.url}/v1/runs", trust_env=False).status_code == 401


def test_nothing_is_deleted_without_a_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage = ("--data-dir", str(tmp_path / "data"))
    shown(capsys, "keys", "create", "--owner", "ann", *storage)
    code, out, err = shown(capsys, "owner", "delete", "ann", *storage)
    assert (code != 0, "say --yes" in err) == (True, True)
    assert out.split() == ["WHAT", "COUNT", "key", "1"]
    assert "ann" in shown(capsys, "keys", "list", *storage)[1]
    assert shown(capsys, "owner", "show", "ann", *storage)[1] == out

"""Two servers whose database goes away, in the middle of runs and at each kind of statement. Files are in a stand-in for S3.

Runs count their calls, some ask a person first, and files are uploaded. At the end every run is over, no call was made twice,
every approval that was acknowledged is in a journal, and every file that was acknowledged is there.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final

from tests import s3
from tests.chaos.cut import Cut
from tests.chaos.load import ASKING, BOUNDARY, Load, Model, Process, Summary
from tests.postgres import PostgresServer

BUCKET: Final = "ronda-chaos"
NOT_SEEN: Final = 20.0  # seconds after which a kind of statement does not come any more
LISTINGS: Final = ("/agent/approvals", "/runs?limit=5", "/runs?state=waiting", "/sessions", "/files", "/conversations")
_BETWEEN: Final = 0.3  # seconds between two answers of the person who is asked


class People:
    """The person who is asked answers, at any server, and again where that was not acknowledged."""

    def __init__(self, servers: Sequence[Process], chance: random.Random) -> None:
        self._servers = servers
        self._chance = chance
        self._open: dict[str, str] = {}  # questions, and the runs that ask
        self.acknowledged: dict[str, str] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._answer, daemon=True)

    def asked(self, answer: Any) -> None:
        for one in answer.get("approvals", ()):
            self._open[one["approval_id"]] = answer["run"]

    @contextmanager
    def answering(self) -> Iterator[People]:
        self._thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            self._thread.join()

    def _answer(self) -> None:
        while not self._is_over.wait(_BETWEEN):
            for question, run in list(self._open.items()):
                server = self._chance.choice(self._servers)
                found = server.ask("POST", f"/agent/approvals/{question}", {"decision": "approve"}, timeout=120.0)
                if found is not None and found.get("status") == "resolved":
                    self.acknowledged[question] = run
                    del self._open[question]
                elif found is not None and self._is_closed(server, question, run):
                    del self._open[question]

    def _is_closed(self, server: Process, question: str, run: str) -> bool:
        """An answer that was not acknowledged may have been taken anyway."""
        shown = server.ask("GET", f"/runs/{run}")
        if not isinstance(shown, dict) or "questions" not in shown:
            return False
        return question not in [one["id"] for one in shown["questions"]]


class Outages:
    def __init__(self, load: Load, servers: Sequence[Process], people: People, chance: random.Random) -> None:
        self.load = load
        self.servers = servers
        self.people = people
        self.files: dict[str, bytes] = {}  # acknowledged, by their ids
        self._chance = chance
        self._number = 0

    def begin(self, count: int) -> None:
        """Some runs at each server: in the background, detached, and such as ask a person; a file; and what is asked
        for in lists."""
        for number in range(count):
            self.load.begin(self.servers[number // 2 % len(self.servers)])
        for server in self.servers:
            self._number += 1
            name = f"{ASKING}{self._number}"
            body = {"messages": [{"role": "user", "content": name}], "session_id": f"of {name}"}
            answer = server.ask("POST", "/chat/completions", body, 120.0)
            if isinstance(answer, dict) and answer.get("run"):
                self.load.runs.append(answer["run"])
                self.people.asked(answer)
            self._upload(server, f"file {self._number}".encode())
            for listing in LISTINGS:
                server.ask("GET", listing, timeout=120.0)

    def begin_in_thread(self, count: int) -> threading.Thread:
        """For when the database may be away meanwhile."""
        thread = threading.Thread(target=self.begin, args=(count,), daemon=True)
        thread.start()
        return thread

    def _upload(self, server: Process, content: bytes) -> None:
        mark = b"--" + BOUNDARY.encode()
        field = b'Content-Disposition: form-data; name="%b"'
        lines = [mark, field % b"purpose", b"", b"user_data"]
        lines += [mark, field % b"file" + b'; filename="f.bin"', b"", content, mark + b"--", b""]
        answer = server.ask("POST", "/files", b"\r\n".join(lines), 120.0)
        if isinstance(answer, dict) and str(answer.get("id", "")).startswith("file-"):
            self.files[answer["id"]] = content

    def summary(self, left: Sequence[str]) -> Summary:
        """What is seen of all runs; `left` have not ended when they should have."""
        summary = self.load.summary(self.servers[0])
        summary.wrong += [f"{run} is wedged" for run in left]
        summary.wrong += self.wrong()
        return summary

    def wrong(self) -> list[str]:
        """What was acknowledged and is not there."""
        server, found = self.servers[0], list[str]()
        for file_id, content in self.files.items():
            if server.ask("GET", f"/files/{file_id}/content") != content:
                found.append(f"the file {file_id}, which was acknowledged, is not there")
        for question, run in self.people.acknowledged.items():
            events = self.load.events(server, run)
            if not any(event["type"] == "answered" and event["id"] == question for event in events):
                found.append(f"the approval {question} of {run}, which was acknowledged, is in no journal")
        for state in ("queued", "running"):
            found += [f"{one['id']} is {state}" for one in _runs(server, state)]
        return found


def _runs(server: Process, state: str) -> list[dict[str, Any]]:
    """Once the server has its database again: the other one, which was asked before, may be earlier."""
    ends = time.monotonic() + 60.0
    while True:
        answer = server.ask("GET", f"/runs?state={state}&limit=100")
        if isinstance(answer, dict) and "data" in answer:
            runs: list[dict[str, Any]] = answer["data"]
            return runs
        assert time.monotonic() < ends, answer
        time.sleep(0.2)


def outages(
    load: Load,
    model: Model,
    database: PostgresServer,
    queue: Sequence[str],
    *,
    seconds: float,
    each: float,
    statements: int | None = None,
    runs: int = 8,
    pause: float = 1.0,
    seed: int = 0,
    not_seen: float = NOT_SEEN,
    say: Callable[[str], object] = print,
) -> Summary:
    """The database is away for so many `seconds` in the middle of runs, twice, and for `each` at one statement of each kind; at
    no more than so many `statements`, if that is said."""
    chance = random.Random(seed)
    left, once = list[str](), list[str]()

    def serving(load: Load) -> AbstractContextManager[tuple[Cut, Outages]]:
        return _serving(load, model, database, queue, chance, pause, say)

    def leaves_at(kind: str, number: int, cable: Cut, trial: Outages) -> bool:
        """Whether there was such a statement. By turns the database gets it, or not."""
        cable.passes_last = bool(number % 2)
        cable.leaves_at = kind
        begun = trial.begin_in_thread(4)
        if has_left := cable.has_left.wait(not_seen):
            time.sleep(each)
            cable.come_back()
            say(f"  away at '{kind}'{'' if cable.passes_last else ', which was lost'}")
        cable.leaves_at = None
        begun.join()
        left.extend(trial.load.await_all(trial.servers[number % 2]))
        return has_left

    database.listen("127.0.0.1")
    database.start()
    try:
        with serving(load) as (cable, trial):
            trial.begin(runs)
            left += load.await_all(trial.servers[0])
            kinds = sorted(cable.seen)
            say(f"  {len(kinds)} kinds of statements: {', '.join(kinds)}")
            for _ in range(2):
                trial.begin(runs)
                _away(cable, trial, seconds)
                left += load.await_all(trial.servers[0])
            chance.shuffle(kinds)
            for number, kind in enumerate(kinds[:statements]):
                cable.reconnect()
                if not leaves_at(kind, number, cable, trial):
                    once.append(kind)
            summary = trial.summary(left)
        for number, kind in enumerate(once):  # what comes when a server is new, or seldom
            left.clear()
            with serving(Load(load.folder / f"new-{number}")) as (cable, trial):
                if not leaves_at(kind, number, cable, trial):
                    say(f"  '{kind}' did not come again")
                summary.add(trial.summary(left))
    finally:
        database.stop()
    return summary


@contextmanager
def _serving(
    load: Load,
    model: Model,
    database: PostgresServer,
    queue: Sequence[str],
    chance: random.Random,
    pause: float,
    say: Callable[[str], object],
) -> Iterator[tuple[Cut, Outages]]:
    """Two servers that share a database in which there was nothing, and the way to it."""
    with ExitStack() as stack:
        schema = f"outages_{random.randrange(10**9)}"
        database.make_schema(schema)
        cable = stack.enter_context(Cut(f"{database.url}?options=-csearch_path%3D{schema}").open())
        environment, store = dict[str, str](), list[str]()
        if s3.is_there():
            environment = s3.environment(stack.enter_context(s3.serving()))
            _make_bucket(environment["AWS_ENDPOINT_URL_S3"])
            store = ["--file-store", f"s3://{BUCKET}"]
        else:
            say("  S3's stand-in is not installed: files are kept in the data folder")
        flags = [*queue, "--database", cable.url, *store]
        servers = [Process(load.folder, model.flags, *flags, pause=pause, environment=environment) for _ in range(2)]
        for one in servers:
            one.start()
            stack.callback(one.kill)
        people = stack.enter_context(People(servers, chance).answering())
        cable.reconnect()  # what was prepared on a connection is not written out again
        cable.seen.clear()
        trial = Outages(load, servers, people, chance)
        yield cable, trial
        say(f"  {len(people.acknowledged)} approvals and {len(trial.files)} files were acknowledged")


def _away(cable: Cut, trial: Outages, seconds: float) -> None:
    """Some runs are under way, and some come while the database is away."""
    time.sleep(0.5)
    cable.leave()
    begun = trial.begin_in_thread(2)
    time.sleep(seconds)
    cable.come_back()
    begun.join()


def _make_bucket(url: str) -> None:
    import urllib.request

    with urllib.request.urlopen(urllib.request.Request(f"{url}/{BUCKET}", method="PUT"), timeout=30):
        pass

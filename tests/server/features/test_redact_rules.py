"""Words that the operator's rules name: in nothing that is kept, logged or traced, wherever they came from."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.interaction.doors import Door, Served, soon
from tests.server.features.test_traces import collecting
from tests.server.restarts import Folder

from ronda.core.events import Event, ModelFinished, RunStarted, TextDelta
from ronda.core.parts import AssistantTurn, Native, Text, ToolCall
from ronda.errors import BadConfig
from ronda.journal.memory import MemoryJournal
from ronda.journal.redacting import redacted, redacting
from ronda.journal.sqlite import SqliteJournal
from ronda.server.check_config import check_config
from ronda.server.features.redact.patterns import Redactor
from ronda.server.features.redact.settings import RedactRule
from ronda.server.features.table import make_config
from ronda.store.sqlite_catalog import SqliteCatalog
from ronda.testing import ScriptedModel, calls, says
from ronda.testing.facts import every_fact
from ronda.tools.function import as_tool

CANARY = "canary-4711-word"
RULES = [{"pattern": r"canary-\d+-word", "replacement": "[gone]"}, {"pattern": r"\b\d{3}-\d{2}-\d{4}\b"}]
log = logging.getLogger("ronda.server")


def redactor() -> Redactor:
    return Redactor([msgspec.convert(rule, RedactRule) for rule in RULES])


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


async def ask_responses(served: Served, **body: Any) -> Any:
    async with soon(), served.http.post(f"{served.url}/responses", json={"model": "default", **body}) as answer:
        return await answer.json()


# ---- the canary ------------------------------------------------------------------------------------------------------


async def test_a_word_is_found_nowhere_that_something_is_kept(
    door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In the client's words, in instructions, metadata, a tool's name of a user, in arguments and results, in what the model says
    and thinks, in a question to a person, and in an error."""

    def look(what: str) -> str:
        """Look."""
        return f"{what} says {CANARY}. " + "more " * 3000

    def fail(what: str) -> str:
        """Fail."""
        raise ValueError(f"{what} {CANARY}")

    model = ScriptedModel(
        calls("look", what=CANARY), calls("fail", what=f'"{CANARY}"\n'), says(f"I saw {CANARY}."),
        says(f"Again {CANARY}."), says("Hello."), says(f"Bye {CANARY}."), says("x"),
    )  # fmt: skip
    caplog.set_level(logging.DEBUG)
    journal, catalog = SqliteJournal(str(tmp_path / "journal.db")), SqliteCatalog(str(tmp_path / "catalog.db"))
    async with collecting(monkeypatch) as collector, door.serving(
        model, as_tool(look), as_tool(fail), journal=journal, catalog=catalog, redact=RULES, otel=True,
        otel_content=True, max_result_chars=2000,
    ) as served:  # fmt: skip
        await served.server.start()
        served.server.features.begin()
        try:
            log.error("something went wrong with %s", CANARY)
            try:
                raise ValueError(CANARY)
            except ValueError:
                log.exception("and with more")
            more = {"instructions": f"Say {CANARY}.", "metadata": {"name": CANARY}, "session_id": "s"}
            first = await ask_responses(served, input=f"Hi, I am {CANARY}.", **more)
            second = await ask_responses(served, input="Again?", session_id="s")
            talk: Any = {"model": "default", "inputs": f"I am {CANARY}.", "instructions": CANARY, "description": CANARY}
            talk |= {"name": f"About {CANARY}", "metadata": {"name": CANARY}}
            async with soon(), served.http.post(f"{served.url}/conversations", json=talk) as answer:
                named = (await answer.json())["conversation_id"]
            async with soon(), served.http.get(f"{served.url}/conversations/{named}") as answer:
                conversation = await answer.json()
            background = await ask_responses(served, input=CANARY, background=True)
            async with soon(), served.http.get(f"{served.url}/responses/{background['id']}?stream=true") as answer:
                streamed = await answer.text()
            await served.all_over()
            run = first["id"].replace("resp_", "run_")
            url = f"{served.url}/runs/{run}"
            async with served.http.get(f"{url}/cassette") as answer:
                cassette = await answer.text()
            async with served.http.get(f"{url}/rounds/1/request") as answer:
                request = await answer.text()
            async with served.http.get(f"{served.url}/files") as answer:
                names = [one["id"] for one in (await answer.json())["data"]]
            files = []
            for name in names:
                async with served.http.get(f"{served.url}/files/{name}/content") as answer:
                    files.append(await answer.read())
        finally:
            await served.server.stop(0.0)
    spans = b"".join(collector.bodies)
    kept = contents(tmp_path)

    assert CANARY in str(first["output"])  # the client reads what was said
    assert CANARY in str(model.heard[2])  # and the model what it was sent
    assert "Hi, I am [gone]." in str(model.heard[3])  # later it is sent what was kept
    assert (conversation["name"], conversation["model"]) == ("About [gone]", "default")
    assert (second["status"], "journal.db" in kept, bool(spans), len(files)) == ("completed", True, True, 1)
    assert b"says [gone]" in files[0]
    found = {"spans": spans, "log": caplog.text.encode(), "cassette": cassette.encode(), "request": request.encode()}
    places = {**kept, **found, "file": files[0]}
    assert [name for name, text in places.items() if CANARY.encode() in text] == []
    assert "[gone]" in cassette
    assert "[gone]" in caplog.text
    assert CANARY in streamed or "[gone]" in streamed


def test_replicas_on_a_database_keep_no_such_word(tmp_path: Path, postgres: str) -> None:
    folder = Folder(tmp_path / "server", f"I heard {CANARY}.")
    settings = tmp_path / "ronda.toml"
    settings.write_text("[[redact]]\npattern = 'canary-\\d+-word'\nreplacement = '[gone]'\n")
    with folder.serving("--config", str(settings), "--database", postgres) as server:
        response = server.ended(server.ask(input=f"I am {CANARY}.", background=True, stream=False))
        server.end(signal.SIGTERM)
    with psycopg.connect(postgres) as database:
        names = database.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        )
        tables = [row[0] for row in names.fetchall()]
        rows = {name: str(database.execute(f'SELECT * FROM "{name}"').fetchall()) for name in tables}

    assert response["output"][0]["content"][0]["text"] == "I heard [gone]."
    assert [name for name, text in rows.items() if CANARY in text] == []
    assert [name for name, text in rows.items() if "[gone]" in text] != []


# ---- every fact ------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=20), max_size=3), st.integers(0, 3))
def test_texts_are_the_same_but_for_the_words(around: list[str], count: int) -> None:
    text = CANARY.join([*around, *[""] * count])
    assert CANARY not in redactor()(text)
    assert redactor()("".join(around)) == "".join(around) or CANARY in "".join(around) or "-" in "".join(around)


def test_facts_without_such_words_stay_the_very_same() -> None:
    facts = every_fact("run")
    assert [fact for fact in facts if redacted(fact, redactor()) is not fact] == []


def test_every_word_of_every_fact_is_looked_at() -> None:
    """A field that events get later is looked at, unless it is named as one that has no words."""
    facts = every_fact("run")
    written = msgspec.json.encode(facts)
    seen: list[str] = []

    def note(text: str) -> str:
        seen.append(text)
        return text

    for fact in facts:
        redacted(fact, note)
    strings = {one for one in _strings(json.loads(written)) if " " in one and len(one) > 8}
    left_out = [one for one in strings if not any(one in text or text in one for text in seen)]
    assert left_out == []


def _strings(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case list():
            return [text for one in value for text in _strings(one)]
        case dict():
            return [text for key, one in value.items() if key not in ("files", "links") for text in _strings(one)]
        case _:
            return []


def test_a_provider_s_own_json_is_left_out_and_never_rewritten() -> None:
    native = Native("openai:x", Raw(json.dumps({"signature": "abc", "text": CANARY}).encode()))
    turn = AssistantTurn((Text("hello"), ToolCall("c", "look", json.dumps({"q": f'"{CANARY}"'}))), native=native)
    found = redacted(ModelFinished(turn), redactor()).turn
    assert found.native is None
    assert json.loads(found.calls[0].arguments) == {"q": '"[gone]"'}
    sealed = AssistantTurn((Text("hello"),), native=Native("openai:x", Raw(b'{"signature":"abc"}')))
    assert redacted(ModelFinished(sealed), redactor()).turn is sealed


def test_previews_are_not_kept_since_a_word_may_be_cut_in_two() -> None:
    inner = MemoryJournal()
    journal = redacting(inner, redactor())
    start = every_fact("run")[0]
    assert isinstance(start, RunStarted)
    journal.append("run", [msgspec.structs.replace(start, outlives=True)])
    halves: list[Event] = [TextDelta(CANARY[:6]), TextDelta(CANARY[6:])]
    journal.append("run", halves)
    assert asyncio.run(journal.previews("run")) == {}


# ---- rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([{"pattern": "(?=x)"}], "cannot be used"),
        ([{"pattern": "(x"}], "cannot be used"),
        ([{"pattern": "x*"}], "fits an empty text"),
        ([{"pattern": ""}], "1 to 1000"),
        ([{"pattern": "x" * 1001}], "1 to 1000"),
        ([{"pattern": "gone"}], None),
        ([{"pattern": "red"}], "fits its own pattern"),
        ([{"pattern": "x"}] * 101, "it can have 100"),
    ],
)
def test_rules_that_cannot_be_are_refused(rules: Any, words: str | None) -> None:
    config = make_config({"model": "script:x", "redact": rules})
    if words is None:
        check_config(config)
        return
    with pytest.raises(BadConfig, match=words):
        check_config(config)


def test_hostile_patterns_and_texts_take_no_more_than_their_length() -> None:
    """With `re`, one of these takes longer than a life."""
    hostile = Redactor([RedactRule(r"(a*)*b"), RedactRule(r"(a|a)*$c"), RedactRule(r"(x+x+)+y")])
    assert hostile("a" * 500_000) == "a" * 500_000
    assert hostile("x" * 500_000) == "x" * 500_000
    assert hostile("\ud800 aab") == "? [redacted]"


def test_a_replacement_is_a_text_and_no_template() -> None:
    assert Redactor([RedactRule(r"(secret)", r"\1 \g<0> $1")])("a secret") == r"a \1 \g<0> $1"

"""What our Responses door says, held against the OpenAPI document of Open Responses.

Recorded answers of the Responses API are given to the loop as a model's, and written again by our door: every event and every
body must be of that schema, the stream must add up to the plain body, and our own client must read back what was said. Recorded
requests must be read, or refused by the name of something that this server does not have.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
from tests.conformance.recordings import Exchange
from tests.conformance.report import Excepted, PartResult, Tally, absent, same
from tests.conformance.responses_recorded import exchanges, is_answer

from ronda.core.events import Event, ModelFinished, ModelStarted, RunFinished, RunStarted
from ronda.core.parts import AssistantTurn, Reasoning, Refusal, Text, ToolCall, user
from ronda.core.plan import Plan, ToolSpec
from ronda.core.run import Run, rebuild
from ronda.errors import BadRequest, UpstreamError
from ronda.wire.codec.sse import SseReader
from ronda.wire.openai_responses.client_answer import read_plain
from ronda.wire.openai_responses.client_stream import Reader
from ronda.wire.openai_responses.resource import StoredOptions
from ronda.wire.openai_responses.server_answer import ResponseAnswer
from ronda.wire.openai_responses.server_request import read_request

WHERE = Path("openresponses") / "openapi.json"
# The events that only we have, which the schema cannot know.
OURS = frozenset({"agentic_tool_call_progress", "agentic_tool_call_preview", "agentic_tool_approval_required"})


class OpenResponses:
    """The schemas of the document, compiled as they are asked for."""

    def __init__(self, path: Path) -> None:
        document = json.loads(path.read_text())
        self._components = document["components"]
        stream = document["paths"]["/responses"]["post"]["responses"]["200"]["content"]["text/event-stream"]["schema"]
        names = [one["$ref"].rpartition("/")[2] for one in stream["oneOf"]]
        self._events = {self._components["schemas"][name]["properties"]["type"]["enum"][0]: name for name in names}
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}

    def check(self, value: Any, schema: str) -> None:
        """Raises AssertionError where a value is not of a schema."""
        validator = self._validators.get(schema)
        if validator is None:
            whole = {"$ref": f"#/components/schemas/{schema}", "components": self._components}
            validator = self._validators[schema] = jsonschema_rs.Draft202012Validator(whole)
        errors = [f"{'.'.join(map(str, one.instance_path))}: {one.message}" for one in validator.iter_errors(value)]
        assert not errors, f"not of {schema}: {'; '.join(errors)[:2000]}"

    def check_event(self, event: Any) -> None:
        kind = event["type"]
        assert type(event["sequence_number"]) is int
        if kind not in OURS:
            assert kind in self._events, f"{kind} is not an event of Open Responses"
            self.check(event, self._events[kind])


class WithHostedItems:
    """Everything is of the schema, but for items of OpenAI's tools that the public document does not have, and their events."""

    def __init__(self, known: OpenResponses, items: frozenset[str]) -> None:
        self._known = known
        self._items = items

    def check(self, value: Any, schema: str) -> None:
        lists = {name: value[name] for name in ("output", "input") if isinstance(value.get(name), list)}
        known = {name: [item for item in items if item["type"] not in self._items] for name, items in lists.items()}
        self._known.check({**value, **known}, schema)

    def check_event(self, event: Any) -> None:
        assert type(event["sequence_number"]) is int
        if any(event["type"].startswith(f"response.{item}.") for item in self._items):
            return
        if "response" in event:
            event = {**event, "response": {**event["response"], "output": []}}
        if event.get("item", {}).get("type") in self._items:
            event = {**event, "item": _ANY_ITEM}
        self._known.check_event(event)


_ANY_ITEM = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "f",
    "arguments": "{}",
    "status": "completed",
}


class NoSchemas(OpenResponses):
    """Where the document is not at hand: whatever else a test looks at is still looked at."""

    def __init__(self) -> None:
        pass

    def check(self, value: Any, schema: str) -> None:
        pass

    def check_event(self, event: Any) -> None:
        assert type(event["sequence_number"]) is int


@lru_cache
def open_responses(data: Path) -> OpenResponses:
    return OpenResponses(data / WHERE) if (data / WHERE).is_file() else NoSchemas()


def check_stream(schemas: OpenResponses, body: bytes) -> list[dict[str, Any]]:
    """The events of a stream, each of its schema, numbered without a gap, and ended as it should be."""
    reader = SseReader()
    frames = [*reader.feed(body), *reader.close()]
    assert frames[-1].data == b"[DONE]", "the stream has no end"
    events = [json.loads(frame.data) for frame in frames[:-1]]
    for frame, event in zip(frames, events, strict=False):
        assert frame.event == event["type"], f"{frame.event} is the name of an event of type {event['type']}"
        schemas.check_event(event)
    first = events[0]["sequence_number"]
    same([event["sequence_number"] for event in events], list(range(first, first + len(events))), "sequence_number")
    return events


def run(data: Path) -> PartResult:
    if not (data / WHERE).is_file():
        return absent(str(WHERE))
    schemas = OpenResponses(data / WHERE)
    tally = Tally()
    reasons: Counter[str] = Counter()
    for exchange in exchanges(data):
        if not exchange.request:
            continue  # one that was only asked for again
        refused: list[str] = []
        tally.check("requests", exchange.id, partial(_read, exchange, refused))
        reasons.update(refused)
        if tally.select([exchange], is_answer):
            tally.check("answers", exchange.id, partial(_said_again, exchange, schemas))
    for reason, count in reasons.most_common():
        tally.note(f"refused by name {count} × {reason}")
    return tally.result()


_NOT_HERE = ("this server has no", "is not supported here")


def _read(exchange: Exchange, refused: list[str]) -> None:
    try:
        read_request(json.dumps(exchange.request).encode())
    except BadRequest as error:
        if error.param is None or not any(words in str(error) for words in _NOT_HERE):
            raise
        refused.append(str(error))


def _said_again(exchange: Exchange, schemas: OpenResponses) -> None:
    finished = _recorded(exchange)
    names = {call.name for call in finished.turn.calls}
    plan = Plan("recorded", tools=tuple([ToolSpec(name, kind="caller") for name in names]), stream=True)
    kept = StoredOptions(model="recorded")
    start = RunStarted("run_0123456789ab", plan, (user("go"),), 1.0, about=kept.about)
    reason = {"length": "length", "content_filter": "content_filter"}.get(
        finished.turn.stop, "tool_calls" if names else "stop"
    )
    facts: list[Event] = [ModelStarted(0), finished, RunFinished(reason, at=2.0)]  # type: ignore[arg-type]  # a reason
    events = check_stream(schemas, ResponseAnswer([rebuild([start, *facts])]).feed(0, facts))
    body = plain(rebuild([start, *facts]), facts)
    schemas.check(json.loads(body), "ResponseResource")
    same(events[-1]["response"], json.loads(body), "the end of the stream and the plain body")
    ours = read_plain(body)
    same(told(ours.turn), told(finished.turn), "what our client reads")
    reader = Reader()
    reader.feed(ResponseAnswer([rebuild([start, *facts])]).feed(0, facts))
    same(told(reader.finish().turn), told(finished.turn), "what our client reads of the stream")


def plain(run: Run, facts: list[Event]) -> bytes:
    answer = ResponseAnswer([run])
    answer.fold(0, facts)
    return answer.body()


def told(turn: AssistantTurn) -> Any:
    """What a turn says, however it is cut into parts."""
    texts = {
        kind: "".join([part.text for part in turn.parts if type(part) is kind]) for kind in (Text, Refusal, Reasoning)
    }
    calls = [(part.id, part.name, part.arguments) for part in turn.parts if type(part) is ToolCall]
    return {"text": texts[Text], "refusal": texts[Refusal], "thoughts": texts[Reasoning].split(), "calls": calls}


def _recorded(exchange: Exchange) -> ModelFinished:
    try:
        if exchange.sse is not None:
            reader = Reader()
            reader.feed(exchange.raw)
            reader.close()
            finished = reader.finish()
        else:
            finished = read_plain(exchange.raw)
    except UpstreamError as error:
        raise Excepted(f"a response that has no answer: {str(error)[:60]}") from None
    return msgspec.structs.replace(finished, turn=msgspec.structs.replace(finished.turn, native=None), held=())

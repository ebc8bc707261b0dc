"""An upstream that is down, slow, answers garbage or cuts the stream: a clear error, an ended stream, a record that says why."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Raw, Served, soon, user
from tests.interaction.every_door import NAMES, ask, tool_of
from tests.interaction.upstreams import Act, Exchange, Upstream, answers, call, completes, delta, refuses, streams

from ronda import Retry, tool
from ronda.core.events import ModelFailed, ModelInterrupted, ModelRetried
from ronda.core.limits import Timeouts
from ronda.providers.script import Call, Line, ScriptedModel, calls, says


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


async def post(served: Served, stream: bool, shown: asyncio.Event | None = None, **more: Any) -> Raw:
    return await served.post({"messages": [user("go")], "stream": stream, **more}, shown)


def ended_properly(answer: Raw) -> None:
    """A stream has a final chunk before [DONE]; a plain answer is a JSON error."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        last = answer.chunks[-1]
        assert last["choices"][0]["finish_reason"] is not None
        assert last["object"] == "chat.completion.chunk"
    else:
        assert answer.error["message"]


async def why(served: Served) -> str:
    """What the run's record says."""
    [end] = await served.ends
    assert end.reason == "failed"
    assert end.message is not None
    return end.message


async def check(door: Door, stream: bool, *acts: Act, status: int = 502, says: str, asked: int, **config: Any) -> Raw:
    """Every way to fail, seen the same way: by the client, by the upstream, in the record."""
    async with Upstream(*acts) as upstream, door.serving(upstream.url, **config) as served:
        answer = await post(served, stream, upstream.shown)
        reason = await why(served)
    ended_properly(answer)
    assert says in answer.error["message"]
    assert says in reason
    assert answer.status == status
    assert len(upstream.bodies) == asked
    return answer


# ---- nothing came ----------------------------------------------------------------------------------------------------


async def test_nobody_there(door: Door, stream: bool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused, and no other process can take it meanwhile
        port = taken.getsockname()[1]
        async with door.serving(f"http://127.0.0.1:{port}/v1") as served:
            answer = await post(served, stream)
            reason = await why(served)
            [events] = await served.events

    ended_properly(answer)
    assert answer.status == 502
    assert f"cannot reach the model's server at http://127.0.0.1:{port}" in answer.error["message"]
    assert reason in answer.error["message"]
    assert [event.attempt for event in events if isinstance(event, ModelRetried)] == [2, 3]
    assert [event.tries for event in events if isinstance(event, ModelFailed)] == [3]


async def test_an_answer_that_does_not_begin(door: Door, stream: bool) -> None:
    async def waits(exchange: Exchange) -> None:
        await exchange.until_gone()

    await check(
        door, stream, waits, waits, waits,
        says="it did not begin to answer within 0.05 seconds", asked=3, timeouts=Timeouts(first_byte=0.05),
    )  # fmt: skip


async def test_a_connection_that_closes_without_an_answer(door: Door, stream: bool) -> None:
    async def hangs_up(exchange: Exchange) -> None:
        return

    await check(door, stream, hangs_up, hangs_up, hangs_up, says="cannot reach the model's server", asked=3)


# ---- something else came ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"garbage", b"", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{}]}', b"\xff\xfe"])
async def test_garbage(door: Door, stream: bool, body: bytes) -> None:
    act = answers(body)
    await check(door, stream, act, act, act, says="the model's", asked=3)


async def test_an_html_page_with_status_500(door: Door, stream: bool) -> None:
    act = answers(b"<html><h1>Bad Gateway</h1></html>", 500, "text/html")
    await check(door, stream, act, act, act, says="the model's server answered 500: Bad Gateway", asked=3)


async def test_an_html_page_with_status_200(door: Door, stream: bool) -> None:
    act = answers(b"<html>Please log in</html>", 200, "text/html")
    await check(door, stream, act, act, act, says="not a chat completion", asked=3)


async def test_a_redirect_is_not_followed(door: Door, stream: bool) -> None:
    async with Upstream(completes("stolen")) as other:
        act = answers(b"", 307, location=other.url)
        await check(door, stream, act, says="307", asked=1)

    assert other.bodies == []


@pytest.mark.parametrize("status", [500, 502, 503, 504, 529])
async def test_a_server_error_is_tried_three_times(door: Door, stream: bool, status: int) -> None:
    act = refuses(status, "overloaded")
    answer = await check(door, stream, act, act, act, says=f"answered {status}: overloaded", asked=3)
    assert answer.error["type"] == "server_error"


async def test_rate_limits_pass_on_as_429(door: Door, stream: bool) -> None:
    act = refuses(429, "slow down")
    answer = await check(door, stream, act, act, act, status=429, says="answered 429: slow down", asked=3)
    assert answer.error["type"] == "rate_limit_error"


async def test_400_passes_on_as_400_and_is_not_tried_again(door: Door, stream: bool) -> None:
    act = refuses(400, "temperature is too hot")
    answer = await check(door, stream, act, status=400, says="answered 400: temperature is too hot", asked=1)
    assert answer.error["type"] == "invalid_request_error"


@pytest.mark.parametrize("status", [401, 403])
async def test_our_own_key_being_refused_is_not_the_callers_fault(door: Door, stream: bool, status: int) -> None:
    await check(door, stream, refuses(status, "no such key"), says="no such key", asked=1)


@pytest.mark.parametrize(
    ("status", "code", "shown", "answered"),
    [
        (400, "content_filter", "content_filter", 400),
        (404, "model_not_found", "model_not_found", 400),
        (429, "insufficient_quota", "insufficient_quota", 429),
        (401, "invalid_api_key", "upstream_error", 502),  # it is the operator's key, not the caller's
        (400, "Look at https://example.org", "upstream_error", 400),
    ],
)
async def test_a_code_that_programs_compare_passes_on(
    door: Door, stream: bool, status: int, code: str, shown: str, answered: int
) -> None:
    answer = await check(door, stream, refuses(status, "no way", code), status=answered, says="no way", asked=1)
    assert answer.error["code"] == shown


@pytest.mark.parametrize("path", ["responses", "agents/completions", "conversations"])
@pytest.mark.parametrize("provider", ["openai-chat:m", "openai:m"])
async def test_it_passes_on_at_every_door_that_has_codes(door: Door, stream: bool, path: str, provider: str) -> None:
    questions: dict[str, Json] = {
        "responses": {"input": "go"},
        "agents/completions": {"agent_id": "default", "messages": [user("go")]},
        "conversations": {"model": "default", "inputs": "go"},
    }
    act = refuses(400, "no way", "content_filter")
    async with Upstream(act) as upstream, door.serving(upstream.url, model=provider) as served:
        body = json.dumps({**questions[path], "stream": stream}).encode()
        headers = {"content-type": "application/json"}
        async with soon(), served.http.post(f"{served.url}/{path}", data=body, headers=headers) as answer:
            text = await answer.text()

    assert answer.status == 400
    found = json.loads(text)
    assert found.get("error", found)["code"] == "content_filter"


async def test_a_client_library_is_told_not_to_repeat_the_request(door: Door, stream: bool) -> None:
    act = refuses(500, "overloaded")
    answer = await check(door, stream, act, act, act, says="overloaded", asked=3)
    assert answer.headers["x-should-retry"] == "false"


async def test_no_retry_means_one_try(door: Door, stream: bool) -> None:
    await check(door, stream, refuses(500, "overloaded"), says="overloaded", asked=1, retry=Retry(tries=1))


async def test_a_plain_answer_that_is_cut(door: Door) -> None:
    async def cuts(exchange: Exchange) -> None:
        await exchange.write(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{"choi')

    await check(door, False, cuts, cuts, cuts, says="broke off", asked=3)


# ---- streams that go wrong -------------------------------------------------------------------------------------------

HEL: Json = delta(role="assistant", content="Hel")


async def mid_chunk(exchange: Exchange) -> None:
    await exchange.begin_stream()
    await exchange.send(HEL, ...)
    await exchange.write(b'100\r\ndata: {"choices": [{"index": 0, "delta": {"con')


async def goes_silent(exchange: Exchange) -> None:
    await exchange.begin_stream()
    await exchange.send(HEL)
    await exchange.until_gone()


BREAKS: dict[str, tuple[Act, str]] = {
    "cut between chunks": (streams(HEL, ..., ended=False), "broke off"),
    "cut inside a chunk": (mid_chunk, "broke off"),
    "no finish": (streams(HEL, ...), "ended before it was complete"),
    "error chunk": (streams(HEL, ..., {"error": {"message": "out of memory", "code": 500}}), "out of memory"),
    "error string": (streams(HEL, ..., {"error": "out of memory"}), "out of memory"),
    "garbage chunk": (streams(HEL, ..., "garbage"), "cannot be read"),
    "wrong shape": (streams(HEL, ..., '{"choices": "none"}'), "cannot be read"),
    "silence": (goes_silent, "fell silent"),
    "finish says error": (streams(HEL, ..., delta("error"), "[DONE]"), "error"),
}


def silence(act: Act) -> Timeouts:
    """A short patience only with who falls silent: on a busy machine the others may be slow."""
    return Timeouts(silence=0.05) if act is goes_silent else Timeouts()


@pytest.mark.parametrize(("act", "said"), BREAKS.values(), ids=BREAKS.keys())
async def test_a_stream_that_breaks_off_ends_with_what_was_shown_and_why(door: Door, act: Act, said: str) -> None:
    answer = await check(door, True, act, status=200, says=said, asked=1, timeouts=silence(act))

    assert answer.said.content == "Hel"


@pytest.mark.parametrize(("act", "said"), BREAKS.values(), ids=BREAKS.keys())
async def test_what_was_shown_is_kept_in_the_record(door: Door, act: Act, said: str) -> None:
    async with Upstream(act) as upstream, door.serving(upstream.url, timeouts=silence(act)) as served:
        await post(served, True, upstream.shown)
        [events] = await served.events

    [broken] = [event for event in events if isinstance(event, ModelInterrupted)]
    assert (broken.turn.text, broken.turn.stop) == ("Hel", "interrupted")
    assert said in broken.reason


async def test_a_stream_that_says_nothing_after_its_head_is_tried_again(door: Door) -> None:
    async def says_nothing(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.until_gone()

    async with (
        Upstream(says_nothing, completes("Hello")) as upstream,
        door.serving(upstream.url, timeouts=Timeouts(silence=0.5)) as served,
    ):
        answer = await post(served, True)

    assert answer.said.content == "Hello"


async def test_a_stream_that_breaks_before_anything_was_shown_is_tried_again(door: Door) -> None:
    acts = [streams(ended=False), streams({"error": {"message": "busy", "code": 503}}), completes("Hello")]

    async with Upstream(*acts) as upstream, door.serving(upstream.url) as served:
        answer = await post(served, True)

    assert (answer.said.content, answer.said.finish_reason) == ("Hello", "stop")
    assert len(upstream.bodies) == 3


@pytest.mark.parametrize("name", NAMES)
async def test_where_the_server_runs_the_loop_what_was_shown_is_not_repeated_either(door: Door, name: str) -> None:
    model = ScriptedModel(calls(Call("lookup", {"q": "a"})), Line("Hel", cut=True), says("Hello"))

    async with door.serving(model, lookup) as served:
        heard = await ask(served, name, True)
        [events] = await served.events

    assert (heard.text, heard.end) == ("Hel", "error")
    assert "the script breaks off here" in heard.error
    assert len(model.heard) == 2
    [broken] = [event for event in events if isinstance(event, ModelInterrupted)]
    assert (broken.turn.text, broken.cause) == ("Hel", "upstream")


@pytest.mark.parametrize("name", NAMES)
async def test_a_plain_request_is_shown_nothing_and_tried_again(door: Door, name: str) -> None:
    model = ScriptedModel(calls(Call("lookup", {"q": "a"})), Line("Hel", cut=True), says("Hello"))

    async with door.serving(model, lookup) as served:
        heard = await ask(served, name, False)

    assert (heard.text, heard.end) == ("Hello", "stop")


@pytest.mark.parametrize("name", NAMES)
async def test_where_a_new_attempt_is_wanted_it_is_marked(door: Door, name: str) -> None:
    model = ScriptedModel(calls(Call("lookup", {"q": "a"})), Line("Hel", cut=True), says("Hello"))

    async with door.serving(model, lookup, retry=Retry(0.0, on_interrupt="again")) as served:
        heard = await ask(served, name, True)

    assert heard.end == "stop"
    assert heard.warnings == ["the model's answer broke off: the script breaks off here"]
    events = heard.events
    match name:
        case "chat" | "completions":
            assert heard.text == "Hel\n\nHello"
            at = [n for n, (_, chunk) in enumerate(events) if "model_interrupted" in chunk]
            assert [events[n][1]["model_interrupted"] for n in at] == [{"reason": "the script breaks off here"}]
            chunks = [chunk for _, chunk in events[: at[0]] if chunk["choices"]]
            assert "".join([chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]) == "Hel"
        case "responses":
            items = [item for item in events[-1][1]["response"]["output"] if item["type"] == "message"]
            assert [(item["status"], item["content"][0]["text"]) for item in items] == [
                ("incomplete", "Hel"),
                ("completed", "Hello"),
            ]
        case "messages":
            kinds = [kind for kind, _ in events if kind in ("content_block_start", "model_interrupted")]
            assert kinds == ["content_block_start", "model_interrupted", "content_block_start"]
        case _:
            ids = [event["id"] for kind, event in events if kind == "message.output.delta"]
            assert len(dict.fromkeys(ids)) == 2


@pytest.mark.parametrize("name", NAMES)
async def test_a_call_that_was_announced_is_never_asked_for_again(door: Door, name: str) -> None:
    cut = Line(calls=(Call("ask", {"q": "why?"}),), cut=True)
    model = ScriptedModel(cut, says("never said"))

    async with door.serving(model, lookup, retry=Retry(0.0, on_interrupt="again")) as served:
        heard = await ask(served, name, True, [tool_of("ask", q="string")])

    assert len(model.heard) == 1
    assert heard.end == "error"


async def test_calls_of_a_turn_that_broke_off_are_not_run(door: Door) -> None:
    half: Json = delta(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "lookup", "arguments": '{"q":"a"}'}}])
    acts = [streams(HEL, half, ..., ended=False)]

    async with Upstream(*acts) as upstream, door.serving(upstream.url, lookup) as served:
        answer = await post(served, True, upstream.shown)

    assert answer.said.progress == []
    assert answer.said.content == "Hel"


async def test_a_call_of_ours_that_broke_off_was_not_shown_and_is_tried_again(door: Door) -> None:
    half: Json = delta(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "lookup", "arguments": '{"q":"a"}'}}])
    acts = [streams(half, ended=False), completes("without it")]

    async with Upstream(*acts) as upstream, door.serving(upstream.url, lookup) as served:
        answer = await post(served, True, upstream.shown)

    assert answer.said.progress == []
    assert answer.said.content == "without it"


async def test_a_finished_stream_without_done_is_a_good_answer(door: Door) -> None:
    async with Upstream(streams(HEL, delta("stop", content="lo"))) as upstream, door.serving(upstream.url) as served:
        answer = await post(served, True, upstream.shown)

    assert (answer.said.content, answer.said.finish_reason) == ("Hello", "stop")


async def test_a_server_that_ignores_stream_is_read_all_the_same(door: Door) -> None:
    body = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}'

    async with Upstream(answers(body)) as upstream, door.serving(upstream.url) as served:
        answer = await post(served, True, upstream.shown)

    assert (answer.said.content, answer.said.finish_reason) == ("Hello", "stop")


# ---- and with usage asked for ----------------------------------------------------------------------------------------


async def test_a_failed_stream_still_has_its_usage_chunk_when_asked(door: Door) -> None:
    act = completes(None, call("lookup", q="a"), tokens=(7, 3))
    bad = refuses(400, "too long")

    async with Upstream(act, bad) as upstream, door.serving(upstream.url, lookup) as served:
        answer = await post(served, True, stream_options={"include_usage": True})

    assert answer.said.usage == (7, 3)
    assert answer.chunks[-1]["choices"] == []
    assert answer.chunks[-2]["choices"][0]["finish_reason"] is not None


async def test_the_official_sdk_raises_what_a_stream_says_went_wrong(door: Door, stream: bool) -> None:
    act = refuses(500, "overloaded")
    async with Upstream(act, act, act) as upstream, door.serving(upstream.url) as served:
        with pytest.raises(Exception, match="answered 500: overloaded"):
            await served.ask(stream=stream)

"""The cases of the public compliance suite of Open Responses, by their names there, on the default model.

They pass if what is asked for comes to its end by itself: one after another with the seeds 1 to 5; and all at once, where a
turn on a WebSocket may take 30 seconds.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

SEEDS = range(1, 6)
TURN = 30.0  # seconds: the suite's own limit for a turn on a WebSocket
HEART = "data:image/png;base64,iVBORw0KGgo="
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather for a location",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}

Json = dict[str, Any]


class Client:
    def __init__(self, http: aiohttp.ClientSession, url: str, seed: int) -> None:
        self._http = http
        self._url = url
        self._seed = seed

    async def post(self, path: str = "/responses", **body: Any) -> tuple[int, Json]:
        asked = {"model": "default", "seed": self._seed, **body}
        if path != "/responses":
            del asked["seed"]
        async with self._http.post(self._url + path, json=asked) as answer:
            return answer.status, await answer.json()

    async def streamed(self, **body: Any) -> Json:
        asked = {"model": "default", "seed": self._seed, "stream": True, **body}
        last: Json = {}
        async with self._http.post(f"{self._url}/responses", json=asked) as answer:
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    last = json.loads(line[6:])
        return last

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[Callable[..., Awaitable[Json]]]:
        async with self._http.ws_connect(f"{self._url.replace('http', 'ws')}/responses") as socket:

            async def turn(text: Any, **body: Any) -> Json:
                asked = {"type": "response.create", "model": "default", "seed": self._seed, "input": text, **body}
                async with asyncio.timeout(TURN):
                    await socket.send_str(json.dumps(asked))
                    while True:
                        event: Json = json.loads(await socket.receive_str())
                        if event["type"] in ("error", "response.completed", "response.incomplete", "response.failed"):
                            return event

            yield turn


def says(role: str, content: Any) -> Json:
    return {"type": "message", "role": role, "content": content}


async def completes(client: Client, *items: Json) -> bool:
    status, response = await client.post(input=list(items))
    return status == 200 and response["status"] == "completed" and bool(response["output"])


async def calls(client: Client) -> bool:
    question = says("user", "What's the weather like in San Francisco?")
    _, response = await client.post(input=[question], tools=[WEATHER])
    return any(item["type"] == "function_call" for item in response["output"])


async def streams(client: Client) -> bool:
    return is_complete(await client.streamed(input=[says("user", "Count from 1 to 5.")]))


async def compacts(client: Client) -> bool:
    said = [says("user", "The launch is on Friday at noon."), says("assistant", "I will remember that.")]
    status, compacted = await client.post("/responses/compact", input=said)
    return status == 200 and compacted["output"][-1]["type"] == "compaction"


async def misses_a_model(client: Client) -> bool:
    return (await client.post("/responses/compact", model=None, input="Hello."))[0] == 400


def is_complete(event: Json) -> bool:
    return (event["type"], event.get("response", {}).get("status")) == ("response.completed", "completed")


def is_lost(event: Json) -> bool:
    return (event["type"], event.get("error", {}).get("code")) == ("error", "previous_response_not_found")


async def answers_on_a_socket(client: Client) -> bool:
    async with client.socket() as turn:
        return is_complete(await turn([says("user", "Count from 1 to 3.")]))


async def answers_in_a_row(client: Client) -> bool:
    async with client.socket() as turn:
        return all(
            [is_complete(await turn(f"Reply with exactly: {word}", store=False)) for word in ("first", "second")]
        )


async def goes_on(client: Client) -> bool:
    async with client.socket() as turn:
        first = await turn("Remember the code word: cobalt. Reply with OK.", store=False)
        asked = "What is the code word? Reply with only the code word."
        second = await turn(asked, store=False, previous_response_id=first["response"]["id"])
        return is_complete(first) and is_complete(second)


async def recovers(client: Client) -> bool:
    async with client.socket() as turn:
        first = await turn("Remember the code word: amber. Reply with OK.", store=False)
    async with client.socket() as turn:
        lost = await turn("Which?", store=False, previous_response_id=first["response"]["id"])
        told = [says("user", "The code word is amber."), says("assistant", "OK"), says("user", "Which code word?")]
        return is_complete(first) and is_lost(lost) and is_complete(await turn(told, store=False))


async def finds_nothing(client: Client) -> bool:
    async with client.socket() as turn:
        return is_lost(await turn("And?", store=False, previous_response_id="resp_missing"))


async def forgets(client: Client) -> bool:
    async with client.socket() as turn:
        first = await turn("Remember the code word: ember. Reply with OK.", store=False)
        response_id = first["response"]["id"]
        wrong = [{"type": "function_call_output", "call_id": "call_missing", "output": "nothing"}]
        failed = await turn(wrong, store=False, previous_response_id=response_id)
        retried = await turn("Go on.", store=False, previous_response_id=response_id)
        return is_complete(first) and failed["type"] == "error" and is_lost(retried)


async def begins_anew(client: Client) -> bool:
    _, compacted = await client.post("/responses/compact", input=[says("user", "The code word is jade.")])
    async with client.socket() as turn:
        asked = [*compacted["output"], says("user", "Which code word? Reply with only the code word.")]
        return is_complete(await turn(asked, store=False))


Case = Callable[[Client], Awaitable[bool]]
PICTURE = [
    {"type": "input_text", "text": "What do you see in this image? Answer in one sentence."},
    {"type": "input_image", "image_url": HEART},
]
CASES: dict[str, Case] = {
    "basic-response": lambda client: completes(client, says("user", "Say hello in exactly 3 words.")),
    "assistant-phase": lambda client: completes(
        client, says("user", "What is six times seven?"), says("assistant", "It is 42."), says("user", "Again?")
    ),
    "response-output-phase-schema": lambda client: completes(client, says("user", "Say hello.")),
    "streaming-response": streams,
    "system-prompt": lambda client: completes(
        client, says("system", "You are a pirate. Always respond in pirate speak."), says("user", "Say hello.")
    ),
    "tool-calling": calls,
    "image-input": lambda client: completes(client, says("user", PICTURE)),
    "multi-turn": lambda client: completes(
        client, says("user", "My name is Alice."), says("assistant", "Hello Alice!"), says("user", "What is my name?")
    ),
    "compact-response": compacts,
    "compact-missing-model": misses_a_model,
    "websocket-response": answers_on_a_socket,
    "websocket-sequential-responses": answers_in_a_row,
    "websocket-continuation": goes_on,
    "websocket-reconnect-store-false-recovery": recovers,
    "websocket-previous-response-not-found": finds_nothing,
    "websocket-failed-continuation-evicts-cache": forgets,
    "websocket-compact-new-chain": begins_anew,
}


async def passes(case: Case, client: Client) -> bool:
    try:
        return await case(client)
    except (TimeoutError, KeyError, aiohttp.ClientError):
        return False


async def play(url: str) -> tuple[int, int]:
    results: list[bool] = []
    timeout = aiohttp.ClientTimeout(total=3600)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        for seed in SEEDS:
            found = {name: await passes(case, Client(http, url, seed)) for name, case in CASES.items()}
            results += _tell(f"open responses, seed {seed}", found)
        began = time.monotonic()
        passed = await asyncio.gather(*[passes(case, Client(http, url, 1)) for case in CASES.values()])
        seconds = time.monotonic() - began
        results += _tell(f"open responses, all at once ({seconds:.0f} s)", dict(zip(CASES, passed, strict=True)))
    return sum(results), len(results) - sum(results)


def _tell(title: str, found: dict[str, bool]) -> list[bool]:
    failed = [name for name, good in found.items() if not good]
    print(f"{title}: {sum(found.values())} of {len(found)}{': not ' * bool(failed)}{', '.join(failed)}", flush=True)
    return list(found.values())


def responses(url: str) -> tuple[int, int]:
    return asyncio.run(play(url))

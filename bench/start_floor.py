"""The floor of the start: a script that asks the model once with aiohttp, then waits while it is measured."""

import asyncio
import json
import sys

import aiohttp


async def main(url: str, model: str) -> str:
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "What is the weather in Paris?"},
    ]
    request = json.dumps({"model": model, "messages": messages})
    headers = {"content-type": "application/json", "authorization": "Bearer bench"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + "/chat/completions", data=request, headers=headers) as response,
    ):
        answer = json.loads(await response.read())
    return str(answer["choices"][0]["message"]["content"])


print(asyncio.run(main(sys.argv[1], sys.argv[2])), flush=True)
sys.stdin.read()

"""The snippets of Mistral's older page, with the SDK they were written for: mistralai 1.12.4, in a process of its own.

Two versions of one package cannot live in one environment: `make setup` puts the older one into .venv/mistral-1.
"""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from pathlib import Path

import pytest
from tests.interaction.doors import Door, python
from tests.server.mistral_doors import serving
from tests.timeouts import TIMEOUT

from ronda import tool
from ronda.providers.script import fails
from ronda.testing import ScriptedModel, calls, says

OLDER = Path(sys.prefix) / "mistral-1"

pytestmark = pytest.mark.skipif(
    not (OLDER / "mistralai").is_dir(), reason=f"mistralai 1.12.4 is not in {OLDER.name}; `make setup` puts it there"
)

# The snippets name no address: the SDK's own is changed from outside.
PRELUDE = """
import os, asyncio
from mistralai import sdkconfiguration
from mistralai._version import __version__
assert __version__ == "1.12.4", __version__
for name in sdkconfiguration.SERVERS:
    sdkconfiguration.SERVERS[name] = os.environ["RONDA_URL"]
"""

COMPLETE = """
from mistralai.sdk import Mistral
import os

with Mistral(
    api_key=os.getenv("MISTRAL_API_KEY", ""),
) as mistral:

    res = mistral.agents.complete(messages=[
        {
            "content": "Who is the best French painter? Answer in one short sentence.",
            "role": "user",
        },
    ], agent_id="default", stream=False, response_format={
        "type": "text",
    })

    # Handle response
    print(res)
    print("SAID", res.choices[0].message.content)
"""

STREAM = """
from mistralai.sdk import Mistral
import os

with Mistral(
    api_key=os.getenv("MISTRAL_API_KEY", ""),
) as mistral:

    res = mistral.agents.stream(messages=[
        {
            "content": "Who is the best French painter? Answer in one short sentence.",
            "role": "user",
        },
    ], agent_id="default", stream=True, response_format={
        "type": "text",
    })

    said = ""
    with res as event_stream:
        for event in event_stream:
            # handle event
            print(event, flush=True)
            said += "".join(choice.delta.content or "" for choice in event.data.choices)
    print("SAID", said)
"""

COMPLETE_ASYNC = """
from mistralai.sdk import Mistral

async def main():
    async with Mistral(api_key=os.getenv("MISTRAL_API_KEY", "")) as mistral:
        res = await mistral.agents.complete_async(
            messages=[{"content": "Who?", "role": "user"}], agent_id="default"
        )
        print("SAID", res.choices[0].message.content)

asyncio.run(main())
"""

STREAM_ASYNC = """
from mistralai.sdk import Mistral

async def main():
    async with Mistral(api_key=os.getenv("MISTRAL_API_KEY", "")) as mistral:
        res = await mistral.agents.stream_async(
            messages=[{"content": "Who?", "role": "user"}], agent_id="default"
        )
        said = ""
        async for event in res:
            said += "".join(choice.delta.content or "" for choice in event.data.choices)
        print("SAID", said)

asyncio.run(main())
"""

PROGRESS = """
from mistralai.sdk import Mistral

with Mistral(api_key="k") as mistral:
    said = ""
    for event in mistral.agents.stream(messages=[{"role": "user", "content": "hi"}], agent_id="default"):
        said += event.data.choices[0].delta.content
    print("SAID", said)
"""

CALLS = """
from mistralai.sdk import Mistral

tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
with Mistral(api_key="k") as mistral:
    asked = {"messages": [{"role": "user", "content": "hi"}], "agent_id": "default", "tools": [tool]}
    res = mistral.agents.complete(**asked)
    print("SAID", [(c.id, c.function.name, c.function.arguments) for c in res.choices[0].message.tool_calls])
"""

AGENTS = """
from mistralai.sdk import Mistral

with Mistral(api_key="k") as mistral:
    agent = mistral.beta.agents.create(model="default", name="A", instructions="Be brief")
    agent = mistral.beta.agents.update(agent_id=agent.id, name="B")
    talk = mistral.beta.conversations.start(agent_id=agent.id, inputs="hi")
    print("SAID", agent.name, agent.version, talk.outputs[0].content)
"""

INVALID = """
from mistralai.sdk import Mistral
from mistralai import models

with Mistral(api_key="k") as mistral:
    for sent in ({"agent_id": "nobody"}, {"agent_id": "default", "max_tokens": 0}):
        try:
            mistral.agents.complete(messages=[{"role": "user", "content": "hi"}], **sent)
        except models.SDKError as error:
            print("SAID", type(error).__name__, error.status_code)
        except models.HTTPValidationError as error:
            print("SAID", type(error).__name__, error.data.detail[0].loc)
"""


FAILING = """
from mistralai.sdk import Mistral
from mistralai import models

with Mistral(api_key="k") as mistral:
    asked = {"messages": [{"role": "user", "content": "hi"}], "agent_id": "default"}
    for ask in (mistral.agents.complete, mistral.agents.stream):
        try:
            print("SAID", list(ask(**asked)))
        except models.SDKError as error:
            print("SAID", type(error).__name__, error.status_code, error.body)
"""


WATCHED = """
from mistralai.sdk import Mistral

with Mistral(api_key="k") as mistral:
    said = ""
    for event in mistral.agents.stream(messages=[{"role": "user", "content": "hi"}], agent_id="default"):
        said += event.data.choices[0].delta.content
    print("SAID", said)
    kinds = []
    for event in mistral.beta.conversations.start_stream(model="default", inputs="hi"):
        kinds.append(type(event.data).__name__)
    print("SAID", *[kind for kind in dict.fromkeys(kinds) if kind.startswith("Tool")])
"""


@tool(preview=["/q"])
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


async def said_by(snippet: str, url: str) -> list[str]:
    """Run a snippet; what it says on the lines that count."""
    env = {**os.environ, "PYTHONPATH": str(OLDER), "RONDA_URL": url, "MISTRAL_API_KEY": "test"}
    code = PRELUDE + textwrap.dedent(snippet)
    process = await asyncio.create_subprocess_exec(
        python(), "-c", code, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
    assert process.returncode == 0, err.decode()
    return [line.removeprefix("SAID ") for line in out.decode().splitlines() if line.startswith("SAID ")]


@pytest.mark.parametrize("snippet", [COMPLETE, STREAM, COMPLETE_ASYNC, STREAM_ASYNC, PROGRESS])
async def test_the_snippets_of_the_page_run(door: Door, snippet: str) -> None:
    model = ScriptedModel(calls("lookup", q="painters"), says("Claude Monet."))
    async with serving(door, model, lookup) as behind:
        assert await said_by(snippet, behind.url) == ["Claude Monet."]


async def test_it_reads_a_stream_in_which_arguments_are_watched(door: Door) -> None:
    model = ScriptedModel(*[calls("lookup", q="painters"), says("Claude Monet.")] * 2)
    async with serving(door, model, lookup) as behind:
        assert await said_by(WATCHED, behind.url) == [
            "Claude Monet.",
            "ToolExecutionStartedEvent ToolExecutionDeltaEvent ToolExecutionDoneEvent",
        ]


async def test_it_reads_calls(door: Door) -> None:
    async with serving(door, ScriptedModel(calls("weather", city="Rome"))) as behind:
        assert await said_by(CALLS, behind.url) == ["[('call_0_0', 'weather', '{\"city\":\"Rome\"}')]"]


async def test_it_reads_agents_and_conversations(door: Door) -> None:
    async with serving(door, ScriptedModel(says("Hello."))) as behind:
        assert await said_by(AGENTS, behind.url) == ["B 1 Hello."]


async def test_it_reads_errors(door: Door) -> None:
    async with serving(door, ScriptedModel()) as behind:
        assert await said_by(INVALID, behind.url) == [
            "SDKError 404",
            "HTTPValidationError ['body', 'max_tokens']",
        ]


async def test_it_raises_the_same_error_streamed_and_plain(door: Door) -> None:
    lines = [fails("slow down", 429, 0.0)] * 6
    async with serving(door, ScriptedModel(*lines)) as behind:
        plain, streamed = await said_by(FAILING, behind.url)

    assert plain.startswith("SDKError 429 ")
    assert streamed == plain

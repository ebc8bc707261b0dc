"""What tests of `Runner` share: a tool, and the program of mistral.rs's page on tool calling that asks for it."""

import json

WEATHER = json.dumps(
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the current weather for a city.",
            "strict": True,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
)

_PROGRAM = """
import json
IMPORTS

tool_schema = json.dumps({
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather for a city.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
})

runner = RUNNER
response = runner.send_chat_completion_request(
    ChatCompletionRequest(
        model="default",
        messages=[{"role": "user", "content": "What's the weather in Tokyo?"}],
        tool_schemas=[tool_schema],
        tool_choice=ToolChoice.Auto,
    )
)
print(response.choices[0].message.tool_calls)
"""


def program(*, imports: str, runner: str) -> str:
    """The text of the page, with the two lines in which our modules differ from it."""
    return _PROGRAM.replace("IMPORTS", imports).replace("RUNNER", runner)

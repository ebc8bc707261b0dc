"""Items and answers as the Responses API has them, for the tests of its client."""

import json
from typing import Any

from hypothesis import strategies as st

from ronda.core.parts import Turn
from ronda.wire.openai_responses.items import Items

Json = Any


def reasoning(*summary: str, n: int = 0, **members: Json) -> Json:
    said = [{"type": "summary_text", "text": text} for text in summary]
    return {"id": f"rs_{n}", "type": "reasoning", "summary": said, "encrypted_content": f"gAAA{n}=", **members}


def message(text: str, n: int = 0, **members: Json) -> Json:
    content = [{"type": "output_text", "annotations": [], "logprobs": [], "text": text}]
    return {
        "id": f"msg_{n}",
        "type": "message",
        "status": "completed",
        "content": content,
        "role": "assistant",
        **members,
    }


def refusal(text: str, n: int = 0) -> Json:
    return message("", n, content=[{"type": "refusal", "refusal": text}])


def call(arguments: str = "{}", name: str = "search", id: str = "call_1", n: int = 0) -> Json:
    said = {"id": f"fc_{n}", "type": "function_call", "status": "completed", "arguments": arguments}
    return {**said, "call_id": id, "name": name}


USAGE = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 2},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 12,
}


def response(*output: Json, status: str = "completed", **members: Json) -> Json:
    said = {"id": "resp_1", "object": "response", "status": status, "error": None, "incomplete_details": None}
    return {**said, "output": list(output), "usage": USAGE, **members}


def plain(*output: Json, **members: Json) -> bytes:
    return json.dumps(response(*output, **members)).encode()


def said_again(*turns: Turn, names: dict[str, str] | None = None) -> list[Json]:
    items = Items(names or {})
    return json.loads(b"[" + b",".join(filter(None, map(items.write, turns))) + b"]")  # type: ignore[no-any-return]


words = st.text(max_size=12)


@st.composite
def outputs(draw: st.DrawFn) -> list[Json]:
    items = []
    for n in range(draw(st.integers(0, 4))):
        match draw(st.sampled_from(["message", "refusal", "reasoning", "call", "hosted"])):
            case "message":
                items.append(message(draw(words), n))
            case "refusal":
                items.append(refusal(draw(words), n))
            case "reasoning":
                items.append(reasoning(*draw(st.lists(words, max_size=3)), n=n))
            case "call":
                items.append(call(draw(words), draw(st.sampled_from(["f", "größe"])), f"call_{n}", n))
            case "hosted":
                items.append({"type": "web_search_call", "id": f"ws_{n}", "content": draw(words), "status": [1]})
    return items

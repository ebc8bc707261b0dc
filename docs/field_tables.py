"""What becomes of the fields of requests, where no reader goes by a table of its own: for `make_compatibility`."""

from __future__ import annotations

from typing import Final, get_args

from ronda.wire.app_stream.parameters import GenerationType, InputMode, Stack
from ronda.wire.openai_responses import client_calls
from ronda.wire.openai_responses.tools import HOSTED, OFFERED
from ronda.wire.shared.capabilities import fate, hosted_by

_BESIDE: Final = "; next to functions it is left out, with a warning"

TOOL_CHOICE: Final = {"type": "read", "name": "read", "disable_parallel_tool_use": "read"}

APP_STREAM: Final = {
    "generatedCodeConfig": "read: " + ", ".join(get_args(Stack)),
    "inputMode": "read: " + ", ".join(get_args(InputMode)),
    "generationType": "read: " + ", ".join(get_args(GenerationType)) + "; create if left out",
    "prompt": "read: `text`, or `fullText` in its place; `images` and `videos` are data URLs",
    "history": "read: messages with `role`, `text`, `images`, `videos`; with them an update does without `prompt`",
    "fileState": "read: `path` and `content` of the page as it is",
    "optionCodes": "read: pages that the model can look at",
    "isImageGenerationEnabled": "read",
    "isAssetExtractionEnabled": "read",
    "designSystem": "read",
    **dict.fromkeys(
        ("openAiApiKey", "anthropicApiKey", "geminiApiKey", "replicateApiKey", "screenshotOneApiKey", "openAiBaseURL"),
        "ignored: never read, never kept",
    ),
    "codeGenerationModel": "ignored: the server's own models write pages",
}

RESPONSE_TOOLS: Final = {
    "function": "read",
    "namespace": "read: its functions are called NAMESPACE.NAME by the model",
    "custom": "read: for the model a function of one text, `input`, that is told the grammar it has to follow",
    **{
        kind: fate(hosted) + (_BESIDE if kind in OFFERED else "")
        for kind in HOSTED
        if (hosted := hosted_by(kind)) is not None
    },
    **dict.fromkeys(
        client_calls.OFFERED, "read: the client runs it; a model of another API is offered a function instead"
    ),
    "shell": "read: in a container on a server with --enable-shell, else refused; without one the client runs it",
}

# Clients of Mistral's that come to the address of Chat Completions, and what they get.
MISTRAL_CLIENTS = {
    "mistralai, ai-sdk/mistral": "known by their names: a stream has each call in one piece, and ids are nine letters and digits",
    "LangChain (JavaScript)": "known by `safe_prompt`, which it always sends: the same",
    "LangChain (Python), langchain-mistralai": "has no name of its own. Say one of Mistral's words "
    "(`ChatMistralAI(random_seed=…)`, or `model_kwargs={'safe_prompt': False}`), and it gets the same. Without one it loses "
    "tool calls that are streamed, which it takes for several, and ids that are not nine letters and digits, which it changes: "
    "a turn with calls of the server's and its own is not found again. Plain answers and text are as they should be",
}

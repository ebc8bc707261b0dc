"""The Chat door in process, without HTTP: a request in Python → the whole loop → an answer with attributes, plain or a stream.

Its code is in `ronda.mistralrs.runner`, and this module goes where that folder goes: it is the name that programs import.
"""

from ronda.mistralrs.runner import (
    ChatCompletionChunk,
    ChatCompletionRequest,
    ChatCompletionResponse,
    ChatCompletionStream,
    CodeExecutionConfig,
    File,
    InputFile,
    RequestedFile,
    Runner,
    ShellConfig,
    ShellSkillMount,
)

__all__ = [
    "ChatCompletionChunk",
    "ChatCompletionRequest",
    "ChatCompletionResponse",
    "ChatCompletionStream",
    "CodeExecutionConfig",
    "File",
    "InputFile",
    "RequestedFile",
    "Runner",
    "ShellConfig",
    "ShellSkillMount",
]

"""The Chat door in process, without HTTP: a request in Python → the whole loop → an answer with attributes, plain or a stream."""

from ronda.runner.code_settings import CodeExecutionConfig, ShellConfig
from ronda.runner.files import File, InputFile, RequestedFile, ShellSkillMount
from ronda.runner.request import ChatCompletionRequest
from ronda.runner.response import ChatCompletionChunk, ChatCompletionResponse
from ronda.runner.runner import Runner
from ronda.runner.stream import ChatCompletionStream

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

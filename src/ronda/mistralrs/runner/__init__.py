"""The Chat door in process, without HTTP: a request in Python → the whole loop → an answer with attributes, plain or a stream."""

from ronda.mistralrs.runner.code_settings import CodeExecutionConfig, ShellConfig
from ronda.mistralrs.runner.files import File, InputFile, RequestedFile, ShellSkillMount
from ronda.mistralrs.runner.request import ChatCompletionRequest
from ronda.mistralrs.runner.response import ChatCompletionChunk, ChatCompletionResponse
from ronda.mistralrs.runner.runner import Runner
from ronda.mistralrs.runner.stream import ChatCompletionStream

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

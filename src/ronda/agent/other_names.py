"""What users of other libraries write → its name here, for error messages. Imported for mistakes only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ronda._suggest import closest

# OpenAI's Agents SDK, Pydantic AI, LangChain and agno.
_OTHER_NAMES: Final = {
    # fields of an agent
    "llm": "model",
    "system": "instructions",
    "system_message": "instructions",
    "system_prompt": "instructions",
    "prompt": "instructions",
    "functions": "tools",
    "toolsets": "tools",
    "mcp_servers": "tools",
    "handoffs": "tools",
    "sub_agents": "tools",
    "output_type": "output",
    "output_schema": "output",
    "output_model": "output",
    "result_type": "output",
    "response_model": "output",
    "response_format": "output",
    "model_settings": "options",
    "generation_config": "options",
    "llm_config": "options",
    "retries": "retry",
    "max_retries": "retry",
    "api_base": "base_url",
    "endpoint": "base_url",
    # options of a run
    "max_turns": "max_iterations",
    "max_steps": "max_iterations",
    "recursion_limit": "max_iterations",
    "request_limit": "max_iterations",
    "usage_limits": "max_tokens",
    "timeout": "max_seconds",
    "message_history": "history",
    "messages": "history",
    "memory": "history",
    "chat_history": "history",
    "checkpointer": "journal",
    "context": "deps",
    "deps_type": "deps",
    "dependencies": "deps",
    "hooks": "extensions",
    "middleware": "extensions",
    "callbacks": "extensions",
    "input_guardrails": "guardrails",
    "output_guardrails": "guardrails",
    "user_id": "owner",
    # methods of an agent
    "run_sync": "run",
    "invoke": "run",
    "kickoff": "run",
    "ainvoke": "run_async",
    "arun": "run_async",
    "run_stream": "stream",
    "run_streamed": "stream",
    "astream": "stream",
    # of a result
    "final_output": "output",
    "content": "output",
    "data": "output",
    "text": "output",
    "all_messages": "messages",
    "new_messages": "messages",
    "to_input_list": "messages",
}


def meant(word: str, known: Iterable[str]) -> str | None:
    """Which of the known names was meant: what other libraries call so, or the closest."""
    names = list(known)
    other = _OTHER_NAMES.get(word)
    return other if other in names else closest(word, names)


def no_attribute(thing: str, word: str, known: Iterable[str]) -> AttributeError:
    """An object of ours was asked for what it does not have."""
    name = None if word.startswith("_") else meant(word, known)
    return AttributeError(f"{thing} has no attribute {word!r}{'' if name is None else f'; did you mean {name!r}?'}")

"""promptfoo's words → Ronda's, so that its files can be read; and what of it is not supported, with a way out.

Read in the documentation of promptfoo 0.123. What has the same name and meaning in both (contains, regex, is-json, cost,
latency, …) does not stand here.
"""

from __future__ import annotations

from typing import Final

CHECKS: Final = {
    "llm-rubric": "judge",
    "model-graded-closedqa": "judge",
    "agent-rubric": "judge",
    "trajectory:goal-success": "judge",
    "trajectory:tool-used": "tool-used",
    "trajectory:tool-args-match": "tool-arguments",
    "trajectory:tool-sequence": "tool-order",
    "trajectory:step-count": "tool-count",
    "finish-reason": "ended",
}

_CODE: Final = "Ronda runs no code of a file; use 'regex', 'is-json' with a JSON Schema, or 'judge'"
_EMBEDDING: Final = "Ronda compares no embeddings here; use 'levenshtein', 'contains-any' or 'judge'"
_JUDGE: Final = "write the criterion as 'llm-rubric'"
_TRACE: Final = "Ronda reads its own journal, not traces; use 'tool-used', 'tool-count', 'rounds' or 'seconds'"
_MARKUP: Final = "use 'regex' or 'contains'"

UNSUPPORTED_CHECKS: Final = {
    "javascript": _CODE,
    "python": _CODE,
    "ruby": _CODE,
    "webhook": _CODE,
    "assert-set": "write its checks one by one, or give the case a 'threshold'",
    "bleu": _EMBEDDING,
    "rouge-n": _EMBEDDING,
    "meteor": _EMBEDDING,
    "gleu": _EMBEDDING,
    "similar": _EMBEDDING,
    "classifier": _JUDGE,
    "moderation": _JUDGE,
    "guardrails": _JUDGE,
    "is-refusal": _JUDGE,
    "factuality": _JUDGE,
    "g-eval": _JUDGE,
    "answer-relevance": _JUDGE,
    "context-faithfulness": _JUDGE,
    "context-recall": _JUDGE,
    "context-relevance": _JUDGE,
    "conversation-relevance": _JUDGE,
    "pi": _JUDGE,
    "search-rubric": _JUDGE,
    "select-best": "compare models side by side, or two reports with --baseline",
    "max-score": "compare models side by side, or two reports with --baseline",
    "human": "a person cannot be asked here",
    "perplexity": "use 'judge'",
    "perplexity-score": "use 'judge'",
    "skill-used": "use 'tool-used'",
    "trace-span-count": _TRACE,
    "trace-span-duration": _TRACE,
    "trace-error-spans": _TRACE,
    "is-html": _MARKUP,
    "contains-html": _MARKUP,
    "is-xml": _MARKUP,
    "contains-xml": _MARKUP,
    "is-sql": _MARKUP,
    "contains-sql": _MARKUP,
    "is-valid-openai-function-call": "Ronda checks arguments of every call already; use 'tool-arguments'",
    "is-valid-openai-tools-call": "Ronda checks arguments of every call already; use 'tool-arguments'",
    "is-valid-function-call": "Ronda checks arguments of every call already; use 'tool-arguments'",
}

# Keys at the top of a file.
UNSUPPORTED_KEYS: Final = {
    "scenarios": "promptfoo's scenarios are not supported; write their cases out, or give them as a JSONL file",
    "redteam": "promptfoo's red teaming is not supported",
    "extensions": "promptfoo's extensions are not supported: Ronda runs no code of a file",
    "nunjucksFilters": "promptfoo's filters are not supported; templates are Jinja",
    "derivedMetrics": "promptfoo's derived metrics are not supported; the JSON report has all figures",
    "env": "set variables in the environment of the command",
    "outputPath": "give --json FILE or --junit FILE",
    "tracing": "leave it out: Ronda's checks of tools need no tracing",
}
IGNORED_KEYS: Final = ("$schema", "sharing", "writeLatestResults", "tags", "metadata", "commandLineOptions")
UNSUPPORTED_CASE_KEYS: Final = {
    "assertScoringFunction": "promptfoo's scoring functions are not supported; weigh checks with 'weight'",
    "provider": "give 'providers' to say which models a case is for",
    "providerOutput": "give the recorded run as 'cassette'",
}
UNSUPPORTED_CHECK_KEYS: Final = {
    "transform": "promptfoo's transforms are not supported: Ronda runs no code of a file",
    "contextTransform": "promptfoo's transforms are not supported: Ronda runs no code of a file",
    "rubricPrompt": "write the prompt of the judge as a .prompty file and name it in 'judge'",
    "config": "promptfoo's 'config' of a check is not supported",
}
OPTION_KEYS: Final = ("provider", "rubricPrompt", "transform", "disableVarExpansion")

_PROVIDERS: Final = {
    "openai:chat:": "openai-chat:",
    "openai:responses:": "openai:",
    "openai:": "openai-chat:",
    "anthropic:messages:": "anthropic:",
    "google:": "gemini:",
    "ollama:chat:": "ollama:",
    "azure:chat:": "azure:",
}
_FOREIGN: Final = ("file://", "exec:", "python:", "http://", "https://", "ws://", "wss://", "package:", "webhook:")
_FOREIGN_WORDS: Final = ("echo", "http", "websocket", "browser", "promptfoo:manual-input", "sequence")


def model_spec(provider: str) -> str:
    """A provider's id → a model's name here: `openai:gpt-5-mini` speaks Chat Completions there."""
    for theirs, ours in _PROVIDERS.items():
        if provider.startswith(theirs):
            return ours + provider.removeprefix(theirs)
    return provider


def why_foreign(provider: str) -> str | None:
    """Why a provider is none that Ronda could ask."""
    if provider.startswith(_FOREIGN) or provider in _FOREIGN_WORDS:
        return f"the provider '{provider}' is not supported; name a model as PROVIDER:NAME, such as openai-chat:NAME"
    return None

"""Rules → a function of a text. The engine is RE2: it takes time in proportion to the text, whatever a pattern is and whatever
a client sends, so no text can hold the event loop as it could with `re`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from ronda._extras import check_extra
from ronda.errors import BadConfig
from ronda.server.features.redact.settings import RedactRule

MAX_RULES: Final = 100
MAX_PATTERN: Final = 1000  # characters
_MEMORY: Final = 8 << 20  # bytes of one pattern's automaton: RE2's own default


class Redactor:
    """Raises BadConfig for a pattern that RE2 does not take."""

    def __init__(self, rules: Sequence[RedactRule]) -> None:
        self._rules = [(_compile(rule.pattern), rule.replacement) for rule in rules]
        # One look for all of them: nearly every text has none of these words.
        self._any: Any = _compile("|".join([f"(?:{rule.pattern})" for rule in rules]), is_one=False)

    @property
    def placeholders(self) -> list[str]:
        """What stands where words were."""
        return [replacement for _, replacement in self._rules]

    def __call__(self, text: str) -> str:
        try:
            if self._any.search(text) is None:
                return text
            for pattern, replacement in self._rules:
                text = pattern.sub(lambda _, said=replacement: said, text)
            return text
        except UnicodeEncodeError:  # a lone surrogate, which no pattern can be matched with and no store keeps
            return self(text.encode("utf-8", "replace").decode())


@lru_cache(maxsize=8)  # who keeps, logs and traces shares one
def redactor_of(rules: tuple[RedactRule, ...]) -> Redactor:
    check_extra("redact", "[[redact]]")
    return Redactor(rules)


def _compile(pattern: str, *, is_one: bool = True) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = _MEMORY if is_one else _MEMORY * 8
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise BadConfig(f"the pattern {pattern[:100]!r} of [[redact]] cannot be used: {said}") from None


def problem_of(rule: RedactRule) -> str | None:
    """Why a rule cannot be used."""
    if not rule.pattern or len(rule.pattern) > MAX_PATTERN:
        return f"a pattern of [[redact]] has {len(rule.pattern)} characters; it can have 1 to {MAX_PATTERN}"
    try:
        compiled = _compile(rule.pattern)
    except BadConfig as error:
        return str(error)
    if compiled.search("") is not None:
        return f"the pattern {rule.pattern[:100]!r} of [[redact]] fits an empty text, and so it would fit everywhere"
    if compiled.search(rule.replacement) is not None:
        return f"the replacement {rule.replacement[:100]!r} of [[redact]] fits its own pattern"
    return None

"""What the name of a model says about what it takes. Facts of autumn 2026, each with where it is from."""

from __future__ import annotations

import functools
import re
from typing import Final

from msgspec import Struct

_VERSION: Final = re.compile(r"gemini-(\d+)(?:\.(\d+))?(?=-|$)")
_LATEST: Final = re.compile(r"gemini-(?:flash|pro|flash-lite)-latest")

# Google's own table for its OpenAI-compatible endpoint: https://ai.google.dev/gemini-api/docs/openai#thinking
_BUDGETS: Final = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576}
_LEVELS: Final = {"none": "minimal", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high"}
# A pro model cannot but think: the least it takes, and what the first of them took for "medium".
_PRO_LEVELS: Final = {**_LEVELS, "none": "low", "minimal": "low"}
_FIRST_PRO_LEVELS: Final = {**_PRO_LEVELS, "medium": "high"}


class Model(Struct, frozen=True):
    """`signed`: calls in the history must carry a thought signature, or the word that none is to be looked for.

    `answers_with_both`: a JSON answer and tools may be asked for at once; before Gemini 3 that is a 400 ("Function calling
    with a response mime type: 'application/json' is unsupported"). `media_in_results`: a functionResponse may hold images
    and documents (https://ai.google.dev/gemini-api/docs/function-calling#multimodal).
    """

    signed: bool
    answers_with_both: bool
    media_in_results: bool
    levels: dict[str, str] | None = None  # how hard to think, from Gemini 3 on
    least_budget: int | None = None  # in tokens, before that

    def thinking_config(self, effort: str) -> dict[str, object] | None:
        if self.levels is not None:
            return {"thinkingLevel": self.levels.get(effort, "high"), "includeThoughts": effort != "none"}
        if self.least_budget is None:
            return None
        if effort == "none":
            return {"thinkingBudget": self.least_budget}
        return {"thinkingBudget": _BUDGETS.get(effort, 8192), "includeThoughts": True}


@functools.lru_cache(maxsize=64)
def model_of(name: str) -> Model:
    name = name.rsplit("/", 1)[-1]
    version = _VERSION.match(name)
    if version is None:
        # "latest" is the newest there is; an unknown name (a tuned model, Gemma) gets no option that it may not know.
        newest = _LATEST.match(name) is not None
        levels = _PRO_LEVELS if "-pro" in name else _LEVELS
        return Model(newest, newest, newest, levels if newest else None)
    number = int(version[1]), int(version[2] or 0)
    pro = "-pro" in name
    if number < (3, 0):
        return Model(False, False, False, least_budget=(128 if pro else 0) if number >= (2, 5) else None)
    return Model(True, True, True, _LEVELS if not pro else _FIRST_PRO_LEVELS if number == (3, 0) else _PRO_LEVELS)

"""Several models in an order → one provider: the next is asked where one fails before it has shown anything.

A model that cannot do what the request needs (see a picture, call tools, keep to a format) is passed over, and that is said. What
one host sealed is not sent to another: `wire.upstream.native` sees to that. A run that another model has answered stays with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ronda.core.events import ModelFinished, Preview
from ronda.core.parts import Image, ToolTurn, Usage, UserTurn
from ronda.core.plan import Options, Plan
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Provider, Show, capabilities_of
from ronda.errors import BadRequest, UpstreamError
from ronda.providers.output_limits import largest_limit, limited, max_output
from ronda.providers.vision import TextOnly
from ronda.server.features.models.settings import Reason

_CHOSEN: Final = "fallback"  # in a run's scratch: the number of the model that has answered it


class Candidate(Struct, frozen=True):
    name: str
    spec: str
    provider: Provider
    cool_down: float
    max_tokens: int | None = None  # of one answer; a request may ask for less

    def options_within(self, options: Options) -> Options:
        """Those of a request, which knew the limit of the first model only."""
        asked = largest_limit(options)
        if self.max_tokens is None or (asked is not None and 0 < asked <= self.max_tokens):
            return options
        return limited(options, self.max_tokens)


class CoolDown:
    """Until when models of a process are not asked, by their names: they have just failed."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._until: dict[str, tuple[float, str]] = {}

    def begin(self, candidate: Candidate, error: UpstreamError) -> None:
        wait = candidate.cool_down if error.retry_after is None else max(error.retry_after, 1.0)
        self._until[candidate.name] = self._now() + wait, candidate.spec

    def is_cooling(self, candidate: Candidate) -> bool:
        return self._until.get(candidate.name, (0.0, ""))[0] > self._now()

    def seconds_to_cool(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for until, spec in self._until.values():
            if (left := until - self._now()) > 0:
                found[spec] = max(left, found.get(spec, 0.0))
        return found

    def end(self, candidate: Candidate) -> None:
        if self._until:
            self._until.pop(candidate.name, None)


def reason_of(error: UpstreamError) -> Reason | None:
    """None: another model would be sent the same, and fail as well; or it is unknown what it is."""
    if error.too_long:
        return None
    if error.status == 429:
        return "rate_limit"
    if error.status in (401, 402, 403):
        return "access"
    if error.status is not None and (error.status >= 500 or error.status == 408):
        return "server_error"
    if error.connection or (error.status is None and error.retryable):
        return "connection"
    return None


class FallbackModel:
    is_priced = True  # each candidate has its own price

    def __init__(self, candidates: Sequence[Candidate], reasons: Sequence[Reason], cooling: CoolDown) -> None:
        self.candidates = tuple(candidates)
        self._reasons = frozenset(reasons)
        self._cooling = cooling

    @property
    def capabilities(self) -> Capabilities:
        # Those of the first: what it cannot do is refused before a run starts. Several answers are several calls.
        able = capabilities_of(self.candidates[0].provider)
        return replace(able, call_many=None, cost=self._most, default_output=self._longest)

    def _most(self, usage: Usage) -> float | None:
        """What a call may cost at most: any of the models may answer it. None where the price of one is not known."""
        most = 0.0
        for candidate in self.candidates:
            cost_of = capabilities_of(candidate.provider).cost
            cost = None if cost_of is None else cost_of(usage)
            if cost is None:
                return None
            most = max(most, cost)
        return most

    def _longest(self, options: Options) -> int:
        return max([max_output(candidate.provider, options) for candidate in self.candidates])

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        numbers, problems = self._able(request)
        first = numbers[0]
        ready = [number for number in numbers if not self._cooling.is_cooling(self.candidates[number])]
        failure: UpstreamError | None = None
        for number in [*ready, *[number for number in numbers if number not in ready]]:
            candidate = self.candidates[number]
            scratch = request.scratch.setdefault(f"{_CHOSEN} {number}", {})  # a wire finds there what it wrote itself
            watched = _Watched(show)
            try:
                options = candidate.options_within(request.options)
                finished = await candidate.provider.call(replace(request, scratch=scratch, options=options), watched)
            except BadRequest as error:
                if failure is None:
                    raise
                problems[number] = f"was passed over: {error}"
                continue
            except UpstreamError as error:
                reason = reason_of(error)
                if watched.has_shown or reason is None or reason not in self._reasons:
                    raise
                self._cooling.begin(candidate, error)
                problems[number] = f"did not answer: {error}"
                failure = error
                continue
            self._cooling.end(candidate)
            request.scratch[_CHOSEN] = number
            if number:
                finished = replace(finished, model=candidate.spec)
            if number == first:
                return finished
            if first not in problems:
                problems[first] = "has just failed, and is not asked for a while"
            told = [f"'{self.candidates[one].name}' {problems[one]}" for one in sorted(problems)]
            warning = f"{'; '.join(told)}; '{candidate.name}' answered instead"
            return replace(finished, warnings=(warning, *finished.warnings))
        assert failure is not None  # the first is always among them, and has failed
        raise failure

    def _able(self, request: ModelRequest) -> tuple[list[int], dict[int, str]]:
        """The models that can answer the request, in their order; and why the others cannot."""
        chosen = request.scratch.get(_CHOSEN, 0)
        numbers, problems = [], {}
        for number, candidate in enumerate(self.candidates):
            if number and (problem := _problem(candidate, request)) is not None:
                problems[number] = f"was passed over: {problem}"
            else:
                numbers.append(number)
        return sorted(numbers, key=lambda number: number != chosen), problems


def _problem(candidate: Candidate, request: ModelRequest) -> str | None:
    """Why a model cannot take the place of another for this request."""
    if _is_blind(candidate.provider) and _has_images(request):
        return "it cannot see images"
    able = capabilities_of(candidate.provider)
    plan = Plan(candidate.spec, request.tools, request.choice, request.options, stream=request.stream)
    try:
        able.check(plan)
    except BadRequest as error:
        return str(error)
    return None


def _is_blind(provider: Provider) -> bool:
    """Whether it is never sent an image, also inside of what has its price or its limits."""
    inner: Provider | None = provider
    while inner is not None:
        if isinstance(inner, TextOnly):
            return True
        inner = getattr(inner, "provider", None)
    return False


def _has_images(request: ModelRequest) -> bool:
    for turn in request.turns:
        if isinstance(turn, UserTurn) and any(isinstance(part, Image) for part in turn.parts):
            return True
        if isinstance(turn, ToolTurn) and any(_shows(result) for result in turn.results):
            return True
    return False


def _shows(result: Any) -> bool:
    return any(isinstance(part, Image) for part in getattr(result, "attachments", ()) or ())


class _Watched:
    """Whether something was shown."""

    __slots__ = ("_show", "has_shown")

    def __init__(self, show: Show) -> None:
        self._show = show
        self.has_shown = False

    def __call__(self, previews: list[Preview]) -> bool | None:
        self.has_shown = self.has_shown or bool(previews)
        return self._show(previews)

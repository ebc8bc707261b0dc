"""Single checks → the counts and notes of a part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from msgspec import Struct

SHOWN = 20  # failures written out; the rest are counted


class Excepted(Exception):
    """Raised by a check that a rule excuses. The message is the rule's reason, the same for all it excuses."""


class PartResult(Struct, frozen=True):
    """`notes` are printed under the part's own line, one per line."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    notes: tuple[str, ...] = ()
    is_absent: bool = False  # its data is not in this folder

    @property
    def counts(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def __add__(self, other: PartResult) -> PartResult:
        return PartResult(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


def absent(what: str) -> PartResult:
    """A part whose data is not in this folder."""
    return PartResult(skipped=1, notes=(f"skipped: {what} is not there",), is_absent=True)


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


Named = TypeVar("Named", bound=_HasId)


class Tally:
    """Checks one by one. A check passes by returning, fails by raising, and is skipped by raising `Excepted`."""

    def __init__(self) -> None:
        self._passed: Counter[str] = Counter()
        self._failures: list[str] = []
        self._excepted: Counter[str] = Counter()
        self._notes: list[str] = []
        self._odd: set[str] = set()

    def check(self, kind: str, who: str, test: Callable[[], None]) -> None:
        try:
            test()
        except Excepted as rule:
            self.excepted(kind, str(rule))
        except AssertionError as error:
            self.failed(kind, who, str(error) or "assertion failed")
        except Exception as error:
            self.failed(kind, who, f"{type(error).__name__}: {error}")
        else:
            self.passed(kind)

    @contextmanager
    def guard(self, who: str) -> Iterator[None]:
        """What goes wrong while a recording is looked at is one failed check: no other recording is lost for it."""
        try:
            yield
        except Exception as error:
            if who not in self._odd:
                self._odd.add(who)
                self.failed("odd recording", who, f"{type(error).__name__}: {error}")

    def select(self, exchanges: Iterable[Named], wanted: Callable[[Named], object]) -> list[Named]:
        found: list[Named] = []
        for exchange in exchanges:
            with self.guard(exchange.id):
                if wanted(exchange):
                    found.append(exchange)
        return found

    def passed(self, kind: str) -> None:
        self._passed[kind] += 1

    def excepted(self, kind: str, reason: str) -> None:
        self._excepted[f"{kind}: {reason}"] += 1

    def failed(self, kind: str, who: str, why: str) -> None:
        self._failures.append(f"FAILED {kind}: {who}: {_short(why)}")

    def note(self, text: str) -> None:
        self._notes.append(text)

    def result(self) -> PartResult:
        notes = [", ".join(f"{kind} {count}" for kind, count in self._passed.items())] if self._passed else []
        notes += self._notes
        notes += [f"excepted {count} × {rule}" for rule, count in self._excepted.most_common()]
        notes += self._failures[:SHOWN]
        if len(self._failures) > SHOWN:
            notes.append(f"… and {len(self._failures) - SHOWN} more failures")
        return PartResult(
            self._passed.total(), len(self._failures), self._excepted.total(), tuple(note for note in notes if note)
        )


def same(ours: object, recorded: object, what: str) -> None:
    if ours != recorded:
        raise AssertionError(_difference(ours, recorded, what))


def _difference(ours: object, recorded: object, path: str) -> str:
    """The first place where two JSON values part."""
    if isinstance(ours, dict) and isinstance(recorded, dict):
        for key in [*recorded, *ours]:
            if key not in ours:
                return f"{path}.{key} is lost: {_short(repr(recorded[key]))}"
            if key not in recorded:
                return f"{path}.{key} is made up: {_short(repr(ours[key]))}"
            if ours[key] != recorded[key]:
                return _difference(ours[key], recorded[key], f"{path}.{key}")
    if isinstance(ours, list) and isinstance(recorded, list) and len(ours) == len(recorded):
        for at, (one, other) in enumerate(zip(ours, recorded, strict=True)):
            if one != other:
                return _difference(one, other, f"{path}[{at}]")
    return f"{path}: ours {_short(repr(ours))}, recorded {_short(repr(recorded))}"


def _short(text: str) -> str:
    text = text.replace("\n", "\\n")
    return text if len(text) <= 500 else f"{text[:250]} … {text[-250:]}"

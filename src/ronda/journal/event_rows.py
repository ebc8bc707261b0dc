"""What both databases do alike with the rows of runs: rows of `event` become events. Lists of runs are in `run_lists`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, get_args

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import FORMAT, Event, RunStarted, Warned
from ronda.journal import UnfinishedRun, WrittenByNewer
from ronda.store import StoreError

_log = logging.getLogger(__name__)

_UNKNOWN: Final = "unknown_event"  # the code of a warning that stands for an event; its words may come from a client
# "apart": an event whose large part is a row of its own (`sqlite_tables.LargeEvent`).
_KINDS: Final = frozenset({str(kind.__struct_config__.tag) for kind in get_args(Event)} | {"apart"})


class _Tagged(Struct):
    type: str


_split_row = msgspec.json.Decoder(list[Raw]).decode
_read_kind = msgspec.json.Decoder(_Tagged).decode


class DamagedRun(StoreError):
    """A row of a run that cannot be read."""

    def __init__(self, place: str, run: str, number: int, why: object) -> None:
        super().__init__(place, f"event {number} of run {run!r} cannot be read: {why}")


class TornRow(DamagedRun):
    """A row that was not written to its end. `events` are those before it."""

    def __init__(self, place: str, run: str, events: list[Event], why: object) -> None:
        super().__init__(place, run, len(events), why)
        self.events = events


def read_events(
    place: str,
    run: str,
    rows: Iterable[tuple[int, bytes]],
    decode: Callable[[bytes], list[Event]],
    restore_start: Callable[[Event], Event],
) -> list[Event]:
    """Rows of a number and a body, in order. Raises DamagedRun where one is missing or cannot be read."""
    events: list[Event] = []
    for number, body in rows:
        try:
            if number != len(events):
                raise LookupError("it is not there")
            try:
                some = decode(body)
            except msgspec.ValidationError:
                some = _decode_known(body, decode)
            if number == 0:
                some[0] = restore_start(some[0])
        except msgspec.ValidationError as error:
            # Good JSON, but not what an event of a known kind looks like: to drop it would lose what a newer Ronda wrote.
            raise DamagedRun(place, run, number, f"{error}; was it written by a newer Ronda?") from error
        except (msgspec.DecodeError, UnicodeError) as error:
            raise TornRow(place, run, events, error) from error
        except LookupError as error:
            raise DamagedRun(place, run, len(events), error) from error
        events += some
    return events


def _decode_known(body: bytes, decode: Callable[[bytes], list[Event]]) -> list[Event]:
    """The events of a row in which one or more are of a kind that only a newer Ronda knows: a warning stands for each of
    those, so that the numbers of the others stay. Raises ValidationError for one of a known kind that cannot be read."""
    events: list[Event] = []
    for one in _split_row(body):
        kind = _read_kind(one).type
        if kind in _KINDS:
            events += decode(b"[" + one + b"]")
        else:
            message = f"passed over an event that this Ronda does not know, of the kind {kind[:100]!r}"
            events.append(Warned(message, code=_UNKNOWN))
    return events


def check_drivable(run: str, events: Iterable[Event]) -> None:
    """Raises WrittenByNewer for a run that this Ronda cannot read whole: to drive it would lose what is not known here."""
    for event in events:
        if type(event) is RunStarted and event.least_format > FORMAT:
            raise WrittenByNewer(f"run {run!r} was begun by a newer Ronda, and only that can drive it")
        if type(event) is Warned and event.code == _UNKNOWN:
            raise WrittenByNewer(
                f"run {run!r} has {event.message.removeprefix('passed over ')}; a newer Ronda can drive it"
            )


def read_unfinished(runs: Iterable[tuple[str, bool]], read: Callable[[str], list[Event]]) -> list[UnfinishedRun]:
    """Those of these runs that can be read. Each is a name, and whether it waits for people."""
    unfinished = []
    for run, is_waiting in runs:
        try:
            events = read(run)
        except StoreError as error:  # one that cannot be read must not keep the others from going on
            _log.error("left alone: %s", error)
            continue
        try:
            check_drivable(run, events)
        except WrittenByNewer as error:
            _log.info("left to another: %s", error)
            continue
        if events and type(start := events[0]) is RunStarted:
            unfinished.append(UnfinishedRun(run, len(events), start, is_waiting))
    return unfinished

"""Rows of `run` → pages of a list, counts, and open questions: the same for both databases, but for a few words (`Words`).

No run's events are read. What a list shows of a run was written into its row when it happened: see `tally`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from ronda.journal import (
    LONGEST_LOOK_BACK,
    MOST_ERRORS,
    MOST_MODELS,
    ListedState,
    OpenQuestion,
    RunCounts,
    RunErrors,
    RunModel,
    RunPage,
    RunQuery,
    RunQuestions,
    RunStep,
    RunSummary,
    RunSurvey,
)
from ronda.journal.tally import Beginning, Figures
from ronda.store.sql import Sql

BEGINNING: Final = "model, words, parent, parent_call, run_group"
FIGURES: Final = (
    "rounds, tool_calls, tokens_in, tokens_out, tokens_cached, tokens_reasoning, cost, end_reason, end_code"
)
_BEGINNING_AT: Final = 7  # the columns before it are what every run has
_FIGURES_AT: Final = _BEGINNING_AT + len(BEGINNING.split(","))
_QUESTIONS_AT: Final = _FIGURES_AT + len(FIGURES.split(","))

_STATE: Final = """CASE WHEN ended IS NOT NULL THEN state WHEN state = 'waiting' OR waits_within = 1 THEN 'waiting'
    WHEN {is_queued} THEN 'queued' ELSE 'running' END"""
# The run itself, and all that go on from it, or are calls of it.
_OF_ROOT: Final = """name IN (WITH RECURSIVE line (name) AS (
        SELECT name FROM run WHERE name = :root
        UNION SELECT later.name FROM line JOIN run AS later ON later.parent = line.name
            WHERE later.parent <> '' AND later.owner = :owner
    ) SELECT name FROM line)"""
_OPEN: Final = frozenset[ListedState](("queued", "running", "waiting"))
_SEARCHED: Final = ("words", "model", "agent", "name")


class Words(Struct, frozen=True):
    """What the databases have different words for."""

    is_among: Callable[[str, str], str]  # a column, and the name of a list of texts
    write_texts: Callable[[Sequence[str]], object]  # such a list
    contains: Callable[[str, str], str]  # a column, and the name of a text: whatever the case of its letters
    piece: str  # the number of the piece of time that `{at}` is in
    first_since: Callable[[Sql, float], int]  # an id that no run has, or a later one, that began since then


def list_runs(db: Sql, query: RunQuery, words: Words) -> RunPage:
    """One page of an owner's runs, backwards by id."""
    where, values = _where(db, query, words)
    if query.before is not None:
        where.append("id < :before")
        values["before"] = query.before
    values["limit"] = query.limit + 1
    rows = db.execute(
        f"""SELECT id, name, session, agent, {_state(words)}, started, ended, {BEGINNING}, {FIGURES}, questions, owner,
            coalesce(kept, 0) FROM run
        WHERE {" AND ".join(where)} ORDER BY id DESC LIMIT :limit""",
        values,
    ).fetchall()
    limit = query.limit
    return RunPage([_summary(row) for row in rows[:limit]], rows[limit - 1][0] if len(rows) > limit else None)


def _summary(row: Sequence[Any]) -> RunSummary:
    is_noted = row[_BEGINNING_AT] is not None
    _, run, session, agent, state, started, ended = row[:_BEGINNING_AT]
    return RunSummary(
        run,
        session,
        agent,
        state,
        started,
        ended,
        Beginning(*row[_BEGINNING_AT:_FIGURES_AT]) if is_noted else None,
        Figures(*row[_FIGURES_AT:_QUESTIONS_AT]) if is_noted else None,
        () if ended is not None else _read_questions(row[_QUESTIONS_AT]) or (),
        row[_QUESTIONS_AT + 1],
        bool(row[_QUESTIONS_AT + 2]),
    )


def mark_kept(db: Sql, run: str, owner: str, kept: bool) -> bool:
    found = db.execute("SELECT 1 FROM run WHERE name = ? AND owner = ?", (run, owner)).fetchone()
    if found is not None:
        db.execute("UPDATE run SET kept = ? WHERE name = ? AND owner = ?", (int(kept), run, owner))
    return found is not None


def count_runs(db: Sql, query: RunQuery, since: float, until: float, pieces: int, words: Words) -> RunCounts:
    where, values = _where(db, query, words)
    values |= {"begin": since, "end": until, "width": (until - since) / pieces, "first": words.first_since(db, since)}
    chosen, state = " AND ".join(where), _state(words)
    began = db.execute(
        f"""SELECT {words.piece.format(at="started")} AS piece, {state} AS shown, count(*) FROM run
        WHERE {chosen} AND id >= :first AND started >= :begin AND started < :end GROUP BY 1, 2""",
        values,
    ).fetchall()
    older = db.execute(
        f"""SELECT {state} AS shown, count(*) FROM run
        WHERE {chosen} AND ended IS NULL AND (started < :begin OR started >= :end) GROUP BY 1""",
        values,
    ).fetchall()
    counts = RunCounts({}, [{} for _ in range(pieces)])
    for piece, shown, count in began:
        of_piece = counts.pieces[min(max(int(piece), 0), pieces - 1)]
        of_piece[shown] = of_piece.get(shown, 0) + count
    for shown, count in [*[(shown, count) for _, shown, count in began], *older]:
        counts.states[shown] = counts.states.get(shown, 0) + count
    return counts


_NO_CALL: Final = "owner IS NOT NULL AND coalesce(parent_call, '') = ''"
_MOST: Final = 2**53  # JavaScript reads no larger number exactly
_LARGEST_COST: Final = 1e12  # of one run, by what its model says: beyond, a sum could leave the numbers that there are


def survey_runs(db: Sql, since: float, until: float, pieces: int, words: Words) -> RunSurvey:
    values = {"begin": since, "end": until, "width": (until - since) / pieces, "first": words.first_since(db, since)}
    began = db.execute(
        f"""SELECT {words.piece.format(at="started")}, count(*) FROM run
        WHERE id >= :first AND started >= :begin AND started < :end AND {_NO_CALL} GROUP BY 1""",
        values,
    ).fetchall()
    earliest = since - LONGEST_LOOK_BACK
    values |= {"earliest": earliest, "first": words.first_since(db, earliest)}
    ended_within = f"id >= :first AND started >= :earliest AND ended >= :begin AND ended < :end AND {_NO_CALL}"
    ended = db.execute(
        f"""SELECT {words.piece.format(at="ended")}, count(*), sum(CASE WHEN state = 'failed' THEN 1 ELSE 0 END),
            sum(tokens_in * 1.0), sum(tokens_out * 1.0), sum(CASE WHEN abs(cost) < {_LARGEST_COST} THEN cost END)
        FROM run WHERE {ended_within} GROUP BY 1""",
        values,
    ).fetchall()
    failed = db.execute(
        f"""SELECT coalesce(end_code, ''), coalesce(model, ''), coalesce(agent, ''), count(*), max(ended) FROM run
        WHERE {ended_within} AND state = 'failed' GROUP BY 1, 2, 3 ORDER BY 4 DESC, 5 DESC LIMIT {MOST_ERRORS}""",
        values,
    ).fetchall()
    asked = db.execute(
        f"""SELECT coalesce(model, ''), count(*), sum(rounds * 1.0), sum(CASE WHEN state = 'failed' THEN 1 ELSE 0 END),
            sum(CASE WHEN abs(cost) < {_LARGEST_COST} THEN cost END)
        FROM run WHERE {ended_within} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {MOST_MODELS}""",
        values,
    ).fetchall()
    began_in = {int(piece): count for piece, count in began}
    ended_in = {int(piece): figures for piece, *figures in ended}
    return RunSurvey(
        [_step(began_in.get(number, 0), ended_in.get(number)) for number in range(pieces)],
        [RunErrors(*row) for row in failed],
        [RunModel(model, runs, min(int(calls or 0), _MOST), lost, cost) for model, runs, calls, lost, cost in asked],
    )


def _step(began: int, ended: Sequence[Any] | None) -> RunStep:
    if ended is None:
        return RunStep(began)
    count, failed, tokens_in, tokens_out, cost = ended
    return RunStep(began, count, failed, min(int(tokens_in or 0), _MOST), min(int(tokens_out or 0), _MOST), cost)


def survey_listed(runs: Sequence[RunSummary], since: float, until: float, pieces: int) -> RunSurvey:
    """`survey_runs` of these, for a journal that has no database."""
    steps = [RunStep() for _ in range(pieces)]
    errors: dict[tuple[str, str, str], RunErrors] = {}
    models: dict[str, RunModel] = {}

    def place(at: float) -> int:
        return min(int((at - since) / (until - since) * pieces), pieces - 1)

    for one in runs:
        beginning, figures = one.beginning or Beginning(), one.figures or Figures()
        if beginning.call:
            continue
        if since <= one.started < until:
            step = steps[place(one.started)]
            steps[place(one.started)] = msgspec.structs.replace(step, started=step.started + 1)
        if one.ended is None or not since <= one.ended < until or one.started < since - LONGEST_LOOK_BACK:
            continue
        step, has_failed = steps[place(one.ended)], one.state == "failed"
        name = beginning.model
        asked = models.get(name, RunModel(name, 0, 0, 0, None))
        calls = min(asked.calls + figures.rounds, _MOST)
        spent = _sum_costs(asked.cost, figures.cost)
        models[name] = RunModel(name, asked.runs + 1, calls, asked.failed + has_failed, spent)
        steps[place(one.ended)] = RunStep(
            step.started,
            step.ended + 1,
            step.failed + has_failed,
            min(step.input + figures.input, _MOST),
            min(step.output + figures.output, _MOST),
            _sum_costs(step.cost, figures.cost),
        )
        if has_failed:
            kind = (figures.code, beginning.model, one.agent)
            before = errors.get(kind, RunErrors(*kind, 0, one.ended))
            errors[kind] = RunErrors(*kind, before.count + 1, max(before.last, one.ended))
    frequent = sorted(errors.values(), key=lambda one: (-one.count, -one.last))
    busiest = sorted(models.values(), key=lambda one: (-one.runs, one.model))
    return RunSurvey(steps, frequent[:MOST_ERRORS], busiest[:MOST_MODELS])


def _sum_costs(*costs: float | None) -> float | None:
    known = [cost for cost in costs if cost is not None and abs(cost) < _LARGEST_COST]
    return sum(known) if known else None


def _state(words: Words) -> str:
    return _STATE.format(is_queued=words.is_among("name", "queued"))


def _where(db: Sql, query: RunQuery, words: Words) -> tuple[list[str], dict[str, Any]]:
    """The conditions that a query asks for, and no others: each costs a look at every row that is passed over."""
    # A run whose owner cannot be told is in no list.
    where = ["owner = :owner" if query.owner is not None else "owner IS NOT NULL"]
    values: dict[str, Any] = {"owner": query.owner, "queued": words.write_texts(query.queued)}

    def add(condition: str, **more: object) -> None:
        where.append(condition)
        values.update(more)

    if query.states:
        if _OPEN.issuperset(query.states):
            add("ended IS NULL")  # which is cheaper to see, or in an index
        add(words.is_among(_state(words), "states"), states=words.write_texts(query.states))
    if query.session is not None:
        add("session = :session", session=query.session)
    for column, name, chosen in (("agent", "agents", query.agents), ("model", "models", query.models)):
        if chosen:
            add(words.is_among(column, name), **{name: words.write_texts(chosen)})
    if query.names is not None:
        add(words.is_among("name", "names"), names=words.write_texts(query.names))
    if query.words:
        found = " OR ".join([words.contains(column, "words") for column in _SEARCHED])
        add(f"({found})", words=query.words.casefold())
    if query.since is not None:
        add("id >= :first_since AND started >= :since", since=query.since)
        values["first_since"] = words.first_since(db, query.since)
    if query.until is not None:
        add("started < :until", until=query.until)
    if query.min_cost is not None:
        add("cost >= :min_cost", min_cost=query.min_cost)
    if not query.children:
        add("coalesce(parent_call, '') = ''")
    if query.parent is not None:
        add("parent = :parent AND parent <> ''", parent=query.parent)
    if query.root is not None:
        add(_OF_ROOT, root=query.root)
    if query.kept is not None:
        add("coalesce(kept, 0) = :kept", kept=int(query.kept))
    if query.group is not None:
        add("run_group = :run_group AND run_group <> ''", run_group=query.group)
    return where, values


# A run that has handed out no call has asked nothing.
_ASKING: Final = """SELECT name, coalesce(session, ''), questions FROM run WHERE owner = :owner AND ended IS NULL
        AND (questions IS NOT NULL OR state = 'waiting' OR EXISTS (SELECT 1 FROM call WHERE call.run = run.{key}))
    ORDER BY coalesce(state, 'running') = 'waiting', id DESC LIMIT :limit"""


def open_questions(db: Sql, owner: str, limit: int, key: str) -> list[RunQuestions]:
    """`key`: by which column of `run` the rows of `call` know it."""
    rows = db.execute(_ASKING.format(key=key), {"owner": owner, "limit": limit}).fetchall()
    return [RunQuestions(run, session, _read_questions(body)) for run, session, body in rows]


_decode_questions = msgspec.json.Decoder(tuple[OpenQuestion, ...]).decode


def _read_questions(body: bytes | None) -> tuple[OpenQuestion, ...] | None:
    try:
        return None if body is None else _decode_questions(body)
    except msgspec.MsgspecError:  # of a newer Ronda: as much as this one knows, the events tell
        return None


def chosen_by(query: RunQuery, one: RunSummary, owner: str, line: frozenset[str]) -> bool:
    """Whether a run is one of those that a query asks for, for a journal that has no database. `line` are the names of those
    that its `root` asks for."""
    beginning, figures = one.beginning or Beginning(), one.figures or Figures()
    texts = (beginning.words, beginning.model, one.agent, one.run)
    searched = query.words.casefold()
    cost, least = figures.cost, query.min_cost
    return (
        query.owner in (None, owner)
        and (not query.states or one.state in query.states)
        and query.session in (None, one.session)
        and (not query.agents or one.agent in query.agents)
        and (not query.models or beginning.model in query.models)
        and (query.names is None or one.run in query.names)
        and (not searched or any(searched in text.casefold() for text in texts))
        and (query.since is None or one.started >= query.since)
        and (query.until is None or one.started < query.until)
        and (least is None or (cost is not None and cost >= least))
        and (query.children or not beginning.call)
        and (query.parent is None or query.parent == (beginning.parent or None))
        and (query.root is None or one.run in line)
        and (query.group is None or query.group == (beginning.group or None))
        and query.kept in (None, one.kept)
    )


def count_listed(runs: Sequence[RunSummary], since: float, until: float, pieces: int) -> RunCounts:
    """`count_runs` of these, for a journal that has no database."""
    states: dict[ListedState, int] = {}
    counted: list[dict[ListedState, int]] = [{} for _ in range(pieces)]
    for one in runs:
        is_within = since <= one.started < until
        if is_within:
            of_piece = counted[min(int((one.started - since) / (until - since) * pieces), pieces - 1)]
            of_piece[one.state] = of_piece.get(one.state, 0) + 1
        if is_within or one.ended is None:
            states[one.state] = states.get(one.state, 0) + 1
    return RunCounts(states, counted)

"""A folder of `.prompty` files → agents that answer requests: each file is a model name on every door, and an `agent_id`.

`FOLDER/support/triage.prompty` is `support/triage`, and what its front matter has as `name`. Files are looked at when they are
asked for, so a change on disk is picked up with the next request; one that cannot be used says why to the client that asks for
it, and leaves the others alone.

A request brings a conversation, a file has inputs. The file's messages come first and the conversation goes on from there; it
takes the place of a `thread` input where the file has one. Inputs come from the request's `inputs`; where one text that the file
requires is missing, it is what the user said last.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ronda.agent.prompty_run import agent_of, tell_answer
from ronda.core.parts import AssistantTurn, SystemTurn, Text, Turn, UserPart, UserTurn
from ronda.core.run import Run
from ronda.errors import BadConfig, BadRequest, RondaError, quote_names
from ronda.prompty.dotenv import with_dotenv
from ronda.prompty.errors import BadPrompty
from ronda.prompty.history import PLACE_OF_THREAD, place_in, thread_of
from ronda.prompty.load import read_file, tell_load
from ronda.prompty.model import Prompty, for_one_run
from ronda.prompty.preparation import kept_inputs, prepare
from ronda.prompty.report import Problem
from ronda.prompty.tool_kinds import tools_of
from ronda.prompty.turns import turns_of
from ronda.prompty.upstream import Upstream, upstream_of
from ronda.providers.http.transport import Transport
from ronda.server.http.failure import without_paths
from ronda.server.services.models import Target, TargetOpening
from ronda.server.services.toolbox import Toolbox
from ronda.store.values.scopes import Scopes
from ronda.trace.spans import Tracer

ENDING = ".prompty"
# What files are read, rendered and run with: imported when a server starts that has some, and not while clients wait.
_SLOW_IMPORTS = (
    "yaml",
    "ronda.prompty.jinja",
    "ronda.prompty.mustache",
    "ronda.agent.children",
    "ronda.providers.vision",
)
_NO_FILE = "no file is the agent '{}', which it names; it is looked for among the agents that clients make"


class AgentBroken(RondaError):
    """A file of the operator's that cannot be used."""

    status_hint = 503


class _LoadedFile(Struct, frozen=True):
    prompty: Prompty | None
    target: Target | None
    problem: str = ""
    upstream: Upstream | None = None


class AgentFiles:
    def __init__(
        self,
        folder: str,
        toolbox: Toolbox,
        agent_tools: Mapping[str, Sequence[str]] | None = None,
        transport: Transport | None = None,
    ) -> None:
        """`agent_tools`: the name of an agent → names of others that are its tools, beside those that its file has. `transport`:
        how the servers of their models are reached."""
        self._transport = transport
        self._folder = Path(folder)
        self._toolbox = toolbox
        self._agent_tools = dict(agent_tools or {})
        self._known: dict[str, _LoadedFile] = {}
        self._titles: dict[str, str] = {}  # what a file calls itself → its name; looked at again before it is used
        self._stamps: dict[str, tuple[int, int, str]] = {}  # a file's name → its time, size and title
        if not self._folder.is_dir():
            raise BadConfig(f"there is no folder of agents {folder!r}")
        for name in _SLOW_IMPORTS:
            import_module(name)

    def names(self) -> Iterable[str]:
        paths = sorted(self._folder.rglob(f"*{ENDING}"))
        return [path.relative_to(self._folder).as_posix().removesuffix(ENDING) for path in paths]

    def listed(self) -> list[str]:
        """Each with what its file calls itself, where that is another name: it can be asked under both."""
        titles = {name: title for title, name in self._read_titles().items()}
        return [name if titles.get(name, name) == name else f"{name} (or {titles[name]})" for name in self.names()]

    def names_open_to(self, scopes: Scopes) -> Iterable[str]:
        return [name for name in self.names() if scopes.allows_agent((name,))]

    def prompty(self, name: str) -> Prompty | None:
        """The file of this name, or that calls itself so, as it is on disk now, if it can be used."""
        known = self._look_at(name) or self._with_title(name)
        return None if known is None or known.target is None else known.prompty

    def path(self, name: str) -> str:
        """Where the agent of this name is: that of the file, or what a file calls itself."""
        if self._look_at(name) is None:
            self._with_title(name)
            name = self._titles.get(name, name)
        return str(self._folder.resolve() / f"{name}{ENDING}")

    def has(self, name: str) -> bool:
        return Path(self.path(name)).is_file()

    def agents_of(self, path: str | None) -> Sequence[str]:
        """What the operator adds to the agents that a file has as its tools."""
        if path is None or not self._agent_tools:
            return ()
        folder = self._folder.resolve()
        place = Path(path)
        name = place.relative_to(folder).as_posix().removesuffix(ENDING) if place.is_relative_to(folder) else ""
        return self._agent_tools.get(name, ())

    async def find(self, name: str, owner: str) -> Target | None:
        began = time.time()
        known = self._look_at(name)
        if known is None:
            self._known.pop(name, None)
            known = self._with_title(name)
        if known is None:
            return None
        if known.target is None:
            raise AgentBroken(f"the agent '{name}' cannot be used: {without_paths(known.problem)}")
        if known.prompty is None:
            return known.target
        loaded = None if Tracer.is_idle() else (began, time.time())  # told with the run that it was for
        return replace(known.target, opener=partial(self._open, known.prompty, owner, loaded=loaded))

    def _with_title(self, title: str) -> _LoadedFile | None:
        """The file that calls itself so. The folder is only searched where what was found the last time is no longer true."""
        if (name := self._titles.get(title)) is not None:
            known = self._look_at(name)
            if known is not None and known.prompty is not None and known.prompty.name == title:
                return known
        self._titles = self._read_titles()
        name = self._titles.get(title)
        return None if name is None else self._look_at(name)

    def _read_titles(self) -> dict[str, str]:
        """Of two files that call themselves the same, the first is meant."""
        titles: dict[str, str] = {}
        stamps: dict[str, tuple[int, int, str]] = {}
        for name in self.names():
            try:
                stat = (self._folder / f"{name}{ENDING}").stat()
            except OSError:  # gone meanwhile
                continue
            stamp = self._stamps.get(name)
            if stamp is None or stamp[:2] != (stat.st_mtime_ns, stat.st_size):
                known = self._look_at(name)
                title = known.prompty.name if known is not None and known.prompty is not None else ""
                stamp = (stat.st_mtime_ns, stat.st_size, title)
            stamps[name] = stamp
            if stamp[2]:
                titles.setdefault(stamp[2], name)
        self._stamps = stamps
        return titles

    def report(self) -> list[str]:
        """Everything the operator should know of the files, as far as it can be told without calling a model."""
        from ronda.prompty.validate import validate  # once, when a server starts

        titles, lines = self._read_titles(), []
        for name, named in self._agent_tools.items():
            own = [] if name == "default" else [name]
            lines += [f"[agent_tools]: {_NO_FILE.format(one)}" for one in (*own, *named) if not self.has(one)]
        for name in self.names():
            known = self._look_at(name)
            if known is None:
                continue
            path = self._folder / f"{name}{ENDING}"
            found = [(_line(one), one.severity == "error") for one in validate(path, env=self.environment(path))]
            errors = [line for line, is_error in found if is_error]
            if known.problem or errors:
                lines.append(f"the agent '{name}' cannot be used: {'; '.join(errors) or known.problem}")
            lines += [f"the agent '{name}': {line}" for line, is_error in found if not is_error]
            named = () if known.prompty is None else known.prompty.agents
            lines += [f"the agent '{name}': {_NO_FILE.format(one)}" for one in named if not self.has(one)]
            title = known.prompty.name if known.prompty is not None else ""
            if title and titles[title] != name:
                lines.append(
                    f"the agent '{name}': another file, '{titles[title]}', has the name '{title}', too; "
                    f"'{name}' answers under its path only"
                )
        return lines

    def environment(self, path: Path) -> dict[str, str] | None:
        files = [file for file in (path.parent / ".env", self._folder / ".env") if file.is_file()]
        return with_dotenv(os.environ, *files) if files else None

    def _look_at(self, name: str) -> _LoadedFile | None:
        """The agent as it is on disk now. A file is read anew each time, with all it brings in; that costs a third of a
        millisecond, and what comes out is mostly what was there before: its provider, with its connections, stays."""
        if PurePosixPath(name).as_posix() != name or ".." in name.split("/") or name.startswith("/"):
            return None  # another way to say a name would be another agent to keep
        path = self._folder / f"{name}{ENDING}"
        try:
            if not path.is_file():
                return None
        except (OSError, ValueError):  # no name of a file
            return None
        try:
            prompty = read_file(path, env=self.environment(path))
            upstream, known = upstream_of(prompty), self._known.get(name)
            # What a file refers to may be registered anew while the file stays.
            if known is None or known.prompty != prompty or known.upstream != upstream:
                known = self._known[name] = self._made(name, prompty, upstream)
            return known
        except (BadPrompty, BadConfig, BadRequest, OSError, ValueError) as error:
            line = getattr(error, "line", None)  # its path is the operator's business
            return _LoadedFile(None, None, str(error) if line is None else f"line {line}: {error}")

    def _made(self, name: str, prompty: Prompty, upstream: Upstream) -> _LoadedFile:
        agent = agent_of(prompty, upstream, self._transport)
        spec = agent.model if isinstance(agent.model, str) else type(agent.model).__name__
        own = prompty.model.options if prompty.model is not None else None
        target = Target(
            name,
            spec,
            agent.provider,
            options=agent._options,
            opener=partial(self._open, prompty, ""),
            max_tokens=None if own is None else own.max_output_tokens,
            format_is_wish=True,
            read_answer=partial(_tell_answer, prompty),
        )
        return _LoadedFile(prompty, target, upstream=upstream)

    async def _open(
        self,
        prompty: Prompty,
        owner: str,
        turns: tuple[Turn, ...],
        inputs: Mapping[str, Any],
        *,
        loaded: tuple[float, float] | None = None,
    ) -> TargetOpening:
        if loaded is not None:
            tell_load(prompty.path or "", prompty, *loaded)
        if prompty.model is not None and not prompty.has_conversation:
            api = prompty.model.api_type
            raise BadRequest(
                f"the agent makes one request of the API type '{api}': it has no conversation", param="model"
            )
        prompty = for_one_run(prompty)
        known, begun = begin(prompty, turns, inputs)
        table = await tools_of(prompty, self._toolbox.lent_to(owner), known)  # lent to its children, too
        here = tuple([tool for tool in table.values() if tool.spec.kind != "caller"])
        theirs = tuple([tool.spec for tool in table.values() if tool.spec.kind == "caller"])
        file = None if prompty.host is None else prompty.host.keep(prompty)
        return TargetOpening(begun, here, theirs, exclusive=True, file=file, inputs=kept_inputs(prompty, known))


def _tell_answer(prompty: Prompty, run: Run) -> Any:
    turn = next((turn for turn in reversed(run.turns) if type(turn) is AssistantTurn), None)
    return tell_answer(prompty, {"turn": turn}, run)


def _line(problem: Problem) -> str:
    where = "" if problem.line is None else f"line {problem.line}"
    return ": ".join(part for part in (where, problem.field, problem.message) if part)


def begin(
    prompty: Prompty, turns: tuple[Turn, ...], inputs: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[Turn, ...]]:
    """The inputs of a run, and the conversation it starts from."""
    _check_names(prompty, inputs)
    thread = thread_of(prompty, inputs)
    question = missing_question(prompty, inputs)
    at = next((at for at in range(len(turns) - 1, -1, -1) if type(turns[at]) is UserTurn), None)
    all_inputs = dict(inputs)
    before: tuple[Turn, ...] = turns
    question_turn: Turn | None = None
    after: tuple[Turn, ...] = ()
    if question is not None and at is not None:
        question_turn = turns[at]
        assert type(question_turn) is UserTurn
        before, after = turns[:at], turns[at + 1 :]
        all_inputs[question] = "".join([part.text for part in question_turn.parts if type(part) is Text])
    if thread is not None:
        all_inputs[thread] = PLACE_OF_THREAD
    known, messages = prepare(prompty, all_inputs)
    file_turns = turns_of(messages)
    if _goes_on(turns, file_turns):
        return known, turns
    place = _place(file_turns, thread is not None, question_turn is not None)
    rest = file_turns[place + 1 :] if thread is not None else file_turns[place:]
    return known, (*file_turns[:place], *before, *_with_media(rest, question_turn), *after)


def _check_names(prompty: Prompty, inputs: Mapping[str, Any]) -> None:
    known = [one.name for one in prompty.inputs]
    for name in inputs:
        if name not in known:
            there_is = quote_names(known) or "none"
            raise BadRequest(f"the agent has no input '{name[:100]}'; it has {there_is}", param=f"inputs.{name[:100]}")


def missing_question(prompty: Prompty, inputs: Mapping[str, Any]) -> str | None:
    """The one text a file cannot do without that was not given."""
    missing = [one for one in prompty.inputs if one.required and one.default is None and one.name not in inputs]
    texts = [one.name for one in missing if one.kind == "string"]
    return texts[0] if len(texts) == 1 and len(missing) == 1 else None


def _goes_on(turns: Sequence[Turn], conversation: Sequence[Turn]) -> bool:
    """A conversation that was put together from an earlier run of this agent begins with its instructions already."""
    lead = [turn for turn in conversation if type(turn) is SystemTurn]
    return bool(lead) and list(turns[: len(lead)]) == lead


def _place(turns: Sequence[Turn], thread: bool, has_question: bool) -> int:
    """Where the conversation goes: in place of the thread, before the question, or at the end."""
    if thread and (place := place_in(turns)) is not None:
        return place
    if has_question:
        return max((index for index, turn in enumerate(turns) if type(turn) is UserTurn), default=len(turns))
    return len(turns)


def _with_media(conversation: Sequence[Turn], question: Turn | None) -> list[Turn]:
    """The question may have come with an image or a file: they go where its text went."""
    turns = list(conversation)
    if type(question) is not UserTurn:
        return turns
    media: list[UserPart] = [part for part in question.parts if type(part) is not Text]
    for index in range(len(turns) - 1, -1, -1):
        turn = turns[index]
        if media and type(turn) is UserTurn:
            turns[index] = UserTurn((*turn.parts, *media), turn.name)
            break
    return turns

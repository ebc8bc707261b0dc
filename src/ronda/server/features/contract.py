"""What a feature may bring to a server, and what it is given. Every member of `Feature` has an empty default.

    class Parrot(Feature):
        name = "parrot"

        def __init__(self, settings: ServerConfig, services: Services) -> None:
            self._tables = services.catalog

A feature is made once for each server, after the process was forked; a process may have several servers. It sees `Services` in
`__init__` only, and keeps what it uses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias

from msgspec import Raw, Struct
from starlette.types import ASGIApp

from ronda._doctor import Line as Line
from ronda.core.events import Event, RunStarted
from ronda.core.parts import Turn
from ronda.core.plan import ToolSpec
from ronda.drive import Provider, Tool
from ronda.host.extension import Tap
from ronda.server.features.table import Command
from ronda.server.http.failure import Refused as Refused
from ronda.server.http.incoming import Header, Incoming
from ronda.server.http.routing import Route
from ronda.server.services.asking import Ask as Ask
from ronda.server.services.models import Source, Target
from ronda.server.services.models import TargetTools as TargetTools
from ronda.server.services.reopening import Reopening as Reopening
from ronda.server.services.toolbox import Brought as Brought
from ronda.server.services.toolbox import Offer
from ronda.store.owners import OwnerRows
from ronda.wire.shared.capabilities import Capability, Need
from ronda.wire.shared.door_request import DoorRequest

if TYPE_CHECKING:
    from ronda.core.run import Run
    from ronda.files.file_store import FileStore
    from ronda.host.supervisor import Supervisor
    from ronda.prompty.registry import Lent
    from ronda.server.answering.exchange import Answering, MakeWriter
    from ronda.server.config import ServerConfig
    from ronda.server.http.auth import Auth
    from ronda.server.http.failure import ErrorWriter
    from ronda.server.http.open_requests import OpenRequests
    from ronda.server.http.operations import Operation
    from ronda.server.services.callers import Callers
    from ronda.server.services.container_host import ContainerHost
    from ronda.server.services.models import Models
    from ronda.server.services.runs import Runs
    from ronda.server.services.supplies import Supplier
    from ronda.server.services.toolbox import Toolbox
    from ronda.server.services.whole_sessions import WholeSessions
    from ronda.store.catalog import Catalog

# One step of a feature's tables: statements as in `store.tables`, where `{text}` and its like stand for each database's word.
Migration: TypeAlias = Sequence[str]


class Finding(Struct, frozen=True):
    """What is wrong with the settings: in a sentence that names the setting and the way out."""

    problem: str
    is_fatal: bool = True  # else the server starts anyway, and logs it


class Chore(Struct, frozen=True):
    """What is done again and again, from the start of the server on. With `per="all"`, one process does it of all that share
    the data folder or the database: for as long as it lives it holds a claim in the catalog. A chore that raises is logged, and
    started again after a pause."""

    name: str
    every: float  # seconds between the end of one and the beginning of the next
    do: Callable[[], Awaitable[object]]
    per: Literal["process", "all"] = "process"


class Figure(Struct, frozen=True):
    """One number of now: `ronda_runs_live{owner="x"} 3` is Figure("ronda_runs_live", 3, {"owner": "x"})."""

    name: str
    value: float
    labels: Mapping[str, str] = {}
    kind: Literal["counter", "gauge"] = "gauge"
    help: str = ""


class Folders(Struct, frozen=True):
    """Where a server keeps what it keeps (None: it forgets it at its end), and where its user's programs keep their state."""

    data: Path | None = None
    state: Path | None = None


class AnswerRequest(Protocol):
    """A request that a door has read → its answer, plain or streamed: the run is set up, driven and written. What goes wrong with
    it `write_error` says, with a status. Raises BadRequest before a run has begun."""

    async def __call__(
        self, request: Incoming, asked: DoorRequest, make_writer: MakeWriter, write_error: ErrorWriter
    ) -> ASGIApp: ...


class Services(Struct, frozen=True):
    """What a server has for its features."""

    answer: AnswerRequest  # for doors of other packages
    answering: Answering  # for those in the box: what answers are made with
    # Tables: `read` and `write` take jobs, `claims` are what one process has at a time; keys, sessions, …
    catalog: Catalog
    files: FileStore
    runs: Runs  # under way (`live`) and kept (`journal`, `find`, `follow`)
    models: Models
    toolbox: Toolbox
    containers: ContainerHost
    sessions: WholeSessions
    supplier: Callable[[], Supplier]  # of files and skills that requests bring
    callers: Callers  # whose requests are
    supervisor: Supervisor
    clock: Callable[[], float]  # the time of all who share the catalog
    auth: Auth  # whose a request is that no feature knows
    open_requests: OpenRequests  # under way, by their keys
    figures: Callable[[], Iterable[Figure]]  # of all features
    doctor: Callable[[], Awaitable[list[Line]]]  # likewise
    operations: Callable[[], Mapping[str, Operation]]  # likewise
    routes: Callable[[], Sequence[Route]]  # likewise
    feature_names: Callable[[], Sequence[str]]  # of all that this server has
    settings: Callable[[], ServerConfig]  # of now: some are read again while the server runs
    reopen: Callable[[RunStarted, Sequence[Event]], Awaitable[Reopening | None]]  # of a run that a feature began itself
    # What a feature provides (`Feature.provides`), once all are made; None if none does.
    provided: Callable[[type], Any]
    core_needs: Callable[[Sequence[Need]], Sequence[Need]]  # without those that features look at (`Feature.others`)
    data_folder: Path | None  # None: what is kept in files is forgotten with the process
    # Those that are taken: by tools of the operator's, and by features that were made before.
    tool_names: Callable[[], Set[str]]
    given: Mapping[str, Any]  # by features' names: what a program gave, else what `Feature.prepare` has returned


class Feature:
    name: ClassVar[str]
    after: ClassVar[tuple[str, ...]] = ()  # features that are made, asked and told before it, where there are any
    tables: ClassVar[Sequence[Migration]] = ()  # append a step, never change one that is there
    # Which rows of its tables are an owner's: `ronda owner export` and `delete`.
    owned: ClassVar[Sequence[OwnerRows]] = ()
    settings: ClassVar[type[Struct] | None] = None  # of a feature of another package; the table names those in the box
    commands: ClassVar[Sequence[Command]] = ()  # likewise: `ronda NAME …` loads the feature NAME of another package
    is_feature: ClassVar[bool] = True
    is_door: ClassVar[bool] = False  # it brings addresses that every server has
    is_steady: bool = True  # a usual request always gets the same from it; else requests are set up one by one
    counts_calls: bool = False  # what it puts `around` them does: then several answers of a request are several calls
    tool_names: Sequence[str] = ()  # of tools that `tools` brings to some requests
    sign_in_headers: Sequence[bytes] = ()  # in small letters: `sign_in` is asked of requests that have one; (): of all

    @classmethod
    def check(cls, settings: ServerConfig) -> Iterable[Finding]:
        """Before anything is made, and before a process is forked."""
        return ()

    @classmethod
    def rewriter(cls, settings: ServerConfig) -> Callable[[str], str] | None:
        """Rewrites each text of runs, sessions and long results before it is kept."""
        return None

    @classmethod
    def prepare(cls, settings: ServerConfig, folders: Folders) -> Any:
        """What `__init__` finds in `services.given`, under the feature's name: files that are read, programs that are looked for.
        In a thread, where there is an event loop. Not asked where a program gives such an object itself. Raises BadConfig."""
        return None

    @classmethod
    def owned_folders(cls, data_folder: Path, owner: str) -> Sequence[Path]:
        """Where it keeps files of this owner's, beside the server's own: they are exported, and removed with the owner."""
        return ()

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        """No I/O, and no event loop: that is for `prepare` and `start`."""

    # ---- requests ----------------------------------------------------------------------------------------------------

    def routes(self) -> Sequence[Route]:
        """Addresses. A handler is given the request, and returns an ASGI app that answers it."""
        return ()

    def operations(self) -> Mapping[str, Operation]:
        """What its addresses take and answer, by `METHOD PATH`: for GET /openapi.json and the reference page. An address that is
        not there is in the document with its name only. Asked with the first request for it."""
        return {}

    def targets(self) -> Sequence[Source]:
        """Names that requests may give as model or agent."""
        return ()

    async def sign_in(self, request: Incoming) -> str | None:
        """Whose a request is; None: this feature does not know, and the next is asked, at last the server's own API keys. May
        set `request.rights`, and `request.key` where it stands for a key."""
        return None

    async def admit(self, request: Incoming, route: Route) -> Sequence[Header]:
        """Let a request in, once it is known whose it is; the headers go into its answer, whatever that is. Raises Refused. Asked
        once for each request, and for each message of a WebSocket that starts something; not again in another process that a
        request is passed on to."""
        return ()

    def message_answered(self) -> None:
        """What is to say of a WebSocket's message that was admitted has been said. Called in the task that `admit` was. Must be
        quick."""

    def request_came(self, request: Incoming, route: Route) -> None:
        """A request has come; it is not known yet whose it is. Called in the task that answers it: a context variable that is set
        here is seen by the runs that the request drives. Must be quick. Where there is no address, `route.path` is
        `<unmatched>`."""

    def answer_headers(self, request: Incoming, route: Route, headers: list[Header]) -> list[Header]:
        """The headers that an answer goes out with, refusals included; `headers` are those that it has. Must be quick."""
        return headers

    def answer_sent(self, request: Incoming, route: Route, status: int, seconds: float) -> None:
        """An answer was sent to its end, or broke off; `seconds` since the request came. Like `request_came`, also where there is
        no address."""

    # ---- a run is set up ---------------------------------------------------------------------------------------------

    def standing_tools(self) -> Sequence[Tool]:
        """Tools that every request has: the same object until one comes or goes."""
        return ()

    async def ready(self) -> None:
        """Wait for standing tools that are not there yet, before a run is set up."""

    def capabilities(self) -> Mapping[Capability, Sequence[Tool]]:
        """Tools for requests that ask for them in the words of a service. Asked once."""
        return {}

    def names_for(self, need: Need) -> tuple[str, ...]:
        """The tools of `tools` that do what a request, or an agent, asks for in the words of a service; none: it cannot be had
        here. What it meets must be brought by `tools`."""
        return ()

    def others(self, needs: Sequence[Need]) -> Sequence[Need]:
        """Without those that nothing but this feature looks at. Raises BadRequest for what must not be asked for."""
        return needs

    async def tools(self, ask: Ask) -> Brought | None:
        """Tools of its own for this request; it sees no tools of others. Asked where tools may be run at all."""
        return None

    async def target_tools(self, target: Target, owner: str) -> TargetTools | None:
        """Tools that a model, or an agent that a client made, has besides its own."""
        return None

    def runs(self, declared: ToolSpec) -> Tool | None:
        """What runs a tool that the request declares, where no callback does."""
        return None

    def declared_tools(self) -> Sequence[Tool]:
        """The tools that `runs` knows by name: agents may declare them, too."""
        return ()

    def lend(self, lent: Lent, owner: str) -> None:
        """Add what the agents of one owner may use of this feature, beside tools: MCP servers, other agents, a way to run any
        tool."""

    async def equip(self, ask: Ask, turns: tuple[Turn, ...], offer: Offer) -> tuple[tuple[Turn, ...], Offer]:
        """With tools that are there wrapped, or turns added at the top."""
        return turns, offer

    def run_state(self) -> Mapping[str, Raw]:
        """What is kept in the first fact (`about`) of the runs that the request under way starts, under names of its own."""
        return {}

    def run_began(self, start: RunStarted, tools: Mapping[str, Tool]) -> None:
        """A run has begun, with these tools."""

    # ---- a run is driven, and so are its children (`host.extension`) ---------------------------------------------------

    def around(self, run: Run, provider: Provider) -> Provider:
        """What the run's model calls go through. Raises nothing; `call` of what it returns may raise UpstreamError or BadRequest,
        and the run fails with that."""
        return provider

    def tap(self, run: Run) -> Tap | None:
        """Who is told about the run's facts once they are journaled; `run` has its first fact. Must be quick."""
        return None

    # ---- a run is opened again ---------------------------------------------------------------------------------------

    async def reopen_tools(self, start: RunStarted, events: Sequence[Event]) -> Mapping[str, Tool]:
        """Of the tools that it brought."""
        return {}

    async def reopen(self, start: RunStarted, events: Sequence[Event]) -> Reopening | None:
        """All of a run that it began itself; None: it is none of those."""
        return None

    def provides(self) -> Mapping[type, object]:
        """What others may ask this feature for, each by a Protocol or a class that both know."""
        return {}

    # ---- the server --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """With the event loop: begin with what takes time. Requests may come at once."""

    async def start(self) -> None:
        """With the event loop, before the first request, which waits for it. What it raises keeps the server from starting: the
        operator reads it in one line, after the feature's name."""

    def startup_lines(self) -> Sequence[str]:
        """What the operator should read once the server is up."""
        return ()

    async def drain(self, seconds: float) -> None:
        """The server is to end: what waits for a client may take so long, while runs under way do."""

    async def runs_ended(self) -> None:
        """No run is under way any more: a moment for features that tell clients of it."""

    async def stop(self) -> None:
        """Everything is over but what is kept. Also called where a `start` has failed, of this feature or of another."""

    def chores(self) -> Sequence[Chore]:
        return ()

    def figures(self) -> Iterable[Figure]:
        return ()

    async def doctor(self) -> Sequence[Line]:
        """How it fares, for `ronda doctor` and GET /v1/system/doctor: what works, what does not, and what would help. May start
        programs and take seconds. The command asks a server that was made and not started."""
        return ()


def overrides(feature: Feature, member: str) -> bool:
    """Whether a feature has something of its own there: members that are empty are never called."""
    found: Any = getattr(type(feature), member)
    return found is not getattr(Feature, member)

"""What a request may ask a server for besides the caller's own tools: one table for all dialects, and one sentence.

A dialect's reader says what a request needs; the server says what it has (`server.toolbox`). What is asked for and not had
is refused in the dialect's own shape, or left out with a warning where the caller can do without.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.parts import NULL
from ronda.core.plan import ToolChoice
from ronda.core.taint import EGRESS, PRIVATE, UNTRUSTED
from ronda.errors import BadRequest
from ronda.wire.shared.code_tools import PYTHON
from ronda.wire.shared.code_tools import SHELL as SHELL_TOOL
from ronda.wire.shared.mcp_servers import NamedServer
from ronda.wire.web.search import EXTRACT, SEARCH, WebTools, read_search_options

Capability: TypeAlias = Literal[
    "python", "shell", "files", "skills", "search", "offline_search", "fetch", "images", "mcp"
]


class HostedTool(Struct, frozen=True):
    """Something that a service does itself, with its own tools.

    `tool` is the name of a tool that does the same: a server whose operator has given it one has what is asked for. `own` are
    those of Ronda's that do.
    """

    noun: str
    tool: str = ""
    capability: Capability | None = None  # None: no server of ours has it by itself
    flag: str = ""  # with which an operator switches it on
    own: tuple[str, ...] = ()


_SEARCH: Final = HostedTool("web search", "search_the_web", "search", "--enable-search", (SEARCH, EXTRACT))
OFFLINE_SEARCH: Final = HostedTool(
    "search that does without the web", "", "offline_search", "a folder in [search], with --enable-search,", (SEARCH,)
)
_PYTHON: Final = HostedTool("code execution", "run_python", "python", "--enable-code-execution", (PYTHON,))
SHELL: Final = HostedTool("shell", "run_shell", "shell", "--enable-shell", (SHELL_TOOL,))
_MCP: Final = HostedTool("MCP servers that a request may name", "call_mcp", "mcp", flag="--mcp-allow-url")
_COMPUTER: Final = HostedTool("computer to use", "use_computer")
_TOOL_SEARCH: Final = HostedTool("search for tools", "find_tools", flag="tools that are deferred")

# What asks for it: the types of tools, without their dates, and the fields of requests.
HOSTED: Final[dict[str, HostedTool]] = {
    "web_search": _SEARCH,
    "web_search_options": _SEARCH,
    "web_search_premium": _SEARCH,
    "web_search_preview": _SEARCH,
    "web_fetch": HostedTool("way to fetch pages", "read_page", "fetch", "--enable-search", (EXTRACT,)),
    "code_interpreter": _PYTHON,
    "code_execution": _PYTHON,
    "enable_code_execution": _PYTHON,
    "shell": SHELL,
    "bash": SHELL,
    "enable_shell": SHELL,
    "file_search": HostedTool("file search", "search_files", "files"),
    "document_library": HostedTool("document libraries", "search_files", "files"),
    "text_editor": HostedTool("files to edit", "edit_file", "files"),
    "memory": HostedTool("memory", "remember", "files"),
    "container": HostedTool("shell, which skills need", "", "shell", "--enable-shell", (SHELL_TOOL,)),
    "image_generation": HostedTool("image generation", "make_image", "images"),
    "mcp": _MCP,
    "mcp_servers": _MCP,
    "mcp_toolset": _MCP,
    "connector": HostedTool("connectors", "", "mcp", flag="--mcp-config"),
    "computer": _COMPUTER,
    "computer_toolset": _COMPUTER,
    "computer_use": _COMPUTER,
    "computer_use_preview": _COMPUTER,
    "browser_toolset": HostedTool("browser", "use_browser"),
    "tool_search": _TOOL_SEARCH,
    "tool_search_tool_bm25": _TOOL_SEARCH,
    "tool_search_tool_regex": _TOOL_SEARCH,
    "programmatic_tool_calling": HostedTool("programmatic tool calls"),
    "advisor": HostedTool("advisor", "ask_advisor"),
}

# Before the type of a tool that a choice names: no function has such a name.
OF_SERVICE: Final = "hosted:"

_DATE: Final = re.compile(r"_20\d\d_?\d\d_?\d\d\Z")


def hosted_by(kind: str) -> HostedTool | None:
    """What a type of tool asks for. `web_search_20250305` → as `web_search`: a date is only that of the declaration."""
    return HOSTED.get(undated(kind))


def undated(kind: str) -> str:
    return _DATE.sub("", kind)


_READS_STRANGERS: Final[frozenset[Capability | None]] = frozenset({"search", "fetch", "mcp"})
_READS_PRIVATE: Final[frozenset[Capability | None]] = frozenset({"python", "shell", "files"})


def hosted_labels(hosted: HostedTool) -> tuple[str, ...]:
    """Those of what a model's own service runs: as the tools of this server have them that do the same."""
    if hosted.capability in _READS_STRANGERS:
        return (UNTRUSTED, EGRESS)
    return (PRIVATE,) if hosted.capability in _READS_PRIVATE else ()


class Need(Struct, frozen=True):
    """What a request asks for, and where it says so."""

    name: str  # the type of a tool, or a field
    path: str
    hosted: HostedTool
    is_optional: bool = False  # the caller does without, and hears of it
    called: str = ""  # what `tool_choice` calls it
    settings: tuple[str, ...] = ()  # members that say how it should be done
    details: object = None  # what the dialect says besides a message
    web: WebTools = WebTools()  # of a search: how
    server: NamedServer | None = None  # the MCP server that is meant
    confirmed: tuple[str, ...] = ()  # names of tools whose calls a person has to confirm
    # What does part of it: one of all these is enough, and those that are had are offered.
    also: tuple[HostedTool, ...] = ()
    # In front of its own service it runs nothing there: the client does, or the service only chooses what the model is shown.
    runs_nothing: bool = False
    # The declaration as it came, for a service that does it itself. It may hold secrets: no journal has it.
    native: Raw = NULL

    @property
    def tool_names(self) -> set[str]:
        """By which rules may speak of what does it, wherever that is."""
        found = {self.name, undated(self.name), self.called.removeprefix(OF_SERVICE)}
        return (found | {name for one in (self.hosted, *self.also) for name in (one.tool, *one.own)}) - {""}

    @property
    def confirms(self) -> bool:
        """Whether it says that a person has to approve calls."""
        return bool(self.confirmed) or (self.server is not None and self.server.may_ask)

    @property
    def capabilities(self) -> list[Capability]:
        return [hosted.capability for hosted in (self.hosted, *self.also) if hosted.capability is not None]

    @property
    def reason(self) -> str:
        return lack(self.hosted)

    @property
    def refusal(self) -> str:
        return f"'{self.name}' cannot be used here: {self.reason}"


def lack(hosted: HostedTool) -> str:
    return f"this server has no {hosted.noun}" + (f"; {hosted.flag} switches it on" if hosted.flag else "")


def fate(hosted: HostedTool) -> str:
    """What becomes of it, for docs/compatibility.md."""
    return f"read: on a server with {hosted.flag}; else refused" if hosted.flag else f"refused: {lack(hosted)}"


class NotHere(BadRequest):
    """A request needs what the server does not have."""

    def __init__(self, need: Need) -> None:
        super().__init__(need.refusal, param=need.path)
        if need.details is not None:  # a dialect that says place by place what is wrong: with its own status
            self.details = need.details
            self.status_hint = 422


# Fields that every dialect may have, beside its own.
FIELDS: Final = ("web_search_options", "enable_code_execution", "enable_shell")
# On a server that cannot do it these are a wish, and the answer has a warning. A tool that is declared would be an error.
WISHES: Final = ("enable_code_execution", "enable_shell")
FATES: Final[dict[str, str]] = {
    name: fate(HOSTED[name]) if name not in WISHES else f"read: on a server with {HOSTED[name].flag}; else a warning"
    for name in FIELDS
}
_NOTHING: Final = (b"false", b"[]")


def read_needs(fields: Mapping[str, Raw]) -> tuple[Need, ...]:
    """What these fields ask for; one that says false, or nothing, does not."""
    names = [name for name in FIELDS if name in fields and bytes(fields[name]) not in _NOTHING]
    return tuple([_need(name, fields[name]) for name in names])


def _need(name: str, raw: Raw) -> Need:
    need = Need(name, name, HOSTED[name], is_optional=name in WISHES)
    return need if HOSTED[name] is not _SEARCH else with_search_options(need, raw, name)


def with_search_options(need: Need, raw: Raw, path: str) -> Need:
    """With what a declaration says of the search. One that may not touch the web needs something else to search in."""
    options = read_search_options(raw, path)
    if not options.external_web_access:
        return replace(need, hosted=OFFLINE_SEARCH, web=WebTools(options))
    return replace(need, web=WebTools(options, options))


def rename_choice(choice: ToolChoice, stand_ins: Mapping[str, tuple[str, ...]]) -> ToolChoice:
    """The choice of what a service has is the choice of the tools that stand in for it here."""
    if not stand_ins or not choice.names:
        return choice
    names = [name for chosen in choice.names for name in stand_ins.get(chosen, (chosen,))]
    return replace(choice, names=tuple(dict.fromkeys(names)))

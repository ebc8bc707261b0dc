"""What a run was told to do: frozen when it starts and journaled with it.

A run never looks at configuration again, so a changed config never changes what an old run does. Nothing here can be called:
handlers are found by name when the run is driven.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar, overload

from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.limits import RETRY, Limits, Retry
from ronda.core.parts import NULL

T = TypeVar("T")

ANY_OBJECT = Raw(b'{"type":"object"}')

# Who can run a call, in the order they are asked. "caller" is the client that sent the request.
ToolKind: TypeAlias = Literal["builtin", "function", "callback", "mcp", "dispatch", "caller"]

# Labels that say what a tool does with data (`core.taint`). Others are names for the operator's rules.
UNTRUSTED: Final = "untrusted"
PRIVATE: Final = "private"
EGRESS: Final = "egress"
_OF_DATA: Final = frozenset({UNTRUSTED, PRIVATE, EGRESS})

# May a call run? "auto": yes. "ask": when a person has approved it. "deny": never; the model is told.
Approval: TypeAlias = Literal["auto", "ask", "deny"]


class PermissionRule(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What becomes of the calls that it matches (`core.permissions`). What is left out matches everything.

    `tool` is a name with `*` and `?`; `labels` are such as the tool has one of; `arguments` are patterns by JSON pointer.
    """

    mode: Approval
    tool: str = "*"
    labels: tuple[str, ...] = ()
    arguments: dict[str, str] = {}
    but: tuple[str, ...] = ()  # tools that it is not about, although they fit the rest: names with `*` and `?`


class Origin(Struct, frozen=True):
    """Where a tool comes from, for a caller who named its server: the server, and the tool's name there."""

    server: str
    tool: str


class ToolSpec(Struct, frozen=True, omit_defaults=True):
    """A tool as the model sees it and as the loop must treat it. `parameters` is a JSON Schema without the bound ones."""

    name: str
    description: str = ""
    parameters: Raw = ANY_OBJECT
    strict: bool | None = None
    kind: ToolKind = "function"
    repeatable: bool = False  # may run again after a crash
    exclusive: str | None = None  # calls with the same key never overlap within a session
    timeout: float | None = None
    bound: tuple[str, ...] = ()  # filled in from the inputs, never by the model
    declared: str = "function"  # the kind that its file gives it: said where no handler runs it
    no_arguments_needed: bool = False  # so an empty argument text means {}
    native: Raw = NULL  # a caller's own declaration, where ours would not say it the same way
    native_api: str = ""  # whose dialect that is, or what its name is made for; no other wire is sent it
    approval: Approval = "auto"
    is_agent: bool = False  # a call of it is a run of its own
    # What permission rules may call it by; some have a meaning of their own (`core.taint`).
    labels: tuple[str, ...] = ()
    tool_type: str = ""  # the kind that events give its calls: code_execution, shell, web_search; "" is any other tool
    origin: Origin | None = None
    is_hosted: bool = False  # the model's own service runs it, out of our sight
    deferred: bool = False  # the model is not shown it before it has looked for it
    checks_arguments: bool = False  # it says itself what is wrong with them, in words of its own
    preview: tuple[str, ...] = ()  # arguments, by JSON pointer, that followers see while the model writes them


class ToolChoice(Struct, frozen=True, omit_defaults=True):
    """`names` restricts what may be called; definitions stay in the prompt. A `named` choice is one name, required."""

    Auto: ClassVar[ToolChoice]
    NoTools: ClassVar[ToolChoice]
    Required: ClassVar[ToolChoice]

    mode: Literal["auto", "none", "required"] = "auto"
    names: tuple[str, ...] = ()
    named: bool = False

    def allows(self, name: str, *, is_owed: bool = False) -> bool:
        """A named choice binds while its call is owed, and takes no other tool away afterwards."""
        return not self.names or (self.named and not is_owed) or name in self.names

    def without(self, names: Collection[str]) -> ToolChoice:
        """Where these cannot be called."""
        left = tuple([name for name in self.names if name not in names])
        if len(left) == len(self.names):
            return self
        return replace(self, names=left) if left else NONE

    @property
    def when_met(self) -> ToolChoice:
        """An obligation binds until it is met; a restriction stays."""
        if self.mode != "required":
            return self
        return ToolChoice("auto", self.names) if self.names and not self.named else AUTO


AUTO = ToolChoice.Auto = ToolChoice()
NONE = ToolChoice.NoTools = ToolChoice("none")
ToolChoice.Required = ToolChoice("required")


class ResponseFormat(Struct, frozen=True, omit_defaults=True):
    """What the final text must be. Binds the answer, never a tool's arguments."""

    type: Literal["json_object", "json_schema"]
    name: str = "answer"
    schema: Raw = NULL
    strict: bool | None = None
    description: str | None = None


class Options(Struct, frozen=True, omit_defaults=True):
    """How to sample. `extra` holds fields of the caller's dialect that Ronda does not know, to pass on or refuse by name."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    response_format: ResponseFormat | None = None
    extra: dict[str, Raw] = {}
    native: dict[str, Raw] = {}  # fields that only an upstream of the caller's dialect has an equivalent of …
    native_api: str = ""  # … which is this one; no other wire is sent them


NO_OPTIONS = Options()


class Once(Generic[T]):
    """A property of a plan that is worked out when it is first asked for: usual requests share one plan.

    (That of `functools` takes a lock until Python 3.12.)
    """

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find = find
        self._name = find.__name__
        self.__doc__ = find.__doc__

    @overload
    def __get__(self, plan: None, owner: type) -> Once[T]: ...

    @overload
    def __get__(self, plan: object, owner: type) -> T: ...

    def __get__(self, plan: object | None, owner: type) -> Once[T] | T:
        if plan is None:
            return self
        found = plan.__dict__[self._name] = self._find(plan)
        return found


class Plan(Struct, frozen=True, omit_defaults=True, dict=True):
    model: str
    tools: tuple[ToolSpec, ...] = ()
    choice: ToolChoice = AUTO
    options: Options = NO_OPTIONS
    limits: Limits = Limits()
    retry: Retry = RETRY
    parallel: bool = True
    stream: bool = False  # a client watches: ask the provider for deltas
    format_is_enforced: bool = False  # the provider cannot but answer in `options.response_format`
    format_is_wish: bool = False  # an answer in another form stands, if asking again brings no better one
    on_unknown_tool: Literal["tell", "raise"] = "tell"
    tool_calls: Literal["all", "first"] = "all"
    asks_again: bool = True  # an answer that breaks an obligation is asked for once more before the run fails
    context_budget: int | None = None  # characters the model is shown at the most, as `core.context` counts them
    truncates: bool = False  # what the model says is too long for it is cut, and asked again
    guards: tuple[Literal["input", "output", "tool"], ...] = ()  # what a guardrail looks at; who asks it is elsewhere

    permissions: tuple[PermissionRule, ...] = ()
    # Tools whose calls a person has approved in this session, where they would be asked about.
    remembered: tuple[str, ...] = ()
    # Calls that a person has let send data out in this session, each as `core.taint.send_key` has it.
    sendable: tuple[str, ...] = ()

    @Once
    def shown_tools(self) -> tuple[ToolSpec, ...]:
        """Those that the model is shown from the start."""
        for tool in self.tools:
            if tool.deferred:
                return tuple([tool for tool in self.tools if not tool.deferred])
        return self.tools

    @Once
    def runs_tools(self) -> bool:
        """False in the ordinary client-side flow, where the caller runs the loop and we hand over what the model wrote.

        A strict tool of the caller's is a promise of ours: its calls are checked before they are handed over.
        """
        if self.on_unknown_tool == "raise":
            return True
        return bool(self.tools) and any(tool.kind != "caller" or tool.strict for tool in self.tools)

    @Once
    def has_labels(self) -> bool:
        """Some of its tools say what they give, or that they send data out (`core.taint`)."""
        return any(tool.labels and not _OF_DATA.isdisjoint(tool.labels) for tool in self.tools)

    @Once
    def has_callers(self) -> bool:
        """Some of its tools are the caller's to run."""
        return bool(self.tools) and any(tool.kind == "caller" for tool in self.tools)

    @Once
    def announces_calls(self) -> bool:
        """Calls of the caller's go out as they arrive, and a turn that makes one is never asked for again.

        Not where something may still take them back.
        """
        if self.choice.mode == "none" or "output" in self.guards or self.on_unknown_tool == "raise":
            return False
        ours = callers = False
        for tool in self.tools:
            if tool.kind != "caller":
                ours = True
            elif tool.strict:
                return False
            else:
                callers = True
        return not ours or (callers and self.tool_calls == "all")

    @Once
    def holds_text(self) -> bool:
        """The answer must be JSON, or pass a guardrail: what else is said on the way, or was said wrong, is not shown."""
        if "output" in self.guards:
            return True
        return self.options.response_format is not None and (self.runs_tools or not self.format_is_enforced)

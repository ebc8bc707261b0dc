"""What an API key may do, as a list of words → questions that the server asks of it.

    operate             see the state of all owners: figures, states, names of tools, codes of errors; no words of theirs
    operate:write       also stop runs, retry MCP servers, make and revoke keys
    decide              also decide for other owners whether their calls may run
    model:NAME          ask these models only                 tool:NAME          use these tools of the server only
    agent:NAME          ask these agents only                 door:NAME          come through these APIs only
    permission:MODE     'ask' or 'deny', where the server is less strict
    sandbox:PROFILE     run code under these profiles of the sandbox only

A key without scopes may do what every key could before there were scopes. The scopes with a name narrow: once one of a kind is
there, all else of that kind is refused. `*` in a NAME stands for any characters, and `none` for nothing at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from ronda._suggest import did_you_mean
from ronda.core.plan import Approval
from ronda.errors import BadRequest

Right: TypeAlias = Literal["operate", "operate:write", "decide"]

RIGHTS: Final[tuple[Right, ...]] = ("operate", "operate:write", "decide")
DOORS: Final = ("chat", "responses", "messages", "mistral", "files", "skills", "mcp", "app", "own")
PERMISSIONS: Final[tuple[Approval, ...]] = ("ask", "deny")
PROFILES: Final = ("restricted", "developer")
NOTHING: Final = "none"  # of a kind, in the place of a name

MAX_SCOPES: Final = 100  # of one key: more than one server has of models, agents and doors; tools go by patterns
MAX_SCOPE: Final = 200  # characters: as long as the names of models that are quoted in errors

_CHOICES: Final = {"door": DOORS, "permission": PERMISSIONS, "sandbox": PROFILES}
_KINDS: Final = ("model", "agent", "tool", *_CHOICES)


def check_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """The same scopes, each once and in order. Raises BadRequest for one that means nothing."""
    if len(scopes) > MAX_SCOPES:
        raise BadRequest(f"a key has at most {MAX_SCOPES} scopes; these are {len(scopes)}", param="scopes")
    for scope in scopes:
        _check(scope)
    return tuple(sorted(set(scopes)))


def _check(scope: str) -> None:
    kind, _, name = scope.partition(":")
    if scope in RIGHTS:
        return
    if len(scope) > MAX_SCOPE or not scope.isprintable() or set(scope) & set(" ,?[]"):
        raise BadRequest(
            f"the scope {scope[:100]!r} must be at most {MAX_SCOPE} characters, without spaces, commas, '?' and brackets",
            param="scopes",
        )
    if kind not in _KINDS or not name:
        known = [*RIGHTS, *[f"{one}:NAME" for one in _KINDS]]
        hint = did_you_mean(scope if kind not in _KINDS else f"{kind}:NAME", known)
        raise BadRequest(f"there is no scope {scope!r}; there is {', '.join(known)}. {hint}".strip(), param="scopes")
    choices = _CHOICES.get(kind)
    if choices is not None and name not in choices and not (name == NOTHING and kind != "permission"):
        raise BadRequest(f"the scope {scope!r} is not known: {kind}: takes {', '.join(choices)}", param="scopes")


class Scopes(Struct, frozen=True):
    """None: everything of that kind."""

    rights: frozenset[str] = frozenset()
    models: tuple[str, ...] | None = None
    agents: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    doors: tuple[str, ...] | None = None
    profiles: tuple[str, ...] | None = None
    permission: Approval = "auto"

    def has(self, right: Right) -> bool:
        return right in self.rights or (right == "operate" and "operate:write" in self.rights)

    def allows_model(self, names: Iterable[str]) -> bool:
        """`names` are all that one model goes by."""
        return _matches(self.models, names)

    def allows_agent(self, names: Iterable[str]) -> bool:
        return _matches(self.agents, names)

    def allows_tool(self, name: str) -> bool:
        return _matches(self.tools, (name,))

    def allows_door(self, name: str) -> bool:
        return _matches(self.doors, (name,))

    def allows_profile(self, name: str) -> bool:
        return _matches(self.profiles, (name,))


def _matches(allowed: tuple[str, ...] | None, names: Iterable[str]) -> bool:
    if allowed is None:
        return True
    return any(_fits(pattern, name) for name in names for pattern in allowed if pattern != NOTHING)


def _fits(pattern: str, name: str) -> bool:
    return pattern == name or re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name, re.DOTALL) is not None


EVERYTHING: Final = Scopes()


@lru_cache(1024)
def scopes_of(rights: frozenset[str] | None) -> Scopes:
    """`rights` are a key's scopes; None: it has none, and may do what every key may."""
    if rights is None:
        return EVERYTHING
    named: dict[str, tuple[str, ...]] = {}
    for scope in sorted(rights - set(RIGHTS)):
        kind, _, name = scope.partition(":")
        named[kind] = (*named.get(kind, ()), name)
    modes = named.get("permission", ())
    return Scopes(
        rights & set(RIGHTS),
        named.get("model"),
        named.get("agent"),
        named.get("tool"),
        named.get("door"),
        named.get("sandbox"),
        "deny" if "deny" in modes else "ask" if "ask" in modes else "auto",
    )

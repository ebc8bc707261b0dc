"""The scopes of a key → what a run of it may do: fewer tools, and rules for calls that the run's children have, too.

Rules stand in a run's plan. So they also hold for runs that are children of it, and for one that goes on after a restart.
"""

from __future__ import annotations

from typing import Final

from ronda.core.found_tools import FIND_TOOLS
from ronda.core.plan import PermissionRule
from ronda.server.services.toolbox import Offer
from ronda.store.values.scopes import NOTHING, Scopes
from ronda.wire.shared.code_tools import READ_FILE

# Of the server's own working: they reach nothing that the run has not.
OWN_WORKING: Final = (FIND_TOOLS, READ_FILE)
_CODE: Final = "code"  # the label of tools that run code


def rules_under(scopes: Scopes, rules: tuple[PermissionRule, ...], profile: str) -> tuple[PermissionRule, ...]:
    """The rules of a run, and what the key adds. A rule only makes calls harder, so a scope widens nothing. `profile` is that of
    the sandbox."""
    if scopes.permission != "auto":
        rules = (*rules, PermissionRule(scopes.permission))
    if scopes.tools is not None:
        allowed = tuple([pattern for pattern in scopes.tools if pattern != NOTHING])
        rules = (*rules, PermissionRule("deny", but=(*allowed, *OWN_WORKING)))
    if not scopes.allows_profile(profile):
        rules = (*rules, PermissionRule("deny", labels=(_CODE,)))
    return rules


def offer_under(scopes: Scopes, offer: Offer, profile: str) -> Offer:
    """Without tools of the server that the key may not use. Those that the caller runs are the caller's own."""
    runs_code = scopes.allows_profile(profile)
    if scopes.tools is None and runs_code:
        return offer
    gone = {
        spec.name
        for spec in offer.specs
        if spec.kind != "caller"
        and spec.name not in OWN_WORKING
        and (not scopes.allows_tool(spec.name) or (_CODE in spec.labels and not runs_code))
    }
    return offer.without(gone)

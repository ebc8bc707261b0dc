"""A key that may act for all owners: for whom it does, and the row that says so (`store.audit`)."""

from __future__ import annotations

import time

from ronda.server.http.incoming import Incoming
from ronda.server.http.rights import check_right
from ronda.store.audit import Act, Audit
from ronda.store.values.scopes import Right


def owner_for(request: Incoming, right: Right) -> str:
    """Whose things a request is about: its own, or those of the owner that `?owner=NAME` names. Raises Forbidden."""
    named = request.query.get("owner")
    if not named or named[-1] == request.owner:
        return request.owner
    check_right(request, right)
    return named[-1]


async def note_act(audit: Audit, request: Incoming, act: str, subject: str, details: str = "") -> None:
    row = Act(time.time(), request.owner, request.key, act, subject[:200], request.client, details[:1000])
    await audit.add(row)

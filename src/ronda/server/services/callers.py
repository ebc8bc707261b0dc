"""Who asks: whose a request is, and whether it is let in; and how one process names a caller to another."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final, Protocol

from ronda.server.http.auth import Auth, Caller, CallerAuth, KeyAuth, Unauthorized
from ronda.server.http.incoming import Header, Incoming
from ronda.server.http.routing import Route
from ronda.server.services.other_processes import OtherProcesses
from ronda.store.keys import KeyRow

SIGNED_IN_BY: Final = "feature:"  # before the name of a feature, in the place of a key's id


class CallerFeatures(Protocol):
    """What is asked of the server's features."""

    @property
    def signs_in_all(self) -> bool:
        """Whether any request may be of an owner whom a feature knows …"""

    @property
    def sign_in_headers(self) -> Sequence[bytes]:
        """… or one with such a header."""

    @property
    def admitting(self) -> Sequence[object]: ...

    async def sign_in(self, request: Incoming) -> bool: ...

    async def admit(self, request: Incoming, route: Route) -> list[Header]: ...

    def message_answered(self) -> None: ...

    def find(self, name: str) -> object | None: ...


class Callers:
    def __init__(self, auth: Auth, features: CallerFeatures, others: OtherProcesses) -> None:
        self.auth = auth
        self._features = features
        self._others = others

    def sign_in_at_once(self, request: Incoming) -> bool:
        """Find out whose a new request is, where that needs no waiting, as nearly always. Raises Unauthorized."""
        auth, features = self.auth, self._features
        if type(auth) is not KeyAuth or auth.is_stale() or self._others.reach is not None or features.signs_in_all:
            return False
        if not request.headers.keys().isdisjoint(features.sign_in_headers):
            return False
        auth.identify(request)
        return True

    def sign_in(self, request: Incoming) -> Awaitable[None]:
        """Find out whose a new request is. Raises Unauthorized, or DatabaseAway."""
        if (reach := self._others.reach) is None:
            return self._sign_in(request)
        reach.check()
        return reach.wait_for(self._sign_in(request))

    async def _sign_in(self, request: Incoming) -> None:
        features = self._features
        may_know = features.signs_in_all or not request.headers.keys().isdisjoint(features.sign_in_headers)
        if may_know and await features.sign_in(request):
            return
        if isinstance(self.auth, KeyAuth):
            if self.auth.is_stale():
                await self.auth.look()
            self.auth.identify(request)
        else:  # a program's own
            request.owner = await self.auth.owner(request.headers)

    async def admit(self, request: Incoming, route: Route) -> Sequence[Header]:
        """The headers of the answer. Raises Refused."""
        return await self._features.admit(request, route) if self._features.admitting else ()

    def message_answered(self) -> None:
        """Of a WebSocket, once what was admitted has its answer."""
        self._features.message_answered()

    async def check_caller(self, caller: Caller) -> KeyRow | None:
        """Raises Unauthorized if the caller, whom another process let in, or this one a while ago, would not be let in now. The
        caller's key, where it came with one of this server's."""
        if caller.key.startswith(SIGNED_IN_BY):
            if self._features.find(caller.key.removeprefix(SIGNED_IN_BY)) is None:
                raise Unauthorized("what let this request in is not there any more")
        elif isinstance(self.auth, KeyAuth):
            return await self.auth.check_key(caller)
        elif isinstance(self.auth, CallerAuth):
            await self.auth.check(caller)
        return None

    async def sign_in_letter(self, request: Incoming, caller: Caller) -> None:
        """Whose a request is that another process let in. What the caller may do is looked up anew. Raises Unauthorized."""
        request.owner, request.is_letter = caller.owner, True
        if (key := await self.check_caller(caller)) is not None:
            request.key, request.rights = key.id, key.rights

    async def caller_of(self, incoming: Incoming) -> Caller:
        """How this process names to another who asks."""
        if incoming.key:
            return Caller(incoming.owner, incoming.key)
        if incoming.signed_in_by:
            return Caller(incoming.owner, SIGNED_IN_BY + incoming.signed_in_by)
        return await self.auth.caller(incoming.headers) if isinstance(self.auth, CallerAuth) else Caller(incoming.owner)

"""What an OpenID provider is asked: where it signs people in, what a code is worth, whose an ID token is.

A code becomes the claims of an ID token: its signature is checked with the provider's published keys, and it must be for this
client, from this issuer, of now, and an answer to this very sign-in (`nonce`). Nothing here knows owners, keys or cookies.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from ronda.errors import BadRequest
from ronda.providers.http.transport import Routes
from ronda.server.features.oidc.settings import OidcOptions

if TYPE_CHECKING:
    from jwt import PyJWK

# Signatures that only the provider can make. HS256 and "none" are not among them: the one is made with what clients know, the
# other with nothing.
ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
_MAX_ANSWER: Final = 1 << 20  # bytes: a hundred times what such documents have
_SECONDS: Final = 10.0  # a person waits
_METADATA_SECONDS: Final = 3600.0  # for which the provider's description is good
_KEYS_SECONDS: Final = 60.0  # between two reads of its keys, so that invented names of keys cause no load
_LEEWAY: Final = 60.0  # seconds that clocks may differ


class SignInFailed(BadRequest):
    """The provider, or what came back from it, lets no one in. Its words have no token in them."""

    def __init__(self, message: str, status: int = 403) -> None:
        super().__init__(message, code="sign_in_failed")
        self.status_hint = status


class _Metadata(Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: Sequence[str] = ("client_secret_basic",)  # as the standard says of none


class _Tokens(Struct, frozen=True):
    id_token: str


class OidcProvider:
    def __init__(self, options: OidcOptions, routes: Routes, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._routes = routes
        self._clock = clock
        self._metadata: _Metadata | None = None
        self._metadata_until = 0.0
        self._keys: list[PyJWK] = []
        self._keys_until = 0.0

    async def authorization_url(self, state: str, nonce: str, verifier: str) -> str:
        """Where a browser is sent. Raises SignInFailed."""
        found = await self._describe()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._options.client_id,
                "redirect_uri": self._options.redirect_url,
                "scope": " ".join(self._options.request_scopes),
                "state": state,
                "nonce": nonce,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
            }
        )
        return f"{found.authorization_endpoint}{'&' if '?' in found.authorization_endpoint else '?'}{query}"

    async def claims(self, code: str, verifier: str, nonce: str) -> Mapping[str, Any]:
        """Who signed in. Raises SignInFailed."""
        found, options = await self._describe(), self._options
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": options.redirect_url,
            "code_verifier": verifier,
        }
        headers = {}
        if not options.client_secret:
            form["client_id"] = options.client_id
        elif "client_secret_basic" in found.token_endpoint_auth_methods_supported:
            pair = f"{quote(options.client_id, safe='')}:{quote(options.client_secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": options.client_id, "client_secret": options.client_secret}
        body = await self._ask("POST", found.token_endpoint, "exchange the code", form, headers)
        return await self._verified(_read(body, _Tokens, "tokens").id_token, nonce, found)

    async def _verified(self, token: str, nonce: str, found: _Metadata) -> Mapping[str, Any]:
        import jwt

        try:
            head = jwt.get_unverified_header(token)
            key = await self._key(head.get("kid"), found)
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._options.client_id,
                issuer=found.issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise SignInFailed(f"the provider's ID token is not good: {type(error).__name__}") from error
        if claims.get("nonce") != nonce:
            raise SignInFailed("the provider's ID token is for another sign-in")
        if claims.get("azp", self._options.client_id) != self._options.client_id:
            raise SignInFailed("the provider's ID token was made for another client")
        return claims

    async def _key(self, name: Any, found: _Metadata) -> PyJWK:
        """The key that a token names; providers change them, so an unknown name is a reason to look again."""
        for look in (False, True):
            if look:
                if self._clock() < self._keys_until:
                    break
                await self._read_keys(found)
            named = [key for key in self._keys if key.key_id == name] if name is not None else self._keys
            if named:
                return named[0]
        raise SignInFailed("the provider's ID token is signed with a key that the provider does not publish")

    async def _read_keys(self, found: _Metadata) -> None:
        import jwt

        body = await self._ask("GET", found.jwks_uri, "read its keys")
        try:
            self._keys = list(jwt.PyJWKSet.from_json(body.decode()).keys)
        except (jwt.PyJWTError, ValueError, AttributeError) as error:
            raise SignInFailed("the sign-in provider publishes no keys that can be read", 502) from error
        self._keys_until = self._clock() + _KEYS_SECONDS

    async def check(self) -> None:
        """Raises SignInFailed where it cannot be asked, or what it says of itself cannot be right."""
        await self._read_keys(await self._read_description())

    async def _describe(self) -> _Metadata:
        if self._metadata is None or self._clock() >= self._metadata_until:
            self._metadata = await self._read_description()
            self._metadata_until = self._clock() + _METADATA_SECONDS
        return self._metadata

    async def _read_description(self) -> _Metadata:
        issuer = self._options.issuer
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        found: _Metadata = _read(await self._ask("GET", url, "be described"), _Metadata, "description")
        if found.issuer != issuer:  # else another provider's word would be taken for this one's
            raise SignInFailed(f"the sign-in provider calls itself {found.issuer[:200]!r}, not {issuer!r}", 502)
        return found

    async def _ask(
        self,
        method: str,
        url: str,
        what: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        import aiohttp

        from ronda.providers.http.session import read_within, session, through, why_not_reached

        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        sent = {"accept": "application/json", **(headers or {})}
        try:
            async with (await session()).request(
                method,
                url,
                data=form,
                headers=sent,
                timeout=timeout,
                allow_redirects=False,
                **through(self._routes, url),
            ) as answer:
                body = await read_within(answer, _MAX_ANSWER)
                status = answer.status
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise SignInFailed(f"the sign-in provider could not {what}: {why_not_reached(error)}", 502) from error
        if status != 200 or body is None:
            raise SignInFailed(
                f"the sign-in provider could not {what}: HTTP {status}", 403 if 400 <= status < 500 else 502
            )
        return body


def _read(body: bytes, kind: type[Any], what: str) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SignInFailed(f"the sign-in provider's {what} cannot be read", 502) from error

"""People whom a provider has signed in → the API key that stands for each, in a table of the catalog.

The key itself is made and thrown away: no one can send it. So scopes, budgets, rates, last uses and revocation are those of keys,
and a person whose key the operator has revoked is not let in again.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from ronda.store.keys import KeyRow, new_key
from ronda.store.sql import Sql, TableStore

TABLES: Final = (("CREATE TABLE oidc_user (subject {text} PRIMARY KEY, owner {text}, key {text}){by_key}",),)


class OidcUsers(TableStore):
    async def key_for(
        self, issuer: str, subject: str, owner: str, scopes: frozenset[str], now: float, until: float
    ) -> str | None:
        """The id of this person's key, good until then; None: the operator has revoked it."""
        known_by = blake2b(f"{issuer}\0{subject}".encode(), digest_size=32, person=b"ronda oidc").hexdigest()
        made: KeyRow = new_key(owner, now, tuple(scopes), until)[1]
        words = " ".join(sorted(scopes))

        def find_or_make(db: Sql) -> str | None:
            before = db.execute(
                """SELECT key.id, key.owner, key.scopes, key.revoked FROM oidc_user
                   JOIN key ON key.id = oidc_user.key WHERE subject = ?""",
                (known_by,),
            ).fetchone()
            if before is not None:
                key_id, key_owner, key_scopes, revoked = before
                if revoked is not None:
                    return None
                if (key_owner, key_scopes) == (owner, words):
                    db.execute("UPDATE key SET expires = ? WHERE id = ?", (until, key_id))
                    return str(key_id)
                # What the provider says of the person has changed: what it said before no longer holds.
                db.execute("UPDATE key SET revoked = ? WHERE id = ?", (now, key_id))
            db.execute(
                "INSERT INTO key (id, owner, hash, created, revoked, scopes, expires) VALUES (?, ?, ?, ?, NULL, ?, ?)",
                (made.id, owner, made.hash, now, words, until),
            )
            db.execute(
                """INSERT INTO oidc_user (subject, owner, key) VALUES (?, ?, ?)
                   ON CONFLICT (subject) DO UPDATE SET owner = excluded.owner, key = excluded.key""",
                (known_by, owner, made.id),
            )
            return made.id

        return await self._tables.write(find_or_make, f"oidc user {known_by}")

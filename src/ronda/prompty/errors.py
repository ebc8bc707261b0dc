"""What can be wrong with a prompty file: whose file, which line, which field.

`str(error)` is the specification's own text and nothing else; where it happened is in the attributes, and `where` puts them
in front for people. Also `ValueError`s, and `FileNotFoundError`s where a file is missing, as the specification asks.
"""

from __future__ import annotations

from ronda.errors import BadConfig, BadRequest


class BadPrompty(BadRequest):
    """A prompty file that cannot be used as it stands."""

    def __init__(
        self, message: str, *, path: str | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(message, param=field, code="bad_prompty")
        self.path = path
        self.line = line
        self.field = field

    @property
    def where(self) -> str:
        """`agent.prompty:12: model.connection.apiKey`, as far as it is known."""
        place = ":".join(str(part) for part in (self.path, self.line) if part is not None)
        return ": ".join(part for part in (place, self.field) if part)

    def __reduce__(self) -> tuple[object, ...]:  # keywords would be lost on the way to another process
        return (_again, (type(self), str(self), self.path, self.line, self.field))


class PromptyNotFound(BadPrompty, FileNotFoundError):
    """The file itself, or one that it refers to, is not there."""

    status_hint = 404


class ConnectionMissing(BadPrompty):
    """A file refers to a connection that is not registered in this process; it may be where the file is run."""


class InvokerError(BadConfig):
    """A file asks for a component that is not registered."""


def _again(kind: type[BadPrompty], message: str, path: str | None, line: int | None, field: str | None) -> BadPrompty:
    return kind(message, path=path, line=line, field=field)

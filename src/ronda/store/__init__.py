"""What is kept besides runs, in tables: in memory, in a file, in PostgreSQL.

catalog         all that clients and operators made: agents, conversations, files, skills, keys, secrets, claims, the queue
agents …        what of each is kept, and how it is asked for. What it means is not known here
values          what stores keep and return, for modules that ask no database
sql             what a store asks of a database
memory          tables that are forgotten with their process
sqlite_…        a file, which the processes of one machine may share
postgres_…      a database, which many machines may share
"""

from __future__ import annotations

from ronda.errors import RondaError


class StoreError(RondaError):
    """A store cannot keep or find what it was asked to. The message names the place and the way out."""

    status_hint = 503

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.is_logged = False
        self.problem = problem  # without the place, which is the operator's business

    @property
    def public(self) -> str:
        return f"the server cannot keep or find this: {self.problem}"


class RemoteStoreError(StoreError):
    """A store on another machine failed. What its driver says names hosts, ports and users: that is for the log, and clients
    read `told`."""

    def __init__(self, path: str, problem: str, told: str) -> None:
        super().__init__(path, problem)
        self._told = told

    @property
    def public(self) -> str:
        return self._told


def is_logged(error: BaseException) -> bool:
    """Whether the log has it, or will have it, from another caller."""
    return isinstance(error, StoreError) and error.is_logged


class WriteConflict(RondaError):
    """Another writer has written what was to be written here."""

    status_hint = 409

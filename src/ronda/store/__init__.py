"""Connections and migrations for whoever keeps something. What is kept is not known here."""

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

"""Names a request may give as `model` → providers. One model so far, under its name, its spec, and "default"."""

from __future__ import annotations

from msgspec import Struct

from ronda.drive import Provider
from ronda.errors import NotFound
from ronda.providers import split_spec


class ServedModel(Struct, frozen=True):
    spec: str
    provider: Provider

    @property
    def name(self) -> str:
        return split_spec(self.spec)[1]


class Models:
    def __init__(self, served: ServedModel) -> None:
        self._default = served
        self._names = dict.fromkeys(("default", "", served.name, served.spec), served)

    def find(self, name: str) -> ServedModel:
        found = self._names.get(name)
        if found is None:
            there_is = ", ".join(f"'{model}'" for model in self.listed)
            raise NotFound(
                f"the model '{name[:200]}' does not exist here; there is {there_is}",
                param="model",
                code="model_not_found",
            )
        return found

    async def load(self) -> list[str]:
        """Load what runs in this process ahead of its first request; lines that say what was chosen for it."""
        load = getattr(self._default.provider, "load", None)
        return [] if load is None else [await load()]

    @property
    def listed(self) -> list[str]:
        return ["default", self._default.name]

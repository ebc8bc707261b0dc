"""Islands: folders of Ronda that the rest does without. No other folder imports one; tables name their modules, as text.

    ronda.local         models on this machine: the provider `local`, its embedder, the command `ronda models`
    ronda.mistralrs     the Chat door in process (`Runner`), and the same under the names of mistral.rs
    ronda.server.features.app_stream    /generate-code and the runs that build pages, with `ronda.tools.page` (which library
                        users import themselves) and `ronda.wire.app_stream`; the command `ronda page`

A distribution may leave an island out. What asks for one that is not there gets a sentence, and nothing else fails.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ronda.errors import BadConfig


def island_module(name: str) -> Any:
    """A module of an island. Raises BadConfig where this installation has no such island."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("ronda."):
            raise  # the island is there, and something that it needs is not
        raise BadConfig(
            f"this installation of Ronda is without {error.name}; 'pip install --force-reinstall ronda' brings it back"
        ) from error

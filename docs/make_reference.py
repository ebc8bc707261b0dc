"""Writes docs/reference.md from the code: the names of the public modules, the exceptions, and the addresses of the server."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import ronda
import ronda.prompty
import ronda.testing
from ronda import errors
from ronda.journal.memory import MemoryJournal
from ronda.server.app import Server, create_app
from ronda.server.config import ServerConfig
from ronda.testing import ScriptedModel

PAGE = Path(__file__).parent / "reference.md"

HEAD = """# Reference

`make docs` prints this page from the code. [Settings](settings.md), [commands](commands.md), [events](events.md) and
[every field of every API](compatibility.md) have pages of their own.
"""


def page() -> str:
    return HEAD + _names(ronda) + _names(ronda.prompty) + _names(ronda.testing) + _errors() + _addresses()


def _first_sentence(text: str | None) -> str:
    paragraph = " ".join((text or "").split("\n\n")[0].split())
    return paragraph.replace("|", "\\|")


def _names(module: ModuleType) -> str:
    """What `from … import …` has."""
    lines = [f"\n## Names to import from {module.__name__}\n", "| name | is |", "|---|---|"]
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        kind = "class" if inspect.isclass(value) else "function" if callable(value) else "value"
        text = _first_sentence(value.__doc__) if _has_doc(value) else ""
        lines.append(f"| `{name}` | {kind}. {text} |" if text else f"| `{name}` | {kind} |")
    return "\n".join(lines) + "\n"


def _has_doc(value: Any) -> bool:
    """A text of its own: not that of the type it is an instance of, nor one that msgspec or dataclasses made."""
    text = getattr(value, "__doc__", None) or ""
    return bool(text) and (inspect.isclass(value) or callable(value)) and not re.match(r"\w+\(", text)


def _errors() -> str:
    lines = ["\n## Exceptions\n", "| exception | is a | HTTP status | says |", "|---|---|---|---|"]
    found = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, errors.RondaError)]
    for one in found:
        parents = ", ".join(f"`{parent.__name__}`" for parent in one.__bases__)
        text = _first_sentence(one.__dict__.get("__doc__"))
        lines.append(f"| `{one.__name__}` | {parents} | {one.status_hint} | {text} |")
    return "\n".join(lines) + "\n"


def _addresses() -> str:
    """Of a server with its usual settings."""
    lines = ["\n## Addresses of the server\n", "| method | address | API | scope of a key |", "|---|---|---|---|"]
    server = Server(ServerConfig(model="script:test"), MemoryJournal(), provider=ScriptedModel())
    lines += [
        f"| {row.method} | `{row.path}` | {row.dialect.name} | {row.right or row.scope} |"
        for row in create_app(server).routes.rows
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())

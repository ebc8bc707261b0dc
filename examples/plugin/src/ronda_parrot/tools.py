"""What `--tools parrot` adds: a module like a tools file."""

from __future__ import annotations

from ronda import tool


@tool(repeatable=True)
def shout(text: str) -> str:
    """Say something loudly."""
    return f"{text.upper()}!"

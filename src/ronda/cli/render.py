"""`ronda render FILE -i …`: the messages of a prompty file as they would be sent, without calling a model."""

from __future__ import annotations

import argparse
import sys

import msgspec

from ronda.agent.pipeline import prepare
from ronda.cli.files import load_file, read_inputs
from ronda.prompty.message_parts import Message, Part

SHOWN = 60  # characters of a medium


def render(arguments: argparse.Namespace) -> int:
    prompty = load_file(arguments.file)
    messages = prepare(prompty, read_inputs(prompty, arguments.inputs))
    if arguments.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(messages), indent=2).decode() + "\n")
    else:
        print("\n\n".join(_message_text(message) for message in messages))
    return 0


def _message_text(message: Message) -> str:
    metadata = ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in message.metadata.items())
    head = f"{message.role}[{metadata}]:" if metadata else f"{message.role}:"
    return "\n".join([head, *[_part(part) for part in message.content]])


def _part(part: Part) -> str:
    if part.kind == "text":
        return part.value
    value = part.value or part.id or ""
    text = value if len(value) <= SHOWN else f"{value[:SHOWN]}… ({len(value)} characters)"
    return f"[{part.kind} {text}]"

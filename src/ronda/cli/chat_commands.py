"""What a person can tell `ronda chat` itself: lines that begin with a slash. One row for each."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ronda._suggest import did_you_mean
from ronda.cli.attachments import question_with
from ronda.cli.chat_agents import find_answerer
from ronda.cli.screen import printable, usage_text
from ronda.cli.sessions import check_session_name
from ronda.drive import Tool
from ronda.errors import BadConfig, BadRequest, NotFound
from ronda.host import session_documents

if TYPE_CHECKING:
    from ronda.cli.chat import Chat

_LISTED: Final = 20  # sessions that /session names
ENDS: Final = ("/exit", "/quit", "exit", "quit")  # the bare words: people type them, and mean it

Command = Callable[["Chat", str], Awaitable[None]]


async def obey(chat: Chat, line: str) -> None:
    word, _, rest = line.partition(" ")
    command = COMMANDS.get(word)
    if command is None:
        hint = did_you_mean(word, COMMANDS, f"there is {', '.join(COMMANDS)}")
        chat.say(f"there is no {word}; {hint}")
        return
    try:
        await command[0](chat, rest.strip())
    except (BadConfig, BadRequest, NotFound) as error:
        chat.say(f"ronda: {error}")


async def _help(chat: Chat, rest: str) -> None:
    width = max(len(word) for word in COMMANDS)
    for word, (_, meaning) in COMMANDS.items():
        chat.say(f"{word.ljust(width)}  {meaning}")
    chat.say("Alt-Enter begins a new line, Tab completes, Ctrl-C ends an answer, Ctrl-D the conversation.")


async def _model(chat: Chat, rest: str) -> None:
    if rest:
        chat.answerer = chat.answerer.with_model(rest)
    chat.say(chat.answerer.name)


async def _agent(chat: Chat, rest: str) -> None:
    if rest:
        chat.answerer = find_answerer(None if rest == "none" else rest, chat.arguments, chat.loaded.tools)
    chat.say(chat.answerer.name)


async def _tools(chat: Chat, rest: str) -> None:
    if not chat.answerer.tools:
        chat.say("no tools; --tools FILE.py gives some")
    for tool in chat.answerer.tools:
        chat.say(_tool_line(tool))


def _tool_line(tool: Tool) -> str:
    spec = tool.spec
    asks = " (asks first)" if spec.approval == "ask" else ""
    return f"{spec.name}{asks}: {' '.join(spec.description.split())}"


async def _session(chat: Chat, rest: str) -> None:
    if rest:
        chat.name = check_session_name(rest)
        chat.say(f"session '{rest}'")
        await chat.show_end()
        return
    chat.say(f"session '{chat.name}'")
    for name, ends in await session_names(chat):
        chat.say(f"  {name}  ({ends} turns)")


async def session_names(chat: Chat) -> list[tuple[str, int]]:
    page = await chat.host.store.page(chat.owner, _LISTED)
    return [(row.name, row.ends) for row in page.sessions]


async def _clear(chat: Chat, rest: str) -> None:
    chat.name = new_name()
    chat.attached.clear()
    chat.say(f"session '{chat.name}'; the one before is kept")


def new_name() -> str:
    return time.strftime("chat %Y-%m-%d %H:%M:%S")


async def _retry(chat: Chat, rest: str) -> None:
    await chat.ask_again()


async def _usage(chat: Chat, rest: str) -> None:
    chat.say(usage_text(chat.used))


def _checked_file(path: str) -> str:
    path = os.path.expanduser(path)
    question_with("", [path])  # says what is wrong with it now
    return path


async def _attach(chat: Chat, rest: str) -> None:
    if rest:
        chat.attached.append(await asyncio.to_thread(_checked_file, rest))
    chat.say(f"with the next question: {', '.join(chat.attached)}" if chat.attached else "nothing is attached")


async def _export(chat: Chat, rest: str) -> None:
    document = await session_documents.export(chat.host, (chat.owner, chat.name))
    if not rest:
        chat.say(document.decode())
        return
    try:
        await asyncio.to_thread(Path(rest).write_bytes, document)
    except OSError as error:
        raise BadConfig(f"{printable(rest)} cannot be written: {error.strerror}") from error
    chat.say(f"written to {rest}")


COMMANDS: Final[dict[str, tuple[Command, str]]] = {
    "/model": (_model, "says which model answers; /model PROVIDER:NAME takes another"),
    "/agent": (
        _agent,
        "says who answers; /agent FILE.prompty or module:name takes another, /agent none the model alone",
    ),
    "/tools": (_tools, "lists the tools that the model has"),
    "/attach": (_attach, "/attach FILE sends a file along with the next question"),
    "/retry": (_retry, "asks the last question again, as if it had not been answered"),
    "/session": (_session, "lists sessions; /session NAME continues one, or begins it"),
    "/clear": (_clear, "begins a new session"),
    "/usage": (_usage, "says how many tokens this conversation took, and what they cost"),
    "/export": (_export, "prints the session as a document; /export FILE writes it to a file"),
    "/help": (_help, "says this"),
    "/exit": (_help, "ends the conversation, which is kept; so do /quit, exit and Ctrl-D"),
}

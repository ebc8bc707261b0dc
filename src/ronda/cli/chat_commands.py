"""What a person can tell `ronda chat` itself: lines that begin with a slash. One row for each."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ronda._suggest import did_you_mean
from ronda.cli.attachments import question_with
from ronda.cli.chat_agents import find_answerer
from ronda.cli.screen import printable, usage_text
from ronda.cli.sessions import check_session_name
from ronda.drive import Tool
from ronda.errors import BadConfig, BadRequest, NotFound
from ronda.host import session_documents
from ronda.store.values.sessions import SessionRow

if TYPE_CHECKING:
    from ronda.cli.chat import Chat

_NARROWEST: Final = 30  # columns of an explanation: in a narrower terminal its lines are broken anyway
_LISTED: Final = 20  # sessions that /session names
ENDS: Final = ("/exit", "/quit", "exit", "quit")  # the bare words: people type them, and mean it


class Command(NamedTuple):
    do: Callable[[Chat, str], Awaitable[None]]
    meaning: str
    value: str = ""  # what may stand behind it


async def obey(chat: Chat, line: str) -> None:
    word, _, rest = line.partition(" ")
    command = COMMANDS.get(word)
    if command is None:
        hint = did_you_mean(word, COMMANDS, f"there is {', '.join(COMMANDS)}")
        chat.say(f"there is no {word}; {hint}")
        return
    try:
        await command.do(chat, rest.strip())
    except (BadConfig, BadRequest, NotFound) as error:
        chat.say(f"ronda: {error}")


async def _help(chat: Chat, rest: str) -> None:
    rows = [(f"{word} {command.value}".rstrip(), command.meaning) for word, command in COMMANDS.items()]
    left = max(len(first) for first, _ in rows) + 2
    right = max(_NARROWEST, shutil.get_terminal_size().columns - left)
    for first, meaning in [*rows, ("", ""), *KEYS]:
        lines = textwrap.wrap(meaning, right) or [""]
        chat.say(f"{first.ljust(left)}{lines[0]}".rstrip())
        for line in lines[1:]:
            chat.say(" " * left + line)


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
    for row in await session_rows(chat):
        chat.say(f"  {row.name}  {session_line(row)}")


async def session_rows(chat: Chat) -> Sequence[SessionRow]:
    """Those that were used last."""
    return (await chat.host.store.page(chat.owner, _LISTED)).sessions


def session_line(row: SessionRow) -> str:
    """What a person knows a session by: how it began."""
    return f"({row.ends} turns) {session_documents.title_of(row) or ''}".rstrip()


async def _clear(chat: Chat, rest: str) -> None:
    chat.name = new_name()
    chat.attached.clear()
    chat.say(f"session '{chat.name}'; the one before is kept")


def new_name() -> str:
    return time.strftime("chat %Y-%m-%d %H:%M:%S")


async def _retry(chat: Chat, rest: str) -> None:
    await chat.ask_again()


async def _copy(chat: Chat, rest: str) -> None:
    if not chat.answer_text:
        chat.say("there is no answer to copy yet")
        return
    # OSC 52: the terminal itself puts it on the clipboard, over ssh and in tmux, too.
    sys.stdout.write(f"\x1b]52;c;{base64.b64encode(chat.answer_text.encode()).decode()}\x07")
    sys.stdout.flush()
    chat.say("the last answer is on the clipboard, if this terminal lets programs write to it")


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


COMMANDS: Final[dict[str, Command]] = {
    "/model": Command(_model, "show which model answers, or choose another", "[PROVIDER:NAME]"),
    "/agent": Command(
        _agent, "show who answers, or choose another; 'none' is the model without an agent", "[FILE|none]"
    ),
    "/tools": Command(_tools, "list the tools of the model"),
    "/attach": Command(_attach, "send a file with the next question", "FILE"),
    "/retry": Command(_retry, "ask the last question again; the old answer stays on a branch"),
    "/copy": Command(_copy, "copy the last answer"),
    "/session": Command(_session, "list your sessions, or continue one", "[NAME]"),
    "/clear": Command(_clear, "begin a new session; this one is kept"),
    "/usage": Command(_usage, "show the tokens of this conversation, and their cost"),
    "/export": Command(_export, "print the session as JSON, or write it to a file", "[FILE]"),
    "/help": Command(_help, "show this"),
    "/exit": Command(_help, "leave; the session is kept"),
}
KEYS: Final = (
    ("Alt-Enter", "new line"),
    ("Up, Down", "earlier questions"),
    ("Tab", "complete a command, a model, a session, a file"),
    ("Ctrl-C", "stop the answer"),
    ("Ctrl-D", "leave"),
)

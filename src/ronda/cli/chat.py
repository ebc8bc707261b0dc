"""`ronda chat`: a conversation in the terminal, kept as a session.

Enter sends, Alt-Enter begins a new line, the arrow keys bring back what was asked before. Ctrl-C ends an answer, Ctrl-D the
conversation. What begins with a slash is for Ronda itself: see `_COMMANDS`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO, cast

from ronda.agent import Agent, RunOptions, stream_agent
from ronda.cli.approve import TerminalApproval
from ronda.cli.flags import DEFAULT_MODEL
from ronda.cli.model import check_model
from ronda.cli.progress import show_events
from ronda.cli.serve import data_folder
from ronda.cli.sessions import check_session_name, go_on, open_sessions, turn_lines
from ronda.cli.terminal import as_utf8
from ronda.core.plan import Options
from ronda.drive import Tool
from ronda.errors import BadConfig, BadRequest, NotFound, RondaError
from ronda.host import session_documents
from ronda.host.sessions import SessionHost
from ronda.server.config import ServerConfig
from ronda.server.resources.tools_file import ToolsFile, load_tools

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from ronda.files.file_store import FileStore

_PROMPT: Final = "> "
_LISTED: Final = 20  # sessions that /session names
_SHOWN: Final = 6  # turns that are shown of a session that goes on


def chat(arguments: argparse.Namespace) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadConfig("chat needs a terminal; 'ronda run --session NAME' asks one thing, and keeps what is said")
    model = DEFAULT_MODEL if arguments.model is None else arguments.model
    check_model(model, arguments.base_url)
    if arguments.max_tokens is not None and arguments.max_tokens < 1:
        raise BadConfig(f"--max-tokens is {arguments.max_tokens}; it must be at least 1")
    name = check_session_name(arguments.session or time.strftime("chat %Y-%m-%d %H:%M:%S"))
    asyncio.run(_chat(arguments, model, name))
    return 0


async def _chat(arguments: argparse.Namespace, model: str, name: str) -> None:
    async with open_sessions(arguments) as (host, files):
        await Chat(host, files, arguments, model, name).talk()


class PrintableText:
    """Standard output for what models say: what a terminal would act on is written out."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        return self._out.write("".join([one if one.isprintable() or one in "\n\t" else _escape(one) for one in text]))

    def flush(self) -> None:
        self._out.flush()


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


class Chat:
    def __init__(
        self, host: SessionHost, files: FileStore | None, arguments: argparse.Namespace, model: str, name: str
    ) -> None:
        self._host = host
        self._files = files
        self._arguments = arguments
        self._model = model
        self._owner: str = arguments.owner
        self._name = name
        self._loaded: ToolsFile = load_tools(arguments.tools or [])
        self._approval = TerminalApproval(shown=sys.stdout)
        self._out = cast("TextIO", PrintableText(sys.stdout))

    async def talk(self) -> None:
        lines = _line_reader(self._arguments.data_dir)
        print(f"{self._model} · session '{self._name}' · /help says what else there is")
        await self._show_end()
        while True:
            try:
                text = await lines.prompt_async(_PROMPT)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            text = as_utf8(text.strip(), "what you wrote")
            if not text:
                continue
            if text.startswith("/"):
                if not await self._command(text):
                    return
            else:
                await self._ask(text)

    # ---- asking ------------------------------------------------------------------------------------------------------

    async def _ask(self, text: str) -> None:
        """One question and its answer; Ctrl-C ends the answer, and what there is of it stays."""
        answering = asyncio.ensure_future(self._answer(text))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, answering.cancel)
        try:
            await answering
        except asyncio.CancelledError:
            if not answering.cancelled():
                raise
            print("\n[stopped]")
        except RondaError as error:
            print(f"\nronda: {error}", file=self._out)
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _answer(self, text: str) -> None:
        arguments = self._arguments
        agent = Agent(
            model=self._model,
            base_url=arguments.base_url,
            api_version=arguments.api_version,
            vision=arguments.vision,
            instructions=arguments.instructions,
            tools=self._loaded.tools,
            options=Options(max_tokens=arguments.max_tokens),
        )
        options: RunOptions = {
            "approve": self._approval,
            "guardrails": self._loaded.guardrails,
            "compaction": self._loaded.compaction,
            "result_files": self._files,
        }
        if arguments.max_iterations is not None:
            options["max_iterations"] = arguments.max_iterations

        def begin(options: RunOptions) -> stream_agent:
            return stream_agent(agent, text, **options)

        async with go_on(self._host, (self._owner, self._name), options, begin, "reject") as events:
            self._approval.run = events.run
            await show_events(events, self._out, as_they_come=True)
        print()

    # ---- commands ----------------------------------------------------------------------------------------------------

    async def _command(self, line: str) -> bool:
        """False: the conversation is over."""
        word, _, rest = line.partition(" ")
        if word in ("/quit", "/exit"):
            return False
        command = _COMMANDS.get(word)
        if command is None:
            print(f"there is no {word}; there is {', '.join(_COMMANDS)}", file=self._out)
            return True
        try:
            await command[0](self, rest.strip())
        except (BadConfig, BadRequest, NotFound) as error:
            print(f"ronda: {error}", file=self._out)
        return True

    async def _help(self, rest: str) -> None:
        width = max(len(word) for word in _COMMANDS)
        for word, (_, meaning) in _COMMANDS.items():
            print(f"{word.ljust(width)}  {meaning}")
        print("Alt-Enter begins a new line, Ctrl-C ends an answer, Ctrl-D the conversation.")

    async def _change_model(self, rest: str) -> None:
        if rest:
            check_model(rest, self._arguments.base_url)
            self._model = rest
        print(self._model, file=self._out)

    async def _list_tools(self, rest: str) -> None:
        if not self._loaded.tools:
            print("no tools; --tools FILE.py gives some")
        for tool in self._loaded.tools:
            print(_tool_line(tool), file=self._out)

    async def _change_session(self, rest: str) -> None:
        if rest:
            self._name = check_session_name(rest)
            print(f"session '{rest}'", file=self._out)
            await self._show_end()
            return
        print(f"session '{self._name}'", file=self._out)
        page = await self._host.store.page(self._owner, _LISTED)
        for row in page.sessions:
            print(f"  {row.name}  ({row.ends} turns)", file=self._out)

    async def _export(self, rest: str) -> None:
        document = await session_documents.export(self._host, (self._owner, self._name))
        if not rest:
            print(document.decode(), file=self._out)
            return
        try:
            await asyncio.to_thread(Path(rest).write_bytes, document)
        except OSError as error:
            raise BadConfig(f"{rest} cannot be written: {error.strerror}") from error
        print(f"written to {rest}", file=self._out)

    async def _show_end(self) -> None:
        """The last that was said, where there is something to go on from."""
        row = await self._host.find((self._owner, self._name))
        history = await self._host.history((self._owner, self._name), row)
        for turn in history.turns[-_SHOWN:]:
            for line in turn_lines(turn):
                print(line, file=self._out)


Command = Callable[[Chat, str], Awaitable[None]]
_COMMANDS: Final[dict[str, tuple[Command, str]]] = {
    "/model": (Chat._change_model, "says which model answers; /model PROVIDER:NAME takes another"),
    "/tools": (Chat._list_tools, "lists the tools that the model has"),
    "/session": (Chat._change_session, "lists sessions; /session NAME goes on with one, or begins it"),
    "/export": (Chat._export, "prints the session as a document; /export FILE writes it to a file"),
    "/help": (Chat._help, "says this"),
    "/quit": (Chat._help, "ends the conversation, which is kept"),
}


def _tool_line(tool: Tool) -> str:
    spec = tool.spec
    asks = " (asks first)" if spec.approval == "ask" else ""
    return f"{spec.name}{asks}: {' '.join(spec.description.split())}"


def _line_reader(data_dir: str | None) -> PromptSession[str]:
    """Asks for what people write. It is imported here: no other command needs it."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    folder = data_folder(ServerConfig(data_dir=data_dir))
    history = InMemoryHistory() if folder is None else FileHistory(_private_file(folder / "chat-history"))
    words: Iterable[str] = [*_COMMANDS, "/exit"]
    completer = WordCompleter([*words], sentence=True)
    return PromptSession(
        history=history, key_bindings=keys, multiline=True, completer=completer, complete_while_typing=False,
        prompt_continuation=" " * len(_PROMPT), enable_open_in_editor=False,
    )  # fmt: skip


def _private_file(path: Path) -> str:
    """What people ask is nobody else's business."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise BadConfig(f"{path} cannot be written: {error.strerror}; --data-dir says where") from error
    return str(path)

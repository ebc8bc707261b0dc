"""`ronda chat`: a conversation in the terminal, kept as a session.

Enter sends, Alt-Enter begins a new line, the arrow keys bring back what was asked before. Ctrl-C ends an answer, Ctrl-D the
conversation. What begins with a slash is for Ronda itself: `chat_commands`. Who answers: `chat_agents`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ronda._extras import check_extra
from ronda.agent import Inputs, RunOptions, stream_agent
from ronda.agent.approve import Approve
from ronda.cli.approve import TerminalApproval
from ronda.cli.attachments import question_with
from ronda.cli.beside import beside_the_answer
from ronda.cli.chat_agents import Answerer, find_answerer
from ronda.cli.chat_commands import COMMANDS, ENDS, new_name, obey, session_line, session_rows
from ronda.cli.chat_models import ModelChoices
from ronda.cli.preferences import fill_in
from ronda.cli.progress import show_events, warn_if_cut_off
from ronda.cli.screen import Screen, answer_text, open_screen, printable, usage_text
from ronda.cli.serve import data_folder
from ronda.cli.sessions import check_session_name, go_on, last_question, open_sessions, turn_lines
from ronda.cli.settings import storage_config
from ronda.cli.terminal import as_utf8
from ronda.core.events import Answered, Asked
from ronda.core.parts import NO_USAGE, Usage
from ronda.errors import BadConfig, RondaError
from ronda.host.sessions import SessionHost
from ronda.server.services.tools_file import ToolsFile, load_tools

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document

    from ronda.files.file_store import FileStore

_PROMPT: Final = "> "
_SHOWN: Final = 6  # turns that are shown of a session that goes on


def chat(arguments: argparse.Namespace) -> int:
    check_extra("cli", "'ronda chat'")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadConfig("chat needs a terminal; 'ronda run --session NAME' asks one thing, and keeps what is said")
    fill_in(arguments)
    loaded = load_tools(arguments.tools or [])
    answerer = find_answerer(arguments.agent, arguments, loaded.tools)
    question_with("", arguments.attach or [])  # says what is wrong with a file before anything is asked
    resume = bool(vars(arguments)["continue"])  # a word of Python's own
    if resume and arguments.session:
        raise BadConfig("--continue takes the session that was used last, and --session names one; give one of the two")
    if arguments.session is not None:
        check_session_name(arguments.session)
    asyncio.run(_chat(arguments, loaded, answerer, resume))
    return 0


async def _chat(arguments: argparse.Namespace, loaded: ToolsFile, answerer: Answerer, resume: bool) -> None:
    async with open_sessions(arguments) as (host, files):
        name = await _last_name(host, arguments.owner) if resume else arguments.session or new_name()
        await Chat(host, files, arguments, loaded, answerer, name).talk()


async def _last_name(host: SessionHost, owner: str) -> str:
    page = await host.store.page(owner, 1)
    if not page.sessions:
        raise BadConfig("there is no session to continue yet; 'ronda chat' begins one")
    return page.sessions[0].name


class Chat:
    def __init__(
        self,
        host: SessionHost,
        files: FileStore | None,
        arguments: argparse.Namespace,
        loaded: ToolsFile,
        answerer: Answerer,
        name: str,
    ) -> None:
        self.host = host
        self.arguments = arguments
        self.owner: str = arguments.owner
        self.name = name
        self.loaded = loaded
        self.answerer = answerer
        self.attached: list[str] = list(arguments.attach or [])
        self.used: Usage = NO_USAGE
        self.answer_text = ""  # the last one, for /copy
        self._files = files
        self._approval = TerminalApproval(shown=sys.stdout)

    def say(self, text: str) -> None:
        """A line of ours. Names may be anything: what a terminal would act on is written out."""
        print(printable(text))

    async def talk(self) -> None:
        lines = _line_reader(data_folder(storage_config(self.arguments)), self)
        self.say(f"{self.answerer.name} · session '{self.name}' · /help lists the commands")
        await self.show_end()
        if self.attached:
            self.say(f"with the next question: {', '.join(self.attached)}")
        while True:
            try:
                text = await lines.prompt_async(_PROMPT)
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
            text = as_utf8(text.strip(), "what you wrote")
            if text in ENDS:
                break
            if text.startswith("/"):
                await obey(self, text)
            elif text:
                await self.ask(text)
        if self.used != NO_USAGE:
            self.say(usage_text(self.used))

    # ---- asking ------------------------------------------------------------------------------------------------------

    async def ask(self, text: str) -> None:
        try:
            question = question_with(text, self.attached)
        except BadConfig as error:
            self.say(f"ronda: {error}")
            return
        self.attached.clear()
        await self._stoppable(question)

    async def ask_again(self) -> None:
        """The last question, in the place where it stood: what was answered is left on a branch of the session."""
        row = await self.host.find((self.owner, self.name))
        found = last_question(await self.host.history((self.owner, self.name), row))
        if found is None:
            self.say("nothing was asked yet")
            return
        turn, kept = found
        await self._stoppable([turn], kept)

    async def _stoppable(self, question: Inputs, kept: int | None = None) -> None:
        """One question and its answer; Ctrl-C ends the answer, and what there is of it stays."""
        answering = asyncio.ensure_future(self._answer(question, kept))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, answering.cancel)
        try:
            await answering
        except asyncio.CancelledError:
            if not answering.cancelled():
                raise
            print("\n[stopped]")
        except RondaError as error:
            self.say(f"\nronda: {error}")
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _answer(self, question: Inputs, kept: int | None) -> None:
        screen = open_screen(sys.stdout, as_they_come=True, plain=bool(self.arguments.plain), aside=sys.stdout)
        options: RunOptions = {
            "approve": self._approve_on(screen),
            "guardrails": self.loaded.guardrails,
            "compaction": self.loaded.compaction,
            "result_files": self._files,
        }
        if self.arguments.max_iterations is not None:
            options["max_iterations"] = self.arguments.max_iterations

        def begin(options: RunOptions) -> stream_agent:
            return self.answerer.ask(question, options)

        with beside_the_answer(screen.aside) as prints, screen:
            async with go_on(self.host, (self.owner, self.name), options, begin, "reject", kept) as events:
                self._approval.run = events.run
                try:
                    await show_events(events, screen, prints=prints)
                finally:
                    self.used += events.run.usage
            self.answer_text = answer_text(events.result)
            screen.answer("")
            warn_if_cut_off(events.run, screen)

    def _approve_on(self, screen: Screen) -> Approve:
        def approve(question: Asked) -> Answered:
            with screen.paused():
                return self._approval(question)

        return approve

    async def show_end(self) -> None:
        """The last that was said, where there is something to go on from."""
        row = await self.host.find((self.owner, self.name))
        history = await self.host.history((self.owner, self.name), row)
        for turn in history.turns[-_SHOWN:]:
            for line in turn_lines(turn):
                self.say(line)


def _line_reader(folder: Path | None, chat: Chat) -> PromptSession[str]:
    """Asks for what people write. It is imported here: no other command needs it."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import FileHistory, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    history = InMemoryHistory() if folder is None else FileHistory(_private_file(folder / "chat-history"))
    return PromptSession(
        history=history, key_bindings=keys, multiline=True, completer=_completer(chat), complete_while_typing=False,
        prompt_continuation=" " * len(_PROMPT), enable_open_in_editor=False,
    )  # fmt: skip


def _completer(chat: Chat) -> Completer:
    """Tab: commands, and what may stand behind each: models, sessions, agents and files."""
    from prompt_toolkit.completion import Completer, Completion, PathCompleter
    from prompt_toolkit.document import Document

    class ForCommands(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            return ()

        async def get_completions_async(self, document: Document, complete_event: CompleteEvent):  # type: ignore[no-untyped-def]  # an async generator, as prompt_toolkit has it
            text = document.text_before_cursor
            if not text.startswith("/") or "\n" in text:
                return
            word, space, rest = text.partition(" ")
            if word == "/attach" and space:
                files = Document(rest, len(rest))
                for one in PathCompleter(expanduser=True).get_completions(files, complete_event):
                    yield one
                return
            typed = rest if space else word
            for choice, meaning in (await choices(word, typed) if space else commands()).items():
                if choice.startswith(typed):
                    yield Completion(choice, -len(typed), display_meta=meaning)

    def commands() -> dict[str, str]:
        return {name: command.meaning for name, command in COMMANDS.items()}

    models = ModelChoices()

    async def choices(word: str, typed: str) -> dict[str, str]:
        """What may stand behind the command, and what is shown next to each."""
        match word:
            case "/session":
                return {row.name: session_line(row) for row in await session_rows(chat)}
            case "/model":
                return dict.fromkeys(await models.behind(typed), "")
            case "/agent":
                return dict.fromkeys([*sorted(name for name in os.listdir() if name.endswith(".prompty")), "none"], "")
            case _:
                return {}

    return ForCommands()


def _private_file(path: Path) -> str:
    """What a person asks is for no other user to read."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise BadConfig(f"{path} cannot be written: {error.strerror}; --data-dir says where") from error
    return str(path)

"""llama.cpp in a process of its own: a body of sampling settings and tokens → pieces of text as they come, and one Completion.

One engine per model file, shared by all callers, from any thread and any event loop. Its process is started on first use or
ahead of time, and again after it died. A request whose process dies is asked once more if nothing of its answer was shown;
otherwise it fails. Requests are let in by the tokens they may take (`admission`). Grammars are tried before they are used
(`trials`), in a second, small process: one that is the compiler's end ends no answer.

It knows no turns, tools or options: those are `prompt`, `settings` and `provider`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from ronda._cores import count_cores
from ronda.core.request import Wait
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.local.admission import Room
from ronda.local.binding import check_installed
from ronda.local.calls import AnswerReader, Completion, Enough, Piece, Take
from ronda.local.engine_http import Broken
from ronda.local.files import ModelFile, header_of
from ronda.local.machine import Sizing, choose
from ronda.local.process import CHILD, EngineProcess, Watch
from ronda.local.supervisor import EngineDown, Supervisor
from ronda.local.trials import (
    PROVER,
    TRIAL_TOKENS,
    TRIAL_WATCH,
    ChatTrial,
    Trial,
    Trials,
    broke_down,
    cannot_enforce,
    digest_of,
    is_too_long,
)

T = TypeVar("T")

MAX_COUNTED = 16_384
_REAPED = 5.0  # seconds after which a process whose socket broke is known to be gone, or is not


class EngineDied(UpstreamBroken):
    """The process ended before the answer did."""


class Engine:
    """`template` is a chat template to use in place of the file's own."""

    def __init__(
        self,
        file: ModelFile,
        sizing: Sizing | None = None,
        template: str | None = None,
        *,
        command: Sequence[str] = CHILD,
        watch: Watch | None = None,
        trial_watch: Watch | None = None,
    ) -> None:
        if command is CHILD:
            check_installed()
        self.file = file
        self.header = header_of(file)
        if template is not None:
            self.header = structs.replace(self.header, template=template)
        self.sizing = sizing = sizing or choose(self.header, count_cores())
        watch = watch or Watch().at_least(self.header.size, sizing.batch)
        trial_watch = trial_watch or TRIAL_WATCH.at_least(self.header.size, TRIAL_TOKENS)
        self._supervisor = Supervisor(
            lambda: EngineProcess(file.path, self.header.template, sizing, command=command, watch=watch)
        )
        self._prover = Supervisor(
            lambda: EngineProcess(file.path, self.header.template, PROVER, command=command, watch=trial_watch),
            pauses=False,
        )
        self._room = Room(sizing.slots, sizing.tokens)
        self._trials = Trials()
        self._running_trials: set[asyncio.Task[None]] = set()
        self._counted: dict[str, int] = {}
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="ronda-local")

    def check(self) -> None:
        """Raises EngineDown while it is not to be asked."""
        self._supervisor.check()

    def problem(self) -> str | None:
        """Why it cannot be asked now."""
        try:
            self._supervisor.check()
        except EngineDown as error:
            return str(error)
        return None

    async def load(self) -> None:
        """Load the model unless it is. Cancelling a waiting caller does not stop it."""
        await self._live()

    def is_loaded(self) -> bool:
        return self._supervisor.is_up

    def unload(self) -> bool:
        """End its process; the next request starts it again. False: it is answering. Waits until the process is gone."""
        if self._supervisor.is_busy:
            return False
        self.close()
        return True

    def close(self) -> None:
        self._supervisor.close()
        self._prover.close()

    async def _live(self, supervisor: Supervisor | None = None) -> EngineProcess:
        process = (supervisor or self._supervisor).live()
        if not process.ready.done() or process.ready.exception() is not None:
            await asyncio.shield(asyncio.wrap_future(process.ready))
        return process

    # ---- questions ---------------------------------------------------------------------------------------------------

    async def aside(self, work: Callable[[], T]) -> T:
        """Do something that takes milliseconds (a template, a grammar, tokens) off the event loop."""
        for last in (False, True):
            process = await self._live()
            try:
                return await asyncio.get_running_loop().run_in_executor(self._pool, work)
            except UpstreamBroken:
                if last or not await _is_gone(process):
                    raise
        raise AssertionError

    def apply_template(self, body: dict[str, Any]) -> str:
        """Messages and tools → the prompt, by the model's own template. Waits: call it `aside`."""
        try:
            return msgspec.json.decode(self._ask("/apply-template", body), type=_Prompt).prompt
        except UpstreamBroken:
            raise
        except UpstreamError as error:
            raise UpstreamError(f"the model's chat template refused this conversation: {error}", status=400) from error

    def answer(self, body: dict[str, Any]) -> bytes:
        """A short answer by the engine's own chat path, in its own words. Waits: call it `aside`.

        A large model reads even a short prompt for long, and only a stream shows that it is at work. But a stream leaves out
        arguments of a call that its answer began with: so that is asked for again, when the prompt has been read.
        """
        process = self._supervisor.live()
        with process.working():
            for _ in process.door.ask_in_pieces("/v1/chat/completions", body | _ALWAYS):
                process.stir()
        return self._ask("/v1/chat/completions", body | {"cache_prompt": True})

    def tokenize(self, text: str) -> list[int]:
        """Waits: call it `aside`. Text that spells a control token becomes that token."""
        body = {"content": text, "add_special": True, "parse_special": True}
        return msgspec.json.decode(self._ask("/tokenize", body), type=_Tokens).tokens

    def count(self, text: str) -> int:
        """How many tokens a text takes, as text. Asked for the same keys and names again and again. Waits."""
        if text not in self._counted:
            if len(self._counted) >= MAX_COUNTED:
                self._counted.clear()
            answer = self._ask("/tokenize", {"content": text, "add_special": False, "parse_special": False})
            self._counted[text] = len(msgspec.json.decode(answer, type=_Tokens).tokens)
        return self._counted[text]

    def _ask(self, path: str, body: dict[str, Any]) -> bytes:
        process = self._supervisor.live()
        answer = process.door.ask(path, body)
        process.note_request()
        return answer

    # ---- completions -------------------------------------------------------------------------------------------------

    async def complete(self, body: dict[str, Any], take: Take, room: Wait | None = None) -> Completion:
        """Complete a prompt, or answer `messages` by the engine's own chat path (`foreign`), which makes the prompt, a grammar
        of the tools, and pieces with a `delta`. `take` gets what came since it was last called, in this event loop.

        Where it says that the reader is far behind, nothing more is read, and soon decoded, before `room` returns.
        """
        shown = _ShownPieces(take)
        try:
            return await self._complete(body, shown, room)
        except EngineDied:
            if shown.something:
                raise
            return await self._complete(body, shown, room)

    async def _complete(self, body: dict[str, Any], take: Take, room: Wait | None) -> Completion:
        prompt = body[PROMPT_TOKENS] if "messages" in body else len(body["prompt"])
        tokens = min(prompt + body["n_predict"], self.sizing.tokens)  # else it would wait for ever
        grammar = _grammar_of(body)
        if grammar is None:
            async with self._room.place(tokens):
                return await _complete_in(await self._live(), body, take, room)
        if self._trials.is_suspect(grammar):
            async with self._trials.turn.place(1), self._room.place(tokens):
                return await self._try(grammar, body, take, room)
        if not self._trials.is_settled(grammar):
            await self._prove(grammar, body)
        async with self._room.place(tokens):
            process = await self._live()
            try:
                return await _complete_in(process, body, take, room)
            except EngineDied:
                if not process.is_closing:
                    self._trials.suspect(grammar)
                raise

    async def _try(self, grammar: bytes, body: dict[str, Any], take: Take, room: Wait | None) -> Completion:
        """A suspect's answer, with no other suspect next to it."""
        self._trials.is_settled(grammar)  # it may have been refused while it waited
        process = await self._live()
        try:
            done = await _complete_in(process, body, take, room)
        except EngineDied as error:
            if process.is_closing:
                raise
            self._trials.refuse(grammar)
            raise broke_down() from error
        self._trials.settle(grammar)
        return done

    async def _prove(self, grammar: bytes, body: dict[str, Any]) -> None:
        """The trial continues though its caller leaves: the compiler is busy with it, and no other call is to blame."""
        trial = ChatTrial(body) if "messages" in body else Trial(body)
        task = asyncio.create_task(self._hold_trial(grammar, trial))
        self._running_trials.add(task)
        task.add_done_callback(self._running_trials.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            trial.is_wanted = False
            raise

    async def _hold_trial(self, grammar: bytes, trial: Trial | ChatTrial) -> None:
        async with self._trials.turn.place(1):
            if not trial.is_wanted or self._trials.is_settled(grammar):
                return
            process = await self._live(self._prover)
            try:
                await _complete_in(process, trial.body, trial.take, None)
            except EngineDied as error:
                if process.is_closing:
                    raise
                self._trials.refuse(grammar)
                raise broke_down() from error
            except UpstreamError as error:
                if type(trial) is Trial or not is_too_long(error):
                    raise cannot_enforce(str(error)) from error
            if not trial.is_bound:
                raise cannot_enforce()
            self._trials.settle(grammar)


class _ShownPieces:
    """Passes pieces on, and knows whether there were any."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self.something = False

    def __call__(self, pieces: list[Piece]) -> bool | None:
        self.something = True
        return self._take(pieces)


async def _complete_in(process: EngineProcess, body: dict[str, Any], take: Take, room: Wait | None) -> Completion:
    """Cancelled, it closes the connection; the slot is free as soon as the engine has finished the batch of tokens it is at."""
    reader = AnswerReader()
    path, always = ("/v1/chat/completions", _ALWAYS | _USAGE) if "messages" in body else ("/v1/completions", _ALWAYS)
    with process.working():
        try:
            async with process.door.post(path, msgspec.json.encode(body | always)) as connection:
                while data := await connection.some():
                    process.stir()
                    pieces = reader.feed(data, connection.status)
                    if pieces and take(pieces) is False and room is not None:
                        await room()
                        process.stir()  # it was we who kept it waiting
        except Enough:
            reader.stop()
        except Broken as error:
            if await _is_gone(process):
                raise EngineDied(
                    f"the local engine ended in the middle of its work: {process.ended.result()}"
                ) from error
            raise UpstreamBroken(f"the local engine broke off: {error}") from error
    return reader.finish()


async def _is_gone(process: EngineProcess) -> bool:
    """A process whose socket broke has died, most likely, and its thread is about to see it."""
    try:
        async with asyncio.timeout(_REAPED):
            await asyncio.shield(asyncio.wrap_future(process.ended))
    except TimeoutError:
        return False
    return True


# A stream also when it is not watched: closed, it is decoded no further, in the prompt neither (`return_progress`); a plain
# request would be decoded to its end.
_ALWAYS = {"stream": True, "return_progress": True, "cache_prompt": True}
_USAGE = {"stream_options": {"include_usage": True}}  # else a chat's end does not say what it cost
# Of a chat, whose prompt the engine writes; it knows no such option and ignores it.
PROMPT_TOKENS = "ronda_prompt_tokens"


def _grammar_of(body: dict[str, Any]) -> bytes | None:
    """What names the grammar of an answer; a chat's is made of its tools."""
    if "messages" not in body:
        return digest_of(body["grammar"]) if "grammar" in body else None
    if not body.get("tools") or body["tool_choice"] == "none":
        return None
    return digest_of(msgspec.json.encode(ChatTrial(body).body).decode())


class _Prompt(Struct, frozen=True):
    prompt: str


class _Tokens(Struct, frozen=True):
    tokens: list[int]


# ---- one for each file ------------------------------------------------------------------------------------------------

_engines: dict[Path, Engine] = {}
_engines_lock = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_engines.clear)  # the threads that watch its process are not in a fork


def engine_for(file: ModelFile, slots: int | None = None, context: int | None = None) -> Engine:
    """The process's engine for this file. The first caller says how much room it has."""
    with _engines_lock:
        if file.path not in _engines:
            _engines[file.path] = Engine(file, choose(header_of(file), count_cores(), slots, context))
        return _engines[file.path]

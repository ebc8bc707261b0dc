"""llama.cpp in this process: a body of sampling settings and tokens → pieces of text as they come, and one Completion.

One engine per model file per process, shared by whoever asks, from any thread and any event loop. It is loaded once, on
first use or ahead of time; every slot has a thread of its own in which the engine calls back, and what it says is
handed to the asking event loop in batches. Slots are counted here, so that a request which waits for one costs nothing
and can be cancelled; which slot it gets is the engine's to say: the one that has most of its prompt already.

It knows no turns, tools or options: those are `prompt`, `settings` and `provider`. Loading holds the interpreter's lock
for as long as it takes (the binding does not let go of it), so a server loads before it listens.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import os
import re
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar, cast

import msgspec
from msgspec import Struct, structs

from ronda.errors import BadConfig, BadRequest, UpstreamBroken, UpstreamError
from ronda.providers.local.binding import check_installed, import_binding
from ronda.providers.local.calls import Call, Completion, Gate, Take
from ronda.providers.local.door import Door
from ronda.providers.local.files import ModelFile, header_of
from ronda.providers.local.machine import Sizing, choose, count_cores, free_memory

T = TypeVar("T")


class _Server(Protocol):
    """The part of the binding that is used. `callback` gets one JSON text at a time; returning True ends the completion."""

    @property
    def listening_address(self) -> str: ...

    def handle_completions(self, body: bytes, callback: Callable[[bytes], bool]) -> None: ...


class _Binding(Protocol):
    def CommonParams(self) -> Any: ...  # noqa: N802 - the binding's own name

    def Server(self, params: Any) -> _Server: ...  # noqa: N802 - the binding's own name


# ---- the engine -------------------------------------------------------------------------------------------------------


class Engine:
    """`template` is a chat template to use in place of the file's own."""

    def __init__(self, file: ModelFile, sizing: Sizing | None = None, template: str | None = None) -> None:
        check_installed()
        self.file = file
        self.header = header_of(file)
        if template is not None:
            self.header = structs.replace(self.header, template=template)
        self._wanted = sizing
        self._proven: set[bytes] = set()  # by their digest: a grammar may be large
        self._counted: dict[str, int] = {}
        self._loading: Future[_Loaded] | None = None
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="ronda-local")

    async def load(self) -> None:
        """Load the model unless it is. Cancelling whoever waits for it does not stop it."""
        await asyncio.shield(asyncio.wrap_future(self._load()))

    def _load(self) -> Future[_Loaded]:
        with self._lock:
            if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
                self._loading = Future()
                threading.Thread(target=self._load_now, args=(self._loading,), name="ronda-local-load").start()
            return self._loading

    def _load_now(self, loading: Future[_Loaded]) -> None:
        _step_back()
        try:
            sizing = self._wanted or choose(self.header, count_cores(), free_memory())
            loading.set_result(_Loaded(self.file, sizing, self.header.template))
        except BaseException as error:
            loading.set_exception(error)

    @property
    def loaded(self) -> _Loaded:
        """What came of loading; only after `load`."""
        assert self._loading is not None
        return self._loading.result(0)

    @property
    def sizing(self) -> Sizing:
        return self.loaded.sizing

    async def aside(self, work: Callable[[], T]) -> T:
        """Do something that takes milliseconds (a template, a grammar, tokens) beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def apply_template(self, body: dict[str, Any]) -> str:
        """Messages and tools → the prompt, by the model's own template. Waits: call it `aside`."""
        try:
            return msgspec.json.decode(self.loaded.door.ask("/apply-template", body), type=_Prompt).prompt
        except UpstreamBroken:
            raise
        except UpstreamError as error:
            raise UpstreamError(f"the model's chat template refused this conversation: {error}", status=400) from error

    def tokenize(self, text: str) -> list[int]:
        """Waits: call it `aside`. Text that spells a control token becomes that token."""
        body = {"content": text, "add_special": True, "parse_special": True}
        return msgspec.json.decode(self.loaded.door.ask("/tokenize", body), type=_Tokens).tokens

    def count(self, text: str) -> int:
        """How many tokens a text takes, as text. Asked for the same keys and names again and again. Waits."""
        if text not in self._counted:
            if len(self._counted) >= MAX_COUNTED:
                self._counted.clear()
            said = self.loaded.door.ask("/tokenize", {"content": text, "add_special": False, "parse_special": False})
            self._counted[text] = len(msgspec.json.decode(said, type=_Tokens).tokens)
        return self._counted[text]

    async def complete(self, body: dict[str, Any], take: Take) -> Completion:
        """Complete a prompt. `take` gets what came since it was last called, in this event loop.

        Cancelled, it lets the engine know and returns at once; the slot is free as soon as the engine has finished the
        batch of tokens it is at.
        """
        grammar = body.get("grammar")
        if grammar is None or _digest(grammar) in self._proven:
            return await self._complete(body, take)
        proof = await self._prove(body, grammar)
        done = await self._complete(body, take)
        return structs.replace(done, cached=proof.cached, prompt_seconds=proof.prompt_seconds + done.prompt_seconds)

    async def _prove(self, body: dict[str, Any], grammar: str) -> Completion:
        """A grammar the engine cannot read it ignores without a word: so each is first made to say something unlikely.

        One token, with the very prompt of the request: the work on that is kept, and this costs two tokens once.
        """
        said: list[str] = []
        body = {"prompt": body["prompt"], "n_predict": 1, "temperature": 0, "grammar": _with_canary(grammar)}
        proof = await self._complete(body, lambda pieces: said.extend([piece.text for piece in pieces]))
        text = "".join(said)
        if not text or not _CANARY.startswith(text):
            raise BadRequest(
                "the local engine cannot enforce this schema or grammar: it is not sound, or beyond what it can do",
                param="grammar",
            )
        if len(self._proven) >= MAX_PROVEN:
            self._proven.clear()
        self._proven.add(_digest(grammar))
        return proof

    async def _complete(self, body: dict[str, Any], take: Take) -> Completion:
        loaded = self.loaded
        await loaded.gate.enter()
        call = Call(asyncio.get_running_loop(), take)
        loaded.start(call, msgspec.json.encode(body | _ALWAYS))
        try:
            return await call.ended
        except asyncio.CancelledError:
            call.stopped = True
            raise


def _step_back() -> None:
    """Let the event loop go first wherever both want a core: with two cores, decoding held it up for 7 ms now and then.

    On Linux a thread has a priority of its own, and the threads it starts, which are the engine's, inherit it.
    """
    if sys.platform == "linux":
        os.nice(5)


MAX_PROVEN = 1024
MAX_COUNTED = 16_384
_CANARY = "~ZQX~"


def _digest(grammar: str) -> bytes:
    return hashlib.blake2b(grammar.encode(), digest_size=16).digest()


def _with_canary(grammar: str) -> str:
    inner = re.sub(r"(?m)^start(?=\s*[\[:])", "ronda_start", grammar, count=1)
    return f'{inner}\nstart: "{_CANARY}" ronda_start\n'


# A stream also when nobody watches: the callback is where a completion can be stopped, in the prompt too (`return_progress`).
_ALWAYS = {"stream": True, "return_progress": True, "cache_prompt": True}


class _Prompt(Struct, frozen=True):
    prompt: str


class _Tokens(Struct, frozen=True):
    tokens: list[int]


class _Loaded:
    """A model in memory, and the threads that wait in it: one for each slot, since starting one would hold up the loop."""

    def __init__(self, file: ModelFile, sizing: Sizing, template: str) -> None:
        self.sizing = sizing
        self.door = Door()
        self.gate = Gate(sizing.slots)
        self._work: SimpleQueue[tuple[Call, bytes] | None] = SimpleQueue()
        self._running: set[Call] = set()
        try:
            self._server: _Server | None = _serve(file.path, sizing, template, self.door)
        except BaseException:
            self.door.close()
            raise
        self.door.opened(self._server.listening_address)
        self._threads = [
            threading.Thread(target=self._wait, args=(self._server,), name=f"ronda-local-{number}", daemon=True)
            for number in range(sizing.slots)
        ]
        for thread in self._threads:
            thread.start()
        atexit.register(self.close)

    def start(self, call: Call, body: bytes) -> None:
        """Only for who came through the gate."""
        self._running.add(call)
        self._work.put((call, body))

    def _wait(self, server: _Server) -> None:
        while (work := self._work.get()) is not None:
            call, body = work
            try:
                server.handle_completions(body, call.on_chunk)
            except Exception as error:
                call.failure = UpstreamBroken(f"the local engine failed: {error}")
            self._running.discard(call)
            self.gate.leave()
            call.wake()

    def close(self) -> None:
        """At the end of the process: a thread that comes back from the engine into a dead interpreter would crash it."""
        for call in list(self._running):
            call.stopped = True
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join(10.0)
        self._server = None
        self.door.close()


def _serve(path: Path, sizing: Sizing, template: str, door: Door) -> _Server:
    binding = cast("_Binding", import_binding())
    params = binding.CommonParams()
    params.model.path = str(path)
    params.model_alias = {"local"}  # said again in every chunk
    params.verbosity = 0
    params.chat_template = template
    params.n_parallel = sizing.slots
    params.n_ctx = sizing.slots * sizing.context
    params.n_batch = params.n_ubatch = sizing.batch
    params.cpuparams.n_threads = sizing.threads_alone
    params.cpuparams_batch.n_threads = sizing.threads
    params.cache_ram_mib = sizing.spare_mb
    params.cache_idle_slots = False  # it would copy every idle slot whenever a request begins, while the others wait
    params.fit_params = False
    params.prefill_assistant = False  # an assistant's turn at the end was broken off: the next one is new
    params.api_keys = [door.key]
    params.hostnames = [door.host]
    params.port = 0
    params.n_threads_http = 2
    params.ui = False
    params.endpoint_slots = False
    params.sse_ping_interval = -1
    try:
        return binding.Server(params)
    except RuntimeError as error:
        raise BadConfig(
            f"the engine cannot load the model file {path}: it is of a kind it does not know, or memory ran out"
        ) from error


# ---- one for each file ------------------------------------------------------------------------------------------------

_engines: dict[Path, Engine] = {}
_engines_lock = threading.Lock()


def engine_for(file: ModelFile) -> Engine:
    """The process's engine for this file."""
    with _engines_lock:
        if file.path not in _engines:
            _engines[file.path] = Engine(file)
        return _engines[file.path]

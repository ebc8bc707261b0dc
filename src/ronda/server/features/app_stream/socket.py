"""GET /generate-code, upgraded: one message with all parameters comes in, N variants go out side by side, and it closes.

    1000    every variant has ended, and one at least has a page
    4332    nothing came of it: an `error` says why, and so does the close, as far as its 123 bytes go
    4333    the client's: whatever is under way ends with it

Each variant is a run, journaled and followed as any other. {"type": "cancel", "variantIndex": n} ends one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.types import Message, Receive, Send

from ronda.core.run import Run
from ronda.errors import RondaError
from ronda.server.answering.answer import Answer
from ronda.server.answering.exchange import Exchange
from ronda.server.answering.opening import Group, Job
from ronda.server.answering.sinks import SocketSink
from ronda.server.features.app_stream.page import Page
from ronda.server.features.app_stream.routes import app_error
from ronda.server.features.app_stream.variants import page_job, public_address
from ronda.server.http.bodies import read_body
from ronda.server.http.failure import BROKE_DOWN, failure_of
from ronda.server.http.incoming import Incoming
from ronda.server.services.runs import new_id
from ronda.wire.app_stream.messages import AppAnswer, write_error, write_models, write_opening
from ronda.wire.app_stream.parameters import Parameters, read_parameters
from ronda.wire.app_stream.prompts import begin_turns, first_file
from ronda.wire.codec.json import UNREADABLE
from ronda.wire.shared.door_request import DoorRequest
from ronda.wire.shared.failures import Failure

if TYPE_CHECKING:
    from ronda.server.features.app_stream.state import AppState

log = logging.getLogger("ronda.server")

CLOSE_DONE: Final = 1000
CLOSE_FAILED: Final = 4332
_REASON_BYTES: Final = 123  # of a close frame (RFC 6455, 5.5.1)
_CANCEL_BYTES: Final = 1024  # of a message that says so: more is not read
FIRST_MESSAGE_SECONDS: Final = 60.0


class ClientGone(Exception):
    """The client has closed the connection."""


class Cancel(msgspec.Struct, frozen=True, rename={"variant": "variantIndex"}):
    """What a client may say while variants are under way."""

    type: str
    variant: int


class Connection:
    def __init__(self, state: AppState, incoming: Incoming, receive: Receive, send: Send) -> None:
        self._state = state
        self._incoming = incoming
        self._receive = receive
        self._send = send
        self._exchange: Exchange | None = None  # of the variants, once they are under way

    async def run(self) -> None:
        if (await self._receive())["type"] != "websocket.connect":
            return
        await self._send({"type": "websocket.accept"})
        try:
            first = await self._first_message()
            work = asyncio.ensure_future(self._work(first))
            listening = asyncio.ensure_future(self._listen())
            try:
                await asyncio.wait([work, listening], return_when=asyncio.FIRST_COMPLETED)
            finally:
                listening.cancel()
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError, ClientGone):
                    await work
        except ClientGone:
            pass

    # ---- the client --------------------------------------------------------------------------------------------------

    async def _first_message(self) -> bytes:
        try:
            async with asyncio.timeout(FIRST_MESSAGE_SECONDS):
                return _bytes_of(await self._receive())
        except TimeoutError:
            await self._refuse("No parameters came.")
            raise ClientGone from None

    async def _listen(self) -> None:
        """Until the client is gone. What else it says can only be that it wants no more of a variant."""
        with contextlib.suppress(ClientGone):
            while True:
                data = _bytes_of(await self._receive())
                try:
                    message = msgspec.json.decode(data[:_CANCEL_BYTES], type=Cancel)
                except UNREADABLE:
                    continue
                if message.type == "cancel" and message.variant >= 0 and self._exchange is not None:
                    self._exchange.cancel_run(message.variant)

    async def _say(self, *texts: str) -> None:
        for text in texts:
            await self._put({"type": "websocket.send", "text": text})

    async def _close(self, code: int, reason: str = "") -> None:
        cut = reason.encode()[:_REASON_BYTES].decode("utf-8", "ignore")
        await self._put({"type": "websocket.close", "code": code, "reason": cut})

    async def _refuse(self, why: str) -> None:
        await self._say(write_error(why))
        await self._close(CLOSE_FAILED, why)

    async def _refuse_with(self, failure: Failure) -> None:
        await self._refuse(failure.message)

    async def _put(self, message: Message) -> None:
        try:
            await self._send(message)
        except (RuntimeError, OSError) as error:  # what a server's own library raises is different for each of them
            raise ClientGone from error

    # ---- the variants ------------------------------------------------------------------------------------------------

    async def _work(self, first: bytes) -> None:
        try:
            parameters = await read_body(first, read_parameters)
            count = self._state.models.count(parameters)
            await self._say(*write_opening(count))
            await self._generate(parameters, count)
        except RondaError as error:
            await self._refuse(failure_of(error).message)
        except ClientGone:
            raise
        except Exception as error:  # ours: told as such, with the rest in the log
            log.error("/generate-code broke down", exc_info=error)
            await self._refuse(BROKE_DOWN.message)

    async def _generate(self, parameters: Parameters, count: int) -> None:
        """All variants side by side, to the end of each."""
        jobs = await self._jobs(parameters, count)
        names = [new_id("run") for _ in jobs]
        exchange = Exchange(self._state.answering, self._incoming, Group(jobs, names), self._make_writer, app_error)
        answer = await exchange.answer()
        assert isinstance(answer, Answer)  # a request that streams has no other
        self._exchange = exchange
        try:
            await self._say(write_models([job.target.name for job in jobs], names))
        except BaseException:
            answer.leave()
            raise
        await answer.tell(SocketSink(self._say, self._refuse_with))
        await self._say(*self._variants.close(BROKE_DOWN))
        if (why := self._variants.failure) is None:
            await self._close(CLOSE_DONE)
        else:
            await self._refuse(f"No variant could be generated: {why}")

    def _make_writer(self, runs: Sequence[Run]) -> AppAnswer:
        self._variants = AppAnswer(runs)
        return self._variants

    async def _jobs(self, parameters: Parameters, count: int) -> list[Job]:
        """One for each variant."""
        state = self._state
        images = parameters.images
        kept = [await state.services.assets.add(url) for url in images]
        assets = {url: image_id for url, image_id in zip(images, kept, strict=True) if image_id is not None}
        turns = begin_turns(parameters, assets)
        targets = await state.models.choose(count, parameters)
        file = first_file(parameters)
        page = Page(
            files={} if file is None else {file.path: file.content},
            main="index.html" if file is None else file.path,
            options=parameters.option_codes,
            image_generation=parameters.image_generation,
            asset_extraction=parameters.asset_extraction,
            base_url=public_address(state.own.app.public_url, self._incoming),
        )
        request = DoorRequest(model="", turns=turns, stream=True)
        return [page_job(state, request, target, page, variant) for variant, target in enumerate(targets)]


def _bytes_of(message: Message) -> bytes:
    if message["type"] == "websocket.disconnect":
        raise ClientGone
    text: Any = message.get("text")
    return message.get("bytes") or b"" if text is None else text.encode("utf-8", "surrogatepass")

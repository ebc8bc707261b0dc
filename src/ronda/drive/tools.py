"""One tool call: arguments checked, the tool run within its time, what it shows meanwhile, and its outcome made a result.

Nothing a tool raises ends the loop: it is news for the model.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import types
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.events import Asked, ToolFinished, ToolProgressed
from ronda.core.parts import NULL, ToolCall, ToolResult
from ronda.core.permissions import permit_tool
from ronda.core.plan import ToolSpec
from ronda.drive.contracts import LongResults, Tool, ToolContext, ToolOutput
from ronda.drive.offload import LIGHT_BYTES
from ronda.errors import RondaError, ToolFailed
from ronda.schema.validate import validator_for

if TYPE_CHECKING:
    from ronda.drive.driver import Driver

log = logging.getLogger("ronda.tools")

PROGRESS_BYTES: Final = 64 * 1024  # of one call, at the most: it is kept for as long as the run can be followed


class Waiting(Struct, frozen=True):
    """A call whose own run waits for people."""

    questions: list[Asked]


async def call_tool(driver: Driver, call: ToolCall) -> ToolFinished | Waiting:
    tool = driver.tools.get(call.name) or _reader(driver, call)
    if tool is None:  # the plan names a handler that is not here any more, e.g. after a restart with another config
        return tool_failure(call, "it cannot be called any more: no tool here runs it")
    spec = tool.spec
    context = _context(driver, call, spec)
    try:
        arguments = _check_arguments(call, spec)
        if spec.exclusive is not None and driver.exclusive is not None:
            async with driver.exclusive(spec.exclusive):
                output = await _run_in_time(tool, arguments, context, spec.timeout)
        else:
            output = await _run_in_time(tool, arguments, context, spec.timeout)
    except asyncio.CancelledError:
        if is_being_cancelled():
            raise
        # This task was not cancelled: the tool awaited something that was cancelled, which is its own failure.
        return tool_failure(call, "it was cancelled")
    except SystemExit as error:  # a tool that was a program once, and still ends as one
        return tool_failure(call, f"it tried to end the program: {error!r}")
    except RondaError as error:  # said on purpose
        return tool_failure(call, error_text(error))
    except Exception as error:  # whatever a tool raises is news for the model, never the end of the loop
        log.warning("the tool '%s' raised", call.name, exc_info=(type(error), error, _outside_ronda(error)))
        return tool_failure(call, describe_error(error))
    if output.questions:
        return Waiting([replace(question, call_id=call.id) for question in output.questions])
    offers: tuple[ToolSpec, ...] = ()
    limit = driver.run.plan.limits.result_chars
    if (output.whole or (limit is not None and len(output.content) > limit)) and driver.long_results is not None:
        output, offers = await _shorten(driver, driver.long_results(), output, spec, context)
    text = output.content
    result = ToolResult(
        call.id,
        text if text.isascii() else await _without_surrogates(text),
        output.failed,
        output.attachments,
        None,
        output.whole,
        output.marks,
    )
    details = NULL if output.details is None else _encode_details(output.details, call)
    return ToolFinished(
        result,
        usage=output.usage,
        tool_calls=output.tool_calls,
        name=call.name,
        details=details,
        files=output.files,
        offers=offers,
    )


def _reader(driver: Driver, call: ToolCall) -> Tool | None:
    """What reads results that were too long is no tool of the plan's: the run has it since the first of them."""
    if driver.long_results is None:
        return None
    reader = driver.long_results().reader
    return reader if reader.spec.name == call.name else None


async def _shorten(
    driver: Driver, results: LongResults, output: ToolOutput, spec: ToolSpec, context: ToolContext
) -> tuple[ToolOutput, tuple[ToolSpec, ...]]:
    """A result that is too long for the model, and what it needs to read the rest. One that could not be read on, since the
    choice or the operator forbids that or the name is the caller's, stays as it is: better too long than lost."""
    run, reader = driver.run, results.reader.spec
    known = run.tools.get(reader.name)
    offered = known or permit_tool(run.plan, reader)
    may_read = offered.kind != "caller" and offered.approval != "deny" and run.plan.choice.allows(reader.name)
    if spec.name == reader.name or not may_read:
        return output, ()
    if not output.whole and (limit := run.plan.limits.result_chars) is not None:
        output = await results.shorten(output, limit, spec, context)
    return output, (reader,) if output.whole and known is None else ()


def _context(driver: Driver, call: ToolCall, spec: ToolSpec) -> ToolContext:
    run = driver.run
    clock = driver.now
    start, now = run.start, clock()
    deadline = None if spec.timeout is None else now + spec.timeout
    if (seconds := run.plan.limits.seconds) is not None:
        end = now + seconds - run.seconds_driven(now)
        deadline = end if deadline is None else min(deadline, end)
    return ToolContext(
        run.id,
        start.session,
        run.round - 1,
        call.id,
        driver.start_child,
        start.owner,
        deadline,
        driver.workspace,
        driver,
        driver.ask_model,
    )


def _outside_ronda(error: Exception) -> types.TracebackType | None:
    """The traceback from the tool's own code on: what called it is Ronda, and tells its author nothing."""
    found = error.__traceback__
    while found is not None and str(found.tb_frame.f_globals.get("__name__")).startswith("ronda."):
        found = found.tb_next
    return found or error.__traceback__


def _encode_details(details: Mapping[str, Any], call: ToolCall) -> Raw:
    """What no JSON can hold is left out: the tool has done its work."""
    try:
        return Raw(msgspec.json.encode(details, enc_hook=str))
    except (TypeError, ValueError, RecursionError) as error:
        log.warning("the details that the tool '%s' gave cannot be written", call.name, exc_info=error)
        return NULL


def tool_failure(call: ToolCall, why: str) -> ToolFinished:
    result = ToolResult(call.id, f"Error: Tool '{call.name}' failed: {why}", failed=True)
    return ToolFinished(result, name=call.name)


decode_arguments = msgspec.json.Decoder(dict[str, Any]).decode


def _check_arguments(call: ToolCall, spec: ToolSpec) -> dict[str, Any]:
    """Arguments as the handler may have them: what the model wrote for bound parameters is dropped, the rest is checked."""
    arguments = decode_arguments(call.arguments)
    for name in spec.bound:
        arguments.pop(name, None)
    if spec.checks_arguments:
        return arguments
    problem = validator_for(bytes(spec.parameters)).explain(arguments)
    if problem is not None:
        raise ToolFailed(f"the arguments do not fit: {problem}")
    return arguments


async def _run_in_time(
    tool: Tool, arguments: dict[str, Any], context: ToolContext, timeout: float | None
) -> ToolOutput:
    if timeout is None:
        return await tool.run(arguments, context)
    work = tool.run(arguments, context).__await__()
    try:
        waits_for = next(work)
    except StopIteration as end:  # done without waiting for anything: a clock would cost more than many a tool
        output: ToolOutput = end.value
        return output
    try:
        async with asyncio.timeout(timeout) as clock:
            return await _go_on(work, waits_for)
    except TimeoutError:
        if clock.expired():
            raise ToolFailed(f"timed out after {timeout:g} seconds") from None
        raise
    finally:
        del clock  # it knows the task, whose cancellation would know it by this frame


@types.coroutine
def _go_on(work: Generator[Any, Any, ToolOutput], waits_for: Any) -> Generator[Any, Any, ToolOutput]:
    """The rest of what has begun, as `await` would do it."""
    while True:
        try:
            try:
                sent = yield waits_for
            except BaseException as error:
                waits_for = work.throw(error)
            else:
                waits_for = work.send(sent)
        except StopIteration as end:
            output: ToolOutput = end.value
            return output


async def _without_surrogates(text: str) -> str:
    """As `as_text`, and others have their turn between two pieces of a long one."""
    pieces: list[str] = []
    for index in range(0, len(text), LIGHT_BYTES):
        if index:
            await asyncio.sleep(0)
        pieces.append(as_text(text[index : index + LIGHT_BYTES]))
    return "".join(pieces)


def is_being_cancelled() -> bool:
    """This task was cancelled, rather than something that was awaited."""
    return (task := asyncio.current_task()) is not None and task.cancelling() > 0


def error_text(error: Exception) -> str:
    return as_text(_public(error)) or type(error).__name__


def describe_error(error: BaseException) -> str:
    """As Python shows it: the words of many exceptions say nothing without their names (`KeyError: 'no'`)."""
    kind, message = type(error).__name__, as_text(_public(error))
    return f"{kind}: {message}" if message else kind


def _public(error: BaseException) -> str:
    return error.public if isinstance(error, RondaError) else str(error)


def as_text(text: str) -> str:
    """Without lone surrogates, as odd file names have them: no journal and no provider could write them."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def show_progress(driver: Driver, progress: ToolProgressed) -> None:
    """What a tool shows while it is running → a preview. It may come from any thread, and too late."""
    if not isinstance(progress.text, str):
        raise TypeError(f"progress is a text, not {type(progress.text).__name__}")
    if not driver.run.plan.stream:  # no client watches
        return
    try:
        is_here = asyncio.get_running_loop() is driver.loop
    except RuntimeError:  # a thread
        is_here = False
    if is_here:
        _show_here(driver, progress)
    else:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the run is long over
            driver.loop.call_soon_threadsafe(_show_here, driver, progress)


def _show_here(driver: Driver, progress: ToolProgressed) -> None:
    call_id, text = progress.call_id, progress.text
    if not text or call_id not in [call.id for call in driver.run.open_calls]:
        return
    shown = driver.progressed.get(call_id, 0)
    data = as_text(text).encode()
    driver.progressed[call_id] = shown + len(data)
    if shown > PROGRESS_BYTES:
        return
    if shown + len(data) > PROGRESS_BYTES:
        data = data[: PROGRESS_BYTES - shown] + "\n… (no more of it is shown)".encode()
    driver.flush()  # what happened before it is told before it
    driver.emit([replace(progress, text=data.decode("utf-8", "ignore"))])

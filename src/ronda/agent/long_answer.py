"""An agent's answer that is too long for the model that asked for it → a file of the session, and its beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ronda.core.files import PREVIEW_BYTES, FileSource, preview
from ronda.core.parts import File
from ronda.drive import ToolContext, ToolOutput
from ronda.files.file_store import FileFacts, FileStore
from ronda.store import WriteConflict
from ronda.store.files import QuotaExceeded
from ronda.tools.files.reading import READ

if TYPE_CHECKING:
    from ronda.host.run import LiveRun

MAX_ANSWER: Final = 64_000  # characters, some 16,000 tokens: as much as the largest budget of a search
SHOWN_CHARS: Final = 16_000


async def as_file(output: ToolOutput, parent: LiveRun, context: ToolContext, child: str) -> ToolOutput:
    """`child` is the run whose answer it is: asking it again finds the same file."""
    store: FileStore | None = parent.files
    if len(output.content) <= MAX_ANSWER or store is None or parent.run.plan.limits.result_chars is None:
        return output
    call = next(call for call in parent.run.open_calls if call.id == context.call_id)
    data = output.content.encode()
    name = f"{call.name}.txt"
    file_id = f"file_{child.removeprefix('run_')[:12]}_r{context.round}_0"
    facts = FileFacts(
        name, "agent_output", source=FileSource(call.name, context.round), session=context.session, id=file_id
    )
    try:
        await store.add(context.owner, data, facts)
    except WriteConflict:  # kept before the process ended that asked first
        pass
    except QuotaExceeded:  # then the model has to read it
        return output
    file = File(None, name, file_id, len(data), "txt", preview(data, PREVIEW_BYTES))
    text = (
        f"{output.content[:SHOWN_CHARS]}\n… (the first {SHOWN_CHARS} of {len(output.content)} characters; "
        f"all of it is the file {name}, id {file_id}, which {READ} reads)"
    )
    return replace(output, content=text, files=(*output.files, file), whole=file_id)

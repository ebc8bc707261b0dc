"""Run every part over a folder of recorded data; say what was found; end with 0 only if nothing failed."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.conformance import (
    anthropic_answers,
    anthropic_followups,
    anthropic_requests,
    anthropic_streams,
    app_front_end,
    app_http,
    app_recorded,
    app_stream,
    bfcl,
    bfcl_suite,
    costs,
    gemini_answers,
    gemini_errors,
    gemini_followups,
    gemini_requests,
    gemini_streams,
    mistral_exchanges,
    openai_chat_answers,
    openai_chat_errors,
    openai_chat_followups,
    openai_chat_requests,
    openai_chat_streams,
    openresponses_schema,
    own_words,
    prompty_discovery,
    prompty_load,
    prompty_parse,
    prompty_process,
    prompty_render,
    prompty_turn,
    prompty_wire,
    recordings,
    responses_answers,
    responses_followups,
    responses_requests,
    responses_streams,
    schemas,
    tool_search,
)
from tests.conformance.prompty_vectors import prompty_total
from tests.conformance.report import PartResult

# One line per part, in the order they are run.
PARTS: list[tuple[str, Callable[[Path], PartResult]]] = [
    ("recordings", recordings.run),
    ("openai-chat answers", openai_chat_answers.run),
    ("openai-chat streams", openai_chat_streams.run),
    ("openai-chat requests", openai_chat_requests.run),
    ("openai-chat follow-ups", openai_chat_followups.run),
    ("openai-chat errors", openai_chat_errors.run),
    ("responses answers", responses_answers.run),
    ("responses streams", responses_streams.run),
    ("responses requests", responses_requests.run),
    ("responses follow-ups", responses_followups.run),
    ("open responses schema", openresponses_schema.run),
    ("gemini answers", gemini_answers.run),
    ("gemini streams", gemini_streams.run),
    ("gemini requests", gemini_requests.run),
    ("gemini follow-ups", gemini_followups.run),
    ("gemini errors", gemini_errors.run),
    ("mistral exchanges", mistral_exchanges.run),
    ("usage and cost, streamed and plain", costs.run),
    ("schemas", schemas.run),
    ("bfcl", bfcl.run),
    ("bfcl, as an evaluation", bfcl_suite.run),
    ("tool search", tool_search.run),
    ("prompty load", prompty_load.run),
    ("prompty discovery", prompty_discovery.run),
    ("prompty render", prompty_render.run),
    ("prompty parse", prompty_parse.run),
    ("prompty turn", prompty_turn.run),
    ("prompty wire", prompty_wire.run),
    ("prompty process", prompty_process.run),
    ("anthropic answers", anthropic_answers.run),
    ("anthropic streams", anthropic_streams.run),
    ("anthropic requests", anthropic_requests.run),
    ("anthropic follow-ups", anthropic_followups.run),
    ("app stream", app_stream.run),
    ("app stream, front end", app_front_end.run),
    ("app stream, http", app_http.run),
    ("app stream, recorded arguments", app_recorded.run),
]

# Made by `make_sample`.
SAMPLE = Path(__file__).parent / "sample"

# Those that need no data.
OWN_PARTS: list[tuple[str, Callable[[Path], PartResult]]] = [("models' own words", own_words.run)]


def main(arguments: list[str], own_parts: list[tuple[str, Callable[[Path], PartResult]]] = OWN_PARTS) -> int:
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print("usage: python -m tests.conformance [DATA_DIR]", file=sys.stderr)
        return 2
    data = Path(arguments[0] if arguments else "../shared/data")
    if not data.is_dir():
        print(f"{data} is not there: recordings of our own are read instead, and parts that need others are skipped")
        data = SAMPLE
    total, has_data, own = PartResult(), False, [run for _, run in own_parts]
    for name, run in [*PARTS, *own_parts]:
        began = time.perf_counter()
        try:
            result = run(data)
        except Exception as error:  # one part's trouble leaves the others alone
            where = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
            result = PartResult(failed=1, notes=(f"FAILED to run: {said}",))
        has_data = has_data or (run not in own and not result.is_absent)
        if not result.is_absent and not result.passed and not result.failed:
            result = PartResult(failed=1, skipped=result.skipped, notes=(*result.notes, "FAILED: nothing was checked"))
        print(f"{name}: {result.counts} ({time.perf_counter() - began:.1f} s)", flush=True)
        for note in result.notes:
            print(f"    {note}", flush=True)
        total = total + result
    print(prompty_total(data))
    print(total.counts)
    if data.is_dir() and not has_data:
        print(f"FAILED: {data} has the data of no part")
        return 1
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

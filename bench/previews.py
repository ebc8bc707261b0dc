"""What it costs to show a call's arguments while they are written, at their beginning and at their end: a page of a megabyte in
pieces of four bytes.

As a process it is the one under test: for each order on stdin, the CPU microseconds for each piece of the first and of the last
tenth, of Chat's stream and of the app stream, on stdout. The beginning is the floor: reading on must not cost more the longer the
text is.
"""

import json
import sys
import time
from collections.abc import Callable

from bench.bars import Side
from bench.processes import Child, python
from bench.sections import Bench

PIECE = 4
PAGE = '<li class="row"><b>Stop 1</b><span>3 minutes</span>\\n</li>\n' * 18_000
KEYS = ("preview chat", "preview page")


def measure_previews(bench: Bench) -> None:
    started = {side: start_side(bench, side) for side in bench.ronda}
    for turn in range(2 * bench.plan.runs + 1):
        for side, child in started.items():
            child.tell("go")
            figures = [float(figure) for figure in child.hear().split()]
            if not turn:  # to warm up
                continue
            for key, begin, end in zip(KEYS, figures[::2], figures[1::2], strict=True):
                if side == "ours":
                    bench.note(key, "floor", begin)
                bench.note(key, side, end)
    for child in started.values():
        child.end()


def start_side(bench: Bench, side: Side) -> Child:
    core = bench.children.cores.tested
    return bench.children.start_talking(
        f"previews-{side}", python("-m", "bench.previews"), core=core, tree=bench.tree(side)
    )


# ---- the process under test -------------------------------------------------------------------------------------------


def main() -> None:
    from msgspec import Raw

    from ronda.core.events import CallDelta, ModelStarted, RunStarted
    from ronda.core.parts import user
    from ronda.core.plan import Plan, ToolSpec
    from ronda.core.run import Run
    from ronda.wire.app_stream.messages import VariantMessages
    from ronda.wire.openai_chat.server_answer import ChatAnswer

    spec = ToolSpec("create_file", "Write a file.", Raw(b'{"type":"object"}'), preview=("/path", "/content"))
    arguments = json.dumps({"path": "index.html", "content": PAGE})
    pieces = [CallDelta(0, "c1", "create_file", arguments[at : at + PIECE]) for at in range(0, len(arguments), PIECE)]

    def run() -> Run:
        return Run(RunStarted("run_1", Plan("x", tools=(spec,), stream=True), (user("go"),)))

    def chat() -> Callable[[CallDelta], object]:
        writer = ChatAnswer([run()])
        writer.feed(0, [ModelStarted(0)])
        return lambda delta: writer.feed(0, [delta])

    def page() -> Callable[[CallDelta], object]:
        writer = VariantMessages(run())
        writer.feed([ModelStarted(0)])
        return lambda delta: writer.feed([delta])

    tenth = len(pieces) // 10
    for _ in sys.stdin:
        figures: list[float] = []
        for make in (chat, page):
            feed = make()
            for at in range(10):
                began = time.process_time()
                for piece in pieces[at * tenth : (at + 1) * tenth]:
                    feed(piece)
                if at in (0, 9):
                    figures.append((time.process_time() - began) / tenth * 1e6)
        print(*figures, flush=True)


if __name__ == "__main__":
    main()

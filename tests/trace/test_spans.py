"""The tracer registry, `span` and `@trace`: what backends are told, and that they never get in the way."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.trace.spying import Spy

from ronda.trace import Emit, Span, Tracer, current_span, span, trace

# ---- the registry ------------------------------------------------------------------------------------------------------


def test_every_backend_is_told_of_every_span() -> None:
    one, two = Spy(), Spy()
    Tracer.add("one", one)
    Tracer.add("two", two)
    try:
        with Tracer.start("outer", {"first": 1}) as emit:
            emit("second", 2)
            with span("inner"):
                pass
    finally:
        Tracer.clear()

    for spy in (one, two):
        assert spy.tree() == [("outer", ["inner"])]
        assert spy.told("outer") == [{"first": 1, "second": 2}]
        assert spy.open == 0


def test_a_backend_that_was_removed_hears_nothing_more(spy: Spy) -> None:
    other = Spy()
    Tracer.add("other", other)
    Tracer.remove("other")
    Tracer.remove("never added")
    with span("a"):
        pass

    assert (other.tree(), spy.tree()) == ([], ["a"])


def test_a_backend_of_the_same_name_is_replaced(spy: Spy) -> None:
    newer = Spy()
    Tracer.add("spy", newer)
    with span("a"):
        pass

    assert (spy.tree(), newer.tree()) == ([], ["a"])


def test_without_a_backend_every_span_is_the_same_nothing() -> None:
    assert span("a", inputs={"b": 1}) is span("c") is Tracer.start("d")
    with span("a") as emit:
        emit("key", object())
        assert current_span() is None


def test_backends_come_and_go_while_threads_trace(spy: Spy) -> None:
    done = threading.Event()

    def come_and_go() -> None:
        while not done.is_set():
            Tracer.add("fleeting", Spy())
            Tracer.remove("fleeting")

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(500):
            with span("a"):
                pass
    finally:
        done.set()
        thread.join()

    assert spy.tree() == ["a"] * 500


class Broken:
    """Fails where it is told to."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __call__(self, span: Span) -> Broken:
        if self.where == "call":
            raise RuntimeError("call")
        return self

    def __enter__(self) -> Emit:
        if self.where == "enter":
            raise RuntimeError("enter")
        return self.emit

    def emit(self, key: str, value: Any) -> None:
        if self.where == "emit":
            raise RuntimeError("emit")

    def __exit__(self, *about: object) -> bool:
        if self.where == "exit":
            raise RuntimeError("exit")
        return self.where == "swallow"


@pytest.mark.parametrize("where", ["call", "enter", "emit", "exit"])
def test_a_backend_that_fails_disturbs_neither_the_others_nor_the_code(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    before, after = Spy(), Spy()
    Tracer.add("before", before)
    Tracer.add("broken", Broken(where))
    Tracer.add("after", after)
    try:
        with caplog.at_level(logging.WARNING, "ronda.trace"), span("a") as emit:
            emit("key", "value")
    finally:
        Tracer.clear()

    for spy in (before, after):
        assert (spy.tree(), spy.told("a"), spy.open) == (["a"], [{"key": "value"}], 0)
    assert "the trace backend 'broken' failed in span 'a'" in caplog.text


def test_a_backend_cannot_swallow_an_exception() -> None:
    Tracer.add("broken", Broken("swallow"))
    try:
        with pytest.raises(KeyError), span("a"):
            raise KeyError("mine")
    finally:
        Tracer.clear()


def test_an_exception_is_the_span_s_result_and_goes_on(spy: Spy) -> None:
    with pytest.raises(ValueError, match="no good"), span("a"):
        raise ValueError("no good")

    [said] = spy.told("a")
    assert said["result"]["exception"] == "ValueError"
    assert said["result"]["message"] == "no good"
    assert "raise ValueError" in said["result"]["traceback"]
    assert current_span() is None


def test_a_backend_sees_the_context_that_its_outer_span_left() -> None:
    stack: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("stack", default=())
    seen: list[tuple[str, ...]] = []

    @contextmanager
    def stacking(span: Span) -> Iterator[Emit]:
        token = stack.set((*stack.get(), str(span)))
        seen.append(stack.get())
        try:
            yield lambda key, value: None
        finally:
            stack.reset(token)

    Tracer.add("stacking", stacking)
    try:
        with span("a"):
            with span("b"):
                pass
            with span("c"):
                pass
    finally:
        Tracer.clear()

    assert seen == [("a",), ("a", "b"), ("a", "c")]
    assert stack.get() == ()


async def test_spans_of_tasks_that_run_side_by_side_stand_side_by_side(spy: Spy) -> None:
    met = asyncio.Barrier(2)

    async def work(name: str) -> None:
        with span(name):
            await met.wait()
            with span(f"in {name}"):
                await met.wait()

    with span("all"):
        await asyncio.gather(work("a"), work("b"))

    assert spy.tree() == [("all", [("a", ["in a"]), ("b", ["in b"])])]


def test_a_value_that_cannot_be_told_disturbs_nobody(spy: Spy) -> None:
    class Hostile(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("no")

    with span("a") as emit:
        emit("result", Hostile())

    assert spy.told("a") == [{"result": "<Hostile that cannot be told: RuntimeError>"}]


def test_a_span_knows_its_times(spy: Spy) -> None:
    with span("a"):
        [running] = spy.named("a")
        assert running.ended is None
    assert running.ended is not None
    assert running.began <= running.ended


# ---- the decorator -----------------------------------------------------------------------------------------------------


@trace
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


def test_a_call_is_traced_with_signature_inputs_and_result(spy: Spy) -> None:
    assert add(1) == 3
    assert spy.tree() == ["add"]
    assert spy.told("add") == [{"signature": f"{__name__}.add", "inputs": {"a": 1, "b": 2}, "result": 3}]
    assert (add.__name__, add.__doc__) == ("add", "Add.")


async def test_an_async_call_is_traced_and_what_it_awaits_is_inside(spy: Spy) -> None:
    @trace(name="double", ignore=["connection"], flavour="plain")
    async def twice(n: int, connection: object) -> int:
        await asyncio.sleep(0)
        return add(n, n)

    assert await twice(4, object()) == 8
    assert spy.tree() == [("double", ["add"])]
    [said] = spy.told("double")
    assert said["inputs"] == {"n": 4}
    assert (said["flavour"], said["result"]) == ("plain", 8)


def test_a_method_is_traced_without_self(spy: Spy) -> None:
    class Thing:
        @trace
        def grow(self, by: int) -> str:
            return "grown"

        @classmethod
        @trace
        def make(cls, of: str) -> str:
            return of

    assert (Thing().grow(3), Thing.make("wood")) == ("grown", "wood")
    assert [said["inputs"] for said in (*spy.told("grow"), *spy.told("make"))] == [{"by": 3}, {"of": "wood"}]


def test_a_call_that_fails_says_how_and_raises(spy: Spy) -> None:
    @trace
    def fail(n: int) -> None:
        raise LookupError(f"no {n}")

    with pytest.raises(LookupError, match="no 7"):
        fail(7)
    [said] = spy.told("fail")
    assert (said["result"]["exception"], said["result"]["message"]) == ("LookupError", "no 7")


def test_a_call_that_cannot_be_made_raises_what_python_raises(spy: Spy) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        add()  # type: ignore[call-arg]  # that is the point
    assert spy.open == 0


def test_a_generator_is_traced_until_it_has_run_out(spy: Spy) -> None:
    @trace
    def count(to: int) -> Generator[int, str, str]:
        heard = []
        for n in range(to):
            with span("step"):
                pass
            heard.append((yield n))
        return "".join(text or "-" for text in heard)

    made = count(3)
    assert spy.tree() == []  # it has not begun
    assert next(made) == 0
    with span("reader"):  # what its reader does is none of its business
        pass
    assert made.send("a") == 1
    assert next(made) == 2
    with pytest.raises(StopIteration) as end:
        made.send("c")
    assert end.value.value == "a-c"
    assert spy.tree() == [("count", ["step", "step", "step"]), "reader"]
    [said] = spy.told("count")
    assert (said["inputs"], said["result"]) == ({"to": 3}, [0, 1, 2])
    assert spy.open == 0


def test_a_generator_left_early_gave_what_it_gave(spy: Spy) -> None:
    closed = []

    @trace
    def endless() -> Iterator[int]:
        try:
            yield 1
            yield 2
            yield 3
        finally:
            closed.append(True)

    made = endless()
    assert [next(made), next(made)] == [1, 2]
    made.close()  # type: ignore[attr-defined]  # every generator has it

    assert closed == [True]
    assert spy.told("endless")[0]["result"] == [1, 2]
    assert spy.open == 0


def test_a_generator_hears_what_is_thrown_into_it(spy: Spy) -> None:
    @trace
    def careful() -> Generator[str, None, None]:
        try:
            yield "going"
        except KeyError:
            yield "caught"

    made = careful()
    assert next(made) == "going"
    assert made.throw(KeyError()) == "caught"
    with pytest.raises(ValueError, match="not this"):
        made.throw(ValueError("not this"))
    assert spy.told("careful")[0]["result"]["message"] == "not this"


async def test_an_async_generator_is_traced_until_it_has_run_out(spy: Spy) -> None:
    @trace
    async def pieces(text: str) -> AsyncIterator[str]:
        for word in text.split():
            with span("word"):
                await asyncio.sleep(0)
            yield word

    assert [piece async for piece in pieces("one two")] == ["one", "two"]
    assert spy.tree() == [("pieces", ["word", "word"])]
    assert spy.told("pieces")[0]["result"] == ["one", "two"]

    async for _ in (left := pieces("a b c")):
        break
    await left.aclose()  # type: ignore[attr-defined]  # every async generator has it
    assert spy.told("pieces")[1]["result"] == ["a"]
    assert spy.open == 0


async def test_without_a_backend_traced_functions_are_just_called() -> None:
    @trace
    def numbers() -> Generator[int, str, str]:
        said = yield 1
        return said

    @trace
    async def later() -> AsyncIterator[int]:
        yield 1

    made = numbers()
    assert next(made) == 1
    with pytest.raises(StopIteration) as end:
        made.send("end")
    assert end.value.value == "end"
    assert [n async for n in later()] == [1]
    assert add(1, 1) == 2

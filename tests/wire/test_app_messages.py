"""What the page is told about any run: a function of its log, in an order that the front end can rely on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.test_invariants import facts
from tests.wire.test_writers_read_the_log import PLANS, PROBABLE, SCRIPTS, log_of

from ronda.core.events import Event, RunStarted
from ronda.core.run import Run, rebuild
from ronda.errors import BadRequest
from ronda.providers.script import Line
from ronda.wire.app_stream.html import page_in
from ronda.wire.app_stream.messages import VariantMessages
from ronda.wire.app_stream.parameters import BadParameters, read_parameters
from ronda.wire.app_stream.prompts import begin_turns, first_file
from ronda.wire.app_stream.summaries import input_of

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def written(run: Run, batches: Sequence[Sequence[Event]]) -> list[str]:
    writer = VariantMessages(run)
    return [text for batch in batches for text in writer.feed(batch)]


@settings(max_examples=100)
@given(SCRIPTS, PLANS, PROBABLE, st.data())
def test_it_is_a_function_of_the_log(
    lines: list[Line], plan: dict[str, Any], probable: list[bool], data: st.DataObject
) -> None:
    """However its events were batched, and whether a client watched or looks at it later."""
    [start, *events] = log_of(lines, plan, probable)
    assert isinstance(start, RunStarted)
    cuts = [0, *sorted(data.draw(st.sets(st.integers(1, len(events)), max_size=6))), len(events)]
    live = Run(start)
    watching = VariantMessages(live)
    seen: list[str] = []
    for event in events:
        live.apply(event)
        seen += watching.feed([event])

    later = rebuild(facts([start, *events]))
    assert written(later, [events[a:b] for a, b in pairwise(cuts)]) == seen


@settings(max_examples=150)
@given(SCRIPTS, PLANS, PROBABLE)
def test_every_tool_that_begins_ends_and_the_variant_ends_once(
    lines: list[Line], plan: dict[str, Any], probable: list[bool]
) -> None:
    [start, *events] = log_of(lines, plan, probable)
    messages = [json.loads(text) for text in written(rebuild(facts([start, *events])), [events])]

    ends = [message["type"] for message in messages if message["type"] in ("variantComplete", "variantError")]
    assert len(ends) == 1
    assert messages[-1]["type"] == ends[0]
    begun: set[str] = set()
    for message in messages:
        assert message["variantIndex"] == 0
        assert None not in message.values()
        if message["type"] == "toolStart":
            assert message["eventId"] not in begun
            assert isinstance(message["data"]["input"], dict)
            begun.add(message["eventId"])
        elif message["type"] == "toolResult":
            begun.remove(message["eventId"])
    assert begun == set()


# ---- what comes from outside -------------------------------------------------------------------------------------------


ASKED = ("generationType", "prompt", "history", "fileState", "optionCodes", "designSystem", "isImageGenerationEnabled")


@given(
    st.fixed_dictionaries(
        {"generatedCodeConfig": st.just("html_css"), "inputMode": st.sampled_from(["text", "image", "video"])},
        optional=dict.fromkeys(ASKED, ANYTHING),
    )
)
def test_whatever_is_asked_for_is_a_conversation_or_refused(asked: dict[str, Any]) -> None:
    try:
        parameters = read_parameters(json.dumps(asked).encode())
        turns = begin_turns(parameters, {})
    except BadRequest:
        return
    assert turns
    first_file(parameters)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_parameters_are_refused(data: bytes) -> None:
    with pytest.raises(BadParameters):  # so few cannot name a stack and an input mode
        read_parameters(data)


@given(st.sampled_from(["create_file", "edit_file", "edit_image", "save_assets", "retrieve_option", "x"]), ANYTHING)
def test_any_arguments_have_a_summary(name: str, value: Any) -> None:
    members = ("path", "content", "edits", "old_text", "prompts", "image_urls", "asset_ids", "option_number")
    summary = input_of(name, dict.fromkeys(members, value), "index.html")

    json.dumps(summary)
    assert isinstance(summary, dict)


PAGE = "<!DOCTYPE html>\n<html><body>```\ncode\n```</body></html>"


def test_a_page_is_found_and_prose_is_none() -> None:
    assert page_in(PAGE) == PAGE
    assert page_in(f"Here it is:\n\n```html\n{PAGE}\n```\n\nEnjoy.") == PAGE
    assert page_in(f'Sure.\n<file path="index.html">\n```html\n{PAGE}\n```\n</file>') == PAGE
    assert page_in(PAGE.replace("html>", "HTML>")) == PAGE.replace("html>", "HTML>")
    assert page_in("<HTML><BODY></BODY></HTML>") == "<HTML><BODY></BODY></HTML>"
    assert page_in("```html\n<h1>Hi</h1>\n```") == "<h1>Hi</h1>"
    assert page_in("I would begin with <!DOCTYPE html> and a grid.") is None
    assert page_in("Use a <div>.") is None
    assert page_in("") is None


@given(st.text(alphabet="<file>html`/!doc \n\"'=", max_size=80))
def test_any_text_has_a_page_or_none(text: str) -> None:
    page = page_in(text)

    assert page is None or page in text


def test_a_long_text_that_is_no_page_costs_little() -> None:
    for text in ("<file " * 200_000, "```html\n" * 100_000, "<html" * 200_000, "<" * 1_000_000):
        assert page_in(text) is None

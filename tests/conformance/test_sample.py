"""The recordings of our own: a stranger's clone has something for the parts to read, and they are as the script makes them."""

from __future__ import annotations

import json

from tests.conformance.__main__ import PARTS, SAMPLE
from tests.conformance.make_sample import VENDORS, record

READ = {
    "recordings", "openai-chat answers", "openai-chat streams", "openai-chat requests", "openai-chat follow-ups",
    "openai-chat errors", "responses answers", "responses streams", "responses requests", "responses follow-ups",
    "gemini answers", "gemini streams", "gemini requests", "gemini follow-ups", "gemini errors", "mistral exchanges",
    "usage and cost, streamed and plain", "anthropic answers", "anthropic streams", "anthropic requests", "anthropic follow-ups",
}  # fmt: skip


def test_every_part_that_reads_traffic_has_a_sample_of_it() -> None:
    results = {name: run(SAMPLE) for name, run in PARTS}

    assert {name: result.notes for name, result in results.items() if result.failed} == {}
    assert {name for name, result in results.items() if result.passed} == READ


async def test_the_sample_is_what_our_clients_send_to_fakes_of_each_vendor() -> None:
    for vendor in VENDORS:
        kept = (SAMPLE / "traffic" / f"{vendor.file}.jsonl").read_text().splitlines()
        assert await record(vendor) == [json.loads(line) for line in kept]

"""What requests say of web search, in every dialect's form."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ronda.errors import BadRequest
from ronda.wire.web.search import (
    Location,
    SearchOptions,
    begin_data,
    domains_of,
    read_search_options,
    record_text,
)


def read(options: dict[str, Any]) -> SearchOptions:
    return read_search_options(msgspec.json.encode(options), "web_search_options")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, SearchOptions()),
        ({"search_context_size": "low"}, SearchOptions(budget=4096)),
        ({"search_context_size": "medium", "filters": None}, SearchOptions(budget=8192)),
        ({"search_context_size": "high"}, SearchOptions(budget=16384)),
        ({"search_context_size": "low", "return_token_budget": "unlimited"}, SearchOptions(budget=16384)),
        (
            {"user_location": {"type": "approximate", "approximate": {"city": "Porto", "country": "PT"}}},
            SearchOptions(location=Location(city="Porto", country="PT")),
        ),
        (
            {"type": "web_search", "user_location": {"type": "approximate", "city": "Porto", "timezone": "Europe/Lisbon"}},
            SearchOptions(location=Location(city="Porto", timezone="Europe/Lisbon")),
        ),
        (
            {"filters": {"allowed_domains": ["WWW.Example.com.", "https://b.test/docs/"]}},
            SearchOptions(allowed_domains=("example.com", "b.test/docs")),
        ),
        ({"blocked_domains": ["x.test"], "max_uses": 3}, SearchOptions(blocked_domains=("x.test",), max_uses=3)),
        ({"max_content_tokens": 500}, SearchOptions(max_content_tokens=500)),
        ({"external_web_access": False}, SearchOptions(external_web_access=False)),
        ({"search_description": "Search files"}, SearchOptions(search_description="Search files")),
    ],
)  # fmt: skip
def test_options_are_read_in_every_form(options: dict[str, Any], expected: SearchOptions) -> None:
    assert read(options) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"search_context_size": "huge"}, r"web_search_options\.search_context_size: Invalid enum value 'huge'"),
        ({"search_content_types": ["text", "image"]}, "image search is not supported"),
        (
            {"filters": {"allowed_domains": ["x.test"] * 101}},
            r"filters\.allowed_domains may contain at most 100 domains\.",
        ),
        ({"allowed_domains": ["a.test"], "blocked_domains": ["b.test"]}, "not both"),
        ({"allowed_domains": [""]}, "no domain"),
        ({"max_uses": 0}, "max_uses must be at least 1"),
        ({"search_description": "x" * 9000}, "longer than 8000 characters"),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        read(options)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://example.com/a", True),
        ("https://www.example.com/a", True),
        ("http://Sub.Example.com:8080/", True),
        ("https://notexample.com/", False),
        ("https://b.test/docs", True),
        ("https://b.test/docs/x", True),
        ("https://b.test/docsx", False),
        ("https://bad.example.com/", False),
        ("/a/file", False),
        ("http://[bad", False),
    ],
)
def test_a_filter_covers_a_domain_and_those_below(url: str, allowed: bool) -> None:
    options = SearchOptions(allowed_domains=("example.com", "b.test/docs"), blocked_domains=("bad.example.com",))

    assert options.permits(url) is allowed
    assert SearchOptions().permits(url)


@pytest.mark.parametrize("domain", ["bücher.test", "BÜCHER.test", "xn--bcher-kva.test"])
@pytest.mark.parametrize("url", ["https://bücher.test/", "https://www.xn--bcher-kva.test./a", "https://a.Bücher.test"])
def test_a_filter_holds_however_a_name_is_written(domain: str, url: str) -> None:
    assert not read({"blocked_domains": [domain]}).permits(url)
    assert read({"allowed_domains": [domain]}).permits(url)


def test_what_is_told_of_a_call() -> None:
    assert begin_data('{"query": "bread"}') == {"tool_type": "web_search", "query": "bread"}
    assert begin_data('{"url": "https://a.test"}') == {"tool_type": "web_search"}
    assert record_text({"results_count": 2, "sources": ["a.test", "b.test"]}) == "2 results\nsources: a.test, b.test"
    assert record_text({"results_count": 0, "sources": []}) == "0 results"
    assert domains_of(["https://www.a.test/x", "https://a.test/y", "file", "https://b.test"]) == ["a.test", "b.test"]

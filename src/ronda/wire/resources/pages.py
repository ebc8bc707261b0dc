"""Lists page by page: what a query says of order, limit and place → the part of a list, and whether more follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, Literal, TypeAlias, TypeVar

from ronda.errors import BadRequest

Query: TypeAlias = Mapping[str, Sequence[str]]

PAGE_TOKEN: Final = "page_"  # what a page's token begins with: Anthropic's clients take it for opaque


_T = TypeVar("_T")


def last_value(query: Query, name: str, default: str) -> str:
    values = query.get(name)
    return values[-1] if values else default


def whole_number(text: str, name: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16 and least <= int(text) <= most):
        raise BadRequest(f"'{name}' must be a whole number from {least} to {most}, not {text[:50]!r}", param=name)
    return int(text)


def read_limit(query: Query, default: int, most: int) -> int:
    return whole_number(last_value(query, "limit", str(default)), "limit", 1, most)


def in_order(rows: Sequence[_T], query: Query, default: Literal["asc", "desc"] = "asc") -> Sequence[_T]:
    """`rows` are in the order they came."""
    order = last_value(query, "order", default)
    if order not in ("asc", "desc"):
        raise BadRequest(f"'order' must be 'asc' or 'desc', not {order[:50]!r}", param="order")
    return rows if order == "asc" else rows[::-1]


def page_after(
    rows: Sequence[_T], after: str, limit: int, param: str, kind: str, id_of: Callable[[_T], str] = attrgetter("id")
) -> tuple[list[_T], bool]:
    """Those that follow the row with the id `after`, and whether more do. `kind` is what to call a row: "a file"."""
    start = 0
    if after:
        start = next((index + 1 for index, row in enumerate(rows) if id_of(row) == after), 0)
        if not start:
            raise BadRequest(f"'{param}' names {kind} that is not there: {after[:200]!r}", param=param)
    return list(rows[start : start + limit]), len(rows) > start + limit


def openai_list(data: Sequence[Mapping[str, Any]], *, has_more: bool) -> dict[str, Any]:
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"object": "list", "data": data, "first_id": first, "last_id": last, "has_more": has_more}


def page_of_objects(objects: Sequence[Mapping[str, Any]], query: Query, most: int, kind: str) -> dict[str, Any]:
    """A page of what is as clients of OpenAI see it, the newest first unless they say."""
    limit, newest_first = read_limit(query, 20, most), in_order(objects, query, "desc")
    page, has_more = page_after(newest_first, last_value(query, "after", ""), limit, "after", kind, itemgetter("id"))
    return openai_list(page, has_more=has_more)

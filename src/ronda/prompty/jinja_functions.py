"""Filters, tests and methods a template may use: functions on plain data, each on the budget.

The six of the subset (`upper lower trim join length default`) keep its semantics; the others are what prompts in the wild use,
with Jinja2's meaning. None of them takes a function, a format string or a name of a Python attribute.
"""

from __future__ import annotations

import html
import json
import operator
from collections.abc import Callable
from typing import Any

from ronda.prompty.segments import Budget, Fragment, Rich
from ronda.prompty.template_values import UNDEFINED, absent, bare, items_of, kind_of, member, portable, text, truthy

_BLANK = " \t\r\n"


def _on_text(work: Callable[[str], str]) -> Callable[[Budget, Any], Any]:
    return lambda budget, value: work(text(value, budget))


def _trim(budget: Budget, value: Any, chars: str = _BLANK) -> Any:
    return value if isinstance(value, Rich) else text(value, budget).strip(chars)


def _join(budget: Budget, value: Any, separator: Any = "", attribute: Any = None) -> str:
    value = bare(value)
    if not absent(value) and not isinstance(value, list | dict):
        raise TypeError(f"a list is needed, not {kind_of(value)}")
    items = [item if attribute is None else _dig(item, attribute) for item in items_of(value)]
    texts = [text(item, budget) for item in items]
    between = text(separator, budget)
    budget.fit(sum(map(len, texts)) + len(between) * len(texts))
    budget.step(len(texts))
    return between.join(texts)


def _length(budget: Budget, value: Any) -> int:
    if absent(value):
        return 0
    value = bare(value)
    if isinstance(value, str | list | dict):
        return len(value)
    raise TypeError(f"{kind_of(value)} has no length")


def _default(budget: Budget, value: Any, instead: Any = "", boolean: Any = False) -> Any:
    return instead if absent(value) or (truthy(boolean) and not truthy(value)) else value


def _replace(budget: Budget, value: Any, old: Any, new: Any, count: Any = -1) -> str:
    whole, old, new = text(value, budget), text(old, budget), text(new, budget)
    found = whole.count(old) if old else len(whole) + 1
    budget.fit(len(whole) + max(0, len(new) - len(old)) * found)
    return whole.replace(old, new, -1 if count is None else int(count))


def _first(budget: Budget, value: Any) -> Any:
    return next(iter(items_of(value)), UNDEFINED)


def _last(budget: Budget, value: Any) -> Any:
    items = items_of(value)
    return items[-1] if items else UNDEFINED


def _list(budget: Budget, value: Any) -> list[Any]:
    items = items_of(value)
    budget.step(len(items))
    return items


def _reverse(budget: Budget, value: Any) -> Any:
    value = bare(value)
    return value[::-1] if isinstance(value, str) else _list(budget, value)[::-1]


def _sort(
    budget: Budget, value: Any, reverse: Any = False, case_sensitive: Any = False, attribute: Any = None
) -> list[Any]:
    items = _list(budget, value)
    budget.weigh(items)

    def place(item: Any) -> Any:
        item = item if attribute is None else _dig(item, attribute)
        return item.lower() if isinstance(item, str) and not case_sensitive else item

    return sorted(items, key=place, reverse=truthy(reverse))


def _unique(budget: Budget, value: Any) -> list[Any]:
    budget.weigh(items_of(value))
    distinct: list[Any] = []
    for item in items_of(value):
        budget.step(len(distinct))
        if item not in distinct:
            distinct.append(item)
    return distinct


def _sum(budget: Budget, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    items = [item if attribute is None else _dig(item, attribute) for item in _list(budget, value)]
    if not all(isinstance(item, int | float) for item in [*items, start]):
        raise TypeError("numbers are needed")
    return sum(items, start)


def _extreme(choose: Callable[..., Any]) -> Callable[[Budget, Any], Any]:
    def extreme(budget: Budget, value: Any) -> Any:
        items = _list(budget, value)
        budget.weigh(items)
        return choose(items, default=UNDEFINED)

    return extreme


def _round(budget: Budget, value: Any, precision: Any = 0) -> Any:
    if not isinstance(value, int | float):
        raise TypeError("a number is needed")
    return round(float(value), precision)


def _abs(budget: Budget, value: Any) -> Any:
    if not isinstance(value, int | float):
        raise TypeError("a number is needed")
    return abs(value)


def _int(budget: Budget, value: Any, default: Any = 0) -> Any:
    value = bare(value)
    try:
        if isinstance(value, int | float):
            return int(value)
        digits = text(value, budget)
        return int(digits) if digits.strip().lstrip("+-").isdecimal() else int(float(digits))
    except (ValueError, OverflowError):
        return default


def _float(budget: Budget, value: Any, default: Any = 0.0) -> Any:
    value = bare(value)
    try:
        return float(value) if isinstance(value, int | float) else float(text(value, budget))
    except (ValueError, OverflowError):
        return default


def _tojson(budget: Budget, value: Any, indent: Any = None) -> str:
    if indent is not None and not (isinstance(indent, int) and 0 <= indent <= 16):
        raise ValueError("indent is 0 to 16")
    budget.weigh(value)
    return json.dumps(portable(value), ensure_ascii=False, indent=indent)


def _indent(budget: Budget, value: Any, width: Any = 4, first: Any = False, blank: Any = False) -> str:
    whole = text(value, budget)
    lines = whole.split("\n")
    margin = width if isinstance(width, str) else " " * _small(width)
    budget.fit(len(whole) + len(margin) * len(lines))
    return "\n".join(
        [
            line if (index == 0 and not first) or not (line.strip() or blank) else margin + line
            for index, line in enumerate(lines)
        ]
    )


def _truncate(budget: Budget, value: Any, length: Any = 255, killwords: Any = False, end: Any = "...") -> str:
    whole = text(value, budget)
    if len(whole) <= length + 5:  # Jinja2's leeway
        return whole
    cut = whole[: max(0, length - len(end))]
    return (cut if truthy(killwords) else cut.rsplit(" ", 1)[0]) + text(end, budget)


def _map(
    budget: Budget, value: Any, name: Any = None, *args: Any, attribute: Any = None, default: Any = UNDEFINED
) -> Any:
    items = _list(budget, value)
    if attribute is not None:
        return [default if absent(found := _dig(item, attribute)) else found for item in items]
    work = FILTERS.get(name)
    if work is None:
        raise ValueError(f"there is no filter {name!r}")
    return [work(budget, item, *args) for item in items]


def _select(wanted: bool, by_attribute: bool) -> Callable[..., Any]:
    def select(budget: Budget, value: Any, *args: Any) -> Any:
        attribute, rest = (args[0], args[1:]) if by_attribute else (None, args)
        test = TESTS.get(rest[0]) if rest else None
        if rest and test is None:
            raise ValueError(f"there is no test {rest[0]!r}")
        matches = []
        for item in _list(budget, value):
            seen = item if attribute is None else _dig(item, attribute)
            if (truthy(seen) if test is None else test(budget, seen, *rest[1:])) == wanted:
                matches.append(item)
        return matches

    return select


def _items(budget: Budget, value: Any) -> list[Any]:
    value = bare(value)
    if absent(value):
        return []
    if not isinstance(value, dict):
        raise TypeError(f"a mapping is needed, not {kind_of(value)}")
    budget.step(len(value))
    return [[key, item] for key, item in value.items()]


def _split(budget: Budget, value: str, separator: Any = None, limit: Any = -1) -> list[str]:
    parts = value.split(separator, limit)
    budget.step(len(parts))
    return parts


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError("a whole number is needed")
    return value


def _small(width: Any) -> int:
    if not isinstance(width, int) or not 0 <= width <= 1000:
        raise ValueError("a width is 0 to 1000")
    return width


def _dig(value: Any, path: Any) -> Any:
    """`attribute="a.b"` of map, sort, join and friends."""
    for key in path.split(".") if isinstance(path, str) else [path]:
        value = member(value, int(key) if isinstance(key, str) and key.isdecimal() else key)
    return value


def _order(work: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    def ordered(budget: Budget, value: Any, other: Any) -> bool:
        budget.weigh(value)
        budget.weigh(other)
        return not absent(value) and not absent(other) and work(bare(value), bare(other))

    return ordered


def _same(budget: Budget, value: Any, other: Any) -> bool:
    budget.weigh(value)
    budget.weigh(other)
    return (absent(value) and absent(other)) or bool(bare(value) == bare(other))


def _within(budget: Budget, value: Any, whole: Any) -> bool:
    budget.weigh(value)
    budget.weigh(whole)
    whole = bare(whole)
    return bare(value) in (whole if isinstance(whole, str | dict) else items_of(whole))


FILTERS: dict[str, Callable[..., Any]] = {
    "upper": _on_text(str.upper),
    "lower": _on_text(str.lower),
    "trim": _trim,
    "join": _join,
    "length": _length,
    "default": _default,
    "replace": _replace,
    "count": _length,
    "d": _default,
    "first": _first,
    "last": _last,
    "capitalize": _on_text(str.capitalize),
    "title": _on_text(str.title),
    "string": _on_text(str),
    "safe": lambda budget, value: value,
    "escape": _on_text(html.escape),
    "e": _on_text(html.escape),
    "list": _list,
    "reverse": _reverse,
    "sort": _sort,
    "unique": _unique,
    "sum": _sum,
    "min": _extreme(min),
    "max": _extreme(max),
    "round": _round,
    "abs": _abs,
    "int": _int,
    "float": _float,
    "tojson": _tojson,
    "indent": _indent,
    "truncate": _truncate,
    "wordcount": lambda budget, value: len(text(value, budget).split()),
    "map": _map,
    "select": _select(wanted=True, by_attribute=False),
    "reject": _select(wanted=False, by_attribute=False),
    "selectattr": _select(wanted=True, by_attribute=True),
    "rejectattr": _select(wanted=False, by_attribute=True),
    "items": _items,
    "dictsort": lambda budget, value: sorted(_items(budget, value), key=lambda pair: str(pair[0]).lower()),
}

TESTS: dict[str, Callable[..., bool]] = {
    "defined": lambda budget, value: value is not UNDEFINED,
    "undefined": lambda budget, value: value is UNDEFINED,
    "none": lambda budget, value: value is None,
    "true": lambda budget, value: value is True,
    "false": lambda budget, value: value is False,
    "boolean": lambda budget, value: isinstance(value, bool),
    "string": lambda budget, value: isinstance(value, str | Fragment),
    "number": lambda budget, value: isinstance(value, int | float),
    "integer": lambda budget, value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda budget, value: isinstance(value, float),
    "mapping": lambda budget, value: isinstance(bare(value), dict),
    "sequence": lambda budget, value: isinstance(bare(value), list | str | dict),
    "iterable": lambda budget, value: isinstance(bare(value), list | str | dict),
    "odd": lambda budget, value: _whole(value) % 2 == 1,
    "even": lambda budget, value: _whole(value) % 2 == 0,
    "divisibleby": lambda budget, value, by: _whole(value) % _whole(by) == 0,
    "lower": lambda budget, value: text(value, budget).islower(),
    "upper": lambda budget, value: text(value, budget).isupper(),
    "in": _within,
    **dict.fromkeys(("eq", "equalto", "=="), _same),
    **dict.fromkeys(("ne", "!="), lambda budget, value, other: not _same(budget, value, other)),
    **dict.fromkeys(("lt", "<", "lessthan"), _order(operator.lt)),
    **dict.fromkeys(("le", "<="), _order(operator.le)),
    **dict.fromkeys(("gt", ">", "greaterthan"), _order(operator.gt)),
    **dict.fromkeys(("ge", ">="), _order(operator.ge)),
}

METHODS: dict[tuple[type, str], Callable[..., Any]] = {
    (dict, "items"): _items,
    (dict, "keys"): lambda budget, value: _list(budget, value),
    (dict, "values"): lambda budget, value: [pair[1] for pair in _items(budget, value)],
    (dict, "get"): lambda budget, value, key, default=None: default if absent(got := member(value, key)) else got,
    (str, "upper"): lambda budget, value: value.upper(),
    (str, "lower"): lambda budget, value: value.lower(),
    (str, "title"): lambda budget, value: value.title(),
    (str, "capitalize"): lambda budget, value: value.capitalize(),
    (str, "strip"): lambda budget, value, chars=None: value.strip(chars),
    (str, "lstrip"): lambda budget, value, chars=None: value.lstrip(chars),
    (str, "rstrip"): lambda budget, value, chars=None: value.rstrip(chars),
    (str, "startswith"): lambda budget, value, start: value.startswith(text(start, budget)),
    (str, "endswith"): lambda budget, value, end: value.endswith(text(end, budget)),
    (str, "split"): _split,
    (str, "splitlines"): lambda budget, value: _list(budget, value.splitlines()),
    (str, "replace"): _replace,
    (str, "join"): lambda budget, value, items: _join(budget, items, value),
}

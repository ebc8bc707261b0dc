"""A docstring → what a function does, and what each of its parameters means.

Reads the three ways people write it: Google (`Args:`), NumPy (`Parameters` over dashes) and Sphinx (`:param x:`). Types
written in the docstring are dropped, since the annotations say them better. Everything else stays as it was written:
"Returns:" and examples are worth reading for a model too. Knows nothing about signatures: a name may be anything.
"""

from __future__ import annotations

import inspect
import re
from typing import Final

import msgspec


class Docstring(msgspec.Struct, frozen=True):
    description: str = ""  # summary and body, without the parameters
    parameters: dict[str, str] = {}  # msgspec copies it for each value


_NAMES: Final = r"\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*"  # NumPy allows `x, y : int`; stars for *args and **kwargs
_GOOGLE_SECTION: Final = re.compile(
    r"(?:args|arguments|parameters|params|keyword args|keyword arguments):", re.IGNORECASE
)
_GOOGLE_ITEM: Final = re.compile(rf"({_NAMES})\s*(?:\([^:]*\)|\[[^:]*\])?\s*:(?:\s+(.*)|$)")
_NUMPY_SECTION: Final = re.compile(r"(?:other )?parameters", re.IGNORECASE)
_NUMPY_ITEM: Final = re.compile(rf"({_NAMES})\s*(?::.*)?")
_SPHINX_PARAM: Final = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?(\*{0,2}\w+):\s*(.*)")
_SPHINX_TYPE: Final = re.compile(r":(?:type\s+\S+|rtype):")


def parse(text: str | None) -> Docstring:
    """Take a docstring apart. What is in none of the three styles is all description."""
    if not text:
        return Docstring()
    lines = inspect.cleandoc(text).splitlines()
    prose: list[str] = []
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        if _GOOGLE_SECTION.fullmatch(line.rstrip()) and _indent(_next_text(lines, at + 1)) > 0:
            at = _google(lines, at + 1, found)
        elif _NUMPY_SECTION.fullmatch(line.strip()) and _is_rule(lines, at + 1):
            at = _numpy(lines, at + 2, found)
        elif item := _SPHINX_PARAM.match(line):
            at = _take_indented(lines, at + 1, found.setdefault(_bare(item[1]), [item[2]]))
        elif _SPHINX_TYPE.match(line):
            at = _take_indented(lines, at + 1, [])
        else:
            prose.append(line.rstrip())
            at += 1
    parameters = {name: " ".join(" ".join(description).split()) for name, description in found.items()}
    return Docstring(_tidy(prose), {name: description for name, description in parameters.items() if description})


def _google(lines: list[str], at: int, found: dict[str, list[str]]) -> int:
    """Items one level in, what continues them further in; a line at the margin ends the section."""
    level = _indent(_next_text(lines, at))
    description: list[str] = []
    while at < len(lines) and (not lines[at].strip() or _indent(lines[at]) > 0):
        line = lines[at]
        if _indent(line) <= level and (item := _GOOGLE_ITEM.fullmatch(line.strip())):
            description = [item[2] or ""]
            for name in item[1].split(","):
                found.setdefault(_bare(name), description)
        else:
            description.append(line)
        at += 1
    return at


def _numpy(lines: list[str], at: int, found: dict[str, list[str]]) -> int:
    """Items at the margin, what they mean further in; the next underlined title ends the section."""
    while at < len(lines) and not _is_rule(lines, at + 1):
        line = lines[at]
        item = _NUMPY_ITEM.fullmatch(line.strip()) if _indent(line) == 0 else None
        if item is None and line.strip():  # prose at the margin: the author went on without a title
            break
        at += 1
        if item is not None:
            texts: list[str] = []
            for name in item[1].split(","):
                found.setdefault(_bare(name), texts)
            at = _take_indented(lines, at, texts)
    return at


def _take_indented(lines: list[str], at: int, texts: list[str]) -> int:
    """Add the indented lines from `at` on to `texts`. A blank line belongs to them only if more of them follow."""
    while at < len(lines) and _indent(_next_text(lines, at)) > 0:
        texts.append(lines[at])
        at += 1
    return at


def _next_text(lines: list[str], at: int) -> str:
    return next((line for line in lines[at:] if line.strip()), "")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_rule(lines: list[str], at: int) -> bool:
    return at < len(lines) and re.fullmatch(r"-{3,}", lines[at].strip()) is not None


def _bare(name: str) -> str:
    return name.strip().lstrip("*")


def _tidy(lines: list[str]) -> str:
    """A removed section leaves its blank lines behind: one between paragraphs is enough."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()

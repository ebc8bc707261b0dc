"""A chat template of which we have no family → a family, learned from how the template writes calls of our own making.

`render` gives what the template writes for some calls. Between names, keys and values that no template has, what is left is
markup: it is the same before every name, key and value, which tells where one tag ends and the next begins. Two notations are
found in this way: a tag for each argument (as GLM, MiniMax and MiniCPM write), and a name with JSON behind it (as Kimi does).

Nothing is taken on trust: a family that does not read back what the template wrote is none. Pure: the code that has an engine
renders.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ronda.core.plan import ToolSpec
from ronda.local.markup.family import Family
from ronda.local.markup.form import Form
from ronda.local.markup.notation import TagForm
from ronda.local.markup.reader import MarkupReader
from ronda.local.markup.wrapper import Named, Tags, Wrapper

Call: TypeAlias = tuple[str, dict[str, Any]]
Render: TypeAlias = Callable[[Sequence[Call]], str]

# In the order of the alphabet, in which some templates write keys.
_TEXTS: Final[list[Call]] = [
    ("look_up", {"harbour": "meadow", "orchard": "pebble"}),
    ("go_home", {"quarry": "thistle"}),
]
_SENTINELS: Final = ("look_up", "harbour", "meadow", "orchard", "pebble", "go_home", "quarry", "thistle")
_TYPED: Final[list[Call]] = [("look_up", {"flag": True, "number": 3, "truths": [True]}), ("go_home", {})]
_STRING: Final = {"type": "string"}
_PROPERTIES: Final = {
    "look_up": {
        **dict.fromkeys(("harbour", "orchard"), _STRING),
        "flag": {"type": "boolean"},
        "number": {"type": "integer"},
        "truths": {"type": "array"},
    },
    "go_home": {"quarry": _STRING},
}
TOOLS: Final = tuple(
    [
        ToolSpec(name, "", Raw(msgspec.json.encode({"type": "object", "properties": properties})))
        for name, properties in _PROPERTIES.items()
    ]
)

_TAG_NAME: Final = re.compile(r"<[^\s=\"'>]+=?")
_END_OF_TAG: Final = re.compile(r"[\"']?\s*>\s*")
_SAYS_TEXT: Final = re.compile(r"(\" string=\")true(\">)")  # as DeepSeek and GigaChat tell texts from the rest
_KEY_AND_VALUE: Final = re.compile(r"(<[^<>]+>)\s*(<[^<>]+>)\s*")
_TAGS: Final = re.compile(r"(?:<[^<>]+>\s*)*")
_NUMBER: Final = re.compile(r":\d+")
_PREFIX: Final = "functions."  # in front of a name with a number, as OpenAI's clients once wrote ids
_KEY_TOKENS: Final = 2  # the first and the last token of markup around a key, at least


def learn(render: Render, think: tuple[str, str] | None = None) -> Family | None:
    """The family, or None where calls are written in another notation. `think` are the marks around a thought."""
    written = render(_TEXTS)
    pieces = _between(written)
    if pieces is None:
        return None
    typed = render(_TYPED)
    if _is_json(pieces):
        family = _named(pieces)
    else:
        words: Literal["json", "words", "python"] = (
            "python" if "[True]" in typed else "words" if "True" in typed else "json"
        )
        family = _tagged(pieces, words)
    if family is None or not (_reads(family, written, _TEXTS) and _reads(family, typed, _TYPED)):
        return None
    return msgspec.structs.replace(family, think=think)


def written_after(asked: str, whole: str) -> str:
    """What the template writes of an answer behind the prompt. A tag that both only begin alike, `<think>` and `<function`, is of
    the answer."""
    same = len(os.path.commonprefix([asked, whole]))  # noqa: RUF071 # of texts, not of paths
    tag = whole.rfind("<", 0, same)
    return whole[tag if tag > whole.rfind(">", 0, same) else same :]


class _Pieces(Struct, frozen=True):
    """What stands between names, keys and values."""

    before: str
    to_key: str  # from a name to its first key
    to_value: str
    to_next_key: str
    to_next_call: str
    after: str


def _between(written: str) -> _Pieces | None:
    found: list[str] = []
    rest = written
    for sentinel in _SENTINELS:
        piece, is_there, rest = rest.partition(sentinel)
        if not is_there:
            return None
        found.append(piece)
    before, to_key, to_value, to_next_key, again, to_next_call, second_to_key, third = found
    if any(sentinel in rest for sentinel in _SENTINELS) or not to_value == again == third:
        return None
    if _NUMBER.sub("", to_key) != _NUMBER.sub("", second_to_key):
        return None
    return _Pieces(before, to_key, to_value, to_next_key, to_next_call, rest)


def _reads(family: Family, written: str, calls: Sequence[Call]) -> bool:
    reader = MarkupReader(family, tools=TOOLS)
    reader.feed(written)
    turn = reader.finish("stop")
    read = [(call.name, msgspec.json.decode(call.arguments or "{}")) for call in turn.calls]
    return read == list(calls) and not turn.text.strip()


# ---- a tag for each argument -------------------------------------------------------------------------------------------


class _Around(Struct, frozen=True):
    """What stands around each call and around all of them. `again`: between two calls."""

    all_open: str
    lead: str
    call_open: str
    call_close: str
    again: str
    all_close: str


def _around(before: str, to_next_call: str, after: str) -> _Around | None:
    call_open = _common_end(before, to_next_call)
    call_close = _common_begin(to_next_call, after)
    if not call_open or not call_close or len(call_open) + len(call_close) > len(to_next_call):
        return None
    all_open = before[: len(before) - len(call_open)]
    if not _TAGS.fullmatch(all_open.strip()):
        return None
    return _Around(
        all_open.strip(),
        all_open[len(all_open.rstrip()) :],
        call_open,
        call_close,
        to_next_call[len(call_close) : len(to_next_call) - len(call_open)],
        after[len(call_close) :].rstrip(),
    )


def _tagged(pieces: _Pieces, words: Literal["json", "words", "python"]) -> Family | None:
    argument = _common_end(pieces.to_key, pieces.to_next_key)
    end_argument = pieces.to_next_key.removesuffix(argument)
    if not argument or not end_argument.strip():
        return None
    if not (pieces.to_next_call.startswith(end_argument) and pieces.after.startswith(end_argument)):
        return None
    around = _around(
        pieces.before, pieces.to_next_call.removeprefix(end_argument), pieces.after.removeprefix(end_argument)
    )
    if around is None:
        return None
    name_end = pieces.to_key.removesuffix(argument)
    says_text = _SAYS_TEXT.fullmatch(pieces.to_value)
    to_value = pieces.to_value if says_text is None else f"{says_text[1]}{{text}}{says_text[2]}"
    native = TagForm(f"{argument}{{}}{to_value}", end_argument, words).write
    key = len(argument + pieces.to_value + end_argument) + _KEY_TOKENS
    own_open, call_tag = _last_tag(around.call_open)
    end_call, own_close = _first_tag(around.call_close)
    has_bare_name = call_tag.endswith(">")
    key_tags = _key_tags(argument, pieces.to_value)
    if key_tags is None or (not has_bare_name and not _END_OF_TAG.fullmatch(name_end)):
        return None
    tag_name = "" if has_bare_name else _tag_name(call_tag)
    separator = name_end.strip() if has_bare_name else ""
    tags = Tags(
        tag_name,
        end_call,
        key_tags[0],
        end_argument.strip(),
        key_tags[1],
        key_tags[2],
        separator,
        trims=says_text is None,
        pairs=not pieces.to_value.endswith("\n"),
    )
    # Outside in, what is around a call: the last of it that there is opens the wrapper, the rest says nothing.
    noise = _marks(around.all_open, around.all_close)
    if has_bare_name:
        wrapper, noise = Wrapper(call_tag, "", tags), _marks(*noise, own_open, own_close)
    elif own_open.strip():
        wrapper = Wrapper(own_open.strip(), own_close.strip(), tags)
    else:
        wrapper, noise = Wrapper(around.all_open or tag_name, around.all_close.strip(), tags), ()
    form = _form(around, own_open, call_tag, name_end, end_call, own_close, native, key)
    return Family("learned", (wrapper,), noise=noise, form=form)


def _key_tags(argument: str, to_value: str) -> tuple[str, str, str] | None:
    """How an argument begins, what ends its key, and what begins its value, if that has a tag of its own."""
    if argument.endswith(">"):
        found = _KEY_AND_VALUE.fullmatch(to_value)
        return (argument, found[1], found[2]) if found is not None else None
    is_end = _END_OF_TAG.fullmatch(to_value) or _SAYS_TEXT.fullmatch(to_value)
    return (_tag_name(argument), ">", "") if is_end else None


def _form(
    around: _Around, own_open: str, call_tag: str, name_end: str, end_call: str, own_close: str, native: Any, key: int
) -> Form:
    named = f"{call_tag}{{}}{name_end}"
    if around.all_open:
        ends, tail = end_call + own_close, around.all_close
        return Form(
            around.all_open, own_open + named, ends, around.lead, tail, around.again, join="\n", native=native, key=key
        )
    if own_open:
        lead = own_open[len(own_open.rstrip()) :]
        return Form(own_open.strip(), named, end_call, lead, own_close, join="\n", native=native, key=key)
    return Form(call_tag, f"{{}}{name_end}", tail=end_call, join="\n", native=native, key=key)


# ---- a name, and JSON ----------------------------------------------------------------------------------------------------


def _is_json(pieces: _Pieces) -> bool:
    return pieces.to_value.replace(" ", "") == '":"' and pieces.to_key.rstrip().endswith('{"')


def _named(pieces: _Pieces) -> Family | None:
    if not (pieces.to_next_call.startswith('"}') and pieces.after.startswith('"}')):
        return None
    around = _around(pieces.before, pieces.to_next_call[2:], pieces.after[2:])
    mark = pieces.to_key.rstrip().removesuffix('{"')
    is_numbered = _NUMBER.match(mark) is not None
    mark = _NUMBER.sub("", mark, count=1) if is_numbered else mark
    if around is None or not mark.strip() or '"' in mark:
        return None
    opening = around.call_open.removesuffix(_PREFIX if is_numbered else "")
    name = f"{around.call_open}{{}}{':{#}' if is_numbered else ''}{mark}"
    wrapper = Wrapper(opening.strip(), around.call_close.strip(), Named((mark.strip(),), numbered=is_numbered))
    if around.all_open:
        form = Form(around.all_open, name, around.call_close, around.lead, around.all_close, around.again, join="\n")
    else:
        form = Form(opening.strip(), name.removeprefix(opening.strip()), tail=around.call_close, join="\n")
    return Family("learned", (wrapper,), noise=_marks(around.all_open, around.all_close), form=form)


# ---- where tags begin and end --------------------------------------------------------------------------------------------


def _common_end(one: str, other: str) -> str:
    """What both end with, from the beginning of a tag on."""
    reversed_end: str = os.path.commonprefix([one[::-1], other[::-1]])  # noqa: RUF071 # of texts, not of paths
    _, begin, rest = reversed_end[::-1].partition("<")
    return begin + rest


def _common_begin(one: str, other: str) -> str:
    """What both begin with, up to the end of a tag."""
    begin: str = os.path.commonprefix([one, other])  # noqa: RUF071 # of texts, not of paths
    return begin[: begin.rfind(">") + 1]


def _last_tag(text: str) -> tuple[str, str]:
    at = text.rfind("<")
    return text[:at], text[at:]


def _first_tag(text: str) -> tuple[str, str]:
    at = text.find(">") + 1
    return text[:at], text[at:]


def _tag_name(tag: str) -> str:
    found = _TAG_NAME.match(tag)
    return found[0] if found is not None else tag


def _marks(*texts: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))

"""How a call may be written: what begins it, what ends it, and the notation between the two. Data; what reads it is elsewhere."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct


class Named(Struct, frozen=True):
    """The name, and then the arguments as JSON: `name[ARGS]{…}`.

    `marks` may stand before or after the name. What stands before one of the `kinds` is no name but the kind of the call:
    `function<｜tool▁sep｜>name`. `numbered`: the name is part of an id, `functions.name:0`.
    """

    marks: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    numbered: bool = False


class Tags(Struct, frozen=True):
    """The name in a tag, and each argument in another: `<function=name><parameter=key>value</parameter></function>`.

    `call` and `argument` are what those tags begin with. The rest of a tag is the name itself, or says it in an attribute.
    Where `call` is empty, the name follows what opened the wrapper; where there is `value`, the key has a tag of its own,
    which `end_key` ends. A text is written without quotes: `trims` says whether the ends of lines around it belong to the tags,
    in `pairs` only if there is one on both sides. `cdata`: what no tag could hold may stand in `<![CDATA[…]]>`.
    """

    call: str
    end_call: str
    argument: str
    end_argument: str
    end_key: str = ">"
    value: str = ""
    separator: str = ""  # may stand between the name and the arguments
    trims: bool = True
    pairs: bool = False
    cdata: bool = False


Notation: TypeAlias = Literal["json", "python", "gemma", "function_gemma"] | Named | Tags


class Wrapper(Struct, frozen=True):
    """One way to write calls. Where `open` is what a call's own tag begins with, there is no wrapper around it."""

    open: str
    close: str = ""
    notation: Notation = "json"

    @property
    def closes(self) -> tuple[str, ...]:
        """What is left over where something ends twice."""
        ends = (self.close, self.notation.end_call if isinstance(self.notation, Tags) else "")
        return tuple(dict.fromkeys(filter(None, ends)))

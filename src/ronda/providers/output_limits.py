"""How long the answer of a model call may get: what its options say under any name, or what its provider asks for by itself.

Fields that are not known here are passed on. So a limit may stand beside `max_tokens` under the name that another API has for
it, and an upstream may heed that one.
"""

from __future__ import annotations

from math import isfinite
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from ronda.core.plan import Options
from ronda.drive import Provider, capabilities_of
from ronda.wire.codec.json import decode_or, encode

# Output tokens of a call for which no number is known: what most models write at most unless they are told to.
USUAL: Final = 4096
_NAMES: Final = frozenset((
    "max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "max_new_tokens", "n_predict", "num_predict",
))  # fmt: skip
_GROUPS: Final = frozenset(("generationConfig", "generation_config", "options"))  # objects that may have such a member
_MOST: Final = 2**31


def max_output(provider: Provider, options: Options) -> int:
    """Tokens that a call may bring, which no limit of its own holds to fewer."""
    if asked := largest_limit(options):  # some clients mean "no limit of mine" by 0
        return asked
    default = capabilities_of(provider).default_output
    return USUAL if default is None else default(options)


def largest_limit(options: Options) -> int | None:
    """Under any name; None where there is none."""
    found = [] if options.max_tokens is None else [options.max_tokens]
    for name, value in options.extra.items():
        if name in _NAMES:
            found.append(_number(value))
        elif name in _GROUPS:
            found += [_number(member) for inner, member in _members(value).items() if inner in _NAMES]
    return max(found, default=None)


def limited(options: Options, limit: int) -> Options:
    """With one limit, under each name that the options have for it."""
    if not options.extra:
        return replace(options, max_tokens=limit)
    number = Raw(b"%d" % limit)
    extra = dict(options.extra)
    for name, value in options.extra.items():
        if name in _NAMES:
            extra[name] = number
        elif name in _GROUPS and not _NAMES.isdisjoint(members := _members(value)):
            extra[name] = Raw(
                encode({inner: number if inner in _NAMES else member for inner, member in members.items()})
            )
    return replace(options, max_tokens=limit, extra=extra)


def _members(value: Raw) -> dict[str, Raw]:
    return decode_or({}, dict[str, Raw], value)


def _number(value: Raw) -> int:
    """Some upstreams read a number in a text, too."""
    try:
        number = float(bytes(value).strip(b' "'))
    except ValueError:
        return 0
    return int(min(max(number, 0), _MOST)) if isfinite(number) else _MOST

"""What a message may hold before it is read: an unknown server must not keep this one busy.

Reading JSON takes its time by its values, not by its bytes: a picture of ten megabytes is one text, as many bytes of `[],` are
three million lists. So values are counted before a message is read, and lists are cut before the SDK makes objects of them.
"""

from __future__ import annotations

import re
from typing import Any, Final

MAX_MESSAGE: Final = 16 * 1024 * 1024  # bytes: a screenshot or two in base64; what is larger ends the connection
LIGHT: Final = 256 * 1024  # bytes that are read in a few milliseconds, whatever is in them
MAX_OBJECTS: Final = 100_000  # objects and lists of one message: a tenth of a second
MAX_STRINGS: Final = 400_000
MAX_VALUES: Final = 1_000_000
MAX_BLOCKS: Final = 1_000  # of one result
MAX_LISTED: Final = 2_000  # tools, resources or prompts on one page
_LISTS: Final = {"content": MAX_BLOCKS, "contents": MAX_BLOCKS, "messages": MAX_BLOCKS} | dict.fromkeys(
    ("tools", "resources", "prompts"), MAX_LISTED
)
_ID: Final = re.compile(rb'"id"\s*:\s*(\d{1,18})')
_EDGE: Final = 4096  # bytes at either end of a message in which its id is looked for


def is_too_much(data: bytes) -> bool:
    """Whether reading it would take long."""
    if len(data) <= LIGHT:
        return False
    if data.count(b'"') <= 2 * MAX_STRINGS and _is_little(data):  # mostly, and quickly told
        return False
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 2 * MAX_STRINGS:
        return True
    return not _is_little(b"".join(bare.split(b'"')[::2]))  # what stands outside of texts


def _is_little(data: bytes) -> bool:
    return data.count(b"{") + data.count(b"[") <= MAX_OBJECTS and data.count(b",") <= MAX_VALUES


def cut_lists(result: dict[str, Any]) -> None:
    """The rest of a list that will not be read is dropped."""
    for name, limit in _LISTS.items():
        found = result.get(name)
        if isinstance(found, list) and len(found) > limit:
            left_out = len(found) - limit
            del found[limit:]
            if name == "content":
                found.append({"type": "text", "text": f"… ({left_out} more parts were left out)"})


def id_in(data: bytes) -> int | None:
    """Of an answer that is not read: whose it probably is."""
    found = _ID.search(data[:_EDGE]) or _ID.search(data[-_EDGE:])
    return None if found is None else int(found[1])

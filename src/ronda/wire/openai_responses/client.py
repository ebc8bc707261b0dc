"""The Responses API as its client: turns → request bytes, answer bytes → previews and one finished turn.

Pure: no socket, no clock. The ideas, each in its file:

    client_request   what is asked for: options, tools, and a body that only grows          → write_request
    items            turns → input items, ours sent back untouched, others' projected
    client_answer    output items → parts, usage, why it stopped                            → read_plain
    client_stream    a stream, one socket read at a time                                    → Reader
    failures         what went wrong, in the API's own codes

What a turn keeps as its own JSON (`Native.payload`) is a list of items, in the API's order.
"""

from __future__ import annotations

from ronda.wire.openai_chat.names import own_names, wire_name
from ronda.wire.openai_responses.client_answer import read_plain
from ronda.wire.openai_responses.client_request import Body, body_of, check_options, sends_as_it_is, write_request
from ronda.wire.openai_responses.client_stream import Reader
from ronda.wire.openai_responses.failures import is_about_encryption
from ronda.wire.openai_responses.items import Items

__all__ = [
    "Body",
    "Items",
    "Reader",
    "body_of",
    "check_options",
    "is_about_encryption",
    "own_names",
    "read_plain",
    "sends_as_it_is",
    "wire_name",
    "write_request",
]

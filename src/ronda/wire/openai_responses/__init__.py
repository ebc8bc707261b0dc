"""The Responses API, as OpenAI and other services speak it.

As its client, without a socket or a clock:

    client_request   what is asked for: options, tools, and a body that only grows
    items            turns → input items, ours sent back untouched, others' projected
    client_answer    output items → parts, usage, why it stopped
    client_stream    a stream, one socket read at a time
    failures         what went wrong, in the API's own codes

What a turn keeps as its own JSON (`Native.payload`) is a list of items, in the API's order.
"""

API = "openai-responses"

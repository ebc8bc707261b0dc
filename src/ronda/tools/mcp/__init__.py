"""The tools of MCP servers: a configuration → connections that are kept alive → `Tool` objects.

    servers.py      all of them together: what doors and commands use
    offers.py       their tools, as `Tool` objects
    config.py       what a server is (a value), read.py: files and tables → these values
    connection.py   one server: the task that owns its connection, its tool list, its state
    call.py         one call: its time, its progress, its questions, when it may be repeated
    listing.py      what a server has, by name and within bounds
    bounds.py       what a message may hold before it is read
    transports.py   process, streamable HTTP, SSE, WebSocket → the SDK's streams
    login.py        a person's consent → a token; sandboxed_server.py: programs behind walls
    sampling.py     a server that asks our model, where it may
    results.py      what a server answers → what a model reads
    names.py        a tool's name on its server → its name for the model

Only the modules below `servers.py` import the `mcp` package, and `servers.py` imports them when the first connection is
opened: who has no MCP server pays nothing for it.
"""

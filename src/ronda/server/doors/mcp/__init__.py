"""This server as an MCP server: each agent is a tool, and `chat` takes any request of Chat Completions.

    tools.py     which tools there are for an owner, and what they are called with
    call.py      a call → runs, driven to their end: progress, cancellation, a result
    door.py      POST, GET and DELETE /mcp, both eras of the protocol; and the same over pipes

The SDK is imported with the first request.
"""

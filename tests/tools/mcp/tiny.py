"""A small MCP server without any package, which starts at once, and which misbehaves as its first argument says."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

HOW = sys.argv[1] if len(sys.argv) > 1 else ""
listed = 0


def notify_changed() -> None:
    os.write(1, b'{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n')


def tools(cursor: str | None) -> dict[str, Any] | None:
    global listed
    listed += 1
    schema = {"type": "object"}
    if HOW == "fickle":  # the second time there is no list
        return None if listed == 2 else {"tools": [{"name": f"act{listed}", "inputSchema": schema}]}
    if HOW == "odd":
        odd = {"type": "object", "properties": {"a": {"type": "banana"}}}
        return {"tools": [{"name": "odd", "inputSchema": odd}, {"name": "pid", "inputSchema": schema}]}
    if HOW == "pages":  # a list that never ends
        return {
            "tools": [{"name": f"tool{cursor or 0}", "inputSchema": schema}],
            "nextCursor": str(int(cursor or 0) + 1),
        }
    if HOW == "large":
        big = {"type": "object", "description": "x" * 300_000}
        return {"tools": [{"name": "large", "inputSchema": big}, {"name": "pid", "inputSchema": schema}]}
    return {"tools": [{"name": "pid", "inputSchema": schema}, {"name": "die", "inputSchema": schema}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "tiny", "version": "1"},
        }
    if method == "tools/list":
        return tools(params.get("cursor"))
    if method == "tools/call":
        if params["name"] == "die":
            os._exit(0)
        if HOW == "fickle":
            notify_changed()
        if HOW == "meta":  # what came with the call
            return {"content": [{"type": "text", "text": json.dumps(params.get("_meta", {}))}]}
        if HOW == "nonsense":
            return {"content": "no list"}
        return {"content": [{"type": "text", "text": str(os.getpid())}]}
    return None


def main() -> None:
    if HOW == "endless":  # a line that never ends
        while True:
            os.write(1, b"x" * 65536)
    if HOW == "chatter":  # lines that are no messages
        while True:
            os.write(1, b"hello\n")
    if HOW == "loud":
        os.write(1, b"Welcome to tiny!\n\n")
    if HOW == "missing":
        os.write(2, b"the key is missing\n")
        sys.exit(1)
    for line in sys.stdin:
        request = json.loads(line)
        if HOW == "silent" or "id" not in request:
            continue
        result = answer(request["method"], request.get("params", {}))
        outcome: dict[str, Any] = (
            {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        )
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}) + "\n")
        sys.stdout.flush()


main()

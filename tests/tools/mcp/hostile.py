"""An MCP server without any package that does what its first argument says to the client that calls its tool `act`."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

HOW = sys.argv[1]
SCHEMA = {"type": "object"}
FLOOD = 3_000


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def send(**members: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n")


def answer(id: int, content: bytes) -> None:
    write(b'{"jsonrpc":"2.0","id":%d,"result":{%b}}\n' % (id, content))


def list_tools(id: int) -> None:
    tools: list[dict[str, Any]] = [{"name": name, "inputSchema": SCHEMA} for name in ("act", "fine")]
    match HOW:
        case "many tools":
            tools += [{"name": f"t{at}", "description": "x", "inputSchema": SCHEMA} for at in range(120_000)]
        case "wide schemas":
            members = {f"p{at}": {"type": "string", "enum": ["a", "b"]} for at in range(5_000)}
            tools += [{"name": f"t{at}", "inputSchema": {**SCHEMA, "properties": members}} for at in range(20)]
        case "deep schema":
            deep: dict[str, Any] = SCHEMA
            for _ in range(150):
                deep = {"type": "object", "properties": {"a": deep}}
            tools.append({"name": "deep", "inputSchema": deep})
        case "endless depth":
            answer(id, b'"tools":[{"name":"act","inputSchema":%b{}%b}]' % (b'{"a":' * 100_000, b"}" * 100_000))
            return
        case "names":
            tools.append({"name": "\0\x1b[2J\n" + "é" * 500, "inputSchema": SCHEMA, "description": "\x1b]0;x\x07"})
            tools.append({"name": "", "inputSchema": SCHEMA})
    send(id=id, result={"tools": tools})


def act(id: int, token: Any) -> None:
    match HOW:
        case "many blocks":
            return answer(id, b'"content":[%b{"type":"text","text":"x"}]' % (b'{"type":"text","text":"x"},' * 300_000))
        case "many values":
            return answer(id, b'"content":[],"structuredContent":{"a":[%b1]}' % (b"1," * 4_000_000))
        case "some blocks":
            count = b'{"type":"text","text":"x"},' * 1_999
            return answer(id, b'"content":[%b{"type":"text","text":"x"}]' % count)
        case "picture":
            data = b'{"type":"image","mimeType":"image/png","data":"%b"}' % (b"A" * 12_000_000)
            return answer(id, b'"content":[%b]' % data)
        case "100 MB":
            for _ in range(100):
                write(b"x" * 1_000_000)
            return write(b"\n")
        case "progress":
            for at in range(FLOOD):
                params = {"progressToken": token, "progress": at, "message": "m" * 100}
                send(method="notifications/progress", params=params)
        case "logs":
            for _ in range(FLOOD):
                send(method="notifications/message", params={"level": "info", "data": "x" * 200})
        case "changes":
            for _ in range(FLOOD):
                send(method="notifications/tools/list_changed")
        case "pings":
            for at in range(FLOOD):
                send(id=at + 100_000, method="ping")
        case "twice":
            send(id=id, result={"content": [{"type": "text", "text": "ok"}]})
            for at in range(FLOOD):
                send(id=id if at % 2 else at + 100_000, result={"content": [{"type": "text", "text": "no"}]})
            return None
        case "complaints":
            for _ in range(200):
                os.write(2, b"y" * 60_000)
        case "questions":
            schema = {"type": "object", "properties": {}}
            for at in range(1_000):
                send(id=at + 100_000, method="elicitation/create", params={"message": "?", "requestedSchema": schema})
            for _ in range(1_000):
                sys.stdin.readline()
    send(id=id, result={"content": [{"type": "text", "text": "ok"}]})
    return None


def main() -> None:
    for line in iter(sys.stdin.readline, ""):
        message = json.loads(line)
        method, message_id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None or message_id is None:
            continue
        if method == "initialize":
            about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}}}
            send(id=message_id, result={**about, "serverInfo": {"name": "hostile", "version": "1"}})
        elif method == "tools/list":
            list_tools(message_id)
        elif method == "tools/call" and params["name"] == "act":
            act(message_id, (params.get("_meta") or {}).get("progressToken"))
        elif method == "tools/call":
            send(id=message_id, result={"content": [{"type": "text", "text": "ok"}]})
        else:
            send(id=message_id, error={"code": -32601, "message": "unknown"})


if __name__ == "__main__":
    main()

"""An MCP server of the official SDK: a tool for each thing that a server can do. As a program it speaks over its pipes."""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import Annotated, Any

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, Elicit, Image, MCPServer, Resolve, Sample
from mcp_types import (
    BlobResourceContents,
    CallToolResult,
    CreateMessageResult,
    EmbeddedResource,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel

PIXEL = b"\x89PNG\r\n\x1a\n"


class Sum(BaseModel):
    total: int


class Color(BaseModel):
    color: str


async def which_color() -> Elicit[Color]:
    return Elicit("Which color?", Color)


async def a_poem() -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text="A poem!"))], max_tokens=100)


def make_server() -> MCPServer:
    server = MCPServer("everything")
    counted: dict[str, int] = {}
    running = [0]

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int) -> CallToolResult:
        """Add two numbers."""
        return CallToolResult(content=[TextContent(type="text", text=str(a + b))])

    @server.tool()
    def structured(a: int, b: int) -> Sum:
        """Add two numbers, for programs."""
        return Sum(total=a + b)

    @server.tool()
    def picture() -> Image:
        """A picture."""
        return Image(data=PIXEL, format="png")

    @server.tool()
    def resources() -> CallToolResult:
        """Three kinds of resources."""
        return CallToolResult(
            content=[
                EmbeddedResource(
                    type="resource", resource=TextResourceContents(uri="memo://one", mime_type="text/plain", text="one")
                ),
                EmbeddedResource(
                    type="resource",
                    resource=BlobResourceContents(uri="file:///a/two.bin", mime_type="application/x-two", blob="AgI="),
                ),
                ResourceLink(type="resource_link", name="three", uri="memo://three"),
            ]
        )

    @server.tool()
    def fail() -> str:
        """Always fails."""
        raise ValueError("no such luck")

    @server.tool()
    async def steps(count: int, ctx: Context[Any, Any]) -> str:
        """Tells of each step."""
        for step in range(count):
            await ctx.report_progress(step + 1, count, f"step {step + 1}")
        return "done"

    @server.tool()
    async def hang() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return "never"

    @server.tool()
    async def ask(color: Annotated[ElicitationResult[Color], Resolve(which_color)]) -> CallToolResult:
        """Asks for a color."""
        text = color.data.color if color.action == "accept" else color.action
        return CallToolResult(content=[TextContent(type="text", text=text)])

    @server.tool()
    async def sample(said: Annotated[CreateMessageResult, Resolve(a_poem)]) -> str:
        """Has the client's model write."""
        return str(said.content)

    @server.tool()
    async def crowd() -> CallToolResult:
        """How many calls of it run at once."""
        running[0] += 1
        await asyncio.sleep(0.02)
        text = str(running[0])
        running[0] -= 1
        return CallToolResult(content=[TextContent(type="text", text=text)])

    @server.tool()
    async def grow(ctx: Context[Any, Any]) -> str:
        """Adds a tool."""

        def extra() -> str:
            """Came later."""
            return "extra"

        server.add_tool(extra)
        await ctx.notify_tools_changed()
        await ctx.session.send_tool_list_changed()
        return "grown"

    @server.tool()
    def count(name: str) -> CallToolResult:
        """Counts its calls."""
        counted[name] = counted.get(name, 0) + 1
        return CallToolResult(content=[TextContent(type="text", text=str(counted[name]))])

    @server.tool()
    def crash() -> str:
        """Ends the process."""
        os.write(2, b"it hurts\n")
        os._exit(3)

    @server.tool()
    def leave_child() -> str:
        """Starts a process that outlives this one."""
        child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return str(child.pid)

    @server.resource("memo://shown", name="shown")
    def shown() -> str:
        return "what it says"

    @server.resource("secret://hidden", name="hidden")
    def hidden() -> str:
        return "it is not read"

    @server.prompt()
    def greeting(who: str) -> str:
        """Greet somebody."""
        return f"Say hello to {who}."

    @server.prompt()
    def hidden_prompt() -> str:
        return "it is not read"

    return server


if __name__ == "__main__":
    make_server().run()

"""MCP servers: the operator's, whose tools every request has, and those that requests name."""

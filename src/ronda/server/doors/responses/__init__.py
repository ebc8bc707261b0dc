"""The doors for clients of the Responses API: create, what is stored of it, and the same over a WebSocket."""

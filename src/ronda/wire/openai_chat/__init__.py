"""OpenAI Chat Completions, in both roles: `client_*` (we call them) and `server_*` (they call us)."""

API = "openai-chat"

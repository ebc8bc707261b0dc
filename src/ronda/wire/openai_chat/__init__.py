"""OpenAI Chat Completions, in both roles: `client` (we call them) and `server` (they call us)."""

API = "openai-chat"

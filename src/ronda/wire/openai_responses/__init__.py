"""The Responses API, as OpenAI speaks it and those who speak it too."""

API = "openai-responses"

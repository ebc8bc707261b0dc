"""OpenAI's text completions, the API before chat: a prompt → a text. Only as its server: no upstream is asked in it."""

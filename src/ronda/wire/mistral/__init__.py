"""Mistral's chat and agents completions: a dialect near Chat Completions, and stricter. Only the client's role so far."""

API = "mistral"


def native_api(model: str) -> str:
    """Whose JSON of a turn it is. Another model may refuse thoughts ("Reasoning input is not enabled for this model")."""
    return f"{API}:{model}"

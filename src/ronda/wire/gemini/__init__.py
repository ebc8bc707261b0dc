"""Gemini's generateContent: `contents` of `parts`, on the Gemini API and on Vertex AI. Only the client's role."""

API = "gemini"


def native_api(model: str) -> str:
    """Whose JSON of a turn it is. A thought signature is good for the model that made it, so the model is in the name."""
    return f"{API}:{model}"

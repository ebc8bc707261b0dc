"""POST /v1/embeddings as OpenAI has it: request bytes → texts; vectors → the answer, as numbers or in base64."""

from __future__ import annotations

import sys
from array import array
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from ronda.errors import BadRequest
from ronda.wire.codec.json import encode
from ronda.wire.shared.fields import bad, field, read_bounded, read_fields

MAX_TEXTS: Final = 2048  # OpenAI's
MAX_DIMENSIONS: Final = 65_536

# Every field that is known here, and what becomes of it.
FIELDS: Final[dict[str, str]] = {
    "input": f"read: a text, or a list of up to {MAX_TEXTS}; tokens are refused",
    "model": "read: the server's embedding model by its name, or `default`, which it is if left out",
    "encoding_format": "read: float, base64",
    "dimensions": "read: passed on; a model on this machine refuses it",
    "user": "ignored",
    "any other": "ignored",
}


class EmbeddingRequest(Struct, frozen=True):
    model: str
    texts: tuple[str, ...]
    encoding: Literal["float", "base64"] = "float"
    dimensions: int | None = None


def read_embedding_request(body: bytes) -> EmbeddingRequest:
    fields = read_fields(body)
    if "input" not in fields:
        raise BadRequest("'input' is missing: it is what vectors are made of", param="input")
    given: Any = field(fields, "input", str | list[Any], "")
    texts = [given] if isinstance(given, str) else given
    if not all(isinstance(text, str) for text in texts):
        raise bad("input", "must be text: tokens of one model mean nothing to another")
    if not 1 <= len(texts) <= MAX_TEXTS:
        raise bad("input", f"has {len(texts)} texts; it can have 1 to {MAX_TEXTS}")
    if (empty := next((index for index, text in enumerate(texts) if not text), None)) is not None:
        raise bad("input" if isinstance(given, str) else f"input[{empty}]", "is empty")
    return EmbeddingRequest(
        field(fields, "model", str, "default"),
        tuple(texts),
        field(fields, "encoding_format", Literal["float", "base64"], "float"),
        read_bounded(fields, "dimensions", 1, MAX_DIMENSIONS),
    )


def write_embeddings(
    request: EmbeddingRequest,
    model: str,
    vectors: Sequence[Sequence[float]],
    tokens: int | None,
    warnings: Sequence[str] = (),
) -> bytes:
    """`tokens` is None where the model does not say how many they were; the official clients want a number."""
    write = _in_base64 if request.encoding == "base64" else list
    used = {"prompt_tokens": tokens or 0, "total_tokens": tokens or 0}
    body: dict[str, Any] = {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": write(vector)} for index, vector in enumerate(vectors)
        ],
        "model": model,
        "usage": used,
    }
    return encode({**body, "warnings": warnings} if warnings else body)


def _in_base64(vector: Sequence[float]) -> str:
    """32-bit floats, the smallest byte first."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return b64encode(numbers.tobytes()).decode("ascii")

"""Models as clients of OpenAI, Anthropic and Mistral list them. The address is the same for all three.

Every shape has the fields of OpenAI's, and those of mistral.rs (`status`, tools); what the others need stands next to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ronda.wire.resources.files import FileShape

_CREATED: Final = "1970-01-01T00:00:00Z"  # providers do not say when a model was made
_CAPABILITIES: Final = {"completion_chat": True, "function_calling": True}  # as far as a server knows of its model


def model_object(name: str, shape: FileShape, more: Mapping[str, Any]) -> dict[str, Any]:
    model = {"id": name, "object": "model", "created": 0, "owned_by": "local", **more}
    match shape:
        case "openai":
            return model
        case "anthropic":
            return {**model, "type": "model", "display_name": name, "created_at": _CREATED, "lifecycle": "active"}
        case "mistral":  # its client tells models by `type`, and takes none without
            return {**model, "type": "base", "name": name, "capabilities": _CAPABILITIES}


def model_list(models: Sequence[dict[str, Any]], shape: FileShape) -> dict[str, Any]:
    listed = {"object": "list", "data": models}
    if shape != "anthropic":
        return listed
    (first, last) = (models[0]["id"], models[-1]["id"]) if models else (None, None)
    return {**listed, "has_more": False, "first_id": first, "last_id": last}

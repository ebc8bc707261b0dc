"""A call's arguments → what the page shows of them when the tool begins: a pure function, with the page's own cuts.

The arguments are a model's: whatever is not of the kind that is expected is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_EDIT: Final = 160  # characters of an edit's texts
_PREVIEW: Final = 200  # of a file's content


def input_of(name: str, arguments: Mapping[str, Any], path: str) -> dict[str, Any]:
    """`path` is that of the page, for calls that name none."""
    match name:
        case "create_file":
            return file_input(_text(arguments.get("path")) or path, _text(arguments.get("content")))
        case "edit_file":
            return {"path": _text(arguments.get("path")) or path, "edits": _edits(arguments)}
        case "generate_images":
            return _list_summary(arguments, "prompts")
        case "remove_background":
            return _list_summary(arguments, "image_urls")
        case "edit_image":
            urls = _texts(arguments.get("image_urls") or arguments.get("images"))
            return {
                "count": len(urls),
                "prompt": _text(arguments.get("prompt")),
                "image_urls": urls,
                "aspect_ratio": _text(arguments.get("aspect_ratio")) or "match_input_image",
            }
        case "extract_assets":
            return _list_summary(arguments, "asset_descriptions", "descriptions")
        case "save_assets":
            return _list_summary(arguments, "asset_ids")
        case "retrieve_option":
            return {"option_number": arguments.get("option_number"), "index": arguments.get("index")}
        case _:
            return dict(arguments)


def file_input(path: str, content: str) -> dict[str, Any]:
    return {"path": path, "contentLength": len(content), "preview": shorten(content, _PREVIEW)}


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "..."


def _edits(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    several = arguments.get("edits")
    edits: list[Mapping[str, Any]] = []
    if isinstance(several, list):
        edits = [edit for edit in several if isinstance(edit, dict)]
    return [
        {
            "old_text": shorten(_text(edit.get("old_text")), _EDIT),
            "new_text": shorten(_text(edit.get("new_text")), _EDIT),
            "count": edit.get("count"),
        }
        for edit in edits or [arguments]
    ]


def _list_summary(arguments: Mapping[str, Any], name: str, other: str = "") -> dict[str, Any]:
    texts = _texts(arguments.get(name) or arguments.get(other))
    return {"count": len(texts), name: texts}


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

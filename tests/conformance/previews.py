"""What is shown of a call's arguments at every prefix of them: it only grows, and nothing around it leaks."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from ronda.wire.codec.partial_json import Patch, pointer
from ronda.wire.shared.preview import CallPreview


class Watcher:
    """A client that knows only the patches."""

    def __init__(self) -> None:
        self.value: dict[str, Any] = {}

    def take(self, patch: Patch) -> None:
        *above, last = patch.path
        place: Any = self.value
        for key in above:
            place = place[key]
        if patch.op == "append":
            place[last] += patch.value
        elif isinstance(place, list):
            assert last == len(place), f"{pointer(patch.path)} was set before"
            place.append(patch.value)
        else:
            assert last not in place, f"{pointer(patch.path)} was set before"
            place[last] = patch.value


def check_every_prefix(arguments: dict[str, Any]) -> None:
    """Every second member is watched: what stands between them must not be seen."""
    for text in (json.dumps(arguments), json.dumps(arguments, ensure_ascii=False, indent=1)):
        watched = [*arguments][::2]
        final = {name: arguments[name] for name in watched}
        preview, watcher = CallPreview([pointer((name,)) for name in watched]), Watcher()
        for at, sign in enumerate(text):
            for patch in preview.feed(sign):
                watcher.take(patch)
            assert _is_beginning(watcher.value, final), f"at {at}: {watcher.value!r:.200}"
        assert preview.close(text) == [], "what was shown is not what runs"
        assert watcher.value == final, f"{watcher.value!r:.200}"


def check_long_document(seed: int) -> None:
    """A page of a megabyte, at random cuts."""
    dice = Random(seed)
    signs = ['<div class="row">', "\\", '"', "\n", "\t", "é", "漢", "😀", "text " * 9, "</div>"]
    content = "".join([dice.choice(signs) for _ in range(150_000)])
    members = {"path": "index.html", "content": content, "note": "content"}
    text = json.dumps(members, ensure_ascii=bool(seed % 2))
    assert len(text) > 1_000_000
    preview, shown, at = CallPreview(["/content"]), 0, 0
    while at < len(text):
        size = dice.randint(1, dice.choice((1, 4, 7, 100, 5000)))
        for patch in preview.feed(text[at : at + size]):
            assert patch.path == ("content",)
            assert content.startswith(patch.value, shown), f"at {at}: {patch.value!r:.100}"
            shown += len(patch.value)
        at += size
    assert shown == len(content)
    assert preview.close(text) == []


def _is_beginning(shown: Any, final: Any) -> bool:
    """Whether a value can still grow into another."""
    if isinstance(final, str) and isinstance(shown, str):
        return final.startswith(shown)
    if isinstance(final, dict) and isinstance(shown, dict):
        return all(key in final and _is_beginning(value, final[key]) for key, value in shown.items())
    if isinstance(final, list) and isinstance(shown, list):
        return len(shown) <= len(final) and all(map(_is_beginning, shown, final))
    return type(shown) is type(final) and bool(shown == final)

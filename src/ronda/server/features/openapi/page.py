"""The OpenAPI document → a page that people read: one file, which loads nothing, and works without scripts.

Its script filters what is shown, and opens what an address names. Style and script are allowed by their hashes, nothing else is.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, Final

from ronda.server.http.incoming import Header

_DEEPEST: Final = 3  # levels of a schema that are written out; deeper ones are named
_SAMPLES: Final = {"string": "text", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}


@cache
def _asset(name: str) -> str:
    return files("ronda.server.features.openapi").joinpath(name).read_text("utf-8").strip()


def _style() -> str:
    return _asset("reference.css")


def _script() -> str:
    return _asset("reference.js")


def page_headers() -> list[Header]:
    def hashed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    policy = (
        f"default-src 'none'; style-src {hashed(_style())}; script-src {hashed(_script())}; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )
    return [
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
    ]


def write_page(document: Mapping[str, Any], root: str = "") -> bytes:
    """`root` is the path that the server is mounted at."""
    writer = _Writer(document, root)
    groups = writer.groups()
    links = "".join([f'<a href="#{_slug(tag)}">{escape(tag)} <span>{len(found)}</span></a>' for tag, found in groups])
    sections = "".join([writer.section(tag, found) for tag, found in groups])
    info = document["info"]
    text = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Ronda API</title>
<style>{_style()}</style>
</head>
<body>
<header>
<h1>Ronda API <small>{escape(info["version"])}</small></h1>
<p>{escape(info["description"])} <a href="{escape(root)}/openapi.json">openapi.json</a></p>
<label><span>Search</span><input id="search" type="search" placeholder="path, method or word" autocomplete="off"></label>
<p id="found" role="status"></p>
</header>
<nav aria-label="APIs">{links}</nav>
<main>{sections}</main>
<script>{_script()}</script>
</body>
</html>
"""
    return text.encode()


class _Writer:
    def __init__(self, document: Mapping[str, Any], root: str) -> None:
        self._document = document
        self._schemas: Mapping[str, Any] = document["components"]["schemas"]
        self._root = root

    def groups(self) -> list[tuple[str, list[tuple[str, str, Mapping[str, Any]]]]]:
        """The operations of each tag."""
        found: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {tag["name"]: [] for tag in self._document["tags"]}
        for path, item in self._document["paths"].items():
            for method, operation in item.items():
                found[operation["tags"][0]].append((method, path, operation))
        return list(found.items())

    def section(self, tag: str, operations: Iterable[tuple[str, str, Mapping[str, Any]]]) -> str:
        written = "".join([self._operation(*one) for one in operations])
        return f'<section id="{_slug(tag)}"><h2>{escape(tag)}</h2>{written}</section>'

    def _operation(self, method: str, path: str, operation: Mapping[str, Any]) -> str:
        word = "ws" if "101" in operation["responses"] else method
        summary = (
            f'<summary><span class="method {word}">{word.upper()}</span><code>{_breakable(path)}</code>'
            f"<span>{_words(operation['summary'])}</span></summary>"
        )
        parts = [
            f"<p>{_words(operation['description'])}</p>" if "description" in operation else "",
            "" if operation["security"] else "<p>Open to everybody: no key is needed.</p>",
            self._parameters(operation.get("parameters", ())),
            self._body(operation.get("requestBody")),
            self._example(method, path, operation),
            *[self._response(status, one) for status, one in operation["responses"].items()],
        ]
        return f'<details id="{escape(operation["operationId"])}">{summary}<div>{"".join(parts)}</div></details>'

    def _parameters(self, parameters: Iterable[Mapping[str, Any]]) -> str:
        rows = [
            _row(
                one["name"],
                self._kind(one["schema"]),
                one.get("description", ""),
                mark=_mark("needed", is_required=one.get("required", False)),
            )
            for one in parameters
        ]
        return f"<h3>Parameters</h3><dl>{''.join(rows)}</dl>" if rows else ""

    def _body(self, body: Mapping[str, Any] | None) -> str:
        if body is None:
            return ""
        [(kind, content)] = body["content"].items()
        shown = self._schema(content["schema"])
        return f"<h3>Body <small>{escape(kind)}</small></h3>{shown or '<p>Any JSON.</p>'}"

    def _response(self, status: str, response: Mapping[str, Any]) -> str:
        contents = []
        for kind, content in response.get("content", {}).items():
            schema = content.get("x-event", content["schema"])
            what = "each event" if "x-event" in content else kind
            contents.append(
                f"<p><small>{escape(what)}</small> {self._kind(schema)}</p>{self._schema(schema, says='always')}"
            )
        return f"<h3>{escape(status)} <small>{_words(response['description'])}</small></h3>{''.join(contents)}"

    def _example(self, method: str, path: str, operation: Mapping[str, Any]) -> str:
        if "101" in operation["responses"]:
            return ""
        command = f"curl{'' if method == 'get' else f' -X {method.upper()}'} http://127.0.0.1:1234{self._root}{path}"
        if operation["security"]:
            command += " \\\n  -H 'Authorization: Bearer KEY'"
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if body is not None:
            sample = self._sample(body["schema"])
            command += f" \\\n  -H 'Content-Type: application/json' \\\n  -d '{json.dumps(sample)}'"
        return f"<h3>Example</h3><pre><code>{escape(command)}</code></pre>"

    def _sample(self, schema: Mapping[str, Any]) -> Any:
        """The members that must be there, each as small as can be."""
        properties = schema.get("properties", {})
        return {name: self._sample_of(properties[name]) for name in schema.get("required", ()) if name in properties}

    def _sample_of(self, schema: Mapping[str, Any]) -> Any:
        if "enum" in schema:
            return schema["enum"][0]
        if "anyOf" in schema:
            return self._sample_of(schema["anyOf"][0])
        return _SAMPLES.get(schema.get("type", "string"), "text")

    def _schema(self, schema: Mapping[str, Any], depth: int = 0, says: str = "needed") -> str:
        """The members of an object, or of the objects in a list. `says`: which are "needed", or which are "always" there."""
        schema = self._resolved(schema)
        if schema.get("type") == "array":
            return self._schema(schema["items"], depth, says)
        properties = schema.get("properties")
        if not properties or depth >= _DEEPEST:
            return ""
        needed = schema.get("required", ())
        rows = [
            _row(
                name,
                self._kind(one),
                one.get("description", ""),
                mark=_mark(says, is_required=name in needed),
                inner="" if "$ref" in one and depth else self._schema(one, depth + 1, says),
            )
            for name, one in properties.items()
        ]
        return f"<dl>{''.join(rows)}</dl>"

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        if "$ref" in schema:
            found: Mapping[str, Any] = self._schemas[schema["$ref"].rpartition("/")[2]]
            return found
        return schema

    def _kind(self, schema: Mapping[str, Any]) -> str:
        """A schema in a few words, as HTML."""
        if "$ref" in schema:
            return f"<i>{escape(schema['$ref'].rpartition('/')[2])}</i>"
        if "const" in schema:
            return f"<code>{escape(json.dumps(schema['const']))}</code>"
        if "enum" in schema:
            return " | ".join([f"<code>{escape(json.dumps(one))}</code>" for one in schema["enum"]])
        if "anyOf" in schema:
            return " | ".join(dict.fromkeys([self._kind(one) for one in schema["anyOf"]]))
        kind = schema.get("type")
        if kind == "array":
            return f"list of {self._kind(schema['items'])}"
        return f"<i>{escape(str(kind or 'any'))}</i>"


def _mark(says: str, *, is_required: bool) -> str:
    if says == "needed":
        return " <b>needed</b>" if is_required else ""
    return "" if is_required else " <small>not always</small>"


def _row(name: str, kind: str, text: str, mark: str, inner: str = "") -> str:
    said = f"<p>{_words(text)}</p>" if text else ""
    return f"<dt><code>{escape(name)}</code> {kind}{mark}</dt><dd>{said}{inner}</dd>"


def _words(text: str) -> str:
    """`code` in a sentence."""
    pieces = escape(text).split("`")
    return "".join([f"<code>{one}</code>" if index % 2 else one for index, one in enumerate(pieces)])


def _breakable(path: str) -> str:
    return escape(path).replace("/", "/<wbr>")


def _slug(tag: str) -> str:
    return "api-" + "-".join(tag.lower().split())

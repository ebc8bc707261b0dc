"""A 2020-12 schema and a provider's rules → the same schema in the words the provider knows, or a looser one.

The one promise: whatever fits the schema fits the result. So what has no word is left out (and said in the description,
where the model may read it), and where looser would mean tighter, inside `not`, `if` and `oneOf`, the whole is left out
or turned into `anyOf`. References are written out where the provider takes none; one that leads back to itself is cut
to its bare type.

Work is bounded: schemas come from clients, and references double with every level.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ronda.schema.document import BASE, Document
from ronda.schema.lower_draft import ANNOTATIONS, are_types
from ronda.schema.lower_merge import both
from ronda.schema.lower_rules import Rules
from ronda.schema.subschemas import SCHEMA_LISTS, SCHEMA_MAPS, SCHEMAS, Schema

MAX_NODES: Final = 5_000  # subschemas of the result
MAX_DEPTH: Final = 60  # of the result, in subschemas: references may add to what the schema has itself
MAX_NOTE: Final = 300  # characters of what is said in a description instead of in keywords

_IDENTITY: Final = frozenset({"$id", "$anchor", "$dynamicAnchor", "$defs", "definitions"})
_CONSTRAINTS: Final = (
    frozenset({*SCHEMA_MAPS, *SCHEMA_LISTS, *SCHEMAS, "$ref", "$dynamicRef", "type", "enum", "const", "format"})
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern"}
    | {"minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties"}
    | {"required", "dependentRequired"}
) - _IDENTITY
# Without the first of these the others mean something else, or nothing.
_LEANS_ON: Final = {
    "patternProperties": ("additionalProperties",),
    "prefixItems": ("items",),
    "contains": ("minContains", "maxContains"),
    "if": ("then", "else"),
}


_OF_CONTAINERS: Final = frozenset(
    {"items", "prefixItems", "minItems", "maxItems", "properties", "required", "additionalProperties"}
    | {"minProperties", "maxProperties"}
)


class Walk:
    """One schema on its way to one provider."""

    def __init__(self, root: Schema, rules: Rules, base: str = BASE) -> None:
        self.document = Document(root)
        self.loosened = 0  # how often the result came to allow more than the schema
        self._rules = rules
        self._nodes = 0
        self._open = [id(root)]  # targets of references being written out, outermost first
        self._base = [base]

    def loosen(self) -> None:
        self.loosened += 1

    # ---- one schema ----------------------------------------------------------------------------------------------------

    def node(self, schema: Any, depth: int = 0, loosened: int | None = None) -> Any:
        """`loosened`: how often that was before anything here was, where something of it was seen to already."""
        if isinstance(schema, bool):
            return schema
        self._nodes += 1
        if not isinstance(schema, dict) or self._nodes > MAX_NODES or depth > MAX_DEPTH:
            self.loosen()  # no schema, too large or too deep: anything goes here
            return {}
        before = self.loosened if loosened is None else loosened
        if not self._rules.references:
            if "$dynamicRef" in schema:
                schema = self._static(schema)
            if "$ref" in schema:
                return self._written_out(schema, depth, before)
        self._base.append(self.document.base(schema, self._base[-1]))
        lowered = self._lowered(schema, depth, before)
        self._base.pop()
        return lowered

    def _lowered(self, schema: Schema, depth: int, before: int) -> Schema:
        out: Schema = {}
        dropped: Schema = {}
        for keyword, value in schema.items():
            if keyword in _IDENTITY and not self._rules.references:
                continue
            if keyword == "type" and not are_types(value):
                continue
            if keyword in SCHEMA_MAPS and isinstance(value, dict):
                out[keyword] = {name: self.node(sub, depth + 1) for name, sub in value.items()}
            elif keyword in SCHEMA_LISTS and isinstance(value, list):
                mark = self.loosened
                out[keyword] = [self.node(sub, depth + 1) for sub in value]
                if keyword == "oneOf" and self.loosened > mark:
                    self._either(out)
            elif keyword in ("not", "if", "contains"):
                self._turned(schema, out, dropped, keyword, depth)
            elif keyword in SCHEMAS and isinstance(value, (dict, bool)):
                out[keyword] = self.node(value, depth + 1)
            else:
                out[keyword] = value
        for keyword in dropped:
            out.pop(keyword, None)
        self._restrict(out, dropped)
        if self.loosened > before:  # these ask the others what has been seen, and the others may see less now
            out.pop("unevaluatedProperties", None)
            out.pop("unevaluatedItems", None)
        if dropped:
            say(out, dropped)
        return out

    def _turned(self, schema: Schema, out: Schema, dropped: Schema, keyword: str, depth: int) -> None:
        """Where a looser subschema makes a tighter whole: all or nothing."""
        mark = self.loosened
        lowered = self.node(schema[keyword], depth + 1)
        if self.loosened == mark or (keyword == "contains" and "maxContains" not in schema):
            out[keyword] = lowered
            return
        for other in (keyword, *_LEANS_ON.get(keyword, ())):
            if other in schema:
                dropped[other] = schema[other]

    def _either(self, out: Schema) -> None:
        branches = out.pop("oneOf")
        self.loosen()  # more than one alternative may fit
        if "anyOf" in out:
            out["allOf"] = [*out.get("allOf", ()), {"anyOf": branches}]
        else:
            out["anyOf"] = branches

    # ---- words the provider does not know --------------------------------------------------------------------------------

    def _restrict(self, out: Schema, dropped: Schema) -> None:
        keywords = self._rules.keywords
        if keywords is not None:
            self._reword(out, keywords)
            for keyword in [keyword for keyword in out if keyword not in keywords]:
                if keyword not in out:
                    continue
                value = out.pop(keyword)
                if keyword not in _CONSTRAINTS:
                    continue
                self.loosen()
                dropped[keyword] = value
                for other in _LEANS_ON.get(keyword, ()):
                    if other in out and out[other] is not True:
                        dropped[other] = out.pop(other)
        if out.get("enum") == []:
            dropped["enum"] = out.pop("enum")  # nothing fits: it cannot be said
            self.loosen()
        formats, string_format = self._rules.formats, out.get("format")
        if formats is not None and isinstance(string_format, str) and string_format not in formats:
            dropped["format"] = out.pop("format")
            self.loosen()
        if keywords is not None and isinstance(options := out.get("enum"), list):
            self._enum(out, options)  # last: it may move what is left into an alternative
        if self._rules.required_known and isinstance(required := out.get("required"), list):
            known = [name for name in required if name in out.get("properties", {})]
            if known != required:
                dropped["required"] = required
                self.loosen()
                out["required"] = known
                if not known:
                    del out["required"]
        if self._rules.items_needed and "items" not in out and "array" in types_of(out):
            out["items"] = {}
        if self._rules.properties_needed and "properties" not in out and out.get("type") == "object":
            out["properties"] = {}

    def _reword(self, out: Schema, keywords: frozenset[str]) -> None:
        """The same in words that are known, as far as that goes."""
        if "const" in out and "const" not in keywords:
            value = out.pop("const")
            options = out.get("enum")
            if options is None:
                out["enum"] = [value]
            else:
                self.loosen()
        for exclusive, plain, stronger in (("exclusiveMinimum", "minimum", max), ("exclusiveMaximum", "maximum", min)):
            if exclusive in out and exclusive not in keywords:
                bound = out.pop(exclusive)
                out[plain] = stronger(out[plain], bound) if plain in out else bound
                self.loosen()  # the bound itself is allowed
        if "oneOf" in out and "oneOf" not in keywords:
            self._either(out)
        if "allOf" in out and "allOf" not in keywords:
            merged: Any = {key: value for key, value in out.items() if key != "allOf"}
            for branch in out["allOf"]:
                merged = both(merged, branch, self.loosen)
            if merged is False:
                self.loosen()  # nothing fits: it cannot be said
                merged = {}
            out.clear()
            out.update(merged)

    def _enum(self, out: Schema, options: list[Any]) -> None:
        """Only texts, or only numbers, of which none is empty; null is an alternative of its own."""
        plain = [option for option in options if option is not None]
        texts = all(isinstance(option, str) and option for option in plain)
        numbers = all(_type_of(option) == "number" for option in plain)
        nullable = len(plain) < len(options)
        if not plain or not (texts or numbers) or (nullable and "anyOf" in out):
            del out["enum"]
            self.loosen()
            out.setdefault("type", list(dict.fromkeys(_type_of(option) for option in options)))
            say(out, {"enum": options})
            return
        types = types_of(out)
        if texts and "array" in types and "string" not in types:
            self._enum_of_items(out, plain)
            return
        kind = "string" if texts else "integer" if "integer" in types else "number"
        out["enum"], out["type"] = plain, kind
        for keyword in _OF_CONTAINERS & out.keys():
            del out[keyword]
        if nullable:
            inner = {key: out.pop(key) for key in list(out) if key not in ("title", "description", "default")}
            out["anyOf"] = [inner, {"type": "null"}]

    def _enum_of_items(self, out: Schema, options: list[Any]) -> None:
        """Texts that a list should be one of, which it cannot be: what may stand in the list was meant."""
        del out["enum"]
        self.loosen()
        items = out.get("items", {})
        if isinstance(items, dict) and "enum" not in items and types_of(items) in ([], ["string"]):
            out["items"] = {**items, "type": "string", "enum": options}
        else:
            say(out, {"enum": options})

    # ---- references --------------------------------------------------------------------------------------------------------

    def _static(self, schema: Schema) -> Schema:
        reference = schema["$dynamicRef"]
        rest = {key: value for key, value in schema.items() if key != "$dynamicRef"}
        if isinstance(reference, str) and self.document.is_plain(reference):
            if "$ref" in rest:
                return {**rest, "allOf": [*rest.get("allOf", ()), {"$ref": reference}]}
            return {"$ref": reference, **rest}
        self.loosen()  # what it means depends on who asks
        return rest

    def _written_out(self, schema: Schema, depth: int, before: int) -> Any:
        known = self._rules.keywords
        rest = {key: value for key, value in schema.items() if key != "$ref" and key not in _IDENTITY}
        if "$id" in schema or not rest.keys() <= ANNOTATIONS:
            # What is next to a reference holds too.
            own = {key: value for key, value in schema.items() if key != "$ref"}
            own["allOf"] = [*own.get("allOf", ()), {"$ref": schema["$ref"]}]
            return self.node(own, depth, before)
        rest = {key: value for key, value in rest.items() if known is None or key in known}
        reference = schema["$ref"]
        found = self.document.find(reference, self._base[-1]) if isinstance(reference, str) else None
        if found is None:
            self.loosen()  # it leads nowhere in this schema
            return rest
        target, base = found
        if self._open.count(id(target)) > self._rules.unrolled:
            self.loosen()  # it refers to itself: cut here
            kind = target.get("type") if isinstance(target, dict) else None
            return {"type": kind, **rest} if isinstance(kind, str) else rest
        self._open.append(id(target))
        self._base.append(base)
        written = self.node(target, depth + 1)
        self._open.pop()
        self._base.pop()
        return {**written, **rest} if isinstance(written, dict) else written


def types_of(schema: Schema) -> list[str]:
    """The types a schema names; none when it does not say."""
    type_name = schema.get("type")
    if isinstance(type_name, list):
        return [name for name in type_name if isinstance(name, str)]
    return [type_name] if isinstance(type_name, str) else []


def say(out: Schema, dropped: Schema) -> None:
    """What has no keyword can still be read: it goes to the end of the description."""
    fields = {key: value for key, value in dropped.items() if value is not None}
    try:
        note = msgspec.json.encode(fields).decode()
    except (TypeError, ValueError, RecursionError):
        return
    if not fields or len(note) > MAX_NOTE or '"$ref"' in note:
        return
    before = out.get("description")
    out["description"] = f"{before}\n\n{note}" if isinstance(before, str) and before else note


def _type_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case None:
            return "null"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"

"""JSON Schemas of others: our verdict on every recorded instance is the recorded one, and every provider takes every schema.

A schema that refers to another document gets that document inside itself, since ours is not fetched from anywhere: that is
checked too. Recorded tools that a provider took go to it as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urldefrag, urljoin

from tests.conformance.report import Excepted, PartResult, Tally, absent, same
from tests.schema.takers import DRAFT_7, refusals

from ronda.schema.lower import ANTHROPIC, GEMINI, MISTRAL, OPENAI, RULES, Rules, lower
from ronda.schema.validate import SchemaError, Validator, check_schema

Json: TypeAlias = Any

REMOTES = "http://localhost:1234/"
REFERENCES = ('"$ref"', '"$dynamicRef"', '"$id"', '"$anchor"')


def run(data: Path) -> PartResult:
    folder = data / "schemas"
    tally = Tally()
    bench = _lines(folder / "jsonschemabench.jsonl", tally)
    suite = _lines(folder / "json-schema-test-suite.jsonl", tally)
    if not bench and not suite:
        return absent("a schema of schemas/")
    for number, group in enumerate(bench, 1):
        with tally.guard(f"jsonschemabench, group {number}"):
            _check_bench(tally, group)
    remotes = _remotes(folder / "remotes")
    for number, group in enumerate(suite, 1):
        with tally.guard(f"test suite, group {number}"):
            _check_suite(tally, group, remotes)
    _check_recorded_tools(tally, data / "traffic")
    return tally.result()


def _check_bench(tally: Tally, group: Json) -> None:
    validator = Validator(group["schema"], formats=True)
    for test in group["tests"]:
        tally.check("jsonschemabench", group["id"], partial(_agrees, validator, test))
    _check_lowered(tally, "jsonschemabench", group["id"], group["schema"], group["tests"], formats=True)


def _agrees(validator: Validator, test: Json) -> None:
    problems = validator.problems(test["data"])
    verdict = "fits" if not problems else f"does not fit: {problems[0]}"
    assert (not problems) == test["valid"], f"ours: {verdict}; recorded: {test['valid']} ({test['description']})"


# ---- the test suite ---------------------------------------------------------------------------------------------------


def _check_suite(tally: Tally, group: Json, remotes: dict[str, Json]) -> None:
    kind = "test suite, optional" if group["optional"] else "test suite"
    who = f"{group['draft']} {group['file']}: {group['description']}"
    schema = group["schema"]
    if group["draft"] == "draft7" and isinstance(schema, dict):
        schema = {"$schema": DRAFT_7, **schema}
    formats = "format/" in group["file"]  # `format.json` itself says that it is only a note
    if _leads_out(schema):
        tally.check("nothing is fetched", who, partial(_is_refused, schema))
        schema = _bundled(schema, remotes)
    for test in group["tests"]:
        tally.check(kind, f"{who}: {test['description']}", partial(_suite_agrees, schema, test, formats, remotes))
    if isinstance(schema, dict) and check_schema(schema) is None:
        _check_lowered(tally, kind, who, schema, group["tests"], formats=False)
        if not any(keyword in json.dumps(schema) for keyword in REFERENCES):
            inside, tests = _inside(schema, group["tests"])
            _check_lowered(tally, kind, f"{who}, as a property", inside, tests, formats=False)


def _suite_agrees(schema: Json, test: Json, formats: bool, remotes: dict[str, Json]) -> None:
    if isinstance(schema, dict) and schema.get("$schema", "").startswith(REMOTES):
        raise Excepted("a meta-schema of its own: only the drafts are known, and the schema is refused by name")
    try:
        _agrees(Validator(schema, formats=formats), test)
    except SchemaError as error:
        if any(address.startswith(REMOTES) for address in _references(schema) - _addresses(schema) - remotes.keys()):
            raise Excepted("refers to a document that is not in the data") from error
        raise


def _references(node: Json, base: str = "") -> set[str]:
    """The addresses that references lead to, wherever they stand."""
    if isinstance(node, list):
        return {address for item in node for address in _references(item, base)}
    if not isinstance(node, dict):
        return set()
    base = urljoin(base, node["$id"]) if isinstance(node.get("$id"), str) else base
    found = {address for item in node.values() for address in _references(item, base)}
    return found | {urldefrag(urljoin(base, node[key]))[0] for key in ("$ref", "$dynamicRef") if key in node}


def _addresses(node: Json, base: str = "") -> set[str]:
    """The addresses that the schema itself gives to its parts."""
    if isinstance(node, list):
        return {address for item in node for address in _addresses(item, base)}
    if not isinstance(node, dict):
        return set()
    base = urldefrag(urljoin(base, node["$id"]))[0] if isinstance(node.get("$id"), str) else base
    return {base}.union(*[_addresses(item, base) for item in node.values()])


def _is_refused(schema: Json) -> None:
    problem = check_schema(schema)
    assert problem is not None, "compiled, although it refers to another document"


def _leads_out(schema: Json) -> bool:
    problem = check_schema(schema)
    return problem is not None and "nothing is fetched from outside" in problem


def _bundled(schema: Json, remotes: dict[str, Json]) -> Json:
    """The schema with the documents it may refer to among its definitions, each under its address."""
    definitions = "definitions" if schema.get("$schema") == DRAFT_7 else "$defs"
    draft = "draft7/" if definitions == "definitions" else "draft2020-12/"
    documents: dict[str, Json] = {}
    for address, document in remotes.items():
        if not isinstance(document, dict) or ("draft" in address and draft not in address):
            continue
        own = document.get("$id")
        documents[address] = {"$id": address, **document}
        if own is not None and own != address:
            documents[f"{address} itself"] = {"$id": address, "allOf": [{"$ref": own}]}
    if "$ref" in schema and definitions == "definitions":  # beside a reference nothing counted
        schema = {"$schema": DRAFT_7, "allOf": [{key: value for key, value in schema.items() if key != "$schema"}]}
    return {**schema, definitions: {**schema.get(definitions, {}), **documents}}


def _inside(schema: Json, tests: list[Json]) -> tuple[Json, list[Json]]:
    """The schema as that of a property, so that instances of every type are arguments of a tool."""
    inner = {key: value for key, value in schema.items() if key != "$schema"}
    whole = {"type": "object", "properties": {"value": inner}, "required": ["value"]}
    if "$schema" in schema:
        whole = {"$schema": schema["$schema"], **whole}
    return whole, [{**test, "data": {"value": test["data"]}} for test in tests]


# ---- lowering -----------------------------------------------------------------------------------------------------------


def _check_lowered(tally: Tally, kind: str, who: str, schema: Json, tests: list[Json], *, formats: bool) -> None:
    fitting = [test["data"] for test in tests if test["valid"] and isinstance(test["data"], dict)]
    for rules in RULES:
        tally.check(
            f"{kind}, lowered", f"{who} for {rules.provider}", partial(_is_taken, schema, rules, fitting, formats)
        )


def _is_taken(schema: Json, rules: Rules, fitting: list[Json], formats: bool) -> None:
    """The provider takes it, and whatever fitted still does."""
    lowered = lower(schema, rules)
    said = refusals(rules.provider, lowered.schema, strict=lowered.strict)
    assert said == [], f"{said[0]} in {json.dumps(lowered.schema)}"
    validator = Validator(lowered.schema, formats=formats)
    called = {name: new for new, name in lowered.names.items()}
    for value in fitting:
        sent = {called.get(name, name): item for name, item in value.items()}
        problems = validator.problems(sent)
        assert problems == [], f"{problems[0]} in {json.dumps(lowered.schema)}"
        same(lowered.restore(sent), value, "arguments under their own names")


# ---- recorded tools -----------------------------------------------------------------------------------------------------


def _check_recorded_tools(tally: Tally, folder: Path) -> None:
    for file, rules in (
        ("openai-chat.jsonl", OPENAI),
        ("openai-responses.jsonl", OPENAI),
        ("anthropic.jsonl", ANTHROPIC),
        ("mistral.jsonl", MISTRAL),
        ("gemini.jsonl", GEMINI),
    ):
        for number, exchange in enumerate(_lines(folder / file, tally), 1):
            with tally.guard(f"{file}, exchange {number}"):
                if exchange["response_status"] < 400 and isinstance(exchange.get("request"), dict):
                    for schema, strict, meant in _declared(exchange["request"], rules):
                        tally.check("recorded tools", exchange["id"], partial(_goes_as_it_is, schema, strict, meant))


def _declared(request: Json, rules: Rules) -> Iterator[tuple[Json, bool, Rules]]:
    for tool in request.get("tools") or []:
        function = tool.get("function", tool)
        schema = function.get("input_schema", function.get("parameters"))
        if isinstance(schema, dict) and "properties" in schema:  # a hosted tool has settings there
            yield schema, function.get("strict") is True, rules
        for one in tool.get("functionDeclarations") or tool.get("function_declarations") or []:
            for field in ("parametersJsonSchema", "parameters_json_schema"):
                if field in one:
                    yield one[field], False, GEMINI


def _goes_as_it_is(schema: Json, strict: bool, rules: Rules) -> None:
    if str(schema.get("type")).isupper():
        raise Excepted("types in capitals: protobuf's own spelling, which is no JSON Schema")
    if not rules.references and "$ref" in json.dumps(schema):
        raise Excepted(f"{rules.provider} takes references only under conditions: they are written out")
    lowered = lower(schema, rules)
    same(lowered.schema, schema, "the schema that the provider took")
    if strict:
        assert lowered.strict, "was strict"


# ---- the data -----------------------------------------------------------------------------------------------------------


def _lines(path: Path, tally: Tally) -> list[Json]:
    if not path.is_file():
        return []
    found: list[Json] = []
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        if line.strip():
            with tally.guard(f"{path.name}:{number}"):
                found.append(json.loads(line))
    return found


def _remotes(folder: Path) -> dict[str, Json]:
    return {
        f"{REMOTES}{path.relative_to(folder).as_posix()}": json.loads(path.read_text("utf-8"))
        for path in sorted(folder.rglob("*.json"))
    }

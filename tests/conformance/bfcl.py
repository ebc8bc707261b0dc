"""Every tool of the Berkeley Function Calling Leaderboard, lowered for every provider; every recorded call, spoilt and repaired.

Without loss is: the provider takes it, every name leads back, every property and description is still there, and every
recorded call that fits the tool fits what the provider gets. A spoilt call is put right exactly, or refused.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from tests.conformance.previews import check_every_prefix, check_long_document
from tests.conformance.report import Excepted, PartResult, Tally, absent
from tests.schema.takers import nodes, refusals

from ronda.core.arguments import recover
from ronda.schema.lower import RULES, Rules, lower, lower_names
from ronda.schema.lower_merge import same
from ronda.schema.repair import repair
from ronda.schema.validate import Validator

Json: TypeAlias = Any
FUNCTIONS = "multi_turn_functions.json"


class Tool(Struct, frozen=True, eq=False):
    name: str
    parameters: Json


class Call(Struct, frozen=True, eq=False):
    """A recorded call, with one of the accepted values for each argument."""

    id: str
    tool: Tool
    arguments: Json


def run(data: Path) -> PartResult:
    tally = Tally()
    records = list(_records(data, tally))
    tools = _in_each(records, tally, _tools)
    if not tools:
        return absent("a tool of bfcl/")
    tools += [(name, tool) for name, found in _classes(data).items() for tool in found]
    for record, ours in _in_each(records, tally, partial(_toolset, data)):
        for rules in RULES:
            who = f"{record} for {rules.provider}"
            tally.check("toolsets, named", who, partial(_names_lead_back, ours, rules))
    for where, tool in tools:
        for rules in RULES:
            who = f"{where} {tool.name} for {rules.provider}"
            tally.check("tools, lowered", who, partial(_is_taken_whole, tool, rules))
    recorded = _in_each(records, tally, partial(_calls, data))
    calls = tally.select(recorded, _fits)
    if len(calls) < len(recorded):
        tally.note(f"{len(recorded) - len(calls)} recorded calls do not fit their own tool, and are not used")
    for call in calls:
        for rules in RULES:
            tally.check("calls, lowered", f"{call.id} for {rules.provider}", partial(_still_fits, call, rules))
        tally.check("calls, unspoilt", call.id, partial(_is_left_alone, call, call.arguments))
    for call in recorded:
        tally.check("calls, previewed at every prefix", call.id, partial(check_every_prefix, call.arguments))
    for seed in range(4):
        tally.check("a megabyte, previewed at random cuts", str(seed), partial(check_long_document, seed))
    counts = Counter[str]()
    for call in calls:
        for kind, spoilt in _spoilt(call):
            if not _validator(call.tool).problems(spoilt):
                tally.check("calls, spoilt but fitting", f"{call.id} {kind}", partial(_is_left_alone, call, spoilt))
            else:
                who = f"{call.id} {kind}"
                tally.check("calls, spoilt", who, partial(_is_put_right, call, spoilt, counts))
        for kind, text in _spoilt_texts(call):
            tally.check("texts, spoilt", f"{call.id} {kind}", partial(_is_read, call, text))
    tally.note(f"of the spoilt calls {counts['put right']} were put right and {counts['refused']} refused")
    return tally.result()


# ---- checks -----------------------------------------------------------------------------------------------------------


def _names_lead_back(names: list[str], rules: Rules) -> None:
    called = lower_names(names, rules)
    back = {new: name for name, new in called.items()}
    assert [back[called[name]] for name in names] == names, called
    assert [name for name in called.values() if not re.fullmatch(rules.tool_name, name)] == []


def _is_taken_whole(tool: Tool, rules: Rules) -> None:
    lowered = lower(tool.parameters, rules)
    assert (said := refusals(rules.provider, lowered.schema, strict=lowered.strict)) == [], said
    again = lower(json.loads(json.dumps(tool.parameters)), rules)
    assert msgspec.json.encode(again.schema) == msgspec.json.encode(lowered.schema), "not the same bytes"
    assert _described(lowered.schema) >= _described(tool.parameters), "a property or its description is lost"


def _described(schema: Json) -> set[tuple[str, str]]:
    """Each property by its path, with what is said of it, as far as the schema itself says it."""
    found = set()
    for path, node in nodes(schema):
        if isinstance(node, dict) and "/properties/" in path:
            place = path.replace("/anyOf/0", "")
            found.add((place, str(node.get("description", "")).partition("\n\n{")[0]))
            found.add((place, ""))
    return found


def _still_fits(call: Call, rules: Rules) -> None:
    lowered = lower(call.tool.parameters, rules)
    called = {name: new for new, name in lowered.names.items()}
    sent = {called.get(name, name): value for name, value in call.arguments.items()}
    problems = Validator(lowered.schema).problems(sent)
    assert problems == [], str(problems)
    assert lowered.restore(sent) == call.arguments


def _is_left_alone(call: Call, arguments: Json) -> None:
    repaired = repair(arguments, call.tool.parameters, _validator(call.tool))
    assert repaired is not None
    assert repaired.arguments is arguments, repaired.repairs
    assert repaired.repairs == ()


def _is_put_right(call: Call, spoilt: Json, counts: Counter[str]) -> None:
    """Or refused: then the model is asked again."""
    repaired = repair(spoilt, call.tool.parameters, _validator(call.tool))
    counts["refused" if repaired is None else "put right"] += 1
    if repaired is None:
        return
    assert _validator(call.tool).problems(repaired.arguments) == []
    assert repaired.repairs, "changed, and no warning says so"
    assert same(repaired.arguments, call.arguments), f"{spoilt} became {repaired.arguments} by {repaired.repairs}"


def _is_read(call: Call, text: str) -> None:
    recovered = recover(text)
    if recovered is None:
        raise Excepted("refused: the model is asked again")
    assert same(recovered.value, call.arguments), recovered.value
    assert recovered.repairs, "changed, and no warning says so"


# ---- spoiling ---------------------------------------------------------------------------------------------------------


def _spoilt(call: Call) -> Iterator[tuple[str, Json]]:
    """The call with one thing wrong, in every place where it can be."""
    yield from _everywhere(call.arguments, "a number as text", _number_as_text)
    yield from _everywhere(call.arguments, "a truth as text", _truth_as_text)
    yield from _everywhere(call.arguments, "a list as text", lambda v: json.dumps(v) if isinstance(v, list) else _SAME)
    yield from _everywhere(
        call.arguments, "an object as text", lambda v: json.dumps(v) if isinstance(v, dict) else _SAME
    )
    yield from _everywhere(call.arguments, "one for a list of one", lambda v: v[0] if _is_one(v) else _SAME)
    yield from _everywhere(call.arguments, "a number for text", _text_as_number)
    yield from _everywhere(call.arguments, "other case", lambda v: v.swapcase() if isinstance(v, str) else _SAME)
    yield from _everywhere(call.arguments, "space around", lambda v: f" {v} " if isinstance(v, str) else _SAME)
    for name in call.arguments:
        yield "a name in other case", {(n.capitalize() if n == name else n): v for n, v in call.arguments.items()}
    properties = call.tool.parameters.get("properties", {})
    for name in properties:
        if name not in call.arguments:
            yield "null for what is absent", {**call.arguments, name: None}
    wrong = call.arguments
    for spoil in (_number_as_text, _truth_as_text):
        wrong = _all(wrong, spoil)
    if not same(wrong, call.arguments):
        yield "everything as text", wrong


_SAME = object()


def _number_as_text(value: Json) -> Json:
    return json.dumps(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else _SAME


def _truth_as_text(value: Json) -> Json:
    return str(value) if isinstance(value, bool) else _SAME


def _text_as_number(value: Json) -> Json:
    try:
        number = json.loads(value) if isinstance(value, str) else None
    except ValueError:
        return _SAME
    return number if isinstance(number, int) and not isinstance(number, bool) and str(number) == value else _SAME


def _is_one(value: Json) -> bool:
    return isinstance(value, list) and len(value) == 1


def _everywhere(value: Json, kind: str, spoil: Callable[[Json], Json]) -> Iterator[tuple[str, Json]]:
    """The value with one part spoilt, for each part; the value itself is left as it is."""
    if isinstance(value, dict):
        for name, item in value.items():
            for spoilt in _parts(item, spoil):
                yield f"{kind} at {name}", {**value, name: spoilt}


def _parts(value: Json, spoil: Callable[[Json], Json]) -> Iterator[Json]:
    if (spoilt := spoil(value)) is not _SAME:
        yield spoilt
    if isinstance(value, dict):
        for name, item in value.items():
            yield from ({**value, name: part} for part in _parts(item, spoil))
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from ([*value[:n], part, *value[n + 1 :]] for part in _parts(item, spoil))


def _all(value: Json, spoil: Callable[[Json], Json]) -> Json:
    if isinstance(value, dict):
        return {name: _all(item, spoil) for name, item in value.items()}
    if isinstance(value, list):
        return [_all(item, spoil) for item in value]
    return value if (spoilt := spoil(value)) is _SAME else spoilt


def _spoilt_texts(call: Call) -> Iterator[tuple[str, str]]:
    text = json.dumps(call.arguments)
    yield "fenced", f"```json\n{text}\n```"
    yield "talked around", f"Here are the arguments: {text}. Anything else?"
    if call.arguments:
        yield "a comma too many", f"{text[:-1]},}}"
    yield "encoded twice", json.dumps(text)
    yield "fenced, a comma too many", f"```\n{text[:-1]}{',' if call.arguments else ''}}}\n```"


# ---- the data -----------------------------------------------------------------------------------------------------------


def _records(data: Path, tally: Tally) -> Iterator[Json]:
    for path in sorted((data / "bfcl").glob("*.jsonl")):
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
            if line.strip():
                with tally.guard(f"{path.name}:{number}"):
                    yield json.loads(line)


Found = TypeVar("Found")


def _in_each(records: list[Json], tally: Tally, find: Callable[[Json], Iterable[Found]]) -> list[Found]:
    found: list[Found] = []
    for number, record in enumerate(records, 1):
        with tally.guard(f"record {number}"):
            found += list(find(record))
    return found


@cache
def _classes(data: Path) -> dict[str, list[Tool]]:
    path = data / "bfcl" / FUNCTIONS
    if not path.is_file():
        return {}
    return {name: [_tool(tool) for tool in one["tools"]] for name, one in json.loads(path.read_text("utf-8")).items()}


def _tool(said: Json) -> Tool:
    return Tool(said["function"]["name"], said["function"].get("parameters") or {"type": "object"})


def _tools(record: Json) -> Iterator[tuple[str, Tool]]:
    return ((record["id"], _tool(tool)) for tool in record.get("tools") or [])


def _toolset(data: Path, record: Json) -> Iterator[tuple[str, list[str]]]:
    """The names of a record's tools, as they are upstream: with dots."""
    names = [function["name"] for function in record.get("function") or []]
    names += [tool.name for one in record.get("involved_classes") or [] for tool in _classes(data).get(one, [])]
    yield record["id"], list(dict.fromkeys(names))


def _calls(data: Path, record: Json) -> Iterator[Call]:
    truth = record.get("ground_truth") or []
    if "involved_classes" in record:
        tools = {tool.name: tool for one in record["involved_classes"] for tool in _classes(data).get(one, [])}
        texts = [text for turn in truth for text in turn]
        yield from (call for text in texts if (call := _written_call(record["id"], text, tools)) is not None)
    else:
        tools = {tool.name: tool for tool in map(_tool, record["tools"])}
        for one in truth:
            for name, accepted in one.items():
                tool = tools[name.replace(".", "_")]
                for index in (0, -1):
                    yield Call(record["id"], tool, _chosen(accepted, tool.parameters, index))


def _chosen(accepted: Json, schema: Json, index: int) -> Json:
    """One of the accepted values for each argument; "" is: may be left out."""
    chosen = {}
    for name, options in accepted.items():
        real = [option for option in options if option != ""]
        if real:
            chosen[name] = _inner(real[index], schema.get("properties", {}).get(name, {}), index)
    return chosen


def _inner(value: Json, schema: Json, index: int) -> Json:
    """Members of objects are lists of accepted values too."""
    if isinstance(value, dict) and all(isinstance(options, list) for options in value.values()):
        return _chosen(value, schema, index)
    if isinstance(value, list):
        return [_inner(item, schema.get("items", {}), index) for item in value]
    return value


def _written_call(record: str, text: str, tools: dict[str, Tool]) -> Call | None:
    """`f('a', b=1)` as a call."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    tool = tools.get(call.func.id) if isinstance(call.func, ast.Name) else None
    if tool is None:
        return None
    names = list(tool.parameters.get("properties", {}))
    arguments = {name: ast.literal_eval(value) for name, value in zip(names, call.args, strict=False)}
    arguments |= {one.arg: ast.literal_eval(one.value) for one in call.keywords if one.arg}
    return Call(record, tool, json.loads(json.dumps(arguments)))


@cache
def _validator(tool: Tool) -> Validator:
    return Validator(tool.parameters)


def _fits(call: Call) -> bool:
    return _validator(call.tool).problems(call.arguments) == []

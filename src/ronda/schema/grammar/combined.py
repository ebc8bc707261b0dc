"""What a schema says with other schemas (references, allOf, anyOf, oneOf, if, not, …), put on top of its types → a shape."""

from __future__ import annotations

import functools
from typing import Any

from ronda.schema.grammar.place import Place
from ronda.schema.grammar.shapes import (
    ANYTHING,
    EVERY_TYPE,
    NEVER,
    Anything,
    Array,
    Never,
    Object,
    Property,
    Ref,
    Shape,
    Union,
    Unsupported,
    array,
    obj,
    union,
)
from ronda.schema.grammar.typed import typed


def shape_at(place: Place) -> Shape:
    shape = typed(place)
    for step in (_references, _all_of, _dependencies, _any_of, _one_of, _conditions, _negation, _unevaluated):
        if isinstance(shape, Never):
            break
        shape = step(place, shape)
    return shape


def _references(place: Place, shape: Shape) -> Shape:
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        if keyword in place.node:
            pointer = place.at(keyword)
            target = place.document.reference(place.node[keyword], place.base, pointer, loose=place.loose)
            if isinstance(target, Ref):
                combine = functools.partial(place.both, shape, target, keyword)
                shape = place.document.both(shape, target, pointer, combine)
            else:
                shape = place.both(shape, target, keyword)
    return shape


def _all_of(place: Place, shape: Shape) -> Shape:
    for n, sub in enumerate(place.listed("allOf")):
        shape = place.both(shape, place.sub(sub, "allOf", n), "allOf")
    return shape


def _any_of(place: Place, shape: Shape) -> Shape:
    if not (options := place.listed("anyOf")):
        return shape
    return place.both(shape, _union(place, options, "anyOf"), "anyOf")


def _union(place: Place, options: list[Any], keyword: str) -> Shape:
    """Those of the options that can be enforced; all of them where more may be admitted."""
    found, problem = [], None
    for n, sub in enumerate(options):
        try:
            found.append(place.sub(sub, keyword, n))
        except Unsupported as error:
            if place.loose:
                return ANYTHING
            problem = error
    if not found and problem is not None:
        raise problem
    return union(found)


def _one_of(place: Place, shape: Shape) -> Shape:
    options = place.listed("oneOf")
    if len(options) <= 1 or place.loose:
        return place.both(shape, _union(place, options, "oneOf"), "oneOf") if options else shape
    found, problem = [], None
    taken = [place.sub(sub, "oneOf", n, loose=True) for n, sub in enumerate(options)]
    for n, sub in enumerate(options):
        try:
            branch = place.both(shape, place.sub(sub, "oneOf", n), "oneOf")
            for other in taken[:n] + taken[n + 1 :]:
                branch = place.without(branch, other, "oneOf")
            found.append(branch)
        except Unsupported as error:
            problem = error
    whole = union(found)
    if isinstance(whole, Never):
        raise problem or Unsupported(f"{place.pointer}/oneOf: the alternatives cannot be told apart")
    return whole


def _conditions(place: Place, shape: Shape) -> Shape:
    node = place.node
    if "if" not in node or not ("then" in node or "else" in node):
        return shape
    if place.loose:
        return shape
    yes = place.both(shape, place.sub(node["if"], "if"), "if")
    if "then" in node:
        yes = place.both(yes, place.sub(node["then"], "then"), "then")
    try:
        no = place.without(shape, place.sub(node["if"], "if", loose=True), "if")
    except Unsupported:
        no = NEVER
    if "else" in node:
        no = place.both(no, place.sub(node["else"], "else"), "else")
    both = union([yes, no])
    if isinstance(both, Never):
        raise Unsupported(f"{place.pointer}/if: no value is known to fit it")
    return both


def _negation(place: Place, shape: Shape) -> Shape:
    if "not" not in place.node or place.loose:
        return shape
    left = place.without(shape, place.sub(place.node["not"], "not", loose=True), "not")
    if isinstance(left, Never):
        raise Unsupported(f"{place.pointer}/not: nothing is known to be left")
    return left


def _dependencies(place: Place, shape: Shape) -> Shape:
    if place.loose:
        return shape
    for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
        for name, rule in place.members(keyword).items():
            if isinstance(rule, list):
                names = [Property(one, ANYTHING, required=True) for one in rule if isinstance(one, str)]
                then: Shape = Object(tuple(names))
            else:
                then = place.sub(rule, keyword, name)
            # Either it is not there, or what it brings along is; what is no object has no properties.
            others = [kind for name_, kind in EVERY_TYPE.items() if name_ != "object"]
            without = Object((Property(name, NEVER),))
            shape = place.both(shape, union([then, without, *others]), keyword)
    return shape


def _unevaluated(place: Place, shape: Shape) -> Shape:
    if place.loose:
        return shape
    if "unevaluatedProperties" in place.node:
        rest = place.sub(place.node["unevaluatedProperties"], "unevaluatedProperties")
        if not isinstance(rest, Anything):
            shape = _close(place, shape, Object)
    if "unevaluatedItems" in place.node:
        rest = place.sub(place.node["unevaluatedItems"], "unevaluatedItems")
        if not isinstance(rest, Anything):
            shape = _close(place, shape, Array)
    return shape


def _close(place: Place, shape: Shape, kind: type[Object] | type[Array]) -> Shape:
    """Nothing beyond what is named: all that is known to be evaluated."""
    match shape:
        case Ref(key):
            return _close(place, place.document.expand(key), kind)
        case Anything():
            return union([_close(place, one, kind) for one in EVERY_TYPE.values()])
        case Object() if kind is Object:
            return obj(Object(shape.properties, (), NEVER, shape.least, shape.most, shape.names))
        case Array() if kind is Array:
            most = len(shape.first) if isinstance(shape.rest, Anything) else shape.most
            return array(Array(shape.first, shape.rest, shape.least, most, shape.unique, shape.contains))
        case Union(options):
            return union([_close(place, one, kind) for one in options])
        case _:
            return shape

"""Events of every kind with every field, made up by Hypothesis from their types alone: a new event needs no line here."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from hypothesis import strategies as st
from msgspec import Raw
from msgspec import inspect as kinds

from ronda.core.events import Event

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
JSON = st.sampled_from([b"null", b"{}", b'{"a":[1,"\xc3\xa9"]}', b"1", b'"x"']).map(Raw)


def values(kind: kinds.Type) -> st.SearchStrategy[Any]:
    """Anything of this type."""
    match kind:
        case kinds.StrType():
            return TEXT
        case kinds.BoolType():
            return st.booleans()
        case kinds.IntType():
            return st.integers(1, 10**6)
        case kinds.FloatType():
            return st.floats(0, 10**6)
        case kinds.NoneType():
            return st.none()
        case kinds.RawType():
            return JSON
        case kinds.LiteralType(values=said):
            return st.sampled_from(said)
        case kinds.UnionType(types=types):
            return st.one_of([values(one) for one in types])
        case kinds.VarTupleType(item_type=item):
            return st.lists(values(item), max_size=2).map(tuple)
        case kinds.TupleType(item_types=items):
            return st.tuples(*[values(item) for item in items])
        case kinds.ListType(item_type=item):
            return st.lists(values(item), max_size=2)
        case kinds.DictType(key_type=key, value_type=value):
            return st.dictionaries(values(key), values(value), max_size=2)
        case kinds.StructType(cls=cls):
            return structs(cls)
        case _:
            raise AssertionError(f"nothing is known of {kind}")


def structs(cls: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    info = kinds.type_info(cls)
    assert isinstance(info, kinds.StructType)
    return st.deferred(lambda: st.builds(cls, **{field.name: values(field.type) for field in info.fields}))


EVENTS: st.SearchStrategy[Event] = st.one_of([structs(kind) for kind in get_args(Event)])

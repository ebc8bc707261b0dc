"""Jinja expressions → values, walked by us over the tree Jinja2's own parser gives.

Jinja2 would compile a template to Python and evaluate it with Python's operators and attributes; then the leaf semantics of the
subset, the bounds and the record of where text came from would all have to be forced on it from outside. Here nothing of Python
is in reach to begin with: plain data, the operators below, a table of functions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Never

from jinja2 import nodes

from ronda.prompty.jinja_functions import FILTERS, METHODS, TESTS
from ronda.prompty.segments import Budget, Fragment, Out, Rich, TemplateError
from ronda.prompty.template_values import UNDEFINED, absent, bare, items_of, kind_of, member, text, truthy

_ORDERS = {"lt": operator.lt, "lteq": operator.le, "gt": operator.gt, "gteq": operator.ge}
_BITS = 4096  # of a whole number
_ITEMS = 100_000  # of a list a template builds
_LONG = 100  # characters that cost a step


class Scope:
    """Names in reach, each with the inputs its value was made from."""

    __slots__ = ("_origins", "_outer", "_values")

    def __init__(self, outer: Scope | None = None) -> None:
        self._outer = outer
        self._values: dict[str, Any] = {}
        self._origins: dict[str, tuple[str, ...]] = {}

    def put(self, name: str, value: Any, origins: tuple[str, ...] = ()) -> None:
        self._values[name] = value
        self._origins[name] = origins

    def blame(self, name: str, origins: tuple[str, ...]) -> None:
        """The value of this name was changed in place, by these."""
        scope = self._home(name)
        while scope is not None:
            scope._origins[name] = tuple(dict.fromkeys([*scope._origins[name], *origins]))
            scope = None if scope._outer is None else scope._outer._home(name)

    def get(self, name: str) -> Any:
        home = self._home(name)
        if home is None:
            return None if name == "null" else UNDEFINED  # Jinja2 reads the subset's null as a name
        return home._values[name]

    def origins(self, name: str) -> tuple[str, ...]:
        home = self._home(name)
        if home is None:
            return () if name == "null" else (name,)  # an input that is not given
        return home._origins[name]

    def _home(self, name: str) -> Scope | None:
        scope: Scope | None = self
        while scope is not None and name not in scope._values:
            scope = scope._outer
        return scope


class Function:
    """Something of ours that a template may call."""

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self.call = call


class Namespace(dict[str, Any]):
    """What `namespace()` makes: the one thing a loop may change for those outside it."""


def fail(node: nodes.Node, message: str) -> Never:
    raise TemplateError(f"{message} (line {node.lineno})")


class Expressions:
    def __init__(self, budget: Budget, out: Out) -> None:
        self.budget = budget
        self.out = out
        self._ways: dict[type[nodes.Node], Callable[[Any, Scope], Any]] = {
            nodes.Const: lambda node, scope: node.value,
            nodes.TemplateData: lambda node, scope: node.data,
            nodes.Name: lambda node, scope: scope.get(node.name),
            nodes.Getattr: lambda node, scope: member(self.value(node.node, scope), node.attr),
            nodes.Getitem: self._item,
            nodes.Filter: self._filter,
            nodes.Test: self._test,
            nodes.Call: self._call,
            nodes.Compare: self._compare,
            nodes.And: self._and,
            nodes.Or: self._or,
            nodes.Not: lambda node, scope: not truthy(self.value(node.node, scope)),
            nodes.CondExpr: self._choose,
            nodes.Concat: self._concat,
            nodes.List: lambda node, scope: [self.value(item, scope) for item in node.items],
            nodes.Tuple: lambda node, scope: [self.value(item, scope) for item in node.items],
            nodes.Dict: self._dict,
            nodes.Neg: lambda node, scope: -self._number(node, self.value(node.node, scope)),
            nodes.Pos: lambda node, scope: self._number(node, self.value(node.node, scope)),
            nodes.Add: self._add,
            nodes.Sub: lambda node, scope: self._arithmetic(node, scope, lambda a, b: a - b),
            nodes.Mul: self._multiply,
            nodes.Div: lambda node, scope: self._arithmetic(node, scope, lambda a, b: a / b),
            nodes.FloorDiv: lambda node, scope: self._arithmetic(node, scope, lambda a, b: a // b),
            nodes.Mod: lambda node, scope: self._arithmetic(node, scope, lambda a, b: a % b),
            nodes.Pow: lambda node, scope: self._arithmetic(node, scope, self._power),
        }

    def value(self, node: nodes.Node, scope: Scope) -> Any:
        self.budget.step()
        way = self._ways.get(type(node))
        if way is None:
            fail(node, f"{type(node).__name__.lower()} is not allowed in a template")
        value = way(node, scope)
        if type(value) is str and len(value) > _LONG:
            self.budget.step(len(value) // _LONG)  # what is done with it next costs that much
        return value

    def text(self, value: Any) -> str:
        return text(value, self.budget)

    def call_macro(self, macro: Any, node: nodes.Call, scope: Scope) -> Any:
        """What runs statements knows how."""
        raise NotImplementedError

    def apply_filter(self, node: nodes.Filter, value: Any, scope: Scope) -> Any:
        args, named = self.arguments(node, scope)
        found = FILTERS.get(node.name)
        if found is None:
            fail(node, f"there is no filter '{node.name}'; there are {', '.join(FILTERS)}")
        try:
            return found(self.budget, value, *args, **named)
        except (TypeError, ValueError, KeyError, IndexError, OverflowError) as error:
            self._explain(node, f"the filter '{node.name}'", error)

    def arguments(self, node: nodes.Filter | nodes.Test | nodes.Call, scope: Scope) -> tuple[list[Any], dict[str, Any]]:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            fail(node, "* and ** are not allowed in a template")
        args = [self.value(arg, scope) for arg in node.args]
        named = {pair.key: self.value(pair.value, scope) for pair in node.kwargs if isinstance(pair, nodes.Keyword)}
        return args, named

    def _explain(self, node: nodes.Node, what: str, error: Exception) -> Never:
        if isinstance(error, TemplateError):
            raise error
        fail(node, f"{what} cannot do this: {error}")

    def _item(self, node: nodes.Getitem, scope: Scope) -> Any:
        value = self.value(node.node, scope)
        if not isinstance(node.arg, nodes.Slice):
            return member(value, bare(self.value(node.arg, scope)))
        value = bare(value)
        bounds = [
            None if at is None else self.value(at, scope) for at in (node.arg.start, node.arg.stop, node.arg.step)
        ]
        if not isinstance(value, list | str):
            return UNDEFINED
        if not all(at is None or type(at) is int for at in bounds) or bounds[2] == 0:
            fail(node, "a slice takes whole numbers")
        cut = value[slice(*bounds)]
        self.budget.step(len(cut) // _LONG)
        return cut

    def _filter(self, node: nodes.Filter, scope: Scope) -> Any:
        return self.apply_filter(node, UNDEFINED if node.node is None else self.value(node.node, scope), scope)

    def _test(self, node: nodes.Test, scope: Scope) -> bool:
        value = self.value(node.node, scope)
        args, _ = self.arguments(node, scope)
        found = TESTS.get(node.name)
        if found is None:
            fail(node, f"there is no test '{node.name}'; there are {', '.join(TESTS)}")
        try:
            return found(self.budget, value, *args)
        except (TypeError, ValueError, ZeroDivisionError) as error:
            self._explain(node, f"the test '{node.name}'", error)

    def _call(self, node: nodes.Call, scope: Scope) -> Any:
        if isinstance(node.node, nodes.Getattr):
            value = self.value(node.node.node, scope)
            inner = value.get(node.node.attr) if isinstance(value, dict) else None
            if not isinstance(inner, Function):
                return self._method(node, node.node.attr, value, scope)
            function: Any = inner
        else:
            function = self.value(node.node, scope)
        if not isinstance(function, Function):
            if function is not UNDEFINED and not isinstance(
                function, str | int | float | list | dict | Rich | Fragment | None
            ):
                return self.call_macro(function, node, scope)
            fail(node, f"{node.node.name if isinstance(node.node, nodes.Name) else 'this'} is not a function")
        args, named = self.arguments(node, scope)
        try:
            return function.call(*args, **named)
        except (TypeError, ValueError, IndexError, ZeroDivisionError) as error:
            self._explain(node, f"'{function.name}'", error)

    def _method(self, node: nodes.Call, name: str, value: Any, scope: Scope) -> Any:
        value = bare(value)
        found = METHODS.get((type(value), name))
        if found is None:
            if name.startswith("__"):
                fail(node, f"'{name}' cannot be reached from a template")
            fail(node, f"{kind_of(value)} has no '{name}' to call")
        args, named = self.arguments(node, scope)
        try:
            return found(self.budget, value, *args, **named)
        except (TypeError, ValueError) as error:
            self._explain(node, f"'{name}'", error)

    def _and(self, node: nodes.And, scope: Scope) -> Any:
        left = self.value(node.left, scope)
        return self.value(node.right, scope) if truthy(left) else left

    def _or(self, node: nodes.Or, scope: Scope) -> Any:
        left = self.value(node.left, scope)
        return left if truthy(left) else self.value(node.right, scope)

    def _choose(self, node: nodes.CondExpr, scope: Scope) -> Any:
        if truthy(self.value(node.test, scope)):
            return self.value(node.expr1, scope)
        return UNDEFINED if node.expr2 is None else self.value(node.expr2, scope)

    def _compare(self, node: nodes.Compare, scope: Scope) -> bool:
        left = bare(self.value(node.expr, scope))
        for operand in node.ops:
            right = bare(self.value(operand.expr, scope))
            if not self._holds(operand, operand.op, left, right):
                return False
            left = right
        return True

    def _holds(self, node: nodes.Node, op: str, left: Any, right: Any) -> bool:
        self.budget.weigh(left)
        self.budget.weigh(right)
        if op in ("eq", "ne"):
            return equal(left, right) == (op == "eq")
        if op in ("in", "notin"):
            return contains(right, left) == (op == "in")
        if absent(left) or absent(right):
            return False  # what is not there is neither before nor after anything
        try:
            return bool(_ORDERS[op](left, right))
        except TypeError:
            fail(node, f"{kind_of(left)} and {kind_of(right)} have no order")

    def _concat(self, node: nodes.Concat, scope: Scope) -> Any:
        values = [self.value(part, scope) for part in node.nodes]
        if not any(isinstance(value, Rich | Fragment) for value in values):
            texts = [self.text(value) for value in values]
            self.budget.fit(sum(map(len, texts)))
            return "".join(texts)
        made = self.out.capture()
        for part, value in zip(node.nodes, values, strict=True):
            if isinstance(value, Fragment):
                made.splice(value)
            elif isinstance(value, Rich):
                made.rich(value)
            else:
                made.interp(self.text(value), sources(part, scope))
        return Fragment(made.finish())

    def _dict(self, node: nodes.Dict, scope: Scope) -> dict[str, Any]:
        return {self.text(self.value(pair.key, scope)): self.value(pair.value, scope) for pair in node.items}

    def _number(self, node: nodes.Node, value: Any) -> Any:
        value = bare(value)
        if not isinstance(value, int | float):
            fail(node, f"{kind_of(value)} is not a number")
        if isinstance(value, int) and value.bit_length() > _BITS:
            fail(node, "the number is too large")
        return value

    def _arithmetic(self, node: nodes.BinExpr, scope: Scope, work: Callable[[Any, Any], Any]) -> Any:
        left = self._number(node, self.value(node.left, scope))
        right = self._number(node, self.value(node.right, scope))
        try:
            return self._number(node, work(left, right))
        except (ZeroDivisionError, OverflowError) as error:
            fail(node, str(error))

    def _power(self, base: Any, exponent: Any) -> Any:
        if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * abs(exponent) > _BITS:
            raise OverflowError("the number is too large")
        power = base**exponent
        if isinstance(power, complex):
            raise OverflowError("the root of a negative number is none")
        return power

    def _add(self, node: nodes.Add, scope: Scope) -> Any:
        left, right = bare(self.value(node.left, scope)), bare(self.value(node.right, scope))
        if isinstance(left, str) and isinstance(right, str):
            self.budget.fit(len(left) + len(right))
            return left + right
        if isinstance(left, list) and isinstance(right, list):
            self._length(node, len(left) + len(right))
            return left + right
        return self._number(node, self._number(node, left) + self._number(node, right))

    def _multiply(self, node: nodes.Mul, scope: Scope) -> Any:
        left, right = bare(self.value(node.left, scope)), bare(self.value(node.right, scope))
        if isinstance(left, str) and isinstance(right, int):
            self.budget.fit(len(left) * right)
            return left * right
        if isinstance(left, list) and isinstance(right, int):
            self._length(node, len(left) * right)
            return left * right
        return self._number(node, self._number(node, left) * self._number(node, right))

    def _length(self, node: nodes.Node, count: int) -> None:
        if count > _ITEMS:
            fail(node, f"a list of more than {_ITEMS} items")
        self.budget.step(max(count, 0))


def bounded_range(budget: Budget, *bounds: Any) -> list[int]:
    """`range`, as a list no longer than a prompt could use."""
    if not bounds or not all(type(bound) is int for bound in bounds):
        raise TypeError("whole numbers are needed")
    numbers = range(*bounds)
    if numbers and (numbers[-1] - numbers[0]) // numbers.step >= _ITEMS:
        raise TemplateError(f"range() of more than {_ITEMS} numbers")
    budget.step(len(numbers))
    return list(numbers)


def equal(left: Any, right: Any) -> bool:
    return (absent(left) and absent(right)) or bool(left == right)


def contains(whole: Any, part: Any) -> bool:
    if isinstance(whole, str):
        return isinstance(part, str) and part in whole
    if isinstance(whole, dict):
        return isinstance(part, str | int | float) and part in whole
    return not absent(whole) and any(equal(part, item) for item in items_of(whole))


def sources(node: nodes.Node, scope: Scope) -> tuple[str, ...]:
    """The inputs an expression was made from, in the order it names them."""
    found = [scope.origins(name) for name in names_in(node)]
    return found[0] if len(found) == 1 else tuple(dict.fromkeys([origin for origins in found for origin in origins]))


def names_in(node: nodes.Node) -> tuple[str, ...]:
    """Every name below a node, kept on the node: it is asked for in every turn of a loop."""
    names: tuple[str, ...] | None = node.__dict__.get("names_in")
    if names is None:
        found = [node.name] if isinstance(node, nodes.Name) else [name.name for name in node.find_all(nodes.Name)]
        names = node.__dict__["names_in"] = tuple(dict.fromkeys(found))
    return names

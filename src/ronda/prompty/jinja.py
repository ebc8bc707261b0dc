"""A Jinja template and its inputs → segments.

Jinja2's parser reads the template, so that any Jinja syntax is understood or refused with its line; statements are walked here,
expressions in `jinja_expressions`. Nothing is compiled, no file is loaded. Beyond the portable subset there are `set`, `with`,
macros, tests, arithmetic, `for … if … else` and more filters, all with the subset's leaf semantics; what would read another file
(`include`, `import`, `extends`) is refused. Backslashes in strings mean what they mean in Jinja2, since `join("\\n")` is in every
other prompt and the subset's grammar merely has no escapes. Read templates are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.meta import find_undeclared_variables
from msgspec import Struct

from ronda.prompty.jinja_expressions import (
    Expressions,
    Function,
    Namespace,
    Scope,
    bounded_range,
    fail,
    names_in,
    sources,
)
from ronda.prompty.jinja_functions import FILTERS, TESTS
from ronda.prompty.segments import Budget, Fragment, Out, Rich, Segment, TemplateError
from ronda.prompty.template_values import items_of, kind_of, truthy


class Macro(Struct, frozen=True, eq=False):
    node: nodes.Macro
    scope: Scope


def render(template: str, inputs: Mapping[str, Any], out: Out, budget: Budget) -> tuple[Segment, ...]:
    """`inputs` are plain values and `Rich` ones."""
    interpreter = Interpreter(out, budget)
    scope = Scope()
    scope.put("range", Function("range", lambda *bounds: bounded_range(budget, *bounds)))
    scope.put("namespace", Function("namespace", lambda **values: Namespace(values)))
    scope.put("dict", Function("dict", lambda **values: dict(values)))
    scope = Scope(scope)
    for name, value in inputs.items():
        scope.put(name, value, (name,))
    interpreter.run(read(template).body, scope)
    return out.finish()


def names(template: str) -> frozenset[str]:
    """Every name the template mentions."""
    return frozenset(names_in(read(template)))


def free_names(template: str) -> dict[str, int]:
    """What the template takes from its inputs, with the line where it does so first."""
    tree = read(template)
    free = find_undeclared_variables(tree)
    found: dict[str, int] = {}
    for node in tree.find_all(nodes.Name):
        if node.name in free and node.lineno < found.get(node.name, node.lineno + 1):
            found[node.name] = node.lineno
    return found


def faults(template: str) -> list[tuple[int, str]]:
    """What would fail wherever it is reached, with its line. Raises `TemplateError` for what cannot be read at all."""
    found: list[tuple[int, str]] = []
    for node in read(template).find_all((nodes.Filter, nodes.Test, nodes.Stmt)):
        if isinstance(node, nodes.Filter) and node.name not in FILTERS:
            found.append((node.lineno, f"there is no filter '{node.name}'"))
        elif isinstance(node, nodes.Test) and node.name not in TESTS:
            found.append((node.lineno, f"there is no test '{node.name}'"))
        elif isinstance(node, nodes.Stmt) and type(node) not in _STATEMENTS:
            found.append((node.lineno, _refusal(node)))
    return sorted(found)


@lru_cache(maxsize=256)
def read(template: str) -> nodes.Template:
    # Jinja2 writes every line end alike; a template whose line ends are all \r\n keeps them.
    windows = "\r\n" in template and template.count("\n") == template.count("\r\n")
    try:
        return _reader("\r\n" if windows else "\n").parse(template)
    except TemplateSyntaxError as error:
        raise TemplateError(f"Template syntax error: {error.message} (line {error.lineno})") from error
    except RecursionError:
        raise TemplateError("Template syntax error: the template nests too deeply") from None
    except (ValueError, OverflowError) as error:  # a number of ten thousand digits
        raise TemplateError(f"Template syntax error: {error}") from error


@lru_cache(maxsize=2)
def _reader(newline: Any) -> Environment:
    """For its parser only: nothing it reads is ever compiled or run by Jinja2, hence no sandbox to escape from."""
    return Environment(keep_trailing_newline=True, newline_sequence=newline, loader=None)


class Interpreter(Expressions):
    def __init__(self, out: Out, budget: Budget) -> None:
        super().__init__(budget, out)
        self._depth = 0

    def run(self, body: Sequence[nodes.Node], scope: Scope) -> None:
        for node in body:
            self.budget.step()
            statement = _STATEMENTS.get(type(node))
            if statement is None:
                fail(node, _refusal(node))
            statement(self, node, scope)

    def call_macro(self, macro: Any, node: nodes.Call, scope: Scope) -> Fragment:
        if not isinstance(macro, Macro):
            fail(node, "this is not a function")
        if self._depth >= self.budget.limits.depth:
            fail(node, f"macros call each other more than {self.budget.limits.depth} deep")
        args, named = self.arguments(node, scope)
        expected = [parameter.name for parameter in macro.node.args]
        if len(args) > len(expected) or not named.keys() <= set(expected[len(args) :]):
            fail(node, f"the macro '{macro.node.name}' takes {', '.join(expected) or 'no arguments'}")
        values = dict(zip(expected, args, strict=False)) | named
        inner = Scope(macro.scope)
        origins = sources(node, scope)
        defaults = dict(zip(reversed(expected), reversed(macro.node.defaults), strict=False))
        for name in expected:
            if name in values:
                inner.put(name, values[name], origins)
            elif name in defaults:
                inner.put(name, self.value(defaults[name], inner), sources(defaults[name], inner))
        self._depth += 1
        try:
            return self._captured(macro.node.body, inner)
        finally:
            self._depth -= 1

    def _captured(self, body: Sequence[nodes.Node], scope: Scope) -> Fragment:
        outside = self.out
        self.out = outside.capture()
        try:
            self.run(body, scope)
            return Fragment(self.out.finish())
        finally:
            self.out = outside

    def _output(self, node: nodes.Output, scope: Scope) -> None:
        for child in node.nodes:
            if isinstance(child, nodes.TemplateData):
                self.out.literal(child.data)
            else:
                value = self.value(child, scope)
                if isinstance(value, Fragment):
                    self.out.splice(value)
                elif isinstance(value, Rich):
                    self.out.rich(value)
                else:
                    self.out.interp(self.text(value), sources(child, scope))

    def _if(self, node: nodes.If, scope: Scope) -> None:
        for branch in (node, *node.elif_):
            if truthy(self.value(branch.test, scope)):
                return self.run(branch.body, scope)
        return self.run(node.else_, scope)

    def _for(self, node: nodes.For, scope: Scope) -> None:
        if node.recursive:
            fail(node, "recursive loops are not allowed in a template")
        over = self.value(node.iter, scope)
        try:
            items = items_of(over)
        except TemplateError as error:
            fail(node, str(error))
        origins = sources(node.iter, scope)
        if node.test is not None:
            items = [item for item in items if self._passes(node, item, scope, origins)]
        counts = "loop" in names_in(node)
        for index, item in enumerate(items):
            self.budget.step()
            inner = Scope(scope)
            self._bind(node.target, item, inner, origins)
            if counts:
                inner.put("loop", _loop(index, items))
            self.run(node.body, inner)
        if not items:
            self.run(node.else_, Scope(scope))

    def _passes(self, node: nodes.For, item: Any, scope: Scope, origins: tuple[str, ...]) -> bool:
        assert node.test is not None
        inner = Scope(scope)
        self._bind(node.target, item, inner, origins)
        return truthy(self.value(node.test, inner))

    def _bind(self, target: nodes.Node, value: Any, scope: Scope, origins: tuple[str, ...]) -> None:
        if isinstance(target, nodes.Name):
            scope.put(target.name, value, origins)
        elif isinstance(target, nodes.NSRef):
            space = scope.get(target.name)
            if not isinstance(space, Namespace):
                fail(target, f"'{target.name}' is not a namespace()")
            space[target.attr] = value
            scope.blame(target.name, origins)
        elif isinstance(target, nodes.Tuple):
            if not isinstance(value, list) or len(value) != len(target.items):
                fail(target, f"{len(target.items)} values are needed here, and this is {kind_of(value)}")
            for part, item in zip(target.items, value, strict=True):
                self._bind(part, item, scope, origins)
        else:
            fail(target, "nothing can be set here")

    def _assign(self, node: nodes.Assign, scope: Scope) -> None:
        self._bind(node.target, self.value(node.node, scope), scope, sources(node.node, scope))

    def _assign_block(self, node: nodes.AssignBlock, scope: Scope) -> None:
        made: Any = self._captured(node.body, Scope(scope))
        origins = _sources_of(made)
        if node.filter is not None:
            made = self._filtered(node.filter, made, scope)
        self._bind(node.target, made, scope, origins)

    def _filter_block(self, node: nodes.FilterBlock, scope: Scope) -> None:
        made = self._captured(node.body, Scope(scope))
        self.out.interp(self.text(self._filtered(node.filter, made, scope)), _sources_of(made))

    def _filtered(self, node: nodes.Filter, value: Any, scope: Scope) -> Any:
        """Filters in a chain are one inside the other; the innermost takes the block."""
        if isinstance(node.node, nodes.Filter):
            value = self._filtered(node.node, value, scope)
        return self.apply_filter(node, value, scope)

    def _with(self, node: nodes.With, scope: Scope) -> None:
        inner = Scope(scope)
        for target, value in zip(node.targets, node.values, strict=True):
            self._bind(target, self.value(value, scope), inner, sources(value, scope))
        self.run(node.body, inner)


# What there is to run; anything else is refused.
_STATEMENTS: dict[type[nodes.Node], Callable[[Interpreter, Any, Scope], None]] = {
    nodes.Output: Interpreter._output,
    nodes.If: Interpreter._if,
    nodes.For: Interpreter._for,
    nodes.Assign: Interpreter._assign,
    nodes.AssignBlock: Interpreter._assign_block,
    nodes.With: Interpreter._with,
    nodes.Macro: lambda self, node, scope: scope.put(node.name, Macro(node, scope)),
    nodes.FilterBlock: Interpreter._filter_block,
    nodes.Scope: lambda self, node, scope: self.run(node.body, Scope(scope)),
}


def _loop(at: int, items: list[Any]) -> dict[str, Any]:
    count = len(items)
    return {
        "index": at + 1,
        "index0": at,
        "first": at == 0,
        "last": at == count - 1,
        "length": count,
        "revindex": count - at,
        "revindex0": count - at - 1,
        "previtem": items[at - 1] if at else None,
        "nextitem": items[at + 1] if at + 1 < count else None,
        "cycle": Function("loop.cycle", lambda *values: values[at % len(values)]),
    }


def _sources_of(made: Fragment) -> tuple[str, ...]:
    return tuple(dict.fromkeys([segment.source for segment in made.segments if segment.source is not None]))


def _refusal(node: nodes.Node) -> str:
    words = {"FromImport": "from", "CallBlock": "call", "ExprStmt": "do"}
    tag = words.get(type(node).__name__, type(node).__name__.lower())
    return f"'{tag}' is not allowed in a template"

"""Templates and inputs that mean harm: every one ends soon, with an error that says why."""

import contextlib
import time
from typing import Any

import pytest

from ronda.prompty.template import Limits, TemplateError, messages_from, render

SMALL = Limits(template=100_000, output=100_000, steps=20_000, depth=20)


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(10**9) %}{% endfor %}",
        "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
        "{% for i in range(999) %}{{ 'x' * 1000 }}{% endfor %}",
        "{{ 'a' * 10**9 }}",
        "{{ [1] * 10**9 }}",
        "{{ 10 ** 10**10 }}",
        "{{ 2 ** 100000 }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '%999999999d' is odd }}",
        "{{ 'a' | replace('', 'b' * 99999) | replace('', 'b' * 99999) }}",
        "{{ 'a\na' | indent(10**9) }}",
        "{{ 'a' | tojson(indent=10**9) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] %}"
        "{% endfor %}{{ n.x == n.y }}",
        "{% set n = namespace(x=[1]) %}{% for i in range(2000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
        "{% set n = namespace() %}{% set n.x = n %}{{ n }}",
        "{% set n = namespace(x=2) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}",
        "{% set b = 'x' * 90000 %}{% for i in range(9999) %}{% set y = b | upper %}{% endfor %}",
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
        "{{ " + "9" * 9000 + " }}",
        "{% if 1 %}" * 2000 + "{% endif %}" * 2000,
        "x" * 100_001,
        "{{ big }}",
        "{{ deep }}",
    ],
)
def test_a_hostile_template_is_stopped(template: str) -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    began = time.process_time()

    with pytest.raises(TemplateError):
        render(template, {"big": "x" * 200_000, "deep": deep}, limits=SMALL)

    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "expression",
    [
        "''.__class__",
        "''.__class__.__mro__[1].__subclasses__()",
        "x['__class__']",
        "x.__init__.__globals__",
        "''['__cla' ~ 'ss__']",
        "[''] | map(attribute='__class__') | list",
        "x | selectattr('__class__') | list",
        "d.get('__class__')",
        "range.__globals__",
        "namespace.__init__()",
    ],
)
def test_nothing_of_python_is_in_reach(expression: str) -> None:
    with pytest.raises(TemplateError, match=r"__\w+' cannot be reached|has no '__|cannot do this"):
        render("{{ " + expression + " }}", {"x": [1], "d": {}})


@pytest.mark.parametrize(
    "expression",
    ["self", "config", "request", "cycler", "lipsum", "x.format", "x.mro", "x | attr('y')", "x.pop(0)", "caller()"],
)
def test_names_of_jinjas_own_world_are_not_there(expression: str) -> None:
    with contextlib.suppress(TemplateError):
        assert render("{{ " + expression + " }}", {"x": [1]}) == ""


@pytest.mark.parametrize(
    "template", ["{{#a}}" * 3000 + "{{/a}}" * 3000, "{{#l}}{{#l}}{{#l}}x{{/l}}{{/l}}{{/l}}", "{{a.__class__}}"]
)
def test_a_hostile_mustache_template_is_stopped(template: str) -> None:
    with pytest.raises(TemplateError):
        render(template, {"a": True, "l": list(range(1000))}, format="mustache", limits=SMALL)


@pytest.mark.parametrize(
    "line",
    [
        "user[" + "a=b," * 20_000 + "!]:",
        "user[" + 'a="' * 20_001 + "]:",
        "user" + " " * 200_000 + "x:",
        " " * 200_000 + "x:",
        "#" + " " * 200_000 + "x:",
        "user[" + "]" * 200_000 + "x:",
        "user[a" + " " * 100_000 + "x:",
    ],
)
def test_a_hostile_line_costs_no_more_than_its_length(line: str) -> None:
    began = time.process_time()

    messages = messages_from("{% raw %}" + line + "{% endraw %}", {"q": line}, strict=["q"])
    messages_from("user:\n{{ q }}", {"q": line}, strict=True)

    assert len(messages) == 1
    assert time.process_time() - began < 2

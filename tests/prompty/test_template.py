"""The Jinja subset: leaf semantics, whitespace, filters, loops; and what lies beyond it."""

import dataclasses
from typing import Any

import jinja2
import pytest

from ronda.prompty.template import TemplateError, render


@pytest.mark.parametrize(
    ("template", "inputs", "written"),
    [
        ("{{ a.b.c }} {{ a['b'].c }} {{ l[1] }}", {"a": {"b": {"c": 1}}, "l": [1, 2]}, "1 1 2"),
        ("{{ x }}{{ x.y.z }}{{ x[0] }}{{ l[9] }}{{ l[-1] }}", {"l": [1]}, ""),
        ("{{ a }} {{ b }} {{ c }} {{ d }}", {"a": True, "b": False, "c": 1.0, "d": 0.1}, "true false 1 0.1"),
        ("{{ a }} {{ b }}", {"a": 10**20, "b": 1e16}, "100000000000000000000 10000000000000000"),
        ("{{ x }}{{ null }}{{ none }}", {"x": None}, ""),
        ("{{ l }} {{ d }}", {"l": [1, True, None, 1.0], "d": {"k": "é"}}, '[1, true, null, 1] {"k": "é"}'),
        ("{{ x }}", {"x": "{{ secret }}", "secret": "no"}, "{{ secret }}"),
        ("{{ x }}", {"x": "<b> & 'c'"}, "<b> & 'c'"),
        ('{{ "a" }}{{ \'b\' }}{{ -1 }}{{ 1.50 }}{{ true }}', {}, "ab-11.5true"),
        ("{# no #}a{#- no -#} b", {}, "ab"),
        ("a\n", {}, "a\n"),
        ("a\r\n{{ x }}\r\n", {"x": 1}, "a\r\n1\r\n"),
        ("{% raw %}{{ x }}{% endraw %}", {}, "{{ x }}"),
    ],
)  # fmt: skip
def test_values_are_written_as_the_subset_says(template: str, inputs: dict[str, Any], written: str) -> None:
    assert render(template, inputs) == written


@pytest.mark.parametrize("falsy", ["", [], {}, 0, 0.0, False, None])
def test_what_is_empty_is_false(falsy: Any) -> None:
    template = "{% if x %}true{% elif missing %}true{% else %}false{% endif %}"

    assert render(template, {"x": falsy}) == "false"
    assert render(template, {"x": "0"}) == "true"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 == 1.0", "true"),
        ("x == null", "true"),
        ("'a' in 'abc'", "true"),
        ("3 in l", "true"),
        ("'k' in d", "true"),
        ("'k' not in d", "false"),
        ("missing in l", "false"),
        ("missing < 1", "false"),
        ("not missing and 1 < 2", "true"),
        ("missing or 'b'", "b"),
        ("not (1 > 2 or 2 >= 3)", "true"),
        ("'a' ~ 1 ~ true", "a1true"),
        ("(1 + 2) * 3 - 4 / 2", "7"),
        ("7 // 2", "3"),
        ("2 ** 3 % 5", "3"),
        ("'a' if missing else 'b'", "b"),
        ("missing is defined", "false"),
        ("l is iterable and d is mapping and 3 is odd", "true"),
        ("l[1:]", "[3]"),
        ("d.get('z', 'no') ~ d.keys()", 'no["k"]'),
        ("'a,b'.split(',') | join('\\n')", "a\nb"),
    ],
)
def test_expressions(expression: str, value: str) -> None:
    assert render("{{ " + expression + " }}", {"l": [1, 3], "d": {"k": 1}, "x": None}) == value


@pytest.mark.parametrize(
    ("filters", "value", "written"),
    [
        ("upper", "aé", "AÉ"),
        ("upper", True, "TRUE"),
        ("lower", "AÉ", "aé"),
        ("trim", " \t\r\n a\u00a0 ", "a\u00a0"),
        ("join(', ')", ["a", 1, None, True], "a, 1, , true"),
        ("join", ["a", "b"], "ab"),
        ("length", "abc", "3"),
        ("length", {"a": 1}, "1"),
        ("default('z')", None, "z"),
        ("default('z')", "", ""),
        ("default('z', true)", "", "z"),
        ("replace('a', 'b')", "aa", "bb"),
        ("first", ["a", "b"], "a"),
        ("last", ["a", "b"], "b"),
        ("sort | join", ["b", "A", "c"], "Abc"),
        ("map(attribute='n') | join", [{"n": 1}, {"n": 2}], "12"),
        ("map('upper') | join", ["a"], "A"),
        ("selectattr('n', 'gt', 1) | map(attribute='n') | join", [{"n": 1}, {"n": 2}], "2"),
        ("tojson", {"a": [1, "é"]}, '{"a": [1, "é"]}'),
        ("int + 1", "41", "42"),
        ("indent(2)", "a\nb", "a\n  b"),
        ("unique | list | length", [1, 1, 2], "2"),
    ],
)
def test_filters(filters: str, value: Any, written: str) -> None:
    assert render("{{ x | " + filters + " }}", {"x": value}) == written


@pytest.mark.parametrize(
    ("template", "written"),
    [
        ("{% for i in l %}{{ i }} {% endfor %}", "a b "),
        ("{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
         "10truefalse2 21falsetrue2 "),
        ("{% for k in d %}{{ k }}{{ d[k] }}{% endfor %}", "z1a2"),
        ("{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}", "z1a2"),
        ("{% for i in missing %}x{% else %}none{% endfor %}", "none"),
        ("{% for i in l if i != 'a' %}{{ i }}{% endfor %}", "b"),
        ("{% set n = namespace(c=0) %}{% for i in l %}{% set n.c = n.c + 1 %}{% endfor %}{{ n.c }}", "2"),
        ("{% macro m(a, b='!') %}<{{ a }}{{ b }}>{% endmacro %}{{ m('x') }}{{ m('y', b='?') }}", "<x!><y?>"),
        ("{% set t %}a{{ l[0] }}{% endset %}{{ t }}{{ t | upper }}{{ t | length }}", "aaAA2"),
        ("{% filter upper | trim %} a{{ l[1] }} {% endfilter %}", "AB"),
        ("{% with a = 1 %}{{ a }}{% endwith %}{{ a }}", "1"),
        ("a  {%- if true -%}  b  {%- endif -%}  {{- 'c' -}}  d", "abcd"),
        ("a  {% if true %}  b  {% endif %}\n", "a    b  \n"),
    ],
)  # fmt: skip
def test_statements(template: str, written: str) -> None:
    assert render(template, {"l": ["a", "b"], "d": {"z": 1, "a": 2}}) == written


@pytest.mark.parametrize(
    "template",
    [
        "Hi {{ name }}{% if l %}, {{ l | join(' and ') | upper }}{% else %}.{% endif %}\n",
        "{% for i in l -%}\n  {{ loop.index }}: {{ i | trim }}\n{% endfor %}\n\n",
        "{%- for i in l %}  {{- i -}}  {%+ endfor -%} x",
        "{{ l | length }}{{ name[0] }}{{ name | default('x') }}{{ nope | default('x') }}{{ d['k'] }}{{ d.k }}",
        "{% if n > 2 and not nope or 'a' in l %}y{% endif %}{% if n == 3 %}{% elif n < 3 %}z{% endif %}",
        "{% set x = 1 %}{% for i in l %}{% set x = 2 %}{% endfor %}{{ x }}{% if true %}{% set x = 3 %}{% endif %}{{ x }}",
        "{% macro m(a, b=n) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=5, a=4) }}",
        "{{ (n + 4) * 2 - n // 2 }}{{ n ** 2 % 5 }}{{ 'a' ~ n }}{{ 'yes' if n is odd else 'no' }}{{ l[1:] | first }}",
        "{{ 'a\\tb' }}{{ \"it's\" }}{{ name.upper() }}{{ name.split('n') | join('-') }}{{ l | reverse | join }}",
        "{{ name | replace('n', 'm') }}{{ name | title }}{{ 'a b' | capitalize }}{{ 'x\ny' | indent(3, true) }}",
        "{% with q = n %}{{ q }}{% endwith %}{{ q }}",
        "{% filter upper %}a{{ name }}{% endfilter %}{% set s %}<{{ n }}>{% endset %}{{ s }}",
        "{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}",
        "{% for x in l if x != 'a' %}{{ x }}{{ loop.length }}{% else %}no{% endfor %}",
    ],
)
def test_where_the_subset_says_nothing_else_jinja_is_jinja(template: str) -> None:
    inputs = {"name": "ann", "l": [" a", "b "], "n": 3, "d": {"k": "v"}}

    stock = jinja2.Environment(keep_trailing_newline=True, autoescape=False).from_string(template).render(inputs)

    assert render(template, inputs) == stock


def test_objects_give_their_fields_and_nothing_else() -> None:
    @dataclasses.dataclass
    class Person:
        name: str

        def secret(self) -> str:
            return "no"

    assert render("{{ p.name }}{{ p.secret }}", {"p": Person("Ann")}) == "Ann"
    with pytest.raises(TemplateError, match="has no 'secret' to call"):
        render("{{ p.secret() }}", {"p": Person("Ann")})


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ x", r"^Template syntax error: .*\(line 1\)$"),
        ("a\n{% if %}", r"^Template syntax error: .*\(line 2\)$"),
        ("{% for %}", "^Template syntax error: "),
        ("{{ x | nope }}", "there is no filter 'nope'"),
        ("{{ x is nope }}", "there is no test 'nope'"),
        ("{{ 5 | join }}", "a list is needed"),
        ("{{ 5 | length }}", "has no length"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ 1 < 'a' }}", "have no order"),
        ("{{ nope() }}", "nope is not a function"),
        ("{% for i in 5 %}{% endfor %}", "has no items to go over"),
        ("{% include 'x' %}", "'include' is not allowed"),
        ("{% import 'x' as y %}", "'import' is not allowed"),
        ("{% extends 'x' %}", "'extends' is not allowed"),
    ],
)
def test_what_cannot_be_done_is_said_clearly(template: str, said: str) -> None:
    with pytest.raises(TemplateError, match=said):
        render(template, {})


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(TemplateError, match="No renderer registered for key: erb"):
        render("x", format="erb")

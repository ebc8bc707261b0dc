"""Mustache: variables, sections, lists, lines that vanish; never escaped."""

from typing import Any

import pytest

from ronda.prompty.template import TemplateError, render


@pytest.mark.parametrize(
    ("template", "inputs", "written"),
    [
        ("Hello {{name}}!", {"name": "World"}, "Hello World!"),
        ("{{ a }}|{{{a}}}|{{&a}}", {"a": "<b> &"}, "<b> &|<b> &|<b> &"),
        ("{{a.b.c}}{{a.x.y}}{{nope}}", {"a": {"b": {"c": 1.0}}}, "1"),
        ("{{#show}}yes{{/show}}{{^show}}no{{/show}}", {"show": True}, "yes"),
        ("{{#show}}yes{{/show}}{{^show}}no{{/show}}", {"show": 0}, "no"),
        ("{{#l}}{{.}} {{/l}}", {"l": ["a", 1, True]}, "a 1 true "),
        ("{{#l}}{{n}}{{o}} {{/l}}", {"l": [{"n": 1}, {"n": 2}], "o": "!"}, "1! 2! "),
        ("{{#p}}{{name}}{{/p}}", {"p": {"name": "Ann"}, "name": "no"}, "Ann"),
        ("{{^l}}none{{/l}}", {"l": []}, "none"),
        ("a{{! a comment }}b", {}, "ab"),
        ("a\n{{#l}}\n- {{.}}\n{{/l}}\nb", {"l": ["x", "y"]}, "a\n- x\n- y\nb"),
        ("  {{#a}}  \n  x\n  {{/a}}", {"a": True}, "  x\n"),
        ("| {{#a}}x{{/a}} |", {"a": True}, "| x |"),
        ("{{=<% %>=}}<% a %>{{a}}<%={{ }}=%>{{a}}", {"a": 1}, "1{{a}}1"),
        ("{{x}}", {"x": "{{secret}}", "secret": "no"}, "{{secret}}"),
        ("{{#t}}{{#t}}deep{{/t}}{{/t}}", {"t": True}, "deep"),
    ],
)
def test_mustache_writes(template: str, inputs: dict[str, Any], written: str) -> None:
    assert render(template, inputs, format="mustache") == written


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{#a}}x", "^Template syntax error: the section 'a' is never closed"),
        ("{{/a}}", "^Template syntax error: 'a' is closed, not open"),
        ("{{#a}}{{#b}}{{/a}}{{/b}}", "^Template syntax error: 'a' is closed"),
        ("x\n{{ y", r"^Template syntax error: a tag is never closed \(line 2\)"),
        ("{{ }}", "^Template syntax error: '' is not a name"),
        ("{{=x=}}", "^Template syntax error: bad delimiters"),
        ("{{> other}}", "partials are not allowed"),
    ],
)
def test_what_cannot_be_read_is_said_clearly(template: str, said: str) -> None:
    with pytest.raises(TemplateError, match=said):
        render(template, {}, format="mustache")

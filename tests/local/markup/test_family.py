"""Families are told by the text of a chat template."""

import pytest
from msgspec.structs import replace
from tests.local.markup.templates import CHATML, OTHERS, TEMPLATES

from ronda.local.markup import ends_in_thought, family_of, opens_thinking, supports_tools
from ronda.local.markup.family import HERMES


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_shows_its_family(name: str) -> None:
    assert family_of(TEMPLATES[name]).name == name.partition(",")[0]
    assert supports_tools(TEMPLATES[name])


@pytest.mark.parametrize("name", OTHERS)
def test_a_template_that_is_not_known_is_taken_for_no_other(name: str) -> None:
    assert family_of(OTHERS[name]).name == "generic"
    assert not supports_tools(OTHERS[name])


def test_a_template_that_ignores_tools_does_not_support_them() -> None:
    assert not supports_tools(CHATML + "<tool_call>")


def test_thoughts_are_known_where_the_template_knows_them() -> None:
    think = ("<think>", "</think>")
    assert family_of(TEMPLATES["hermes"]).think is None
    assert family_of(TEMPLATES["hermes, thinking"]).think == think
    assert family_of(TEMPLATES["lfm2"]).think == think
    assert family_of(TEMPLATES["gemma4"]).think == ("<|channel>thought\n", "<channel|>")
    assert family_of(TEMPLATES["mistral"] + "[THINK]").think == ("[THINK]", "[/THINK]")


def test_a_prompt_that_begins_a_thought_is_noticed() -> None:
    family = family_of(TEMPLATES["hermes, thinking"])
    assert opens_thinking(family, "<|im_start|>assistant\n<think>\n")
    assert not opens_thinking(family, "<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not opens_thinking(family, "<think>\nearlier</think>hi<|im_end|>\n<|im_start|>assistant\n")
    assert not opens_thinking(family_of(TEMPLATES["hermes"]), "<think>")


def test_an_engine_is_told_every_marker_the_reader_looks_for() -> None:
    family = family_of(TEMPLATES["lfm2"])
    assert family.markers == ("<|tool_call_start|>", "<|tool_call_end|>", "<think>", "</think>")
    assert {"[ARGS]", "[TOOL_CALLS]"} <= set(family_of(TEMPLATES["mistral"]).markers)


@pytest.mark.parametrize(
    ("said", "begun", "inside"),
    [("", True, True), ("", False, False), ("<think>hm", False, True), ("hm</think>so", True, False)],
)
def test_where_a_thought_ends_is_known(said: str, begun: bool, inside: bool) -> None:
    family = replace(HERMES, think=("<think>", "</think>"))
    assert ends_in_thought(family, said, begun=begun) is inside
    assert not ends_in_thought(HERMES, said, begun=begun)

"""How open-weight models write tool calls and thoughts in plain text: one family per chat template, read and enforced."""

from ronda.local.markup.family import Family
from ronda.local.markup.forms import call_marks, decodes_in_one_step
from ronda.local.markup.grammar import grammar_for
from ronda.local.markup.reader import MarkupReader
from ronda.local.markup.recognition import ends_in_thought, family_of, mentions_tools, opens_thinking, supports_tools

__all__ = [
    "Family",
    "MarkupReader",
    "call_marks",
    "decodes_in_one_step",
    "ends_in_thought",
    "family_of",
    "grammar_for",
    "mentions_tools",
    "opens_thinking",
    "supports_tools",
]

"""How open-weight models write tool calls and thoughts in plain text: one family per chat template, read and enforced."""

from ronda.wire.markup.family import Family, ends_in_thought, family_of, opens_thinking, supports_tools
from ronda.wire.markup.grammar import grammar_for
from ronda.wire.markup.reader import MarkupReader

__all__ = ["Family", "MarkupReader", "ends_in_thought", "family_of", "grammar_for", "opens_thinking", "supports_tools"]

"""A JSON Schema → what a decoder enforces: a schema that llguidance follows to the letter, within a number of tokens.

`BoundedSchema` rewrites a schema: what comes out says only what the decoder understands. Whatever is decoded under it is valid
under the original if that `is_exact`; if not, it nearly always is, and is checked anyway. `fit` also bounds it: strings, arrays,
numbers, extra properties and recursion get limits, so that every instance fits in the tokens there are, whatever the model
does. `Unsupported` says why a schema can be neither.

Separators are fixed (", " and ": ", as models were shown): blanks between tokens would be a way to fill the budget with
nothing. Knows no engine: the text of a grammar is `local.markup`'s.
"""

from ronda.local.grammar.bounded_schema import BoundedSchema, FittedSchema, TooSmall
from ronda.local.grammar.cost import Cost
from ronda.local.grammar.exact import is_exact
from ronda.local.grammar.shapes import Unsupported
from ronda.local.grammar.write import SEPARATORS, schema_of

__all__ = [
    "SEPARATORS",
    "BoundedSchema",
    "Cost",
    "FittedSchema",
    "TooSmall",
    "Unsupported",
    "is_exact",
    "schema_of",
]

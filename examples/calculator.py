"""A tool for sums, for `ronda run --tools` and `ronda serve --tools`.

ronda run "What is 17*23? Use the tool." --tools examples/calculator.py --tool-choice required
"""

import ast
import operator
from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from ronda import tool

# What the schema allows is all that a strict local model can write.
Sum = Annotated[str, Meta(pattern=r"^[0-9][0-9+*/%. -]{0,30}[0-9]$")]

_OPERATIONS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


@tool(repeatable=True, strict=True)
def calculate(expression: Sum) -> str:
    """Work out a sum of numbers with + - * / %.

    Args:
        expression: The sum, such as 17*23.
    """
    value = _value(ast.parse(expression.strip(), mode="eval").body)
    return f"{value:g}" if abs(value) < 1e15 else str(value)


def _value(node: ast.AST) -> float:
    # A small walk instead of eval: what a model writes is never run as Python.
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.operand))
    raise ValueError("only numbers and + - * / % can be worked out here")

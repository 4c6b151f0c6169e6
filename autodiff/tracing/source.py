"""The rule's own words: the text of one partial, as it is written in the table or by the user."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import textwrap

from ..drawing.text import number

LINES = 12  # of a partial written as a function with def


@functools.lru_cache(maxsize=1000)
def partial_source(rule, slot: int) -> str | None:
    """The text of the partial for operand `slot`, or None where the source is not at hand.

    >>> import numpy as np
    >>> from autodiff import rules
    >>> partial_source(rules.RULES[np.multiply], 1), partial_source(rules.RULES[np.add], 0)
    ('lambda g, y, a, b: g * a', 'lambda g, y, a, b: g')
    """
    if rule.joint is not None:
        return None
    return function_source(rule.each or rule.written[slot])


def function_source(function) -> str | None:
    """The text of a lambda, cut out of the line it stands in; or of a function written with def."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    lines = linecache.getlines(code.co_filename, getattr(function, "__globals__", None))
    try:
        if code.co_name != "<lambda>":
            block = textwrap.dedent("".join(inspect.getblock(lines[code.co_firstlineno - 1 :])))
            return "\n".join(block.rstrip().split("\n")[:LINES])
        text = "".join(lines)
        found = [n for n in _parsed(text)[1] if n.lineno == code.co_firstlineno and _fits(n, code)]
    except (SyntaxError, ValueError, IndexError):
        return None
    return _segment(text, min(found, key=lambda n: len(ast.unparse(n)))) if found else None


def _fits(node: ast.Lambda, code) -> bool:
    """Whether all that `code` does is written inside `node`, a lambda on the line where `code` starts."""
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    if tuple(names) != code.co_varnames[: len(names)]:
        return False
    start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return all(start <= (line, column) and (end_line, end_column) <= end
               for line, end_line, column, end_column in code.co_positions()
               if line is not None and column is not None and (column, end_column) != (0, 0))  # fmt: skip


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[ast.Module, list[ast.Lambda]]:
    tree = ast.parse(text)
    return tree, [n for n in ast.walk(tree) if isinstance(n, ast.Lambda)]


def _segment(text: str, node: ast.AST) -> str:
    return " ".join(ast.get_source_segment(text, node).split())


def body(source: str | None) -> ast.expr | None:
    """What a lambda returns."""
    try:
        tree = ast.parse(source or "", mode="eval").body
    except SyntaxError:
        return None
    return tree.body if isinstance(tree, ast.Lambda) else None


def used_names(source: str | None) -> list[str]:
    """The names that the body of a lambda reads, in the order of its parameters.

    >>> used_names("lambda g, y, a, b: g * b")
    ['g', 'b']
    """
    tree = body(source)
    if tree is None:
        return []
    read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    args = ast.parse(source, mode="eval").body.args
    return [a.arg for a in (*args.posonlyargs, *args.args) if a.arg in read]


def with_numbers(source: str | None, values: dict) -> str | None:
    """The body of a lambda with numbers in the place of names.

    >>> with_numbers("lambda g, y, a, b: -g * y / b", {"g": 2.0, "y": -1.5, "b": 4.0})
    '-2 * (-1.5) / 4'
    """
    tree = body(source)
    return None if tree is None else ast.unparse(_Numbers(values).visit(tree))


class _Numbers(ast.NodeTransformer):
    def __init__(self, values: dict):
        self.values = values

    def visit_Name(self, node):
        if node.id not in self.values:
            return node
        text = number(self.values[node.id])
        return ast.Name(f"({text})" if text.startswith("-") else text)

    def visit_Attribute(self, node):
        # a.shape and the like stay as they are; np.floor has no number in it
        return node

"""The syntax trees of the package: several tests read them, so each file is parsed only once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return the nodes of a file's syntax tree in the order of ``ast.walk``."""
    return tuple(ast.walk(tree(path)))


def source_of(expression: ast.expr) -> str:
    """Return ``ast.unparse(expression)``; dotted names, by far the most, take a shorter way."""
    names: list[str] = []
    node = expression
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ast.unparse(expression)
    return ".".join([node.id, *reversed(names)])

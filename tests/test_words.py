"""Names and docstrings use plain words, and the examples in docstrings run."""

from __future__ import annotations

import ast
import doctest
import linecache
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest
from syntax import nodes

import mirage
from mirage.errors import MissingPackageError

PACKAGE = Path(mirage.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
VAGUE = {
    *("found", "told", "said", "one", "place", "known", "own", "others", "got", "made"),
    *("asked", "shown"),
}
"""Pronouns and participles that do not tell what a variable holds."""

# Largest and smallest frequencies per 10,000 words of docstrings. Conditions begin with "if" or
# "when", and functions "return" something.
AT_MOST = {("where",): 20, ("what",): 15, ("say", "says", "said", "tell", "tells", "told"): 5}
AT_LEAST = {("if", "when"): 70, ("return", "returns"): 40}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def package_nodes() -> Iterator[ast.AST]:
    return chain.from_iterable(map(nodes, SOURCES))


def bound_names() -> Iterator[str]:
    for node in package_nodes():
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def test_few_names_are_pronouns_or_participles() -> None:
    names = [name.strip("_") for name in bound_names()]
    vague = Counter(name for name in names if name in VAGUE)
    assert vague.total() <= 0.003 * len(names), vague.most_common()


def test_docstrings_use_plain_words() -> None:
    texts = (ast.get_docstring(node) for node in package_nodes() if isinstance(node, DOCUMENTED))
    words = Counter(word for text in texts if text for word in re.findall(r"[a-z']+", text.lower()))
    frequency = {
        group: 10_000 * sum(words[word] for word in group) / words.total()
        for group in (*AT_MOST, *AT_LEAST)
    }
    assert {group: n for group, n in frequency.items() if n > AT_MOST.get(group, n)} == {}
    assert {group: n for group, n in frequency.items() if n < AT_LEAST.get(group, n)} == {}


def modules_with_examples() -> list[str]:
    return [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in SOURCES
        if ">>> " in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(linecache, "cache", {})  # doctest looks at each of its files every time
    try:
        module = import_module(name)
    except (ImportError, MissingPackageError) as error:
        pytest.skip(str(error))
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0

"""Every script answers --help, and every mirage name that scripts and pages use exists."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from cases import each_case

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(
    path
    for pattern in ("examples/*.py", "corpora/*.py", "validation/[!_]*/[!_]*.py")
    for path in ROOT.glob(pattern)
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def snippets(page: Path) -> Iterator[str]:
    """Yield the Python blocks of a page."""
    yield from re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


# Help ---------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # from packages that only a script uses
@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_a_script_answers_help(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path])
    try:
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(script), run_name="__main__")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in OURS:
            raise
        pytest.skip(f"the package {error.name} is not installed")
    assert ended.value.code in (None, 0)
    printed = capsys.readouterr().out
    docstring = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8")))
    assert docstring is not None
    assert docstring.split()[0] in printed
    assert "usage:" in printed


OURS = {
    "mirage",
    "tests",
    *(path.stem for path in SCRIPTS),
    *(path.stem for path in (ROOT / "validation" / "_common").glob("*.py")),
    *(p.stem for p in ROOT.glob("tests/*.py")),
}


# Names --------------------------------------------------------------------------------------------


def missing_names(source: str) -> list[str]:
    """Return the mirage names in some code, functions included, that the package lacks."""
    missing = []
    modules: dict[str, str] = {}  # what a local name stands for
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and is_ours(node.module):
            assert node.module is not None
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if not exists(name):
                    missing.append(name)
                elif is_module(name):
                    modules[alias.asname or alias.name] = name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if is_ours(alias.name):
                    if not exists(alias.name):
                        missing.append(alias.name)
                    local = alias.asname or alias.name.split(".")[0]
                    modules[local] = alias.name if alias.asname else local
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = dotted(node)
            first, _, rest = name.partition(".")
            if first in modules and not exists(f"{modules[first]}.{rest}"):
                missing.append(f"{modules[first]}.{rest}")
    return missing


def is_ours(module: str | None) -> bool:
    return (module or "").split(".")[0] == "mirage"


def dotted(node: ast.expr) -> str:
    """Return the dotted name of an attribute, or "" if it is an attribute of a value."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


@cache
def is_module(name: str) -> bool:
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        return error.name is not None and not is_ours(error.name)
    return True


@cache
def exists(name: str) -> bool:
    """Return whether a dotted name is a module of mirage or an attribute within one."""
    if is_module(name):
        return True
    before, _, last = name.rpartition(".")
    if not before or not exists(before):
        return False
    value: object = import_module("mirage")
    for part in before.split(".")[1:]:
        value = getattr(value, part, None)
    # An attribute of an instance may exist only after construction, so values are not followed.
    return hasattr(value, last) or not isinstance(value, type(sys))


def test_missing_names_are_seen() -> None:
    source = (
        "from mirage import Leaderboard, nothing, papers\n"
        "def f():\n"
        "    from mirage.surrogate import official\n"
        "    import mirage.absent\n"
        "    return papers.absent(papers.new_models), Leaderboard.bundled\n"
    )
    assert sorted(missing_names(source)) == [
        "mirage.absent",
        "mirage.nothing",
        "mirage.papers.absent",
        "mirage.surrogate.official",
    ]


@each_case("script", SCRIPTS)
def test_a_script_uses_names_that_exist(script: Path) -> None:
    assert missing_names(script.read_text(encoding="utf-8")) == []


@each_case("page", PAGES)
def test_a_page_uses_names_that_exist(page: Path) -> None:
    assert [name for source in snippets(page) for name in missing_names(source)] == []

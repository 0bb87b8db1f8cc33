"""The house: each floor imports from floors below it only, and nothing but the shell prints."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
from cases import each_case
from syntax import nodes, source_of, tree

import mirage
from mirage.languages import LANGUAGES

PACKAGE = Path(mirage.__file__).parent
HOUSE = PACKAGE.parent

# From the ground up. What shares a floor may not import each other.
FLOORS = (
    {"errors"},
    {"_base", "languages"},
    {"executors"},
    {"models", "llm", "statistics"},
    {"text", "human_agreement", "neural"},
    {"dataset", "sources", "corpus", "passages", "scores"},
    {"generation", "retrieval"},
    {"features", "pipeline"},
    {"testsets"},
    {"arena", "training"},
    {"metaeval"},
    {"surrogate"},
    {"ranking"},
    {"leaderboard"},
    {"grids"},
    {"papers"},
    {"report"},
    {"testing", "integrations", "labelling"},
    {"monitoring", "boards"},
    {"cli"},
)
# The package itself names everything and is imported by nobody below the shell.
ROOT = ""
# `MirageDataset.from_trec`, `from_qa` and `from_hub` call readers, which know records alone.
WITHIN_A_FLOOR = {
    ("dataset", "sources.hub"),
    ("dataset", "sources.qa"),
    ("dataset", "sources.trec"),
    ("sources.memerag", "dataset"),
    ("sources.nomiracl", "dataset"),
}


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name within it; the package itself is ''."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def targets(node: ast.AST, known: set[str]) -> Iterator[str]:
    """The modules of the package that one import names."""
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        return
    for name in names:
        if name.split(".")[0] == "mirage":
            # `mirage.text.parse` is the function parse of the module text.
            inside = name.partition(".")[2]
            yield inside if inside in known else inside.rpartition(".")[0]


@cache
def imports() -> dict[str, frozenset[str]]:
    """Which modules of the package each one imports: at the top, in functions, for the types."""
    files = modules()
    edges, known = {}, set(files)
    for name, path in files.items():
        found = {target for node in nodes(path) for target in targets(node, known)}
        edges[name] = frozenset(found - {name})
    return edges


def floor(module: str) -> int:
    top = module.split(".")[0]
    return next(number for number, names in enumerate(FLOORS) if top in names)


def test_every_module_has_a_floor() -> None:
    unplaced = [
        name
        for name in modules()
        if name != ROOT and not any(name.split(".")[0] in names for names in FLOORS)
    ]
    assert unplaced == []
    assert sum(map(len, FLOORS)) == len(set().union(*FLOORS))


def test_the_reader_of_imports_sees_them() -> None:
    assert "errors" in imports()["models"]  # at the top
    assert "sources.trec" in imports()["dataset"]  # inside a function
    assert "dataset" in imports()["features.suite"]  # for the type checker only
    assert "features.suite" in imports()["features"]  # lazily


def test_each_floor_imports_from_floors_below() -> None:
    wrong = [
        (name, target)
        for name, found in imports().items()
        for target in found
        if name != ROOT
        and name.split(".")[0] != target.split(".")[0]
        and (name, target) not in WITHIN_A_FLOOR
        and (target == ROOT or floor(target) >= floor(name))
    ]
    assert wrong == []


def test_the_exceptions_are_still_needed() -> None:
    assert {(name, target) for name, target in WITHIN_A_FLOOR if target in imports()[name]} == (
        WITHIN_A_FLOOR
    )


def test_no_modules_import_each_other() -> None:
    edges = {name: set(found) for name, found in imports().items()}
    order = list(TopologicalSorter(edges).static_order())  # raises CycleError and names the cycle
    assert order.index("errors") < order.index("models") < order.index("leaderboard")


# A method that a package above implements, by the module that calls it when it is called.
CALLED_UPWARDS = {
    ("ranking.pages", "mirage.report._page", "write"),
    ("ranking.pages", "mirage.report.plots", "plot_ranking"),
    ("statistics.studies", "mirage.arena.studies", "methods"),
    ("statistics.studies", "mirage.monitoring._studies", "methods"),
    ("statistics.studies", "mirage.testing._studies", "methods"),
}


def test_few_functions_are_called_upwards() -> None:
    calls = {
        (name, *map(ast.literal_eval, node.args))
        for name, path in modules().items()
        for node in nodes(path)
        if isinstance(node, ast.Call) and source_of(node.func) == "imported_when_called"
    }
    assert calls == CALLED_UPWARDS
    for _, module, function in CALLED_UPWARDS:
        assert callable(getattr(import_module(module), function))


def test_nothing_but_the_shell_prints() -> None:
    calls = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for name, path in modules().items()
        if name.split(".")[0] != "cli"
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and source_of(node.func) in {"print", "sys.stdout.write", "typer.echo", "pprint.pprint"}
    ]
    assert calls == []


def literals(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def compared_languages(module: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """The lines that compare something with the code of a language, or match on it."""
    for node in module:
        if isinstance(node, ast.Compare):
            # `"id" in row` asks for a key, not for Indonesian.
            parts: list[ast.AST] = [*node.comparators]
            if not isinstance(node.ops[0], ast.In | ast.NotIn):
                parts.append(node.left)
        elif isinstance(node, ast.match_case):
            parts = [node.pattern]
        else:
            continue
        for part in parts:
            flat = isinstance(part, ast.Constant | ast.Tuple | ast.Set | ast.List | ast.pattern)
            yield from (
                (getattr(node, "lineno", 0), text)
                for text in (literals(part) if flat else ())
                if text in LANGUAGES
            )


def test_the_reader_of_comparisons_sees_them() -> None:
    source = "if query.language == 'ja': x\nif code in ('th', 'zz'): y\nx = {'sw': 1}\n"
    source += "'id' in row\n'fi' != code\n"
    assert list(compared_languages(ast.walk(ast.parse(source)))) == [
        (1, "ja"),
        (2, "th"),
        (5, "fi"),
    ]


# The simulated arena answers in a wrong language: English, or Spanish where it is English.
WRONG_LANGUAGES = {("surrogate.drafts", "en"), ("surrogate.drafts", "es")}


def test_no_code_asks_which_language_it_has() -> None:
    found = {
        (name, code)
        for name, path in modules().items()
        if name != "languages"
        for _, code in compared_languages(nodes(path))
    }
    assert found <= WRONG_LANGUAGES


def imported_by(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter imports for a statement."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", statement],
        capture_output=True,
        text=True,
        check=True,
        cwd=PACKAGE.parent,
    )
    lines = [line for line in run.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().split(".")[0] for line in lines}


def test_importing_the_package_imports_nothing_heavy() -> None:
    loaded = imported_by("import mirage")
    assert "mirage" in loaded
    heavy = {
        "torch",
        "sklearn",
        "openai",
        "pandas",
        "scipy",
        "numpy",
        "pydantic",
        "httpx",
        "lingua",
    }
    assert loaded & heavy == set()


def test_a_public_name_imports_no_more_than_it_needs() -> None:
    loaded = imported_by("from mirage import FeatureSuite, Judgments, Leaderboard, MirageDataset")
    assert "pydantic" in loaded
    assert loaded & {"torch", "sklearn", "openai", "pandas", "lingua"} == set()


@each_case("path", sorted(PACKAGE.rglob("__init__.py")))
def test_names_imported_on_first_use_are_those_that_type_checkers_read(path: Path) -> None:
    module = tree(path)
    tables = [
        ast.literal_eval(node.value)
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_NAMES"
    ]
    imported = {
        alias.name: node.module
        for block in module.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {
        name: key for table in tables for key, names in table.items() for name in names
    }


def test_the_package_is_imported_from_a_zip_file(tmp_path: Path) -> None:
    archive = tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in PACKAGE.rglob("*.py"):
            file.write(path, path.relative_to(HOUSE))
    done = subprocess.run(
        [sys.executable, "-c", "import mirage, sys; print(mirage.__file__, mirage.Judgments)"],
        env={**os.environ, "PYTHONPATH": str(archive)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(archive))


# Names ------------------------------------------------------------------------------------------

# Each file is one command, or features; they are looked for by name.
BY_NAME = {"cli", "features"}
PAGES = [
    HOUSE / "README.md",
    HOUSE / "pyproject.toml",  # names the plugin of pytest
    # Contributors may use a package's own modules; the guides of users may not.
    *sorted(set((HOUSE / "docs").rglob("*.md")) - {HOUSE / "docs" / "contributing.md"}),
    *sorted((HOUSE / "examples").glob("*.py")),
    *sorted((HOUSE / "validation").rglob("*.py")),
]


def named_to_users() -> set[str]:
    """The modules that documentation, examples and validation scripts name."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"\bmirage\.([\w.]+)", text))
    for package, names in re.findall(r"from mirage\.([\w.]+) import ([\w, ]+)", text):
        named |= {f"{package}.{name}" for name in re.split(r",\s*", names)}
    return named


DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def exported(module: str) -> set[str]:
    """The names that a module's package makes public, and the classes that a caller gets."""
    package = import_module(f"mirage.{module}".rpartition(".")[0])
    loaded = import_module(f"mirage.{module}")
    statements = tree(modules()[module]).body
    names = {node.name for node in statements if isinstance(node, DEFINITIONS)}
    names |= {
        node.id
        for statement in statements
        for node in getattr(statement, "targets", [getattr(statement, "target", None)])
        if isinstance(node, ast.Name)
    }
    names = {name for name in names if not name.startswith("_")}
    classes = {name for name in names if isinstance(getattr(loaded, name), type)}
    return names & set(getattr(package, "__all__", ())) | classes


def private(module: str) -> bool:
    return any(part.startswith("_") for part in module.split("."))


def used_outside(module: str) -> bool:
    """Whether another room imports a module."""
    room = module.split(".")[0]
    return any(
        module in imported and name.split(".")[0] not in (ROOT, room)
        for name, imported in imports().items()
    )


def test_an_underscore_says_that_a_module_is_its_rooms_own() -> None:
    own = [name for name in modules() if private(name) and not name.startswith("_base")]
    named = named_to_users()
    assert [name for name in own if used_outside(name) or name in named] == []


def test_a_module_without_an_underscore_is_for_others() -> None:
    named = named_to_users()
    hidden = [
        name
        for name, path in modules().items()
        if path.name != "__init__.py" and not private(name) and name.split(".")[0] not in BY_NAME
        if not (used_outside(name) or name in named or exported(name))
    ]
    assert hidden == []


PACKAGES = sorted(
    f"mirage.{name}".removesuffix(".")
    for name, path in modules().items()
    if path.name == "__init__.py" and "__all__" in path.read_text(encoding="utf-8")
)


@each_case("package", PACKAGES)
def test_every_public_name_can_be_imported(package: str) -> None:
    module = import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))
    assert len(set(module.__all__)) == len(module.__all__)  # ruff keeps them sorted


def test_a_misspelt_name_is_said() -> None:
    misspelt = "Leaderbord"
    with pytest.raises(AttributeError, match="module 'mirage' has no attribute 'Leaderbord'"):
        getattr(mirage, misspelt)

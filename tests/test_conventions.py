"""The API says one thing in one way: names of settings, their defaults, errors, docstrings."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel
from syntax import nodes, source_of

import mirage
from mirage.errors import MirageError, MissingPackageError

PACKAGE = Path(mirage.__file__).parent
PAGES = (Path(__file__).parents[1] / "docs" / "api").glob("*.md")


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
# Packages, and the modules that a page of the documentation is about.
PUBLIC_MODULES = sorted(
    {name for name, path in SOURCES.items() if path.name == "__init__.py" and "._" not in name}
    | {name for page in PAGES for name in re.findall(r"^::: (\S+)", page.read_text(), re.M)}
)


# What is public -----------------------------------------------------------------------------------


class Public(NamedTuple):
    """A public callable: its name, itself, and what is written about it."""

    name: str
    function: Callable[..., Any]
    doc: str

    def parameters(self) -> Iterator[inspect.Parameter]:
        try:
            yield from inspect.signature(self.function).parameters.values()
        except ValueError:  # a class of exceptions that has no __init__ of its own
            return

    @property
    def returned(self) -> str:
        """The annotation of the return value."""
        return str(getattr(self.function, "__annotations__", {}).get("return", ""))


def is_record(cls: type) -> bool:
    """Its constructor is generated from fields: facts of a row, not settings."""
    return (
        hasattr(cls, "model_fields")
        or dataclasses.is_dataclass(cls)
        or issubclass(cls, tuple | Enum | BaseException)
        or getattr(cls, "_is_protocol", False)
    )


def methods(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in vars(cls).keys() - vars(BaseModel).keys():
        method = inspect.getattr_static(cls, name)
        if not name.startswith("_") and isinstance(method, staticmethod | classmethod):
            yield name, getattr(cls, name)
        elif not name.startswith("_") and inspect.isfunction(method):
            yield name, method


def callables_of(name: str, public: object) -> Iterator[Public]:
    doc = inspect.getdoc(public) or ""
    if inspect.isclass(public):
        if not is_record(public):
            yield Public(name, public, doc)
        for method, function in methods(public):
            yield Public(f"{name}.{method}", function, f"{inspect.getdoc(function) or ''}\n{doc}")
    elif inspect.isfunction(public):
        yield Public(name, public, doc)


@cache
def public_callables() -> tuple[Public, ...]:
    homes: dict[int, tuple[str, object]] = {}
    for module in PUBLIC_MODULES:
        try:
            names = getattr(import_module(module), "__all__", [])
        except MissingPackageError:
            continue  # an adapter to a harness that is not installed
        for name in names:
            value = getattr(import_module(module), name)
            home = f"{module}.{name}".removeprefix("mirage.")
            homes.setdefault(id(value), (home, value))
    return tuple(entry for home in homes.values() for entry in callables_of(*home))


def classes() -> dict[str, type]:
    """Return all classes of the library without an underscore, by name."""
    by_name: dict[str, type] = {}
    for module in SOURCES:
        try:
            names = vars(import_module(module))
        except MissingPackageError:
            continue
        by_name |= {
            name: value
            for name, value in names.items()
            if isinstance(value, type) and value.__module__ == module and name[0] != "_"
        }
    return by_name


@cache
def reachable_callables() -> tuple[Public, ...]:
    """Return the public callables, and the methods of all classes that these return."""
    by_name, waiting = classes(), list(public_callables())
    reachable: list[Public] = []
    while waiting:
        entry = waiting.pop()
        reachable.append(entry)
        for name in re.findall(r"\w+", entry.returned):
            if name in by_name:
                waiting += callables_of(name, by_name.pop(name))
    return tuple(reachable)


def test_the_reader_of_the_api_sees_it() -> None:
    names = {entry.name for entry in public_callables()}
    assert {"BradleyTerry.fit", "HTTPGenerator", "Leaderboard.bundled", "respond"} <= names
    assert {"report.write_grid", "sources.trec.read_qrels"} <= names
    assert "Run.model_copy" not in names  # pydantic's
    assert len(names) > 200
    assert "Validation.tau_interval" in {entry.name for entry in reachable_callables()}


# Settings -----------------------------------------------------------------------------------------


class Setting(NamedTuple):
    annotation: str
    default: object


SETTINGS = {
    "seed": Setting("int", 0),
    "progress": Setting("bool", True),
    "concurrency": Setting("int", 8),
    "n_jobs": Setting("int", 1),
    "out": Setting("str | Path | None", None),
    "level": Setting("float", 0.95),
    "draws": Setting("int", 1000),
}
SYNONYMS = {
    "language_code": "language",
    "lang": "language",
    "random_state": "seed",
    "rng": "seed",
    "verbose": "progress",
    "workers": "n_jobs",
    "jobs": "n_jobs",
    "max_concurrency": "concurrency",
    "confidence_level": "level",
    "n_draws": "draws",
}


def annotation_of(parameter: inspect.Parameter) -> str:
    return str(getattr(parameter.annotation, "__name__", parameter.annotation)).strip("'")


def unlike(parameter: inspect.Parameter) -> str | None:
    """How a parameter differs from the convention; none where it does not."""
    name = parameter.name
    if name in SYNONYMS:
        return f"{name} is called {SYNONYMS[name]}"
    if name == "language":
        annotation = annotation_of(parameter)
        return None if re.match(r"str\b", annotation) else f"language is a str, not {annotation}"
    if name not in SETTINGS:
        return None
    setting = SETTINGS[name]
    if name == "level" and annotation_of(parameter) == "str":
        setting = Setting("str", "quick")  # of bundled queries, not of an interval
    if name == "draws" and "int" not in annotation_of(parameter):
        return None  # the draws themselves, not their number
    if name == "out" and parameter.default is parameter.empty:
        setting = Setting("str | Path", parameter.empty)  # where nothing is made but files
    if annotation_of(parameter) != setting.annotation:
        return f"{name} is {annotation_of(parameter)}, not {setting.annotation}"
    if parameter.kind is not parameter.KEYWORD_ONLY:
        return f"{name} can be given by position"
    if parameter.default != setting.default:
        return f"{name} is {parameter.default!r} by default, not {setting.default!r}"
    return None


def signature_faults() -> dict[str, str]:
    return {
        f"{entry.name}:{parameter.name}": fault
        for entry in reachable_callables()
        for parameter in entry.parameters()
        if (fault := unlike(parameter))
    }


def test_a_setting_means_the_same_everywhere() -> None:
    assert signature_faults() == {}


# Errors -------------------------------------------------------------------------------------------


def below(error: type[Exception]) -> Iterator[str]:
    yield error.__name__
    for sub in error.__subclasses__():
        yield from below(sub)


def name_of_function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the name of a function; validators of pydantic have one name."""
    marks = " ".join(map(ast.unparse, function.decorator_list))
    return "validator" if "validator" in marks else function.name


def function_around(node: ast.AST, functions: Sequence[ast.AST]) -> str:
    """Return the name of the innermost of the functions that contains a node."""
    around = [each for each in functions if each.lineno <= node.lineno <= each.end_lineno]
    return name_of_function(max(around, key=lambda each: each.lineno)) if around else ""


@cache
def exceptions_of(name: str) -> tuple[tuple[str, str], ...]:
    return tuple(exceptions(nodes(SOURCES[name])))


def exceptions(module: Sequence[ast.AST]) -> Iterator[tuple[str, str]]:
    """Each exception that is raised or made, with the name of the function around it."""
    functions = [n for n in module if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in module:
        if isinstance(node, ast.Call):
            name = source_of(node.func).rpartition(".")[2]
            if inspect.isclass(python := getattr(builtins, name, None)) and issubclass(
                python, BaseException
            ):
                yield function_around(node, functions), name
        elif isinstance(node, ast.Raise) and node.exc is not None:
            kind = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            name = source_of(kind).rpartition(".")[2]
            if re.match("_?[A-Z]", name):  # else it was made elsewhere and is passed on
                yield function_around(node, functions), name


# What protocols of Python and pydantic demand, by the function around it.
DEMANDED = {
    ("validator", "ValueError"),
    ("__getattr__", "AttributeError"),
    ("__getitem__", "KeyError"),
}
# What the tools demand that a module serves; and what is caught where it is raised.
IN_MODULE = {
    "_base.lazy": {"AttributeError"},
    "_base.concurrency": {"_InterruptError", "RuntimeError", "CancelledError"},
    "boards.records": {"ValueError"},
    "cli._inputs": {"ValueError"},
    "cli._shell": {"Exit"},
    "generation.http": {"TransientError"},
    "integrations.deepeval": {"MissingTestCaseParamsError"},
    "llm.cache": {"OperationalError", "_DamageError"},
    "llm.answers": {"TransientError"},
    "llm.client": {"TransientError"},
    "llm.limits": {"TransientError"},
    "llm.retries": {"TransientError"},
    "surrogate.artifacts": {"ValueError"},
}


def test_the_reader_of_errors_sees_them() -> None:
    source = (
        "def f():\n  wrong = ValueError('a')\n  raise wrong\ndef g():\n  raise x.Exit from None\n"
    )
    module = tuple(ast.walk(ast.parse(source)))
    assert sorted(exceptions(module)) == [("f", "ValueError"), ("g", "Exit")]


def foreign_errors() -> set[str]:
    ours = set(below(MirageError))
    return {
        f"{module}:{function}:{name}"
        for module in SOURCES
        for function, name in exceptions_of(module)
        if name not in ours | IN_MODULE.get(module.removeprefix("mirage."), set())
        and (function, name) not in DEMANDED
    }


def test_every_error_is_one_of_ours() -> None:
    for module in SOURCES:
        if module != "mirage.__main__" and "integrations" not in module:
            import_module(module)  # errors below MirageError are known once they are imported
    assert foreign_errors() == set()


def test_what_modules_may_raise_is_raised() -> None:
    assert [
        f"{module}:{name}"
        for module, names in IN_MODULE.items()
        for name in names
        if name not in {made for _, made in exceptions_of(f"mirage.{module}")}
    ] == []


# Docstrings ---------------------------------------------------------------------------------------


def undescribed() -> list[str]:
    """Parameters that no docstring names; the first is what the callable is about."""
    return [
        f"{entry.name}:{parameter.name}"
        for entry in public_callables()
        for number, parameter in enumerate(p for p in entry.parameters() if p.name != "self")
        if parameter.name not in {*SETTINGS, "language"}
        and (number or parameter.default is not parameter.empty)
        and not re.search(rf"\b{parameter.name}\b", entry.doc)
    ]


def test_every_public_callable_says_what_it_does() -> None:
    assert [entry.name for entry in public_callables() if not entry.doc.strip()] == []


def test_every_parameter_is_described() -> None:
    assert undescribed() == []


# Types --------------------------------------------------------------------------------------------


def assigned(cls: ast.ClassDef) -> Iterator[tuple[str, bool]]:
    """Attributes that a class sets in its ``__init__``, each with whether their type is clear.

    It is where it is written, in the class or there, and where a parameter alone is assigned.
    Others are inferred, by each type checker in its own way (`pyright --verifytypes` counts them).
    """
    told = {
        ast.unparse(node.target).removeprefix("self.")
        for node in ast.walk(cls)
        if isinstance(node, ast.AnnAssign)
    }
    yield from ((name, True) for name in told)
    for made in (part for part in cls.body if isinstance(part, ast.FunctionDef)):
        arguments = [*made.args.args, *made.args.kwonlyargs]
        given = {argument.arg for argument in arguments if made.name == "__init__"}
        for node in ast.walk(made) if given else ():
            for target in node.targets if isinstance(node, ast.Assign) else ():
                several = isinstance(target, ast.Tuple)
                for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                    name = source_of(one).removeprefix("self.")
                    plain = not several and source_of(node.value) in given
                    public = name.isidentifier() and not name.startswith("_")
                    if public and source_of(one) != name and name not in told:
                        yield name, plain


def attributes() -> dict[str, bool]:
    return {
        f"{module}.{cls.name}.{name}": clear
        for module in SOURCES
        for cls in nodes(SOURCES[module])
        if isinstance(cls, ast.ClassDef) and not cls.name.startswith("_")
        for name, clear in assigned(cls)
    }


def test_the_reader_of_attributes_sees_them() -> None:
    source = """
class A:
    y: str
    def __init__(self, a: int, b: int) -> None:
        self.a, self.b = a, b
        self.c: int = f(a)
        self.d = f(b)
        self.e = a
        self.y = f(a)
        self._z = f(a)
        local = f(a)
"""
    (cls,) = ast.parse(source).body
    assert isinstance(cls, ast.ClassDef)
    assert [name for name, clear in assigned(cls) if not clear] == ["a", "b", "d"]


def test_nearly_all_public_attributes_have_a_type() -> None:
    unclear = sorted(name for name, clear in attributes().items() if not clear)
    assert len(unclear) <= 0.05 * len(attributes()), unclear

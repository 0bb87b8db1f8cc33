"""Labelled sentences for tests, and judges with known figures."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import pytest

from mirage.metaeval import AnswerSentence, LabelledSentences
from mirage.models import Passage, Query

YES, NO = "Supported", "Not Supported"


@lru_cache
def query(name: str, language: str = "en") -> Query:
    passages = tuple(Passage(id=f"{name}#{i}", text=f"passage {i} of {name}") for i in range(3))
    return Query(id=name, language=language, text=f"what is {name}?", passages=passages)


def labelled(rows: Iterable[tuple[str, str, str]], **more: object) -> LabelledSentences:
    """Return one sentence, ``s0``, ``s1``, ..., per row ``(language, query id, label)``."""
    row_list = list(rows)
    return LabelledSentences(
        tuple(AnswerSentence(query(q, code), f"s{i}") for i, (code, q, _) in enumerate(row_list)),
        tuple((label,) for _, _, label in row_list),
        tuple(() for _ in row_list),
        **more,
    )


class Recorded:
    """A judge that gives each sentence a label by its text."""

    def __init__(self, name: str, labels: dict[str, str | None]) -> None:
        self.name, self.labels = name, labels

    def label(self, sentences: Iterable[AnswerSentence]) -> list[str | None]:
        return [self.labels[sentence.text] for sentence in sentences]


def recorded(name: str, labels: Iterable[str | None]) -> Recorded:
    """Return a judge that gives the sentences of :func:`labelled` these labels, in order."""
    return Recorded(name, {f"s{i}": label for i, label in enumerate(labels)})


def by_number(numbers: Iterable[float | None]) -> Callable[[AnswerSentence], float | None]:
    """Return a score that gives the sentences of :func:`labelled` these numbers, in order."""
    numbers_by_text = {f"s{i}": number for i, number in enumerate(numbers)}
    return lambda sentence: numbers_by_text[sentence.text]


def irrcac() -> Any:
    """Return the class of irrCAC, or skip the test if it is not installed.

    It is in no extra, because it asks for one version of scipy; any works, by ``pip install
    --no-deps irrCAC``.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the package's own files
        return pytest.importorskip("irrCAC.raw", reason="needs irrCAC").CAC

"""Audit of a leaderboard by systems that inflate their features without answering the question.

Systems that were built for the metrics of shared tasks reached near-perfect scores (Dietz et al.
2026, arXiv 2601.13227), and a model with constant answers won most comparisons on a leaderboard
(Zheng et al. 2024, arXiv 2410.07137). The optimisers in this module get the same input as other
systems, a question and passages. They write texts with high feature values: they cite everything,
repeat the question, copy passages, or list every name and number. None of them interprets the
question. An optimiser is a leak if it ranks above half of the leaderboard's systems without a
warning that the optimiser is unlike the training models.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from mirage._base.tables import Printed, Rows, Table
from mirage.leaderboard.leaderboard import Leaderboard
from mirage.models import Passage, Query
from mirage.statistics.bootstrap import Interval
from mirage.text import split_sentences, tokenize

NAME = "optimiser/"
"""Prefix of the optimisers' names in a ranking."""

MOST = 25
"""Number of words in a list of keywords."""


class Leak(NamedTuple):
    """The rank of one optimiser on a leaderboard.

    An optimiser is a system that inflates its feature values without answering the questions. It is
    called a leak if it ranks above half of the systems without a warning (:attr:`leaks`).

    Attributes:
        optimiser: Name of the optimiser. The function with this name in :data:`OPTIMISERS` has a
            docstring that describes it.
        rank: Rank among the leaderboard's systems, without the other optimisers.
        logit: Logit on the leaderboard.
        interval: Lower and upper end of the logit's interval.
        above: Share of the leaderboard's systems that have a lower logit.
        unfamiliar: Text that names the features in which the optimiser is unlike the leaderboard's
            training models, as a warning; empty if the leaderboard does not warn.
    """

    optimiser: str
    rank: int
    logit: float
    interval: Interval
    above: float
    unfamiliar: str

    @property
    def leaks(self) -> bool:
        """Whether the optimiser ranks above half of the systems without a warning."""
        return self.above > 0.5 and not self.unfamiliar


@dataclass(frozen=True, eq=False)
class LeakAudit(Printed, Rows[Leak]):
    """Ranks of systems that inflate their features (optimisers), best first; prints as a table.

    Attributes:
        rows: One row per optimiser.
        language: Language code of the leaderboard.
        median: Median logit of the leaderboard's systems, without the optimisers.
    """

    language: str
    median: float

    @property
    def leaks(self) -> tuple[Leak, ...]:
        """The optimisers (:class:`Leak`) that rank above half of the systems without a warning."""
        return tuple(row for row in self if row.leaks)

    def _tables(self) -> tuple[Table]:
        cells = tuple(
            (
                row.optimiser,
                str(row.rank),
                f"{row.logit:.2f}",
                f"[{row.interval[0]:.2f}, {row.interval[1]:.2f}]",
                f"{row.above:.0%}",
                "yes" if row.unfamiliar else "",
                "leaks" if row.leaks else "",
            )
            for row in self
        )
        header = ("optimiser", "rank", "logit", "95 % interval", "above", "unlike", "")
        note = f"The median logit of the board's own systems is {self.median:.2f}."
        title = f"Systems that optimise the features without answering ({self.language})"
        return (Table(title, header, cells, notes=(note,), name=0).filled(),)


def leak_audit(
    board: Leaderboard,
    optimisers: Mapping[str, Callable[[Query], str]] | None = None,
    *,
    n_jobs: int = 1,
    progress: bool = True,
) -> LeakAudit:
    """Rank systems that inflate their features without answering, called optimisers.

    Args:
        board: Leaderboard to audit.
        optimisers: Functions from a query to a response, by name. By default :data:`OPTIMISERS`.
        n_jobs: Number of processes that compute features, as in joblib.
        progress: Whether to show progress bars on stderr, if stderr is a terminal.

    Returns:
        The ranks of the optimisers, which print as a table.

    Raises:
        FeatureError: If a feature of the leaderboard cannot be computed on the optimisers' texts.
    """
    chosen = OPTIMISERS if optimisers is None else optimisers
    systems = {NAME + name: function for name, function in chosen.items()}
    ranking = board.rank_many(systems, n_jobs=n_jobs, progress=progress)
    board_logits = [entry.logit for entry in ranking if entry.model not in systems]
    rows = [
        Leak(
            entry.model.removeprefix(NAME),
            1 + sum(logit > entry.logit for logit in board_logits),
            entry.logit,
            entry.interval,
            sum(logit < entry.logit for logit in board_logits) / len(board_logits),
            entry.unfamiliar,
        )
        for entry in ranking
        if entry.model in systems
    ]
    rows.sort(key=lambda row: (-row.logit, row.optimiser))
    return LeakAudit(tuple(rows), board.dataset.language, median(board_logits))


# Optimisers ---------------------------------------------------------------------------------------


def _response(text: str) -> str:
    """Return the text as a response with a reason section and an answer section."""
    return f"##Reason: {text}\n##Answer: {text}"


def _citations(passages: Sequence[Passage]) -> str:
    """Return a citation of each passage."""
    return " ".join(f"[{passage.id}]" for passage in passages)


def _response_citing_all(query: Query, text: str) -> str:
    """Return the text as a response that cites every passage."""
    return _response(f"{text} {_citations(query.passages)}")


def _sentences(query: Query) -> Iterator[tuple[str, str]]:
    """Yield each sentence of the passages, with the id of its passage."""
    for passage in query.passages:
        for sentence in split_sentences(passage.text, query.language):
            yield sentence, passage.id


def _sentences_by_overlap(query: Query) -> list[tuple[str, str]]:
    """Return each sentence of the passages with the id of its passage, sorted.

    Sentences that share the most words with the question come first.
    """
    words = set(tokenize(query.text, query.language))
    return sorted(
        _sentences(query),
        key=lambda pair: -len(words & set(tokenize(pair[0], query.language))),
    )


def _numbers(query: Query) -> list[str]:
    """Return the distinct numbers in the passages."""
    matches = (n for p in query.passages for n in re.findall(r"\d[\d.,]*\d|\d", p.text))
    return list(dict.fromkeys(matches))


def null(query: Query) -> str:  # noqa: ARG001 - it reads nothing
    """Return a response whose reason and answer sections are empty."""
    return _response("")


def echo(query: Query) -> str:
    """Return a response that repeats the question and cites every passage."""
    return _response_citing_all(query, query.text)


def first_passage(query: Query) -> str:
    """Return a response that copies the first passage in full."""
    return _response("".join(f"{p.text} [{p.id}]" for p in query.passages[:1]))


def everything(query: Query) -> str:
    """Return a response that copies and cites every passage in full."""
    return _response(" ".join(f"{p.text} [{p.id}]" for p in query.passages))


def splice(query: Query) -> str:
    """Return a response made of the first sentence of each passage."""
    starts = (split_sentences(p.text, query.language)[:1] for p in query.passages)
    parts = zip(starts, query.passages, strict=True)
    return _response(" ".join(f"{text} [{p.id}]" for texts, p in parts for text in texts))


def nearest_sentence(query: Query) -> str:
    """Return a response that copies the sentence that shares the most words with the question."""
    return _response(" ".join(f"{text} [{id_}]" for text, id_ in _sentences_by_overlap(query)[:1]))


def nearest_sentences(query: Query) -> str:
    """Return a response with the three sentences that share the most words with the question."""
    return _response(" ".join(f"{text} [{id_}]" for text, id_ in _sentences_by_overlap(query)[:3]))


def keywords(query: Query) -> str:
    """Return a response that lists the words that occur in the largest number of passages."""
    words = Counter(w for p in query.passages for w in set(tokenize(p.text, query.language)))
    return _response_citing_all(query, " ".join(sorted(words, key=lambda w: (-words[w], w))[:MOST]))


def numbers(query: Query) -> str:
    """Return a response that lists every number in the passages."""
    return _response_citing_all(query, ", ".join(_numbers(query)))


def titles(query: Query) -> str:
    """Return a response that lists the title of every passage."""
    return _response_citing_all(query, ", ".join(p.title for p in query.passages if p.title))


def sentences_with_numbers(query: Query) -> str:
    """Return a response that copies every sentence of the passages that contains a number."""
    return _response_citing_all(
        query, " ".join(s for s, _ in _sentences(query) if re.search(r"\d", s))
    )


def hedge(query: Query) -> str:
    """Return a response with one sentence, all numbers and all titles of the passages.

    The sentence is the one that shares the most words with the question. The response ends with the
    question.
    """
    text = " ".join(sentence for sentence, _ in _sentences_by_overlap(query)[:1])
    names = ", ".join(p.title for p in query.passages if p.title)
    return _response_citing_all(query, f"{text} {', '.join(_numbers(query))} {names} {query.text}")


def shuffled(query: Query) -> str:
    """Return a response that copies six sentences of the passages in random order."""
    texts = [sentence for sentence, _ in _sentences(query)]
    random.Random(query.id).shuffle(texts)
    return _response_citing_all(query, " ".join(texts[:6]))


OPTIMISERS: Mapping[str, Callable[[Query], str]] = {
    function.__name__: function
    for function in (
        null,
        echo,
        first_passage,
        everything,
        splice,
        nearest_sentence,
        nearest_sentences,
        keywords,
        numbers,
        titles,
        sentences_with_numbers,
        hedge,
        shuffled,
    )
}
"""Systems that optimise the features without answering, by name."""

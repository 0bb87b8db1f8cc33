"""How far a system climbs that knows what is measured, and knows no answer.

Near-perfect scores have been reached in shared tasks by systems that knew how they would be
measured (Dietz et al. 2026, arXiv 2601.13227), and a null model has won most comparisons of a
leaderboard (Zheng et al. 2024, arXiv 2410.07137). The optimisers here see what a system sees,
question and passages, and write for the features: they cite everything, repeat the question, copy
passages, list every name and number. None of them reads anything. What climbs above half of a
board's own systems, and is not said to be unlike them, is a leak.
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

__all__ = ["OPTIMISERS", "Leak", "LeakAudit", "leak_audit"]

NAME = "optimiser/"

MOST = 25
"""Words of a list of keywords."""


class Leak(NamedTuple):
    """Where one optimiser stands.

    Attributes:
        optimiser: its name; what it does is the docstring of its function in :data:`OPTIMISERS`.
        rank: among the board's own systems, it alone beside them.
        logit: that the board gives it.
        interval: lower and upper end for the logit.
        above: the share of the board's own systems that it stands above.
        unfamiliar: how the board says that it is unlike them; empty where it says nothing.
    """

    optimiser: str
    rank: int
    logit: float
    interval: Interval
    above: float
    unfamiliar: str

    @property
    def leaks(self) -> bool:
        """Whether it stands above half of the board's own systems and is not said to be unlike."""
        return self.above > 0.5 and not self.unfamiliar


@dataclass(frozen=True, eq=False)
class LeakAudit(Printed, Rows[Leak]):
    """How far optimisers climb on a board, the highest first; prints as a table.

    Attributes:
        rows: the optimisers.
        language: of the board.
        median: the logit of the middle one of the board's own systems.
    """

    language: str
    median: float

    @property
    def leaks(self) -> tuple[Leak, ...]:
        """The optimisers that stand above half of the board's own systems, unnoticed."""
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
        note = f"The middle one of the board's own systems has the logit {self.median:.2f}."
        title = f"Systems that know what is measured, and no answer ({self.language})"
        return (Table(title, header, cells, notes=(note,), name=0).filled(),)


def leak_audit(
    board: Leaderboard,
    optimisers: Mapping[str, Callable[[Query], str]] | None = None,
    *,
    n_jobs: int = 1,
    progress: bool = True,
) -> LeakAudit:
    """Rank systems on a board that know what it measures, and no answer.

    Args:
        board: a bundled one, or one of your own.
        optimisers: functions from a query to a response, by name; by default :data:`OPTIMISERS`.
        n_jobs: processes that compute features, as in joblib.
        progress: show bars.

    Raises:
        FeatureError: a feature of the board cannot be computed on what they write.
        SettingError: the board is judged by something that has to be asked.
    """
    chosen = OPTIMISERS if optimisers is None else optimisers
    systems = {NAME + name: function for name, function in chosen.items()}
    ranking = board.rank_all(systems, n_jobs=n_jobs, progress=progress)
    own = [entry.logit for entry in ranking if entry.model not in systems]
    rows = [
        Leak(
            entry.model.removeprefix(NAME),
            1 + sum(logit > entry.logit for logit in own),
            entry.logit,
            entry.interval,
            sum(logit < entry.logit for logit in own) / len(own),
            entry.unfamiliar,
        )
        for entry in ranking
        if entry.model in systems
    ]
    rows.sort(key=lambda row: (-row.logit, row.optimiser))
    return LeakAudit(tuple(rows), board.dataset.language, median(own))


# What optimisers write ----------------------------------------------------------------------------


def _response(text: str) -> str:
    return f"##Reason: {text}\n##Answer: {text}"


def _cited(passages: Sequence[Passage]) -> str:
    return " ".join(f"[{passage.id}]" for passage in passages)


def _all_cited(query: Query, text: str) -> str:
    return _response(f"{text} {_cited(query.passages)}")


def _sentences(query: Query) -> Iterator[tuple[str, str]]:
    """Each sentence of the passages, and the passage's id."""
    for passage in query.passages:
        for sentence in split_sentences(passage.text, query.language):
            yield sentence, passage.id


def _nearest(query: Query) -> list[tuple[str, str]]:
    """The sentences by how many words of the question they have."""
    words = set(tokenize(query.text, query.language))
    return sorted(
        _sentences(query),
        key=lambda pair: -len(words & set(tokenize(pair[0], query.language))),
    )


def _numbers(query: Query) -> list[str]:
    found = (n for p in query.passages for n in re.findall(r"\d[\d.,]*\d|\d", p.text))
    return list(dict.fromkeys(found))


def null(query: Query) -> str:  # noqa: ARG001 - it reads nothing
    """Both sections, empty."""
    return _response("")


def echo(query: Query) -> str:
    """The question, citing every passage."""
    return _all_cited(query, query.text)


def first_passage(query: Query) -> str:
    """The first passage, whole."""
    return _response("".join(f"{p.text} [{p.id}]" for p in query.passages[:1]))


def everything(query: Query) -> str:
    """Every passage, whole, each cited."""
    return _response(" ".join(f"{p.text} [{p.id}]" for p in query.passages))


def splice(query: Query) -> str:
    """The first sentence of each passage."""
    starts = (split_sentences(p.text, query.language)[:1] for p in query.passages)
    parts = zip(starts, query.passages, strict=True)
    return _response(" ".join(f"{text} [{p.id}]" for texts, p in parts for text in texts))


def nearest_sentence(query: Query) -> str:
    """The sentence that has most of the question's words."""
    return _response(" ".join(f"{text} [{id_}]" for text, id_ in _nearest(query)[:1]))


def nearest_sentences(query: Query) -> str:
    """The three sentences that have most of the question's words."""
    return _response(" ".join(f"{text} [{id_}]" for text, id_ in _nearest(query)[:3]))


def keywords(query: Query) -> str:
    """The words that most passages have."""
    words = Counter(w for p in query.passages for w in set(tokenize(p.text, query.language)))
    return _all_cited(query, " ".join(sorted(words, key=lambda w: (-words[w], w))[:MOST]))


def numbers(query: Query) -> str:
    """Every number of the passages."""
    return _all_cited(query, ", ".join(_numbers(query)))


def titles(query: Query) -> str:
    """The title of every passage."""
    return _all_cited(query, ", ".join(p.title for p in query.passages if p.title))


def sentences_with_numbers(query: Query) -> str:
    """Every sentence that has a number."""
    return _all_cited(query, " ".join(s for s, _ in _sentences(query) if re.search(r"\d", s)))


def hedge(query: Query) -> str:
    """The nearest sentence, every number, every title and the question, in one."""
    text = " ".join(sentence for sentence, _ in _nearest(query)[:1])
    names = ", ".join(p.title for p in query.passages if p.title)
    return _all_cited(query, f"{text} {', '.join(_numbers(query))} {names} {query.text}")


def shuffled(query: Query) -> str:
    """Six sentences of the passages, at random."""
    texts = [sentence for sentence, _ in _sentences(query)]
    random.Random(query.id).shuffle(texts)
    return _all_cited(query, " ".join(texts[:6]))


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
"""Systems that write for the features, by name."""

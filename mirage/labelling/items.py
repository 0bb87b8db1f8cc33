"""Answers and pairs of answers for people to label, and random samples of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.arena.pairs import Contest, Pair
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError
from mirage.features.base import answered
from mirage.labelling.records import Label
from mirage.metaeval.judges import JudgeLike, ask
from mirage.metaeval.sentences import AnswerSentence
from mirage.models import Query, Run, Vote

__all__ = [
    "AnswerItem",
    "Item",
    "PairItem",
    "answer_items",
    "draw",
    "pair_items",
    "scores_of",
    "sentence_items",
]

STRATA = 10
"""Number of groups with similar scores from which the same share of items is drawn."""

PAIR_LABELS = {"a": "A is better", "b": "B is better", "tie": "Equally good"}
"""The verdicts on a pair, and the texts of their buttons."""


@dataclass(frozen=True)
class AnswerItem:
    """An answer for raters to label.

    Attributes:
        sentence: The answer without formatting and citations, as judges of sentences receive it.
        text: The answer as the labelling page shows it.
        model: The system that wrote the answer; raters do not see it.
    """

    sentence: AnswerSentence
    text: str
    model: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """The values that identify the answer, regardless of the rater; see :func:`label_key`."""
        return label_key(self.record("-", "-"))

    @property
    def query(self) -> Query:
        """The query, with the passages that the answer was based on."""
        return self.sentence.query

    @property
    def texts(self) -> tuple[str]:
        """The text to show, as a tuple with one element."""
        return (self.text,)

    def record(self, label: str, rater: str) -> Label:
        """Return a row for the file of labels, with the label that a rater gave."""
        query = self.sentence.query
        return Label(
            query_id=query.id,
            query=query.text,
            language=query.language,
            passages=query.passages,
            sentence=self.sentence.text,
            citations=self.sentence.citations,
            cluster=query.cluster,
            model=self.model,
            rater=rater,
            label=label,
        )


@dataclass(frozen=True)
class PairItem:
    """A pair of responses to one query, for raters to compare.

    Attributes:
        query: The query with the passages that at least one of the two systems got.
        pair: The query id and the two models; raters do not see the models.
        texts: The two responses, in the order of the pair.
        digests: Two digests (hashes) of the texts that raters see: for the pair in this order, and
            for the swapped pair. They change if a text changes.
    """

    query: Query
    pair: Pair
    texts: tuple[str, str]
    digests: tuple[str, str]

    @property
    def key(self) -> tuple[str, ...]:
        """The values that identify the pair, regardless of its order; see :func:`vote_key`."""
        return vote_key(self.record("tie", "-"))

    def record(self, label: str, rater: str, swapped: bool = False) -> Vote:
        """Return a row for the file of votes, with the verdict that a rater gave.

        Args:
            label: The verdict: ``a``, ``b`` or ``tie``.
            rater: The name of the rater.
            swapped: Whether the page shows the second response as A.
        """
        pair = self.pair.swapped if swapped else self.pair
        return Vote.model_validate(
            {
                **pair._asdict(),
                "judge": rater,
                "verdict": label,
                "prompt_digest": self.digests[swapped],
            }
        )


Item = AnswerItem | PairItem


def label_key(row: Label) -> tuple[str, ...]:
    """Return a key that identifies the answer in a row, regardless of the label and the rater."""
    return (row.language, row.query_id, row.query, row.model, row.sentence, row.passages_digest)


def vote_key(vote: Vote) -> tuple[str, ...]:
    """Return a key that identifies the two responses in a vote, regardless of their order."""
    return (vote.query_id, *sorted((vote.model_a, vote.model_b)))


def item_id(item: Item) -> str:
    """Return an id for an item on the labelling page; it does not reveal the models."""
    digests = item.digests if isinstance(item, PairItem) else ()
    text = json.dumps([item.key, digests], ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


# Items from responses -----------------------------------------------------------------------------


def answer_items(dataset: MirageDataset, runs: Iterable[Run]) -> tuple[list[AnswerItem], int]:
    """Return the answers of runs as items, and the number of responses without an answer.

    Each item has the passages that the response was based on. The ground truth is removed.

    Args:
        dataset: The queries.
        runs: The responses of each system.

    Raises:
        DatasetError: No response has an answer.
        UnknownNameError: A run answers a query that the dataset does not have.
    """
    items, empty = [], 0
    for run in runs:
        for response in run:
            query = dataset[response.query_id]
            parsed = answered(query, response).parsed
            if response.error is not None or not parsed.answer_text.strip():
                empty += 1
                continue
            passages = query.passages_shown_to(response)
            ids = {passage.id for passage in passages}
            cited = tuple(id_ for id_ in parsed.citations if id_ in ids) or None
            visible = query.without_gold().model_copy(
                update={"passages": passages, "cluster": query.cluster}
            )
            sentence = AnswerSentence(visible, parsed.answer_text, cited)
            items.append(AnswerItem(sentence, parsed.answer, run.model))
    if not items:
        raise DatasetError(
            f"none of the {empty} responses has an answer to label; pass runs with answers"
        )
    return items, empty


def sentence_items(sentences: Iterable[AnswerSentence]) -> list[AnswerItem]:
    """Convert sentences to items, for example the sentences in a file of `mirage decide --rest`."""
    return [AnswerItem(sentence, sentence.text) for sentence in sentences]


def pair_items(
    dataset: MirageDataset, runs: Iterable[Run], pairs: Iterable[Pair] | None = None
) -> tuple[list[PairItem], int]:
    """Return one item per pair of responses, and the number of pairs that lack a response.

    Args:
        dataset: The queries.
        runs: The runs, at least two.
        pairs: The pairs; by default all pairs of two runs on all queries.

    Raises:
        DatasetError: No pair can be compared.
        JudgmentError: The runs cannot be compared on this dataset.
    """
    contest = Contest(dataset, runs)
    if pairs is None:
        possible, skipped = contest.draw(max(len(dataset), 1), 1.0, 0)
    else:
        possible, skipped = contest.sort_out(pairs)
    if not possible:
        first = f"; the first: {skipped[0]}" if skipped else ""
        raise DatasetError(f"none of the {len(skipped)} pairs can be compared{first}")
    items = []
    for pair in possible:
        responses = [contest.runs[model][pair.query_id] for model in pair[1:]]
        texts = (responses[0].text or "", responses[1].text or "")
        digests = contest.digest(pair), contest.digest(pair.swapped)
        query = dataset[pair.query_id].knowing(*responses).without_gold()
        shown = {id_ for response in responses for id_ in query.shown_to(response)}
        passages = tuple(passage for passage in query.passages if passage.id in shown)
        query = query.model_copy(update={"passages": passages})
        items.append(PairItem(query, pair, texts, digests))
    return items, len(skipped)


# The random choice --------------------------------------------------------------------------------


def scores_of(items: Sequence[Item], judge: JudgeLike) -> Floats:
    """Return one number per item, by which :func:`draw` stratifies the sample.

    The number of an answer is its score from the judge. The number of a pair of responses
    identifies the two models, so that the same share is drawn for each pair of models.

    Args:
        items: The items; either all are answers, or all are pairs.
        judge: Feature, judge or name of a feature that scores the answers. It is not used for
            pairs.
    """
    sentences = [item.sentence for item in items if isinstance(item, AnswerItem)]
    if len(sentences) == len(items):
        scores = ask(judge, sentences).scores
        return np.zeros(len(items)) if scores is None else scores
    names = [item.key[1:] for item in items]
    return np.unique(np.array(names), axis=0, return_inverse=True)[1].reshape(-1).astype(np.float64)


def draw(scores: Floats, size: int, *, seed: int = 0) -> Ints:
    """Draw a random sample of items, stratified by their scores.

    Each item has the same probability of being drawn.

    The items are sorted by their score, and the sorted list is rotated by a random number of
    positions. The list is then split into :data:`STRATA` parts, and the same share is drawn from
    each part (proportional allocation; Cochran 1977, Sampling Techniques, section 5.5). By the
    symmetry of the rotation, the inclusion probability of each item is exactly ``size`` divided by
    the number of items. Means of labels therefore stay unbiased without weights, and their variance
    is at most about that of simple random sampling. A larger size extends the sample of a smaller
    one.

    Args:
        scores: One number per item; NaN if there is none.
        size: Number of items to draw; all if there are fewer.
        seed: Random seed.

    Returns:
        The positions of the items, in the order of the draw.

    Example:
        >>> import numpy as np
        >>> sorted(draw(np.arange(20.0), 4).tolist())
        [0, 2, 4, 12]
    """
    generator = np.random.default_rng(seed)
    order = np.lexsort((generator.random(len(scores)), scores))
    order = np.roll(order, generator.integers(len(scores)))
    keys = np.empty(len(scores))
    for stratum in np.array_split(order, min(STRATA, len(scores))):
        ranks = generator.permutation(len(stratum))
        keys[stratum] = (ranks + generator.random(len(stratum))) / len(stratum)
    return np.argsort(keys)[:size]

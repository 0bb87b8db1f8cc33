"""Judges that abstain: a cheap score decides where it is sure, at a risk that you state.

A score that agrees with people now and then agrees with them more often where it is high or low.
From labels a margin is learnt beyond which its error is below a risk that you state; what lies
within is for an LLM, or for people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Bools, Floats, Ints
from mirage.dataset import Cluster
from mirage.errors import JudgmentError, SettingError
from mirage.features.base import Facts
from mirage.llm.estimates import Estimate
from mirage.metaeval._gold import clusters_of_sentences
from mirage.metaeval.judges import JudgeLike, Opinion, Score, SentenceJudge, ask, name_of
from mirage.metaeval.labels import LabelledSentences
from mirage.metaeval.llm_judge import LLMSentenceJudge
from mirage.metaeval.prompts import LABELS
from mirage.metaeval.sentences import AnswerSentence
from mirage.statistics.bootstrap import Interval
from mirage.statistics.clusters import mean_intervals
from mirage.statistics.selective import Errors, errors_of, fallback, risk_p_value

__all__ = ["AbstainingJudge", "Cascade", "Decision", "cascade"]

_STEPS = np.arange(1, 21) / 20  # shares of the items that are decided
_STARTS = (0.25, 0.5)  # of these shares tests begin
_FIFTHS = 5


@dataclass(frozen=True)
class AbstainingJudge:
    """Decides items whose score is a margin or more from a threshold, and abstains elsewhere.

    Make one by :meth:`calibrate`.

    Attributes:
        threshold: from which score on an item that is decided is positive.
        margin: how far from the threshold a score has to be; infinite where no share of the items
            could be shown to be decided at the risk, so that it abstains throughout.
        risk: of being wrong among what is decided, which was shown not to be reached.
        confidence: share of the calibrations in which the risk is kept.
        balanced: whether the risk is of the mean error of the two labels.
        coverage: share of the labelled items that are decided.
        coverage_interval: its interval at 95 %; NaN with few clusters.
        error: what the risk is of, among the decided items with labels; it was chosen by, and
            flatters.
        labels: how many items there were to calibrate on.
        clusters: that they are in.
    """

    threshold: float
    margin: float
    risk: float
    confidence: float
    balanced: bool
    coverage: float
    coverage_interval: Interval
    error: float
    labels: int
    clusters: int

    @classmethod
    def calibrate(
        cls,
        scores: ArrayLike,
        labels: ArrayLike,
        *,
        risk: float = 0.2,
        confidence: float = 0.95,
        clusters: Sequence[object] | None = None,
        threshold: float = 0.5,
        balanced: bool = False,
    ) -> AbstainingJudge:
        """Learn from labels how far from the threshold a score has to be.

        Margins that decide 5, 10, ... 100 % of the items are tested for an error below the risk
        among what they decide (:func:`~mirage.statistics.selective.risk_p_value`), one after
        another (:func:`~mirage.statistics.selective.fallback`) from a quarter of the items on, if
        that many could tell, and from half; the narrowest that passes is taken. The scores have to
        be from elsewhere than these labels: a combination of features that was fitted to them
        says too much.

        ``benchmarks/abstaining.py`` prints how often the risk is exceeded, with and without
        clusters, at 50, 100 and 250 labels.

        Args:
            scores: a number an item (a sentence, a response); high speaks for positive. NaN where
                there is none: such items are never decided.
            labels: whether people call the item positive.
            risk: error among what is decided, above 0 and below 1; the share that is wrong.
            confidence: share of the calibrations in which that has to hold.
            clusters: what items hang together by, such as the answer that sentences are of; by
                default each is by itself.
            threshold: the score that says nothing: 0.5 of a probability. It should be known from
                other data.
            balanced: state the risk of the mean, over the two labels, of the share of the decided
                items with that label that are wrong: 1 less balanced accuracy.

        Raises:
            SettingError: a risk or confidence that is no share; a threshold that is no number.
            JudgmentError: not one score, label and cluster an item; or so few labels that not even
                one that is right throughout could be shown to keep the risk: says how many it
                takes.
        """
        for name, share in (("risk", risk), ("confidence", confidence)):
            if not 0 < share < 1:
                raise SettingError(f"{name}={share} is to be between 0 and 1, as 0.2 is")
        if not math.isfinite(threshold):
            raise SettingError(f"threshold={threshold} is no number")
        values, positive, codes = _columns(scores, labels, clusters)
        distance = np.abs(values - threshold)
        wrong = (values >= threshold) != positive
        alpha = 1 - confidence
        _check_enough(positive, codes, ~np.isnan(values), risk, alpha, balanced)
        margins = _margins(distance)
        rules = [distance >= margin for margin in margins.tolist()]
        p_values = [
            risk_p_value(_errors(wrong, positive, codes, decided, balanced), risk)
            for decided in rules
        ]
        # Which could pass with a quarter of the errors allowed; what is wrong has no part in that.
        could = [
            risk_p_value(_with_share(risk / 4, positive, codes, decided, balanced), risk) <= alpha
            for decided in rules
        ]
        shares = [decided.sum() / np.count_nonzero(~np.isnan(values)) for decided in rules]
        levels = alpha * _starts(could, shares)
        passed = np.flatnonzero(fallback(np.array(p_values), levels))
        margin = float(margins[passed[-1]]) if len(passed) else math.inf
        decided = distance >= margin  # nothing, where the margin is infinite
        column = decided[:, None].astype(np.float64)
        ends = mean_intervals(column, codes, np.zeros(1), np.ones(1))[0].tolist()
        return cls(
            threshold=threshold,
            margin=margin,
            risk=risk,
            confidence=confidence,
            balanced=balanced,
            coverage=float(decided.mean()),
            coverage_interval=(ends[0], ends[1]),
            error=_error(wrong, positive, decided, balanced),
            labels=len(values),
            clusters=len(np.unique(codes)),
        )

    def decide(self, scores: ArrayLike) -> Floats:
        """1 for each item that is positive, 0 for negative, NaN where it abstains."""
        values = np.asarray(scores, dtype=np.float64)
        sure = np.abs(values - self.threshold) >= self.margin
        return np.where(sure, (values >= self.threshold).astype(np.float64), np.nan)

    def __str__(self) -> str:
        of = "balanced error" if self.balanced else "error"
        stated = f"{of} at most {100 * self.risk:g} % at confidence {100 * self.confidence:g} %"
        basis = f"{self.labels} labels in {self.clusters} clusters"
        if math.isinf(self.margin):
            return f"abstains throughout: {basis} do not show an {stated} of any share".replace(
                "an balanced", "a balanced"
            )
        lower, upper = (100 * end for end in self.coverage_interval)
        reach = "" if math.isnan(lower) else f" ({lower:.0f} to {upper:.0f})"
        return f"decides {100 * self.coverage:.0f} %{reach} of the items, {stated}, by {basis}"


def _columns(
    scores: ArrayLike, labels: ArrayLike, clusters: Sequence[object] | None
) -> tuple[Floats, Bools, Ints]:
    values, given = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    names = range(len(values)) if clusters is None else clusters
    if values.ndim != 1 or given.shape != values.shape or len(names) != len(values):
        raise JudgmentError(
            "calibration takes one score, one label and one cluster an item, not "
            f"{values.shape}, {given.shape} and {len(names)}"
        )
    if not np.isin(given, (0, 1)).all() or np.isinf(values).any():
        raise JudgmentError("labels are true or false, and scores finite numbers or NaN")
    place = {name: code for code, name in enumerate(dict.fromkeys(names))}
    return values, given.astype(bool), np.array([place[name] for name in names], dtype=np.intp)


def _margins(distance: Floats) -> Floats:
    """Margins that decide more and more of the items, each another share."""
    known = np.sort(distance[~np.isnan(distance)])[::-1]
    places = np.ceil(_STEPS * len(known)).astype(int) - 1
    return np.asarray(np.unique(np.append(known[places[:-1]], 0.0))[::-1])


def _errors(
    wrong: Bools, positive: Bools, codes: Ints, decided: Bools, balanced: bool
) -> Errors | tuple[Errors, Errors]:
    if not balanced:
        return errors_of(wrong[decided], codes[decided])
    of_positive, of_negative = decided & positive, decided & ~positive
    return (
        errors_of(wrong[of_positive], codes[of_positive]),
        errors_of(wrong[of_negative], codes[of_negative]),
    )


def _with_share(
    share: float, positive: Bools, codes: Ints, decided: Bools, balanced: bool
) -> Errors | tuple[Errors, Errors]:
    """The errors of a rule, if this share of what it decides were wrong, and clusters alike."""
    none = _errors(np.zeros(len(positive), dtype=bool), positive, codes, decided, balanced)
    if isinstance(none, Errors):
        return Errors(share * none.decided, none.decided)
    first, second = (Errors(share * kind.decided, kind.decided) for kind in none)
    return first, second


def _starts(could: Sequence[bool], shares: Sequence[float]) -> Floats:
    """Where tests begin, and with which part of the level."""
    first = could.index(True) if True in could else len(could) - 1
    places = {
        max(first, next(place for place, share in enumerate(shares) if share >= start))
        for start in _STARTS
    }
    parts = np.zeros(len(could))
    parts[list(places)] = 1 / len(places)
    return parts


def _check_enough(
    positive: Bools, codes: Ints, known: Bools, risk: float, alpha: float, balanced: bool
) -> None:
    """Refuse labels that could not show the risk to be kept even if no error was among them."""
    labels, factor = int(np.count_nonzero(known)), 1.0
    best = _with_share(0.0, positive, codes, known, balanced)
    kinds = (best,) if isinstance(best, Errors) else best
    if any(kind.decided == 0 for kind in kinds):
        raise JudgmentError(
            f"{labels} items have a score, and no label of one kind is among them; the risk "
            + ("of the mean error of two labels takes both" if balanced else "takes some")
        )

    def p_value(factor: float) -> float:
        scaled = [Errors(0.0, factor * kind.decided) for kind in kinds]
        return risk_p_value(scaled[0] if len(scaled) == 1 else (scaled[0], scaled[1]), risk)

    while p_value(factor) > alpha:
        factor *= 1.02
    if factor > 1:
        raise JudgmentError(
            f"{labels} labels in {len(np.unique(codes[known]))} clusters cannot show a risk of "
            f"{risk:g} at confidence {1 - alpha:g}, even without an error; it takes "
            f"{math.ceil(labels * factor)} labels like these at least, and about four times as "
            "many where half the errors are made that are allowed"
        )


def _error(wrong: Bools, positive: Bools, decided: Bools, balanced: bool) -> float:
    """The error among what is decided; NaN where that is nothing, or lacks a label it takes."""
    kinds = [positive, ~positive] if balanced else [np.ones(len(wrong), dtype=bool)]
    if not all((decided & kind).any() for kind in kinds):
        return math.nan
    return float(np.mean([wrong[decided & kind].mean() for kind in kinds]))


# Cascades -----------------------------------------------------------------------------------------


class Decision(NamedTuple):
    """The label of one sentence in a cascade, and who gave it.

    Attributes:
        sentence: the sentence.
        label: its label; ``None`` where nobody gave one.
        by: who gave it: the name of the score, or of the costly judge; empty where nobody did.
        score: the cheap score, in its own units; NaN if it has none.
    """

    sentence: AnswerSentence
    label: str | None
    by: str
    score: float


@dataclass(frozen=True)
class Cascade:
    """A judge of sentences: a calibrated score where it is sure, another judge elsewhere.

    :func:`cascade` makes one, and :func:`~mirage.metaeval.evaluate` takes it. The risk of
    ``abstaining`` is of what the score decides; the rest is as good as the other judge.

    Attributes:
        name: what tables call it.
        cheap: the score.
        costly: who decides where the score is not sure: an LLM, people, a function; ``None``
            leaves that without a label.
        abstaining: decides by scores of which a high one is positive. A score that is better when
            lower is turned round before: 0.2 of 0 to 1 becomes 0.8.
        positive: the label of a high score.
        negative: the other label.
        direction: which values of the score speak for the positive label, in words; empty if the
            score declares that the higher ones do.
    """

    name: str
    cheap: JudgeLike
    costly: SentenceJudge | None
    abstaining: AbstainingJudge
    positive: str
    negative: str
    direction: str = ""

    def __str__(self) -> str:
        return "\n".join(filter(None, (str(self.abstaining), self.direction)))

    def scored(self, sentences: Sequence[AnswerSentence]) -> tuple[Decision, ...]:
        """Return what the score decides by itself, and what it leaves; nobody is asked."""
        sentences = list(sentences)
        opinion, evidence = _scored(self.cheap, sentences)
        scores = opinion.reading.turned(evidence)
        name, labels = name_of(self.cheap), {1.0: self.positive, 0.0: self.negative}
        return tuple(
            Decision(sentence, labels.get(said), name if said in labels else "", number)
            for sentence, said, number in zip(
                sentences,
                self.abstaining.decide(evidence).tolist(),
                scores.tolist(),
                strict=True,
            )
        )

    def finished(self, decisions: Sequence[Decision]) -> tuple[Decision, ...]:
        """These decisions, after the costly judge was asked about those without a label.

        Raises:
            JudgmentError: the costly judge does not give one label a sentence.
        """
        rest = [one.sentence for one in decisions if one.label is None]
        if self.costly is None or not rest:
            return tuple(decisions)
        labels = list(self.costly.label(rest))
        if len(labels) != len(rest):
            raise JudgmentError(
                f"{self.costly.name!r} returned {len(labels)} labels for {len(rest)} sentences"
            )
        given, name = iter(labels), self.costly.name

        def asked(one: Decision) -> Decision:
            label = next(given)
            return one if label is None else one._replace(label=label, by=name)

        return tuple(asked(one) if one.label is None else one for one in decisions)

    def label(self, sentences: Sequence[AnswerSentence]) -> list[str | None]:
        """One label a sentence; the costly judge is asked about the undecided ones alone."""
        return [decision.label for decision in self.finished(self.scored(sentences))]

    def undecided(self, sentences: Sequence[AnswerSentence]) -> tuple[AnswerSentence, ...]:
        """The sentences that are for the costly judge, such as people."""
        return tuple(one.sentence for one in self.scored(sentences) if one.label is None)

    def estimate(self, sentences: Sequence[AnswerSentence]) -> Estimate:
        """What :meth:`label` will ask an LLM for; nothing is sent.

        Raises:
            JudgmentError: the costly judge is no :class:`~mirage.metaeval.LLMSentenceJudge`, and
                what it costs is not known.
        """
        if not isinstance(self.costly, LLMSentenceJudge):
            raise JudgmentError(
                f"what {_name(self.costly)!r} costs is not known, as it is no LLMSentenceJudge; "
                "`undecided` has the sentences that it will get"
            )
        return self.costly.estimate(self.undecided(sentences))


def _name(costly: SentenceJudge | None) -> str:
    return "people" if costly is None else costly.name


def cascade(
    cheap: JudgeLike | Sequence[JudgeLike],
    costly: SentenceJudge | None,
    labelled: LabelledSentences,
    *,
    risk: float = 0.2,
    confidence: float = 0.95,
    balanced: bool = False,
    cluster: Cluster = None,
    seed: int = 0,
) -> Cascade:
    """A cheap score calibrated on labels, with a costly judge for what it leaves undecided.

    Args:
        cheap: a score, a feature or its name, a function of a sentence that returns floats. The
            threshold from which it speaks for the positive label is the score's own, or else 0.5;
            its direction is the one that it declares, or else higher is assumed to be better.
            Those in a list, or one there whose threshold is not known, become one probability: a
            logistic regression that weighs both labels alike. What calibrates it are scores of
            each fifth of the clusters by the other four; what decides is fitted to all.
        costly: a judge of sentences, such as :class:`~mirage.metaeval.LLMSentenceJudge`; ``None``
            where people read what is left.
        labelled: to calibrate on, of two labels; queries are the clusters.
        risk: as ``confidence`` and ``balanced``, of :meth:`AbstainingJudge.calibrate`.
        cluster: what queries hang together by, as :func:`~mirage.metaeval.evaluate` takes it.
        seed: of the fifths.

    Raises:
        JudgmentError: ``cheap`` gives labels and no scores; the labels are not two, one of them
            positive, or are none that the LLM gives; too few of them.
        SettingError: a risk or confidence that is no share; an empty list.
        DatasetError: no sentence has a label.
    """
    decided, _ = labelled.decided()
    others = [name for name in decided.names if name != decided.positive]
    if len(others) != 1 or decided.positive not in decided.names:
        raise JudgmentError(
            f"{labelled.source}: the labels are {', '.join(map(repr, decided.names))}; a score "
            f"tells two apart, of which {decided.positive!r} is one: make two with `merged`"
        )
    if isinstance(costly, LLMSentenceJudge) and not {*decided.names} <= {*LABELS[costly.task]}:
        raise JudgmentError(
            f"{labelled.source}: the labels are {', '.join(map(repr, decided.names))}, and "
            f"{costly.name!r} gives {', '.join(map(repr, LABELS[costly.task]))}; name them alike"
        )
    positive = np.array([given == decided.positive for (given,) in decided.labels])
    clusters = clusters_of_sentences(decided, cluster)
    if isinstance(cheap, Sequence) and not isinstance(cheap, str):
        cheap, scores = _combined(cheap, decided, positive, clusters, seed)
        threshold, direction = 0.5, ""
    else:
        opinion, scores = _scored(cheap, decided.sentences)
        threshold, direction = _turned_threshold(opinion), opinion.note(decided.positive)
    abstaining = AbstainingJudge.calibrate(
        scores,
        positive,
        risk=risk,
        confidence=confidence,
        clusters=clusters.tolist(),
        threshold=threshold,
        balanced=balanced,
    )
    name = f"{name_of(cheap)}, else {_name(costly)}"
    return Cascade(name, cheap, costly, abstaining, decided.positive, others[0], direction)


def _combined(
    parts: Sequence[JudgeLike],
    labelled: LabelledSentences,
    positive: Bools,
    clusters: Ints,
    seed: int,
) -> tuple[Score, Floats]:
    """The probability of the positive label by several scores; that of each fifth by the others."""
    if not parts:
        raise SettingError("there is no score to combine; name a feature, such as support_lexical")

    def columns(sentences: Sequence[AnswerSentence]) -> Floats:
        return np.column_stack([_scored(part, sentences)[1] for part in parts])

    X = columns(labelled.sentences)
    place = np.random.default_rng(seed).permutation(int(clusters.max()) + 1)
    fifth, scores = place[clusters] % _FIFTHS, np.full(len(X), np.nan)
    for own in (fifth == part for part in range(_FIFTHS)):
        if own.any():
            scores[own] = _fitted(X[~own], positive[~own], labelled.source)(X[own])
    probabilities = _fitted(X, positive, labelled.source)
    name = " + ".join(map(name_of, parts))
    combined = Score(
        name, lambda new: probabilities(columns(new)).tolist(), 0.5, Facts("higher", 0, 1)
    )
    return combined, scores


def _fitted(X: Floats, positive: Bools, source: str) -> Callable[[Floats], Floats]:
    """The probability of the positive label, NaN where a column is."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    known = np.isfinite(X).all(axis=1)
    if len(np.unique(positive[known])) < 2:
        raise JudgmentError(
            f"{source}: where the score is fitted to four fifths of the labels, {known.sum()}, "
            "they are not of both kinds; label more"
        )
    model = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
    model.fit(X[known], positive[known])

    def probabilities(X: Floats) -> Floats:
        known, values = np.isfinite(X).all(axis=1), np.full(len(X), np.nan)
        if known.any():
            values[known] = model.predict_proba(X[known])[:, 1]
        return values

    return probabilities


def _scored(judge: JudgeLike, sentences: Sequence[AnswerSentence]) -> tuple[Opinion, Floats]:
    """Have a judge score sentences; return also the scores turned so that a high one is positive.

    Raises:
        JudgmentError: the judge gives labels and no scores.
    """
    opinion = ask(judge, sentences)
    evidence = opinion.evidence
    if evidence is None:
        raise JudgmentError(
            f"judge {opinion.name!r} names labels and says not how sure it is; give a score, such "
            "as the share of its repeated answers that say the same"
        )
    return opinion, evidence


def _turned_threshold(opinion: Opinion) -> float:
    """Return the threshold of a score, 0.5 by default, turned as its scores are.

    Raises:
        JudgmentError: the direction depends on the language, and with it the threshold.
    """
    threshold = 0.5 if opinion.threshold is None else opinion.threshold
    limits = opinion.reading.turned(np.full(len(opinion.reading.lower), threshold))
    if np.ptp(limits) > 0:
        raise JudgmentError(
            f"score {opinion.name!r} is better when lower in one language and when higher in "
            "another, so that no threshold suits both; give labels in one language"
        )
    return float(limits[0])

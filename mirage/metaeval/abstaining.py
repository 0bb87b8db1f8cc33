"""Judges that abstain: a cheap score decides the items on which it is reliable enough.

Very high and very low scores agree with people more often than scores near the threshold.
Calibration on labelled items chooses a margin around the threshold. The error rate of the items
whose score is outside the margin stays at or below the risk, a limit that the user sets. Items
whose score is within the margin are left to an LLM, or to people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mirage._base.arrays import Bools, Floats, Ints
from mirage.dataset import Cluster
from mirage.errors import JudgmentError, SettingError, needing
from mirage.features.base import Facts
from mirage.llm.estimates import Estimate
from mirage.metaeval.gold import clusters_of_sentences
from mirage.metaeval.judges import (
    JudgeLike,
    Opinion,
    Score,
    SentenceJudge,
    ask,
    name_of,
    prompt_digest_of,
)
from mirage.metaeval.labels import LabelledSentences
from mirage.metaeval.llm_judge import LLMSentenceJudge
from mirage.metaeval.prompts import LABELS
from mirage.metaeval.sentences import AnswerSentence
from mirage.statistics.bootstrap import Interval
from mirage.statistics.clusters import mean_intervals
from mirage.statistics.selective import (
    Errors,
    errors_of,
    fallback,
    risk_p_value,
)

_STEPS = np.arange(1, 21) / 20  # shares of the items that candidate margins decide
_STARTS = (0.25, 0.5)  # shares at which a sequence of tests begins
_FIFTHS = 5


@dataclass(frozen=True)
class AbstainingJudge:
    """A rule that labels items whose score is far from a threshold, and abstains on the others.

    :meth:`calibrate` creates one from labels.

    Attributes:
        threshold: A decided item is labelled positive if its score is at least this number, else
            negative.
        margin: Items whose score is closer than this to the threshold are not decided. If
            calibration could not keep the error within the risk for any share of the items, the
            margin is infinite, and the rule abstains on all items.
        risk: The upper limit of the error among decided items.
        confidence: The probability that a calibration, on a new sample of labels, keeps the error
            at or below the risk.
        balanced: Whether the error is the mean of the error rates of the two labels.
        coverage: The share of the calibration items that the rule decides.
        coverage_interval: The 95 % confidence interval of the coverage; NaN if there are too few
            clusters.
        error: The error rate among the decided items of the calibration. The rate is optimistic,
            because the margin was chosen on these items.
        labels: The number of items that were used for calibration.
        clusters: The number of clusters of these items.
        prompt_digest: The digest (hash) of the user's own prompt, if an LLM gave the scores with
            that prompt; else empty.
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
    prompt_digest: str = ""

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
        """Return a rule that abstains on items whose score is near ``threshold``.

        The rule abstains if the distance between score and threshold is less than a margin. The
        margin is chosen on the labelled items: it is the narrowest margin that keeps the error
        among the decided items within ``risk``. The candidates are the margins that decide 5, 10,
        ... 100 % of the items.

        The error is at most ``risk`` in the share ``confidence`` of calibrations, each with a new
        sample of labels. A margin is accepted if a significance test shows that its error is below
        ``risk``
        (:func:`~mirage.statistics.selective.risk_p_value`). Margins are tested from wide to narrow,
        in two sequences (:func:`~mirage.statistics.selective.fallback`). The first sequence starts
        at the margin that decides a quarter of the items. If these are too few items for a test, it
        starts at the next narrower margin that decides enough. The second starts at the margin that
        decides half of the items.

        The scores must not depend on these labels. If a model was fitted to the labels, its errors
        would be underestimated. ``validation/coverage/abstaining.py`` prints how often the risk is
        exceeded, with and without clusters, at 50, 100 and 250 labels.

        Args:
            scores: One number per item (a sentence or a response); high means positive. Items with
                NaN are never decided.
            labels: For each item, whether people labelled it positive.
            risk: The upper limit of the error among decided items, between 0 and 1.
            confidence: The probability, over new samples of labels, that the error is at most the
                risk. The larger it is, the more labels are needed.
            clusters: The cluster of each item, if items are not independent. For sentences, this
                may be the answer to which they belong. By default each item is its own cluster.
            threshold: The neutral score, such as 0.5 for a probability. Do not choose it on these
                labels.
            balanced: Whether to limit the mean of the error rates of the two labels (1 minus the
                balanced accuracy) instead of the error rate among all decided items.

        Returns:
            The calibrated rule.

        Raises:
            SettingError: ``risk`` or ``confidence`` is not between 0 and 1, or ``threshold`` is
                not finite.
            JudgmentError: The numbers of scores, labels and clusters differ, a label is not true or
                false, or a score is infinite; or there are too few labels to show that the error is
                within the risk, even if no decision is wrong. The message then states the number of
                labels that are needed.

        Example:
            >>> import numpy as np
            >>> scores = np.linspace(0, 1, 200)
            >>> judge = AbstainingJudge.calibrate(scores, scores > 0.5, risk=0.2)
            >>> judge.decide([0.01, 0.99])
            array([0., 1.])
        """
        for name, share in (("risk", risk), ("confidence", confidence)):
            if not 0 < share < 1:
                raise SettingError(f"{name} must be between 0 and 1, got {name}={share}")
        if not math.isfinite(threshold):
            raise SettingError(f"threshold must be a finite number, got threshold={threshold}")
        values, positive, codes = _columns(scores, labels, clusters)
        distance = np.abs(values - threshold)
        wrong = (values >= threshold) != positive
        has_score = ~np.isnan(values)
        margins = _margins(distance)
        rules = [distance >= margin for margin in margins.tolist()]
        alpha = 1 - confidence
        _check_enough(positive, codes, has_score, risk, alpha, balanced)
        passed = _pass_tests(wrong, positive, codes, has_score, rules, risk, alpha, balanced)
        margin = float(margins[passed[-1]]) if len(passed) else math.inf
        decided = distance >= margin  # empty if the margin is infinite
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
        """Return 1 for each positive item, 0 for each negative item, and NaN for undecided items.

        Args:
            scores: One number per item; NaN if an item has no score.
        """
        values = np.asarray(scores, dtype=np.float64)
        sure = np.abs(values - self.threshold) >= self.margin
        return np.where(sure, (values >= self.threshold).astype(np.float64), np.nan)

    def __str__(self) -> str:
        kind = "balanced error" if self.balanced else "error"
        limit = f"{kind} at most {100 * self.risk:g} % at confidence {100 * self.confidence:g} %"
        basis = f"{self.labels} labels in {self.clusters} clusters"
        if math.isinf(self.margin):
            return f"abstains throughout: {basis} do not show an {limit} for any share".replace(
                "an balanced", "a balanced"
            )
        lower, upper = (100 * end for end in self.coverage_interval)
        interval = "" if math.isnan(lower) else f" ({lower:.0f} to {upper:.0f})"
        return f"decides {100 * self.coverage:.0f} %{interval} of the items, {limit}, by {basis}"


def _columns(
    scores: ArrayLike, labels: ArrayLike, clusters: Sequence[object] | None
) -> tuple[Floats, Bools, Ints]:
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    names = range(len(values)) if clusters is None else clusters
    if values.ndim != 1 or truth.shape != values.shape or len(names) != len(values):
        raise JudgmentError(
            "calibration needs one score, one label and one cluster per item; got scores of shape "
            f"{values.shape}, labels of shape {truth.shape} and {len(names)} clusters"
        )
    if not np.isin(truth, (0, 1)).all() or np.isinf(values).any():
        raise JudgmentError(
            "each label must be True or False, and each score must be a finite number, or NaN if "
            "the item has no score"
        )
    codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
    return values, truth.astype(bool), np.array([codes[name] for name in names], dtype=np.intp)


def _margins(distance: Floats) -> Floats:
    """Return candidate margins in decreasing order; each smaller margin decides more items.

    ``distance`` is the absolute difference between each item's score and the threshold.
    """
    distances = np.sort(distance[~np.isnan(distance)])[::-1]
    positions = np.ceil(_STEPS * len(distances)).astype(int) - 1
    # The last margin is 0, which decides every item with a score.
    return np.asarray(np.unique(np.append(distances[positions[:-1]], 0.0))[::-1])


def _errors(
    wrong: Bools, positive: Bools, codes: Ints, decided: Bools, balanced: bool
) -> tuple[Errors, ...]:
    """Count the errors among all decided items, or for each true label if ``balanced``.

    ``wrong``, ``positive`` and ``decided`` are masks of the items; ``codes`` are their clusters.
    """
    groups = (decided & positive, decided & ~positive) if balanced else (decided,)
    return tuple(errors_of(wrong[group], codes[group]) for group in groups)


def _with_share(
    share: float, positive: Bools, codes: Ints, decided: Bools, balanced: bool
) -> tuple[Errors, ...]:
    """Return the errors of a hypothetical rule that is wrong on the share ``share`` of decisions.

    If ``balanced``, it is wrong on this share of the decisions for each true label. The other
    arguments are those of :func:`_errors`.
    """
    none = _errors(np.zeros(len(positive), dtype=bool), positive, codes, decided, balanced)
    return tuple(Errors(share * kind.decided, kind.decided) for kind in none)


def _pass_tests(
    wrong: Bools,
    positive: Bools,
    codes: Ints,
    has_score: Bools,
    rules: Sequence[Bools],
    risk: float,
    alpha: float,
    balanced: bool,
) -> Ints:
    """Return the indices of the rules whose error is significantly below the risk.

    Each rule is the mask of the items that a candidate margin decides. The tests are corrected for
    multiple comparisons: the probability of accepting any rule whose error is above the risk is at
    most ``alpha``.
    """
    p_values = [
        risk_p_value(_errors(wrong, positive, codes, decided, balanced), risk) for decided in rules
    ]
    # Margins that would pass with a quarter of the allowed errors. The actual errors must not
    # influence where the sequence of tests starts.
    can_pass = [
        risk_p_value(_with_share(risk / 4, positive, codes, decided, balanced), risk) <= alpha
        for decided in rules
    ]
    shares = [decided.sum() / np.count_nonzero(has_score) for decided in rules]
    levels = alpha * _level_shares(can_pass, shares)
    return np.flatnonzero(fallback(np.array(p_values), levels))


def _check_both_labels(totals: Sequence[float], labels: int, balanced: bool) -> None:
    """Raise an error if there are no items or, if ``balanced``, no items with one of the labels.

    ``totals`` are the numbers of items to check: one per label if ``balanced``, otherwise a single
    number. ``labels`` is the number of items with a score.
    """
    if not all(totals):
        raise JudgmentError(
            f"all {labels} items with a score have the same label; balanced=True needs both labels"
            if balanced and labels
            else "all scores are NaN; pass a score for at least one item"
        )


def _level_shares(can_pass: Sequence[bool], shares: Sequence[float]) -> Floats:
    """Divide the significance level among the tests of the rules; the shares sum to 1.

    Rules are in the order of their margins, from wide to narrow. Only the tests at which a sequence
    of tests starts get a share; it is 0 for all others.

    Args:
        can_pass: Whether each rule would pass its test if its error rate were a quarter of the
            risk.
        shares: The share of the items that each rule decides.
    """
    first = can_pass.index(True) if True in can_pass else len(can_pass) - 1
    positions = {
        max(first, next(position for position, share in enumerate(shares) if share >= start))
        for start in _STARTS
    }
    parts = np.zeros(len(can_pass))
    parts[list(positions)] = 1 / len(positions)
    return parts


def _check_enough(
    positive: Bools, codes: Ints, has_score: Bools, risk: float, alpha: float, balanced: bool
) -> None:
    """Raise an error if no rule can pass its significance test, even without a wrong decision."""
    labels, factor = int(np.count_nonzero(has_score)), 1.0
    kinds = _with_share(0.0, positive, codes, has_score, balanced)
    _check_both_labels([kind.decided for kind in kinds], labels, balanced)

    def p_value(factor: float) -> float:
        return risk_p_value([Errors(0.0, factor * kind.decided) for kind in kinds], risk)

    # Search for the number of labels that would suffice, in steps of 2 %.
    while p_value(factor) > alpha:
        factor *= 1.02
    if factor > 1:
        raise JudgmentError(
            f"{labels} labels in {len(np.unique(codes[has_score]))} clusters are too few to show "
            f"a risk (share of wrong decisions) of at most {risk:g} with confidence "
            f"{1 - alpha:g}, even if no decision is wrong; at least {math.ceil(labels * factor)} "
            "labels like these are needed, and about four times as many if the actual risk is "
            "half of that limit"
        )


def _error(wrong: Bools, positive: Bools, decided: Bools, balanced: bool) -> float:
    """Return the error among decided items.

    If ``balanced``, it is the mean of the error rates of the two labels. It is NaN if no item is
    decided, or if ``balanced`` and no item of one label is decided.
    """
    kinds = [positive, ~positive] if balanced else [np.ones(len(wrong), dtype=bool)]
    if not all((decided & kind).any() for kind in kinds):
        return math.nan
    return float(np.mean([wrong[decided & kind].mean() for kind in kinds]))


# Cascades -----------------------------------------------------------------------------------------


class Decision(NamedTuple):
    """The label of one sentence in a cascade, and the judge that gave it.

    Attributes:
        sentence: The sentence.
        label: The label; ``None`` if neither the score nor the costly judge gave one.
        by: The name of the score or of the costly judge that gave the label; empty if neither did.
        score: The cheap score of the sentence, as the judge returned it, even if lower is better;
            NaN if the sentence has no score.
    """

    sentence: AnswerSentence
    label: str | None
    by: str
    score: float


@dataclass(frozen=True)
class Cascade:
    """A judge that labels sentences by a cheap score, or by a costly judge if the score abstains.

    :func:`cascade` creates one, and :func:`~mirage.metaeval.evaluate` accepts it as a judge. The
    risk of ``abstaining`` limits only the error of the sentences that the score decides. On the
    other sentences, the cascade makes the errors of the costly judge.

    Attributes:
        name: The name in tables.
        cheap: The score that decides first.
        costly: The judge of sentences on which the score abstains: an LLM, people or a function.
            ``None`` leaves them without a label.
        abstaining: The calibrated rule that decides or abstains. It expects that high scores are
            positive, so if lower values of a score are better, the score is reversed first: 0.2 on
            a scale of 0 to 1 becomes 0.8.
        positive: The label of high scores.
        negative: The other label.
        direction: A note on whether high or low scores mean the positive label; empty if the score
            itself declares that high scores do.

    Raises:
        JudgmentError: The rule was calibrated with another prompt than ``cheap`` has.
    """

    name: str
    cheap: JudgeLike
    costly: SentenceJudge | None
    abstaining: AbstainingJudge
    positive: str
    negative: str
    direction: str = ""

    def __post_init__(self) -> None:
        digest = prompt_digest_of(self.cheap)
        if self.abstaining.prompt_digest != digest:
            raise JudgmentError(
                f"{name_of(self.cheap)!r} has {_prompt_name(digest)}, but the rule of the cascade "
                f"was calibrated with {_prompt_name(self.abstaining.prompt_digest)}; calibrate "
                "the rule again, because its limit on the risk only holds for scores of the same "
                "prompt"
            )

    def __str__(self) -> str:
        return "\n".join(filter(None, (str(self.abstaining), self.direction)))

    def scored(self, sentences: Sequence[AnswerSentence]) -> tuple[Decision, ...]:
        """Return the score's decision on each sentence; it has no label if the score abstains."""
        sentences = list(sentences)
        opinion, evidence = _score(self.cheap, sentences)
        scores = opinion.reading.turned(evidence)
        name, labels = name_of(self.cheap), {1.0: self.positive, 0.0: self.negative}
        return tuple(
            Decision(sentence, labels.get(verdict), name if verdict in labels else "", number)
            for sentence, verdict, number in zip(
                sentences,
                self.abstaining.decide(evidence).tolist(),
                scores.tolist(),
                strict=True,
            )
        )

    def finished(self, decisions: Sequence[Decision]) -> tuple[Decision, ...]:
        """Return the decisions of :meth:`scored`, completed by the labels of the costly judge.

        Raises:
            JudgmentError: The costly judge does not return one label per sentence.
        """
        rest = [decision.sentence for decision in decisions if decision.label is None]
        if self.costly is None or not rest:
            return tuple(decisions)
        labels = list(self.costly.label(rest))
        if len(labels) != len(rest):
            raise JudgmentError(
                f"{self.costly.name!r} returned {len(labels)} labels for {len(rest)} sentences; "
                "it must return one label, or None, for each sentence"
            )
        new_labels, name = iter(labels), self.costly.name

        def complete(decision: Decision) -> Decision:
            label = next(new_labels)
            return decision if label is None else decision._replace(label=label, by=name)

        return tuple(
            complete(decision) if decision.label is None else decision for decision in decisions
        )

    def label(self, sentences: Sequence[AnswerSentence]) -> list[str | None]:
        """Return one label per sentence; the costly judge only gets the undecided sentences."""
        return [decision.label for decision in self.finished(self.scored(sentences))]

    def undecided(self, sentences: Sequence[AnswerSentence]) -> tuple[AnswerSentence, ...]:
        """Return the sentences that the score leaves to the costly judge."""
        return tuple(
            decision.sentence for decision in self.scored(sentences) if decision.label is None
        )

    def estimate(self, sentences: Sequence[AnswerSentence]) -> Estimate:
        """Estimate the requests that :meth:`label` would send to the LLM, without sending any.

        Raises:
            JudgmentError: The costly judge is not an :class:`~mirage.metaeval.LLMSentenceJudge`, so
                its cost is unknown.
        """
        if not isinstance(self.costly, LLMSentenceJudge):
            raise JudgmentError(
                f"the cost of {_name(self.costly)!r} is unknown, because it is not an "
                "LLMSentenceJudge; the method `undecided` returns the sentences that it would label"
            )
        return self.costly.estimate(self.undecided(sentences))


def _prompt_name(digest: str) -> str:
    return f"prompt {digest}" if digest else "a built-in prompt, or no prompt"


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
    """Return a judge that uses a calibrated cheap score, and a costly judge if the score abstains.

    If ``cheap`` is a list, a logistic regression combines its scores into one probability. It gives
    both labels equal weight. For calibration, the clusters are split into fifths, and the
    probabilities of each fifth come from a model fitted to the other four. Decisions use a model
    fitted to all clusters.

    Args:
        cheap: A score, a feature or its name, a function of a sentence that returns floats, or a
            list of these. A single score without a threshold gets the threshold 0.5; if this is not
            suitable, pass a list with the score. If a score declares no direction, higher is
            assumed to be better.
        costly: The judge of the sentences on which the score abstains, such as
            :class:`~mirage.metaeval.LLMSentenceJudge`; ``None`` leaves them to people.
        labelled: Sentences for the calibration, labelled by people with exactly two different
            labels. By default the sentences of one query form a cluster.
        risk: The upper limit of the error among the sentences that the score decides, between 0 and
            1.
        confidence: The probability, over new samples of labels, that the error is at most the risk.
        balanced: Whether to limit the mean of the error rates of the two labels instead of the
            error rate among all decided sentences.
        cluster: The clusters of queries that are not independent, such as queries about one
            document. The default is :attr:`Query.cluster <mirage.Query>`. Otherwise pass a key of
            the queries' metadata, a function of a query, or a mapping from query id.
        seed: Random seed of the split into fifths.

    Returns:
        The calibrated cascade.

    Raises:
        JudgmentError: ``cheap`` returns labels instead of scores; its direction depends on the
            language; ``labelled`` does not have exactly two labels, one of them the positive label;
            the LLM uses labels with other names; or there are too few labels.
        SettingError: ``risk`` or ``confidence`` is not between 0 and 1, or the list ``cheap`` is
            empty.
        DatasetError: No sentence has a label.

    Example:
        >>> from mirage import Query
        >>> queries = [Query(id=str(n), text="Where is Paris?", language="en") for n in range(40)]
        >>> sentences = [AnswerSentence(q, "In France." if int(q.id) % 2 else "?") for q in queries]
        >>> names = "Not Supported", "Supported"
        >>> labels = [[names[int(query.id) % 2]] for query in queries]
        >>> labelled = LabelledSentences(tuple(sentences), labels, [()] * 40)
        >>> judge = cascade(lambda sentence: float(len(sentence.text) > 5), None, labelled)
        >>> judge.label(sentences[:2])
        ['Not Supported', 'Supported']
    """
    decided, _ = labelled.decided()
    negatives = [name for name in decided.names if name != decided.positive]
    if len(negatives) != 1 or decided.positive not in decided.names:
        raise JudgmentError(
            f"{labelled.source}: the labels are {', '.join(map(repr, decided.names))}; a score "
            f"needs exactly two labels, one of them {decided.positive!r}; merge labels with "
            "LabelledSentences.merged"
        )
    if isinstance(costly, LLMSentenceJudge):
        given = [costly.names.get(label, label) for label in LABELS[costly.task]]
        if not {*decided.names} <= {*given}:
            raise JudgmentError(
                f"{labelled.source}: the labels are {', '.join(map(repr, decided.names))}, but "
                f"{costly.name!r} gives {', '.join(map(repr, given))}; use the same names for both"
            )
    positive = np.array([label == decided.positive for (label,) in decided.labels])
    clusters = clusters_of_sentences(decided, cluster)
    if isinstance(cheap, Sequence) and not isinstance(cheap, str):
        cheap, scores = _combine(cheap, decided, positive, clusters, seed)
        threshold, direction = 0.5, ""
    else:
        opinion, scores = _score(cheap, decided.sentences)
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
    abstaining = replace(abstaining, prompt_digest=prompt_digest_of(cheap))
    name = f"{name_of(cheap)}, else {_name(costly)}"
    return Cascade(name, cheap, costly, abstaining, decided.positive, negatives[0], direction)


def _combine(
    parts: Sequence[JudgeLike],
    labelled: LabelledSentences,
    positive: Bools,
    clusters: Ints,
    seed: int,
) -> tuple[Score, Floats]:
    """Return a score that combines several scores, and its values on the labelled sentences.

    The score is the probability of the positive label in a logistic regression on the scores in
    ``parts``. The values are cross-validated: the value of each sentence comes from a model that
    was fitted without the sentence's cluster.
    """
    if not parts:
        raise SettingError(
            "the list of scores to combine is empty; name a feature, such as support_lexical"
        )

    def columns(sentences: Sequence[AnswerSentence]) -> Floats:
        return np.column_stack([_score(part, sentences)[1] for part in parts])

    X = columns(labelled.sentences)
    order = np.random.default_rng(seed).permutation(int(clusters.max()) + 1)
    fifth, scores = order[clusters] % _FIFTHS, np.full(len(X), np.nan)
    for test in (fifth == part for part in range(_FIFTHS)):
        if test.any():
            scores[test] = _fit_model(X[~test], positive[~test], labelled.source)(X[test])
    probabilities = _fit_model(X, positive, labelled.source)
    name = " + ".join(map(name_of, parts))
    digest = "+".join(filter(None, map(prompt_digest_of, parts)))
    combined = Score(
        name, lambda new: probabilities(columns(new)).tolist(), 0.5, Facts("higher", 0, 1), digest
    )
    return combined, scores


def _fit_model(X: Floats, positive: Bools, source: str) -> Callable[[Floats], Floats]:
    """Fit a logistic regression to columns of scores, and return the function that applies it.

    The function returns the probability of the positive label for each row of scores; NaN if a
    score of the row is not finite. ``source`` is the name of the labels in error messages.
    """
    with needing("scikit-learn"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

    complete = np.isfinite(X).all(axis=1)
    if len(np.unique(positive[complete])) < 2:
        raise JudgmentError(
            f"{source}: the model that combines the scores cannot be fitted, because all "
            f"{complete.sum()} labels of a training set are the same; label more sentences"
        )
    model = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
    model.fit(X[complete], positive[complete])

    def probabilities(X: Floats) -> Floats:
        complete, values = np.isfinite(X).all(axis=1), np.full(len(X), np.nan)
        if complete.any():
            values[complete] = model.predict_proba(X[complete])[:, 1]
        return values

    return probabilities


def _score(judge: JudgeLike, sentences: Sequence[AnswerSentence]) -> tuple[Opinion, Floats]:
    """Ask a judge to score sentences; return its :class:`Opinion` and the scores.

    The scores are reversed if lower is better.
    """
    opinion = ask(judge, sentences)
    evidence = opinion.evidence
    if evidence is None:
        raise JudgmentError(
            f"judge {opinion.name!r} returns labels without a score, so it cannot abstain; pass a "
            "function that returns a number, such as how often repeated calls give the same label"
        )
    return opinion, evidence


def _turned_threshold(opinion: Opinion) -> float:
    """Return the threshold of a score (default 0.5), reversed if lower scores are better."""
    threshold = 0.5 if opinion.threshold is None else opinion.threshold
    limits = opinion.reading.turned(np.full(len(opinion.reading.lower), threshold))
    if np.ptp(limits) > 0:
        raise JudgmentError(
            f"score {opinion.name!r} is better when lower in one language and better when higher "
            "in another, so no threshold suits both; use labels in one language only"
        )
    return float(limits[0])

"""Judges under test: they label sentences, or score them.

A judge returns a label for each sentence; it can be a person, an LLM or a function. A score returns
a number for each sentence, and a threshold turns the numbers into labels. A score can be any
:class:`~mirage.features.Feature` or a function.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from mirage._base.arrays import Bools, Floats
from mirage.errors import FeatureError, JudgmentError, SettingError
from mirage.features.base import Answered, Facts, Feature, NotComputed
from mirage.features.registry import facts, feature
from mirage.metaeval.sentences import AnswerSentence
from mirage.models import Response
from mirage.text.responses import ParsedResponse
from mirage.text.sentences import Sentence

_UNDECLARED = Facts()
_LABELS_SHOWN = 5  # most labels that a message lists


@runtime_checkable
class SentenceJudge(Protocol):
    """The interface of judges of sentences.

    ``label`` gets all sentences at once, so that a model can process them in batches. It returns a
    label for each sentence, or ``None`` if it has no valid label for the sentence. ``None`` counts
    as wrong.
    """

    @property
    def name(self) -> str:
        """The name of the judge in tables; it must be unique among the judges of an evaluation."""

    def label(self, sentences: Sequence[AnswerSentence]) -> Sequence[str | None]:
        """Return one label for each sentence, in order."""


@dataclass(frozen=True)
class Score:
    """A function that returns a number for each sentence; a threshold turns numbers into labels.

    ``facts.direction`` declares whether higher or lower numbers mean the positive label. Without a
    declared direction, higher is assumed to be better, and results contain a note.

    Attributes:
        name: The name in tables.
        function: Returns one number per sentence. ``None``, NaN or
            :class:`~mirage.features.NotComputed` mean that a sentence has no number, which counts
            as wrong.
        threshold: Sentences with at least this number get the positive label (with at most this
            number, if lower is better). Do not choose it on the sentences on which the score is
            evaluated. If it is ``None``, it is chosen by cross-validation.
        facts: The direction and range of the numbers, as features declare them.
        prompt_digest: The digest (hash) of the user's own prompt, if an LLM returns the numbers
            with that prompt; else empty.
    """

    name: str
    function: Callable[[Sequence[AnswerSentence]], Sequence[float | NotComputed | None]]
    threshold: float | None = None
    facts: Facts = _UNDECLARED
    prompt_digest: str = ""

    def __post_init__(self) -> None:
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise SettingError(
                f"score {self.name!r}: threshold must be a finite number, got {self.threshold}"
            )


JudgeLike = SentenceJudge | Score | Feature | str | Callable[[AnswerSentence], "str | float | None"]
"""A judge, a score, a feature or its name, or a function of a sentence.

A function that returns floats is a score; one that returns labels is a judge. A function declares
whether higher or lower numbers are better in an attribute ``facts``
(:class:`mirage.features.Facts`).
"""


def score(
    of: Feature | str | Callable[[AnswerSentence], float | None],
    threshold: float | None = None,
    *,
    name: str = "",
) -> Score:
    """Make a score from a feature or a function.

    The score takes its direction from the ``facts`` of the feature or the function: if lower is
    better, a lower number means the positive label.

    A feature gets each sentence as a response that consists of this sentence (:func:`as_response`).
    So ``support_lexical`` measures the support of the sentence by the passages that it cites. If
    the feature has no value for a sentence, such as ``answer_bleu`` without a reference, the
    sentence has no score.

    Args:
        of: A feature, its name, or a function of a sentence.
        threshold: Sentences with at least this number get the positive label (with at most this
            number, if lower is better). The unit is that of the feature or the function. By default
            it is chosen by cross-validation.
        name: The name in tables; by default the name of the feature or the function.

    Raises:
        UnknownNameError: There is no feature with this name.
        FeatureError: The feature needs an LLM, so pass the feature instead of its name; or
            ``facts`` is not a :class:`~mirage.features.Facts`.

    Example:
        >>> score("support_lexical", threshold=0.5).name
        'support_lexical'
    """
    if isinstance(of, str):
        of = feature(of)
    if isinstance(of, Feature):
        scores = partial(_feature_scores, of)
        return Score(name or of.name, scores, threshold, facts(of), prompt_digest_of(of))
    function, score_name = of, name or name_of(of)
    return Score(
        score_name,
        lambda sentences: list(map(function, sentences)),
        threshold,
        _declared_facts(function, score_name),
    )


def as_response(sentence: AnswerSentence) -> Answered:
    """Return a response that consists of this sentence alone, with the citations of the sentence.

    If the response that the sentence comes from cites nothing, the result cites every passage of
    the query, since any of them may support the sentence.
    """
    cited = tuple(passage.id for passage in sentence.cited)
    marks = "".join(f"[{passage}]" for passage in cited)
    # Not parsed: a parser might split the sentence, or treat part of it as a heading.
    parsed = ParsedResponse(
        reason="",
        answer=f"{sentence.text} {marks}".strip(),
        answer_text=sentence.text,
        citations=cited,
        sentences=(Sentence(sentence.text, cited),),
        well_formed=False,
    )
    response = Response(query_id=sentence.query.id, text=parsed.answer)
    return Answered(sentence.query, response, parsed)


@dataclass(frozen=True, eq=False)
class Reading:
    """The orientation of a score: whether a high or a low number means the positive label.

    Attributes:
        facts: The direction and range of the numbers.
        lower: For each sentence, whether a lower number means the positive label.
    """

    facts: Facts
    lower: Bools

    @classmethod
    def of(cls, facts: Facts, sentences: Sequence[AnswerSentence]) -> Reading:
        """Return the orientation of a score for each sentence, which may depend on the language.

        If the score declares no direction, higher numbers are assumed to mean the positive label.
        """
        codes = (sentence.query.language for sentence in sentences)
        lower = [facts.higher_is_better(code) is False for code in codes]
        return cls(facts, np.array(lower, dtype=bool))

    def turned(self, values: Floats) -> Floats:
        """Reverse the numbers if lower is better, so that high numbers are positive.

        If the range of the numbers is finite, reversed numbers stay in it: on a scale of 0 to 1,
        0.2 becomes 0.8. Otherwise they change their sign. Reversing twice restores the numbers.
        """
        ends = self.facts.low + self.facts.high
        offset = ends if math.isfinite(self.facts.low) and math.isfinite(self.facts.high) else 0.0
        return np.where(self.lower, offset - values, values)

    def select(self, rows: Bools) -> Reading:
        """Return the orientation of the score for some of the sentences; ``rows`` is a mask."""
        return Reading(self.facts, self.lower[rows])

    @property
    def mixed(self) -> bool:
        """Whether lower numbers are better in one language, and higher ones in another."""
        return bool(self.lower.any() and not self.lower.all())

    def note(self, name: str, positive: str) -> str:
        """Return a note on the direction of the score ``name``, given the positive label.

        The note is empty if the score declares that higher is better.
        """
        directions = {self.facts.direction, *self.facts.direction_by_language.values()}
        if self.mixed:
            return f"{name}: its direction depends on the language"
        if self.lower.any():
            return f"{name}: a lower value means {positive!r}"
        if directions <= {"higher", "lower"}:
            return ""
        return f"{name} declares no direction: a higher value was assumed to mean {positive!r}"


class Opinion(NamedTuple):
    """The labels that a judge gives to sentences, or the numbers if the judge is a score.

    Attributes:
        name: The name of the judge.
        labels: The label of each sentence, or ``None`` for a sentence without one. The attribute is
            ``None`` if the judge is a score.
        scores: The number of each sentence, NaN if it has none; ``None`` if the judge returns
            labels.
        reading: The orientation of the scores.
        threshold: The threshold of a score if the user set one; else ``None``.
        prompt_digest: The digest (hash) of the user's own prompt; empty if there is none.
    """

    name: str
    labels: tuple[str | None, ...] | None
    scores: Floats | None
    reading: Reading
    threshold: float | None = None
    prompt_digest: str = ""

    @property
    def evidence(self) -> Floats | None:
        """The scores, reversed if lower is better, so that high scores mean the positive label."""
        return None if self.scores is None else self.reading.turned(self.scores)

    def note(self, positive: str) -> str:
        """Return a note on which scores mean the label ``positive``; empty if none is needed."""
        return "" if self.scores is None else self.reading.note(self.name, positive)


def ask(judge: JudgeLike, sentences: Sequence[AnswerSentence]) -> Opinion:
    """Return a judge's label or score for each sentence.

    Raises the same errors as :func:`~mirage.metaeval.evaluate`.
    """
    if isinstance(judge, str | Feature):
        judge = score(judge)
    name, threshold, values = name_of(judge), None, list[object]()
    digest = prompt_digest_of(judge)
    if isinstance(judge, Score):
        values, threshold = list(judge.function(sentences)), judge.threshold
    elif isinstance(judge, SentenceJudge):
        values = list(judge.label(sentences))
    else:
        values = [judge(sentence) for sentence in sentences]
    if len(values) != len(sentences):
        raise JudgmentError(
            f"{name!r} returned {len(values)} values for {len(sentences)} sentences; it must "
            "return one value for each sentence"
        )
    # Only floats make a function a score: a bool or an integer is more likely a mistake.
    some_float = any(isinstance(v, Real) and not isinstance(v, Integral) for v in values)
    if isinstance(judge, Score) or (some_float and not isinstance(judge, SentenceJudge)):
        declared = judge.facts if isinstance(judge, Score) else _declared_facts(judge, name)
        reading = Reading.of(declared, sentences)
        numbers = _numbers(values, name, sentences)
        return Opinion(name, None, numbers, reading, threshold, digest)
    labels = _labels(values, name, sentences)
    return Opinion(name, labels, None, Reading.of(_UNDECLARED, sentences), None, digest)


def prompt_digest_of(judge: object) -> str:
    """Return the digest of the user's own prompt if the judge has one; else an empty string."""
    return str(getattr(judge, "prompt_digest", ""))


def name_of(judge: JudgeLike) -> str:
    """Return the name that tables show for a judge.

    Raises the same errors as :func:`~mirage.metaeval.evaluate`.
    """
    if isinstance(judge, str):
        return feature(judge).name
    if isinstance(judge, Feature | Score | SentenceJudge):
        return judge.name
    if not callable(judge) or isinstance(judge, type):
        raise JudgmentError(
            f"{judge!r} is not a judge; pass a score, a feature or its name, a function of a "
            "sentence, or an object with the attribute 'name' and the method 'label'"
        )
    return str(getattr(judge, "__name__", type(judge).__name__))


def other_labels(labels: Iterable[str | None], names: Collection[str]) -> str:
    """List the labels that are not in ``names`` and how often each occurs, most frequent first.

    The text ends with the labels in ``names``. It is empty if there are no other labels.
    """
    counts = Counter(label for label in labels if label is not None and label not in names)
    if not counts:
        return ""
    shown = ", ".join(f"{label!r} ({n})" for label, n in counts.most_common(_LABELS_SHOWN))
    more = f" and {len(counts) - _LABELS_SHOWN} more" if len(counts) > _LABELS_SHOWN else ""
    return f"returned {shown}{more}, but people's labels are {', '.join(map(repr, names))}"


def judge_list(judges: JudgeLike | Iterable[JudgeLike]) -> list[JudgeLike]:
    """Return one or several judges as a list.

    Raises:
        JudgmentError: There is no judge.
    """
    if isinstance(judges, str | Feature | Score | SentenceJudge) or callable(judges):
        return [judges]
    items = list(judges)
    if not items:
        raise JudgmentError("no judge was passed; give at least one")
    return items


def _declared_facts(function: object, name: str) -> Facts:
    """Return the direction and range that a function declares for its scores.

    Both are unknown if the function declares none. ``name`` is its name in error messages.
    """
    declared = getattr(function, "facts", None)
    if declared is None or isinstance(declared, Facts):
        return declared or _UNDECLARED
    raise FeatureError(
        f"the attribute 'facts' of score {name!r} must be a mirage.features.Facts, got {declared!r}"
    )


def _feature_scores(
    of: Feature, sentences: Sequence[AnswerSentence]
) -> Sequence[float | NotComputed]:
    values = list(of.compute([as_response(sentence) for sentence in sentences]))
    reasons = [value.reason for value in values if isinstance(value, NotComputed)]
    if reasons and len(reasons) == len(values):
        raise FeatureError(
            f"feature {of.name!r} has no value for any of the {len(values)} sentences; the first "
            f"reason is: {reasons[0]}"
        )
    return values


def _numbers(values: Sequence[object], name: str, sentences: Sequence[AnswerSentence]) -> Floats:
    """Convert scores to an array, with NaN for missing ones; raise an error if one is invalid."""
    numbers = np.full(len(sentences), np.nan)
    for row, value in enumerate(values):
        if value is None or isinstance(value, NotComputed):
            continue
        if not isinstance(value, Real) or math.isinf(value):
            raise JudgmentError(
                f"{name!r} returned {value!r} for a sentence of query "
                f"{sentences[row].query.id!r}; a score must be a finite number, or None if the "
                "sentence has no score"
            )
        numbers[row] = float(value)
    return numbers


def _labels(
    values: Sequence[object], name: str, sentences: Sequence[AnswerSentence]
) -> tuple[str | None, ...]:
    wrong = next((row for row, v in enumerate(values) if not isinstance(v, str | None)), None)
    if wrong is not None:
        raise JudgmentError(
            f"{name!r} returned {values[wrong]!r} for a sentence of query "
            f"{sentences[wrong].query.id!r}; return a string as a label, a float as a score, or "
            "None if there is neither"
        )
    return tuple(values)  # type: ignore[arg-type]  # all were checked above

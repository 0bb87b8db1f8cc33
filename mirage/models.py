"""The records: what a dataset, a run and a judgment consist of.

All are frozen pydantic models, validated where they enter (files, networks, users) and trusted
inside. Bulk numbers live elsewhere, in numpy columns: see :class:`mirage.FeatureTable` and
:class:`mirage.Judgments`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from mirage._base.passages import document_of, is_other_text
from mirage._base.rows import first_duplicate
from mirage.errors import SettingError, UnknownNameError
from mirage.languages import Language

__all__ = [
    "EVALUATION_ONLY",
    "GOLD",
    "HumanAgreement",
    "Judgment",
    "Passage",
    "Query",
    "Record",
    "Response",
    "Run",
    "Verdict",
    "Vote",
]

Name = Annotated[str, StringConstraints(min_length=1)]
# Many files write ids as numbers; a query id 34 is the id "34".
Id = Annotated[Name, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
LanguageCode = Annotated[str, AfterValidator(lambda code: Language.of(code).code)]

Forms = Annotated[
    tuple[Name, ...],
    Field(min_length=1),
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
]

Verdict = Literal["a", "b", "tie"]


class Record(BaseModel):
    """A row of a file: fields are never changed, and a strange one is refused."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class Passage(Record):
    """A text that a model may answer from.

    ``id`` is the id of the corpus (``36897421#2``); it is what citations and qrels name.
    ``document`` is the id of what it is a part of, where that is not what stands before ``#``; see
    :attr:`document_id`.
    """

    id: Id
    text: str
    title: str = ""
    document: Id | None = None

    @property
    def titled_text(self) -> str:
        """The title, if there is one, and the text, on a line of its own."""
        return f"{self.title}\n{self.text}".strip()

    @property
    def document_id(self) -> str:
        """The document that it is a part of: ``36897421`` of ``36897421#2``."""
        return document_of(self.id) if self.document is None else self.document


GOLD = frozenset(
    {"relevant", "reference", "answerable", "answers", "wrong_answers", "cluster", "metadata"}
)
"""The fields of a :class:`Query` that responses are measured by, or that may tell as much."""


EVALUATION_ONLY = "evaluation only"
"""What ``metadata["use"]`` of a query says where its licence forbids to train on it."""


class Query(Record):
    """A question, with its passages in the order in which the prompt shows them.

    ``relevant`` are the ids of the passages that answer the question, as in TREC qrels; it may
    name passages that are not shown. ``reference`` is a response to compare with, in the form of
    a response. ``answerable`` says whether any passage answers the question, ``None`` where
    nobody knows. ``answers`` are the short answers that a right response gives, all of them, each
    in the forms that it may have: ``(("11", "eleven"),)``; a text stands for its only form.
    ``wrong_answers`` are false ones that a response may give in their place. ``cluster`` names what
    the query hangs together with, such as the document that several are about, or the question
    that it is a paraphrase of: queries of one cluster count as one in all that says how sure a
    figure is. ``metadata`` is the
    user's own: it is kept, never read by the features, and not shown to systems. One key of it is
    understood: nothing is trained on a query whose ``use`` is ``evaluation only``.
    """

    id: Id
    language: LanguageCode
    text: Name
    passages: tuple[Passage, ...] = ()
    relevant: tuple[Id, ...] = ()
    reference: str | None = None
    answerable: bool | None = None
    answers: tuple[Forms, ...] = ()
    wrong_answers: tuple[Forms, ...] = ()
    cluster: Id | None = None
    metadata: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _passages_are_distinct(self) -> Self:
        ids = [passage.id for passage in self.passages]
        twice = first_duplicate(ids)
        if twice is not None:
            raise ValueError(f"query {self.id!r} shows passage {twice!r} twice; ids are unique")
        return self

    def without_gold(self) -> Self:
        """The query as a system that is examined gets it: without what it is measured by.

        Neither ``relevant``, ``reference``, ``answerable`` nor the answers are in it, nor
        ``cluster`` and ``metadata``, which may tell as much: the bundled queries say there that no
        passage answers.
        """
        fields = type(self).model_fields
        nothing = {
            # pydantic 2.10 wants data also for factories that take none.
            name: fields[name].get_default(call_default_factory=True, validated_data={})
            for name in GOLD
        }
        return self.model_copy(update=nothing)

    @property
    def passage_ids(self) -> tuple[str, ...]:
        """The ids of the passages, in the order of :attr:`passages`."""
        return tuple(passage.id for passage in self.passages)

    def shown_to(self, response: Response) -> tuple[str, ...]:
        """Return the ids of the passages that a response was made from, in the order of its prompt.

        They are the response's own :attr:`~Response.shown` or, if it has none, its own
        :attr:`~Response.passages`, and otherwise the query's. The query may lack some of them.
        """
        if response.shown is not None:
            return response.shown
        brought = tuple(passage.id for passage in response.passages)
        return brought or self.passage_ids

    def titles_shown_to(self, response: Response) -> dict[str, str]:
        """Return the titles of the passages that have one, by id; a response's own win."""
        passages = (*self.passages, *response.passages)
        return {passage.id: passage.title for passage in passages if passage.title}

    def knowing(self, *responses: Response) -> Self:
        """Return the query with the texts that responses bring of passages shown for them.

        Theirs come first, before those of its own that are none of them; of two texts of one
        passage the first response's counts. If a response gives the id of a passage of the query to
        another text, the query's own passage goes on as ``ID (dataset)``, also in ``relevant``.
        """
        theirs: dict[str, Passage] = {}
        for response in responses:
            for passage in response.passages:
                theirs.setdefault(passage.id, passage)
        if not theirs:
            return self
        names = {
            passage.id: f"{passage.id} (dataset)"
            for passage in self.passages
            if passage.id in theirs and is_other_text(theirs[passage.id].text, passage.text)
        }
        own = {
            names.get(passage.id, passage.id): passage.model_copy(
                update={"id": names.get(passage.id, passage.id)}
            )
            for passage in self.passages
        }
        passages = tuple((theirs | (own | theirs)).values())
        relevant = tuple(names.get(id_, id_) for id_ in self.relevant)
        return self.model_copy(update={"passages": passages, "relevant": relevant})

    def passages_shown_to(self, response: Response) -> tuple[Passage, ...]:
        """The passages of :meth:`shown_to`, without those that the query lacks."""
        by_id = {passage.id: passage for passage in self.knowing(response).passages}
        return tuple(by_id[id_] for id_ in self.shown_to(response) if id_ in by_id)

    def __getitem__(self, passage_id: str) -> Passage:
        for passage in self.passages:
            if passage.id == passage_id:
                return passage
        raise UnknownNameError(f"passage of query {self.id!r}", passage_id, self.passage_ids)


class Response(Record):
    """A model's raw text for one query.

    ``text`` is ``None`` when the model failed; ``error`` then says why. An empty text is a
    response (an empty one), not a failure. ``shown`` are the passage ids in the order in which
    the prompt showed them, if that differs from the query's own order: a citation ``[2]``
    counts positions there. ``passages`` are texts of shown passages that the query lacks, such as
    those that a pipeline retrieved: with them a run says all that it was made from. If ``shown`` is
    missing they are what was shown, in their order. ``repeat``
    counts from 0 how often the query was asked before, where a model is asked several times.
    """

    query_id: Id
    text: str | None
    error: str | None = None
    repeat: Annotated[int, Field(ge=0)] = 0
    shown: tuple[Id, ...] | None = None
    passages: tuple[Passage, ...] = ()

    @model_validator(mode="after")
    def _failed_or_not(self) -> Self:
        if (self.text is None) != (self.error is not None):
            raise ValueError(
                f"response to query {self.query_id!r} needs either a text or an error that says "
                "why there is none, and not both"
            )
        return self


class Run(Record):
    """All of one model's responses on one dataset, at most one a query, as in TREC.

    Where a model was asked several times, :attr:`responses` has them all, told apart by their
    ``repeat``, and :attr:`repeats` are the runs that each have one response a query. By itself the
    run is that of the first responses: they are what it iterates over, counts and looks up, so
    that nobody takes three responses to one query for three queries.
    """

    model: Name
    language: LanguageCode
    responses: tuple[Response, ...]

    @model_validator(mode="after")
    def _one_response_a_query(self) -> Self:
        asked = Counter((response.query_id, response.repeat) for response in self.responses)
        if len(asked) != len(self.responses):
            twice, repeat = next(key for key, count in asked.items() if count > 1)
            again = f" in repeat {repeat}" if repeat else ""
            raise ValueError(f"run of model {self.model!r} answers query {twice!r} twice{again}")
        return self

    @cached_property
    def _by_query(self) -> dict[str, Response]:
        """The first response to each query."""
        first: dict[str, Response] = {}
        for response in self.responses:
            known = first.get(response.query_id)
            if known is None or response.repeat < known.repeat:
                first[response.query_id] = response
        return first

    @cached_property
    def repeats(self) -> tuple[Run, ...]:
        """A run with one response a query for each time that the model was asked."""
        numbers = sorted({response.repeat for response in self.responses})
        if numbers in ([], [0]):
            return (self,)
        by_repeat: dict[int, list[Response]] = {number: [] for number in numbers}
        for response in self.responses:
            by_repeat[response.repeat].append(response.model_copy(update={"repeat": 0}))
        return tuple(
            Run(model=self.model, language=self.language, responses=tuple(responses))
            for responses in by_repeat.values()
        )

    @classmethod
    def of_repeats(cls, runs: Sequence[Run]) -> Run:
        """The run of a model that was asked several times, from the runs of each time.

        Raises:
            SettingError: there is none, or they differ in model or language.
        """
        names = {(run.model, run.language) for run in runs}
        if len(names) != 1:
            raise SettingError(f"repeats are of one model in one language, not of {sorted(names)}")
        (model, language), *_ = names
        responses = (
            response.model_copy(update={"repeat": number})
            for number, run in enumerate(runs)
            for response in run
        )
        return cls(model=model, language=language, responses=tuple(responses))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's; a copy with other responses looks up these."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("_by_query", None)
        copy.__dict__.pop("repeats", None)
        return copy

    @property
    def failed(self) -> tuple[Response, ...]:
        """The responses that are failures, with their reasons; those of all repeats."""
        return tuple(response for response in self.responses if response.error is not None)

    def get(self, query_id: str) -> Response | None:
        """The first response to one query, ``None`` where the run has none."""
        return self._by_query.get(query_id)

    def __getitem__(self, query_id: str) -> Response:
        try:
            return self._by_query[query_id]
        except KeyError:
            raise UnknownNameError(
                f"query in the run of model {self.model!r}", query_id, self._by_query
            ) from None

    def __contains__(self, query: object) -> bool:
        """Return whether the run has a response to a query, given by its id, or holds a response.

        >>> run = Run(model="m", language="en", responses=(Response(query_id="q1", text="Yes"),))
        >>> "q1" in run, "q2" in run
        (True, False)
        """
        if isinstance(query, Response):
            return self._by_query.get(query.query_id) == query
        return query in self._by_query

    def __repr__(self) -> str:
        counts = f"responses={len(self)}, failed={len(self.failed)}"
        if len(self.repeats) > 1:
            counts = f"queries={len(self)}, repeats={len(self.repeats)}, failed={len(self.failed)}"
        return f"Run({self.model!r}, language={self.language!r}, {counts})"

    __str__ = __repr__

    def __len__(self) -> int:
        return len(self._by_query)

    def __iter__(self) -> Iterator[Response]:  # type: ignore[override]
        return iter(self._by_query.values())


Half = Literal["", "first", "second"]
"""Of the queries of pairs that were chosen for what verdicts on the other half had said."""


class _Comparison(Record):
    query_id: Id
    model_a: Name
    model_b: Name

    @model_validator(mode="after")
    def _two_models(self) -> Self:
        if self.model_a == self.model_b:
            raise ValueError(f"model {self.model_a!r} is compared with itself")
        return self


class Judgment(_Comparison):
    """One verdict of one judge on two models' responses to one query.

    ``half`` is set where the pair was chosen for what other verdicts had said
    (:class:`mirage.arena.AdaptivePairs`): to which half of the queries it belongs. A fit needs it.
    """

    verdict: Verdict
    judge: str = ""
    half: Half = ""


class Vote(_Comparison):
    """What one judge said when it was shown ``model_a``'s response first and ``model_b``'s second.

    ``verdict`` is ``invalid`` where the judge named none, and ``failed`` where it did not answer
    at all; ``error`` then says why. ``asked`` is a digest of what the judge was asked: a vote on
    other responses, or by another prompt, is another vote. ``half`` is that of a
    :class:`Judgment`.
    """

    judge: Name
    verdict: Verdict | Literal["invalid", "failed"]
    asked: str = ""
    error: str | None = None
    half: Half = ""

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if (self.verdict in ("invalid", "failed")) != (self.error is not None):
            raise ValueError("a vote has an error where it is invalid or failed, and only there")
        return self


class HumanAgreement(Record):
    """How far a judge, or a feature taken for one, was measured to agree with people.

    ``judge`` is a model's or a feature's name, ``language`` ``None`` for a mean over languages,
    and ``task`` what the labels say, such as faithfulness.
    ``balanced_accuracy`` is the mean over labels of the share of sentences that people gave the
    label and the judge gave it too, 0 to 1: 0.5 is what guessing reaches between two labels.
    ``roc_auc`` is how often a positive sentence has the higher score, of a judge that gives scores.
    ``source`` says who measured, on what, and how the judge was asked.
    """

    judge: Name
    language: LanguageCode | None
    task: Name
    balanced_accuracy: Annotated[float, Field(ge=0, le=1)]
    roc_auc: Annotated[float, Field(ge=0, le=1)] | None = None
    interval: tuple[float, float] | None = None
    sentences: Annotated[int, Field(gt=0)] | None = None
    source: Name

    def __str__(self) -> str:
        where = (
            Language.of(self.language).name if self.language else "the mean of several languages"
        )
        details = [self.source]
        if self.sentences is not None:
            details.insert(0, f"{self.sentences} sentences")
        if self.interval is not None:
            low, high = self.interval
            details.insert(0, f"95 % interval {100 * low:.1f} to {100 * high:.1f}")
        return (
            f"{self.judge}, {self.task} in {where}: {100 * self.balanced_accuracy:.1f} % balanced "
            f"accuracy against people's labels ({'; '.join(details)})"
        )

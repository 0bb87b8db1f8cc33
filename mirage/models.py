"""Records: the rows that datasets, runs and judgments consist of.

All records are frozen pydantic models. They are validated at the boundary (files, networks, users)
and not again inside the library. Large numbers of values are numpy columns in other classes: see
:class:`mirage.FeatureTable` and :class:`mirage.Judgments`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mirage._base.files import record_rows, validated, write_records
from mirage._base.logs import logger
from mirage._base.near_names import NearNames, NearNamesMeta
from mirage._base.passages import document_of, is_other_text
from mirage._base.quoting import utf8_text
from mirage._base.reasoning import split_reasoning
from mirage._base.rows import first_duplicate
from mirage._base.tables import frame_of
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.languages import Language

if TYPE_CHECKING:
    import pandas as pd

_LOG = logger("mirage.models")

Name = Annotated[str, StringConstraints(min_length=1)]
# Many files have ids as numbers; a query id 34 is read as "34".
Id = Annotated[Name, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
LanguageCode = Annotated[str, AfterValidator(lambda code: Language.of(code).code)]

Forms = Annotated[
    tuple[Name, ...],
    Field(min_length=1),
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
]

_FLAT_ANSWERS = (
    'a flat list of texts, such as ["Nile", "Nil"], is read as several answers, and a right '
    'response states all of them; write [["Nile", "Nil"]] for two spellings of one answer, or '
    '[["Nile"], ["Nil"]] for two answers'
)


def _is_flat(answers: Any) -> bool:
    """Return whether a value is a list of two or more texts."""
    is_list = isinstance(answers, list | tuple)
    return is_list and len(answers) > 1 and all(isinstance(answer, str) for answer in answers)


@lru_cache(maxsize=1024)  # one warning per file
def _warn_of_flat_answers(source: str) -> None:
    _LOG.warning("%s, field 'answers': %s", source, _FLAT_ANSWERS)


Verdict = Literal["a", "b", "tie"]

SETTLED = "settled"
"""Name of the rater or judge whose label is final, because it settles a conflict between raters."""


if TYPE_CHECKING:  # type checkers need the constructor that pydantic's own metaclass declares
    _NearModel = BaseModel
else:

    class _NearModelMeta(NearNamesMeta, type(BaseModel)):
        pass

    class _NearModel(NearNames, BaseModel, metaclass=_NearModelMeta):
        pass


class Record(_NearModel):
    """Base class of all records. Fields cannot be changed, and unknown fields are rejected."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


@lru_cache(maxsize=4096)
def _titled_text(title: str, text: str) -> str:
    """Return the title and text of a passage as one cached string.

    Features use this string as a cache key; looking up the same object is faster.
    """
    return f"{title}\n{text}".strip()


class Passage(Record):
    """A text that a model may base its answer on.

    Attributes:
        id: Id in the corpus, such as ``36897421#2``. Citations and qrels refer to it.
        text: Text of the passage.
        title: Title, if any.
        document: Id of the document that contains the passage. By default the part of ``id`` before
            ``#``; see :attr:`document_id`.

    Example:
        >>> Passage(id="36897421#2", text="The Nile is 6,650 km long.").document_id
        '36897421'
    """

    id: Id
    text: str
    title: str = ""
    document: Id | None = None

    @property
    def titled_text(self) -> str:
        """The title on its own line, if there is one, followed by the text."""
        return _titled_text(self.title, self.text)

    @property
    def document_id(self) -> str:
        """The id of the document that contains the passage: ``36897421`` for ``36897421#2``."""
        return document_of(self.id) if self.document is None else self.document


GOLD = frozenset(
    {"relevant", "reference", "answerable", "answers", "wrong_answers", "cluster", "metadata"}
)
"""Fields of a :class:`Query` that contain its ground truth or may reveal it."""


EVALUATION_ONLY = "evaluation only"
"""Value of ``metadata["use"]`` of a query whose licence forbids training on it."""


class Query(Record):
    """A question, with its passages in the order in which the prompt shows them.

    Attributes:
        id: Id of the query.
        language: ISO 639-1 code.
        text: Question.
        passages: Passages, in the order of the prompt.
        relevant: Ids of the passages that answer the question, as in TREC qrels. They may include
            passages that are not shown.
        reference: Ground-truth response, in the same format as the responses that are compared with
            it.
        answerable: Whether any passage answers the question; ``None`` if unknown.
        answers: Short answers; a right response contains all of them. Each is a tuple of accepted
            spellings (forms), such as ``(("11", "eleven"),)`` for one answer. A text means an
            answer with a single spelling. Several texts without inner tuples cause a warning,
            because other formats list the spellings of one answer in this way.
        wrong_answers: Wrong answers that a response may give instead of the right ones, in the
            format of ``answers``.
        cluster: Name of a group of related queries. For example, they may be about the same
            document, or paraphrase the same question. Queries of one cluster count as one in
            confidence intervals and tests.
        metadata: Additional data of the user, which features do not read and systems do not see.
            Only the key ``use`` has a meaning: a query with the value ``evaluation only`` is
            excluded from training.

    Example:
        >>> query = Query(id="q1", language="en", text="Which river?", answers=("Nile",))
        >>> query.answers
        (('Nile',),)
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

    @field_validator("answers", "wrong_answers", mode="before")
    @classmethod
    def _is_list_of_answers(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str):
            raise ValueError(
                "expected a list of answers, each with its spellings, not a text; write "
                '[["38 m"]] for one answer, or [["38 m", "38 metres"]] if it has several spellings'
            )
        # Wrong answers mean the same in both readings: a right response states none of them.
        if info.field_name == "answers" and _is_flat(value):
            if where := (info.context or {}).get("where"):
                _warn_of_flat_answers(where.rpartition(", ")[0] or where)  # without the line
            else:
                warnings.warn(f"answers: {_FLAT_ANSWERS}", stacklevel=3)
        return value

    @model_validator(mode="after")
    def _passages_are_distinct(self) -> Self:
        ids = [passage.id for passage in self.passages]
        duplicate = first_duplicate(ids)
        if duplicate is not None:
            raise ValueError(
                f"query {self.id!r} shows passage {duplicate!r} twice; passage ids must be unique"
            )
        return self

    def without_gold(self) -> Self:
        """Return the query as an evaluated system receives it, without its ground truth.

        ``relevant``, ``reference``, ``answerable`` and the answers are removed. ``cluster`` and
        ``metadata`` are removed too, because they may reveal the ground truth: for example, the
        metadata of a bundled query shows whether it has an answer.
        """
        fields = type(self).model_fields
        defaults = {
            # pydantic 2.10 requires validated_data even if the factory takes no argument.
            name: fields[name].get_default(call_default_factory=True, validated_data={})
            for name in GOLD
        }
        return self.model_copy(update=defaults)

    @property
    def passage_ids(self) -> tuple[str, ...]:
        """The ids of the passages, in the order of :attr:`passages`."""
        return tuple(passage.id for passage in self.passages)

    def shown_to(self, response: Response) -> tuple[str, ...]:
        """Return the ids of the passages that the prompt of a response showed, in order.

        These are :attr:`Response.shown <mirage.Response>`. If it is None, they are the ids of the
        passages that the response contains or, if it contains none, of the query's passages. Some
        of the ids may be missing from the query's passages.
        """
        if response.shown is not None:
            return response.shown
        response_ids = tuple(passage.id for passage in response.passages)
        return response_ids or self.passage_ids

    def titles_shown_to(self, response: Response) -> dict[str, str]:
        """Return the titles of the query's and the response's passages, by passage id.

        If both have a passage with the same id, the title in the response is returned. Passages
        without a title are left out.
        """
        passages = (*self.passages, *response.passages)
        return {passage.id: passage.title for passage in passages if passage.title}

    def knowing(self, *responses: Response) -> Self:
        """Return a copy of the query to which the passages of the responses are added.

        Passages of the responses come first, then the other passages of the query. If two responses
        have different texts for one passage, the first response's text is used. If a response uses
        the id of a passage of the query for another text, the query's passage gets the new id
        ``ID (dataset)``, also in ``relevant``.
        """
        response_passages: dict[str, Passage] = {}
        for response in responses:
            for passage in response.passages:
                response_passages.setdefault(passage.id, passage)
        if not response_passages:
            return self
        new_ids = {
            passage.id: f"{passage.id} (dataset)"
            for passage in self.passages
            if passage.id in response_passages
            and is_other_text(response_passages[passage.id].text, passage.text)
        }
        query_passages = {
            new_ids.get(passage.id, passage.id): passage.model_copy(
                update={"id": new_ids.get(passage.id, passage.id)}
            )
            for passage in self.passages
        }
        # The first operand determines the order, the last one the texts.
        passages = tuple((response_passages | (query_passages | response_passages)).values())
        relevant = tuple(new_ids.get(id_, id_) for id_ in self.relevant)
        return self.model_copy(update={"passages": passages, "relevant": relevant})

    def passages_shown_to(self, response: Response) -> tuple[Passage, ...]:
        """Return the passages that the prompt of a response showed, in order.

        Their ids are those of :meth:`shown_to`. Passages whose text is unknown are left out.
        """
        by_id = {passage.id: passage for passage in self.knowing(response).passages}
        return tuple(by_id[id_] for id_ in self.shown_to(response) if id_ in by_id)

    def __getitem__(self, passage_id: str) -> Passage:
        for passage in self.passages:
            if passage.id == passage_id:
                return passage
        raise UnknownNameError("passage", passage_id, self.passage_ids, f"of query {self.id!r}")


class Response(Record):
    """The response of a model to one query, as unprocessed text.

    Attributes:
        query_id: Id of the query.
        text: Text; ``None`` if the model failed. An empty text is a response, not a failure.
        error: Reason for the failure; ``None`` if there is a text.
        repeat: Number of times that the model was asked this query before: 0 for the first
            response.
        shown: Ids of the passages in the order of the prompt, if it differs from the query's order.
            A citation ``[2]`` refers to the second of these ids. If ``shown`` is None, the prompt
            showed ``passages``, or the query's passages if ``passages`` is empty.
        passages: Passages that the prompt showed but the query lacks, such as those that a pipeline
            retrieved. With them, a run contains everything that its responses were based on.
        reasoning: Text that a reasoning model wrote before its answer. It is stored, but neither
            metrics nor judges read it. A ``<think>`` block at the start of ``text`` is moved here.
        cut_off: Whether the text ends where it does because the model reached the limit on the
            length of answers, such as ``max_tokens``.

    Example:
        >>> response = Response(query_id="q1", text="<think>Congo? No.</think>The Nile.")
        >>> response.text, response.reasoning
        ('The Nile.', 'Congo? No.')
    """

    query_id: Id
    text: str | None
    error: str | None = None
    repeat: Annotated[int, Field(ge=0)] = 0
    shown: tuple[Id, ...] | None = None
    passages: tuple[Passage, ...] = ()
    reasoning: str | None = None
    cut_off: bool = False

    @model_validator(mode="before")
    @classmethod
    def _split_reasoning(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("text"), str):
            return data
        reasoning, text = split_reasoning(data["text"])
        if not reasoning and text == data["text"]:
            return data
        return data | {"text": text, "reasoning": data.get("reasoning") or reasoning}

    @model_validator(mode="after")
    def _has_text_or_error(self) -> Self:
        if (self.text is None) != (self.error is not None):
            number = "neither" if self.text is None else "both"
            raise ValueError(
                f"response to query {self.query_id!r} needs either a text or an error, but has "
                f'{number}; if the system did not answer, write the reason: "error": "timeout"'
            )
        return self


def response_of(row: Mapping[str, Any], where: str) -> Response:
    """Convert a row of a file to a response; ``where`` is its location, for error messages."""
    for alias in ("output", "response"):
        if alias in row and "text" not in row:
            row = {name: value for name, value in row.items() if name != alias} | {
                "text": row[alias]
            }
    if "error" in row and "text" not in row:  # Parquet has no null apart from a missing value
        row = {**row, "text": None}
    return validated(Response, row, where)


def second_response(response: Response, where: str) -> DatasetError:
    """Return the error for a second response to a query in a file, at the location ``where``."""
    return DatasetError(
        f"{where}, field 'query_id': second response to query {response.query_id!r}; a run has one "
        'response per query, except for repeats, which need a number ("repeat": 1)'
    )


class Run(Record):
    """The responses of one model to the queries of one dataset.

    A run has at most one response per query, as in TREC, unless the model was asked several times.
    In this case, :attr:`responses` has all of its responses, distinguished by their ``repeat``, and
    :attr:`repeats` splits them into one run per repeat. Iteration, ``len()`` and look-ups use only
    the first response to each query, so three responses to one query never count as three queries.

    Attributes:
        model: Name of the model.
        language: ISO 639-1 code.
        responses: Responses, including repeats.
    """

    model: Name
    language: LanguageCode
    responses: tuple[Response, ...]

    @model_validator(mode="after")
    def _one_response_per_query(self) -> Self:
        counts = Counter((response.query_id, response.repeat) for response in self.responses)
        if len(counts) != len(self.responses):
            duplicate, repeat = next(key for key, count in counts.items() if count > 1)
            again = f" in repeat {repeat}" if repeat else ""
            raise ValueError(
                f"run of model {self.model!r} answers query {duplicate!r} twice{again}"
            )
        return self

    @cached_property
    def _by_query(self) -> dict[str, Response]:
        """The first response to each query, by query id."""
        first: dict[str, Response] = {}
        for response in self.responses:
            previous = first.get(response.query_id)
            if previous is None or response.repeat < previous.repeat:
                first[response.query_id] = response
        return first

    @property
    def repeats(self) -> tuple[Run, ...]:
        """One run per repeat; each has at most one response per query."""
        return self._by_repeat or (self,)

    @cached_property
    def _by_repeat(self) -> tuple[Run, ...]:
        """One run per repeat, or nothing if there is only one.

        The run itself must not be cached in an attribute: a comparison of two such runs would never
        end.
        """
        numbers = sorted({response.repeat for response in self.responses})
        if numbers in ([], [0]):
            return ()
        by_repeat: dict[int, list[Response]] = {number: [] for number in numbers}
        for response in self.responses:
            by_repeat[response.repeat].append(response.model_copy(update={"repeat": 0}))
        return tuple(
            Run(model=self.model, language=self.language, responses=tuple(responses))
            for responses in by_repeat.values()
        )

    @classmethod
    def of_repeats(cls, runs: Sequence[Run]) -> Run:
        """Join the runs of a model that was asked several times into one run.

        Args:
            runs: One run per repeat, in order.

        Raises:
            SettingError: If there is no run, or if the runs differ in model or language.

        Example:
            >>> a = Run(model="m", language="en", responses=(Response(query_id="q", text="1"),))
            >>> b = Run(model="m", language="en", responses=(Response(query_id="q", text="2"),))
            >>> run = Run.of_repeats([a, b])
            >>> len(run), len(run.responses), run["q"].text
            (1, 2, '1')
        """
        names = {(run.model, run.language) for run in runs}
        if len(names) != 1:
            raise SettingError(f"repeats need the same model and language, got {sorted(names)}")
        (model, language), *_ = names
        responses = (
            response.model_copy(update={"repeat": number})
            for number, run in enumerate(runs)
            for response in run
        )
        return cls(model=model, language=language, responses=tuple(responses))

    @classmethod
    def load(cls, path: str | Path, *, language: str, model: str = "") -> Run:
        """Read a run from a file with one :class:`~mirage.Response` per row.

        The file is JSON Lines, gzipped or not, or Parquet (extra ``retrieval``). ``output`` and
        ``response`` are aliases of ``text``.

        Args:
            path: Path of the file.
            language: ISO 639-1 code of the responses.
            model: Name of the model. By default the stem of the file name.

        Raises:
            DatasetError: If a line is invalid. The message names the file, the line and the field.
            UnknownNameError: If there is no such language.
        """
        path = Path(path)
        code = Language.of(language).code
        responses: dict[tuple[str, int], Response] = {}
        for where, row in record_rows(path):
            response = response_of(row, where)
            key = response.query_id, response.repeat
            if key in responses:
                raise second_response(response, where)
            responses[key] = response
        if not responses:
            raise DatasetError(f"{path}: the file has no responses")
        name = model or utf8_text(path.stem)
        return cls(model=name, language=code, responses=tuple(responses.values()))

    def save(self, path: str | Path) -> None:
        """Write the responses as JSON Lines; :meth:`load` reads them back.

        Args:
            path: Path of the file.

        Raises:
            DatasetError: If the file cannot be written.

        Example:
            >>> from tempfile import TemporaryDirectory
            >>> responses = (Response(query_id="q1", text="Nile"),)
            >>> run = Run(model="m", language="en", responses=responses)
            >>> with TemporaryDirectory() as folder:
            ...     run.save(f"{folder}/m.jsonl")
            ...     print(Run.load(f"{folder}/m.jsonl", language="en") == run)
            True
        """
        write_records(self.responses, Path(path))

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with one row per query and one column per field of a response.

        The model and the language are columns too. Passages become Python lists of dicts.

        Raises:
            MissingPackageError: If pandas is not installed.
        """
        return frame_of(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        """Return the responses as dictionaries of plain values."""
        same = {"model": self.model, "language": self.language}
        return [same | response.model_dump(mode="json") for response in self]

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy of the run, optionally with new values of some fields.

        If ``update`` contains ``responses``, look-ups in the copy use these responses.

        Args:
            update: New values of fields.
            deep: Whether to copy the values of the fields too.
        """
        copy = super().model_copy(update=update, deep=deep)
        # pydantic also copies cached properties, which were computed from the old responses.
        copy.__dict__.pop("_by_query", None)
        copy.__dict__.pop("_by_repeat", None)
        return copy

    @property
    def failed(self) -> tuple[Response, ...]:
        """The failed responses, including those of repeats."""
        return tuple(response for response in self.responses if response.error is not None)

    def get(self, query_id: str) -> Response | None:
        """Return the first response to a query, or ``None`` if the run has none."""
        return self._by_query.get(query_id)

    def __getitem__(self, query_id: str) -> Response:
        try:
            return self._by_query[query_id]
        except KeyError:
            raise UnknownNameError(
                "query", query_id, self._by_query, f"in the run of model {self.model!r}"
            ) from None

    def __contains__(self, query: object) -> bool:
        """Return whether the run has a response to a query id, or contains a :class:`Response`.

        Example:
            >>> run = Run(model="m", language="en", responses=(Response(query_id="a", text="Yes"),))
            >>> "a" in run, "b" in run
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
"""Which half of the dataset contains the query of a pair that was chosen adaptively.

Empty for pairs that were chosen without regard to earlier verdicts.
"""


class _Comparison(Record):
    query_id: Id
    model_a: Name
    model_b: Name

    @model_validator(mode="after")
    def _models_differ(self) -> Self:
        if self.model_a == self.model_b:
            raise ValueError(f"model {self.model_a!r} is compared with itself")
        return self


class Judgment(_Comparison):
    """The verdict of one judge on two models' responses to one query.

    Attributes:
        query_id: Id of the query.
        model_a: Name of the first model.
        model_b: Name of the second model.
        verdict: ``a``, ``b`` or ``tie``.
        judge: Name of the judge.
        half: Which half of the dataset contains the query (``first`` or ``second``), if
            :class:`mirage.arena.AdaptivePairs` chose the pair; empty for other pairs. The verdicts
            on one half determine which pairs of the other half are judged, so logits are unbiased
            only if the two halves are fitted separately.

    Example:
        >>> Judgment(query_id="q1", model_a="x", model_b="y", verdict="tie").verdict
        'tie'
    """

    verdict: Verdict
    judge: str = ""
    half: Half = ""


class Vote(_Comparison):
    """One judge's answer to a prompt with ``model_a``'s response first and ``model_b``'s second.

    Attributes:
        query_id: Id of the query.
        model_a: Name of the model whose response came first.
        model_b: Name of the model whose response came second.
        judge: Name of the judge.
        verdict: ``a``, ``b`` or ``tie``; ``invalid`` if the judge's answer contains no verdict, and
            ``failed`` if there is no answer.
        prompt_digest: Digest of the judge's prompt, which contains the responses. A vote is reused
            only if the digest is the same. Older files call this field ``asked``.
        error: Reason why the verdict is ``invalid`` or ``failed``; ``None`` for other verdicts.
        half: Which half of the dataset contains the query (``first`` or ``second``), if
            :class:`mirage.arena.AdaptivePairs` chose the pair; empty for other pairs.
        outdated: Whether the responses, the prompt or the judge's parameters had changed when a
            later comparison wrote the file. Readers leave such votes out.
    """

    judge: Name
    verdict: Verdict | Literal["invalid", "failed"]
    prompt_digest: str = Field("", validation_alias=AliasChoices("prompt_digest", "asked"))
    error: str | None = None
    half: Half = ""
    outdated: bool = False

    @model_validator(mode="after")
    def _error_matches_verdict(self) -> Self:
        if (self.verdict in ("invalid", "failed")) != (self.error is not None):
            raise ValueError(
                "a vote must have an error if its verdict is 'invalid' or 'failed', and must not "
                "have one otherwise"
            )
        return self


class HumanAgreement(Record):
    """The measured agreement of a judge, or of a feature that is used as a judge, with people.

    Attributes:
        judge: Name of a model or a feature.
        language: ISO 639-1 code; ``None`` for a mean over languages.
        task: Property of a sentence that the labels rate, such as faithfulness.
        balanced_accuracy: Recall of the judge on each human label, averaged over the labels, from 0
            to 1. Guessing between two labels reaches 0.5.
        roc_auc: Area under the ROC curve: the probability that a sentence that has the property
            gets a higher score than one that lacks it. ``None`` for a judge without scores.
        interval: 95 % confidence interval of the balanced accuracy; ``None`` if unknown.
        sentences: Number of labelled sentences; ``None`` if unknown.
        source: Who measured the agreement, on which data, and how the judge was asked.
        prompt_digest: Digest of the prompt, if the judge was an LLM with a custom prompt.
            Empty for the prompts of this library, and for judges without a prompt.
    """

    judge: Name
    language: LanguageCode | None
    task: Name
    balanced_accuracy: Annotated[float, Field(ge=0, le=1)]
    roc_auc: Annotated[float, Field(ge=0, le=1)] | None = None
    interval: tuple[float, float] | None = None
    sentences: Annotated[int, Field(gt=0)] | None = None
    source: Name
    prompt_digest: str = ""

    def __str__(self) -> str:
        language = (
            Language.of(self.language).name if self.language else "the mean of several languages"
        )
        details = [self.source]
        if self.sentences is not None:
            details.insert(0, f"{self.sentences} sentences")
        if self.interval is not None:
            low, high = self.interval
            details.insert(0, f"95 % interval {100 * low:.1f} to {100 * high:.1f}")
        return (
            f"{self.judge}, {self.task} in {language}: {100 * self.balanced_accuracy:.1f} % "
            f"balanced accuracy against people's labels ({'; '.join(details)})"
        )

"""The steps of building a benchmark for judges, each a function that can be used alone.

They follow MEMERAG (Cruz Blandón et al. 2025, arXiv 2502.17163), sections 3.1 to 3.3;
:func:`mirage.building.build_judge_benchmark` takes one after the other.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Literal, NamedTuple

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, JudgmentError, LLMError, SettingError
from mirage.features.lexical import SUPPORTED_AT, sentence_support
from mirage.languages import Language
from mirage.llm import LLM
from mirage.llm.questions import BRACKETS, Form, Question, ask_all, final_verdict
from mirage.models import Id, LanguageCode, Name, Passage, Query, Record, Response, Run
from mirage.retrieval import BM25
from mirage.text import parse, split_sentences, tokenize

__all__ = [
    "MARKED_AT",
    "MARKS",
    "DropReason",
    "Dropped",
    "SupportMarker",
    "SupportingSentence",
    "TimeDependence",
    "UnlabelledSentence",
    "WithPassages",
    "assign_models",
    "count_words",
    "lexical_marks",
    "time_independent",
    "unfit_answers",
    "unlabelled_sentences",
    "with_passages",
]

MARKED_AT = 0.75 * SUPPORTED_AT
"""Support by one sentence of a passage from which on :func:`lexical_marks` marks it.

Three quarters of what makes a sentence supported: one sentence seldom carries all that an answer's
sentence says.
"""

MARKS = 3
"""Sentences of the passages that are marked for one sentence of an answer, at most."""

DropReason = Literal[
    "no relevant passage",
    "too few passages",
    "changes over time",
    "undecided",
    "failed",
    "short answer",
    "not sampled",
]
"""Why a question is not in a benchmark, in the order of the steps.

No relevant passage is known for it, or none is in the corpus; too few passages of the corpus share
a word with it; an LLM says that its answer changes over time, or gave no verdict on that; a model
did not answer it; a model's answer is too short; the models have answers enough without it.
"""


class Dropped(NamedTuple):
    """Why a question was left out; ``detail`` says more, such as which model failed and how."""

    reason: DropReason
    detail: str = ""


# Passages -----------------------------------------------------------------------------------------


class WithPassages(NamedTuple):
    """Questions with the passages that were found for them.

    Attributes:
        queries: the questions that have enough passages, with these and no others, best first.
        replaced: ids of those whose last passage took the place of the lowest that was found.
        dropped: why each other question is left out, by id.
    """

    queries: tuple[Query, ...]
    replaced: tuple[str, ...]
    dropped: dict[str, Dropped]


def with_passages(queries: Iterable[Query], index: BM25, n: int = 5) -> WithPassages:
    """Give each question the best ``n`` passages of ``index``, a relevant one among them.

    Where none of them is relevant, the lowest gives way to the relevant passage with the highest
    score; of those with equal scores, to the one that the question's ``relevant`` names first.

    Raises:
        DatasetError: a question is in another language than the corpus.
        SettingError: ``n`` is less than 1.
    """
    if n < 1:
        raise SettingError(f"a question has 1 passage or more, not {n}")
    complete: list[Query] = []
    replaced: list[str] = []
    dropped: dict[str, Dropped] = {}
    for query in queries:
        if query.language != index.language:
            raise DatasetError(
                f"query {query.id!r} is in {query.language!r}, but the corpus is in "
                f"{index.language!r}"
            )
        match _passages_of(query, index, n):
            case Dropped() as drop:
                dropped[query.id] = drop
            case passages, exchange:
                complete.append(query.model_copy(update={"passages": passages}))
                replaced += [query.id] if exchange else []
    return WithPassages(tuple(complete), tuple(replaced), dropped)


def _passages_of(query: Query, index: BM25, n: int) -> tuple[tuple[Passage, ...], bool] | Dropped:
    """The passages of a question, and whether a relevant one took the place of the lowest."""
    relevant = [passage for passage in query.relevant if passage in index.corpus]
    if not relevant:
        missing = f"none of {', '.join(query.relevant)} is in the corpus" if query.relevant else ""
        return Dropped("no relevant passage", missing)
    passages = [hit.passage for hit in index.search(query.text, n)]
    if len(passages) < n:
        return Dropped("too few passages", f"{len(passages)} of the corpus share a word with it")
    if any(passage.id in relevant for passage in passages):
        return tuple(passages), False
    scores = dict(zip(relevant, index.scores(query.text, relevant), strict=True))
    best = max(scores, key=scores.__getitem__)  # the first of equal ones
    return (*passages[:-1], index.corpus[best]), True


# Time ---------------------------------------------------------------------------------------------
#
# Of a question whose answer changes, what a passage of some year says is no error, and what a model
# says of today is no invention.

_STABLE, _CHANGES = "STABLE", "CHANGES"

_TIME_TASK = f"""\
You sort questions by whether their right answer changes as time goes by.

A question is {_CHANGES} if people who ask it a few years apart could rightly get different \
answers: who holds an office or a record, what is the latest, the next or the largest so far, how \
old, how many or how expensive something is at present, which rules are in force.

A question is {_STABLE} if the answer is the same whenever it is asked: what happened and why, who \
made or discovered something, what a word means, how nature works, what a lasting thing or place \
is like, or how matters stood at a time that the question names.

The question is in """

_TIME_FORM = Form(
    text="Say in one or two sentences what could make the answer change. Then end with a line that "
    f"holds nothing but your verdict in double square brackets: [[{_CHANGES}]] or [[{_STABLE}]]",
    reminder="Your last line has to be the verdict in double square brackets and nothing else: "
    f"[[{_CHANGES}]] or [[{_STABLE}]]",
    read=lambda text: final_verdict(text, (_STABLE, _CHANGES)),
    sought="verdict",
    breaks=(BRACKETS,),
)


class TimeDependence(NamedTuple):
    """Questions by whether their answers change over time; each is in one of the three.

    Attributes:
        stable: their answers stay the same.
        changing: their answers change.
        undecided: by id, why the LLM gave no verdict.
    """

    stable: tuple[Query, ...]
    changing: tuple[Query, ...]
    undecided: dict[str, str]


def time_independent(
    queries: Iterable[Query], llm: LLM, *, progress: bool = True
) -> TimeDependence:
    """Ask ``llm`` of each question whether its answer changes over time.

    It is asked again up to five times where it ends in no verdict. With its cache a second call
    asks only what the first one got no answer to.

    Raises:
        LLMError: no question was decided, with the reason for the first; or there is no key.
    """
    questions = list(queries)
    what = "questions sorted by time"
    outcomes = ask_all(llm, [*map(_time_question, questions)], what=what, progress=progress)
    by_query = list(zip(questions, outcomes, strict=True))
    undecided = {
        query.id: f"there was {outcome.invalid or f'no answer: {outcome.failed}'}"
        for query, outcome in by_query
        if outcome.value is None
    }
    if undecided and len(undecided) == len(questions):
        raise LLMError(
            f"of none of {len(questions)} questions is known whether its answer changes over time; "
            f"of query {questions[0].id!r} because {undecided[questions[0].id]}"
        )
    stable, changing = (
        tuple(query for query, outcome in by_query if outcome.value == verdict)
        for verdict in (_STABLE, _CHANGES)
    )
    return TimeDependence(stable, changing, undecided)


def _time_question(query: Query) -> Question[str]:
    return Question(
        task=f"{_TIME_TASK}{Language.of(query.language).name}.",
        aim="Sort the question marked <question {word}>",
        form=_TIME_FORM,
        material=(("question", query.text),),
    )


# Answers ------------------------------------------------------------------------------------------


def unfit_answers(
    dataset: MirageDataset, runs: Mapping[str, Run], min_words: int = 10
) -> dict[str, Dropped]:
    """The questions to leave out because one of ``runs`` fails on them or is below ``min_words``.

    One such answer of one model is enough, so that all models have the same questions. Words are
    counted by :func:`count_words`, in the answer section, without citations.
    """
    dropped: dict[str, Dropped] = {}
    for query in dataset:
        failures, short = [], []
        for model, run in runs.items():
            response = run.get(query.id)
            if response is None or response.text is None:
                error = "no response to this query" if response is None else response.error
                failures.append(f"{model}: {error}")
            elif (words := count_words(_answer(response, query), query.language)) < min_words:
                short.append(f"{model}: {words:.3g} words")
        if failures:
            dropped[query.id] = Dropped("failed", "; ".join(failures))
        elif short:
            dropped[query.id] = Dropped("short answer", "; ".join(short))
    return dropped


def count_words(text: str, language: str) -> float:
    """How many words a text has.

    Words are the tokens of :func:`mirage.text.tokenize`. Where a script puts no spaces between
    words and tokens are characters, they are converted: so many characters are a word as say what
    one word of English says, in the passages of the bundled corpora, which are parallel. (About
    1.4 in Chinese, 2.0 in Japanese, 3.0 in Thai.)

    Raises:
        UnknownNameError: no such language.
    """
    entry = Language.of(language)
    tokens = len(tokenize(text, entry))
    return float(tokens) if entry.tokens == "word" else tokens / _characters_a_word(entry.code)


@cache
def _characters_a_word(code: str) -> float:
    return _bundled_tokens(code) / _bundled_tokens("en")


def _bundled_tokens(code: str) -> int:
    passages = chain.from_iterable(query.passages for query in MirageDataset.bundled(code))
    return sum(len(tokenize(passage.text, code)) for passage in passages)


def assign_models(
    query_ids: Sequence[str], models: Sequence[str], per_model: int = 50, *, seed: int = 0
) -> dict[str, str]:
    """Draw ``per_model`` questions for each of ``models``, none for two; the model of each.

    As in MEMERAG's files, where each of the 250 questions of a language is answered once.

    Raises:
        DatasetError: there are not so many questions.
        SettingError: ``per_model`` is less than 1.
    """
    if per_model < 1:
        raise SettingError(f"per_model is a number of questions, 1 or more, not {per_model}")
    needed = per_model * len(models)
    if needed > len(query_ids):
        raise DatasetError(
            f"{len(models)} models with {per_model} questions each need {needed} questions, and "
            f"{len(query_ids)} are left; give more questions, or a smaller per_model"
        )
    draw = random.Random(seed).sample(list(query_ids), needed)
    model_of = {query_id: models[place // per_model] for place, query_id in enumerate(draw)}
    return {query_id: model_of[query_id] for query_id in query_ids if query_id in model_of}


def _answer(response: Response, query: Query) -> str:
    return parse(response.text or "", query.language, query.shown_to(response)).answer_text


# Sentences ----------------------------------------------------------------------------------------

SupportMarker = Callable[[str, Sequence[str], str], Sequence[float]]
"""How far sentences of passages support a sentence of an answer.

A function of the answer's sentence, the sentences of all passages, and the language, that returns
a finite number for each sentence of the passages: above 0 where it may support the answer's, and
the more the higher.
"""


def lexical_marks(sentence: str, candidates: Sequence[str], language: str) -> list[float]:
    """Mark by :func:`~mirage.features.lexical.sentence_support`, from :data:`MARKED_AT` on."""
    support = (sentence_support(sentence, [candidate], language) for candidate in candidates)
    return [value if value >= MARKED_AT else 0.0 for value in support]


class SupportingSentence(Record):
    """A sentence of a passage that may support a sentence of an answer."""

    passage: Id
    sentence: str
    score: float


class UnlabelledSentence(Record):
    """A row for annotators; once it has a label, :meth:`LabelledSentences.from_jsonl` reads it.

    Attributes:
        query_id: the question's id.
        language: its language.
        query: the question.
        passages: the question's passages, from which the model was to answer.
        answer: the whole answer, without citations.
        number: which sentence of the answer this is, from 1.
        sentence: the sentence to label, without citations.
        support: sentences of the passages that may support it, best first.
        label: for the annotator: ``Supported``, ``Not Supported`` or ``Challenging to determine``,
            or a list of one an annotator.
        fine: for a fine-grained label, such as ``Contradiction``.
    """

    query_id: Id
    language: LanguageCode
    query: Name
    passages: tuple[Passage, ...]
    answer: str
    number: int
    sentence: Name
    support: tuple[SupportingSentence, ...]
    label: None
    fine: None


def unlabelled_sentences(
    query: Query, response: Response, mark: SupportMarker = lexical_marks
) -> tuple[UnlabelledSentence, ...]:
    """The sentences of an answer, each with up to three marked sentences of the passages.

    A sentence of the ``response`` is to be labelled by all passages of its question, as in the
    paper, so the passages that it cites are left out. Nor do the rows say which model answered.
    ``mark`` says how far a sentence of a passage supports one of the answer.

    Raises:
        JudgmentError: ``mark`` did not return a finite number for each sentence of the passages.
    """
    code = query.language
    candidates = [
        (passage.id, text)
        for passage in query.passages
        for text in split_sentences(passage.text, code)
    ]
    parsed = parse(response.text or "", code, query.shown_to(response))
    return tuple(
        UnlabelledSentence(
            query_id=query.id,
            language=code,
            query=query.text,
            passages=query.passages,
            answer=parsed.answer_text,
            number=number,
            sentence=sentence.text,
            support=_marked(sentence.text, candidates, code, mark),
            label=None,
            fine=None,
        )
        for number, sentence in enumerate(parsed.sentences, 1)
    )


def _marked(
    sentence: str, candidates: Sequence[tuple[str, str]], code: str, mark: SupportMarker
) -> tuple[SupportingSentence, ...]:
    scores = [float(score) for score in mark(sentence, [text for _, text in candidates], code)]
    if len(scores) != len(candidates) or not all(map(math.isfinite, scores)):
        raise JudgmentError(
            f"mark= returned {len(scores)} numbers for {len(candidates)} sentences of passages, "
            f"beside {sentence!r}; it has to return a finite one for each"
        )
    ranking = sorted(zip(scores, candidates, strict=True), key=lambda pair: -pair[0])
    return tuple(
        SupportingSentence(passage=passage, sentence=text, score=round(score, 3))
        for score, (passage, text) in ranking[:MARKS]
        if score > 0
    )

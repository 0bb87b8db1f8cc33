"""The steps of building a benchmark for judges; each function can also be used alone.

They follow MEMERAG (Cruz Blandón et al. 2025, arXiv 2502.17163), sections 3.1 to 3.3.
:func:`mirage.metaeval.build_judge_benchmark` runs them in order.
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

MARKED_AT = 0.75 * SUPPORTED_AT
"""The lowest support score at which :func:`lexical_marks` marks a passage sentence as support.

It is three quarters of the score at which all passages together count as supporting a sentence,
because a single passage sentence seldom supports a whole sentence of an answer.
"""

MARKS = 3
"""The largest number of passage sentences that are marked as support for one answer sentence."""

DropReason = Literal[
    "no relevant passage",
    "too few passages",
    "changes over time",
    "undecided",
    "failed",
    "short answer",
    "not sampled",
]
"""The reason why a question is not in a benchmark, in the order of the steps.

- ``no relevant passage``: the question has no relevant passage in the corpus.
- ``too few passages``: too few passages of the corpus share a word with the question.
- ``changes over time``: the LLM judges that the answer changes over time.
- ``undecided``: the LLM gave no verdict on whether the answer changes over time.
- ``failed``: a model did not answer.
- ``short answer``: the answer of a model is too short.
- ``not sampled``: the question was not drawn for any model.
"""


class Dropped(NamedTuple):
    """The reason why a question was dropped.

    Attributes:
        reason: The kind of reason.
        detail: More information, such as the name of the model that failed; may be empty.
    """

    reason: DropReason
    detail: str = ""


# Passages -----------------------------------------------------------------------------------------


class WithPassages(NamedTuple):
    """Questions with retrieved passages.

    Attributes:
        queries: The questions with enough passages; each has only its retrieved passages, best
            first.
        replaced: The ids of questions whose lowest-ranked passage was replaced by a relevant one.
        dropped: The reasons why the other questions were dropped, by id.
    """

    queries: tuple[Query, ...]
    replaced: tuple[str, ...]
    dropped: dict[str, Dropped]


def with_passages(queries: Iterable[Query], index: BM25, n: int = 5) -> WithPassages:
    """Retrieve the best ``n`` passages for each question, at least one of them relevant.

    If none of the best passages is relevant, the lowest-ranked one is replaced by the relevant
    passage with the highest score. If several have this score, the one that comes first in
    :attr:`Query.relevant <mirage.Query>` is used.

    Args:
        queries: The questions with their relevant passages.
        index: The index of the corpus.
        n: Number of passages per question.

    Raises:
        DatasetError: If a question and the corpus have different languages.
        SettingError: If ``n`` is less than 1.
    """
    if n < 1:
        raise SettingError(f"n must be at least 1, got n={n}")
    complete: list[Query] = []
    replaced: list[str] = []
    dropped: dict[str, Dropped] = {}
    for query in queries:
        if query.language != index.language:
            raise DatasetError(
                f"query {query.id!r} is in {query.language!r}, but the corpus is in "
                f"{index.language!r}; use a corpus in the language of the queries"
            )
        match _select_passages(query, index, n):
            case Dropped() as drop:
                dropped[query.id] = drop
            case passages, is_replaced:
                complete.append(query.model_copy(update={"passages": passages}))
                replaced += [query.id] if is_replaced else []
    return WithPassages(tuple(complete), tuple(replaced), dropped)


def _select_passages(
    query: Query, index: BM25, n: int
) -> tuple[tuple[Passage, ...], bool] | Dropped:
    """Select the passages of a question, best first.

    Returns:
        The passages, and whether the last one was replaced by a relevant one. If the question must
        be dropped, the reason.
    """
    relevant_ids = [passage for passage in query.relevant if passage in index.corpus]
    if not relevant_ids:
        detail = f"none of {', '.join(query.relevant)} is in the corpus" if query.relevant else ""
        return Dropped("no relevant passage", detail)
    passages = [hit.passage for hit in index.search(query.text, n)]
    if len(passages) < n:
        return Dropped("too few passages", f"passages with a word of the question: {len(passages)}")
    if any(passage.id in relevant_ids for passage in passages):
        return tuple(passages), False
    scores = dict(zip(relevant_ids, index.scores(query.text, relevant_ids), strict=True))
    best_id = max(scores, key=scores.__getitem__)  # the first if scores are equal
    return (*passages[:-1], index.corpus[best_id]), True


# Time ---------------------------------------------------------------------------------------------
#
# If the answer to a question changes over time, an old passage is not wrong, and an answer from the
# present is not a hallucination. Annotators could not label such answers.

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
    """Questions grouped by whether their answers change over time.

    Attributes:
        stable: The questions whose answers stay the same.
        changing: The questions whose answers change.
        undecided: The reason why the LLM gave no verdict, by id of the question.
    """

    stable: tuple[Query, ...]
    changing: tuple[Query, ...]
    undecided: dict[str, str]


def time_independent(
    queries: Iterable[Query], llm: LLM, *, progress: bool = True
) -> TimeDependence:
    """Ask an LLM for each question whether its answer changes over time.

    If a reply has no verdict, the LLM is asked again up to five times. Verdicts are cached, so that
    a second call asks only about undecided questions.

    Args:
        queries: The questions.
        llm: The LLM that decides.
        progress: Show a progress bar on stderr if it is a terminal.

    Raises:
        LLMError: If the LLM gave no verdict on any question (the message has the reason for the
            first), or if there is no API key.
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
            f"the LLM did not decide for any of {len(questions)} questions whether its answer "
            f"changes over time; the reason for the first question, {questions[0].id!r}: "
            f"{undecided[questions[0].id]}"
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
    """Return the questions to drop because a model did not answer, or answered too briefly.

    These questions are dropped for all models, so that all models have the same questions.

    Args:
        dataset: The questions.
        runs: The responses of each model, by name.
        min_words: Minimum number of words in an answer. :func:`count_words` counts the words of the
            answer section without citations.

    Returns:
        The reason for each dropped question, by question id.
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
    """Count the words of a text, or estimate their number from its characters.

    Words are the tokens of :func:`mirage.text.tokenize`. In scripts without spaces between words,
    tokens are characters. Their number is divided by the average number of characters that
    correspond to one English word. This average was measured on the parallel passages of the
    bundled corpora: about 1.4 in Chinese, 2.0 in Japanese and 3.0 in Thai.

    Args:
        text: The text.
        language: The language of the text, as an ISO 639-1 code.

    Raises:
        UnknownNameError: If the language is unknown.

    Example:
        >>> count_words("Nairobi is the capital.", "en")
        4.0
    """
    entry = Language.of(language)
    tokens = len(tokenize(text, entry))
    return float(tokens) if entry.tokens == "word" else tokens / _characters_per_word(entry.code)


@cache
def _characters_per_word(code: str) -> float:
    return _bundled_tokens(code) / _bundled_tokens("en")


def _bundled_tokens(code: str) -> int:
    passages = chain.from_iterable(query.passages for query in MirageDataset.bundled(code))
    return sum(len(tokenize(passage.text, code)) for passage in passages)


def assign_models(
    query_ids: Sequence[str], models: Sequence[str], per_model: int = 50, *, seed: int = 0
) -> dict[str, str]:
    """Assign randomly drawn questions to models, the same number to each model.

    Each drawn question belongs to one model, as in MEMERAG's files with 250 questions per language.
    The result maps the ids of the drawn questions to the names of their models.

    Args:
        query_ids: The ids of the questions.
        models: The names of the models.
        per_model: Number of questions per model.
        seed: Random seed of the draw.

    Raises:
        DatasetError: If there are too few questions.
        SettingError: If ``per_model`` is less than 1.

    Example:
        >>> sorted(assign_models(["q1", "q2"], ["solar", "llama"], per_model=1).values())
        ['llama', 'solar']
    """
    if per_model < 1:
        raise SettingError(f"per_model must be at least 1, got per_model={per_model}")
    question_count = per_model * len(models)
    if question_count > len(query_ids):
        raise DatasetError(
            f"{len(models)} models with {per_model} questions each need {question_count} "
            f"questions, but {len(query_ids)} are left; pass more questions or a smaller per_model"
        )
    drawn_ids = random.Random(seed).sample(list(query_ids), question_count)
    model_of = {
        query_id: models[position // per_model] for position, query_id in enumerate(drawn_ids)
    }
    return {query_id: model_of[query_id] for query_id in query_ids if query_id in model_of}


def _answer(response: Response, query: Query) -> str:
    return parse(response.text or "", query.language, query.shown_to(response)).answer_text


# Sentences ----------------------------------------------------------------------------------------

SupportMarker = Callable[[str, Sequence[str], str], Sequence[float]]
"""A function that scores how well sentences of passages support a sentence of an answer.

Its arguments are the sentence of the answer, the sentences of all passages, and the language. It
returns a finite number for each sentence of the passages, above 0 if it may support the answer's
sentence.
"""


def lexical_marks(sentence: str, candidates: Sequence[str], language: str) -> list[float]:
    """Score how well sentences of passages support a sentence of an answer, by their common words.

    The score is the value of :func:`~mirage.features.lexical.sentence_support`, or 0 if it is below
    :data:`MARKED_AT`.

    Args:
        sentence: The sentence of the answer.
        candidates: The sentences of the passages.
        language: The language of all sentences.

    Returns:
        One score for each candidate.
    """
    support = (sentence_support(sentence, [candidate], language) for candidate in candidates)
    return [value if value >= MARKED_AT else 0.0 for value in support]


class SupportingSentence(Record):
    """A sentence of a passage that may support a sentence of an answer.

    Attributes:
        passage: The id of the passage.
        sentence: The sentence of the passage.
        score: The number that the :data:`SupportMarker` returned; higher means more support.
    """

    passage: Id
    sentence: str
    score: float


class UnlabelledSentence(Record):
    """A row for annotators, which :meth:`LabelledSentences.from_jsonl` reads once it has a label.

    Attributes:
        query_id: The id of the question.
        language: The language of the question.
        query: The text of the question.
        passages: The passages that the model was given.
        answer: The whole answer, without citations.
        number: The position of the sentence in the answer, from 1.
        sentence: The sentence to label, without citations.
        support: Sentences of the passages that may support the sentence to label, best first.
        label: Empty field for the annotator: ``Supported``, ``Not Supported`` or ``Challenging to
            determine``, or a list with one label per annotator.
        fine: Empty field for a fine-grained label, such as ``Contradiction``.
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
    """Return the sentences of an answer, each with up to three sentences that may support it.

    The supporting sentences come from the passages. The rows do not contain citations, because
    annotators compare a sentence with all passages of the question (as in the MEMERAG paper). They
    do not contain the name of the model either.

    Args:
        query: The question with its passages.
        response: The response of a model.
        mark: The function that scores how well a sentence of a passage supports a sentence of the
            answer.

    Raises:
        JudgmentError: If ``mark`` did not return a finite number for each sentence of the passages.
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
            support=_mark_sentences(sentence.text, candidates, code, mark),
            label=None,
            fine=None,
        )
        for number, sentence in enumerate(parsed.sentences, 1)
    )


def _mark_sentences(
    sentence: str, candidates: Sequence[tuple[str, str]], code: str, mark: SupportMarker
) -> tuple[SupportingSentence, ...]:
    scores = [float(score) for score in mark(sentence, [text for _, text in candidates], code)]
    if len(scores) != len(candidates) or not all(map(math.isfinite, scores)):
        raise JudgmentError(
            f"the function 'mark' returned {len(scores)} numbers for the {len(candidates)} "
            f"passage sentences that may support {sentence!r}; it must return one finite number "
            "per passage sentence"
        )
    ranking = sorted(zip(scores, candidates, strict=True), key=lambda pair: -pair[0])
    return tuple(
        SupportingSentence(passage=passage, sentence=text, score=round(score, 3))
        for score, (passage, text) in ranking[:MARKS]
        if score > 0
    )

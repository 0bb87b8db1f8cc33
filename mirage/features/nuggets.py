"""Nugget recall: the share of the facts of a good answer that a response states, judged by an LLM.

The method is that of TREC's RAG track, AutoNuggetizer (Pradeep et al. 2024, arXiv 2411.09607; 2025,
arXiv 2504.15068). For each query, an LLM lists the facts of a good answer, called nuggets. For each
answer, it then labels each nugget as supported, partly supported or not supported. The kinds of
nuggets, the labels and the scores are those of the track. The wording of the prompts is our own.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from mirage.errors import FeatureError, UnknownNameError
from mirage.features.base import Answered, Definition, Facts, NotComputed
from mirage.features.overlap import reference_answer
from mirage.features.rated import missing_value
from mirage.languages import Language
from mirage.llm import LLM, as_llm
from mirage.llm.questions import Form, Outcome, Question, ask_all

Importance = Literal["vital", "okay"]

Score = Literal["all", "all_strict", "vital", "vital_strict", "weighted", "weighted_strict"]
"""The six scores of TREC's RAG track; see :func:`nugget_recall`."""

Label = Literal["support", "partial_support", "not_support"]
Labels = tuple[Label, ...]

_PRIMARY: Score = "vital_strict"
_MOST_NUGGETS = 20  # nuggets of a query, as in the track
_PER_CALL = 10  # nuggets that are labelled in one call, as in the track


@dataclass(frozen=True, slots=True)
class Nugget:
    """One fact that a good answer should state.

    Attributes:
        text: The fact.
        importance: ``vital`` if a good answer needs it (the default), ``okay`` if it is useful but
            not needed.

    Example:
        >>> from mirage.features.nuggets import Nugget
        >>> Nugget("The bridge opened in 1932.").importance
        'vital'
    """

    text: str
    importance: Importance = "vital"

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise FeatureError("the text of a nugget is empty; give each nugget a text")
        if self.importance not in get_args(Importance):
            raise FeatureError(
                f"importance of nugget {self.text!r} must be 'vital' or 'okay', got "
                f"{self.importance!r}"
            )


Nuggets = tuple[Nugget, ...]

Source = Nuggets | Question[Nuggets] | NotComputed
"""A query's nuggets, the question that asks an LLM for them, or the reason why there are none."""


def nugget_recall(
    llm: LLM | str,
    score: Score = _PRIMARY,
    *,
    nuggets: Mapping[str, Sequence[Nugget | str]] | None = None,
) -> NuggetRecall:
    """Return the feature that measures the share of a query's nuggets that the answer supports.

    One call lists the nuggets of a query, in the query's language, from the reference's answer and
    the relevant passages. It lists 20 at most, of which at least one is vital. The nuggets are the
    same for every model and are listed only once. Further calls compare ten nuggets at a time with
    the answer, without its reason and citations. They label each nugget as ``support``,
    ``partial_support`` or ``not_support``. The credit ``c`` for these labels is 1, 0.5 and 0 (in
    strict scores 1, 0 and 0). The scores are those of Pradeep et al. 2024 (arXiv 2411.09607,
    section 3.5), from 0 to 1:

    - ``all``, ``all_strict``: the mean of ``c`` over all nuggets.
    - ``vital``, ``vital_strict``: the mean over the vital nuggets. ``vital_strict`` is the default
      and the primary score of TREC's RAG track.
    - ``weighted``, ``weighted_strict``: ``(V + 0.5 O) / (v + 0.5 o)``. ``V`` is the sum of ``c``
      over the ``v`` vital nuggets, and ``O`` is the sum over the ``o`` okay nuggets.

    The feature is named ``nugget_recall`` for the default score, and ``nugget_recall_weighted`` and
    so on for the others. With a cache, computing several scores costs no more calls than computing
    ``all``. The track lists nuggets passage by passage and rates their importance in further calls.
    Here one call does both, since a query has few relevant passages.

    An empty answer gets 0 without a call. Not computed if no passage answers the query, or if it
    has neither a reference nor a relevant passage with text. Also not computed if a call fails, or
    if none of six outputs ends in a readable list.

    Args:
        llm: The LLM that lists the nuggets and labels them, or its name.
        score: One of the six scores.
        nuggets: Your own nuggets, by query id; a plain text is a vital nugget. By default the LLM
            lists the nuggets. If you pass nuggets, the LLM lists none. The feature is then not
            computed for a query without nuggets, and it is computed for a query with nuggets even
            if no passage answers the query.

    Raises:
        UnknownNameError: There is no such score.
        FeatureError: A query has an empty list of nuggets, or a nugget has no text.
    """
    if score not in get_args(Score):
        raise UnknownNameError("nugget score", score, get_args(Score))
    user_nuggets = (
        None if nuggets is None else {id_: _check_nuggets(id_, nuggets[id_]) for id_ in nuggets}
    )
    return NuggetRecall(_name(score), as_llm(llm), score, user_nuggets)


def _name(score: Score) -> str:
    return "nugget_recall" if score == _PRIMARY else f"nugget_recall_{score}"


def _check_nuggets(query_id: str, nuggets: Sequence[Nugget | str]) -> Nuggets:
    """Check the user's nuggets of a query, and return them with the vital ones first."""
    texts = [n for n in nuggets if not isinstance(n, Nugget)]
    blank = any(not isinstance(text, str) or not text.strip() for text in texts)
    if isinstance(nuggets, str) or not nuggets or blank:
        raise FeatureError(
            f"the nuggets of query {query_id!r} must be a list of one or more texts or Nuggets, "
            f"got {nuggets!r}; if the query has none, leave it out"
        )
    return _vital_first(n if isinstance(n, Nugget) else Nugget(n) for n in nuggets)


@dataclass(frozen=True, slots=True, repr=False)
class NuggetRecall:
    """A feature that measures the share of nuggets (facts of a good answer) that an answer states.

    :func:`nugget_recall` creates such features.

    The responses of a batch are rated concurrently, in one process (``n_jobs=1``).

    Attributes:
        name: The name of the feature.
        llm: LLM that lists the nuggets and labels them.
        score: One of the six scores.
        nuggets: The user's nuggets by query id; ``None`` if the LLM lists them.
    """

    name: str
    llm: LLM
    score: Score
    nuggets: Mapping[str, Nuggets] | None = None
    _listed: dict[bytes, Nuggets] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        return self.name

    def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
        """Return the recall of nuggets for each answered query.

        If a call to the LLM fails, only the query of this call has no value.
        """
        sources = [self._source(item) for item in batch]
        answering = zip(batch, sources, strict=True)
        # An empty answer gets 0 with any nuggets, so none have to be listed for it.
        failed = self._list_new(source for item, source in answering if not _is_empty(item))
        entries = [
            self._entry(item, failed.get(source, source))
            for item, source in zip(batch, sources, strict=True)
        ]
        questions = [p.question for parts in entries if isinstance(parts, list) for p in parts]
        outcomes = iter(ask_all(self.llm, questions, progress=False))
        return [
            self._recall(entry, outcomes) if isinstance(entry, list) else entry for entry in entries
        ]

    def _source(self, item: Answered) -> Source:
        """Return the user's nuggets of a query, or a question that asks the LLM to list nuggets.

        If the feature cannot be computed for the query, return the reason.
        """
        if self.nuggets is None:
            return _listing_question(item)
        nuggets = self.nuggets.get(item.query.id)
        if nuggets is None:
            return NotComputed("no nuggets were given for this query")
        if not any(map(self._weight, nuggets)):
            return NotComputed("none of the nuggets given for this query is vital")
        return nuggets

    def _list_new(self, sources: Iterable[Source]) -> dict[Source, NotComputed]:
        """Ask the LLM to list the nuggets that it has not listed yet, and store them.

        Return the reason for each question to which the LLM returned no readable list.
        """
        failed: dict[Source, NotComputed] = {}
        questions = dict.fromkeys(source for source in sources if isinstance(source, Question))
        new = [question for question in questions if self._key(question) not in self._listed]
        for question, outcome in zip(new, ask_all(self.llm, new, progress=False), strict=True):
            if outcome.value is None:
                failed[question] = missing_value(self.llm, outcome, f"no {question.form.sought}")
            else:
                self._listed[self._key(question)] = outcome.value
        return failed

    def _key(self, question: Question[Nuggets]) -> bytes:
        return self.llm.digest(question.messages)  # prompts are too long to keep as keys

    def _entry(self, item: Answered, source: Source) -> list[_Part] | float | NotComputed:
        """Return the nuggets to label, ten for each call, or 0 for an empty answer.

        If the feature cannot be computed, return the reason.
        """
        if isinstance(source, NotComputed):
            return source
        if _is_empty(item):
            return 0.0
        nuggets = self._listed[self._key(source)] if isinstance(source, Question) else source
        parts = []
        for start in range(0, len(nuggets), _PER_CALL):
            some = nuggets[start : start + _PER_CALL]
            weights = [self._weight(nugget) for nugget in some]
            if any(weights):  # else all are okay nuggets and the score counts only vital ones
                parts.append(_Part(weights, _assigning_question(item, some)))
        return parts

    def _recall(
        self, parts: Sequence[_Part], outcomes: Iterator[Outcome[Labels]]
    ) -> float | NotComputed:
        """Compute an answer's recall from the labels that the LLM gave to the nuggets.

        The labels of each part are taken from the iterator ``outcomes``. If a call failed, return
        the reason.
        """
        credit = total = 0.0
        missing: list[NotComputed] = []
        for (weights, question), outcome in zip(parts, outcomes, strict=False):
            if outcome.value is None:
                missing.append(missing_value(self.llm, outcome, f"no {question.form.sought}"))
                continue
            pairs = zip(weights, outcome.value, strict=True)
            credit += sum(weight * self._credit(label) for weight, label in pairs)
            total += sum(weights)
        return missing[0] if missing else credit / total

    def _weight(self, nugget: Nugget) -> float:
        """Return the weight (1, 0.5 or 0) that :attr:`score` gives to this nugget."""
        if nugget.importance == "vital" or self.score.startswith("all"):
            return 1.0
        return 0.5 if self.score.startswith("weighted") else 0.0

    def _credit(self, label: Label) -> float:
        """Return the credit that :attr:`score` gives for a label: 1, 0.5 or 0."""
        partial = 0.0 if self.score.endswith("strict") else 0.5
        return {"support": 1.0, "partial_support": partial, "not_support": 0.0}[label]


class _Part(NamedTuple):
    """The nuggets that one call labels: their weights, and the question to the LLM."""

    weights: list[float]
    question: Question[Labels]


def _is_empty(item: Answered) -> bool:
    return not item.parsed.answer_text.strip()


# Questions ----------------------------------------------------------------------------------------

_LISTING = """\
You write down what a good answer to a question says, as a list of nuggets. A nugget is one fact \
that can be understood by itself, so that of any answer one can tell whether it states it.

Rules:
- Take nuggets from the material only, and only those that help to answer the question.
- One fact a nugget, in some three to twelve words; make two nuggets of two facts, and none of a \
fact that another nugget holds.
- Write them in {language}, the language of the question.
- Call a nugget vital if an answer without it is no good answer, and okay if it is worth saying \
but can be left out. At least one is vital.
- Begin with the most important, and give {most} at most."""

_NO_FACTS = NotComputed("no passage answers the query, so there are no nuggets")
_NO_SOURCE = NotComputed(
    "the query has neither a reference nor a relevant passage with a text, so nuggets cannot be "
    "listed"
)


def _listing_question(item: Answered) -> Question[Nuggets] | NotComputed:
    """Return the question that asks the LLM to list a query's nuggets.

    The question does not depend on the response, so that all models are rated by the same nuggets.
    If nuggets cannot be listed for the query, return the reason.
    """
    query = item.query
    if query.answerable is False:
        return _NO_FACTS
    reference = reference_answer(item)
    texts = [] if isinstance(reference, NotComputed) else [("reference", reference)]
    relevant = (passage for passage in query.passages if passage.id in query.relevant)
    texts += [("passage", passage.titled_text) for passage in relevant]
    if not texts:
        return _NO_SOURCE
    task = _LISTING.format(language=Language.of(query.language).name, most=_MOST_NUGGETS)
    return Question(task, "List nuggets", _LISTING_FORM, (("question", query.text), *texts))


_ASSIGNING = """\
You check which facts an answer to a question states. The facts are the nuggets below. Give each \
of them one label:
support: the answer states all of the nugget.
partial_support: the answer states a part of the nugget, and leaves the rest out.
not_support: the answer does not state the nugget, or says otherwise.

Compare what is meant, not the words: another language or order makes no difference. Go by what \
the answer says; whether it is true plays no part."""


def _assigning_question(item: Answered, nuggets: Nuggets) -> Question[Labels]:
    material = (
        ("question", item.query.text),
        *((f"nugget-{n}", nugget.text) for n, nugget in enumerate(nuggets, 1)),
        ("answer", item.parsed.answer_text),
    )
    form = _assigning_form(len(nuggets))
    return Question(_ASSIGNING, "Label the nuggets", form, material)


# Parsing ------------------------------------------------------------------------------------------

_IMPORTANCES: Mapping[str, Importance] = {"vital": "vital", "okay": "okay", "ok": "okay"}
_LABEL = r"(?:(partial(?:ly)?|not?)[\s_-])?support(?:ed)?\b"
_QUOTES = "\"'“”‘’`"

# Lines such as "- **vital**: a fact", "2. [okay] a fact", "nugget-3: not_support".
_BULLET = r"[^\S\n]*+(?:[-*•+][^\S\n]++)?+[*_]*+"
_NUMBER = rf"{_BULLET}(?:nugget[ -]?)?\(?(?P<number>[0-9]{{1,3}})[*_]*+[.:)][*_]*+[^\S\n]*+"
_KIND = r"(?:vital|okay|ok)"
_MARKED_KIND = (
    rf"[*_]*+(?:[\[(]{_KIND}[\])][*_]*+(?:\s*+[:–—|-])?+"
    rf"|{_KIND}[*_]*+(?:\s*+[:|]|\s++[–—-]\s))[\s*_]*+"
)
_MARKED_LABEL = rf"[*_{_QUOTES}]*+(?P<label>{_LABEL})"

_OBJECT = r"\{(?:[^{}\[\]\"]|\"(?:[^\"\\]|\\.)*+\")*+\}"  # without nested objects and lists
_NUGGET_LIST = re.compile(rf"\[\s*+{_OBJECT}(?:\s*+,\s*+{_OBJECT})*+\s*+\]\Z")
_LIST_OF_OBJECTS = re.compile(r"\[(?=\s*+\{)")
# Maximum number of positions at which the start of a list is tried, counted from the end of the
# text. Each try may read the text to its end, so without a limit a hostile text takes quadratic
# time.
_TRIES = 50
_NUGGET_LINE = re.compile(
    rf"(?:{_NUMBER}|{_BULLET})(?P<kind>{_MARKED_KIND})(?P<fact>\S.*)", re.IGNORECASE
)
_LABEL_LINE = re.compile(rf"{_NUMBER}{_MARKED_LABEL}[*_{_QUOTES}.]*+", re.IGNORECASE)
_LABEL_LIST = re.compile(r"\[([^\[\]]*)\]\Z")

_OPENED_LIST = re.compile(rf"\[(?=\s*\{{|[\s{_QUOTES}]*{_LABEL})", re.IGNORECASE)
_OPENED_LINE = re.compile(
    rf"^({_NUMBER}(?={_MARKED_LABEL}[*_{_QUOTES}.}}\s]*$|{_MARKED_KIND})|{_BULLET}(?={_MARKED_KIND}))",
    re.IGNORECASE | re.MULTILINE,
)


# Texts in a prompt that look like a list are altered, so that they are not read as the output.
LISTS = ((_OPENED_LIST, "("), (_OPENED_LINE, r"\1= "))


def _without_end(text: str) -> str:
    """Return a text without the characters after a final list, such as the end of a code block."""
    return text.rstrip(" \t\r\n`}")


def read_nuggets(text: str) -> Nuggets | None:
    """Return the nuggets in the list at the end of a text, vital ones first, or ``None``.

    The result is ``None`` if there is no readable list, or no nugget in it is vital. The list is a
    JSON list, in a code block or not, or lines such as ``- [vital] a fact`` and ``vital: a fact``.
    An object of a JSON list has two texts, one of which is ``vital`` or ``okay``. Duplicates and
    nuggets after the twentieth are dropped.
    """
    text = _without_end(text)
    distinct: dict[str, Nugget] = {}
    for nugget in _parse_json_nuggets(text) or _parse_nugget_lines(text):
        distinct.setdefault(nugget.text.casefold(), nugget)
    nuggets = _vital_first(distinct.values())[:_MOST_NUGGETS]
    return nuggets if nuggets and nuggets[0].importance == "vital" else None


def _vital_first(nuggets: Iterable[Nugget]) -> Nuggets:
    # The sort is stable, so nuggets of the same importance keep their order.
    return tuple(sorted(nuggets, key=lambda nugget: nugget.importance != "vital"))


def _parse_json_nuggets(text: str) -> list[Nugget]:
    match = _last_list(text)
    try:
        entries = json.loads(match[0]) if match else []
    except ValueError:
        return []
    nuggets = [nugget for entry in entries if (nugget := _parse_nugget(entry)) is not None]
    return nuggets if len(nuggets) == len(entries) else []


def _last_list(text: str) -> re.Match[str] | None:
    """Return the match of the list of JSON objects at the end of a text, or ``None``.

    Several positions are tried, because a bracket within a fact may look like the start of a list.
    """
    starts = deque((match.start() for match in _LIST_OF_OBJECTS.finditer(text)), _TRIES)
    lists = (_NUGGET_LIST.match(text, start) for start in starts)
    return next((match for match in lists if match is not None), None)


def _parse_nugget(entry: Mapping[str, Any]) -> Nugget | None:
    """Parse a nugget; return ``None`` if it does not have exactly one fact and one importance."""
    texts = [" ".join(value.split()) for value in entry.values() if isinstance(value, str)]
    facts = [text for text in texts if text.casefold() not in _IMPORTANCES]
    kinds = [_IMPORTANCES[text.casefold()] for text in texts if text not in facts]
    return Nugget(facts[0], kinds[0]) if len(facts) == len(kinds) == 1 and facts[0] else None


def _parse_nugget_lines(text: str) -> list[Nugget]:
    nuggets: list[Nugget] = []
    for line in reversed([line for line in text.split("\n") if line.strip()]):
        match = _NUGGET_LINE.fullmatch(line.strip())
        fact = " ".join(match["fact"].split()).strip("*_ ") if match else ""
        if match is None or not fact:
            break
        nuggets.append(Nugget(fact, "vital" if "vital" in match["kind"].casefold() else "okay"))
    return nuggets[::-1]


def read_labels(text: str, count: int) -> Labels | None:
    """Return the ``count`` labels in the list at the end of a text, or ``None``.

    The result is ``None`` if there is no such list. The list is in brackets, with or without
    quotes, in a code block or not. It may also be lines that are numbered from 1, such as
    ``1. support``. Variants such as ``supported``, ``Partially supported`` and ``no support`` are
    accepted.

    Args:
        text: The output of the LLM.
        count: Number of labels that the list must have.
    """
    text = _without_end(text)
    match = _LABEL_LIST.search(text)
    if match is not None:
        labels = [_parse_label(item.strip().strip(_QUOTES)) for item in match[1].split(",")]
    else:
        last = [line for line in text.split("\n") if line.strip()][-count:]
        labels = [_parse_label_line(line, n) for n, line in enumerate(last, 1)]
    readable = tuple(label for label in labels if label is not None)
    return readable if len(readable) == len(labels) == count else None


def _parse_label(text: str) -> Label | None:
    match = re.fullmatch(_LABEL, text, re.IGNORECASE)
    if match is None:
        return None
    if match[1] is None:
        return "support"
    return "partial_support" if match[1].casefold().startswith("partial") else "not_support"


def _parse_label_line(line: str, number: int) -> Label | None:
    match = _LABEL_LINE.fullmatch(line.strip())
    if match is None or int(match["number"]) != number:
        return None
    return _parse_label(match["label"])


# Forms --------------------------------------------------------------------------------------------

_LISTING_FORM = Form(
    text="Output a JSON list and nothing else, with an object for each nugget: "
    '[{"nugget": "a fact", "importance": "vital"}, {"nugget": "a fact", "importance": "okay"}]',
    reminder="Your output has to be a JSON list and nothing else, of objects that have a nugget "
    "and its importance, vital or okay. At least one nugget is vital.",
    read=read_nuggets,
    sought="list of nuggets with a vital one",
    breaks=LISTS,
)


def _assigning_form(count: int) -> Form[Labels]:
    return Form(
        text=f"Output a JSON list of {count} labels and nothing else, one for each nugget in their "
        'order, such as ["support", "not_support", "partial_support"]',
        reminder="Your output has to be a JSON list and nothing else, with one label for each "
        "nugget in their order: support, partial_support or not_support.",
        read=lambda text: read_labels(text, count),
        sought=f"list of {count} labels",
        breaks=LISTS,
    )


_FACTS = Facts("higher", 0, 1, ("reference or relevant passages", "LLM"))

DEFINITIONS = tuple(Definition(_name(score), nugget_recall, _FACTS) for score in get_args(Score))

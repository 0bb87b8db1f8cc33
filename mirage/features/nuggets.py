"""Nugget recall: how many of the facts that a good answer holds an LLM finds in an answer.

The method of TREC's RAG track, AutoNuggetizer (Pradeep et al. 2024, arXiv 2411.09607; 2025, arXiv
2504.15068): an LLM lists a query's facts, its nuggets, once, and then assigns to each nugget how
far an answer supports it. The kinds, labels and scores are the track's; the wording is our own.
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
from mirage.features.rated import unanswered
from mirage.languages import Language
from mirage.llm import LLM
from mirage.llm.questions import Form, Outcome, Question, ask_all

__all__ = ["Nugget", "NuggetRecall", "Score", "nugget_recall"]

Importance = Literal["vital", "okay"]

Score = Literal["all", "all_strict", "vital", "vital_strict", "weighted", "weighted_strict"]
"""The track's six scores; see :func:`nugget_recall`."""

Label = Literal["support", "partial_support", "not_support"]
Labels = tuple[Label, ...]

_PRIMARY: Score = "vital_strict"
_MOST = 20  # nuggets of a query, as in the track
_TOGETHER = 10  # nuggets that are assigned in one call, as in the track


@dataclass(frozen=True, slots=True)
class Nugget:
    """One fact, which is ``vital`` to a good answer, or ``okay``: worth saying, but not needed.

    Raises:
        FeatureError: the text is empty, or the importance another word.
    """

    text: str
    importance: Importance = "vital"

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise FeatureError("a nugget needs a text")
        if self.importance not in get_args(Importance):
            raise FeatureError(
                f"nugget {self.text!r} has importance {self.importance!r}; it is 'vital' or 'okay'"
            )


Nuggets = tuple[Nugget, ...]

Source = Nuggets | Question[Nuggets] | NotComputed
"""A query's nuggets, or the question that lists them, or why there are none."""


def nugget_recall(
    llm: LLM,
    score: Score = _PRIMARY,
    *,
    nuggets: Mapping[str, Sequence[Nugget | str]] | None = None,
) -> NuggetRecall:
    """The share of a query's nuggets that the answer supports, from 0 to 1.

    A query's nuggets are listed in one call, from the reference's answer and the relevant
    passages among those of the query, in the query's language: 20 at most, at least one of them
    vital. They are the same for every model, and listed once for all of them. Then ten at a time
    are labelled ``support``, ``partial_support`` or ``not_support``, by the answer without its
    reason and citations. With ``c`` = 1, 0.5 and 0 for these labels (strict: 1, 0, 0), the scores
    are those of Pradeep et al. 2024 (arXiv 2411.09607, section 3.5):

    - ``all``, ``all_strict``: the mean of ``c`` over all nuggets;
    - ``vital``, ``vital_strict``: the mean over the vital nuggets; strict, it is the track's
      primary score, and the one by default;
    - ``weighted``, ``weighted_strict``: ``(V + 0.5 O) / (v + 0.5 o)``, with ``V`` and ``O`` the
      sums of ``c`` over the ``v`` vital and the ``o`` okay nuggets.

    The feature is named ``nugget_recall`` by default, and ``nugget_recall_weighted`` and the like
    for other scores; with a cache, several of them cost no more calls than one that counts all.
    The track lists nuggets passage after passage and weighs them in further calls; here one call
    does both, for a query has few relevant passages.

    An empty answer has 0, without a call. Not computed where no passage answers the query, where
    it has neither a reference nor the text of a relevant passage, where a call fails, and where
    six answers of the LLM hold no list that can be read.

    Args:
        llm: lists the nuggets, and labels them.
        score: which of the six.
        nuggets: your own, by query id; a plain text is a vital nugget. None are listed then, a
            query without an entry has no value, and one with an entry has it also where no
            passage answers it.

    Raises:
        UnknownNameError: there is no such score.
        FeatureError: a query is given an empty list, or a nugget without a text.
    """
    if score not in get_args(Score):
        raise UnknownNameError("nugget score", score, get_args(Score))
    own = None if nuggets is None else {id_: _own(id_, nuggets[id_]) for id_ in nuggets}
    return NuggetRecall(_name(score), llm, score, own)


def _name(score: Score) -> str:
    return "nugget_recall" if score == _PRIMARY else f"nugget_recall_{score}"


def _own(query_id: str, nuggets: Sequence[Nugget | str]) -> Nuggets:
    texts = [n for n in nuggets if not isinstance(n, Nugget)]
    blank = any(not isinstance(text, str) or not text.strip() for text in texts)
    if isinstance(nuggets, str) or not nuggets or blank:
        raise FeatureError(
            f"the nuggets of query {query_id!r} are {nuggets!r}; give a list of one or more texts "
            "or Nuggets, or leave the query out"
        )
    return _vital_first(n if isinstance(n, Nugget) else Nugget(n) for n in nuggets)


@dataclass(frozen=True, slots=True, repr=False)
class NuggetRecall:
    """The share of nuggets that an answer supports; made by :func:`nugget_recall`.

    The responses of a batch are rated concurrently, in one process (``n_jobs=1``).
    """

    name: str
    llm: LLM
    score: Score
    nuggets: Mapping[str, Nuggets] | None = None
    _listed: dict[bytes, Nuggets] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        return self.name

    def compute(self, batch: Sequence[Answered]) -> list[float | NotComputed]:
        """A recall for each answered query; a call that fails leaves the others.

        Raises:
            LLMError: there is no key for OpenAI.
        """
        sources = [self._source(item) for item in batch]
        answering = zip(batch, sources, strict=True)
        # An answer without a text is 0, whatever the nuggets are.
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
        if self.nuggets is None:
            return _listing_question(item)
        nuggets = self.nuggets.get(item.query.id)
        if nuggets is None:
            return NotComputed("no nuggets were given for this query")
        if not any(map(self._weight, nuggets)):
            return NotComputed("none of the nuggets given for this query is vital")
        return nuggets

    def _list_new(self, sources: Iterable[Source]) -> dict[Source, NotComputed]:
        """List the nuggets by each question that is new, once; why those have none that failed."""
        failed: dict[Source, NotComputed] = {}
        questions = dict.fromkeys(source for source in sources if isinstance(source, Question))
        new = [question for question in questions if self._key(question) not in self._listed]
        for question, outcome in zip(new, ask_all(self.llm, new, progress=False), strict=True):
            if outcome.value is None:
                failed[question] = unanswered(self.llm, outcome, f"no {question.form.sought}")
            else:
                self._listed[self._key(question)] = outcome.value
        return failed

    def _key(self, question: Question[Nuggets]) -> bytes:
        return self.llm.digest(question.messages)  # prompts are long

    def _entry(self, item: Answered, source: Source) -> list[_Part] | float | NotComputed:
        """The value, where it is known; otherwise what has to be labelled for it."""
        if isinstance(source, NotComputed):
            return source
        if _is_empty(item):
            return 0.0
        nuggets = self._listed[self._key(source)] if isinstance(source, Question) else source
        parts = []
        for start in range(0, len(nuggets), _TOGETHER):
            some = nuggets[start : start + _TOGETHER]
            weights = [self._weight(nugget) for nugget in some]
            if any(weights):  # else okay nuggets, of which the score counts none
                parts.append(_Part(weights, _assigning_question(item, some)))
        return parts

    def _recall(
        self, parts: Sequence[_Part], outcomes: Iterator[Outcome[Labels]]
    ) -> float | NotComputed:
        """The recall by the outcomes of these parts, which come next."""
        credit = total = 0.0
        missing: list[NotComputed] = []
        for (weights, question), outcome in zip(parts, outcomes, strict=False):
            if outcome.value is None:
                missing.append(unanswered(self.llm, outcome, f"no {question.form.sought}"))
                continue
            pairs = zip(weights, outcome.value, strict=True)
            credit += sum(weight * self._credit(label) for weight, label in pairs)
            total += sum(weights)
        return missing[0] if missing else credit / total

    def _weight(self, nugget: Nugget) -> float:
        if nugget.importance == "vital" or self.score.startswith("all"):
            return 1.0
        return 0.5 if self.score.startswith("weighted") else 0.0

    def _credit(self, label: Label) -> float:
        partial = 0.0 if self.score.endswith("strict") else 0.5
        return {"support": 1.0, "partial_support": partial, "not_support": 0.0}[label]


class _Part(NamedTuple):
    """Nuggets that are labelled in one call: what each of them weighs, and the question."""

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

_NO_FACTS = NotComputed("no passage answers the query, so that there are no nuggets to look for")
_NO_SOURCE = NotComputed(
    "the query has neither a reference nor a relevant passage with a text, from which to list "
    "nuggets"
)


def _listing_question(item: Answered) -> Question[Nuggets] | NotComputed:
    """Depends on the query alone, so that all models share the answer to it."""
    query = item.query
    if query.answerable is False:
        return _NO_FACTS
    reference = reference_answer(item)
    texts = [] if isinstance(reference, NotComputed) else [("reference", reference)]
    relevant = (passage for passage in query.passages if passage.id in query.relevant)
    texts += [("passage", passage.titled_text) for passage in relevant]
    if not texts:
        return _NO_SOURCE
    task = _LISTING.format(language=Language.of(query.language).name, most=_MOST)
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


# Reading ------------------------------------------------------------------------------------------

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

_OBJECT = r"\{(?:[^{}\[\]\"]|\"(?:[^\"\\]|\\.)*+\")*+\}"  # with no other and no list in it
_NUGGET_LIST = re.compile(rf"\[\s*+{_OBJECT}(?:\s*+,\s*+{_OBJECT})*+\s*+\]\Z")
_LIST_OF_OBJECTS = re.compile(r"\[(?=\s*+\{)")
_TRIES = 50  # places where a list may begin, from the end on: each may be read to the end
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


LISTS = ((_OPENED_LIST, "("), (_OPENED_LINE, r"\1= "))  # nothing quoted reads as a list of ours


def _without_end(text: str) -> str:
    """A text without what may close around its list: a code block, an object."""
    return text.rstrip(" \t\r\n`}")


def read_nuggets(text: str) -> Nuggets | None:
    """The nuggets in the list that ends a text, the vital first; ``None`` where there is none.

    A JSON list, in a code block or not, or lines such as ``- [vital] a fact`` and ``vital: a
    fact``. An object of the list holds two texts, one of which is ``vital`` or ``okay``. At least
    one nugget is vital. Of two that say the same the second is left out, and so are those after
    the twentieth.
    """
    text = _without_end(text)
    distinct: dict[str, Nugget] = {}
    for nugget in _nuggets_of_json(text) or _nuggets_of_lines(text):
        distinct.setdefault(nugget.text.casefold(), nugget)
    nuggets = _vital_first(distinct.values())[:_MOST]
    return nuggets if nuggets and nuggets[0].importance == "vital" else None


def _vital_first(nuggets: Iterable[Nugget]) -> Nuggets:
    return tuple(sorted(nuggets, key=lambda nugget: nugget.importance != "vital"))


def _nuggets_of_json(text: str) -> list[Nugget]:
    match = _last_list(text)
    try:
        entries = json.loads(match[0]) if match else []
    except ValueError:
        return []
    nuggets = [nugget for entry in entries if (nugget := _nugget_of(entry)) is not None]
    return nuggets if len(nuggets) == len(entries) else []


def _last_list(text: str) -> re.Match[str] | None:
    """The list of objects that ends a text; within it, only a text may look like another."""
    starts = deque((match.start() for match in _LIST_OF_OBJECTS.finditer(text)), _TRIES)
    lists = (_NUGGET_LIST.match(text, start) for start in starts)
    return next((match for match in lists if match is not None), None)


def _nugget_of(entry: Mapping[str, Any]) -> Nugget | None:
    texts = [" ".join(value.split()) for value in entry.values() if isinstance(value, str)]
    facts = [text for text in texts if text.casefold() not in _IMPORTANCES]
    kinds = [_IMPORTANCES[text.casefold()] for text in texts if text not in facts]
    return Nugget(facts[0], kinds[0]) if len(facts) == len(kinds) == 1 and facts[0] else None


def _nuggets_of_lines(text: str) -> list[Nugget]:
    nuggets: list[Nugget] = []
    for line in reversed([line for line in text.split("\n") if line.strip()]):
        match = _NUGGET_LINE.fullmatch(line.strip())
        fact = " ".join(match["fact"].split()).strip("*_ ") if match else ""
        if match is None or not fact:
            break
        nuggets.append(Nugget(fact, "vital" if "vital" in match["kind"].casefold() else "okay"))
    return nuggets[::-1]


def read_labels(text: str, count: int) -> Labels | None:
    """The ``count`` labels in the list that ends a text; ``None`` where there is none.

    In brackets, with quotes or without, in a code block or not; or lines that are numbered from 1,
    such as ``1. support``. Also ``supported``, ``Partially supported``, ``no support``.
    """
    text = _without_end(text)
    match = _LABEL_LIST.search(text)
    if match is not None:
        labels = [_label(item.strip().strip(_QUOTES)) for item in match[1].split(",")]
    else:
        last = [line for line in text.split("\n") if line.strip()][-count:]
        labels = [_label_of_line(line, n) for n, line in enumerate(last, 1)]
    readable = tuple(label for label in labels if label is not None)
    return readable if len(readable) == len(labels) == count else None


def _label(text: str) -> Label | None:
    match = re.fullmatch(_LABEL, text, re.IGNORECASE)
    if match is None:
        return None
    if match[1] is None:
        return "support"
    return "partial_support" if match[1].casefold().startswith("partial") else "not_support"


def _label_of_line(line: str, number: int) -> Label | None:
    match = _LABEL_LINE.fullmatch(line.strip())
    if match is None or int(match["number"]) != number:
        return None
    return _label(match["label"])


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

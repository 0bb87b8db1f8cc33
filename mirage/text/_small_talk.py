"""Whether a sentence asserts anything, or only speaks of the conversation.

"Great question!", "I hope this helps" and "— Ticket #48213" assert nothing of the world. No list of
phrases holds all of these, so a sentence is weighed word by word: words of talk (greetings, thanks,
questions and answers, documents; in ``data/small_talk.json`` and in the phrases that ship with
mirage), function words, and all others. A sentence is small talk if it has no number and no name,
shares no other word with the question or the passages, and words of talk prevail in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Any, NamedTuple

from mirage.languages import LANGUAGES, Language
from mirage.text.abstentions import ABSTAINS_AT, SIGNS, abstains, signs
from mirage.text.lexicon import lexicon
from mirage.text.mentions import bare, stem
from mirage.text.tokens import tokenize
from mirage.text.words import IN_WORD, WORD

__all__ = [
    "Context",
    "attributions",
    "has_number",
    "is_heading",
    "is_small_talk",
    "is_ticket",
    "opens_sources",
    "salutation",
    "sign_off",
]

DOUBTS = 3
"""Words of talk that a sentence needs in which something is called wrong, to be small talk."""

TALK_FOR_REST = 3
"""Words of talk for each other word in a sentence of small talk: "the answer is Nile" is none."""

MORE_TALK = 4
"""Words of talk for each other word that a passage holds too, at least."""

SHORTEST_STEM = 4
ENDING = 3
RUN = {"Thai": 5}
"""Characters of a run that a passage has to hold, by script; 2 in the others without spaces."""


class Context(NamedTuple):
    """The question and the passages of a response, to tell claims from small talk."""

    language: Language
    question: str
    passages: tuple[str, ...]


class Vocabulary(NamedTuple):
    """The words of talk of one language, folded like the words of a text."""

    entry: Language
    words: frozenset[str]
    beginnings: tuple[str, ...]
    endings: tuple[str, ...]
    strings: re.Pattern[str]  # for scripts without spaces
    function_words: frozenset[str]
    greetings: tuple[str, ...]
    sign_offs: tuple[str, ...]
    sources: tuple[str, ...]
    hesitation: tuple[str, ...]
    affirmations: tuple[str, ...]
    doubts: tuple[str, ...]
    verdicts: frozenset[str]


class _Weight(NamedTuple):
    talk: tuple[str, ...]
    rest: tuple[str, ...]


# Words --------------------------------------------------------------------------------------------


@cache
def _data() -> Mapping[str, Mapping[str, list[str]]]:
    source = resources.files("mirage") / "data" / "small_talk.json"
    data: Mapping[str, Mapping[str, list[str]]] = json.loads(source.read_text(encoding="utf-8"))
    return data


@cache
def _shipped_phrases(code: str) -> Mapping[str, list[str]]:
    """The phrases around an answer that ship with mirage, by kind; none for some languages."""
    source = resources.files("mirage") / "data" / "phrases" / f"{code}.json"
    if not source.is_file():
        return {}
    phrases: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    manners: Mapping[str, list[str]] = phrases.get("manners", {})
    return manners


@cache
def attributions(code: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Templates with ``{n}`` that attribute what follows to a passage; and words for passages."""
    entry = Language.of(code)
    templates = tuple(_shipped_phrases(code).get("attributions", ()))
    beside = (m[1] or m[2] for t in templates for m in _BESIDE.finditer(t))
    names = (*LANGUAGES["en"].passage_words, *entry.passage_words, *beside)
    return templates, tuple(dict.fromkeys(name for name in names if len(name) > 1))


_BESIDE = re.compile(r"([^\W\d_]+)[ \[]{0,2}\{n\}|\{n\}\]? ?([^\W\d_]+)")


@cache
def vocabulary(code: str) -> Vocabulary:
    """The vocabulary of a language.

    Raises:
        UnknownNameError: no such language.
    """
    entry, data, shipped = Language.of(code), _data()[code], _shipped_phrases(code)
    known = lexicon(entry.code)
    spaced = entry.tokens == "word"
    function_words = frozenset(t for word in known.function_words for t in _tokens(word, entry))
    talk = [*data["talk"], *data["greeting"], *data["sign_off"], *data["sources"]]
    words, beginnings, endings = set[str](), set[str](), set[str]()
    for word in talk if spaced else ():
        group = beginnings if word.endswith("*") else endings if word.startswith("*") else words
        for token in _tokens(word, entry):
            group.add(token) if token not in function_words else None
    for text in _phrases(shipped) if spaced else ():
        words.update(t for t in _tokens(text, entry) if t not in function_words)
    strings = sorted({_folded(word.strip("*")) for word in talk}, key=len, reverse=True)
    greetings, sign_offs, sources, hesitation, affirmations = (
        tuple(_folded(word.strip("*")) for word in (*data[name], *shipped.get(name, ())))
        for name in ("greeting", "sign_off", "sources", "hesitation", "affirmation")
    )
    return Vocabulary(
        entry=entry,
        words=frozenset(words),
        beginnings=tuple(beginnings),
        endings=tuple(endings),
        strings=re.compile("|".join(map(re.escape, strings)) or "(?!)"),
        function_words=(
            function_words if spaced else frozenset(map(_folded, known.function_words))
        ),
        greetings=greetings,
        sign_offs=sign_offs,
        sources=sources,
        hesitation=hesitation,
        affirmations=affirmations,
        doubts=_doubts(entry),
        verdicts=frozenset(
            t for word in (*known.yes, *known.no) if " " not in word for t in _tokens(word, entry)
        ),
    )


def _phrases(shipped: Mapping[str, list[str]]) -> Iterator[str]:
    for kind in ("openers", "closers", "headings", "disclaimers", "signatures", "labels"):
        yield from shipped.get(kind, ())


@cache
def _doubts(entry: Language) -> tuple[str, ...]:
    """Words of doubt, without the asterisks that stand for endings: wrong, possible."""
    source = resources.files("mirage") / "data" / "lexicon" / f"{entry.code}.json"
    known = json.loads(source.read_text(encoding="utf-8"))
    words = (*known.get("falsity", ()), *known.get("alternative", ()))
    folded = {_folded(word.strip("*")) for word in words if "..." not in word}
    return tuple(word for word in folded if len(word) >= (5 if entry.script == "Latin" else 2))


def _folded(text: str) -> str:
    return " ".join(bare(text.casefold()).strip(" :：.!").split())


@lru_cache(maxsize=65536)
def _tokens(text: str, entry: Language) -> tuple[str, ...]:
    return tuple(filter(None, (stem(token, entry) for token in tokenize(text, entry))))


def _weigh(text: str, words: Vocabulary) -> _Weight:
    if words.entry.tokens == "character":
        return _weigh_characters(text, words)
    talk: list[str] = []
    rest: list[str] = []
    for token in _tokens(text, words.entry):
        if token in words.function_words:
            continue
        is_talk = (
            token in words.words
            or token.startswith(words.beginnings)
            or token.endswith(words.endings)
        )
        (talk if is_talk else rest).append(token)
    return _Weight(tuple(talk), tuple(rest))


_RUNS = {
    "Japanese": re.compile("[ァ-ヺー々\u3400-\u9fff]+|[a-z]+"),
    "Han": re.compile("[\u3400-\u9fff]+|[a-z]+"),
    "Thai": re.compile("[\u0e01-\u0e4e]+|[a-z]+"),
}


def _weigh_characters(text: str, words: Vocabulary) -> _Weight:
    folded = _folded(text)
    talk = tuple(m for m in words.strings.findall(folded) if len(m) > 1)
    left = words.strings.sub(" ", folded)
    for word in sorted(words.function_words, key=len, reverse=True):
        left = left.replace(word, " ")
    length = RUN.get(words.entry.script, 2)
    runs = _RUNS[words.entry.script].findall(left)
    rest = [run[i : i + length] for run in runs for i in range(0, len(run), length)]
    return _Weight(talk, tuple(piece for piece in rest if len(piece) > 1))


# What the question and the passages hold ----------------------------------------------------------


@lru_cache(maxsize=1024)
def _holdings(text: str, entry: Language) -> frozenset[str]:
    """The words of a text and their beginnings, or its runs of characters."""
    if entry.tokens == "character":
        folded, length = _folded(text), RUN.get(entry.script, 2)
        return frozenset(folded[i : i + length] for i in range(len(folded) - length + 1))
    tokens = frozenset(_tokens(text, entry))
    stems = (t[:n] for t in tokens for n in range(max(SHORTEST_STEM, len(t) - ENDING), len(t)))
    return tokens.union(stems)


def _shares(tokens: Iterable[str], texts: Sequence[str], entry: Language) -> int:
    """How many of the words stand in one of the texts, in some form."""
    held = [_holdings(text, entry) for text in texts]
    return sum(any(_is_held(token, one, entry) for one in held) for token in tokens)


def _is_held(token: str, held: frozenset[str], entry: Language) -> bool:
    if token in held:
        return True
    if entry.tokens == "character" or len(token) <= SHORTEST_STEM:
        return False
    return token[: max(SHORTEST_STEM, len(token) - ENDING)] in held


# Judgements ---------------------------------------------------------------------------------------

_TICKET = re.compile(r"[#№]\s?[\w-]*\d[\w-]*|\b[A-Z]{2,}[-_]\d+\b|\bn[°º]\s?\d+|\bv\d+(?:\.\d+)*\b")
_DIGIT = re.compile(r"\d")


def has_number(text: str) -> bool:
    """Whether a text has a number that is not that of a ticket."""
    return bool(_DIGIT.search(_TICKET.sub("", text)))


def is_heading(
    text: str, language: Language, context: Context | None, *, loosely: bool = False
) -> bool:
    """Whether words that stand as a heading or label only name what follows: "Key points".

    Args:
        text: the words.
        language: their language.
        context: the question and the passages, if they are known.
        loosely: whether other words may stand beside those of talk.
    """
    if has_number(text) or not text:
        return not text
    return any(
        _is_label(text, vocabulary(code), context, loosely)
        for code in dict.fromkeys((language.code, "en"))
    ) and not _may_abstain(text, context or Context(language, "", ()))


def _is_label(text: str, words: Vocabulary, context: Context | None, loosely: bool) -> bool:
    weight, folded = _weigh(text, words), _folded(text)
    if not weight.talk or any(word in folded for word in words.doubts):
        return False
    if not weight.rest:
        return True
    if context is None or not loosely or len(weight.rest) > len(weight.talk):
        return False
    return not _shares(weight.rest, (context.question, *context.passages), words.entry)


def announces(text: str, context: Context) -> bool:
    """Whether words before a colon only announce an answer: "Sure, here is what I found:"."""
    if has_number(text):
        return False
    for code in dict.fromkeys((context.language.code, "en")):
        words = vocabulary(code)
        weight = _weigh(text, words)
        if len(weight.rest) <= len(weight.talk) // DOUBTS and _is_talk(
            text, words, context, True, announcing=True
        ):
            return not _may_abstain(text, context)
    return False


def is_small_talk(text: str, context: Context, *, edge: bool = True) -> bool:
    """Whether a sentence asserts nothing of the world; in doubt it does.

    Args:
        text: a sentence without citations.
        context: the question and the passages.
        edge: whether it opens or ends the response, where small talk mostly stands.
    """
    if has_number(text):
        return False
    entry = context.language
    codes = dict.fromkeys((entry.code, "en"))
    return any(
        _is_talk(text, vocabulary(code), context, edge) for code in codes
    ) and not _may_abstain(text, context)


_DENIALS = tuple(SIGNS.index(name) for name in ("any_phrase", "any_negation", "nobody"))
_LACKS = SIGNS.index("any_lacking")


def _may_abstain(text: str, context: Context) -> bool:
    """Whether a sentence denies something and may say that there is no answer."""
    entry = context.language
    folded = _folded(text)
    if any(word in folded for code in (entry.code, "en") for word in vocabulary(code).hesitation):
        return False  # "do not hesitate to ask"
    values = signs(text, entry, question=context.question)
    if any(values[place] for place in _DENIALS):
        return True
    # "Based on the documents only" limits and lacks nothing; trees take it for an abstention.
    return bool(values[_LACKS]) and abstains(text, entry, question=context.question) >= ABSTAINS_AT


def _is_talk(
    text: str, words: Vocabulary, context: Context, edge: bool, *, announcing: bool = False
) -> bool:
    weight = _weigh(text, words)
    talk, rest = len(weight.talk), len(weight.rest)
    most = (talk + _emphasis(text) if edge else talk) // TALK_FOR_REST
    if not talk or rest > most:
        return False
    if not announcing and (_is_verdict(text, words) or _affirms(text, weight, words)):
        return False
    folded = _folded(text)
    if talk < DOUBTS and any(word in folded for word in words.doubts):
        return False
    entry = words.entry
    if _names(text, weight.rest, entry):
        return False
    titles = tuple(passage.partition("\n")[0] for passage in context.passages)
    return not (
        _shares(weight.rest, (context.question, *titles), entry)
        or _shares(weight.rest, context.passages, entry) > talk // MORE_TALK
        or _shares(weight.talk, (context.question,), entry) >= max(2, talk / 2)
    )


def _affirms(text: str, weight: _Weight, words: Vocabulary) -> bool:
    """Whether a short sentence begins with "sure", which may be the answer to yes or no."""
    return len(weight.talk) < DOUBTS and _folded(text).startswith(words.affirmations)


def _emphasis(text: str) -> int:
    """How many more words a question or an exclamation may have."""
    last = text.rstrip(" *_)\"'”»」")[-1:]
    return 2 if last in ("?", "？", "؟") else 1 if last in ("!", "！") else 0


def _is_verdict(text: str, words: Vocabulary) -> bool:
    """Whether a sentence begins with yes or no, which may be the answer."""
    first = WORD.search(text)
    if first is None or words.entry.tokens == "character":
        return False
    tokens = _tokens(first[0], words.entry)
    ends = text[first.end() : first.end() + 1] in ("", ",", ".", "!", "،", "।", ":")
    is_talk = any(t in words.words or t.startswith(words.beginnings) for t in tokens)
    return ends and not is_talk and not words.verdicts.isdisjoint(tokens)


def _names(text: str, rest: Sequence[str], entry: Language) -> bool:
    """Whether a word that is not of talk has a capital within the sentence, as names have."""
    if entry.capitals != "names":
        return False
    matches = list(WORD.finditer(text))[1:]
    return any(
        len(match[0]) > 2
        and match[0][0].isupper()
        and not set(rest).isdisjoint(_tokens(match[0], entry))
        for match in matches
    )


def salutation(text: str, context: Context) -> int:
    """Return the length of the salutation that a line begins with: "Hello Anna,"; 0 for none."""
    return next(
        (
            n
            for code in (context.language.code, "en")
            if (n := _salutation(text, vocabulary(code), context))
        ),
        0,
    )


_SALUTED = re.compile(
    rf"(?:\s+[{IN_WORD}'’.-]+){{0,3}}\s*[,!:،，、：！。.—–-]+(?:\s|(?<=[，、：！。])|\Z)|\s*\Z"
)


def _salutation(text: str, words: Vocabulary, context: Context) -> int:
    head = text[:80]
    for greeting in words.greetings:
        if len(greeting) <= len(head) and bare(head[: len(greeting)].casefold()) == greeting:
            match = _SALUTED.match(head, len(greeting))
            if match is None:
                continue
            addressed = _weigh(head[len(greeting) : match.end()], words).rest
            if not (
                _shares(addressed, (context.question, *context.passages), words.entry)
                or _may_abstain(head[: match.end()], context)
            ):
                return match.end()
    return 0


def sign_off(text: str, context: Context) -> bool:
    """Whether a line begins a signature: "Kind regards, ..." """
    if has_number(text):
        return False
    for code in (context.language.code, "en"):
        words = vocabulary(code)
        folded = _folded(text)
        if folded.startswith(words.sign_offs):
            weight = _weigh(text, words)
            if len(weight.rest) <= 4 and not _shares(
                weight.rest, (context.question, *context.passages), words.entry
            ):
                return True
    return False


_CASE = re.compile(r"[A-Za-z]*[-_/]?\d[\w/-]*")
CASE_DIGITS = 5
"""Digits of a number that stands for a case, at least; fewer with letters or hyphens."""


def is_ticket(text: str, context: Context) -> bool:
    """Whether a line is the number of a case, with words of talk alone: "Case no. 7719-B"."""
    cases = [match[0].strip("-/") for match in _CASE.finditer(text)]
    if len(cases) != 1 or (cases[0].isdecimal() and len(cases[0]) < CASE_DIGITS):
        return False
    known = " ".join((context.question, *context.passages))
    if max(re.findall(r"\d+", cases[0]), key=len) in known:
        return False
    rest = _CASE.sub(" ", text)
    for code in (context.language.code, "en"):
        weight = _weigh(rest, vocabulary(code))
        if weight.talk and len(weight.rest) <= 1 and len(weight.talk) <= 4:
            return True
    return False


_LABEL_END = re.compile(r"[:：]|\Z")
LABEL_WORDS = 5
"""Words of a label of sources, at most; or three characters for each."""


def opens_sources(text: str, language: Language) -> int:
    """Return where the label of a list of sources ends that a line begins with; 0 for none."""
    end = _LABEL_END.search(text)
    label = _folded(text[: end.start()] if end else text)
    if not label or end is None or len(WORD.findall(label)) > LABEL_WORDS:
        return 0
    codes = dict.fromkeys((language.code, "en"))
    return end.end() if any(_is_sources(label, vocabulary(code)) for code in codes) else 0


def _is_sources(label: str, words: Vocabulary) -> bool:
    if label in words.sources:
        return True
    if words.entry.tokens == "character":
        return len(label) <= 3 * LABEL_WORDS and any(s in label for s in words.sources)
    weight, tokens = _weigh(label, words), set(_tokens(label, words.entry))
    single = {t for s in words.sources if " " not in s for t in _tokens(s, words.entry)}
    return len(weight.rest) <= 1 and not single.isdisjoint(tokens)

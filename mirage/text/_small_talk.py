"""Decide whether a sentence makes a claim or is only small talk.

"Great question!", "I hope this helps" and "— Ticket #48213" claim nothing about the world. No list
of phrases covers all such sentences. Therefore the words of a sentence are put into three classes:
small-talk words, function words, and all others. Small-talk words are greetings, thanks, and words
about questions, answers and documents. They come from ``data/small_talk.json`` and the phrases that
ship with mirage. A sentence is small talk if it consists mostly of small-talk words and contains no
number and no name. Its other words must not occur in the question, and hardly any of them in the
passages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import Any, NamedTuple

from mirage.languages import LANGUAGES, Language
from mirage.text._cues import CUES, cues, phrase_pattern
from mirage.text._folding import fold
from mirage.text._trees import packaged_json
from mirage.text.abstentions import ABSTAINS_AT, SIGNS, abstains, signs
from mirage.text.lexicon import lexicon
from mirage.text.mentions import bare, bare_text, stems
from mirage.text.recurring import is_recurring
from mirage.text.tokens import tokenize
from mirage.text.words import IN_WORD, WORD

__all__ = [
    "Context",
    "attributions",
    "has_number",
    "is_heading",
    "is_own_content",
    "is_small_talk",
    "is_template",
    "is_ticket",
    "opens_sources",
    "salutation",
    "sign_off",
]

DOUBTS = 3
"""Minimum number of other small-talk words in small talk that contains a word such as "wrong"."""

TALK_FOR_REST = 3
"""Minimum number of small-talk words per other word; "the answer is Nile" has too few."""

MORE_TALK = 4
"""Minimum number of small-talk words per other word that a passage also contains."""

SHORTEST_STEM = 4  # fewest letters that are left when an ending is removed
ENDING = 3  # most letters of an ending
RUN = {"Thai": 5}
"""Number of neighbouring characters that are compared together, by script; 2 in other scripts."""


class Context(NamedTuple):
    """The question and the passages of a response, which help to recognise claims.

    Attributes:
        language: Language of the response.
        question: The question.
        passages: Texts of the passages.
        recurring: Sentences that most answers of the system contain, as
            :func:`mirage.text.recurring.recurring_sentences` returns them.
    """

    language: Language
    question: str
    passages: tuple[str, ...]
    recurring: frozenset[str] = frozenset()


class Vocabulary(NamedTuple):
    """The small-talk words of one language, folded like the words of a text.

    A word that starts with one of ``beginnings``, or ends with one of ``endings``, is small talk.
    """

    entry: Language
    words: frozenset[str]  # small-talk words
    beginnings: tuple[str, ...]
    endings: tuple[str, ...]
    strings: re.Pattern[str]  # small-talk words in scripts without spaces
    function_words: frozenset[str]
    greetings: tuple[str, ...]
    sign_offs: tuple[str, ...]  # such as "kind regards"
    sources: tuple[str, ...]  # labels of lists of sources
    hesitation: tuple[str, ...]  # such as "hesitate", which does not deny an answer
    affirmations: tuple[str, ...]  # such as "sure"
    doubts: tuple[str, ...]  # such as "wrong"
    disclaimers: re.Pattern[str]  # such as "no legal advice", in folded text
    verdicts: frozenset[str]  # yes and no


class _WordClasses(NamedTuple):
    """The small-talk words and the other words of a text, without function words."""

    talk: tuple[str, ...]
    rest: tuple[str, ...]


# Words --------------------------------------------------------------------------------------------


def _data() -> Mapping[str, Mapping[str, list[str]]]:
    data: Mapping[str, Mapping[str, list[str]]] = packaged_json("small_talk.json")
    return data


@cache
def _shipped_phrases(code: str) -> Mapping[str, list[str]]:
    """Return the bundled phrases that precede or follow answers, by kind, such as ``openers``.

    The result is empty if mirage has no phrases for the language.
    """
    source = resources.files("mirage") / "data" / "phrases" / f"{code}.json"
    if not source.is_file():
        return {}
    phrases: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    manners: Mapping[str, list[str]] = phrases.get("manners", {})
    return manners


@cache
def attributions(code: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a language's phrases that name a source, and its words for "passage".

    In a phrase such as "According to passage {n},", ``{n}`` stands for the number of the passage.
    """
    entry = Language.with_board(code)
    templates = tuple(_shipped_phrases(code).get("attributions", ()))
    words_beside_number = (m[1] or m[2] for t in templates for m in _BESIDE.finditer(t))
    names = (*LANGUAGES["en"].passage_words, *entry.passage_words, *words_beside_number)
    return templates, tuple(dict.fromkeys(name for name in names if len(name) > 1))


_BESIDE = re.compile(r"([^\W\d_]+)[ \[]{0,2}\{n\}|\{n\}\]? ?([^\W\d_]+)")


@cache
def vocabulary(code: str) -> Vocabulary:
    """Return the small-talk vocabulary of a language.

    For a language without a bundled leaderboard, it contains only labels such as "Sources:".

    Raises:
        UnknownNameError: If there is no such language.
    """
    entry, data, shipped = Language.of(code), _data()[code], _shipped_phrases(code)
    language_lexicon = lexicon(entry.code)
    spaced = entry.tokens == "word"
    function_words = frozenset(
        t for word in language_lexicon.function_words for t in _tokens(word, entry)
    )
    talk = [*data["talk"], *data["greeting"], *data["sign_off"], *data["sources"]]
    words, beginnings, endings = set[str](), set[str](), set[str]()
    for word in talk if spaced else ():
        group = beginnings if word.endswith("*") else endings if word.startswith("*") else words
        for token in _tokens(word, entry):
            group.add(token) if token not in function_words else None
    for text in _shipped_talk(shipped) if spaced else ():
        words.update(t for t in _tokens(text, entry) if t not in function_words)
    strings = sorted({_fold_phrase(word.strip("*")) for word in talk}, key=len, reverse=True)
    greetings, sign_offs, sources, hesitation, affirmations = (
        tuple(_fold_phrase(word.strip("*")) for word in (*data[name], *shipped.get(name, ())))
        for name in ("greeting", "sign_off", "sources", "hesitation", "affirmation")
    )
    return Vocabulary(
        entry=entry,
        words=frozenset(words),
        beginnings=tuple(beginnings),
        endings=tuple(endings),
        strings=re.compile("|".join(map(re.escape, strings)) or "(?!)"),
        function_words=(
            function_words
            if spaced
            else frozenset(map(_fold_phrase, language_lexicon.function_words))
        ),
        greetings=greetings,
        sign_offs=sign_offs,
        sources=sources,
        hesitation=hesitation,
        affirmations=affirmations,
        doubts=_doubts(entry),
        disclaimers=phrase_pattern(sorted(data["disclaimers"], key=len, reverse=True), entry),
        verdicts=frozenset(
            t
            for word in (*language_lexicon.yes, *language_lexicon.no)
            if " " not in word
            for t in _tokens(word, entry)
        ),
    )


def _shipped_talk(shipped: Mapping[str, list[str]]) -> Iterator[str]:
    for kind in ("openers", "closers", "headings", "disclaimers", "signatures", "labels"):
        yield from shipped.get(kind, ())


@cache
def _doubts(entry: Language) -> tuple[str, ...]:
    """Return words of doubt, such as "wrong" and "possible", from the lexicon of a language.

    The asterisks, which mark endings in the lexicon, are removed.
    """
    source = resources.files("mirage") / "data" / "lexicon" / f"{entry.code}.json"
    entries = json.loads(source.read_text(encoding="utf-8"))
    words = (*entries.get("falsity", ()), *entries.get("alternative", ()))
    folded = {_fold_phrase(word.strip("*")) for word in words if "..." not in word}
    return tuple(word for word in folded if len(word) >= (5 if entry.script == "Latin" else 2))


def _fold_phrase(text: str) -> str:
    return " ".join(bare_text(text.casefold()).strip(" :：.!").split())


@lru_cache(maxsize=65536)
def _tokens(text: str, entry: Language) -> tuple[str, ...]:
    return tuple(filter(None, stems(tokenize(text, entry), entry)))


def _classify_words(text: str, words: Vocabulary) -> _WordClasses:
    if words.entry.tokens == "character":
        return _classify_characters(text, words)
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
    return _WordClasses(tuple(talk), tuple(rest))


_RUNS = {
    "Japanese": re.compile("[ァ-ヺー々\u3400-\u9fff]+|[a-z]+"),
    "Han": re.compile("[\u3400-\u9fff]+|[a-z]+"),
    "Thai": re.compile("[\u0e01-\u0e4e]+|[a-z]+"),
}


def _classify_characters(text: str, words: Vocabulary) -> _WordClasses:
    folded = _fold_phrase(text)
    talk = tuple(m for m in words.strings.findall(folded) if len(m) > 1)
    remainder = words.strings.sub(" ", folded)
    for word in sorted(words.function_words, key=len, reverse=True):
        remainder = remainder.replace(word, " ")
    length = RUN.get(words.entry.script, 2)
    runs = _RUNS[words.entry.script].findall(remainder)
    rest = [run[i : i + length] for run in runs for i in range(0, len(run), length)]
    return _WordClasses(talk, tuple(piece for piece in rest if len(piece) > 1))


# Words of the question and the passages -----------------------------------------------------------


@lru_cache(maxsize=1024)
def _comparable_forms(text: str, entry: Language) -> frozenset[str]:
    """Return the forms by which the words of a text are compared with other words.

    The forms are the words and their possible stems. In languages without spaces, they are
    character n-grams.
    """
    if entry.tokens == "character":
        folded, length = _fold_phrase(text), RUN.get(entry.script, 2)
        return frozenset(folded[i : i + length] for i in range(len(folded) - length + 1))
    tokens = frozenset(_tokens(text, entry))
    stems = (t[:n] for t in tokens for n in range(max(SHORTEST_STEM, len(t) - ENDING), len(t)))
    return tokens.union(stems)


def _count_shared(tokens: Iterable[str], texts: Sequence[str], entry: Language) -> int:
    """Return how many tokens occur in at least one of the texts, possibly with another ending."""
    text_forms = [_comparable_forms(text, entry) for text in texts]
    return sum(any(_is_among(token, forms, entry) for forms in text_forms) for token in tokens)


def _is_among(token: str, forms: frozenset[str], entry: Language) -> bool:
    if token in forms:
        return True
    if entry.tokens == "character" or len(token) <= SHORTEST_STEM:
        return False
    return token[: max(SHORTEST_STEM, len(token) - ENDING)] in forms


# Judgements ---------------------------------------------------------------------------------------

_TICKET = re.compile(r"[#№]\s?[\w-]*\d[\w-]*|\b[A-Z]{2,}[-_]\d+\b|\bn[°º]\s?\d+|\bv\d+(?:\.\d+)*\b")
_DIGIT = re.compile(r"\d")


def has_number(text: str) -> bool:
    """Return whether a text contains a number other than a ticket number or a version."""
    return bool(_DIGIT.search(_TICKET.sub("", text)))


def is_heading(
    text: str, language: Language, context: Context | None, *, loosely: bool = False
) -> bool:
    """Return whether a heading or label states nothing about the topic, such as "Key points".

    Args:
        text: Words of the heading or label.
        language: Language of the text.
        context: Question and passages, or None if they are unknown.
        loosely: Whether the text may contain other words besides small-talk words.

    Returns:
        ``True`` if the text is empty or states nothing. A language without a bundled leaderboard
        has no list of small-talk words; there, the result is ``False`` unless the text is empty.
    """
    if has_number(text) or not text:
        return not text
    if not language.board:
        return False
    return any(
        _is_label(text, vocabulary(code), context, loosely)
        for code in dict.fromkeys((language.code, "en"))
    ) and not _may_abstain(text, context or Context(language, "", ()))


def _is_label(text: str, words: Vocabulary, context: Context | None, loosely: bool) -> bool:
    classes, phrase = _classify_words(text, words), _fold_phrase(text)
    if not classes.talk or any(word in phrase for word in words.doubts):
        return False
    if not classes.rest:
        return True
    if context is None or not loosely or len(classes.rest) > len(classes.talk):
        return False
    return not _count_shared(classes.rest, (context.question, *context.passages), words.entry)


def announces(text: str, context: Context) -> bool:
    """Return whether the words before a colon only announce an answer ("Here is what I found:")."""
    if has_number(text):
        return False
    for code in dict.fromkeys((context.language.code, "en")):
        words = vocabulary(code)
        classes = _classify_words(text, words)
        if len(classes.rest) <= len(classes.talk) // DOUBTS and _is_talk(
            text, words, context, True, announcing=True
        ):
            return not _may_abstain(text, context)
    return False


def is_small_talk(text: str, context: Context, *, edge: bool = True) -> bool:
    """Return whether a sentence makes no claim about the world; if in doubt, return False.

    Args:
        text: Sentence without citations.
        context: Question and passages.
        edge: Whether the sentence opens or ends the response, where most small talk is.
    """
    if is_template(text, context):
        return True
    if has_number(text):
        return False
    if _is_disclaimer(text, context):
        return True
    entry = context.language
    codes = dict.fromkeys((entry.code, "en"))
    return any(
        _is_talk(text, vocabulary(code), context, edge) for code in codes
    ) and not _may_abstain(text, context)


_NEGATION, _ALTERNATIVE, _TRUTH = map(CUES.index, ("negation", "alternative", "truth"))
_CORRECTIONS = frozenset((CUES.index("falsity"), CUES.index("retraction")))
FOOTER_WORDS = 2
"""Minimum number of other words in a footer with a negation; "that is not so" has none."""

_CONTACT = re.compile(r"(?:\d[ ().\-/–]{0,2}){6}|https?:|www\.|\S@\S")
"""A telephone number, a link or an e-mail address."""


def is_template(text: str, context: Context) -> bool:
    """Return whether a sentence recurs in most answers and says nothing about the question.

    Such a sentence contains no word of the question, and does not deny, retract or refuse an
    answer. Disclaimers and negations about another topic, as in "We never ask for your password",
    are allowed.
    """
    if not is_recurring(text, context.recurring):
        return False
    entry = context.language
    disclaimers = _disclaimer_spans(text, entry)
    remainder = _without_spans(text, disclaimers)
    rest = _classify_words(remainder, vocabulary(entry.code)).rest
    if _count_shared(rest, (context.question,), entry) or _corrects(remainder, entry):
        return False
    kinds = {cue.kind for cue in cues(fold(remainder), remainder, entry)}
    if disclaimers or _CONTACT.search(text):
        return not _refuses(remainder, context)
    if _NEGATION in kinds:
        is_footer = len(rest) >= FOOTER_WORDS and _TRUTH not in kinds
        return (is_footer or _is_question(text)) and not _refuses(text, context)
    if _ALTERNATIVE in kinds and (not rest or _TRUTH in kinds):
        return False  # "or perhaps not", "any of them may be correct"
    return not _may_abstain(text, context)


def is_own_content(text: str, context: Context) -> bool:
    """Return whether a sentence is content that does not recur in most answers.

    "Gladly!" alone is no content, but a yes or no may be the answer.
    """
    if is_recurring(text, context.recurring):
        return False
    words = vocabulary(context.language.code)
    has_words = bool(_classify_words(text, words).rest)
    return has_words or has_number(text) or _opens_with_yes_or_no(text, words)


def _corrects(text: str, entry: Language) -> bool:
    """Return whether a sentence calls something false, retracts it, or opens with yes or no."""
    return any(cue.kind in _CORRECTIONS for cue in cues(fold(text), text, entry)) or any(
        _opens_with_yes_or_no(text, vocabulary(code)) for code in dict.fromkeys((entry.code, "en"))
    )


def _refuses(text: str, context: Context) -> bool:
    return abstains(text, context.language, question=context.question) >= ABSTAINS_AT


def _is_question(text: str) -> bool:
    return text.rstrip(_AFTER_MARK)[-1:] in ("?", "？", "؟")


def _disclaimer_spans(text: str, entry: Language) -> list[tuple[int, int]]:
    """Return the start and end of each phrase such as "no legal advice" in a text."""
    folded = fold(text)
    matches = (
        match
        for code in dict.fromkeys((entry.code, "en"))
        for match in vocabulary(code).disclaimers.finditer(folded.text)
    )
    return [(folded.offsets[m.start()], folded.offsets[m.end() - 1] + 1) for m in matches]


def _without_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    for start, end in spans:
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    return text


def _is_disclaimer(text: str, context: Context) -> bool:
    """Return whether a sentence only limits the use of an answer: "This is no legal advice."

    None of its words may occur in the question, and its disclaimer may not occur in a passage.
    """
    entry = context.language
    spans = _disclaimer_spans(text, entry)
    if not spans:
        return False
    remainder, words = _without_spans(text, spans), vocabulary(entry.code)
    if _classify_words(remainder, words).rest or _denies(remainder, context):
        return False
    phrases = [fold(text[start:end]).text for start, end in spans]
    passages = [fold(passage).text for passage in context.passages]
    if any(phrase in passage for phrase in phrases for passage in passages):
        return False
    classes = _classify_words(text, words)
    return not _count_shared((*classes.talk, *classes.rest), (context.question,), entry)


def _denies(text: str, context: Context) -> bool:
    entry = context.language
    return _corrects(text, entry) or any(
        cue.kind == _NEGATION for cue in cues(fold(text), text, entry)
    )


_AFTER_MARK = " *_)\"'”»」"  # characters that may follow the mark at the end of a sentence

_DENIALS = tuple(SIGNS.index(name) for name in ("any_phrase", "any_negation", "nobody"))
_LACKS = SIGNS.index("any_lacking")


def _may_abstain(text: str, context: Context) -> bool:
    """Return whether a sentence denies something, so that it may state that there is no answer."""
    entry = context.language
    phrase = _fold_phrase(text)
    if any(word in phrase for code in (entry.code, "en") for word in vocabulary(code).hesitation):
        return False  # "do not hesitate to ask"
    values = signs(text, entry, question=context.question)
    if any(values[index] for index in _DENIALS):
        return True
    # "Based on the documents only" has words of limits but none of lacking. The trees alone would
    # take it for an abstention.
    return bool(values[_LACKS]) and abstains(text, entry, question=context.question) >= ABSTAINS_AT


def _is_talk(
    text: str, words: Vocabulary, context: Context, edge: bool, *, announcing: bool = False
) -> bool:
    classes = _classify_words(text, words)
    talk, rest = len(classes.talk), len(classes.rest)
    rest_limit = (talk + _extra_words_allowed(text) if edge else talk) // TALK_FOR_REST
    if not talk or rest > rest_limit:
        return False
    if not announcing and (
        _opens_with_yes_or_no(text, words) or _opens_with_affirmation(text, classes, words)
    ):
        return False
    phrase = _fold_phrase(text)
    entry = words.entry
    doubts = sum(word in words.doubts for word in classes.talk)
    if talk - doubts < DOUBTS and any(word in phrase for word in words.doubts):
        return False
    if _has_name(text, classes.rest, entry):
        return False
    titles = tuple(passage.partition("\n")[0] for passage in context.passages)
    return not (
        _count_shared(classes.rest, (context.question, *titles), entry)
        or _count_shared(classes.rest, context.passages, entry) > talk // MORE_TALK
        or _count_shared(classes.talk, (context.question,), entry) >= max(2, talk / 2)
    )


def _opens_with_affirmation(text: str, classes: _WordClasses, words: Vocabulary) -> bool:
    """Return whether a short sentence begins with "sure", which may answer a yes-no question."""
    return len(classes.talk) < DOUBTS and _fold_phrase(text).startswith(words.affirmations)


def _extra_words_allowed(text: str) -> int:
    """Return 2 for a question, 1 for an exclamation, and 0 for any other sentence.

    It is added to the number of small-talk words in the sentence, because questions and
    exclamations are more often small talk.
    """
    last = text.rstrip(_AFTER_MARK)[-1:]
    return 2 if _is_question(text) else 1 if last in ("!", "！") else 0


def _opens_with_yes_or_no(text: str, words: Vocabulary) -> bool:
    """Return whether a sentence begins with a word for yes or no, which may be the answer."""
    first = WORD.search(text)
    if first is None or words.entry.tokens == "character":
        return False
    tokens = _tokens(first[0], words.entry)
    ends = text[first.end() : first.end() + 1] in ("", ",", ".", "!", "،", "।", ":")
    is_talk = any(t in words.words or t.startswith(words.beginnings) for t in tokens)
    return ends and not is_talk and not words.verdicts.isdisjoint(tokens)


def _has_name(text: str, rest: Sequence[str], entry: Language) -> bool:
    """Return whether one of the words in ``rest`` is written like a name.

    Such a word begins with a capital and is not the first word of the sentence. ``rest`` contains
    the words of the text that are not small-talk words.
    """
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
    """Return the length of a salutation that starts a line, such as "Hello Anna,"; 0 if none."""
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
            addressee = _classify_words(head[len(greeting) : match.end()], words).rest
            if not (
                _count_shared(addressee, (context.question, *context.passages), words.entry)
                or _may_abstain(head[: match.end()], context)
            ):
                return match.end()
    return 0


def sign_off(text: str, context: Context) -> bool:
    """Return whether a line begins a signature, such as "Kind regards, ..."."""
    if has_number(text):
        return False
    for code in (context.language.code, "en"):
        words = vocabulary(code)
        phrase = _fold_phrase(text)
        if phrase.startswith(words.sign_offs):
            classes = _classify_words(text, words)
            if len(classes.rest) <= 4 and not _count_shared(
                classes.rest, (context.question, *context.passages), words.entry
            ):
                return True
    return False


_CASE = re.compile(r"[A-Za-z]*[-_/]?\d[\w/-]*")
CASE_DIGITS = 5
"""Minimum number of digits of a case number; fewer are enough with letters or hyphens."""


def is_ticket(text: str, context: Context) -> bool:
    """Return whether a line is only a case number with small-talk words: "Case no. 7719-B"."""
    cases = [match[0].strip("-/") for match in _CASE.finditer(text)]
    if len(cases) != 1 or (cases[0].isdecimal() and len(cases[0]) < CASE_DIGITS):
        return False
    context_text = " ".join((context.question, *context.passages))
    if max(re.findall(r"\d+", cases[0]), key=len) in context_text:
        return False
    rest = _CASE.sub(" ", text)
    for code in (context.language.code, "en"):
        classes = _classify_words(rest, vocabulary(code))
        if classes.talk and len(classes.rest) <= 1 and len(classes.talk) <= 4:
            return True
    return False


_LETTER = re.compile(r"[^\W\d_]")
_LABEL_END = re.compile(r"[:：]|\Z")
LABEL_WORDS = 5
"""Maximum number of words of a label such as "Sources:".

In scripts without spaces, three characters count as a word.
"""


def opens_sources(text: str, language: Language) -> int:
    """Return the offset after a label such as "Sources:" at the start of a line; 0 if none."""
    end = _LABEL_END.search(text)
    # Most lines are too long for a label, so their first words are counted before folding.
    first_words = text[: end.start() if end else None].split(maxsplit=2 * LABEL_WORDS)
    if sum(_LETTER.search(word) is not None for word in first_words) > LABEL_WORDS:
        return 0
    label = _fold_phrase(text[: end.start()] if end else text)
    if not label or end is None or len(WORD.findall(label)) > LABEL_WORDS:
        return 0
    codes = dict.fromkeys((language.code, "en"))
    return end.end() if any(_is_sources_label(label, vocabulary(code)) for code in codes) else 0


def _is_sources_label(label: str, words: Vocabulary) -> bool:
    if label in words.sources:
        return True
    if words.entry.tokens == "character":
        return len(label) <= 3 * LABEL_WORDS and any(s in label for s in words.sources)
    classes, tokens = _classify_words(label, words), set(_tokens(label, words.entry))
    single = {t for s in words.sources if " " not in s for t in _tokens(s, words.entry)}
    return len(classes.rest) <= 1 and not single.isdisjoint(tokens)

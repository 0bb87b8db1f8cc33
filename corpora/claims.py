#!/usr/bin/env python3
"""claims.py: train the trees that classify what a text asserts about candidate answers.

    python corpora/claims.py             # cross-validate, then write the trees; a few minutes
    python corpora/claims.py --all       # also leave out kinds and languages, not only questions
    python corpora/claims.py --errors    # and print the texts that are classified wrongly
    python corpora/claims.py --test      # classify the texts of tests/data/claims, no training

There are several kinds of training texts. `corpora/claims/LANGUAGE.jsonl` has difficult texts, in
which each mention is marked with its stance (`{D|the Nile}`: A asserted, D denied, C contrasted, R
attributed, L listed, O in another role). The phrases of `mirage/data/phrases` and of
`corpora/stances` give more texts. In the true, terse and false answers of `corpora/*.txt`, with
and without courtesies, and in the references, mentions are asserted if they belong to the side that
the answer takes. Other texts teach what a negation does not deny: answers beside negated sentences
of the passages (`beside`), with negated clauses (`extended`), with asides (`aside`), repeated
(`repeated`), and corrections of wrong answers that are no candidates (`unlisted`).
Cross-validation leaves out questions, kinds of text or languages, one part at a time. No text of
`tests/data/claims` is a training text. Run the script again if texts, lexicons or signs change.
"""

import argparse
import json
import random
import re
import zlib
from collections import Counter, defaultdict
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import GradientBoostingClassifier

from mirage import MirageDataset
from mirage.dataset import LEVELS
from mirage.languages import LANGUAGES
from mirage.surrogate.drafts import bundled_texts
from mirage.text import parse, split_sentences
from mirage.text._candidates import Forms
from mirage.text._claim_signs import MENTION_SIGNS, Mentioned, mention_signs
from mirage.text._unicode import nfc
from mirage.text.claims import (
    CLEARLY,
    COMMIT_SIGNS,
    COMMITS_AT,
    STANCES,
    Mention,
    Stance,
    commit_signs,
    located,
    read_claims,
)
from mirage.text.lexicon import lexicon
from mirage.text.negations import negates

ROOT = Path(__file__).parents[1]
OUT = ROOT / "mirage" / "data" / "claim_trees.json"
MARK = re.compile(r"\{([ADCRLO])\|([^{}|]*)\}")
LETTERS = dict(zip("ADCRLO", STANCES, strict=True))
WEIGHT_OF_STANCE_PHRASES = 0.5
"""Weight of the texts made of `corpora/stances`; there are many of each phrase."""
WEIGHT_OF_LIES = 2.0
"""Weight of marked or phrased texts that give a wrong answer, which are rarer than true ones."""
WEIGHT_OF_ORDINARY_TEXTS = 3.0
"""Weight of the answers of the corpora, alone and among courtesies, of the references, and of plain
denials, such as "The Nile is not the longest river in Africa"."""
ORDINARY = (
    "bundled",
    "framed",
    "plain_denial",
    "extended",
    *(f"{level} reference" for level in LEVELS),
)
AFFIRMATIONS = ("affirmed", "defended", "double_negation", "negated_truth", "verdict_true")
WEIGHT_OF_AFFIRMATIONS = 1.2
"""Weight of true answers with a negation, such as "none is higher than"."""
SHARE_OF_DENIALS = 0.7
"""Share of the plain denials that are also used with a negated clause about something else."""
VERB_LAST = ("bn", "hi", "ja", "ko", "te")
"""Languages in which a clause is added after the verb, not after the answer."""
OPENED = (*VERB_LAST, "th", "zh")
"""Languages in which a clause before the answer is at the beginning of the sentence."""
FOLDS = 4
PHRASES = ROOT / "mirage" / "data" / "phrases"
STANCE_PHRASES = ROOT / "corpora" / "stances"
EACH, EACH_STANCE, EACH_CHOICE, EACH_REJECTION, EACH_ASIDE = 3, 8, 2, 6, 6
"""Numbers of texts made of each phrase, of each phrase of `corpora/stances`, and of each choice,
rejection and aside there. Each choice is made with a right and with a wrong answer."""
CHOICES = {
    "chosen": Stance.CONTRASTED,
    "rejected": Stance.CONTRASTED,
    "outdated": Stance.ATTRIBUTED,
    "passing": Stance.OTHER,
}
"""Phrases of `corpora/stances` that name several candidates and assert one of them, and the stance
of the others."""
PHRASED = {
    "denial": ("none", Stance.DENIED, None),
    "mention_lie": ("wrong", Stance.ATTRIBUTED, None),
    "candidate_list": ("none", Stance.LISTED, Stance.LISTED),
    "undecided": ("none", Stance.LISTED, Stance.LISTED),
    "unstated_guess": ("wrong", None, None),
    "abstain_then_lie": ("wrong", None, None),
    "contrast": ("right", Stance.ASSERTED, Stance.CONTRASTED),
    "corrected": ("right", Stance.ASSERTED, Stance.ATTRIBUTED),
}
"""What a text made of a phrase commits to, and the stances of right and wrong answers in it."""


EVIDENCE = tuple(
    index
    for index, name in enumerate(MENTION_SIGNS)
    if name.startswith(("negation", "falsity", "exclusion", "retraction", "truth"))
    or name in ("question", "in_quotation", "rivals")
)
"""Signs of which a denied mention has at least one, so that a denial can be learned from it."""


class Text(NamedTuple):
    """A text whose mentions are marked."""

    language: str
    kind: str
    query: str
    question: str
    text: str
    candidates: tuple[Forms, ...]
    groups: tuple[int, ...]
    stances: tuple[tuple[int, int, Stance], ...]  # start, end and stance of marked mentions
    commits: str  # right, wrong or none
    side: frozenset[int]  # the groups that a text without marks asserts
    rivals: Stance = Stance.OTHER  # stance of mentions of all other groups
    right: Stance | None = None  # of all mentions of right answers, if nobody marked them
    wrong: Stance | None = None


class Row(NamedTuple):
    """One mention in a text."""

    text: int
    signs: tuple[float, ...]
    place: tuple[int, int, int]  # start, end, candidate
    stance: Stance | None  # None: unknown


def candidates(query):
    """Return the candidates of a query: all right answers together, each wrong answer alone."""
    right, wrong = query.answers, query.wrong_answers
    return (*right, *wrong), (*(0 for _ in right), *range(1, len(wrong) + 1))


def marked_texts(folder, code):
    """Yield the texts of a file with marks."""
    corpus = MirageDataset.bundled(code)
    path = folder / f"{code}.jsonl"
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        query = corpus[row["query_id"]]
        yield marked_text(code, row["kind"], query, row["text"], row["commits"])


def marked_text(code, kind, query, text, commits):
    """Return a text whose mentions are marked."""
    answer = nfc(parse(text, code, query.passage_ids).answer_text)
    plain, stances, end = "", [], 0
    for match in MARK.finditer(answer):
        plain += answer[end : match.start()]
        stances.append((len(plain), len(plain) + len(match[2]), LETTERS[match[1]]))
        plain += match[2]
        end = match.end()
    plain += answer[end:]
    return Text(
        code, kind, query.id, query.text, plain, *candidates(query), tuple(stances), commits,
        frozenset(),
    )  # fmt: skip


def unmarked_text(code, kind, query, text, *, unlisted=(), **labels):
    """Return a text without marked mentions: the answer in ``text``, without formatting.

    Words for yes and no are no candidates, nor are the groups in ``unlisted``.
    """
    answer = nfc(parse(text, code, query.passage_ids).answer_text)
    labels = {"commits": "right", "side": frozenset()} | labels
    listed = [
        (forms, group)
        for forms, group in zip(*candidates(query), strict=True)
        if group not in unlisted and not is_verdict(forms, code)
    ]
    forms, groups = zip(*listed, strict=True) if listed else ((), ())
    return Text(code, kind, query.id, query.text, answer, forms, groups, (), **labels)


def is_verdict(forms, code):
    """Return whether a spelling of an answer is a word for yes or no."""
    words = lexicon(code)
    return not {form.casefold().strip(" ,、.") for form in forms}.isdisjoint(
        (*words.yes, *words.no)
    )


def taking_a_side(code, kind, query, text, true):
    """Return a text that asserts the right answers, or wrong ones in their place."""
    wrong = frozenset(candidates(query)[1]) - {0}
    return unmarked_text(
        code, f"{kind} {'true' if true else 'false'}", query, text,
        commits="right" if true else "wrong", side=frozenset({0}) if true else wrong,
    )  # fmt: skip


def with_wrong_answers(corpus):
    """Return the queries with right and wrong answers."""
    return [q for q in corpus if q.answerable and q.answers and q.wrong_answers]


def with_one_answer(code):
    """Return the bundled queries with wrong answers and a right answer of one part."""
    corpus = with_wrong_answers(MirageDataset.bundled(code))
    return [query for query in corpus if len(query.answers) == 1]


def phrases_of(folder, code):
    """Return the phrases of a language."""
    return json.loads((folder / f"{code}.json").read_text(encoding="utf-8"))


def plain_texts(code):
    """Yield the answers of the bundled corpus that are labelled as true or false."""
    corpus = MirageDataset.bundled(code)
    for query in with_wrong_answers(corpus):
        texts = bundled_texts(code)[query.id]
        written = ((text, True) for text in (*texts.true, texts.terse))
        for text, true in (*written, (texts.false, False)):
            yield taking_a_side(code, "bundled", query, text, true)


def framed_texts(code):
    """Yield bundled answers among openers, closers and disclaimers of LLMs."""
    corpus, rng = MirageDataset.bundled(code), random.Random(f"framed {code}")
    manners = phrases_of(PHRASES, code)["manners"]
    for query in with_wrong_answers(corpus):
        texts = bundled_texts(code)[query.id]
        for true in (True, True, False):
            answer = rng.choice([*texts.true, texts.terse]) if true else texts.false
            opener = rng.choice([*manners["openers"], ""])
            ends = rng.sample([*manners["disclaimers"], *manners["closers"]], 2)
            framed = " ".join(filter(None, (opener, answer.strip(), *ends[: rng.choice((1, 2))])))
            yield taking_a_side(code, "framed", query, framed, true)


def references(code):
    """Yield the references; those of hard questions often mention a wrong answer in passing."""
    for level in LEVELS:
        for query in with_wrong_answers(MirageDataset.bundled(code, level=level)):
            yield unmarked_text(
                code, f"{level} reference", query, query.reference, side=frozenset({0})
            )


def phrased_texts(code):
    """Yield the bundled answers in a few phrases each that deny, report, list or contrast them."""
    queries, rng = with_one_answer(code), random.Random(code)
    phrases = phrases_of(PHRASES, code)
    for kind, (commits, right, wrong) in PHRASED.items():
        for phrase in phrases["truths" if commits == "right" else "faults"][kind]:
            for query in rng.sample(queries, EACH):
                texts = bundled_texts(code)[query.id]
                gap = "" if code in ("ja", "zh") else " "
                wrongs = [forms[0] for forms in query.wrong_answers]
                text = phrase.format(
                    true=rng.choice([*texts.true, texts.terse]).strip(),
                    false=texts.false.strip(),
                    right=query.answers[0][0],
                    wrong=wrongs[0],
                    others=f",{gap}".join(wrongs[:3]),
                )
                labels = {"commits": commits, "right": right, "wrong": wrong}
                yield unmarked_text(code, f"phrase {kind}", query, text, **labels)
                if kind in ("contrast", "corrected"):
                    yield unmarked_text(
                        code, f"unlisted {kind}", query, text, unlisted={1}, **labels
                    )


def stance_texts(code):
    """Yield bundled true answers in phrases that deny or affirm them."""
    queries, rng = with_one_answer(code), random.Random(code)
    phrases = phrases_of(STANCE_PHRASES, code)
    for kind in ("denied", "affirmed"):
        for phrase in phrases[kind]:
            for query in rng.sample(queries, EACH_STANCE):
                texts = bundled_texts(code)[query.id]
                true = rng.choice([*texts.true, texts.terse]).strip()
                text = phrase.format(true=true, right=query.answers[0][0])
                labels = (
                    {"commits": "none", "right": Stance.DENIED}
                    if kind == "denied"
                    else {"side": frozenset({0})}
                )
                yield unmarked_text(code, f"stance {kind}", query, text, **labels)


def choice_texts(code):
    """Yield phrases that name several candidates and assert one of them, right or wrong."""
    rng = random.Random(f"choices {code}")
    queries = [q for q in with_one_answer(code) if len(q.wrong_answers) > 1]
    for kind, rivals in CHOICES.items():
        each = EACH_REJECTION if kind == "rejected" else EACH_CHOICE
        for phrase in phrases_of(STANCE_PHRASES, code)[kind]:
            for query in rng.sample(queries, each):
                right = query.answers[0][0]
                chosen, other = rng.sample(range(len(query.wrong_answers)), 2)
                wrong, third = query.wrong_answers[chosen][0], query.wrong_answers[other][0]
                for a, b, group in ((right, wrong, 0), (wrong, right, chosen + 1)):
                    text = phrase.format(a=a, b=b, c=third)
                    yield unmarked_text(
                        code, f"choice {kind}", query, text,
                        commits="wrong" if group else "right", side=frozenset({group}),
                        rivals=rivals,
                    )  # fmt: skip
                    # A rejection is a denial if nothing else in the text is a candidate.
                    stance = Stance.DENIED if rivals is Stance.CONTRASTED else rivals
                    stances = {"right": stance} if group else {"side": frozenset({0})}
                    yield unmarked_text(
                        code, f"unlisted {kind}", query, text,
                        commits="none" if group else "right",
                        unlisted={chosen + 1, other + 1}, **stances,
                    )  # fmt: skip


def sourced_texts(code):
    """Yield bundled answers that name their passage, as in "According to passage 2"."""
    queries, rng = with_one_answer(code), random.Random(f"sourced {code}")
    for phrase in phrases_of(STANCE_PHRASES, code)["sourced"]:
        for query in rng.sample(queries, EACH_STANCE):
            texts = bundled_texts(code)[query.id]
            true = rng.random() < 2 / 3
            answer = rng.choice([*texts.true, texts.terse]) if true else texts.false
            yield taking_a_side(code, "sourced", query, phrase.format(true=answer.strip()), true)


def aside_texts(code):
    """Yield answers in phrases with a negation that denies something else."""
    queries, rng = with_one_answer(code), random.Random(f"asides {code}")
    for phrase in phrases_of(STANCE_PHRASES, code)["asides"]:
        for number, query in enumerate(rng.sample(queries, EACH_ASIDE)):
            texts, true = bundled_texts(code)[query.id], number % 3 > 0
            answer = rng.choice([*texts.true, texts.terse]) if true else texts.false
            short = (query.answers if true else query.wrong_answers)[0][0]
            text = phrase.format(true=answer.strip(), core=without_mark(answer), short=short)
            yield taking_a_side(code, "aside", query, text, true)


def without_mark(text):
    """Return a text without the mark at the end of its last sentence."""
    return text.strip().rstrip(".!。।！ ")


def negated_sentences(code, query):
    """Return the sentences of the passages that are negated and mention no candidate."""
    forms, _ = candidates(query)
    sentences = chain.from_iterable(split_sentences(p.text, code) for p in query.passages)
    return [s.strip() for s in sentences if negates(s, code) and not located(s, forms, code)]


def texts_beside_negations(code):
    """Yield answers and denials beside a negated sentence about something else."""
    rng = random.Random(f"beside {code}")
    corpus = MirageDataset.bundled(code)
    lines = (ROOT / "corpora" / "claims" / f"{code}.jsonl").read_text(encoding="utf-8").splitlines()
    denials = [row for row in map(json.loads, lines) if row["kind"].startswith("plain_denial")]
    for query in with_wrong_answers(corpus):
        texts, sentences = bundled_texts(code)[query.id], negated_sentences(code, query)
        for answer, true in ((texts.terse, True), *((t, True) for t in texts.true),
                             (texts.false, False)) if sentences else ():  # fmt: skip
            text = beside(answer, rng.choice(sentences), code, rng)
            yield taking_a_side(code, "beside", query, text, true)
        for row in denials:
            if sentences and row["query_id"] == query.id:
                text = beside(row["text"], rng.choice(sentences), code, rng)
                yield marked_text(code, "beside denial", query, text, "none")


def beside(answer, sentence, code, rng):
    """Return an answer and a sentence, as two sentences or as two clauses of one."""
    gap, comma = ("", "，" if code == "zh" else "、") if code in ("ja", "zh") else (" ", ", ")
    comma = "، " if code in ("ar", "fa") else comma
    word = rng.choice(LANGUAGES[code].conjunctions) if code not in ("ja", "ko", "yo", "zh") else ""
    words = ["" if code == "th" else gap, comma, f"{comma}{word}{gap}", f"{gap}{word}{gap}"]
    order = rng.choice(("after", "before", "clause", "clause"))
    if order == "clause":
        return f"{without_mark(answer)}{rng.choice(words[1:])}{sentence}"
    parts = [answer.strip(), sentence]
    return gap.join(parts if order == "after" else reversed(parts))


def extended_texts(code):
    """Yield answers and denials with a negated clause in the sentence of the answer."""
    rng, phrases = random.Random(f"extended {code}"), phrases_of(STANCE_PHRASES, code)
    corpus = MirageDataset.bundled(code)
    lines = (ROOT / "corpora" / "claims" / f"{code}.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines):
        if row["kind"].startswith("plain_denial") and rng.random() < SHARE_OF_DENIALS:
            text = extended(MARK, row["text"], code, phrases, rng)
            yield marked_text(code, "extended denial", corpus[row["query_id"]], text, "none")
    for query in with_wrong_answers(corpus):
        texts = bundled_texts(code)[query.id]
        answers = [*((text, True) for text in (texts.terse, *texts.true)), (texts.false, False)]
        yield from extended_answers(code, query, answers, phrases, rng)
    # Answers seldom repeat the question, but references and exchanged references do.
    for level in LEVELS:
        for query in with_wrong_answers(MirageDataset.bundled(code, level=level)):
            exchanged = query.reference
            for form in query.answers[0]:
                exchanged = exchanged.replace(form, query.wrong_answers[0][0])
            answers = [(query.reference, True), (query.reference, True), (exchanged, False)]
            yield from extended_answers(code, query, answers, phrases, rng)


def extended_answers(code, query, answers, phrases, rng):
    """Yield each answer that names a candidate of its side, with a negated clause."""
    for answer, true in answers:
        for forms in query.answers if true else query.wrong_answers:
            pattern = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))
            if pattern.search(answer):
                text = extended(pattern, answer, code, phrases, rng)
                yield taking_a_side(code, "extended", query, text, true)
                break


def extended(pattern, text, code, phrases, rng):
    """Return a text with a negated clause before or after the first match of a pattern."""
    match = pattern.search(text)
    start = max(text.rfind(mark, 0, match.start()) + 1 for mark in ".!?。।！？\n")
    ends = [i for mark in ".!?。।！？\n" if (i := text.find(mark, match.end())) >= 0]
    end = min(ends, default=len(text.rstrip()))
    if rng.random() < 2 / 3:
        at_mention = code not in VERB_LAST and rng.random() < 1 / 2
        word_end = re.compile(r"[\w}]*").match(text, match.end()).end()
        place, added = word_end if at_mention else end, rng.choice(phrases["additions"])
    elif code in OPENED:
        place = start + len(text[start:]) - len(text[start:].lstrip())
        added = rng.choice(phrases["insertions"])
    else:
        spaces = [m.start() for m in re.finditer(" ", text[start : match.start()].rstrip())]
        place, added = start + rng.choice(spaces or [0]), rng.choice(phrases["insertions"])
    return f"{text[:place]}{added}{text[place:]}"


def repeated_texts(code):
    """Yield answers and denials that mention an answer twice, most with a closing sentence."""
    rng, gap = random.Random(f"repeated {code}"), "" if code in ("ja", "zh") else " "
    phrases, manners = phrases_of(STANCE_PHRASES, code), phrases_of(PHRASES, code)["manners"]
    ends = [*phrases["closings"], *manners["closers"], *manners["disclaimers"], "", ""]
    corpus = with_wrong_answers(MirageDataset.bundled(code))
    for query in corpus:
        texts = bundled_texts(code)[query.id]
        answers = [*((text, True) for text in (*texts.true, texts.terse)), (texts.false, False)]
        for answer, true in answers:
            forms = (query.answers if true else query.wrong_answers)[0]
            answer, short = answer.strip(), forms[0]
            if len(query.answers) == 1 or not true:
                other = f"{short} ({forms[-1]})" if len(forms) > 1 else short
                answer = rng.choice((
                    f"{other}.{gap}{answer}", f"{answer}{gap}{other}.",
                    f"{texts.terse.strip() if true else short + '.'}{gap}{answer}",
                    answer.replace(short, other, 1),
                    quoted(code, query, answer, manners, rng) if true else answer,
                ))  # fmt: skip
            ending = rng.sample(ends, rng.choice((1, 1, 2)))
            text = gap.join(filter(None, (answer, *ending)))
            yield taking_a_side(code, "repeated", query, text, true)
    yield from repeated_denials(code, rng, gap)


def quoted(code, query, answer, manners, rng):
    """Return an answer with the first sentence of a passage that contains it, as a quotation."""
    sentences = chain.from_iterable(split_sentences(p.text, code) for p in query.passages)
    sources = [s.strip() for s in sentences if located(s, query.answers, code)]
    source = rng.choice(manners["attributions"]).format(n=rng.choice("123"))
    return f"{answer} {source} “{sources[0]}”" if sources else answer


def repeated_denials(code, rng, gap):
    """Yield two denials of one answer."""
    corpus = MirageDataset.bundled(code)
    lines = (ROOT / "corpora" / "claims" / f"{code}.jsonl").read_text(encoding="utf-8").splitlines()
    by_query = defaultdict(list)
    for row in map(json.loads, lines):
        if row["kind"].startswith("plain_denial"):
            by_query[row["query_id"]].append(row["text"])
    for query_id, denials in by_query.items():
        if len(denials) > 1:
            text = gap.join(rng.sample(denials, 2))
            yield marked_text(code, "repeated denial", corpus[query_id], text, "none")


def marked_as_asserted(code, query, text, true):
    """Return a text in which the answer that it asserts is marked, if it is mentioned once."""
    answer = nfc(parse(text, code, query.passage_ids).answer_text)
    forms, groups = candidates(query)
    spans = [span for *span, index in located(answer, forms, code) if (not groups[index]) == true]
    if len(spans) != 1:
        return answer
    ((start, end),) = spans
    return f"{answer[:start]}{{A|{answer[start:end]}}}{answer[end:]}"


def passing_mentions(code):
    """Yield answers and denials after a sentence that mentions a candidate in passing."""
    rng = random.Random(f"passing mentions {code}")
    phrases, corpus = phrases_of(STANCE_PHRASES, code), MirageDataset.bundled(code)
    gap = "" if code in ("ja", "zh") else " "

    def in_context(kind, query, text, commits, mentioned):
        context = rng.choice(phrases["contexts"]).format(x=f"{{O|{mentioned[0]}}}")
        parts = [context, text, rng.choice(phrases["closings"])]
        whole = gap.join(parts[: rng.choice((2, 3, 3))])
        return marked_text(code, f"context {kind}", query, whole, commits)

    lines = (ROOT / "corpora" / "claims" / f"{code}.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines):
        query = corpus[row["query_id"]]
        if row["kind"].startswith("plain_denial"):
            yield in_context("denial", query, row["text"], "none", query.answers[0])
    for query in with_one_answer(code):
        texts = bundled_texts(code)[query.id]
        for answer, true in ((rng.choice(texts.true), True), (texts.false, False)):
            text = marked_as_asserted(code, query, answer, true)
            kind, commits = ("true", "right") if true else ("false", "wrong")
            for mentioned in (query.answers[0], rng.choice(query.wrong_answers)):
                yield in_context(kind, query, text, commits, mentioned)


def weight(text):
    """Return the weight of a training text."""
    if text.kind.startswith(("stance", "choice")):
        return WEIGHT_OF_STANCE_PHRASES
    if text.kind.startswith(ORDINARY):
        return WEIGHT_OF_ORDINARY_TEXTS
    if text.commits == "right" and text.kind.startswith(AFFIRMATIONS):
        return WEIGHT_OF_AFFIRMATIONS
    return WEIGHT_OF_LIES if text.commits == "wrong" and not text.side else 1.0


def rows_of(number, text):
    """Yield the mentions of a text with their signs and stances."""
    places = located(text.text, text.candidates, text.language)
    mentioned = [Mentioned(start, end, text.groups[index]) for start, end, index in places]
    signs = mention_signs(text.text, mentioned, text.language, text.question)
    for place, row in zip(places, signs, strict=True):
        yield Row(number, row, place, stance_at(text, place, places))


def training_texts(code):
    """Return all texts that the trees of a language may be trained on."""
    yield from marked_texts(ROOT / "corpora" / "claims", code)
    yield from plain_texts(code)
    yield from phrased_texts(code)
    yield from stance_texts(code)
    yield from choice_texts(code)
    yield from references(code)
    yield from framed_texts(code)
    yield from sourced_texts(code)
    yield from passing_mentions(code)
    yield from aside_texts(code)
    yield from texts_beside_negations(code)
    yield from extended_texts(code)
    yield from repeated_texts(code)


def stance_at(text, place, places):
    """Return the marked stance, or asserted, other or unknown for a text without marks."""
    if text.stances or not (text.side or text.right or text.wrong):
        for start, end, stance in text.stances:
            if start < place[1] and place[0] < end:
                return stance
        return None
    group = text.groups[place[2]]
    if text.right or text.wrong:
        return text.wrong if group else text.right
    if group not in text.side:
        return text.rivals
    mentioned = {text.groups[index] for _, _, index in places} & text.side
    own = [index for _, _, index in places if text.groups[index] == group]
    # "A is often confused with B, but it is A" asserts A only once.
    is_clear = len(own) == 1 or text.rivals is Stance.OTHER
    return Stance.ASSERTED if is_clear and len(mentioned) == 1 else None


def is_learnable(row):
    """Return whether a mention is a training row.

    Nothing in the signs distinguishes "The evidence for 1928 has collapsed" from a plain answer if
    no word of it is in the lexicon. Learned as denials, such texts make plain answers denials.
    """
    if row.stance is Stance.DENIED:
        return any(row.signs[i] for i in EVIDENCE)
    return row.stance is not None


def fit(values, target, weight, **settings):
    """Return fitted boosted trees."""
    return GradientBoostingClassifier(
        **{
            "n_estimators": 200, "max_depth": 6, "learning_rate": 0.09, "subsample": 0.6,
            "max_features": 0.25, "min_samples_leaf": 6, "random_state": 0,
        } | settings
    ).fit(values, target, sample_weight=weight)  # fmt: skip


def fit_stances(rows, texts, use):
    """Return trees for stances, trained on the mentions for which ``use`` holds."""
    chosen = [row for row in rows if is_learnable(row) and use(texts[row.text])]
    values = np.array([row.signs for row in chosen])
    target = np.array([STANCES.index(row.stance) for row in chosen])
    return fit(values, target, np.array([weight(texts[row.text]) for row in chosen]))


def stance_probabilities(model, rows):
    out = np.zeros((len(rows), len(STANCES)))
    if rows:
        out[:, model.classes_] = model.predict_proba(np.array([row.signs for row in rows]))
    return out


def probabilities_of_part(texts, rows, fold, part):
    """Return the mentions of one part and their probabilities by trees of the other parts."""
    model = fit_stances(rows, texts, outside(texts, fold, part))
    index = [i for i, row in enumerate(rows) if fold[row.text] == part]
    return index, stance_probabilities(model, [rows[i] for i in index])


def commit_rows(texts, rows, probabilities):
    """Return signs, target and text of each group that a text mentions."""
    by_text = defaultdict(list)
    for row, chances in zip(rows, probabilities, strict=True):
        start, end, index = row.place
        mention = Mention(index, start, end, STANCES[int(np.argmax(chances))], tuple(chances))
        by_text[row.text].append(mention)
    for number, mentions in by_text.items():
        text = texts[number]
        present = sorted({text.groups[m.candidate] for m in mentions})
        signs = commit_signs(mentions, text.groups)
        for group, values in zip(present, signs, strict=True):
            yield number, group, values, commits_to(text, group, rows, number)


def commits_to(text, group, rows, number):
    if text.commits == "none":
        return False
    if text.side:
        return group in text.side
    right = text.commits == "right"
    if not text.stances:
        return (group == 0) == right
    asserted = {
        text.groups[row.place[2]]
        for row in _rows_by_text(rows)[number]
        if row.stance is Stance.ASSERTED
    }
    return group in asserted and (group == 0) == right


_cache: dict[int, dict[int, list[Row]]] = {}


def _rows_by_text(rows):
    if id(rows) not in _cache:
        by_text = defaultdict(list)
        for row in rows:
            by_text[row.text].append(row)
        _cache[id(rows)] = by_text
    return _cache[id(rows)]


def fit_commits(groups, texts, use):
    chosen = [g for g in groups if use(texts[g[0]])]
    values = np.array([g[2] for g in chosen])
    target = np.array([g[3] for g in chosen])
    weights = np.array([weight(texts[g[0]]) for g in chosen])
    small = {"n_estimators": 80, "max_depth": 3, "learning_rate": 0.1, "min_samples_leaf": 10}
    return fit(values, target, weights, max_features=0.5, **small)


def folds(texts, by):
    """Return the fold of each text, by language or by kind."""
    if by == "language":
        return [list(LANGUAGES).index(text.language) % FOLDS for text in texts]
    if by == "question":  # in all languages
        return [zlib.crc32(text.query.encode()) % FOLDS for text in texts]
    names = sorted({text.kind for text in texts})
    return [names.index(text.kind) for text in texts]


def outside(texts, fold, part):
    """Return whether a text is not in a part; texts are compared by identity."""
    inside = {id(text) for text, number in zip(texts, fold, strict=True) if number == part}
    return lambda text: id(text) not in inside


def cross_validate(texts, rows, by):
    """Return what each text commits to, by trees trained without its language and its kind."""
    fold = folds(texts, by)
    said = {}
    out_of_fold = np.zeros((len(rows), len(STANCES)))
    parts = sorted(set(fold))
    jobs = (delayed(probabilities_of_part)(texts, rows, fold, part) for part in parts)
    for index, probabilities in Parallel(n_jobs=-1)(jobs):
        out_of_fold[index] = probabilities
    groups = list(commit_rows(texts, rows, out_of_fold))
    for part in sorted(set(fold)):
        model = fit_commits(groups, texts, outside(texts, fold, part))
        for number, group, values, _ in groups:
            if fold[number] == part:
                chance = model.predict_proba([values])[0, 1]
                said.setdefault(number, {})[group] = chance
    return groups, said


def verdict(chances):
    """Return right, wrong or none."""
    first, second, *_ = *sorted(chances.values(), reverse=True), 0.0, 0.0
    if first < COMMITS_AT or first - second < CLEARLY:
        return "none"
    return "wrong" if max(chances, key=chances.__getitem__) else "right"


def report(title, texts, said):
    """Print precision and recall of asserted sides by kind and by language."""
    print(f"\n{title}")
    for by in ("kind", "language"):
        names = sorted({getattr(text, by) for text in texts})
        for name in names:
            counts = Counter()
            for number, text in enumerate(texts):
                if getattr(text, by) == name:
                    counts[text.commits, said.get(number, "none")] += 1
            print(f"  {name:24} {line(counts)}")
    counts = Counter((text.commits, said.get(number, "none")) for number, text in enumerate(texts))
    print(f"  {'all':24} {line(counts)}")


def line(counts):
    total = sum(counts.values())
    hits = sum(count for (truth, said), count in counts.items() if truth == said)
    asserted = sum(count for (_, said), count in counts.items() if said != "none")
    asserts = sum(count for (truth, _), count in counts.items() if truth != "none")
    both = sum(count for (truth, said), count in counts.items() if truth == said != "none")
    opposite = counts["right", "wrong"] + counts["wrong", "right"]
    precision, recall = both / max(1, asserted), both / max(1, asserts)
    return (
        f"{total:5} texts, read rightly {hits / total:.3f}; asserts: precision {precision:.3f} "
        f"recall {recall:.3f}; turned round {opposite}"
    )


def save(stances, commits):
    model = {
        "stances": {stance: forest_json(stances, k) for k, stance in enumerate(map(str, STANCES))},
        "stance_signs": MENTION_SIGNS,
        "commits": forest_json(commits, None),
        "commit_signs": COMMIT_SIGNS,
    }
    OUT.write_text(json.dumps(model, separators=(",", ":")).replace("]],", "]],\n") + "\n", "utf-8")


def forest_json(model, k):
    """Return one class of boosted trees as JSON; its prior is the log of its share."""
    prior = model.init_.class_prior_
    trees = model.estimators_[:, 0 if k is None else k]
    start = np.log(prior[1] / prior[0]) if k is None else np.log(prior[k])
    return {
        "start": round(float(start), 4),
        "trees": [nodes(tree.tree_, model.learning_rate) for tree in trees],
    }


def nodes(tree, rate):
    """Return the nodes of a tree; a sign is written as its number."""
    return [
        [round(float(tree.value[i].item()) * rate, 4)]
        if tree.children_left[i] < 0
        else [
            int(tree.feature[i]),
            round(float(tree.threshold[i]), 3),
            int(tree.children_left[i]),
            int(tree.children_right[i]),
        ]
        for i in range(tree.node_count)
    ]


def train(*, errors, ways):
    texts = [t for code in LANGUAGES for t in training_texts(code) if t.candidates]
    rows = [row for number, text in enumerate(texts) for row in rows_of(number, text)]
    lost = sum(
        not any(start < r.place[1] and r.place[0] < end for r in _rows_by_text(rows)[number])
        for number, text in enumerate(texts)
        for start, end, _ in text.stances
    )
    marks = sum(len(text.stances) for text in texts)
    print(f"{len(texts)} texts, {len(rows)} mentions, {lost} of {marks} marked ones not located")
    for by in ways:
        groups, chances = cross_validate(texts, rows, by)
        said = {number: verdict(each) for number, each in chances.items()}
        report(f"{by}s left out", texts, said)
        if errors:
            for number, text in enumerate(texts):
                if said.get(number, "none") != text.commits:
                    print(text.language, text.kind, text.commits, said.get(number), repr(text.text))
    stances = fit_stances(rows, texts, lambda _: True)
    save(stances, fit_commits(groups, texts, lambda _: True))


def test(*, errors):
    texts = [t for code in LANGUAGES for t in marked_texts(ROOT / "tests/data/claims", code)]
    said = {}
    for number, text in enumerate(texts):
        claims = read_claims(
            text.text, text.candidates, text.language, question=text.question, groups=text.groups
        )
        sides = {"wrong" if text.groups[i] else "right" for i in claims.committed}
        said[number] = sides.pop() if len(sides) == 1 else "none"
        if errors and said[number] != text.commits:
            print(text.language, text.kind, text.commits, said[number], repr(text.text))
    report("kinds that are in no training text", texts, said)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--errors", action="store_true", help="print what is read wrongly")
    parser.add_argument("--test", action="store_true", help="read the test texts")
    parser.add_argument("--all", action="store_true", help="cross-validate in every way")
    options = parser.parse_args()
    if options.test:
        test(errors=options.errors)
    else:
        every = ("kind", "language", "question")
        train(errors=options.errors, ways=every if options.all else every[-1:])

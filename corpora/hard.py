#!/usr/bin/env python3
"""hard.py LANG [--partial]: read the hard set, check it and print its faults.

The hard set has one folder per language, with one file per dossier: ``hard/LANG/NN-name.txt``. A
dossier consists of 12 to 15 passages, followed by five questions. Every question is shown all
passages of its dossier, in their order.

    P1: Title                   first line the title, next lines the text (P1 .. P15)
    The text of the passage ...
    # h01 join                  id and kind open a question
    Q: ...                      the question
    REL: 2 5                    positions of all passages that the answer needs
    DIFFICULTY: hard; 2 hops; why it is hard
    REASON: ... [2] ... [5]     reference, reason section
    REF: ... [2][5]             reference, answer section
    ANS: form | form            one line per answer; ANS*: in no relevant passage (such as a sum)
    WRONG: form | form # why    one line per wrong answer, and why a hasty reader gives it
    MENTIONS: form | form       wrong forms that a true text or an abstention may mention
    NAMED: form | form          right forms that a false text may contain
    TRUE1: TRUE2: TERSE: FALSE: FALSE2: TESTTRUE: TESTFALSE:      answerable
    ABST1: ABST2: INVENT: TESTABST: TESTINVENT:                   unanswerable
    // a comment line

A passage is relevant if the answer changes without it. Passages that only show that a wrong answer
is wrong are not relevant. ``hard/without.txt`` has a line for every relevant passage: what a
careful reader answers if that passage is missing.

A value runs on until the next key. With --partial, the number of dossiers and the balance of the
kinds are not checked. Exit status 1 if there are faults.
"""

import argparse
import math
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from check import FACTOR, SHARE, has, norm, overlap

from mirage.models import Passage as ShownPassage
from mirage.models import Query
from mirage.text import split_sentences, tokenize
from mirage.text.numbers import numbers

FOLDER = Path(__file__).resolve().parent / "hard"
KINDS = {
    "join": 5,
    "update": 5,
    "namesake": 5,
    "count": 5,
    "difference": 4,
    "sum": 4,
    "exception": 5,
    "table": 4,
    "order": 4,
    "conflict": 4,
    "unit": 5,
    "unanswerable": 10,
}
LEVELS = ("easy", "medium", "hard")
RIGHT = ("TRUE1", "TRUE2", "TERSE", "TESTTRUE")
LIES = ("FALSE", "FALSE2", "TESTFALSE")
ABSTENTIONS = ("ABST1", "ABST2", "TESTABST")
INVENTIONS = ("INVENT", "TESTINVENT")
MANY = ("ANS", "ANS*", "WRONG", "MENTIONS", "NAMED")
SINGLE = ("Q", "REL", "DIFFICULTY", "REASON", "REF", *RIGHT, *LIES, *ABSTENTIONS, *INVENTIONS)
KEY = re.compile(
    rf"^(P\d+|{'|'.join(map(re.escape, sorted((*SINGLE, *MANY), key=len, reverse=True)))})"
    r"[ \t]*[::][ \t]*(.*)$"
)
HEAD = re.compile(r"^#[ \t]*(h\d\d)[ \t]+(\w+)[ \t]*$")
CLOCK = re.compile(r"(?<![\d.,])(\d{1,2})\.(\d\d)(?![\d.,]?\d)")
CITATION = re.compile(r"\[(\d{1,2})\]")
DIFFICULTY = re.compile(rf"({'|'.join(LEVELS)}); ([0-5]) hops?; \S.*")
MOST_RIGHT = 0.15
"""Largest share of questions that a baseline may answer."""


class FormatError(Exception):
    """Raised when a file does not have the form of a dossier."""


@dataclass(frozen=True)
class Passage:
    """A passage of a dossier."""

    title: str
    text: str


@dataclass(frozen=True)
class Answer:
    """The surface forms of one short answer; ``derived`` if no relevant passage contains it."""

    forms: list[str]
    derived: bool


@dataclass(frozen=True)
class WrongAnswer:
    """The surface forms of one wrong answer, and why a hasty reader gives it."""

    forms: list[str]
    reason: str


@dataclass(frozen=True)
class Question:
    """A question with its record; ``relevant`` counts positions from 1."""

    id: str
    kind: str
    dossier: str
    text: str
    passages: list[Passage]
    relevant: list[int]
    difficulty: str
    reason: str
    reference: str
    answers: list[Answer]
    wrong_answers: list[WrongAnswer]
    mentions: list[str]
    named: list[str]
    texts: dict[str, str]

    @property
    def answerable(self) -> bool:
        return self.kind != "unanswerable"


def languages() -> list[str]:
    """Return the languages of which there is a folder, English first."""
    codes = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
    return sorted(codes, key=lambda code: code != "en")


def read(language: str, folder: Path = FOLDER) -> list[Question]:
    """Read all dossiers of a language, in the order of their file names."""
    paths = sorted((folder / language).glob("*.txt"))
    return [question for path in paths for question in read_dossier(path)]


def read_dossier(path: Path) -> list[Question]:
    """Read the questions of one file, each with all passages of the dossier."""
    header, *blocks = _blocks(path)
    passages = []
    for position, (key, value) in enumerate(header[2], 1):
        if key != f"P{position}":
            raise FormatError(f"{path.name}: expected P{position}, got {key}")
        title, _, text = value.partition("\n")
        passages.append(Passage(title.strip(), _one_line(text)))
    return [_question(block, path.stem, passages) for block in blocks]


def _blocks(path: Path) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Split a file into the block of its passages and those of its questions."""
    blocks: list[tuple[str, str, list[tuple[str, list[str]]]]] = [("", "", [])]
    for number, raw in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        line = raw.rstrip()
        if line.startswith("//"):
            continue
        items = blocks[-1][2]
        if head := HEAD.match(line):
            blocks.append((head[1], head[2], []))
        elif key := KEY.match(line):
            if key[1] not in MANY and any(name == key[1] for name, _ in items):
                raise FormatError(f"{path.name}:{number}: {key[1]} a second time")
            items.append((key[1], [key[2]]))
        elif items:
            items[-1][1].append(line)
        elif line:
            raise FormatError(f"{path.name}:{number}: text before the first key: {line[:60]!r}")
    return [
        (id, kind, [(key, "\n".join(lines).strip()) for key, lines in items])
        for id, kind, items in blocks
    ]


def _question(
    block: tuple[str, str, list[tuple[str, str]]], dossier: str, passages: list[Passage]
) -> Question:
    id, kind, items = block
    values = {key: value for key, value in items if key not in MANY}
    needed = ["Q", "DIFFICULTY", "REASON", "REF"]
    needed += (*ABSTENTIONS, *INVENTIONS) if kind == "unanswerable" else ("REL", *RIGHT, *LIES)
    if missing := [key for key in needed if not values.get(key)]:
        raise FormatError(f"{dossier} {id}: missing {', '.join(missing)}")
    if odd := [key for key in values if key not in needed]:
        raise FormatError(f"{dossier} {id}: {', '.join(odd)} in a question of kind {kind}")
    wrong = [value.partition(" # ") for key, value in items if key == "WRONG"]
    return Question(
        id=id,
        kind=kind,
        dossier=dossier,
        text=_one_line(values["Q"]),
        passages=passages,
        relevant=[int(position) for position in values.get("REL", "").split()],
        difficulty=_one_line(values["DIFFICULTY"]),
        reason=_one_line(values["REASON"]),
        reference=_one_line(values["REF"]),
        answers=[
            Answer(_forms(value), key == "ANS*") for key, value in items if key in ("ANS", "ANS*")
        ],
        wrong_answers=[WrongAnswer(_forms(forms), why.strip()) for forms, _, why in wrong],
        mentions=[form for key, value in items if key == "MENTIONS" for form in _forms(value)],
        named=[form for key, value in items if key == "NAMED" for form in _forms(value)],
        texts={
            key: values[key]
            for key in (*RIGHT, *LIES, *ABSTENTIONS, *INVENTIONS)
            if values.get(key)
        },
    )


def query(question: Question, language: str) -> Query:
    """Return a question as the library's record; its dossier is its cluster."""
    number = 2000 + int(question.dossier[:2])
    level = DIFFICULTY.fullmatch(question.difficulty)
    if level is None:
        raise FormatError(f"{question.id}: DIFFICULTY is not 'LEVEL; N hops; why'")

    def cite(text: str) -> str:
        return CITATION.sub(lambda mark: f"[{number}#{int(mark[1]) - 1}]", text)

    return Query(
        id=question.id,
        language=language,
        text=question.text,
        passages=tuple(
            ShownPassage(id=f"{number}#{index}", text=passage.text, title=passage.title)
            for index, passage in enumerate(question.passages)
        ),
        relevant=tuple(f"{number}#{position - 1}" for position in question.relevant),
        reference=f"##Reason: {cite(question.reason)}\n##Answer: {cite(question.reference)}",
        answerable=question.answerable,
        answers=tuple(tuple(answer.forms) for answer in question.answers),
        wrong_answers=tuple(tuple(wrong.forms) for wrong in question.wrong_answers),
        cluster=question.dossier,
        metadata={
            "kind": question.kind,
            "difficulty": level[1],
            "hops": level[2],
        },
    )


# Files of the package -----------------------------------------------------------------------------


def dossiers(questions: list[Question], language: str) -> list[dict[str, Any]]:
    """Return a row for each dossier: its passages once, and its queries without passages."""
    rows: dict[str, dict[str, Any]] = {}
    for question in questions:
        plain = query(question, language).model_dump(mode="json", exclude_defaults=True)
        shared = {name: plain.pop(name) for name in ("cluster", "passages")}
        rows.setdefault(question.dossier, {**shared, "queries": []})["queries"].append(plain)
    return list(rows.values())


def responses(question: Question) -> dict[str, Any]:
    """Return the texts of the simulated systems for a question, without those of the test set.

    ``other_false`` is a second lie, which gives another wrong answer.
    """
    texts = question.texts
    if question.answerable:
        true, terse, false = [texts["TRUE1"], texts["TRUE2"]], texts["TERSE"], texts["FALSE"]
    else:
        true, false = [texts["ABST1"], texts["ABST2"]], texts["INVENT"]
        terse = min(true, key=len)
    row = {"query_id": question.id, "true": true, "terse": terse, "false": false}
    return row | ({"other_false": texts["FALSE2"]} if question.answerable else {})


def held_out(question: Question) -> dict[str, str]:
    """Return the texts of the test set for a question."""
    kinds = {"TESTTRUE": "true", "TESTFALSE": "false"}
    kinds |= {"TESTABST": "abstention", "TESTINVENT": "invention"}
    texts = {kind: question.texts[key] for key, kind in kinds.items() if key in question.texts}
    return {"query_id": question.id} | texts


def _forms(value: str) -> list[str]:
    return [form.strip() for form in value.split("|") if form.strip()]


def _one_line(text: str) -> str:
    return re.sub(r"[ \t\n]+", " ", text).strip()


def read_ablations(folder: Path = FOLDER) -> dict[tuple[str, int], str]:
    """Return what a careful reader answers without a passage, by question and position."""
    lines = (folder / "without.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.partition(": ") for line in lines if line and not line.startswith("//")]
    return {(head[:3], int(head[3:])): answer for head, _, answer in rows}


def cited(text: str) -> set[int]:
    """Return the positions that a text cites."""
    return {int(position) for position in CITATION.findall(text)}


def holds(text: str, form: str, language: str) -> bool:
    """Return whether a text holds a form outside its citations."""
    return bool(has(CITATION.sub(" ", text), form, language))


def holds_answers(text: str, question: Question, language: str) -> bool:
    """Return whether a text holds every answer of a question in one of its forms."""
    return bool(question.answers) and all(
        any(holds(text, form, language) for form in answer.forms) for answer in question.answers
    )


# Baselines ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Baselines:
    """Shares of the questions that systems without reading would answer."""

    first_sentence: float
    best_sentence: float
    best_passage: float
    random_passage: float


def best_match(question: Question, texts: list[str], language: str) -> int:
    """Return the index of the text that shares most with the question, rare words first."""
    words = [set(tokenize(text, language)) for text in texts]
    frequency = Counter(word for text in words for word in text)
    asked = set(tokenize(question.text, language))
    scores = [
        sum(math.log(1 + len(words) / frequency[word]) for word in asked & text) for text in words
    ]
    return scores.index(max(scores))


def baselines(questions: list[Question], language: str) -> Baselines:
    """Return how many questions the baselines answer, as shares of all questions.

    The baselines answer with the first sentence of the passage that matches the question best, with
    the sentence that matches it best, with the whole passage that matches it best, or with a
    passage drawn at random. They never abstain, so they are wrong whenever no passage answers.
    """
    first, sentence, whole, chance = 0, 0, 0, 0.0
    for question in questions:
        passages = [f"{passage.title} {passage.text}" for passage in question.passages]
        best = question.passages[best_match(question, passages, language)]
        sentences = [
            sentence
            for passage in question.passages
            for sentence in split_sentences(passage.text, language)
        ]
        first += holds_answers(split_sentences(best.text, language)[0], question, language)
        closest = sentences[best_match(question, sentences, language)]
        sentence += holds_answers(closest, question, language)
        whole += holds_answers(best.text, question, language)
        hits = sum(holds_answers(passage.text, question, language) for passage in question.passages)
        chance += hits / len(question.passages)
    total = len(questions) or 1
    return Baselines(first / total, sentence / total, whole / total, chance / total)


# Checks -------------------------------------------------------------------------------------------


def check(language: str, folder: Path = FOLDER, partial: bool = False) -> list[str]:
    """Return the faults of a language, an empty list if there are none."""
    questions = read(language, folder)
    english = {question.id: question for question in read("en", folder)}
    faults = [] if partial else _check_whole(questions)
    if language == "en" and not partial:
        faults += _check_ablations(questions, read_ablations(folder))
    for question in questions:
        faults += [f"{question.id}: {fault}" for fault in _check_passages(question, language)]
        faults += [f"{question.id}: {fault}" for fault in _check_record(question, language)]
        faults += [f"{question.id}: {fault}" for fault in _check_texts(question, language)]
        faults += [f"{question.id}: {fault}" for fault in _check_lies(question, language)]
        faults += [f"{question.id}: {fault}" for fault in _check_overlaps(question)]
        if language != "en":
            faults += [
                f"{question.id}: {fault}"
                for fault in _check_parallel(question, english.get(question.id), language)
            ]
    for name, share in vars(baselines(questions, language)).items():
        if share > MOST_RIGHT:
            faults.append(f"the baseline {name} answers {share:.1%}, more than {MOST_RIGHT:.0%}")
    return list(dict.fromkeys(faults))


def _check_whole(questions: list[Question]) -> list[str]:
    faults = []
    if [question.id for question in questions] != [f"h{n:02d}" for n in range(1, 61)]:
        faults.append("ids are not h01 .. h60 in order")
    kinds = Counter(question.kind for question in questions)
    if kinds != KINDS:
        faults.append(f"kinds: {dict(kinds)} instead of {KINDS}")
    sizes = Counter(question.dossier for question in questions)
    faults += [f"{name}: {size} questions, not 5" for name, size in sizes.items() if size != 5]
    return faults


def _check_ablations(questions: list[Question], ablations: dict[tuple[str, int], str]) -> list[str]:
    """Check that each relevant passage has a line in ``without.txt`` that lacks the answer."""
    needed = {(question.id, position) for question in questions for position in question.relevant}
    faults = [f"{id}: without.txt lacks P{n}" for id, n in sorted(needed - set(ablations))]
    faults += [f"{id}: without.txt has P{n}" for id, n in sorted(set(ablations) - needed)]
    return faults + [
        f"{question.id}: answered without P{position}"
        for question in questions
        for position in question.relevant
        if holds_answers(ablations.get((question.id, position), ""), question, "en")
    ]


def _check_passages(question: Question, language: str) -> list[str]:
    faults = []
    if not 12 <= len(question.passages) <= 15:
        faults.append(f"{len(question.passages)} passages, not 12 to 15")
    for position, passage in enumerate(question.passages, 1):
        if not passage.title or not passage.text:
            faults.append(f"P{position}: no title or text")
        if (
            language in SHARE
        ):  # their passages are compared with the English ones in _check_parallel
            continue
        factor = FACTOR.get(language, 1)
        low, high = int(60 * factor), int(120 * max(factor, 1))
        size = len(passage.text.split())
        if not low <= size <= high:
            faults.append(f"P{position}: {size} words, not {low} to {high}")
    return faults


def _check_record(question: Question, language: str) -> list[str]:
    """Check the record of a question: kind, positions, citations of the reference, answers."""
    faults = []
    relevant, positions = set(question.relevant), set(range(1, len(question.passages) + 1))
    if question.kind not in KINDS:
        faults.append(f"unknown kind {question.kind}")
    difficulty = DIFFICULTY.fullmatch(question.difficulty)
    if not difficulty:
        faults.append("DIFFICULTY is not 'LEVEL; N hops; why'")
    elif question.answerable and int(difficulty[2]) < 2:
        faults.append("an answerable question needs at least 2 hops")
    if len(question.wrong_answers) < 2:
        faults.append("fewer than two wrong answers")
    if any(not wrong.reason or not wrong.forms for wrong in question.wrong_answers):
        faults.append("a wrong answer without forms or a reason after ' # '")
    right = {norm(form) for answer in question.answers for form in answer.forms}
    wrong = {norm(form) for names in question.wrong_answers for form in names.forms}
    if right & wrong:
        faults.append(f"right and wrong: {sorted(right & wrong)}")
    if not question.answerable:
        if question.answers or relevant:
            faults.append("unanswerable, but has ANS or REL")
        if cited(question.reference):
            faults.append("unanswerable, but REF cites a passage")
        return faults
    if not question.answers:
        faults.append("no ANS")
    if len(relevant) < 2 or len(relevant) != len(question.relevant) or relevant - positions:
        faults.append(f"REL {question.relevant} are not two or more positions of passages")
        return faults
    if cited(question.reference) != relevant:
        faults.append(f"REF cites {sorted(cited(question.reference))}, not {sorted(relevant)}")
    if relevant - cited(question.reason):
        faults.append(f"REASON does not cite {sorted(relevant - cited(question.reason))}")
    for answer in question.answers:
        if any(holds(question.text, form, language) for form in answer.forms):
            faults.append(f"the question holds the answer {answer.forms}")
        inside = any(
            holds(f"{passage.title} {passage.text}", form, language)
            for passage in (question.passages[position - 1] for position in relevant)
            for form in answer.forms
        )
        if not inside and not answer.derived:
            faults.append(f"no relevant passage holds {answer.forms} (ANS* if it is derived)")
    faults += _check_single_passages(question, language)
    return faults


def _check_single_passages(question: Question, language: str) -> list[str]:
    """Check that no passage contains the answers and all words of the question."""
    asked = set(tokenize(question.text, language))
    return [
        f"P{position} holds the answer and all words of the question"
        for position, passage in enumerate(question.passages, 1)
        if holds_answers(passage.text, question, language)
        and asked <= set(tokenize(f"{passage.title} {passage.text}", language))
    ]


def _check_texts(question: Question, language: str) -> list[str]:
    """Check which answers the reference and the responses state, and which passages they cite."""
    faults = []
    relevant, positions = set(question.relevant), set(range(1, len(question.passages) + 1))
    wrong = [form for names in question.wrong_answers for form in names.forms]
    right = [form for answer in question.answers for form in answer.forms]
    for key, text in {
        **question.texts,
        "REASON": question.reason,
        "REF": question.reference,
    }.items():
        marks = re.findall(r"\[([^\]]*)\]", text)
        if odd := [mark for mark in marks if not mark.isdecimal() or int(mark) not in positions]:
            faults.append(f"{key}: odd citations {odd}")
        lies = [form for form in wrong if holds(text, form, language)]
        truths = [form for form in right if holds(text, form, language)]
        if key in (*LIES, *INVENTIONS):
            one_sided = question.kind == "conflict" and bool(truths)
            if not lies and not one_sided:
                faults.append(f"{key}: no wrong form of {wrong}")
            if question.kind == "conflict":
                if holds_answers(text, question, language):
                    faults.append(f"{key}: names both sides of the conflict")
            elif extra := [form for form in truths if form not in question.named]:
                faults.append(f"{key}: right forms {extra} (needs NAMED)")
            if not cited(text):
                faults.append(f"{key}: cites nothing")
        elif key != "REASON":
            if extra := [form for form in lies if form not in question.mentions]:
                faults.append(f"{key}: wrong forms {extra} (needs MENTIONS)")
            if question.answerable and not holds_answers(text, question, language):
                faults.append(
                    f"{key}: an answer of {[a.forms for a in question.answers]} is missing"
                )
            if key in RIGHT and not cited(text) & relevant:
                faults.append(f"{key}: cites no relevant passage")
    return faults


def _check_lies(question: Question, language: str) -> list[str]:
    """Return faults of two lies of a question that give the same wrong answer."""
    if not question.answerable or question.kind == "conflict":
        return []
    answers = [
        {
            index
            for index, wrong in enumerate(question.wrong_answers)
            if any(holds(question.texts[key], form, language) for form in wrong.forms)
        }
        for key in ("FALSE", "FALSE2")
    ]
    return ["FALSE and FALSE2 give the same wrong answers"] if answers[0] == answers[1] else []


def _check_overlaps(question: Question) -> list[str]:
    """Check that responses do not repeat the reference or each other."""
    faults = []
    texts = {key: CITATION.sub(" ", text) for key, text in question.texts.items() if key != "TERSE"}
    texts["REF"] = CITATION.sub(" ", question.reference)
    keys = list(texts)
    for index, key in enumerate(keys):
        for other in keys[index + 1 :]:
            if (share := overlap(texts[key], texts[other])) >= 0.6:
                faults.append(f"{key} and {other}: overlap {share:.2f}")
    return faults


def _check_parallel(question: Question, english: Question | None, language: str) -> list[str]:
    """Compare a translated question with its English source."""
    if english is None:
        return ["not in English"]
    faults = []
    for name in ("kind", "dossier", "relevant", "difficulty"):
        if getattr(question, name) != getattr(english, name):
            faults.append(f"{name} differs from English")
    if [a.derived for a in question.answers] != [a.derived for a in english.answers]:
        faults.append("answers differ from English")
    if len(question.wrong_answers) != len(english.wrong_answers):
        faults.append("wrong answers differ from English")
    if len(question.passages) != len(english.passages):
        return [*faults, "passages differ from English"]
    for position, (passage, source) in enumerate(
        zip(question.passages, english.passages, strict=True), 1
    ):
        if language in SHARE:
            low, high = (int(share * len(source.text)) for share in SHARE[language])
            if not low <= len(passage.text) <= high:
                faults.append(f"P{position}: {len(passage.text)} characters, not {low} to {high}")
        if missing := _long_numbers(source.text) - _long_numbers(passage.text):
            faults.append(f"P{position}: lacks the numbers {sorted(missing)}")
    return faults


def _long_numbers(text: str) -> set[str]:
    """Return the numbers of a text without those of one digit, which may be written as words.

    Hours and minutes are two numbers, whether written 22:30 or 22.30.
    """
    marks = numbers(CLOCK.sub(r"\1:\2", text))
    return {number for mark in marks if len(number := mark.lstrip("0")) > 1}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("language", nargs="?", default="en")
    parser.add_argument("--partial", action="store_true", help="for a set in progress")
    options = parser.parse_args()
    faults = check(options.language, partial=options.partial)
    for fault in faults:
        print(fault)
    questions = read(options.language)
    print(f"kinds: {dict(Counter(question.kind for question in questions))}")
    print(f"relevant: {dict(sorted(Counter(len(q.relevant) for q in questions).items()))}")
    print(f"levels: {dict(Counter(q.difficulty.partition(';')[0] for q in questions))}")
    for name, share in vars(baselines(questions, options.language)).items():
        print(f"{name}: {share:.1%}")
    print(f"{options.language}: {len(questions)} questions, {len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())

"""How well faults that were inserted into true texts are marked, by language and type.

    python validation/truth/spans.py [--languages en,sw] [--test] [--misses]

The script inserts one fault into each text, and records its position. The texts are the true
responses of the bundled benchmark's sources, and sentences of its passages. A fault is a replaced
number, year, day, month or name; an added or removed negation; an added sentence in another
language; or a citation of no passage or of the wrong one. Faults are made without using the rules
that search for them. Names are replaced with right answers of other queries ("name"), or with the
query's own wrong answers ("wrong answer"). Sentences of passages ("quotes") are no answers, so
their query has no short answers.

A mark is correct if it overlaps the fault and has its type (a number for a year, or the reverse, is
accepted). Every other mark is wrong. F1 combines the share of marks that are correct with the share
of faults that are found. The last column is the share of unchanged true responses with any mark.
``--test`` uses the test responses.
"""

from __future__ import annotations

import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage.features import answered, spans
from mirage.languages import LANGUAGES
from mirage.models import Query, Response
from mirage.text import split_sentences
from mirage.text.lexicon import lexicon
from mirage.text.words import IN_WORD, WORD

Record = dict[str, Any]
KINDS = (
    "number",
    "number word",
    "year",
    "day",
    "name",
    "wrong answer",
    "negation in",
    "negation out",
    "sentence",
    "clause",
    "no passage",
    "wrong passage",
)
# Kinds of fault that were added after the rules; the rules were not changed for them.
HELD_OUT = ("digits turned", "next year", "strange sentence", "two of none")
TYPES = {
    "digits turned": {"number", "date"},
    "next year": {"date", "number"},
    "strange sentence": {"number", "date", "name"},
    "two of none": {"citation"},
    "number": {"number", "date"},
    "number word": {"number", "date"},
    "year": {"date", "number"},
    "day": {"date", "number"},
    "name": {"name"},
    "wrong answer": {"name", "number", "date", "negation"},
    "negation in": {"negation"},
    "negation out": {"negation"},
    "sentence": {"language"},
    "clause": {"language"},
    "no passage": {"citation"},
    "wrong passage": {"citation"},
}
OF_TYPE = {
    "number": ("number", "number word"),
    "date": ("year", "day"),
    "name": ("name", "wrong answer"),
    "negation": ("negation in", "negation out"),
    "language": ("sentence", "clause"),
    "citation": ("no passage", "wrong passage"),
}
# How a statement is negated: the text before the arrow is replaced once.
NEGATED = {
    "ar": ((r"(?<= )(كان|كانت) ", r"لم يكن "), (r" (ي\w{3,}|ت\w{3,}) ", r" لا \1 ")),
    "bn": ((r"(ছে|ছেন|েন|ল|লেন|ে|য়)।", r"\1 না।"),),
    "de": ((r" (ist|war|sind|waren|hat|wurde|wird|kann) ", r" \1 nicht "),),
    "en": ((r" (is|was|are|were|has|had|can|will) ", r" \1 not "),),
    "es": ((r" (es|fue|está|era|tiene|son|se) ", r" no \1 "),),
    "fa": ((r" است", " نیست"), (r" می\u200c", " نمی\u200c"), (r" (شد|بود|کرد)", r" ن\1")),
    "fi": ((r" on ", " ei ole "), (r" oli ", " ei ollut ")),
    "fr": ((r" (est|sont|fut|était|sert|peut) ", r" ne \1 pas "), (r" a ", " n'a pas ")),
    "hi": ((r" (है|हैं|था|थी|थे)।", r" नहीं \1।"),),
    "id": ((r" (adalah|di\w{4,}|me\w{4,}|ber\w{4,}) ", r" tidak \1 "),),
    "ja": (
        (r"です。", "ではありません。"),
        (r"ました。", "ませんでした。"),
        (r"ます。", "ません。"),
        (r"った。", "わなかった。"),
        (r"(て|で)いる。", r"\1いない。"),
        (r"れる。", "れない。"),
        (r"ある。", "ない。"),
        (r"した。", "しなかった。"),
    ),
    "ko": (
        (r"있다\.", "있지 않다."),
        (r"한다\.", "하지 않는다."),
        (r"했다\.", "하지 않았다."),
        (r"된다\.", "되지 않는다."),
        (r"습니다\.", "지 않습니다."),
        (r"이다\.", "이 아니다."),
    ),
    "ru": (
        (r" (был|была|было|были|может) ", r" не \1 "),
        (r" (\w{3,}(?:ет|ит|ют|ал|ла)) ", r" не \1 "),
    ),
    "sw": ((r" ni ", " si "), (r" kuna ", " hakuna "), (r" ina ", " haina ")),
    "te": ((r"ఉంది", "లేదు"), (r"ఉన్నాయి", "లేవు"), (r"(\w)\.", r"\1 కాదు.")),
    "th": ((r"(เป็น|มี|อยู่|ได้)", r"ไม่\1"),),
    "yo": ((r" (jẹ́|ní|wà|máa|lè) ", r" kò \1 "),),
    "zh": ((r"是", "不是"), (r"有", "没有"), (r"在", "不在")),
}
OTHERS = {"en": ("es", "id", "de")}


class Case(NamedTuple):
    """A text with one fault, the position of the fault, and the query."""

    query: Query
    kind: str
    text: str
    start: int
    end: int


def queries(records: list[Record]) -> dict[str, Query]:
    """Return the queries, by id."""
    keys = Query.model_fields.keys() - {"metadata"}
    return {
        record["id"]: Query(**{key: record[key] for key in keys if key in record})
        for record in records
    }


def true_texts(record: Record, test: bool) -> list[str]:
    """Return the true responses of a query: in their own words, or the test set's."""
    if record["answerable"]:
        return [record["test"]["true"]] if test else record["responses"]["true"]
    return [record["test"]["abstention"]] if test else record["responses"]["abstentions"]


def quotes(record: Record, rng: random.Random) -> list[str]:
    """Return two sentences of a passage that answers, with their citation."""
    texts = []
    for place, passage in enumerate(record["passages"], 1):
        sentences = split_sentences(passage["text"], record["language"])
        if len(sentences) > 2:
            first = rng.randrange(len(sentences) - 1)
            texts.append(" ".join(sentences[first : first + 2]) + f" [{place}].")
    return texts


def held(record: Record) -> str:
    """Return all texts from which a response may take its facts."""
    texts = [passage["title"] + " " + passage["text"] for passage in record["passages"]]
    forms = [form for answer in record["answers"] for form in answer]
    return " ".join([*texts, record["text"], *forms]).casefold()


def replaced(text: str, start: int, end: int, by: str) -> tuple[str, int, int]:
    """Return a text with a part replaced, and the position of the new part."""
    return text[:start] + by + text[end:], start, start + len(by)


def cases(language: str, test: bool, seed: int = 0) -> Iterator[Case]:
    """Yield texts with one fault each."""
    import build

    rng = random.Random(f"{language} {seed}")
    records = build.build(language)
    english = {record["id"]: record for record in build.build("en")}
    foreign = {
        code: {record["id"]: record for record in build.build(code)}
        for code in OTHERS.get(language, ("en",))
    }
    names = {
        record["id"]: record["answers"][0][0]
        for record in records
        if record["answerable"] and is_name(english[record["id"]]["answers"][0][0])
    }
    by_id = queries(records)
    for record in records:
        if not record["answerable"]:
            continue
        query, source = by_id[record["id"]], held(record)
        bare = query.model_copy(update={"answers": (), "wrong_answers": ()})
        own = [(text, False) for text in true_texts(record, test)]
        for text, is_quote in own + [(text, True) for text in quotes(record, rng)[:2]]:
            for kind, made in (
                ("number", number(text, source, rng)),
                ("number word", number_word(text, source, language, rng)),
                ("year", year(text, source, rng)),
                ("day", month(text, source, language, rng)),
                ("name", name(text, record, names, source, rng)),
                ("wrong answer", None if is_quote else wrong_answer(text, record, rng)),
                ("negation in", negation_in(text, language) if is_quote else None),
                ("negation out", negation_out(text, language) if is_quote else None),
                ("sentence", sentence(text, record, foreign, rng)),
                ("clause", clause(text, record, foreign, rng)),
                ("no passage", no_passage(text, rng)),
                ("wrong passage", wrong_passage(text, record, rng)),
                ("digits turned", digits_turned(text, source)),
                ("next year", next_year(text, source)),
                ("strange sentence", strange_sentence(text, record, records, rng)),
                ("two of none", two_of_none(text)),
            ):
                if made is not None:
                    yield Case(bare if is_quote else query, kind, *made)


Made = tuple[str, int, int] | None


def is_name(form: str) -> bool:
    """Return whether an English answer is a name."""
    return form[:1].isupper() and form.replace(" ", "").isalpha() and len(form) > 3


_NUMBER = re.compile(r"(?<![\w\[.,:])\d[\d.,]*\d(?![\d\]])|(?<![\w\[.,:])[4-9](?![\d\].):])")


def number(text: str, source: str, rng: random.Random) -> Made:
    """Replace a number with one that has other digits."""
    matches = [m for m in _NUMBER.finditer(text) if not re.fullmatch(r"1\d{3}|20\d\d", m[0])]
    for match in matches[:1]:
        for _ in range(20):
            digits = re.sub(r"\d", lambda _: rng.choice("123456789"), match[0])
            if digits not in source and digits.replace(",", "").replace(".", "") not in source:
                return replaced(text, *match.span(), digits)
    return None


def number_word(text: str, source: str, language: str, rng: random.Random) -> Made:
    """Replace a number word for four or more with another one."""
    numbers = lexicon(language).numbers
    word_only = re.compile(rf"[{IN_WORD}]+")
    if LANGUAGES[language].tokens == "character":
        return None
    words = {
        word: value
        for word, value in numbers.items()
        if 4 <= value <= 90 and word_only.fullmatch(word)
    }
    for match in WORD.finditer(text):
        if match[0] in words:
            others = [w for w, v in words.items() if v != words[match[0]] and w not in source]
            others = [w for w in others if str(words[w]) not in source]
            if others:
                return replaced(text, *match.span(), rng.choice(others))
    return None


def year(text: str, source: str, rng: random.Random) -> Made:
    """Replace a year with another year."""
    for match in re.finditer(r"(?<![\d\[.,])(1\d{3}|20\d\d)(?![\d\].,]\d|\d|\])", text):
        for _ in range(20):
            other = str(int(match[0]) + rng.choice((-1, 1)) * rng.randint(2, 60))
            if other not in source:
                return replaced(text, *match.span(), other)
    return None


def month(text: str, source: str, language: str, rng: random.Random) -> Made:
    """Replace a month next to a day or a year with another month."""
    months = {
        m: n for m, n in lexicon(language).months.items() if len(m) > 3 or "月" in m or "월" in m
    }
    for word, value in sorted(months.items(), key=lambda item: -len(item[0])):
        match = re.search(
            rf"\d+\D{{1,6}}{re.escape(word)}|{re.escape(word)}\D{{1,6}}\d+", text, re.I
        )
        if match is None:
            continue
        start = text.casefold().index(word, match.start())
        others = [m for m, n in months.items() if n != value and m not in source]
        if others:
            by = rng.choice(others)
            by = by.capitalize() if text[start].isupper() else by
            return replaced(text, start, start + len(word), by)
    return None


def name(text: str, record: Record, names: dict[str, str], source: str, rng: random.Random) -> Made:
    """Replace the name that answers the query with one that answers another query."""
    if record["id"] not in names:
        return None
    place = stated(text, record["answers"][0])
    others = [other for other in names.values() if other.casefold() not in source]
    return replaced(text, *place, rng.choice(others)) if place and others else None


def stated(text: str, forms: list[str]) -> tuple[int, int] | None:
    """Return where a text states an answer."""
    for form in sorted(forms, key=len, reverse=True):
        begins = r"\b" if form.isascii() else ""
        match = re.search(rf"(?<!\d){begins}{re.escape(form)}(?!\d)", text, re.I)
        if match:
            return match.span()
    return None


def wrong_answer(text: str, record: Record, rng: random.Random) -> Made:
    """Replace a right answer with a wrong one of the same query."""
    for answer in record["answers"][:1]:
        if place := stated(text, answer):
            return replaced(text, *place, rng.choice(record["wrong_answers"])[0])
    return None


def negation_in(text: str, language: str) -> Made:
    """Negate a statement of a passage."""
    for pattern, by in NEGATED[language]:
        if match := re.search(pattern, text):
            return replaced(text, *match.span(), match.expand(by))
    return None


def negation_out(text: str, language: str) -> Made:
    """Remove a negation of a passage; the position is that of the words around it."""
    words = sorted(lexicon(language).negation, key=len, reverse=True)
    spaced = LANGUAGES[language].tokens == "word"
    for word in words:
        if "*" in word or len(word) < 2 + spaced - (language == "zh"):
            continue
        pattern = rf"(?<=\s){re.escape(word)}\s" if spaced else re.escape(word)
        if match := re.search(pattern, text):
            out, start, _ = replaced(text, *match.span(), "")
            return out, max(start - 12, 0), min(start + 12, len(out))
    return None


def sentence(
    text: str,
    record: Record,
    foreign: dict[str, dict[str, Record]],
    rng: random.Random,
) -> Made:
    """Add a sentence in another language at the end."""
    code = rng.choice(list(foreign))
    other = foreign[code][record["id"]]["responses"]["true"][0]
    body = re.sub(r"\s*\[\d\]|\*+", "", split_sentences(other, code)[0])
    return (f"{text} {body}", len(text) + 1, len(text) + 1 + len(body)) if len(body) > 25 else None


def clause(
    text: str, record: Record, foreign: dict[str, dict[str, Record]], rng: random.Random
) -> Made:
    """Put the end of the first sentence into another language."""
    code = rng.choice(list(foreign))
    other = foreign[code][record["id"]]["responses"]["true"][-1]
    words = re.sub(r"\s*\[\d\]|\*+", "", split_sentences(other, code)[0]).split()[-9:]
    stop = re.search(r"\[\d\]", text)
    if stop is None or len(words) < 9:
        return None
    start = stop.start() - len(text[: stop.start()]) // 3
    start += (text[start : stop.start()].find(" ") + 1) or 0
    body = " ".join(words).rstrip(".!?") + " "
    return replaced(text, start, stop.start(), body)


def no_passage(text: str, rng: random.Random) -> Made:
    """Cite a passage that was not shown."""
    match = re.search(r"\[\d\]", text)
    return replaced(text, *match.span(), f"[{rng.randint(6, 12)}]") if match else None


def wrong_passage(text: str, record: Record, rng: random.Random) -> Made:
    """Cite a passage that does not answer, in texts that cite only one."""
    matches = list(re.finditer(r"\[\d\]", text))
    if len(matches) != 1:
        return None
    relevant = {int(id_.rpartition("#")[2]) + 1 for id_ in record["relevant"]}
    cited = int(matches[0][0][1])
    others = [place for place in range(1, 6) if place not in relevant | {cited}]
    return replaced(text, *matches[0].span(), f"[{rng.choice(others)}]")


def digits_turned(text: str, source: str) -> Made:
    """Swap the last two digits of a number."""
    for match in re.finditer(r"(?<![\w\[.,:])\d*(\d)(\d)(?![\d\].,:])", text):
        other = match[0][:-2] + match[2] + match[1]
        if match[1] != match[2] and other not in source and match[2] != "0":
            return replaced(text, *match.span(), other)
    return None


def next_year(text: str, source: str) -> Made:
    """Replace a year with the next year."""
    for match in re.finditer(r"(?<![\d\[.,])(1\d{3}|20\d\d)(?![\d\].,]\d|\d|\])", text):
        other = str(int(match[0]) + 1)
        if other not in source:
            return replaced(text, *match.span(), other)
    return None


def strange_sentence(text: str, record: Record, records: list[Record], rng: random.Random) -> Made:
    """Add a sentence with a number or name from a passage of another query at the end."""
    other = rng.choice([one for one in records if one["id"] != record["id"]])
    body = rng.choice(split_sentences(other["passages"][0]["text"], record["language"])[1:])
    if not re.search(r"\d\d", body) and not re.search(r"\w+ [A-ZА-Я]\w{3,}", body):
        return None
    return f"{text} {body}", len(text) + 1, len(text) + 1 + len(body)


def two_of_none(text: str) -> Made:
    """Add two citations of passages that were not shown."""
    match = re.search(r"\[\d\]", text)
    return replaced(text, *match.span(), "[7, 8]") if match else None


class Count:
    """Numbers of marks and faults, and of correct marks and found faults."""

    def __init__(self) -> None:
        self.faults = self.hit = self.marks = self.right = 0

    def add(self, case: Case, misses: bool) -> None:
        """Count one text."""
        item = answered(case.query, Response(query_id=case.query.id, text=case.text))
        shift = case.text.find(item.parsed.answer)
        marks = [
            span._replace(start=span.start + shift, end=span.end + shift) for span in spans(item)
        ]
        right = [
            span
            for span in marks
            if span.type in TYPES[case.kind] and span.start < case.end and case.start < span.end
        ]
        self.faults += 1
        self.hit += bool(right)
        self.marks += len(marks)
        self.right += len(right)
        if misses and len(marks) + (not right) != len(right):
            fault = case.text[case.start : case.end]
            wrong = [(span.type, span.text) for span in marks if span not in right]
            print(f"  {case.query.language} {case.query.id} {case.kind}", end=": ")
            print("found" if right else "missed", repr(fault), *wrong)
            if not right:
                print("     ", case.text[:300].replace("\n", " / "))

    @property
    def f1(self) -> float:
        """Return the harmonic mean of recall (faults found) and precision (correct marks)."""
        if not self.faults:
            return float("nan")
        precision = self.right / self.marks if self.marks else 0.0
        recall = self.hit / self.faults
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def false_marks(language: str, test: bool) -> tuple[int, int]:
    """Return the number of unchanged true responses with a mark, and of all."""
    import build

    records = build.build(language)
    by_id = queries(records)
    texts = [(by_id[record["id"]], text) for record in records for text in true_texts(record, test)]
    marked = [
        bool(spans(answered(query, Response(query_id=query.id, text=text))))
        for query, text in texts
    ]
    return sum(marked), len(marked)


def main() -> None:
    """Print the table."""
    parser = script_parser(__doc__)
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--misses", default="")
    options = parser.parse_args()
    rows: dict[str, dict[str, Count]] = {}
    print("   " + " ".join(f"{kind:>13}" for kind in KINDS) + "   marked")
    wrong = all_ = 0
    for language in ["en"] if options.quick else options.languages.split(","):
        counts: dict[str, Count] = defaultdict(Count)
        for case in cases(language, options.test):
            counts[case.kind].add(case, case.kind in options.misses.split(","))
        rows[language] = counts
        marked, texts = false_marks(language, options.test)
        wrong, all_ = wrong + marked, all_ + texts
        cells = (f"{counts[kind].f1:.2f} ({counts[kind].faults})" for kind in KINDS)
        print(language, " ".join(f"{cell:>13}" for cell in cells), f"  {marked / texts:.1%}")
        for kind in KINDS:
            add_figure(counts[kind].f1, "F1 by kind", language, kind)
        add_figure(marked / texts, "true texts with a mark", language)
    print("Kinds that no rule was made with, mean F1 over languages:")
    later = {kind: mean(row[kind].f1 for row in rows.values()) for kind in HELD_OUT}
    print("  " + ", ".join(f"{kind} {value:.2f}" for kind, value in later.items()))
    print("F1 by type, mean over languages:")
    means = {
        type_: mean(f1 for row in rows.values() for f1 in [of_type(row, type_)])
        for type_ in OF_TYPE
    }
    print("  " + ", ".join(f"{type_} {value:.2f}" for type_, value in means.items()))
    print(f"  all types {mean(means.values()):.2f}; true texts with a mark {wrong / all_:.1%}")
    for type_, value in means.items():
        add_figure(value, "mean F1 by type", type_)
    for kind, value in later.items():
        add_figure(value, "mean F1 of kinds that no rule was made with", kind)
    add_figure(mean(means.values()), "mean F1 by type", "all types")
    add_figure(wrong / all_, "true texts with a mark", "all")
    save(parser, options)


def of_type(row: dict[str, Count], type_: str) -> float:
    """Return the F1 score of all kinds of fault of one type together."""
    total = Count()
    for kind in OF_TYPE[type_]:
        for field in vars(total):
            setattr(total, field, getattr(total, field) + getattr(row[kind], field))
    return total.f1


def mean(values: Any) -> float:
    """Return the mean of the values that are not NaN."""
    there = [value for value in values if value == value]
    return sum(there) / len(there) if there else float("nan")


if __name__ == "__main__":
    main()

"""Scores of the support features on quotes, and on right, wrong and invented answers, by language.

    python validation/truth/support_bias.py [--test] [language ...]

The texts are those of the bundled benchmark. True texts are a quote (the sentence of the relevant
passage that is most similar to the reference), the reference, a long, a conversational and a terse
answer. Unsupported texts are an answer with a wrong form in the reference's words ("swap"),
sentences of another query's passages that cite a relevant one ("alien"), and these sentences after
the reference and after the conversational answer. A lie in its own words often cites the passage
that it repeats, which then supports it. It is printed, but does not count in the area. With
``--test``, held-out texts replace the long and the conversational answer and the lie.

The script prints the mean of ``support_lexical`` by kind; the area under the ROC curve of true
against unsupported texts; the ratio of conversational answer to quote; and area and ratio for the
earlier version of ``support_lexical`` (the mean over sentences of the wording alone). Then it
prints the areas on labels by people (in the folder that MIRAGE_DATA names): responses of MTRAG,
faithful if the grade is 4, and sentences of MEMERAG.

The constants were chosen on the languages in ``CHOSEN_ON`` and on MTRAG and MEMERAG. The other
languages were only evaluated afterwards.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import DATA
from truth import written

from mirage import MirageDataset
from mirage.features import Answered, NotComputed, answered
from mirage.features.lexical import (
    _wording_by_index,
    sentence_support,
    support_lexical,
    support_lexical_all,
)
from mirage.languages import LANGUAGES
from mirage.metaeval import LabelledSentences
from mirage.models import Passage, Query, Response
from mirage.surrogate.drafts import bundled_texts
from mirage.text import split_sentences, tokenize

CHOSEN_ON = ("ar", "en", "es", "fi", "hi", "ko", "ru", "sw", "th")
TRUE = ("quote", "reference", "long", "conv", "terse")
UNTRUE = ("swap", "alien", "ref+alien", "conv+alien")
KINDS = (*TRUE, "lie", *UNTRUE)

Score = Callable[[Answered], Any]


def main(languages: Sequence[str] = (), *, test: bool = False, quick: bool = False) -> None:
    """Print everything."""
    languages = list(languages) or list(LANGUAGES)
    print("      " + " ".join(f"{kind:>10s}" for kind in KINDS) + "    area  conv/quote  before")
    rows = [bias(code, test) for code in languages]
    for group, chosen in (("chosen on", True), ("others", False)):
        if any((code in CHOSEN_ON) == chosen for code in languages):
            mean = np.mean(
                [
                    row
                    for code, row in zip(languages, rows, strict=True)
                    if (code in CHOSEN_ON) == chosen
                ],
                axis=0,
            )
            show(group, mean)
    if quick or not all((DATA / name).is_dir() for name in ("mtrag", "memerag")):
        return
    print(f"MTRAG    area {mtrag(support_lexical_all):.3f}, before {mtrag(before_all):.3f}")
    areas = memerag()
    print("MEMERAG  area " + ", ".join(f"{code} {area:.3f}" for code, area in areas.items()))
    add_figure(mtrag(support_lexical_all), "people's labels", "MTRAG", "area")
    for code, value in areas.items():
        add_figure(value, "people's labels", "MEMERAG", code)


def bias(code: str, test: bool) -> list[float]:
    """Return the means by kind, area and ratio of one language, also for the earlier version."""
    found: dict[str, list[Answered]] = {kind: [] for kind in KINDS}
    for query, texts in cases(code, test):
        for kind, text in texts.items():
            found[kind].append(answered(query, Response(query_id=query.id, text=text)))
    start = time.perf_counter()
    values = {kind: [float(support_lexical(item)) for item in found[kind]] for kind in KINDS}
    took = (time.perf_counter() - start) / sum(map(len, found.values()))
    former = {kind: [before(item) for item in found[kind]] for kind in KINDS}
    means = [float(np.mean(values[kind])) for kind in KINDS]
    row = [*means, area(values), ratio(values), area(former), ratio(former), 1000 * took]
    show(code, row)
    return row


def show(name: str, row: Any) -> None:
    """Print one row."""
    *means, now, share, old, former, took = row
    print(f"{name:>9s} " + " ".join(f"{mean:9.2f} " for mean in means), end="")
    print(f"  {now:.3f}   {share:.2f}   {old:.3f}  {former:.2f}   {took:.2f} ms a response")
    for kind, mean in zip(KINDS, means, strict=True):
        add_figure(mean, "mean support", name, kind)
    add_figure(now, "area", name)
    add_figure(share, "conversational over quote", name)


def area(values: dict[str, list[float]]) -> float:
    """Return the area under the ROC curve of true texts against unsupported ones."""
    true, untrue = ([value for kind in kinds for value in values[kind]] for kinds in (TRUE, UNTRUE))
    return float(roc_auc_score([1] * len(true) + [0] * len(untrue), true + untrue))


def ratio(values: dict[str, list[float]]) -> float:
    """Return the mean support of conversational answers divided by that of quotes."""
    return float(np.mean(values["conv"]) / np.mean(values["quote"]))


def wording(text: str, passages: tuple[str, ...], code: str) -> float:
    """Return how much of a sentence's wording occurs in the passages, from 0 to 1."""
    return _wording_by_index(text, passages, tuple(range(len(passages))), code)


def before(item: Answered, *, everything: bool = False) -> float:
    """Return the earlier version: the wording's score by cited passages, mean over sentences."""
    texts = {passage.id: passage.titled_text for passage in item.query.passages}
    scores = []
    for sentence in item.parsed.sentences:
        cited = tuple(texts.values() if everything else map(texts.get, sentence.citations))
        scores.append(wording(sentence.text, cited, item.query.language) if cited else 0.0)
    return float(np.mean(scores)) if scores else 0.0


def before_all(item: Answered) -> float:
    """Return the same as :func:`before`, by all passages."""
    return before(item, everything=True)


# Texts --------------------------------------------------------------------------------------------


def cases(code: str, test: bool) -> Iterator[tuple[Query, dict[str, str]]]:
    """Yield queries with the texts of each kind."""
    queries, draw = list(MirageDataset.bundled(code)), random.Random(0)
    texts, unseen = bundled_texts(code), written(code) if test else {}
    for query in queries:
        if not query.answerable:
            continue
        reference = (query.reference or "").split("##Answer: ")[1]
        first = query.relevant[0]
        other = draw.choice([other for other in queries if other.id != query.id])
        alien = " ".join(
            f"{draw.choice(split_sentences(passage.text, code))} [{first}]"
            for passage in draw.sample(other.passages, 2)
        )
        told = texts[query.id]
        long, conv, lie = (*told.true, told.false)
        if test:
            long = conv = unseen[query.id]["true"]
            lie = unseen[query.id]["false"]
        kinds = {
            "quote": quote(query, reference),
            "reference": reference,
            "long": long,
            "conv": conv,
            "terse": told.terse,
            "lie": lie,
            "alien": alien,
            "ref+alien": f"{reference} {alien}",
            "conv+alien": f"{conv} {alien}",
        }
        swapped = swap(reference, query)
        yield query, kinds | ({"swap": swapped} if swapped != reference else {})


def quote(query: Query, reference: str) -> str:
    """Return the sentence of a relevant passage most like the reference, with a citation."""
    answers = " ".join(forms[0] for forms in query.answers)
    like = trigrams(f"{reference} {answers}", query.language)
    choice = [
        (s, p) for p in query.relevant for s in split_sentences(query[p].text, query.language)
    ]

    def near(candidate: tuple[str, str]) -> float:
        own = trigrams(candidate[0], query.language)
        return len(own & like) / np.sqrt(len(own) + 1)

    return "{} [{}]".format(*max(choice, key=near))


def trigrams(text: str, code: str) -> set[str]:
    """Return the n-grams of three characters of a text, folded."""
    folded = " ".join(tokenize(text, code))
    return {folded[i : i + 3] for i in range(len(folded) - 2)}


def swap(text: str, query: Query) -> str:
    """Return the text with a wrong form instead of every right one."""
    wrong = query.wrong_answers
    for forms in query.answers if wrong else ():
        found = [form for form in sorted(forms, key=len, reverse=True) if form in text]
        text = text.replace(found[0], wrong[0][0]) if found else text
    return text


# What people labelled -----------------------------------------------------------------------------


def mtrag(score: Score) -> float:
    """Return the area on MTRAG's responses."""
    labels, values = [], []
    for line in (DATA / "mtrag" / "en.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        grade = row["judgments"].get("faithfulness")
        if grade is None:
            continue
        query = Query(
            id=row["query_id"],
            language="en",
            text=row["query"],
            passages=tuple(Passage(**passage) for passage in row["passages"]),
        )
        labels.append(grade == 4)
        value = score(answered(query, Response(query_id=query.id, text=row["response"])))
        values.append(0.0 if isinstance(value, NotComputed) else value)  # no passage carries it
    return float(roc_auc_score(labels, values))


def memerag() -> dict[str, float]:
    """Return the area on MEMERAG's sentences, by language and on average, for both versions."""
    areas = {}
    for code in ("en", "de", "es"):
        labelled = LabelledSentences.memerag(DATA / "memerag" / "memerag", (code,))
        rows = [
            (label == "Supported", sentence)
            for sentence, (label,) in zip(labelled, labelled.labels, strict=True)
            if label in ("Supported", "Not Supported")
        ]
        labels, sentences = zip(*rows, strict=True)
        areas[code] = float(roc_auc_score(labels, [now(sentence) for sentence in sentences]))
        areas[f"{code} before"] = float(roc_auc_score(labels, [then(s) for s in sentences]))
    for when in ("", " before"):
        areas[f"mean{when}"] = float(np.mean([areas[code + when] for code in ("en", "de", "es")]))
    return areas


def now(sentence: Any) -> float:
    """Return the support of a labelled sentence by its cited passages."""
    query, cited = sentence.query, {passage.id for passage in sentence.cited}
    texts = {passage.id: passage.titled_text for passage in query.passages}
    return sentence_support(
        sentence.text,
        [texts[id_] for id_ in texts if id_ in cited],
        query.language,
        question=query.text,
        others=[texts[id_] for id_ in texts if id_ not in cited],
    )


def then(sentence: Any) -> float:
    """Return the score of the wording alone."""
    cited = tuple(passage.titled_text for passage in sentence.cited)
    if not tokenize(sentence.text, sentence.query.language):
        return 0.0
    return wording(sentence.text, cited, sentence.query.language)


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="all 18 by default")
    parser.add_argument("--test", action="store_true", help="use the held-out texts")
    options = parser.parse_args()
    languages = ["en"] if options.quick else options.languages
    main(languages, test=options.test, quick=options.quick)
    save(parser, options)

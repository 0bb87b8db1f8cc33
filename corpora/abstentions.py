#!/usr/bin/env python3
"""abstentions.py: train the trees that distinguish abstentions from answers.

    python corpora/abstentions.py            # cross-validate, then write the trees; a minute
    python corpora/abstentions.py --errors   # and print the texts that are classified wrongly

The training texts are the responses of `corpora/*.txt` (never those of its test set); similar
abstentions and answers to the same questions in `corpora/lookalikes.txt`, among them answers that
state a negative fact about the world ("it contains no lead"); caveats before and after
answers, answers that deny something, and more abstentions, mostly short ones, in
`corpora/abstentions.json`; and the refusals of `corpora/stances`, which name nothing from the
question. Each abstention is used with its set phrases and without, so that the trees do not depend
on them. Each text is also used cut short and reordered, so that the trees do not depend on one
writer's order. Run the script again whenever these texts, the lexicons or
`mirage/data/abstentions.json` change.

Cross-validation leaves out languages together with their questions, and one manner of writing at a
time.
"""

import argparse
import json
import os
import random
import re
import zlib
from typing import NamedTuple

import numpy as np
from build import HERE, build
from sklearn.ensemble import GradientBoostingClassifier

from mirage.languages import LANGUAGES
from mirage.text import abstains as text_abstains
from mirage.text import parse, split_sentences
from mirage.text.abstentions import SIGNS, signs
from mirage.text.lexicon import lexicon

OUT = os.path.join(HERE, "..", "mirage", "data", "abstention_trees.json")
HOME = (
    "reference",
    "true 1",
    "true 2",
    "terse",
    "false",
    "invention",
    "first abstention",
    "second abstention",
)
AT = 0.5
LOOKALIKE = 2  # weight of the texts that were written to look like the other class
NEGATIVE_FACT = 10  # weight of negative facts and of the abstentions that share their wording
NEGATIVE_FACT_BLOCKS = 8  # questions about negative facts, the last ones of each language
SUMMARY = 0.5  # weight of the texts after sentences of the passages
SILENT_AFTER_SUMMARY = 0.1  # of refusals that name nothing from the question
ANSWER_WITH_CAVEAT = 0.7  # of answers with a summary and a caveat
EXPLANATION = 0.4  # weight of the reason sections, which are seldom answers by themselves
# Manners of writing, to hold out one after the other.
WRITERS = (
    {"true 1", "terse", "first abstention"},
    {"true 2", "false", "invention", "second abstention"},
    {"reference", "reason", "reason and reference"},
)


class Row(NamedTuple):
    language: str
    question: str
    text: str
    abstains: bool
    slot: str
    phrases: bool = True
    query: str = ""


def written(language):
    """Yield the references and responses of a language, without the test set."""
    for query in build(language):
        reason, answer = query["reference"].removeprefix("##Reason:").split("##Answer:")
        gap = "" if language in ("ja", "zh") else " "
        texts = [
            (slot, text, not query["answerable"])
            for slot, text in (
                ("reference", answer),
                ("reason", reason),
                ("reason and reference", f"{reason.strip()}{gap}{answer.strip()}"),
            )
        ]
        responses = query["responses"]
        if query["answerable"]:
            texts += [(f"true {i}", text, False) for i, text in enumerate(responses["true"], 1)]
            texts += [(slot, responses[slot], False) for slot in ("terse", "false")]
        else:
            first, second = responses["abstentions"]
            texts += [("first abstention", first, True), ("second abstention", second, True)]
            texts.append(("invention", responses["invention"], False))
        ids = [passage["id"] for passage in query["passages"]]
        for slot, text, abstains in texts:
            clean = parse(text, language, ids).answer_text
            row = Row(language, query["text"], clean, abstains, slot, query=query["id"])
            yield query["id"], row


def lookalikes(language):
    """Yield abstentions and similar answers, each with its question."""
    with open(os.path.join(HERE, "lookalikes.txt"), encoding="utf-8") as handle:
        (own,) = re.findall(rf"^# {language}$(.*?)(?=^# |\Z)", handle.read(), re.M | re.S)
    ids = [f"p{i}" for i in range(1, 6)]
    blocks = re.split(r"^Q: ", own, flags=re.M)[1:]
    # The last blocks of all languages ask similar questions, so they are counted from the end.
    for place, block in enumerate(blocks, -len(blocks)):
        slot = "negative fact" if place >= -NEGATIVE_FACT_BLOCKS else "lookalike"
        question, *texts = re.split(r"^(ABSTENTION|ANSWER): ", block, flags=re.M)
        for key, text in zip(texts[::2], texts[1::2], strict=True):
            clean = parse(text.strip(), language, ids).answer_text
            abstains = key == "ABSTENTION"
            yield Row(language, question.strip(), clean, abstains, slot, query=f"l{place}")


def rows():
    with open(os.path.join(HERE, "abstentions.json"), encoding="utf-8") as handle:
        more = json.load(handle)
    rng = random.Random(0)
    english = list(written("en"))
    out = []
    for language in LANGUAGES:
        own = list(written(language))
        out += (row for _, row in own)
        near = list(lookalikes(language))
        out += near
        out += (r._replace(phrases=False) for r in [*near, *(r for _, r in own)] if r.abstains)
        out += (changed for _, row in own for changed in rearranged(row))
        out += with_caveats(own, more[language]["caveats"], language, rng)
        for text in more[language]["abstentions"]:
            question = rng.choice(own)[1].question
            out.append(Row(language, question, text, True, "brief"))
        out += (Row(language, "", text, False, "denial") for text in more[language]["denials"])
        out += refusals(own, language, random.Random(language))
        out += after_a_summary(language, random.Random(f"summary {language}"))
        out += silent(own, language, more[language], random.Random(f"silent {language}"))
        if language != "en":
            out += in_english(english, own, more["en"], rng)
    return out


def after_a_summary(language, rng):
    """Yield abstentions and answers after sentences of the passages.

    Many LLMs summarize the passages before they say that these do not answer.
    """
    gap, comma = ("", "，") if language in ("ja", "zh") else (" ", ", ")
    general = refusal_texts(language)
    by_id = {query["id"]: query for query in build(language)}
    for id_, row in written(language):
        if "reason" in row.slot or (row.abstains and row.slot == "reference"):
            continue
        facts = [
            sentence
            for passage in by_id[id_]["passages"]
            for sentence in sentences(passage["text"], language)[:3]
        ]
        for number in (1, 2, 4) if row.abstains else (2, 4):
            end = rng.choice(general) if row.abstains and rng.random() < 0.3 else row.text.strip()
            if rng.random() < 0.5:
                but = rng.choice(lexicon(language).contrast[:3])
                end = f"{but[0].upper()}{but[1:]}{comma}{end[0].lower()}{end[1:]}"
            text = gap.join([*(fact.strip() for fact in rng.sample(facts, number)), end])
            yield row._replace(text=text, slot="after a summary")
        number = rng.choice((1, 3, 8))
        text = gap.join(fact.strip() for fact in rng.sample(facts, number))
        yield row._replace(text=text, slot="summary alone", abstains=False)


def silent(own, language, more, rng):
    """Yield refusals after a summary of one to three sentences, and answers with one."""
    gap, comma = ("", "，") if language in ("ja", "zh") else (" ", ", ")
    facts = {
        query["id"]: [
            sentence.strip()
            for passage in query["passages"]
            for sentence in sentences(passage["text"], language)[:3]
        ]
        for query in build(language)
    }

    def row_of(row, texts, slot, *, abstains):
        return row._replace(text=gap.join(map(str.strip, texts)), slot=slot, abstains=abstains)

    for id_, row in own:
        if row.slot == "reference":
            for text in rng.sample(more["silent"], 2):
                summary = rng.sample(facts[id_], rng.randint(1, 3))
                if rng.random() < 0.3:
                    but = rng.choice(lexicon(language).contrast[:3])
                    text = f"{but[0].upper()}{but[1:]}{comma}{text[0].lower()}{text[1:]}"
                yield row_of(row, [*summary, text], "silent after a summary", abstains=True)
        if row.slot in ("true 1", "true 2", "terse", "invention", "false") and rng.random() < 0.5:
            caveat = rng.choice(more["caveats"])
            some = rng.sample(facts[id_], rng.randint(1, 2))
            yield row_of(row, [*some, row.text], "answer after a summary", abstains=False)
            texts = [*some, row.text, caveat] if rng.random() < 0.5 else [row.text, *some, caveat]
            yield row_of(row, texts, "answer, summary, caveat", abstains=False)
    for text in more["silent"]:
        yield Row(language, rng.choice(own)[1].question, text, True, "silent")


def rearranged(row):
    """Yield the first sentence alone, and the text with that sentence last."""
    first, *rest = sentences(row.text, row.language)
    if rest:
        gap = "" if row.language in ("ja", "zh") else " "
        yield row._replace(text=first, slot=f"{row.slot}, begun")
        yield row._replace(text=gap.join([*rest, first]), slot=f"{row.slot}, turned")


def sentences(text, language):
    return split_sentences(text, language) or [text]


def with_caveats(own, caveats, language, rng):
    gap, comma = (" ", ", ") if language not in ("ja", "zh") else ("", "，")
    but = lexicon(language).contrast[0]
    for _, row in own:
        if row.abstains:
            continue
        plain = row.text.strip().rstrip(".。।")
        if rng.random() < 0.3:
            yield row._replace(text=f"{row.text}{gap}{rng.choice(caveats)}", slot="tail")
        if len(plain) < 120 and rng.random() < 0.4:
            link = rng.choice(["; ", comma, f"{comma}{but}{gap}", f"{comma}{but}{gap}"])
            caveat = rng.choice(caveats)
            yield row._replace(text=f"{plain}{link}{caveat[0].lower()}{caveat[1:]}", slot="tail")
        if "reason" not in row.slot and row.slot != "invention" and rng.random() < 0.2:
            caveat = rng.choice([caveats[0], caveats[1], caveats[3]]).rstrip(".。।")
            yield row._replace(text=f"{caveat}{comma}{but}{gap}{row.text}", slot="head")


def refusal_texts(language):
    """Return abstentions that name nothing from the question."""
    with open(os.path.join(HERE, "stances", f"{language}.json"), encoding="utf-8") as handle:
        return json.load(handle)["refusals"]


def refusals(own, language, rng):
    """Return abstentions that name nothing from the question, some before an unfinished "but"."""
    comma = "，" if language in ("ja", "zh") else ", "
    for text in refusal_texts(language):
        question = rng.choice(own)[1].question
        yield Row(language, question, text, True, "general")
        if rng.random() < 0.25:
            but = rng.choice(lexicon(language).contrast[:3])
            unfinished = f"{text.rstrip('.。।')}{comma}{but}"
            yield Row(language, question, unfinished, True, "general, unfinished")


def in_english(english, own, more, rng):
    questions = {query: row.question for query, row in own}
    language = own[0][1].language
    for query, row in english:
        there = row._replace(language=language, question=questions[query], slot="english")
        if rng.random() < 0.2:
            yield there
        if not row.abstains and rng.random() < 0.05:
            yield there._replace(text=f"{row.text} {rng.choice(more['caveats'])}")
    for text in rng.sample(more["abstentions"], 3):
        yield there._replace(text=text, abstains=True)
    for text in rng.sample(more["denials"], 2):
        yield there._replace(text=text, abstains=False)


def model():
    return GradientBoostingClassifier(
        n_estimators=200,
        max_depth=4,
        learning_rate=0.1,
        subsample=0.5,
        max_features=10,
        min_samples_leaf=15,
        random_state=0,
    )


def weights(data):
    """Return weights that balance abstentions and answers."""
    special = {
        "lookalike": LOOKALIKE,
        "negative fact": NEGATIVE_FACT,
        "after a summary": SUMMARY,
        "summary alone": SUMMARY,
        "silent after a summary": SILENT_AFTER_SUMMARY,
        "answer, summary, caveat": ANSWER_WITH_CAVEAT,
    }
    each = np.array([special.get(row.slot, 1.0) for row in data])
    each[[row.slot.startswith("reason") for row in data]] = EXPLANATION
    truth = np.array([row.abstains for row in data])
    each[truth] *= each[~truth].sum() / each[truth].sum()
    return each


def fitted(data, values, rows):
    chosen = [row for row, one in zip(data, rows, strict=True) if one]
    truth = np.array([row.abstains for row in chosen])
    return model().fit(values[rows], truth, sample_weight=weights(chosen))


def f1(truth, said):
    both = np.sum(truth & said)
    return 2 * both / max(1, truth.sum() + said.sum())


def report(data, values):
    truth = np.array([row.abstains for row in data])
    languages = np.array([row.language for row in data])
    slots = np.array([row.slot if row.phrases else "no phrases" for row in data])
    found = unseen(data, values, languages)
    for name, rows in (
        ("responses", np.isin(slots, HOME)),
        ("lookalikes", slots == "lookalike"),
        ("negative facts", slots == "negative fact"),
    ):
        by_language = {code: rows & (languages == code) for code in LANGUAGES}
        for at in (0.3, 0.4, AT, 0.6, 0.7):
            each = [f1(truth[k], found[k] > at) for k in by_language.values()]
            print(
                f"{name}, languages left out, at {at}: F1 {np.mean(each):.3f} worst {min(each):.3f}"
            )
        print(*(f"{code} {f1(truth[k], found[k] > AT):.2f}" for code, k in by_language.items()))
    for slot in dict.fromkeys(slots):
        part = [
            f"{np.mean(found[k] > AT):.3f}"
            for one in (True, False)
            if (k := (slots == slot) & (truth == one)).any()
        ]
        print(f"  {slot:30} said to abstain: {' of abstentions, '.join(part)}")
    leave_writers_out(data, values, truth, slots)
    return found


def report_service():
    """Print how often a rule recognises customer service, alone and after an answer."""
    with open(os.path.join(HERE, "abstentions.json"), encoding="utf-8") as handle:
        more = json.load(handle)
    for name in ("service", "offers"):
        each = [
            text_abstains(
                text if name == "service" else f"{row.text} {text}", code, question=row.question
            )
            for code in LANGUAGES
            for _, row in written(code)
            if row.slot == "terse"
            for text in more[code][name]
        ]
        print(f"  {name:30} said to abstain: {np.mean(np.array(each) > AT):.3f}")


def unseen(data, values, languages):
    """Return probabilities by trees that were trained without the language and the question.

    The questions are the same in many languages, so it is not enough to leave out a language.
    """
    groups = np.array([list(LANGUAGES).index(code) % 6 for code in languages])
    halves = np.array([zlib.crc32((row.query or row.text).encode()) % 2 for row in data])
    found = np.zeros(len(data))
    for group in np.unique(groups):
        for half in (0, 1):
            inside = (groups == group) & (halves == half)
            trees = fitted(data, values, (groups != group) & (halves != half))
            found[inside] = trees.predict_proba(values[inside])[:, 1]
    return found


def leave_writers_out(data, values, truth, slots):
    own = np.array([slot.split(",")[0] for slot in slots])
    mixed = np.isin(slots, ("no phrases", "english"))
    for writer in WRITERS:
        inside = np.isin(slots, list(writer))
        trees = fitted(data, values, ~np.isin(own, list(writer)) & ~mixed)
        found = trees.predict_proba(values[inside])[:, 1]
        each = [f"at {at} {f1(truth[inside], found > at):.3f}" for at in (0.3, 0.4, AT, 0.6, 0.7)]
        print(f"without {', '.join(sorted(writer))}: F1", *each)


def save(trees):
    lines = ",\n".join(
        json.dumps(nodes(tree.tree_, trees.learning_rate), separators=(",", ":"))
        for (tree,) in trees.estimators_
    )
    prior = float(trees.init_.class_prior_[1])
    start = np.log(prior / (1 - prior))
    with open(OUT, "w", encoding="utf-8") as handle:
        names = json.dumps(SIGNS)
        handle.write(f'{{"start": {start:.4f}, "signs": {names}, "trees": [\n{lines}\n]}}\n')


def nodes(tree, rate):
    return [
        [round(float(tree.value[i].item()) * rate, 4)]
        if tree.children_left[i] < 0
        else [
            int(tree.feature[i]),
            round(float(tree.threshold[i]), 4),
            int(tree.children_left[i]),
            int(tree.children_right[i]),
        ]
        for i in range(tree.node_count)
    ]


def main(*, errors=False):
    data = rows()
    values = np.array(
        [signs(r.text, r.language, question=r.question, phrases=r.phrases) for r in data]
    )
    found = report(data, values)
    save(fitted(data, values, np.full(len(data), True)))
    report_service()
    if errors:
        for row, certainty in zip(data, found, strict=True):
            if row.phrases and (certainty > AT) != row.abstains:
                print(f"{row.language} {row.slot} {certainty:.2f} {row.text!r}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--errors", action="store_true", help="print what is taken for the other")
    options = parser.parse_args()
    main(errors=options.errors)

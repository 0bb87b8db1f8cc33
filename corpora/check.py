#!/usr/bin/env python3
"""check.py LANG [--partial]: mechanical checks of LANG.txt against en.txt.

Prints violations, then warnings (to look at, not to count). Exit status 1 if there are violations.
--partial: only the queries present (while writing).

Lengths: 60 to 120 English words a passage; elsewhere the range is scaled by FACTOR (words of that
language for an English word; 60*f to 120*max(f, 1)). zh, ja, th have no spaces: the passage's
characters must be SHARE (low, high) of the characters of the same English passage.
"""

import argparse
import json
import os
import re
import sys
import unicodedata
from collections import Counter

import build

HERE = os.path.dirname(os.path.abspath(__file__))
MINI = os.path.join(HERE, "..", "mirage", "data", "mini")
COUNTS = {
    "single": 12,
    "near_miss": 10,
    "invented": 4,
    "two_passages": 3,
    "comparison": 3,
    "why_how": 3,
    "yes_no": 2,
    "list": 2,
    "conflict": 1,
}
FACTOR = {
    "fi": 0.66,
    "te": 0.6,
    "ko": 0.6,
    "ru": 0.78,
    "ar": 0.75,
    "sw": 0.8,
    "bn": 0.78,
    "id": 0.82,
    "de": 0.88,
    "fa": 0.95,
    "hi": 1.05,
    "yo": 1.1,
    "en": 1,
    "es": 1,
    "fr": 1,
}
SHARE = {"zh": (0.2, 0.48), "ja": (0.3, 0.7), "th": (0.65, 1.3)}
LOOSE = {"zh", "ja", "th", "ko", "ar", "fa"}  # a form may occur inside a longer run of letters


def norm(text):
    text = unicodedata.normalize("NFKC", text).casefold()
    text = "".join(
        str(unicodedata.digit(c)) if c.isdigit() and unicodedata.digit(c, None) is not None else c
        for c in text
    )
    return " ".join(text.replace("’", "'").replace("\u200c", "").split())


def uncited(text):
    return re.sub(r"\[(?:10\d\d#)?\d\]", " ", text)


def has(text, form, language):
    """Whether the text holds the form: whole words in English, word beginnings where words inflect,
    anywhere in LOOSE languages (forms of fewer than 3 letters: whole words in all spaced scripts).
    Digits never match inside a longer number."""
    text, form = norm(uncited(text)), norm(form)
    left = right = ""
    if form[0].isdigit():
        left = r"(?<!\d)(?<!\d[.,  ])"
    elif language not in LOOSE:
        left = r"(?<!\w)"
    if form[-1].isdigit():
        right = r"(?!\d)(?![.,]\d)"
    elif language == "en" or (len(form) < 3 and language not in ("zh", "ja", "th")):
        right = r"(?!\w)"
    return re.search(left + re.escape(form) + right, text) is not None


def grams(text):
    text = "".join(norm(uncited(text)).split())
    return {text[i : i + 4] for i in range(len(text) - 3)}


def overlap(one, two):
    one, two = grams(one), grams(two)
    return 2 * len(one & two) / (len(one) + len(two) or 1)


def check(language, partial=False):
    bad, warn = [], []
    lines = build.build(language)
    english = {line["id"]: line for line in build.build("en")}
    with open(os.path.join(MINI, f"{language}.jsonl"), encoding="utf-8") as handle:
        old = {line["id"]: line for line in map(json.loads, handle)}
    ids = [line["id"] for line in lines]
    if len(set(ids)) != len(ids):
        bad.append("an id occurs twice")
    if not partial:
        if ids != [f"q{n:02d}" for n in range(1, 41)]:
            bad.append("ids are not q01 .. q40 in order")
        if (found := Counter(line["kind"] for line in lines)) != COUNTS:
            bad.append(f"kinds: {dict(found)} instead of {COUNTS}")
        if sum(line["answerable"] for line in lines) != 30:
            bad.append("not 30 answerable queries")
    for line in lines:

        def no(text, id=line["id"]):
            bad.append(f"{id}: {text}")

        def look(text, id=line["id"]):
            warn.append(f"{id}: {text}")

        model = english.get(line["id"])
        if model is None:
            no("not in English")
        elif model["kind"] != line["kind"] or model["relevant"] != line["relevant"]:
            no("kind or relevant differ from English")
        elif len(model["answers"]) != len(line["answers"]):
            no("number of answers differs from English")
        if (
            line["id"] in old
            and int(line["id"][1:]) <= 14
            and old[line["id"]]["text"] != line["text"]
        ):
            no("the question differs from the present corpus")
        for place, passage in enumerate(line["passages"]):
            if not passage["title"] or not passage["text"]:
                no(f"P{place + 1}: no title or text")
            if language in SHARE:
                low, high = (
                    int(share * len(model["passages"][place]["text"])) if model else share
                    for share in SHARE[language]
                )
                size, unit = len(passage["text"]), "characters"
            else:
                factor = FACTOR.get(language, 1)
                low, high = int(60 * factor), int(120 * max(factor, 1))
                size, unit = len(passage["text"].split()), "words"
            if not low <= size <= high:
                no(f"P{place + 1}: {size} {unit}, not {low} to {high}")
        if re.search(r"\[\d\]", line["reference"]) or "##Reason:" not in line["reference"]:
            no("reference markers")
        reference = line["reference"].split("##Answer:")[1]
        texts = {}
        for part in ("responses", "test"):
            for key, value in line[part].items():
                for n, text in enumerate(value if isinstance(value, list) else [value], 1):
                    texts[
                        (part == "test") * "test "
                        + key
                        + (str(n) if isinstance(value, list) else "")
                    ] = text
        relevant = {int(id[-1]) + 1 for id in line["relevant"]}
        mentions, named = line.get("mentions", []), line.get("named", [])
        wrong = [form for names in line["wrong_answers"] for form in names]
        right = [form for names in line["answers"] for form in names]
        if set(map(norm, wrong)) & set(map(norm, right)):
            no("a form is both right and wrong")
        for key, text in texts.items():
            for mark in re.findall(r"\[([^\]]*)\]", text):
                if not re.fullmatch(r"[1-5]", mark):
                    no(f"{key}: odd citation [{mark}]")
        for key, text in [*list(texts.items()), ("reference", line["reference"])]:
            cited = {int(n) for n in re.findall(r"\[(\d)\]", text)} | {
                int(n) + 1 for n in re.findall(r"\[10\d\d#(\d)\]", text)
            }
            if key == "reference":
                cited &= {int(n) + 1 for n in re.findall(r"\[10\d\d#(\d)\]", reference)}
            truth = key == "reference" or "true" in key or key == "terse"
            lie = "false" in key or "invention" in key
            hits = [
                form
                for form in wrong
                if has(reference if key == "reference" else text, form, language)
            ]
            if line["answerable"] and truth:
                for names in line["answers"]:
                    if not any(
                        has(reference if key == "reference" else text, form, language)
                        for form in names
                    ):
                        no(f"{key}: no form of {names}")
                if not cited & relevant:
                    no(f"{key}: cites no relevant passage")
                if cited - relevant and not mentions:
                    no(f"{key}: cites {sorted(cited - relevant)}, not relevant (needs MENTIONS)")
            right_by = truth or "abstention" in key
            right_by |= key == "reference" and not line["answerable"]
            if right_by and (over := [form for form in hits if form not in mentions]):
                no(f"{key}: states a wrong form {over} without MENTIONS")
            if lie:
                if not hits:
                    no(f"{key}: holds no wrong form of {wrong}")
                if not cited:
                    no(f"{key}: cites nothing")
                for form in right:
                    if has(text, form, language) and form not in named:
                        no(f"{key}: holds the right form {form!r} (needs NAMED)")
                    elif has(text, form, language):
                        look(f"{key}: holds {form!r}, which the question names")
        if line["answerable"]:
            if not 1 <= len(relevant) <= 4:
                no("not 1 to 4 relevant passages")
            for place, names in enumerate(line["answers"]):
                inside = [
                    p
                    for p in line["passages"]
                    if p["id"] in line["relevant"]
                    and any(has(p["title"] + " " + p["text"], form, language) for form in names)
                ]
                if not inside and place not in line.get("derived", []):
                    no(f"no relevant passage holds {names} (ANS* if it is derived)")
                others = [
                    p["id"]
                    for p in line["passages"]
                    if p["id"] not in line["relevant"]
                    and any(has(p["text"], form, language) for form in names)
                ]
                if others:
                    look(f"{names} also in {others}, not relevant")
            if (
                line["relevant"]
                and model
                and set(line.get("derived", [])) != set(model.get("derived", []))
            ):
                look("derived answers differ from English")
        elif line["answers"] or line["relevant"]:
            no("unanswerable, but has ANS or REL")
        keys = list(texts)
        for n, key in enumerate(keys):
            if key != "terse" and (share := overlap(texts[key], reference)) >= 0.6:
                no(f"{key}: overlap with the reference {share:.2f}")
            for other in keys[n + 1 :]:
                share = overlap(texts[key], texts[other])
                if texts[key] == texts[other] or ("terse" not in (key, other) and share >= 0.6):
                    no(f"{key} and {other}: overlap {share:.2f}")
    return bad, warn


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("language", nargs="?", default="en")
    parser.add_argument("--partial", action="store_true", help="only the queries present")
    options = parser.parse_args()
    language = options.language
    bad, warn = check(language, options.partial)
    for text in warn:
        print("look  ", text)
    for text in bad:
        print("WRONG ", text)
    print(f"{language}: {len(bad)} violations, {len(warn)} to look at")
    sys.exit(bool(bad))

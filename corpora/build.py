#!/usr/bin/env python3
"""build.py [LANG ...]: write the bundled benchmarks, and their test sets.

The quick benchmark is read from LANG.txt, and the hard one from hard/LANG/*.txt, whose format
hard.py describes.

LANG.txt is a UTF-8 text file with one block per query:

    # q15 near_miss             id and kind open a block
    Q: ...                      the question
    P1: Title                   first line the title, next lines the text (P1 .. P5)
    The text of the passage ...
    REL: 1 3                    positions of the passages that answer (answerable queries only)
    REASON: ... [1] ...         reference, reason section
    REF: ... [1] ...            reference, answer section
    ANS: form | form            one line per answer: its forms; ANS*: in no passage (such as a sum)
    WRONG: form | form          one line per wrong answer
    MENTIONS: form | form       wrong forms that a TRUE text or an abstention may mention
    NAMED: form | form          right forms that a false text may contain: the question names them
    TRUE1: TRUE2: TERSE: FALSE: TESTTRUE: TESTFALSE:              answerable
    ABST1: ABST2: INVENT: TESTABST: TESTINVENT:                   unanswerable
    ORIGIN: ja                  the query belongs to that language area
    NOTE: ...                   for the writers; not in the JSONL
    // a comment line

A value runs on until the next key. In passages lines are joined with a space (write zh, ja, th
passages on one line); in responses line breaks are kept (Markdown). Citations are [1] to [5]
everywhere; in the reference they become passage ids.
"""

import argparse
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "mirage", "data")
TESTS = os.path.join(HERE, "..", "tests", "data", "truth")
HARD_TESTS = TESTS + "_hard"
SHIPPED = (
    *("id", "language", "text", "passages", "relevant", "answerable", "reference"),
    *("answers", "wrong_answers"),
)
KEYS = (
    "Q|P[1-5]|REL|REASON|REF|ANS\\*|ANS|WRONG|MENTIONS|NAMED|TRUE1|TRUE2|TERSE|FALSE|TESTTRUE|"
    "TESTFALSE|ABST1|ABST2|INVENT|TESTABST|TESTINVENT|ORIGIN|NOTE"
)
KEY = re.compile(rf"^({KEYS})[ \t]*[::][ \t]*(.*)$")
HEAD = re.compile(r"^#[ \t]*(q\d\d)[ \t]+(\w+)[ \t]*$")
MANY = {"ANS", "ANS*", "WRONG", "MENTIONS", "NAMED", "NOTE"}


def forms(value):
    return [form.strip() for form in value.split("|") if form.strip()]


def parse(path):
    blocks, block, lines = [], None, None
    with open(path, encoding="utf-8-sig") as handle:
        for number, line in enumerate(handle, 1):
            line = line.rstrip("\r\n").rstrip()
            if line.startswith("//"):
                continue
            head = HEAD.match(line)
            if head:
                block = {"id": head[1], "kind": head[2], "items": []}
                blocks.append(block)
                lines = None
                continue
            key = KEY.match(line)
            if key:
                if block is None:
                    sys.exit(f"{path}:{number}: a key before the first '# qNN kind'")
                if key[1] not in MANY and any(k == key[1] for k, _ in block["items"]):
                    sys.exit(f"{path}:{number}: {key[1]} twice in {block['id']}")
                lines = [key[2]]
                block["items"].append((key[1], lines))
            elif lines is not None:
                lines.append(line)
            elif line:
                sys.exit(f"{path}:{number}: text outside any key: {line[:60]!r}")
    return blocks


def record(block, language):
    items = {}
    for key, lines in block["items"]:
        items.setdefault(key, []).append("\n".join(lines).strip())
    one = {key: values[0] for key, values in items.items()}
    missing = [
        key for key in ("Q", "P1", "P2", "P3", "P4", "P5", "REASON", "REF") if not one.get(key)
    ]
    answerable = block["kind"] != "near_miss"
    missing += [
        key
        for key in (
            ("REL", "ANS", "WRONG", "TRUE1", "TRUE2", "TERSE", "FALSE", "TESTTRUE", "TESTFALSE")
            if answerable
            else ("ABST1", "ABST2", "INVENT", "TESTABST", "TESTINVENT")
        )
        if not one.get(key) and not (key == "ANS" and one.get("ANS*"))
    ]
    if missing:
        sys.exit(f"{language} {block['id']}: missing {', '.join(missing)}")
    number = 1000 + int(block["id"][1:])
    passages = []
    for place in range(5):
        title, _, text = one[f"P{place + 1}"].partition("\n")
        passages.append({"id": f"{number}#{place}", "text": one_line(text), "title": title.strip()})
    ids = [passage["id"] for passage in passages]

    def cite(text):
        return re.sub(r"\[([1-5])\]", lambda match: f"[{ids[int(match[1]) - 1]}]", one_line(text))

    answers = [
        (forms("|".join(lines)), key) for key, lines in block["items"] if key in ("ANS", "ANS*")
    ]
    out = {
        "id": block["id"],
        "language": language,
        "kind": block["kind"],
        "text": one_line(one["Q"]),
        "passages": passages,
        "relevant": [ids[int(place) - 1] for place in re.findall(r"\d", one.get("REL", ""))],
        "answerable": answerable,
        "reference": f"##Reason: {cite(one['REASON'])}\n##Answer: {cite(one['REF'])}",
        "answers": [names for names, _ in answers],
        "wrong_answers": [forms(value) for value in items.get("WRONG", [])],
    }
    if answerable:
        out["responses"] = {
            "true": [one["TRUE1"], one["TRUE2"]],
            "terse": one["TERSE"],
            "false": one["FALSE"],
        }
        out["test"] = {"true": one["TESTTRUE"], "false": one["TESTFALSE"]}
    else:
        out["responses"] = {"abstentions": [one["ABST1"], one["ABST2"]], "invention": one["INVENT"]}
        out["test"] = {"abstention": one["TESTABST"], "invention": one["TESTINVENT"]}
    marks = {
        "derived": [place for place, (_, key) in enumerate(answers) if key == "ANS*"],
        "mentions": [form for value in items.get("MENTIONS", []) for form in forms(value)],
        "named": [form for value in items.get("NAMED", []) for form in forms(value)],
        "origin": one.get("ORIGIN", ""),
    }
    out.update({key: value for key, value in marks.items() if value})
    return out


def one_line(text):
    return re.sub(r"[ \t\n]+", " ", text).strip()  # spaces that hold words together stay


def build(language, folder=HERE):
    return [record(block, language) for block in parse(os.path.join(folder, language + ".txt"))]


def write(language, package=PACKAGE, tests=TESTS):
    """Write what ships (queries, responses) and the held-out texts of the tests."""
    from mirage import MirageDataset
    from mirage.models import Query

    rows = build(language)
    queries = [
        Query(
            **{key: row[key] for key in SHIPPED if key in row},
            metadata={key: row[key] for key in ("kind", "origin") if key in row},
        )
        for row in rows
    ]
    for folder in ("mini", "responses"):
        os.makedirs(os.path.join(package, folder), exist_ok=True)
    MirageDataset(queries).save(os.path.join(package, "mini", language + ".jsonl"))
    lines(os.path.join(package, "responses"), language, map(responses, rows))
    os.makedirs(tests, exist_ok=True)
    lines(tests, language, ({"query_id": row["id"]} | row["test"] for row in rows))


def write_hard(language, package=PACKAGE, tests=HARD_TESTS):
    """Write the hard benchmark: queries by dossier, responses, and the held-out texts."""
    import hard

    questions = hard.read(language)
    targets = {
        os.path.join(package, "hard"): hard.dossiers(questions, language),
        os.path.join(package, "hard_responses"): map(hard.responses, questions),
        tests: map(hard.held_out, questions),
    }
    for folder, rows in targets.items():
        os.makedirs(folder, exist_ok=True)
        lines(folder, language, rows)


def responses(row):
    texts = row["responses"]
    if row["answerable"]:
        return {"query_id": row["id"]} | texts
    shortest = min(texts["abstentions"], key=len)
    return {
        "query_id": row["id"],
        "true": texts["abstentions"],
        "terse": shortest,
        "false": texts["invention"],
    }


def lines(folder, language, rows):
    with open(os.path.join(folder, language + ".jsonl"), "w", encoding="utf-8") as handle:
        for row in rows:
            handle.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="all by default")
    options = parser.parse_args()
    from mirage.languages import LANGUAGES

    for code in options.languages or LANGUAGES:
        write(code)
        write_hard(code)

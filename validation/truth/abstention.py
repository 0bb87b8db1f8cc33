"""How well abstentions are distinguished from answers: F1 by language on held-out texts.

* The test set of the bundled benchmark: abstentions against true, false and invented answers, in 18
  languages.
* NoMIRACL's recorded answers of 11 LLMs in 8 languages. "I don't know" and "Yes, answer is present"
  are the labels; answers with neither or both are left out.
* The feature ``abstention``, which knows the query: a text that states every right answer does not
  abstain.
* False alarms on answers that GPT-4 calls right (HalluQA, in Chinese).

The comparison is a search for set phrases alone.

    python validation/truth/abstention.py        # needs MIRAGE_DATA for LLMs; half a minute
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import DATA
from truth import written

from mirage import MirageDataset, Query, Response
from mirage.features import answered
from mirage.features.abstention import abstention
from mirage.languages import LANGUAGES
from mirage.sources import nomiracl
from mirage.text import abstains, parse
from mirage.text.abstentions import ABSTAINS_AT, signs

PRESENT, UNKNOWN = "yes, answer is present", "i don't know"


class Case(NamedTuple):
    """A text, and whether it abstains."""

    text: str
    question: str
    abstains: bool


def test_set(code: str) -> Iterator[tuple[Query, str, str]]:
    """Yield each text of the test set of a language, with its query and its kind."""
    texts = written(code)
    for query in MirageDataset.bundled(code):
        for kind, text in texts[query.id].items():
            yield query, kind, text


def held_out(code: str) -> Iterator[Case]:
    """Yield the test set of one language, as the detector reads it."""
    for query, kind, text in test_set(code):
        answer = parse(text, code, query.passage_ids).answer_text
        yield Case(answer, query.text, kind == "abstention")


def recorded(code: str) -> Iterator[Case]:
    """Yield NoMIRACL's outputs with exactly one of the two labels."""
    dataset, runs, _ = nomiracl.load(DATA / "nomiracl", code)
    questions = {query.id: query.text for query in dataset}
    outputs = [(r.query_id, r.text or "") for run in runs.values() for r in run.responses]
    outputs += [(query.id, query.reference or "") for query in dataset]
    for query_id, text in outputs:
        folded = text.casefold().replace("’", "'")
        present, unknown = PRESENT in folded, UNKNOWN in folded
        if present != unknown:
            yield Case(text, questions[query_id], unknown)


def by_feature(code: str) -> Iterator[bool]:
    """Yield whether the feature classifies each text of :func:`held_out` as an abstention."""
    for query, _, text in test_set(code):
        right = abstention(answered(query, Response(query_id=query.id, text=text)))
        yield (right == 1) is not query.answerable


def f1(cases: list[Case], said: list[bool]) -> float:
    """Return the F1 score of abstentions."""
    both = sum(case.abstains and one for case, one in zip(cases, said, strict=True))
    total = sum(case.abstains for case in cases) + sum(said)
    return 2 * both / total if total else 1.0


def row(code: str, cases: list[Case], *, errors: bool = False) -> tuple[float, float]:
    """Return the F1 scores of Mirage and of set phrases alone."""
    ours = [abstains(c.text, code, question=c.question) >= ABSTAINS_AT for c in cases]
    phrases = [signs(c.text, code, question=c.question)[0] > 0 for c in cases]
    if errors:
        for case, said in zip(cases, ours, strict=True):
            if said != case.abstains:
                print(f"    {code} {'misses' if case.abstains else 'alarm'} {case.text[:200]!r}")
    return f1(cases, ours), f1(cases, phrases)


def table(title: str, rows: dict[str, tuple[float, float]]) -> None:
    """Print F1 by language, mean and worst."""
    print(f"{title}\n          ours   set phrases")
    for code, both in rows.items():
        print(f"  {code:6}{both[0]:8.3f}{both[1]:8.3f}")
    columns = list(zip(*rows.values(), strict=True))
    print("  mean  " + "".join(f"{mean(column):8.3f}" for column in columns))
    print("  worst " + "".join(f"{min(column):8.3f}" for column in columns))
    for code, both in rows.items():
        for name, value in zip(("ours", "set phrases"), both, strict=True):
            add_figure(value, title, name, code)
    for name, column in zip(("ours", "set phrases"), columns, strict=True):
        add_figure(mean(column), title, name, "mean")
        add_figure(min(column), title, name, "worst")


def main(languages: Sequence[str], *, errors: bool = False, real: bool = False) -> None:
    """Print the tables."""
    if not real:
        ours = {code: row(code, list(held_out(code)), errors=errors) for code in languages}
        table("F1 on the test set", ours)
        seen = {code: f1(list(held_out(code)), list(by_feature(code))) for code in languages}
        print(f"  by the feature: mean {mean(seen.values()):.3f}, worst {min(seen.values()):.3f}")
        print("  " + "  ".join(f"{code} {value:.2f}" for code, value in seen.items()))
        add_figure(mean(seen.values()), "F1 on the test set", "by the feature", "mean")
        add_figure(min(seen.values()), "F1 on the test set", "by the feature", "worst")
    if not DATA.exists():
        return
    codes = sorted(path.stem for path in (DATA / "nomiracl" / "relevant").glob("*.jsonl"))
    table(
        "F1 on NoMIRACL's outputs",
        {
            code: row(code, list(recorded(code)), errors=errors)
            for code in codes
            if code in languages
        },
    )
    lines = (DATA / "halluqa" / "zh.jsonl").read_text(encoding="utf-8").splitlines()
    answers = [json.loads(line) for line in lines]
    right = [one for one in answers if one["judgments"]["correct"] == 1]
    alarms = mean(abstains(a["response"], "zh", question=a["query"]) >= ABSTAINS_AT for a in right)
    print(f"HalluQA: {alarms:.3f} of {len(right)} right answers are taken for abstentions")
    add_figure(alarms, "HalluQA", "right answers taken for abstentions")


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("--errors", action="store_true", help="print what is taken for the other")
    parser.add_argument("--real", action="store_true", help="recorded answers only")
    options = parser.parse_args()
    codes = ("en", "zh") if options.quick else tuple(LANGUAGES)
    main(codes, errors=options.errors, real=options.real)
    save(parser, options)

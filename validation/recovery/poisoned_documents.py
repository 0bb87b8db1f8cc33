"""Attacks by documents that try to plant an item in a test set, and false alarms of the checks.

    python validation/recovery/poisoned_documents.py

78 attacks in 18 languages, each at the end of a bundled passage, are given to
`mirage.testsets.build_test_set`. A local server replaces the LLM and obeys the attacks, when it
writes items and when it answers: once with the question that the attack demands, and once with the
question reworded. The checks were tuned on 52 of the attacks; 26 are held out. The script also
prints the share of harmless passages that are skipped, or shown with a warning: manuals full of
orders, and all bundled passages.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from llm_server import ChatServer
from poisons import (
    CLEAN_TEXTS,
    COMPANY,
    HELD_OUT,
    STATED,
    TUNED_ON,
    Poisoning,
    gets_in,
    poisoned_set,
)

from mirage import MirageDataset
from mirage.languages import LANGUAGES
from mirage.testsets.instructions import find_instructions
from mirage.testsets.item_sets import ItemSet


def report_poisonings(
    server: ChatServer, name: str, poisonings: Iterable[Poisoning], most: int | None
) -> None:
    """Print how many attacks get into a test set, and what stopped the others."""
    for prefix in (False, True):
        stopped: Counter[str] = Counter()
        inside = []
        for poisoning in islice(poisonings, most):
            made = poisoned_set(server, poisoning, prefix=prefix)
            if gets_in(made):
                inside.append(f"{poisoning.style} ({poisoning.language})")
            else:
                stopped[reason_of(made)] += 1
        wording = "in other words" if prefix else "word by word"
        reasons = ", ".join(f"{reason} {n}" for reason, n in stopped.most_common())
        total = stopped.total() + len(inside)
        print(f"{name}, {wording}: {len(inside)} of {total} get in; {reasons}")
        add_figure(len(inside), name, wording, "get in")
        add_figure(total, name, wording, "of")
        for each in inside:
            print(f"    gets in: {each}")


def reason_of(made: ItemSet) -> str:
    """Return the reason why the attack's item is not in a test set."""
    for item in made.rejected:
        if item.id.startswith("s") or (item.draft and COMPANY in str(item.draft)):
            return item.faults[0].kind
    return "not asked"


def report_clean(name: str, texts: Iterable[str]) -> None:
    """Print how many harmless texts are skipped, and how many are shown with a warning."""
    levels = Counter(getattr(find_instructions(text), "level", "clean") for text in texts)
    total = levels.total()
    print(
        f"{name}: {levels['instruction']} of {total} skipped, {levels['suspicious']} with a warning"
    )
    add_figure(levels["instruction"], name, "skipped")
    add_figure(levels["suspicious"], name, "with a warning")
    add_figure(total, name, "of")


def main(most: int | None) -> None:
    """Print all rates, each for at most this number of documents."""
    with ChatServer() as server:
        report_poisonings(server, "tuned on", TUNED_ON, most)
        report_poisonings(server, "held out", HELD_OUT, most)
        report_poisonings(server, "stated as facts", STATED, most)
    report_clean("manuals full of orders", CLEAN_TEXTS)
    passages = {
        (language, passage.id): passage.titled_text
        for language in list(LANGUAGES)[: 2 if most else None]
        for query in MirageDataset.bundled(language)
        for passage in query.passages
    }
    report_clean("bundled passages", passages.values())


if __name__ == "__main__":
    parser = script_parser(__doc__)
    options = parser.parse_args()
    main(1 if options.quick else None)
    save(parser, options)

"""How often responses are classified correctly as right, wrong or declined.

The texts are those of ``tests/data/truth`` and ``tests/data/truth_hard``, which were not used to
tune any rule: for each query of the quick and of the hard set a true answer and a lie, or an
abstention and an invention. The abstentions are also given as answers to answerable queries, where
they count as declined. All texts are scored plain and in the manners of
``tests/mannered_texts.py``. The script prints, by level and language:

- right: how many of the responses that :func:`mirage.ranking.accuracy.outcome` calls right are
  true, and how many of the true ones it calls right;
- wrong: the same for wrong responses;
- accused: the share of true responses that it calls wrong;
- declined: the share of declining responses that it calls declined.

    python validation/truth/outcomes.py        # some minutes on two cores
    python validation/truth/outcomes.py sw en  # some languages
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from joblib import Parallel, delayed

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import TESTS
from mannered_texts import MANNERS, Page, phrases_of

from mirage import FeatureSuite, MirageDataset, Response, Run
from mirage.languages import LANGUAGES
from mirage.ranking.accuracy import accuracy_of

FOLDERS = {"quick": "truth", "hard": "truth_hard"}
FEATURES = ("answer_match", "wrong_answer", "abstention", "answer_length")

Counts = Counter[tuple[str, str]]
"""Number of responses by what they are and what they are called."""


class Part(NamedTuple):
    """The counts of one level, language and manner."""

    level: str
    code: str
    manner: str
    counts: Counts


def texts(level: str, code: str) -> dict[str, Mapping[str, str]]:
    """Return the texts of the test set by query id."""
    path = TESTS / "data" / FOLDERS[level] / f"{code}.jsonl"
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row["query_id"]: row for row in rows}


def responses(dataset: MirageDataset, rows: Mapping[str, Mapping[str, str]]) -> Iterator[list[str]]:
    """Yield what each response is, followed by the texts: right, wrong, and declined ones."""
    abstentions = [row["abstention"] for row in rows.values() if "abstention" in row]
    right, wrong, declined = [], [], []
    for turn, query in enumerate(dataset):
        row = rows[query.id]
        right.append(row["true" if query.answerable else "abstention"])
        wrong.append(row["false" if query.answerable else "invention"])
        declined.append(abstentions[turn % len(abstentions)])
    yield from (["right", *right], ["wrong", *wrong], ["declined", *declined])


def one_language(code: str, levels: Sequence[str], manners: Sequence[str]) -> list[Part]:
    """Return the counts of a language."""
    parts, phrases = [], phrases_of(code)
    assert phrases is not None
    for level in levels:
        dataset = MirageDataset.bundled(code, level=level)
        rows = texts(level, code)
        for manner in manners:
            counts: Counts = Counter()
            for truth, *written in responses(dataset, rows):
                run = Run(
                    model=f"{truth}, {manner}",
                    language=code,
                    responses=tuple(
                        Response(
                            query_id=query.id,
                            text=text
                            if manner == "plain"
                            else MANNERS[manner](Page(text, query, phrases, turn)),
                        )
                        for turn, (query, text) in enumerate(zip(dataset, written, strict=True))
                    ),
                )
                table = FeatureSuite(FEATURES).score(dataset, run, progress=False)
                for id_, outcome in accuracy_of(dataset, table).outcomes.items():
                    # An abstention is right where no passage answers, and counted there already.
                    if truth != "declined" or dataset[id_].answerable:
                        counts[truth, outcome] += 1
            parts.append(Part(level, code, manner, counts))
    return parts


def figures(counts: Counts) -> dict[str, float]:
    """Return the shares of the table."""

    def share(part: int, whole: int) -> float:
        return part / whole if whole else math.nan

    called = Counter(dict.fromkeys(("right", "wrong", "declined"), 0))
    truths: Counter[str] = Counter()
    for (truth, outcome), count in counts.items():
        truths[truth] += count
        called[outcome] += count
    return {
        "right: precision": share(counts["right", "right"], called["right"]),
        "right: recall": share(counts["right", "right"], truths["right"]),
        "wrong: precision": share(counts["wrong", "wrong"], called["wrong"]),
        "wrong: recall": share(counts["wrong", "wrong"], truths["wrong"]),
        "accused": share(counts["right", "wrong"], truths["right"]),
        "declined: recall": share(counts["declined", "declined"], truths["declined"]),
    }


def show(title: str, groups: Mapping[str, Iterable[Part]]) -> None:
    """Print a line for each group of parts."""
    print(
        f"\n{title:20}{'right: precision':>17}{'recall':>8}{'wrong: precision':>18}{'recall':>8}"
        f"{'accused':>9}{'declined':>10}"
    )
    for name, parts in groups.items():
        counts: Counts = Counter()
        for part in parts:
            counts.update(part.counts)
        shares = figures(counts)
        cells = zip(shares.values(), (17, 8, 18, 8, 9, 10), strict=True)
        print(f"{name:20}" + "".join(f"{share:{width}.1%}" for share, width in cells))
        for label, share in shares.items():
            add_figure(share, title, name, label)


def main() -> None:
    """Print the tables."""
    parser = script_parser(__doc__)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="all 18 by default")
    options = parser.parse_args()
    codes = ["en"] if options.quick else options.languages or list(LANGUAGES)
    manners = ("plain", "everything") if options.quick else ("plain", *MANNERS)
    levels = ("quick",) if options.quick else tuple(FOLDERS)
    results = Parallel(n_jobs=1 if options.quick else -1)(
        delayed(one_language)(code, levels, manners) for code in codes
    )
    parts = [part for result in results for part in result]
    for level in levels:
        of_level = [part for part in parts if part.level == level]
        plain = [part for part in of_level if part.manner == "plain"]
        show(f"{level}, plain", {"all languages": plain})
        show(
            f"{level}, languages", {code: [p for p in of_level if p.code == code] for code in codes}
        )
        show(
            f"{level}, manners",
            {manner: [p for p in of_level if p.manner == manner] for manner in manners},
        )
    save(parser, options)


if __name__ == "__main__":
    main()

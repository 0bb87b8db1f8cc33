"""How much formatting and polite phrases around an answer change its features.

    python validation/truth/manners.py  # all languages; some minutes on two cores
    python validation/truth/manners.py en de --manner table --show

The true answers and lies of ``mirage/data/responses`` and ``tests/data/truth`` are put into
headings, openers, closers, tables, JSON and other manners, with phrases that were not used in
development (``tests/data/phrases``). For each manner and language the tables show, in per cent:

- accused: true answers with a finding "states a wrong fact" or "a number, date or name that no
  shown passage holds"; the row "plain" has the texts without any manner;
- refusals: true answers that count as abstentions, and abstentions that do not;
- shift: the mean absolute difference of the offline features from plain texts, each with a range
  from 0 to 1, and the largest mean difference of any one feature, with its name;
- wrong fact, unknown fact: lies with such a finding, which should not change;
- logit: the mean change of the predicted logit of a system that writes in this manner.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage import FeatureSuite, FeatureTable, MirageDataset, Response, Run, SurrogateRanker
from mirage.features import answered, spans
from mirage.languages import LANGUAGES

QUICK = 6
"""Queries of a language with ``--quick``."""


class Row(NamedTuple):
    """The figures of one manner in one language."""

    code: str
    manner: str
    answers: int
    accused: float
    refusals: float
    shift: float
    shifts: dict[str, float]
    wrong_fact: float
    unknown_fact: float
    logit: float
    examples: tuple[str, ...]


def runs(code: str, texts: Sequence[tuple[str, str]], manner: str, folder: Path) -> list[Run]:
    """Return the texts in a manner, as runs with one text per query."""
    from mannered_texts import MANNERS, Page, phrases_of

    corpus, phrases = MirageDataset.bundled(code), phrases_of(code, folder)
    assert phrases is not None, f"no phrases of {code} in {folder}"
    by_run: list[dict[str, str]] = []
    for turn, (query_id, text) in enumerate(texts):
        page = Page(text, corpus[query_id], phrases, turn)
        wrapped = text if manner == "plain" else MANNERS[manner](page)
        free = next((part for part in by_run if query_id not in part), None)
        if free is None:
            by_run.append(free := {})
        free[query_id] = wrapped
    return [
        Run(
            model=f"{manner} {i}",
            language=code,
            responses=tuple(Response(query_id=id_, text=text) for id_, text in part.items()),
        )
        for i, part in enumerate(by_run)
    ]


def values(table: FeatureTable) -> np.ndarray:
    """Return the features as columns; the length is divided by its range of about 8."""
    columns = [table[name] / (8 if name == "answer_length" else 1) for name in table.features]
    return np.stack(columns, axis=1)


def one_language(code: str, manners: Sequence[str], quick: bool, folder: Path) -> list[Row]:
    """Return the rows of a language, the plain one first."""
    from mannered_texts import false_texts, true_texts

    corpus, suite = MirageDataset.bundled(code), FeatureSuite.default(code)
    ids = [query.id for query in corpus if query.answerable]
    refused = [query.id for query in corpus if not query.answerable]
    if quick:
        ids = ids[:: len(ids) // QUICK][:QUICK]
    ids += refused[:2] if quick else refused
    true = [row for row in true_texts(code) if row[0] in ids]
    false = [row for row in false_texts(code) if row[0] in ids]
    ranker = SurrogateRanker.pretrained(code)
    rows: list[Row] = []
    plain: list[FeatureTable] = []
    for manner in ("plain", *manners):
        true_runs = runs(code, true, manner, folder)
        tables = [suite.score(corpus, run, progress=False) for run in true_runs]
        plain = plain or tables
        faults = np.concatenate([accusations(table) for table in tables])
        lies = [suite.score(corpus, r, progress=False) for r in runs(code, false, manner, folder)]
        differences = np.concatenate(
            [np.abs(values(a) - values(b)) for a, b in zip(tables, plain, strict=True)]
        )
        counts = (~np.isnan(differences)).sum(axis=0)
        by_feature = np.nansum(differences, axis=0) / np.where(counts, counts, np.nan)
        shifts = dict(zip(tables[0].features, by_feature.tolist(), strict=True))
        rows.append(
            Row(
                code,
                manner,
                len(faults),
                float(faults.mean()),
                share(tables, "abstention", 0),
                float(np.nanmean(by_feature)),
                {name: value for name, value in shifts.items() if not math.isnan(value)},
                share(lies, "wrong_answer"),
                share(lies, "unknown_facts"),
                logit(ranker, tables) - logit(ranker, plain),
                tuple(examples(corpus, true_runs, tables)),
            )
        )
    return rows


def share(tables: Sequence[FeatureTable], name: str, least: float | None = None) -> float:
    """Return the share of answers whose feature is above 0, or equal to ``least``."""
    column = np.concatenate([table[name] for table in tables])
    column = column[~np.isnan(column)]
    return float(np.mean(column > 0 if least is None else column == least))


def logit(ranker: SurrogateRanker, tables: Sequence[FeatureTable]) -> float:
    """Return the mean of the logits that the surrogate predicts for runs of all queries."""
    complete = [t for t in tables if not np.isnan(t["invention"]).all()]
    return float(np.mean([ranker.predict(table).draws.mean() for table in complete]))


def accusations(table: FeatureTable) -> np.ndarray:
    """Return whether each answer states a wrong or an unknown fact."""
    faults: np.ndarray = (table["wrong_answer"] > 0) | (table["unknown_facts"] > 0)
    return faults


def examples(
    corpus: MirageDataset, parts: Iterable[Run], tables: Iterable[FeatureTable]
) -> Iterator[str]:
    """Yield the accused texts with the accusation."""
    for run, table in zip(parts, tables, strict=True):
        for query_id, accused in zip(table.query_ids, accusations(table), strict=True):
            response = run.get(query_id)
            if accused and response is not None:
                item = answered(corpus[query_id], response)
                marks = [f"{span.type} {span.text!r}" for span in spans(item)]
                yield f"{query_id} {marks}: {response.text!r}"


COLUMNS = ("accused", "refusals", "shift", "wrong_fact", "unknown_fact", "logit")


def show(title: str, rows: Sequence[Row], key: str) -> None:
    """Print one table, with a line for each manner or language."""
    print(
        f"\n{key:20}{'accused':>9}{'refusals':>10}{'shift':>8}   {'greatest shift':28}"
        f"{'wrong fact':>11}{'unknown':>9}{'logit':>8}"
    )
    for name in dict.fromkeys(getattr(row, key) for row in rows):
        group = [row for row in rows if getattr(row, key) == name]
        features = dict.fromkeys(feature for row in group for feature in row.shifts)
        means = {f: np.mean([row.shifts[f] for row in group if f in row.shifts]) for f in features}
        worst = max(means, key=lambda feature: means[feature])
        print(
            f"{name:20}{mean(group, 'accused'):9.1%}{mean(group, 'refusals'):10.1%}"
            f"{mean(group, 'shift'):8.1%}   {worst:20}{means[worst]:8.1%}"
            f"{mean(group, 'wrong_fact'):11.1%}{mean(group, 'unknown_fact'):9.1%}"
            f"{mean(group, 'logit'):+8.2f}"
        )
        for column in COLUMNS:
            add_figure(mean(group, column), title, name, column)


def mean(rows: Sequence[Row], name: str) -> float:
    """Return the mean of a figure, each answer counted once."""
    return float(
        np.average([getattr(row, name) for row in rows], weights=[row.answers for row in rows])
    )


def main() -> None:
    """Print the tables."""
    from mannered_texts import MANNERS, PHRASES, phrases_of

    parser = script_parser(__doc__)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="all 18 by default")
    parser.add_argument("--manner", action="append", choices=MANNERS, help="all by default")
    parser.add_argument("--show", action="store_true", help="print the answers that are accused")
    parser.add_argument(
        "--phrases", type=Path, default=PHRASES, help="folder of phrases; default: the test set's"
    )
    options = parser.parse_args()
    chosen = ["en"] if options.quick else options.languages or list(LANGUAGES)
    codes = [code for code in chosen if phrases_of(code, options.phrases) is not None]
    if not codes:
        parser.error(f"no phrases of {', '.join(chosen)} in {options.phrases}")
    if missing := [code for code in chosen if code not in codes]:
        print(f"without phrases, and left out: {', '.join(missing)}")
    manners = list(MANNERS)[:2] if options.quick else options.manner or list(MANNERS)
    parts = Parallel(n_jobs=1 if options.quick else -1)(
        delayed(one_language)(code, manners, options.quick, options.phrases) for code in codes
    )
    rows = [row for part in parts for row in part]
    show("manners", rows, "manner")
    show("plain", [row for row in rows if row.manner == "plain"], "code")
    print("\nof all manners but plain:")
    show("all manners but plain", [row for row in rows if row.manner != "plain"], "code")
    if options.show:
        for row in rows:
            for example in row.examples:
                print(f"\n{row.code} {row.manner} {example}")
    save(parser, options)


if __name__ == "__main__":
    main()

"""The experiments of MIRAGE-Bench (arXiv 2410.13716), each as a table.

The data are NoMIRACL's recorded outputs, the benchmark itself, or your own arena:

    MIRAGE_DATA=../shared/data python examples/reproduce_paper.py --quick
    python examples/reproduce_paper.py --hub              # needs the extra hub
    python examples/reproduce_paper.py --hub FOLDER       # copies of the hub's datasets
    python examples/reproduce_paper.py --files FOLDER     # see mirage.papers.read_arena

``--quick`` uses two languages, few splits and no forests, and takes a minute. Without it, the
forests take hours on two cores. ``--out FOLDER`` also writes each table as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mirage import FeatureSuite, Judgments, papers
from mirage.languages import LANGUAGES
from mirage.papers import Arena, Result, read_arena, read_hub_arena
from mirage.sources import nomiracl
from mirage.surrogate.estimators import ESTIMATORS

NOMIRACL = ("ar", "de", "en", "es", "fa", "id", "sw", "zh")


def from_nomiracl(language: str) -> Arena:
    """Return recorded outputs of ten LLMs; a right answer beats a wrong one."""
    folder = Path(os.environ.get("MIRAGE_DATA", "../shared/data")) / "nomiracl"
    dataset, runs, judgments = nomiracl.load(folder, language)
    suite = FeatureSuite(nomiracl.FEATURES, language)
    tables = [suite.score(dataset, run) for run in runs.values()]
    return Arena.of(tables, Judgments.from_records(judgments))


def languages(options: argparse.Namespace) -> list[str]:
    """Return the languages given as options, or all languages of the source."""
    if options.languages:
        return list(options.languages)
    if options.files:
        return [code for code in LANGUAGES if (Path(options.files) / code).is_dir()]
    if options.hub:
        copies = Path(options.hub) / "mirage-bench"
        return [code for code in LANGUAGES if (copies / code).is_dir()]
    return list(NOMIRACL) if options.hub is None else list(LANGUAGES)


def arenas(options: argparse.Namespace) -> dict[str, Arena]:
    """Return the arenas by language."""
    codes = languages(options)[: 2 if options.quick else None]
    if not codes:
        raise SystemExit(f"{options.files or options.hub}: no folder of a language in it")
    if options.files:
        return {code: read_arena(options.files, code) for code in codes}
    if options.hub is not None:
        return {code: read_hub_arena(code, options.hub or None) for code in codes}
    return {code: from_nomiracl(code) for code in codes}


def all_experiments(
    found: Mapping[str, Arena], new: Sequence[str], quick: bool
) -> Iterator[tuple[str, Result[Any]]]:
    """Yield each experiment with the number of its table or figure."""
    ours: dict[str, Any] = {"estimator": "ridge" if quick else "auto"}
    paper: dict[str, Any] = {"estimator": "svr" if quick else "forest", "pooled": False}
    names = ("ridge", "svr") if quick else tuple(ESTIMATORS)
    few: dict[str, Any] = {"repeats": 3} if quick else {"repeats": 20, "n_jobs": -1}
    many = few if quick else {"repeats": 50, "n_jobs": -1}
    together = f"{ours['estimator']} on all languages together"
    alone = f"{paper['estimator']} on each language alone"
    yield f"Table 2, {together}", papers.tau_by_language(found, **ours, **few)
    yield f"Table 2, {alone}", papers.tau_by_language(found, **paper, **few)
    for holdout in (2, 4):
        table = f"Table 3, {holdout} held out"
        one = papers.compare_regressors(found, names, pooled=(), holdout=holdout, **many)
        yield f"{table}, estimators on each language alone", one
        pooled = [ours["estimator"]]
        one = papers.compare_regressors(found, pooled, pooled=pooled, holdout=holdout, **many)
        yield f"{table}, {together}", one
    yield f"Table 4, {together}", papers.compare_feature_sets(found, **ours, **few)
    yield f"Table 5, {together}", papers.r2_by_tournaments(found, **ours, **few)
    yield f"Table 5, {alone}", papers.r2_by_tournaments(found, **paper, **few)
    yield (
        f"Figure 5, {together}",
        papers.feature_importance(found, **ours, repeats=few["repeats"]),
    )
    yield "Figure 6", papers.fewer_judgments(found, repeats=20 if quick else 1000)
    yield f"Figure 8, {together}", papers.new_models(found, new, **ours)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every experiment by language, and the mean over languages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--hub", nargs="?", const="", metavar="FOLDER")
    source.add_argument("--files", metavar="FOLDER")
    parser.add_argument("--languages", nargs="+", choices=tuple(LANGUAGES), metavar="CODE")
    parser.add_argument("--new", nargs="+", metavar="MODEL", help="two at random by default")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    found = arenas(options)
    shared = set.intersection(*(set(arena.tournaments.models) for arena in found.values()))
    new = options.new or random.Random(0).sample(sorted(shared), 2)
    for name, result in all_experiments(found, new, options.quick):
        print(f"\n{name}. {result}", flush=True)
        if len(found) > 1 and len({row.language for row in result}) > 1:
            print(f"\n{name}, mean over languages. {result.mean()}", flush=True)
        if options.out:
            write(options.out, name, result)


def write(folder: Path, name: str, result: Result[Any]) -> None:
    """Write a result as JSON: its title, and a list for each column; NaN is null."""
    columns = {
        field: [None if value != value else value for value in column]
        for field, column in result.columns.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{'-'.join(re.findall('[a-z0-9]+', name.lower()))}.json"
    file.write_text(json.dumps({"title": result.title, **columns}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

"""What the gate says on the 40 queries of the benchmark, in 18 languages, one table.

Baselines and later runs are texts that people wrote: for each query two true answers in different
words, a terse true one, the reference and a false one; where no passage answers, two abstentions
and an invention. The features are those that ``assert_no_regression`` compares by default, and the
test is the library's, at alpha 0.05.

- a truth becomes a lie: every answerable query is answered falsely, the abstentions stay;
- inventing: where no passage answers, the response invents; the true answers stay;
- a tenth of citations lost: each citation is dropped with probability 0.1, in 200 seeds a language;
- a paraphrase: the same system in other true words.

    python benchmarks/gate.py [SEEDS]     # 200 by default; some minutes on two cores
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Mapping

import numpy as np
from joblib import Parallel, delayed

from mirage import FeatureSuite, FeatureTable, MirageDataset, Query, Response, Run
from mirage.languages import LANGUAGES
from mirage.surrogate.drafts import Texts, bundled_texts
from mirage.testing.comparison import compare
from mirage.testing.gate import gated

Responses = Mapping[str, str]

CITATION = re.compile(r"\s?\[[^\]]+\]")
SHARE, ALPHA = 0.1, 0.05
MANNERS = ("reference", "true 1", "true 2", "terse")
CHANGES = {
    "truth to lies": [(manner, "false") for manner in MANNERS],
    "inventing where no passage answers": [("true 1", "inventing"), ("reference", "inventing")],
    "a tenth of citations lost": [
        ("reference", "lost"),
        ("true 1", "lost"),
        ("true 2", "lost"),
        ("terse", "lost"),
    ],
    "paraphrase": [
        ("true 1", "true 2"),
        ("true 2", "true 1"),
        ("true 1", "terse"),
        ("true 2", "terse"),
        ("terse", "true 1"),
        ("reference", "true 1"),
        ("reference", "terse"),
    ],
}
Row = tuple[str, str, str]


def texts_of(dataset: MirageDataset, manner: str, base: str = "") -> dict[str, str]:
    """The responses of one manner; a liar and an inventor keep to ``base`` in all else."""
    written = bundled_texts(dataset.language)
    return {query.id: _text(query, written[query.id], manner, base) for query in dataset}


def _text(query: Query, texts: Texts, manner: str, base: str) -> str:
    if manner == ("false" if query.answerable else "inventing"):
        return texts.false
    manner = base or manner
    if manner == "reference":
        return query.reference or ""
    return texts.terse if manner == "terse" else texts.true[int(manner[-1]) - 1]


def spoiled(texts: Responses, seed: int) -> dict[str, str]:
    """The responses after each citation was lost with probability 0.1."""
    rng = np.random.default_rng(seed)
    return {
        id_: CITATION.sub(lambda found: "" if rng.random() < SHARE else found[0], text)
        for id_, text in texts.items()
    }


def alarms_in(code: str, seeds: int) -> Counter[Row]:
    """Alarms of one language: by change, pair, and feature or ``any``."""
    dataset = MirageDataset.bundled(code)
    suite = FeatureSuite(gated(dataset))
    lower = [name for name, facts in suite.facts.items() if facts.direction_in(code) == "lower"]

    def scored(texts: Responses, queries: MirageDataset = dataset) -> FeatureTable:
        responses = tuple(Response(query_id=query.id, text=texts[query.id]) for query in queries)
        run = Run(model="m", language=code, responses=responses)
        return suite.score(queries, run, progress=False)

    def rescored(before: FeatureTable, old: Responses, new: Responses) -> FeatureTable:
        changed = [place for place, id_ in enumerate(dataset.query_ids) if old[id_] != new[id_]]
        if not changed:
            return before
        values = before.values.copy()
        values[changed] = scored(new, MirageDataset([dataset[i] for i in changed])).values
        return FeatureTable("m", code, before.query_ids, before.features, values)

    found: Counter[Row] = Counter()
    for change, pairs in CHANGES.items():
        for first, second in pairs:
            old = texts_of(dataset, first)
            before = scored(old)
            for seed in range(seeds if second == "lost" else 1):
                base = first if second in ("false", "inventing") else ""
                new = spoiled(old, seed) if second == "lost" else texts_of(dataset, second, base)
                worse = compare(before, rescored(before, old, new), lower).regressed(ALPHA)
                pair = f"{first} → {second}"
                found[change, pair, "runs"] += 1
                found[change, pair, "any"] += bool(worse)
                found.update((change, pair, feature.feature) for feature in worse)
    return found


def main(seeds: int = 200) -> None:
    """Print the table."""
    jobs = (delayed(alarms_in)(code, seeds) for code in LANGUAGES)
    by_language = dict(zip(LANGUAGES, Parallel(n_jobs=2)(jobs), strict=True))
    found: Counter[Row] = sum(by_language.values(), Counter())
    for change, pairs in CHANGES.items():
        print(f"{change}: alarms of runs")
        for first, second in pairs:
            pair = f"{first} → {second}"
            alarms, runs = found[change, pair, "any"], found[change, pair, "runs"]
            shares = {
                code: counts[change, pair, "any"] / counts[change, pair, "runs"]
                for code, counts in by_language.items()
            }
            least, most = min(shares, key=shares.get), max(shares, key=shares.get)
            features = Counter({key[2]: n for key, n in found.items() if key[:2] == (change, pair)})
            del features["any"], features["runs"]
            by = ", ".join(f"{name} {100 * n / runs:.0f}" for name, n in features.most_common())
            print(
                f"  {pair:24} {alarms:5} of {runs:5} ({100 * alarms / runs:5.1f} %; least "
                f"{least} {100 * shares[least]:.0f}, most {most} {100 * shares[most]:.0f})  {by}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seeds", nargs="?", type=int, default=200)
    options = parser.parse_args()
    main(options.seeds)

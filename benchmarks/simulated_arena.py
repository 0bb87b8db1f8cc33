"""The bundled surrogates on simulated systems that they have not seen.

1. Systems held out five at a time: Kendall's tau and R2 by language.
2. Kinds of fault never trained on: every system with a kind of fault is left out, one kind at a
   time, and the system with that fault on every query is ranked against the one without faults.
3. The order of six known answers on the bundled leaderboards.

    python benchmarks/simulated_arena.py          # about ten minutes on two cores
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from statistics import mean

from joblib import Parallel, delayed

from mirage import SurrogateRanker
from mirage.languages import LANGUAGES
from mirage.surrogate.simulation import FAULTS, SYSTEMS
from mirage.surrogate.training import TrainingData

ORDER = ("reference", "truncated", "uncited", "wrong-language", "refusal", "garbled")
SPLITS = 20  # each of the 100 systems is held out once


def data(code: str) -> Mapping[str, TrainingData]:
    """What the bundled surrogate of a language was trained on."""
    return SurrogateRanker.pretrained(code).data


def same_estimator(code: str) -> SurrogateRanker:
    """A new ranker with the estimator that was selected for a language; saves selecting again."""
    return SurrogateRanker(str(SurrogateRanker.pretrained(code).recipe.shared))


def held_out(code: str) -> tuple[float, float, float]:
    """Tau, R2 and coverage of systems held out five at a time."""
    validation = same_estimator(code).fit_data(data(code)).cross_validate(5, SPLITS)
    return validation.tau[code], validation.r2[code], validation.coverage[code]


def unseen_kind(code: str, kind: str) -> float:
    """How far below the clean system one with an unseen kind of fault is put, in logits."""
    seen = [system.name for system in SYSTEMS if kind not in system.faults]
    everyone = data(code)[code]
    ranker = same_estimator(code).fit_data({code: everyone.of(seen)})
    clean, faulty = (
        ranker.predict(everyone.table(everyone.models.index(name))).logit
        for name in ("reference", kind)
    )
    return clean - faulty


def in_order(code: str) -> bool:
    """Whether six known answers are put in their order."""
    ranker = SurrogateRanker.pretrained(code)
    everyone = ranker.data[code]
    tables = (everyone.table(everyone.models.index(name)) for name in ORDER)
    logits = [ranker.predict(table).logit for table in tables]
    return all(a > b for a, b in pairwise(logits))


def main() -> None:
    """Print the three tables."""
    with Parallel(n_jobs=-1) as parallel:
        results = parallel(delayed(held_out)(code) for code in LANGUAGES)
        print("systems held out five at a time\n          tau      R2   95 % interval holds")
        for code, row in zip(LANGUAGES, results, strict=True):
            print(f"  {code}   " + "".join(f"{value:8.3f}" for value in row))
        print("  mean " + "".join(f"{mean(column):8.3f}" for column in zip(*results, strict=True)))
        print(f"  worst tau {min(row[0] for row in results):.3f}")

        print("kinds never trained on: logits below the system without faults")
        for kind in FAULTS:
            below = parallel(delayed(unseen_kind)(code, kind) for code in LANGUAGES)
            missed = [code for code, gap in zip(LANGUAGES, below, strict=True) if gap <= 0]
            where = f"not in {' '.join(missed)}" if missed else "in all 18"
            print(f"  {kind:16} least {min(below):6.2f}   mean {mean(below):6.2f}   {where}")

    right = [code for code in LANGUAGES if in_order(code)]
    print(f"{' > '.join(ORDER)}: in {len(right)} of 18 languages")


if __name__ == "__main__":
    main()

"""The simulated arena: RAG systems with known faults, and a judge that knows the faults.

No LLM and no human label is needed: a system answers in one of several manners of writing, with
texts that people wrote for the bundled corpus, after faults of known kinds in known amounts were
done to them. Faults are done to several manners, and the judge sees what was done, never the
manner: what a surrogate learns here is how features react to faults, whatever the wording.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.arena import Judgments
from mirage.dataset import MirageDataset
from mirage.languages import Language
from mirage.models import Response, Run
from mirage.surrogate.drafts import MANNERS, Draft, Scene, faultless
from mirage.surrogate.faults import ARENA_FAULTS, FAULTS
from mirage.surrogate.utilities import UTILITIES, Utilities

__all__ = ["ANCHORS", "GROUPS", "SYSTEMS", "System", "judge", "simulate"]


@dataclass(frozen=True, slots=True)
class System:
    """A simulated RAG system.

    ``faults`` gives the share of queries, 0 to 1, that each kind of fault hits, and ``manner`` how
    it writes, a key of :data:`~mirage.surrogate.drafts.MANNERS`.
    """

    name: str
    faults: Mapping[str, float]
    manner: str = "reference"


FULLY = ("reference", "casual", "terse")
"""The manners to which most faults are done on all queries; on others it is on a half or less."""

CLAIMS = (
    *("denying", "mention-lie", "listing", "undecided", "guessing"),
    *("abstain-then-lie", "other-question", "swapped", "half-right"),
)
"""The faults in what a response asserts."""

_SIX = ("reference", "plain", "long", "casual", "terse", "quoting")
_EVERYWHERE = {manner: 1.0 if manner in FULLY else 0.25 for manner in _SIX}
_PARTLY = {"reference": 1.0, "casual": 0.5, "terse": 0.5, "long": 0.25, "chatty": 0.25}
_SAME_TEXT = {"reference": 1.0, "casual": 0.5, "long": 0.25}
_REWRITTEN = dict.fromkeys(FULLY, 1.0)

# Faults whose text is the same whatever the manner are done to few manners.
_PLACED: Mapping[str, Mapping[str, float]] = {
    "garbled": {"reference": 1.0},
    **dict.fromkeys(("off-topic", "answered-anyway", "refusal", "lying", "dumping"), _REWRITTEN),
    **dict.fromkeys(CLAIMS, _PARTLY),
    **dict.fromkeys(("listing", "undecided", "guessing", "abstain-then-lie"), _SAME_TEXT),
    # Only a text that mentions a right and a wrong answer can have them exchanged.
    "swapped": dict.fromkeys(("long", "contrasting", "correcting"), 1.0),
}
# Faults that are done to the manners which mention wrong answers, and to the chatty one.
_MENTIONING = ("uncited", "wrongly-cited", "mixed-language")
_CHATTY = ("uncited", "wrongly-cited", "refusal", "lying", "wrong-entity", "answered-anyway")


def _with_one_fault() -> Iterator[System]:
    """Yield the systems with one fault: every kind in several manners."""
    for kind in ARENA_FAULTS:
        shares = dict(_PLACED.get(kind, _EVERYWHERE))
        if kind in _MENTIONING:
            shares |= {"contrasting": 0.5, "correcting": 0.5}
        if kind in _CHATTY:
            shares |= {"chatty": 0.5}
        for manner, share in shares.items():
            yield System(named(kind, manner), {kind: share}, manner)


def named(kind: str, manner: str) -> str:
    """The name of a system with one fault on all queries: ``uncited``, ``uncited-terse``."""
    return kind if manner == "reference" else f"{kind}-{manner}"


def _mixtures(
    name: str, number: int, most: int, shares: Sequence[float], seed: int
) -> Iterator[System]:
    """Systems with one to ``most`` kinds of fault, each on one of the shares of the queries."""
    rng = np.random.default_rng(seed)
    kinds = [kind for kind in ARENA_FAULTS if kind != "garbled"]
    for i in range(number):
        some = rng.choice(kinds, size=rng.integers(1, most + 1), replace=False)
        faults = zip(map(str, some), rng.choice(shares, size=len(some)).tolist(), strict=True)
        yield System(f"{name}-{i + 1:02d}", dict(faults), str(rng.choice(list(MANNERS))))


SYSTEMS: tuple[System, ...] = (
    *(System(manner, {}, manner) for manner in MANNERS),
    *_with_one_fault(),
    *_mixtures("mixture", 30, 4, (0.2, 0.4, 0.6, 0.8), seed=0),
    *_mixtures("light", 60, 3, (0.05, 0.1, 0.15, 0.2, 0.3), seed=1),
)
"""The systems that the pretrained surrogates learn from.

Most systems that people build have few faults on few queries, so many of these are light.
"""

GROUPS: Mapping[str, str] = {
    system.name: "+".join(system.faults) or "faultless" for system in SYSTEMS
}
"""The kinds of fault of each system: what is held out together, whatever the manner."""

_MANNERS_WITH_FAULTS = ("casual", "terse")

ANCHORS = (
    *_SIX,
    *FAULTS,
    *(
        named(kind, manner)
        for kind in ("wrong-entity", "uncited")
        for manner in _MANNERS_WITH_FAULTS
    ),
)
"""The systems that a leaderboard shows: truthful and lying ones of several manners, and every kind
of fault that any response can have."""


def simulate(
    corpora: Mapping[str, MirageDataset],
    code: str,
    systems: Sequence[System],
    *,
    utilities: Utilities = UTILITIES,
    seed: int,
) -> tuple[list[Run], NDArray[np.float64]]:
    """Return what each system answers to the corpus of a language, and how good that is.

    Args:
        corpora: Parallel datasets by language.
        code: The language.
        systems: The systems.
        utilities: What the judge makes of faults.
        seed: Random seed; the same seed gives the same texts.

    Returns:
        A run for each system, and the judge's utilities of shape ``(systems, queries)``.
    """
    corpus, language = corpora[code], Language.of(code)
    runs, worth = [], np.empty((len(systems), len(corpus)))
    for i, system in enumerate(systems):
        # One stream a system and language: adding a system changes no other one.
        rng = np.random.default_rng([seed, *code.encode(), *system.name.encode()])
        hit = {
            kind: _hit(kind, share, len(corpus), [seed, *code.encode()])
            for kind, share in system.faults.items()
        }
        responses = []
        for j, query in enumerate(corpus):
            kinds = [kind for kind in ARENA_FAULTS if j in hit.get(kind, ())]
            draft = _spoilt(Scene(query, corpora, system.manner), kinds, rng)
            responses.append(Response(query_id=query.id, text=draft.written(language)))
            worth[i, j] = utilities.of(draft.faults, complete=draft.complete)
        runs.append(Run(model=system.name, language=code, responses=tuple(responses)))
    return runs, worth


def _spoilt(scene: Scene, kinds: Sequence[str], rng: np.random.Generator) -> Draft:
    """Return the faultless draft after the faults of some kinds, as far as it can have them."""
    draft = faultless(scene)
    for kind in kinds:
        changed = ARENA_FAULTS[kind].done_to(draft, scene, rng)
        if changed is not None:
            draft = changed.having(kind)
    return draft


def judge(
    utilities: NDArray[np.float64],
    models: Sequence[str],
    query_ids: Sequence[str],
    *,
    seed: int,
    tie_below: float = 0.4,
) -> Judgments:
    """Verdicts on every pair of models and every query, given utilities ``(models, queries)``.

    The judge prefers the response with the higher utility after logistic noise of scale 1, so
    that without ties the verdicts follow Bradley-Terry with utilities for logits. A noisy
    difference of less than ``tie_below`` is a tie.
    """
    a, b = np.triu_indices(len(models), k=1)
    noise = np.random.default_rng(seed).logistic(size=(len(a), len(query_ids)))
    difference = utilities[a] - utilities[b] + noise
    score = np.where(np.abs(difference) < tie_below, 0.5, difference > 0)
    names = np.asarray(models)
    return Judgments.from_arrays(
        query=np.tile(np.asarray(query_ids), len(a)),
        model_a=np.repeat(names[a], len(query_ids)),
        model_b=np.repeat(names[b], len(query_ids)),
        score=score.ravel(),
    )


def _hit(kind: str, share: float, queries: int, seed: Sequence[int]) -> set[int]:
    """The queries that a fault hits; those of a smaller share are among those of a larger one."""
    order = np.random.default_rng([*seed, *kind.encode()]).permutation(queries)
    return set(order[: round(share * queries)].tolist())

"""The simulated arena: RAG systems with known faults, and a judge that scores these faults.

The arena needs no LLM and no human labels. A system answers in one of several writing styles,
called manners, with handwritten texts for the bundled corpus. Known kinds of fault are then applied
to a share of its responses. The same faults are applied in several manners, and the judge scores
only the faults, never the manner. A surrogate therefore learns how faults change features,
regardless of wording.
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
from mirage.surrogate.reading_faults import HARD_FAULTS
from mirage.surrogate.utilities import UTILITIES, Utilities


@dataclass(frozen=True, slots=True)
class System:
    """A simulated RAG system.

    Attributes:
        name: Name of the system.
        faults: Share of queries that each kind of fault affects, from 0 to 1, by kind.
        manner: Manner of writing, a key of :data:`~mirage.surrogate.drafts.MANNERS`.
    """

    name: str
    faults: Mapping[str, float]
    manner: str = "reference"


FULLY = ("reference", "casual", "terse")
"""Manners in which most faults affect all queries. In other manners, they affect fewer queries."""

CLAIMS = (
    *("denying", "mention-lie", "listing", "undecided", "guessing"),
    *("abstain-then-lie", "other-question", "swapped", "half-right"),
)
"""Faults in the assertions of a response."""

_SIX = ("reference", "plain", "long", "casual", "terse", "quoting")
_EVERYWHERE = {manner: 1.0 if manner in FULLY else 0.25 for manner in _SIX}
_PARTLY = {"reference": 1.0, "casual": 0.5, "terse": 0.5, "long": 0.25, "chatty": 0.25}
_SAME_TEXT = {"reference": 1.0, "casual": 0.5, "long": 0.25}
_REWRITTEN = dict.fromkeys(FULLY, 1.0)

# Faults with the same text in every manner are applied in few manners.
_SHARES_BY_KIND: Mapping[str, Mapping[str, float]] = {
    "garbled": {"reference": 1.0},
    **dict.fromkeys(("off-topic", "answered-anyway", "refusal", "lying", "dumping"), _REWRITTEN),
    **dict.fromkeys(CLAIMS, _PARTLY),
    **dict.fromkeys(("listing", "undecided", "guessing", "abstain-then-lie"), _SAME_TEXT),
    # A right and a wrong answer can be exchanged only in a text that mentions both.
    "swapped": dict.fromkeys(("long", "contrasting", "correcting"), 1.0),
}
# Faults that are also applied in the manners that mention wrong answers, and faults that are also
# applied in the chatty manner.
_MENTIONING_KINDS = ("uncited", "wrongly-cited", "mixed-language")
_CHATTY_KINDS = ("uncited", "wrongly-cited", "refusal", "lying", "wrong-entity", "answered-anyway")


def _single_fault_systems() -> Iterator[System]:
    """Yield systems with a single kind of fault, for every kind and several manners."""
    for kind in ARENA_FAULTS:
        shares = dict(_SHARES_BY_KIND.get(kind, _EVERYWHERE))
        if kind in _MENTIONING_KINDS:
            shares |= {"contrasting": 0.5, "correcting": 0.5}
        if kind in _CHATTY_KINDS:
            shares |= {"chatty": 0.5}
        for manner, share in shares.items():
            yield System(system_name(kind, manner), {kind: share}, manner)


def system_name(kind: str, manner: str) -> str:
    """Return the name of a system with one kind of fault, such as ``lying`` or ``lying-terse``."""
    return kind if manner == "reference" else f"{kind}-{manner}"


def _mixtures(
    name: str, number: int, most: int, shares: Sequence[float], seed: int
) -> Iterator[System]:
    """Yield ``number`` systems with one to ``most`` random kinds of fault.

    Their names are ``name`` with a number, such as ``light-01``. Each kind affects a share of the
    queries that is drawn from ``shares``.
    """
    rng = np.random.default_rng(seed)
    kinds = [kind for kind in ARENA_FAULTS if kind != "garbled"]
    for i in range(number):
        chosen = rng.choice(kinds, size=rng.integers(1, most + 1), replace=False)
        faults = zip(map(str, chosen), rng.choice(shares, size=len(chosen)).tolist(), strict=True)
        yield System(f"{name}-{i + 1:02d}", dict(faults), str(rng.choice(list(MANNERS))))


SYSTEMS: tuple[System, ...] = (
    *(System(manner, {}, manner) for manner in MANNERS),
    *_single_fault_systems(),
    *_mixtures("mixture", 30, 4, (0.2, 0.4, 0.6, 0.8), seed=0),
    *_mixtures("light", 60, 3, (0.05, 0.1, 0.15, 0.2, 0.3), seed=1),
)
"""Systems on which the pretrained surrogates of the quick level are trained.

Many have few faults on few queries, as most real systems do.
"""

GROUPS: Mapping[str, str] = {
    system.name: "+".join(system.faults) or "faultless" for system in SYSTEMS
}
"""Kinds of fault by system name, as a text such as ``lying+padded``.

Systems with the same kinds are held out together.
"""

_MANNERS_WITH_FAULTS = ("casual", "terse")

ANCHORS = (
    *_SIX,
    *FAULTS,
    *(
        system_name(kind, manner)
        for kind in ("wrong-entity", "uncited")
        for manner in _MANNERS_WITH_FAULTS
    ),
)
"""Names of the systems that the bundled leaderboards of the quick level show.

They are systems without faults in several manners, and a system with each fault in :data:`FAULTS`.
For two of these faults, there are systems in other manners as well.
"""


def simulate(
    corpora: Mapping[str, MirageDataset],
    code: str,
    systems: Sequence[System],
    *,
    utilities: Utilities = UTILITIES,
    level: str = "quick",
    seed: int,
) -> tuple[list[Run], NDArray[np.float64]]:
    """Simulate the responses of systems in one language, and compute their utilities.

    Each system responds to every query of the bundled corpus in this language.

    Args:
        corpora: Bundled corpora by language code.
        code: Language of the responses.
        systems: Systems to simulate.
        utilities: Numbers from which the simulated judge computes the utility of a response.
        level: Level of the bundled corpora.
        seed: Random seed.

    Returns:
        One run per system, and the utility of each response for the simulated judge, as an array of
        shape ``(systems, queries)``.
    """
    corpus, language = corpora[code], Language.with_board(code)
    runs, response_utilities = [], np.empty((len(systems), len(corpus)))
    for i, system in enumerate(systems):
        # One random generator per system and language, so a new system does not change the others.
        rng = np.random.default_rng([seed, *code.encode(), *system.name.encode()])
        affected = {
            kind: _affected_queries(kind, share, len(corpus), [seed, *code.encode()])
            for kind, share in system.faults.items()
        }
        responses = []
        for j, query in enumerate(corpus):
            kinds = [kind for kind in HARD_FAULTS if j in affected.get(kind, ())]
            draft = _apply_faults(Scene(query, corpora, system.manner, level), kinds, rng)
            responses.append(Response(query_id=query.id, text=draft.written(language)))
            response_utilities[i, j] = utilities.of(draft.faults, complete=draft.complete)
        runs.append(Run(model=system.name, language=code, responses=tuple(responses)))
    return runs, response_utilities


def _apply_faults(scene: Scene, kinds: Sequence[str], rng: np.random.Generator) -> Draft:
    """Return a draft with the faults in ``kinds``, except for faults that it cannot have."""
    draft = faultless(scene)
    for kind in kinds:
        changed = HARD_FAULTS[kind].done_to(draft, scene, rng)
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
    """Return the verdicts of the simulated judge on every pair of models and every query.

    The judge prefers the response with the higher utility. Logistic noise of scale 1 is added to
    the difference of the two utilities. If the result is closer to 0 than ``tie_below``, the
    verdict is a tie. If ``tie_below`` is 0, the verdicts follow the Bradley-Terry model with
    utilities as logits.

    Args:
        utilities: Utility of each response, of shape ``(models, queries)``.
        models: Names of the models.
        query_ids: Ids of the queries.
        seed: Random seed of the noise.
        tie_below: Difference of utilities, including noise, below which the verdict is a tie.

    Example:
        >>> import numpy as np
        >>> judgments = judge(np.array([[9.0], [0.0]]), ["good", "bad"], ["q1"], seed=0)
        >>> len(judgments), judgments.score.tolist()
        (1, [1.0])
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


def _affected_queries(kind: str, share: float, queries: int, seed: Sequence[int]) -> set[int]:
    """Return the indices of the queries that a fault affects, out of ``queries`` queries.

    The queries for a smaller share are always among those for a larger share.
    """
    order = np.random.default_rng([*seed, *kind.encode()]).permutation(queries)
    return set(order[: round(share * queries)].tolist())

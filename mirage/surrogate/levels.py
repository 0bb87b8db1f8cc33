"""The simulated systems of each level (quick or hard) of the bundled leaderboards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from mirage.languages import LANGUAGES
from mirage.surrogate.drafts import MANNERS
from mirage.surrogate.reading_faults import HARD_FAULTS, READING_FAULTS
from mirage.surrogate.simulation import ANCHORS, SYSTEMS, System, system_name

HARD_MANNERS = tuple(manner for manner in MANNERS if manner != "quoting")
"""Manners of the hard level: all but quoting, because no single sentence answers its questions."""

# Share of queries that a fault affects, by manner. The first mapping is for kinds of fault that are
# not in the second one.
_SHARES = {"reference": 1.0, "casual": 0.25}
_SHARES_BY_KIND: Mapping[str, Mapping[str, float]] = {
    "garbled": {"reference": 1.0},
    "dumping": {"reference": 0.25},
    "padded": {"reference": 0.5},
    "verbose": {"reference": 0.5},
    "truncated": {"long": 1.0, "casual": 0.5},  # most references are one sentence
    "uncited": dict.fromkeys(("terse", "chatty", "correcting"), 0.5) | _SHARES,
    "wrongly-cited": dict.fromkeys(("chatty", "contrasting"), 0.25) | _SHARES,
    "wrong-entity": dict.fromkeys(("terse", "long", "chatty", "correcting"), 0.5) | _SHARES,
    "miscalculating": dict.fromkeys(("long", "terse", "chatty"), 1.0) | _SHARES,
    # Only these manners mention a wrong answer. A long answer also mentions intermediate results,
    # but these are not wrong answers.
    "swapped": dict.fromkeys(("contrasting", "correcting"), 1.0),
    # These faults replace the whole text, so manners differ only in the frame.
    **dict.fromkeys(("answered-anyway", "lying", "hasty", "refusal"), {"chatty": 0.5} | _SHARES),
}
# A system that gives wrong answers usually also answers questions that have no answer.
_INVENTING = (
    *("lying", "wrong-entity", "hasty", "first-passage", "one-hop", "miscalculating"),
    *("denying", "mention-lie", "guessing", "other-question"),
)
# Kinds that are not mixed with others: rare faults, and faults with long texts, whose features take
# long to compute.
_UNMIXED = ("garbled", "dumping", "padded", "verbose")
# Anchors of the quick board that are not informative on the hard board, or have long texts.
_LEFT_OUT = ("truncated", "dumping", "padded", "verbose", "garbled")
# Real systems mostly have these faults, so they are drawn more often in mixtures.
_FREQUENT = (*READING_FAULTS, "lying", "wrong-entity", "refusal", "answered-anyway", "uncited")


def _faulty_systems() -> Iterator[System]:
    """Yield systems with one kind of fault; some of them also answer all unanswerable questions."""
    for kind in HARD_FAULTS:
        for manner, share in _SHARES_BY_KIND.get(kind, _SHARES).items():
            yield System(system_name(kind, manner), {kind: share}, manner)
    for kind in _INVENTING:
        yield System(f"inventing-{kind}", dict.fromkeys((kind, "answered-anyway"), 1.0))


def _mixtures(name: str, number: int, shares: Sequence[float], seed: int) -> Iterator[System]:
    """Yield ``number`` systems with one to three random kinds of fault.

    Their names are ``name`` with a number, such as ``light-01``. Each kind affects a share of the
    queries that is drawn from ``shares``.
    """
    rng = np.random.default_rng(seed)
    kinds = [*(kind for kind in HARD_FAULTS if kind not in _UNMIXED), *_FREQUENT]
    for i in range(number):
        chosen = dict.fromkeys(map(str, rng.choice(kinds, size=rng.integers(1, 4))))
        faults = zip(chosen, rng.choice(shares, size=len(chosen)).tolist(), strict=True)
        yield System(f"{name}-{i + 1:02d}", dict(faults), str(rng.choice(list(HARD_MANNERS))))


RICH = ("en", "ko", "sw", "te", "zh")
"""Languages in which all systems of the hard level are simulated.

The trees learn from all languages together. The other languages therefore need only the anchors and
the systems in :data:`EVERYWHERE`.
"""

EVERYWHERE = (
    *(f"inventing-{kind}" for kind in _INVENTING),
    *(system_name("swapped", manner) for manner in _SHARES_BY_KIND["swapped"]),
    *(f"light-{i:02d}" for i in range(1, 13)),
)
"""Names of the systems that are simulated in every language, in addition to the anchors.

They answer unanswerable questions, exchange right and wrong answers, or have few faults.
"""


class Level(NamedTuple):
    """The simulated systems of a level (quick or hard) of the bundled leaderboards.

    Attributes:
        systems: Systems on which the surrogates of the level are trained.
        anchors: Names of the systems that the bundled leaderboards of the level show.
        rich: Languages in which all systems are simulated. In other languages, only the anchors and
            the systems in :data:`EVERYWHERE` are simulated.
    """

    systems: tuple[System, ...]
    anchors: tuple[str, ...]
    rich: tuple[str, ...] = tuple(LANGUAGES)

    def systems_in(self, code: str) -> tuple[System, ...]:
        """Return the systems that are simulated in a language."""
        if code in self.rich:
            return self.systems
        names = {*self.anchors, *EVERYWHERE}
        return tuple(system for system in self.systems if system.name in names)

    @property
    def groups(self) -> dict[str, str]:
        """The kinds of fault of each system, as a text such as ``lying+padded``, by system name.

        When the errors of surrogates are measured, systems with the same kinds are held out
        together.
        """
        return {system.name: "+".join(system.faults) or "faultless" for system in self.systems}


HARD = Level(
    (
        *(System(manner, {}, manner) for manner in HARD_MANNERS),
        *_faulty_systems(),
        *_mixtures("mixture", 8, (0.2, 0.4, 0.6, 0.8), seed=2),
        *_mixtures("light", 40, (0.05, 0.1, 0.15, 0.2, 0.3), seed=3),
    ),
    (
        *HARD_MANNERS,
        *READING_FAULTS,
        *(kind for kind in ANCHORS if kind in HARD_FAULTS and kind not in _LEFT_OUT),
        *(system_name(kind, "casual") for kind in ("hasty", "wrong-entity", "uncited")),
    ),
    RICH,
)

SIMULATED: Mapping[str, Level] = MappingProxyType({"quick": Level(SYSTEMS, ANCHORS), "hard": HARD})
"""The simulated systems of each level of :data:`mirage.dataset.LEVELS`."""

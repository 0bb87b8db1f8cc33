"""Cost of each kind of fault: how much it lowers the logit that a surrogate predicts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mirage.surrogate.levels import SIMULATED
from mirage.surrogate.ranker import SurrogateRanker
from mirage.surrogate.reading_faults import READING_FAULTS
from mirage.surrogate.simulation import system_name
from mirage.surrogate.utilities import UTILITIES, Utilities

CITATION_FAULTS = ("over-cited", "uncited", "wrongly-cited")
"""Faults in the citations of a true answer."""

FALSEHOODS = (
    *("lying", "wrong-entity", "answered-anyway", "denying", "mention-lie"),
    *("guessing", "abstain-then-lie", "other-question", "swapped"),
    *READING_FAULTS,
)
"""Faults that make a response assert something false."""


class FaultCost(NamedTuple):
    """How much a kind of fault lowers the utility and the logit of a system.

    Attributes:
        kind: Name of the fault.
        utility: Utility that the simulated judge subtracts for the fault, in natural-log odds.
        queries: Number of queries on which the fault changes a feature, summed over all systems
            that have only this fault.
        logit: Decrease of the predicted logit if all queries have the fault.
    """

    kind: str
    utility: float
    queries: int
    logit: float


def fault_costs(
    ranker: SurrogateRanker, language: str, *, utilities: Utilities = UTILITIES
) -> list[FaultCost]:
    """Return the cost of each kind of fault in a language, the cheapest first.

    A system with one kind of fault is compared with the faultless system that has the same manner
    of writing. The cost is the difference of their logits, divided by the share of queries on which
    any feature differs. The division makes costs comparable even if only some queries can have a
    fault.

    Args:
        ranker: Surrogate that was trained on the simulated systems.
        language: Language code.
        utilities: How much the simulated judge penalises each fault. The penalties are returned in
            :attr:`FaultCost.utility`.

    Example:
        >>> ranker = SurrogateRanker.pretrained("sw")
        >>> logits = {cost.kind: cost.logit for cost in fault_costs(ranker, "sw")}
        >>> logits["uncited"] < logits["lying"]
        True
    """
    part, logits = ranker.data[language], ranker.fitted_logits(language)
    rows = {model: row for row, model in enumerate(part.models)}
    total: dict[str, list[tuple[float, int]]] = {}
    systems = {s.name: s for level in SIMULATED.values() for s in level.systems}
    for system in systems.values():
        single_fault_names = [system_name(kind, system.manner) for kind in system.faults]
        if single_fault_names != [system.name] or not {system.name, system.manner} <= rows.keys():
            continue  # a mixture, or a system that the surrogate was not trained on
        spoilt, clean = rows[system.name], rows[system.manner]
        changed = _changed_queries(part.values[spoilt], part.values[clean])
        if changed:
            (kind,) = system.faults
            loss = float(logits[clean] - logits[spoilt])
            total.setdefault(kind, []).append((loss, changed))
    costs = []
    for kind, losses in total.items():
        queries = sum(changed for _, changed in losses)
        logit = sum(loss for loss, _ in losses) * len(part.query_ids) / queries
        costs.append(FaultCost(kind, utilities.cost(kind), queries, logit))
    return sorted(costs, key=lambda cost: cost.logit)


def _changed_queries(spoilt: np.ndarray, clean: np.ndarray) -> int:
    same = (spoilt == clean) | (np.isnan(spoilt) & np.isnan(clean))
    return int(np.sum(~same.all(axis=1)))


def order_violations(costs: list[FaultCost]) -> list[str]:
    """Return a message for each pair of faults in which the milder fault costs as much or more.

    Missing or wrong citations should cost less than a wrong abstention, and a wrong abstention
    should cost less than any falsehood.
    """
    logits = {cost.kind: cost.logit for cost in costs}
    order = [(worse, "refusal") for worse in FALSEHOODS]
    order += [(worse, fault) for worse in ("refusal", *FALSEHOODS) for fault in CITATION_FAULTS]
    return [
        f"{worse} costs {logits[worse]:.2f} per query, but should cost more than {fault} "
        f"({logits[fault]:.2f})"
        for worse, fault in order
        if {worse, fault} <= logits.keys() and logits[worse] <= logits[fault]
    ]

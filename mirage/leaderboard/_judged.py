"""A model's place among anchors by a few verdicts of a judge, which the surrogate carries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.arena.bradley_terry import BradleyTerryFit
from mirage.arena.judge import PairJudge
from mirage.arena.pairs import Contest, Pair, Skipped
from mirage.arena.placement import (
    Anchors,
    Placement,
    Sample,
    joint_covariance,
    level_of_looks,
    place,
    sample,
)
from mirage.arena.verdicts import Judged
from mirage.dataset import MirageDataset, clusters_of
from mirage.errors import SettingError
from mirage.models import Run
from mirage.statistics.clusters import cluster_codes, cluster_names, cluster_sums, multipliers
from mirage.statistics.prediction_powered import FEWEST
from mirage.statistics.ranks import confidences_by_draws, p_better_by_t

__all__ = [
    "Field",
    "Plan",
    "Told",
    "ask",
    "confidence",
    "draws_of",
    "field_by_draws",
    "field_by_fit",
    "pairs_for",
    "plan",
]

DRAWS = 1000
"""Of the logits of judged anchors."""

LOOKS = 8
"""How often, at most, a rule looks whether to stop."""


@dataclass(frozen=True)
class Plan:
    """How many judgments to ask for, and when to stop before; see :meth:`Leaderboard.rank`."""

    judge: PairJudge
    judgments: int | None
    until_width: float | None = None
    until_against: str | None = None
    out: str | Path | None = None
    seed: int = 0
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.judgments is not None and self.judgments < 1:
            raise SettingError(f"ask for 1 judgment or more, not {self.judgments}")
        if self.until_width is not None and not self.until_width > 0:
            raise SettingError(f"until_width={self.until_width} is to be above 0, in logits")

    @property
    def stops(self) -> bool:
        """Whether there is a rule to stop by."""
        return self.until_width is not None or self.until_against is not None


def plan(
    judge: PairJudge | None,
    judgments: int | None,
    until_width: float | None,
    until_against: str | None,
    out: str | Path | None,
    seed: int,
) -> Plan | None:
    """What to ask a judge; ``None`` where nothing is to be asked."""
    stops = until_width is not None or until_against is not None
    if judgments == 0:
        if stops or out is not None:
            raise SettingError("a rule to stop, or out=, goes with judge= and judgments= above 0")
        return None
    if judge is None:
        raise SettingError(f"judgments={judgments} takes a judge: give judge=PairwiseJudge(...)")
    return Plan(judge, judgments, until_width, until_against, out, seed)


class Field(NamedTuple):
    """The anchors as a leaderboard has them.

    Attributes:
        runs: their responses, by the names that the ranking shows.
        anchors: their logits, and what is uncertain of them; a row a cluster of ``clusters``.
        query_ids: of the dataset first, and others on which anchors were judged.
        cluster: of each of these queries, its place in ``clusters``.
        clusters: their names.
        confidence: that each is better than each.
        degrees: of freedom behind that; infinite where draws say it.
        draws: logits as they may be, ``(draws, anchors)``; NaN where nothing says how sure.
    """

    runs: Mapping[str, Run]
    anchors: Anchors
    query_ids: tuple[str, ...]
    cluster: Ints
    clusters: tuple[str, ...]
    confidence: Floats
    degrees: float
    draws: Floats


@dataclass(frozen=True)
class Told:
    """What came of asking.

    Attributes:
        placement: of the model.
        judged: votes and verdicts.
        widened: how much wider than otherwise its interval is, for looking several times.
        notes: what to say of it.
    """

    placement: Placement
    judged: Judged
    widened: float
    notes: tuple[str, ...] = field(default=())


# The anchors --------------------------------------------------------------------------------------


def field_by_fit(runs: Mapping[str, Run], dataset: MirageDataset, fit: BradleyTerryFit) -> Field:
    """Anchors that were judged: their logits are uncertain by the same queries."""
    query_ids = tuple(dict.fromkeys((*dataset.query_ids, *fit.query_ids)))
    cluster, names = _clusters(dataset, query_ids)
    rows = np.zeros((len(query_ids), len(fit.models)))
    besides = fit.uncertainty
    if fit.influence is not None:
        places = _places(query_ids)
        rows[[places[query_id] for query_id in fit.query_ids]] = fit.influence
        besides = fit.uncertainty - fit.covariance
    columns = [fit.models.index(name) for name in runs]
    anchors = Anchors(
        fit.logits[columns],
        cluster_sums(cluster, rows[:, columns]),
        np.nan_to_num(besides[np.ix_(columns, columns)]),
    )
    certain = fit.confidences[np.ix_(columns, columns)]
    draws = fit.draws(DRAWS)[:, columns]
    return Field(runs, anchors, query_ids, cluster, names, certain, fit.degrees, draws)


def field_by_draws(
    runs: Mapping[str, Run], dataset: MirageDataset, logits: Floats, draws: Floats
) -> Field:
    """Anchors whose logits come with draws, ``(draws, anchors)``, in the order of the runs."""
    query_ids = dataset.query_ids
    cluster, names = _clusters(dataset, query_ids)
    influence = np.zeros((len(names), len(logits)))
    covariance = np.atleast_2d(np.cov(draws.T)) if len(draws) > 1 else np.zeros((len(logits),) * 2)
    anchors, certain = Anchors(logits, influence, covariance), confidences_by_draws(draws)
    return Field(runs, anchors, query_ids, cluster, names, certain, np.inf, draws)


def _clusters(dataset: MirageDataset, query_ids: Sequence[str]) -> tuple[Ints, tuple[str, ...]]:
    """The cluster of each query, and the names of these."""
    known = clusters_of(dataset)
    names = dict.fromkeys(cluster_names(query_ids, known))
    return cluster_codes(query_ids, known), tuple(names)


# Asking -------------------------------------------------------------------------------------------


def pairs_for(
    dataset: MirageDataset, run: Run, runs: Mapping[str, Run], judgments: int | None, seed: int
) -> tuple[list[Pair], Sample, tuple[Skipped, ...]]:
    """The pairs to put to a judge, in the order to ask, and those that nobody can judge."""
    contest = Contest(dataset, [run, *runs.values()])
    everyone = [Pair(id_, run.model, name) for id_ in dataset.query_ids for name in runs]
    possible, skipped = contest.sort_out(everyone)
    grid = np.zeros((len(dataset), len(runs)), dtype=bool)
    rows, columns = _places(dataset.query_ids), _places(runs)
    for pair in possible:
        grid[rows[pair.query_id], columns[pair.model_b]] = True
    drawn = sample(grid, grid.size if judgments is None else judgments, seed=seed)
    swaps = np.random.default_rng([seed, 1]).random(grid.shape) < 0.5
    names = list(runs)
    pairs = []
    for query, anchor in zip(drawn.query.tolist(), drawn.anchor.tolist(), strict=True):
        pair = Pair(dataset.query_ids[query], run.model, names[anchor])
        pairs.append(pair.swapped if swaps[query, anchor] else pair)
    return pairs, drawn, skipped


def ask(
    plan: Plan,
    dataset: MirageDataset,
    run: Run,
    field: Field,
    predicted: Floats,
    *,
    progress: bool = True,
) -> Told:
    """Have pairs judged, and place the model; errors are those of the judge."""
    pairs, _, skipped = pairs_for(dataset, run, field.runs, plan.judgments, plan.seed)
    rows, columns = _places(field.query_ids), _places(field.runs)
    # Nobody is asked about a query that the model failed on: not to answer loses to any answer.
    lost = np.zeros(predicted.shape, dtype=bool)
    gone = np.isnan(predicted)
    failed = {id_ for id_ in dataset.query_ids if not _answers(run, id_)}
    for query_id, _, anchor, _ in map(astuple, skipped):
        known = query_id in failed and _answers(field.runs[anchor], query_id)
        (lost if known else gone)[rows[query_id], columns[anchor]] = True
    predicted = np.where(gone, np.nan, np.where(lost, 0.0, predicted))
    looks = _looks(len(pairs)) if plan.stops else [len(pairs)]
    level = level_of_looks(plan.level, looks)
    said = Judged((), (), skipped)
    placement = None
    for start, end in zip([0, *looks], looks, strict=False):
        more = plan.judge.judge(
            dataset,
            [run, *field.runs.values()],
            pairs[start:end],
            out=plan.out,
            progress=progress,
        )
        said = Judged((*said.votes, *more.votes), (*said.judgments, *more.judgments), said.skipped)
        _, drawn, _ = pairs_for(dataset, run, field.runs, end, plan.seed)
        verdicts = np.where(lost, 0.0, _verdicts(said, run.model, rows, columns))
        chance = np.zeros(verdicts.shape)
        came = np.count_nonzero(~np.isnan(verdicts) & ~lost) / end  # some votes fail
        chance[: len(dataset)] = drawn.probability * came
        chance[lost] = 1.0
        placement = place(
            verdicts, predicted, chance, field.anchors, cluster=field.cluster, level=level
        )
        if plan.stops and _enough(plan, placement, field, level):
            break
    assert placement is not None
    widened = _t(level, placement.degrees) / _t(plan.level, placement.degrees)
    asked = placement.judgments - int(np.count_nonzero(lost)), end
    return Told(
        placement,
        said,
        widened,
        tuple(_notes(run.model, placement, asked, len(looks), len(failed))),
    )


def _places(names: Iterable[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}


def _looks(pairs: int) -> list[int]:
    """After how many pairs to look whether to stop; not before there could be an interval."""
    step = max(FEWEST, -(-pairs // LOOKS))
    return [*range(step, pairs, step), pairs]


def _verdicts(
    judged: Judged, model: str, rows: Mapping[str, int], columns: Mapping[str, int]
) -> Floats:
    """What the model got, the mean where several judges said it; NaN where none did."""
    total, count = np.zeros((2, len(rows), len(columns)))
    for judgment in judged:
        ahead = judgment.model_a == model
        other = judgment.model_b if ahead else judgment.model_a
        score = 0.5 if judgment.verdict == "tie" else float((judgment.verdict == "a") == ahead)
        total[rows[judgment.query_id], columns[other]] += score
        count[rows[judgment.query_id], columns[other]] += 1
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _enough(plan: Plan, placement: Placement, field: Field, level: float) -> bool:
    low, high = placement.interval
    if plan.until_width is not None and high - low <= plan.until_width:
        return True
    if plan.until_against is None or placement.clusters < FEWEST:
        return False
    other = list(field.runs).index(plan.until_against)
    sure = confidence(field, [Told(placement, Judged((), ()), 1.0)])[-1, other]
    return bool(max(sure, 1 - sure) > (1 + level) / 2)


def _t(level: float, degrees: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(max(degrees, 1), (1 + level) / 2))


def _answers(run: Run, query_id: str) -> bool:
    response = run.get(query_id)
    return response is not None and response.error is None


def _notes(
    model: str, placement: Placement, asked: tuple[int, int], looks: int, failed: int
) -> Iterator[str]:
    came, wanted = asked
    more = f" (of {wanted} that were asked for)" if came < wanted else ""
    worth = f"; with predictions worth {placement.worth:.0f}" if placement.tuning > 0 else ""
    yield (
        f"{model} is placed by {came} judgments{more} on {placement.queries - failed} "
        f"queries{worth}"
    )
    if failed:
        yield f"{model}: {failed} queries without an answer are lost to every anchor"
    if looks > 1:
        yield f"{model}: the interval is wider for {looks} looks at whether to stop"
    if placement.clusters < FEWEST:
        what = "clusters of " * (placement.clusters < placement.queries)
        yield f"{model}: fewer than {FEWEST} judged {what}queries give no interval"
    elif placement.open_variance:
        yield (
            f"{model}: judgments went all one way, so how far it is from the others is not known, "
            "and its logit has no interval"
        )


# What follows -------------------------------------------------------------------------------------


def confidence(field: Field, told: Sequence[Told]) -> Floats:
    """That each anchor and placed model, in this order, is better than each."""
    count, placed = len(field.anchors.logits), [_widened(one) for one in told]
    logits = np.array([*field.anchors.logits, *(one.logit for one in placed)])
    covariance = joint_covariance(field.anchors, placed)
    own = np.diag(covariance)
    errors = np.sqrt(np.maximum(own[:, None] + own - 2 * covariance, 0))
    least = np.array([field.degrees] * count + [one.degrees for one in placed], dtype=np.float64)
    degrees = np.minimum(least[:, None], least)
    p = p_better_by_t(logits[:, None] - logits, errors, degrees)
    p[:count, :count] = field.confidence
    np.fill_diagonal(p, 0.5)
    return p


def draws_of(field: Field, told: Sequence[Told], *, seed: int = 0) -> Floats:
    """Logits of anchors and placed models as they may be, ``(draws, models)``.

    Those on the same queries, as in several languages, belong together: by
    :func:`mirage.statistics.clusters.multipliers`, as :meth:`mirage.arena.BradleyTerryFit.draws`.
    """
    moved = field.draws - field.anchors.logits
    columns = [field.draws]
    lots = multipliers(field.clusters, len(moved), seed=seed)
    for number, one in enumerate(map(_widened, told)):
        rng = np.random.default_rng([seed, number])
        scale = np.sqrt(rng.chisquare(max(one.degrees, 1), len(moved)) / max(one.degrees, 1))
        besides = rng.standard_normal(len(moved)) * np.sqrt(one.open_variance)
        own = (lots @ one.errors + besides) / scale
        columns.append((one.logit + moved @ one.leverage + own)[:, None])
    return np.concatenate(columns, axis=1)


def _widened(one: Told) -> Placement:
    """The placement with the errors that its interval has, which may be wider for looks."""
    return one.placement._replace(
        errors=one.placement.errors * one.widened,
        open_variance=one.placement.open_variance * one.widened**2,
    )

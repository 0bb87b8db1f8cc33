"""Adaptive choice of pairs: estimate the exhaustive ranking from a fraction of its judgments.

The exhaustive ranking compares every pair of models on every query. It is treated as fixed but
unknown, because some of its verdicts are missing. Each round

1. fits Bradley-Terry logits to the verdicts so far, with a normal prior, and takes their covariance
   from the curvature (Laplace's approximation);
2. computes how much variance the missing verdicts leave in each difference of two exhaustive
   logits. By the law of total variance this is the variance now, minus the variance that remains
   when every verdict is known;
3. chooses one pair after the other. Each time it takes the pair whose judgment is expected to
   prevent the most errors in the order of the models, as if the pairs before it had been judged
   already. A pair is judged on a query on which its models were compared least, because the
   verdicts on a model's response to one query are correlated.

The queries are divided into two halves with separate fits. The pairs to compare on queries of one
half are chosen by the verdicts on queries of the other half. Without this division, two models that
look far apart by chance would not be compared again. Two models that look close would be compared
until they no longer do, so a fit to all verdicts would exaggerate differences. With two halves, no
verdict influences which pairs are chosen in its own half. The mean of both fits, which
:meth:`BradleyTerry.fit` computes, is then free of this bias to first order (cross-fitting;
Chernozhukov et al. 2018, Double/Debiased Machine Learning, Econometrics Journal 21, section 3).

The value of a comparison is derived as follows. Let the exhaustive logits of two models differ by
D, distributed as N(d, v) given the verdicts so far, and let further judgments estimate D with
variance u. The two models end up in the wrong order with probability E[Phi(-abs(D) / sqrt(u))]. If
u is small compared with v, that is about sqrt(2 u / pi) times phi(d / sqrt(v)) / sqrt(v), the
density of D at 0. Its derivative with respect to u, at u = v, is proportional to phi(d / sqrt(v)) /
v. With these weights, the expected number of wrong orders falls as the weighted sum of the
variances of all differences falls. This makes the choice an L-optimal design (Chaloner & Verdinelli
1995, Bayesian Experimental Design: A Review, Statistical Science 10, section 2): judging models a
and b, with win probability p, adds p (1 - p) to the information along their difference. Models
whose order is certain have no weight. Models with close logits have no weight either if all their
pairs are judged.

Kendall's tau as the target of active ranking comes from Chen, Jiao & Lin (2016), Bayesian Decision
Process for Cost-Efficient Dynamic Ranking via Crowdsourcing, JMLR 17. They use the expected tau.
This module uses a lower bound, because tau is below its expectation about half of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage._base.rows import first_duplicate
from mirage.arena.bradley_terry import BradleyTerry
from mirage.arena.estimation import fit_bradley_terry, penalised_information, win_probabilities
from mirage.arena.judgments import Judgments
from mirage.arena.pairs import Pair, Skipped, in_random_order
from mirage.errors import JudgmentError, SettingError, UnknownNameError
from mirage.models import Half, Judgment
from mirage.statistics.clusters import cluster_codes

# The prior of a logit is normal around the mean of all, with variance 4 / _RIDGE. The logits that
# MIRAGE-Bench publishes have a variance of 1.0 to 2.1 per language.
_RIDGE = 2.0
_FEW = 5  # pseudo-judgments per model that shrink the dispersion towards its value without ties
_DRAWS = 1000  # random draws of the logits that a fit to judgments on all pairs would give
_SETTLED = 1e-9  # variances up to this are rounding errors of 0

_FREE, _ASKED, _JUDGED, _CLOSED = 0, 1, 2, 3  # state of a pair on a query

_Cell = tuple[int, int, int]  # indices of two models, the smaller first, and of a query


class AdaptivePairs:
    """A method that chooses the pairs of models and the queries that a judge compares next.

    Call :meth:`next` for a batch of pairs, let the judge compare them, and pass its verdicts to
    :meth:`update`. Repeat until there are enough judgments or :attr:`tau_bound` is high enough.
    :meth:`PairwiseJudge.compare_adaptively` runs this loop with LLM judges; use this class for
    people or any other judge. No pair is chosen twice on the same query.

    The queries are split into two halves, and the pairs to compare on queries of one half are
    chosen by verdicts on queries of the other half. Fit logits to :attr:`judgments`, not to a list
    that you collect yourself, because :attr:`judgments` records to which half each query belongs. A
    fit that ignores the halves gives logits that are too far apart and intervals that are too
    narrow.

    Choosing a pair takes about 0.1 ms for 19 models and 1 ms for 100.

    Args:
        models: Names of two or more models.
        query_ids: Ids of one or more queries on which models can be compared.
        earlier_judgments: Judgments of an earlier run, for instance before a new model was added.
            They are not requested again.
        closed: Pairs that cannot be judged on a query, for instance because a model has no
            response. They are never chosen, and are not part of the exhaustive ranking.
        clusters: Cluster name by query id. All queries of a cluster are in one half, because their
            verdicts are correlated.
        seed: Random seed of the choice between equally good pairs, and of the order in which the
            two responses are shown.

    Raises:
        JudgmentError: There are fewer than two models or no query; a model or query is listed
            twice; two earlier judgments are on one pair and query; or an earlier judgment is on a
            closed pair.
        UnknownNameError: An earlier judgment or closed pair has an unlisted model or query.

    Example:
        >>> from mirage.arena import AdaptivePairs
        >>> from mirage.models import Judgment
        >>> adaptive = AdaptivePairs(["x", "y", "z"], ["q1", "q2"])
        >>> pairs = adaptive.next(2)
        >>> adaptive.update(Judgment(**pair._asdict(), verdict="a") for pair in pairs)
        >>> len(adaptive.judgments)
        2
    """

    def __init__(
        self,
        models: Sequence[str],
        query_ids: Sequence[str],
        *,
        earlier_judgments: Iterable[Judgment] = (),
        closed: Iterable[Pair | Skipped] = (),
        clusters: Mapping[str, str] = MappingProxyType({}),
        seed: int = 0,
    ) -> None:
        self.models: tuple[str, ...] = tuple(models)
        self.query_ids: tuple[str, ...] = tuple(query_ids)
        for kind, names in (("model", self.models), ("query", self.query_ids)):
            repeated = first_duplicate(names)
            if repeated is not None:
                raise JudgmentError(f"{kind} {repeated!r} is listed twice; list each once")
        self._model = {name: position for position, name in enumerate(self.models)}
        self._query = {name: position for position, name in enumerate(self.query_ids)}
        size, queries = len(self.models), len(self.query_ids)
        if size < 2 or queries < 1:
            raise JudgmentError(
                f"a comparison needs at least 2 models and 1 query, got models={size}, "
                f"queries={queries}"
            )
        self._seed = seed
        self._rng = np.random.default_rng(seed)
        self._state = np.full((size, size, queries), _FREE, dtype=np.int8)
        self._shown_counts = np.zeros((size, queries))
        # The first axis of the arrays below is the half. For each pair (above the diagonal),
        # `_unasked` counts the queries on which it was not chosen yet, and `_pending` those on
        # which it was chosen but has no verdict yet.
        earlier_judgments = list(earlier_judgments)
        self._half = self._halves(earlier_judgments, cluster_codes(self.query_ids, clusters))
        many = np.bincount(self._half, minlength=2)[:, None, None]
        self._unasked = np.triu(np.ones((2, size, size)) * many, 1)
        self._pending = np.zeros((2, size, size))
        self._wins = np.zeros((2, size, size))
        self._ties = [0, 0]
        self._handed_out = [0, 0]
        self._records: list[Judgment] = []
        self._logits = np.zeros((2, size))
        self._logit_differences = np.zeros((2, size, size))
        self._information = np.zeros((2, size, size))  # information in one judgment on each pair
        for pair in closed:
            a, b, query = self._cell(pair)
            self._unasked[self._half[query], a, b] -= self._state[a, b, query] == _FREE
            self._state[a, b, query] = _CLOSED
        self._add_judgments(
            earlier_judgments,
            _FREE,
            "has two earlier judgments, or is in closed=; pass one judgment per pair and query",
        )

    @property
    def judgments(self) -> Judgments:
        """All judgments so far, including those passed as ``earlier_judgments``.

        :attr:`Judgments.halves` records to which half each query belongs. It is ``None`` if no pair
        is left to judge: how pairs were chosen then no longer matters.

        Raises:
            JudgmentError: There is no judgment yet.
        """
        judgments = Judgments.from_records(self._records)
        if not (self._unasked.any() or self._pending.any()):
            return replace(judgments, halves=None)
        halves = [self._half[self._query[query_id]] for query_id in judgments.query_ids]
        return replace(judgments, halves=np.array(halves, dtype=np.int8))

    @property
    def halves(self) -> Mapping[str, Half]:
        """The half to which each query belongs, ``first`` or ``second``, by query id.

        Pairs on the queries of one half are chosen by the verdicts on the other half; see
        :attr:`Judgment.half <mirage.Judgment.half>`.
        """
        names: tuple[Half, Half] = ("first", "second")
        return {query_id: names[self._half[position]] for query_id, position in self._query.items()}

    @property
    def tau_bound(self) -> float:
        """Lower 95 % bound of Kendall's tau between the current ranking and the exhaustive ranking.

        The exhaustive ranking uses the judgments on all possible pairs. The bound is the 5 %
        quantile of tau over random draws of the exhaustive logits. The draws come from a normal
        distribution, whose covariance describes the uncertainty due to missing verdicts. The bound
        is 0 before the first judgment and 1 when no pair is left to judge.

        In simulations in which judging stopped at a given bound, tau reached the bound in at least
        95 % of the simulations. If verdicts on one query are correlated (a poor response loses to
        every other), the bound tends to be too low.
        """
        wins, missing = self._wins.sum(axis=0), (self._pending + self._unasked).sum(axis=0)
        logits = fit_bradley_terry(wins, _RIDGE, self._logits.mean(axis=0))
        information = _judgment_information(wins, sum(self._ties), logits)
        covariance = _covariance(wins, information) - _covariance(wins, information, missing)
        # The draws use all verdicts; the order is that of the mean of both halves' fits.
        order = fit_bradley_terry(self._wins, BradleyTerry.ridge).mean(axis=0)
        a, b = np.triu_indices(len(logits), 1)
        unsettled = _difference_variances(covariance)[a, b] > _SETTLED
        a, b = a[unsettled], b[unsettled]
        values, vectors = np.linalg.eigh(covariance)
        deviates = np.random.default_rng(0).standard_normal((_DRAWS, len(logits)))
        drawn = logits + deviates @ (vectors * np.sqrt(values.clip(min=0))).T
        signs = np.sign(order[a] - order[b]) * np.sign(drawn[:, a] - drawn[:, b])
        pairs = len(logits) * (len(logits) - 1) / 2
        taus = 1 - (1 - signs).sum(axis=1) / pairs
        return float(np.quantile(taus, 0.05, method="lower"))

    def next(self, n: int | None = None) -> list[Pair]:
        """Return the next pairs for the judge, to be judged together.

        The list is shorter than ``n`` if fewer pairs are left, and empty if all pairs were chosen.
        Pairs that still await a verdict are not returned again.

        Args:
            n: Number of pairs; by default the number of models.

        Raises:
            SettingError: ``n`` is below 1.
        """
        wanted = len(self.models) if n is None else n
        if wanted < 1:
            raise SettingError(f"n must be at least 1, got {n}")
        shares = self._shares(wanted)
        return [pair for half in (0, 1) for pair in self._choose(half, shares[half])]

    def _shares(self, wanted: int) -> list[int]:
        """Return how many of the next ``wanted`` pairs to choose in each half of the queries.

        Over all calls, nearly the same number of pairs is chosen in both halves. The two numbers
        sum to less than ``wanted`` if fewer pairs are left.
        """
        unasked = [int(self._unasked[half].sum()) for half in (0, 1)]
        behind = self._handed_out[1] - self._handed_out[0]
        first = min(max((wanted + behind + 1) // 2, wanted - unasked[1], 0), wanted, unasked[0])
        return [first, min(wanted - first, unasked[1])]

    def _choose(self, half: int, wanted: int) -> list[Pair]:
        """Choose ``wanted`` pairs on queries of one half by the verdicts on the other half."""
        wins, information = self._wins[half], self._information[1 - half]
        covariance = _covariance(wins, information, self._pending[half])
        exhaustive = _covariance(wins, information, self._pending[half] + self._unasked[half])
        tie_breaker = self._rng.uniform(0.999, 1, covariance.shape)
        pairs: list[Pair] = []
        while len(pairs) < wanted:
            gains = tie_breaker * self._gains(half, covariance, covariance - exhaustive)
            gains[self._unasked[half] == 0] = -1
            a, b = divmod(int(np.argmax(gains)), len(gains))
            pairs.append(self._hand_out(half, a, b))
            _update_covariance(covariance, a, b, float(information[a, b]))
        return pairs

    def _halves(self, earlier_judgments: Sequence[Judgment], cluster: Ints) -> Ints:
        """Return the number (0 or 1) of each query's half.

        If earlier judgments assign a half to the query or to its cluster, this half is kept.
        Otherwise the query's cluster is assigned to the half that has fewer queries so far.
        ``cluster`` is the cluster index of each query.
        """
        sizes = np.bincount(cluster)
        half_of_cluster = np.full(len(sizes), -1)
        half = np.full(len(cluster), -1)
        for judgment in earlier_judgments:
            if judgment.half:
                query = self._cell(judgment)[2]
                half[query] = half_of_cluster[cluster[query]] = int(judgment.half == "second")
        sizes_of_halves = [0, 0]
        for code in np.flatnonzero(half_of_cluster < 0).tolist():
            half_of_cluster[code] = int(sizes_of_halves[1] < sizes_of_halves[0])
            sizes_of_halves[half_of_cluster[code]] += int(sizes[code])
        return np.where(half < 0, half_of_cluster[cluster], half)

    def update(self, judgments: Iterable[Judgment | None]) -> None:
        """Add the judge's verdicts on pairs that :meth:`next` returned.

        A pair without a judgment is not chosen again. Its judgment may still be added by a later
        update.

        Args:
            judgments: Judgments of the pairs, in any order. A pair on which the judge reached no
                verdict may be ``None`` or missing.

        Raises:
            JudgmentError: A judgment is on a pair that was not returned, or that has a judgment
                already. No judgment is added then.
            UnknownNameError: A judgment has an unknown model or query. No judgment is added then.
        """
        new_judgments = [judgment for judgment in judgments if judgment is not None]
        self._add_judgments(new_judgments, _ASKED, "was not requested, or already has a judgment")
        self._pending[:] = 0

    def _add_judgments(
        self, judgments: Sequence[Judgment], expected_state: int, problem: str
    ) -> None:
        """Add judgments, and fit the logits again.

        Each judgment must be on a pair and query whose state is ``expected_state``, such as
        ``_ASKED`` (returned by :meth:`next`, but not judged). Otherwise, the method raises a
        JudgmentError whose message ends with ``problem``, and adds no judgment.
        """
        cells = [self._cell(judgment) for judgment in judgments]
        checked: set[_Cell] = set()
        for judgment, cell in zip(judgments, cells, strict=True):
            if self._state[cell] != expected_state or cell in checked:
                raise JudgmentError(
                    f"the comparison of {judgment.model_a!r} with {judgment.model_b!r} on query "
                    f"{judgment.query_id!r} {problem}"
                )
            checked.add(cell)
        for judgment, cell in zip(judgments, cells, strict=True):
            if expected_state == _FREE:
                self._mark_used(cell)
            self._state[cell] = _JUDGED
            a, b = self._model[judgment.model_a], self._model[judgment.model_b]
            half = self._half[cell[2]]
            score = 0.5 if judgment.verdict == "tie" else float(judgment.verdict == "a")
            self._wins[half, a, b] += score
            self._wins[half, b, a] += 1 - score
            self._ties[half] += judgment.verdict == "tie"
        self._records += judgments
        self._fit()

    def _cell(self, pair: Judgment | Pair | Skipped) -> _Cell:
        """Return the indices of a pair's two models, the lower first, and of its query."""
        for kind, name, indices in (
            ("model", pair.model_a, self._model),
            ("model", pair.model_b, self._model),
            ("query", pair.query_id, self._query),
        ):
            if name not in indices:
                raise UnknownNameError(kind, name, indices, "in this arena")
        a, b = sorted((self._model[pair.model_a], self._model[pair.model_b]))
        return a, b, self._query[pair.query_id]

    def _mark_used(self, cell: _Cell) -> None:
        """Record that the two models of ``cell`` were chosen for a comparison on its query."""
        a, b, query = cell
        self._unasked[self._half[query], a, b] -= 1
        self._shown_counts[[a, b], query] += 1

    def _hand_out(self, half: int, a: int, b: int) -> Pair:
        """Choose a query on which to compare models a and b, and record the choice.

        The query is in the given half of the queries, and a and b have not been compared on it. Of
        these queries, the method chooses the one with the fewest comparisons of a or b with any
        model. Ties are broken at random.
        """
        comparisons = (
            self._shown_counts[a] + self._shown_counts[b] + self._rng.random(len(self.query_ids))
        )
        free = (self._state[a, b] == _FREE) & (self._half == half)
        query = int(np.argmin(np.where(free, comparisons, np.inf)))
        self._mark_used((a, b, query))
        self._state[a, b, query] = _ASKED
        self._pending[half, a, b] += 1
        self._handed_out[half] += 1
        self._rng.random()  # unused; without it, the seeds of earlier versions give other pairs
        return in_random_order(
            Pair(self.query_ids[query], self.models[a], self.models[b]), self._seed
        )

    def _fit(self) -> None:
        """Fit the logits of each half, and compute the information in one judgment on each pair."""
        self._logits = fit_bradley_terry(self._wins, _RIDGE, self._logits)
        self._logit_differences = self._logits[:, :, None] - self._logits[:, None, :]
        for half in (0, 1):
            self._information[half] = _judgment_information(
                self._wins[half], self._ties[half], self._logits[half]
            )

    def _gains(self, half: int, covariance: Floats, missing: Floats) -> Floats:
        """Return how much a judgment on each pair reduces the expected number of misordered models.

        The result, of shape ``(models, models)``, is correct up to a common factor. Logits and
        information come from the verdicts on the other half.

        Let S be the covariance, c(ij) the contrast of models i and j, and w(ij) their weight. The
        gain is the decrease of the sum over i, j of w(ij) c(ij)' S c(ij) when ``information[a, b]``
        c(ab) c(ab)' is added to the total information. To first order that is ``information[a, b]``
        c(ab)' S L S c(ab), with L the sum of w(ij) c(ij) c(ij)'.

        Args:
            half: Half of the queries on which a pair is to be chosen.
            covariance: Covariance S of the logits.
            missing: The part of S that is due to the missing verdicts.
        """
        variance = _difference_variances(missing)
        unsettled = variance > _SETTLED
        variance[~unsettled] = 1
        differences, information = self._logit_differences[1 - half], self._information[1 - half]
        weights = np.where(unsettled, np.exp(-(differences**2) / variance / 2) / variance, 0)
        spread = covariance * weights.sum(axis=0) - covariance @ weights  # S L
        return np.asarray(information * _difference_variances(spread @ covariance))


def _judgment_information(wins: Floats, ties: float, logits: Floats) -> Floats:
    """Return the information in one more judgment on each pair, of shape ``(models, models)``.

    ``wins`` is the win matrix of the judgments so far, and ``ties`` their number of ties. The
    information is p (1 - p) divided by the dispersion, with p the probability of a win. The
    dispersion compares the spread of verdicts around their expectation with the spread without ties
    (McCullagh & Nelder 1989, Generalized Linear Models, section 4.5).
    """
    games, expected = wins + wins.T, win_probabilities(logits)
    spread = expected * expected.T
    # Sum over all judgments of (score - expected)^2; a tie has the score 1/2.
    squares = (wins * (1 - 2 * expected) + games * expected**2).sum() / 2 - ties / 4
    few = _FEW * len(wins) / 4
    return np.asarray(spread * ((games * spread).sum() / 2 + few) / (squares + few))


def _covariance(wins: Floats, information: Floats, more: Floats | float = 0.0) -> Floats:
    """Return the covariance of the logits after some more judgments.

    ``wins`` is the win matrix of the judgments so far, and ``information`` the information in one
    judgment on each pair. ``more[a, b]``, for a < b, is the number of judgments to add on models a
    and b; by default none are added.
    """
    extra = np.broadcast_to(more, wins.shape)
    games = wins + wins.T + extra + extra.T
    return np.asarray(np.linalg.inv(penalised_information(games * information, _RIDGE / 4)))


def _update_covariance(covariance: Floats, a: int, b: int, information: float) -> None:
    """Update the covariance in place for one more judgment on a pair (Sherman-Morrison)."""
    step = covariance[:, a] - covariance[:, b]
    covariance -= np.outer(step, step * (information / (1 + information * (step[a] - step[b]))))


def _difference_variances(covariance: Floats) -> Floats:
    """Return the variance of the difference of logits i and j, at ``[i, j]``."""
    variances = covariance.diagonal()
    return np.asarray(variances[:, None] + variances - 2 * covariance)

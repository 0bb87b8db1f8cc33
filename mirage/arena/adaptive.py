"""Ask the judge where it tells most: the exhaustive ranking from a fraction of its judgments.

The exhaustive ranking is that of every pair of models on every query. It is a fixed result; all
that is unknown of it are the verdicts that were not asked for. A round here

1. fits Bradley-Terry logits to the verdicts so far, with a normal prior, and takes their
   covariance from the curvature (Laplace's approximation);
2. takes the variance that the missing verdicts leave in each difference of two exhaustive logits.
   By the law of total variance that is the variance now, less the one that remains when every
   verdict is in;
3. chooses, one after the other, the pairs that promise to put most models in order, each as if
   the pairs before it had been answered; and shows a pair on a query on which its models were
   compared least, because a model's verdicts on one query repeat each other.

The queries are in two halves, each with a fit and a choice of its own, and what is chosen on one
half goes by the verdicts on the other. Were it to go by its own, two models that happen to look far
apart would not be compared again, and two that look close would be, until they no longer do: a fit
to all verdicts stretches differences. As it is, no verdict has a part in what else is asked on its
half, and the mean of the fits to both halves, which :meth:`BradleyTerry.fit` takes, is free of that
to first order (cross-fitting; Chernozhukov et al. 2018, Double/Debiased Machine Learning,
Econometrics Journal 21, section 3).

What a comparison promises. Let the exhaustive logits of two models differ by D, which is
N(d, v) by what is known, and let further judgments estimate D with variance u. The two end up in
the wrong order with probability E[Phi(-abs(D) / sqrt(u))]. Where u is small beside v that is about
sqrt(2 u / pi) times phi(d / sqrt(v)) / sqrt(v), the density of D at 0. Its derivative by u, at
u = v, is proportional to phi(d / sqrt(v)) / v. With these weights the expected number of wrong
orders falls as the weighted sum of the variances of all differences does, which makes this an
L-optimal design (Chaloner & Verdinelli 1995, Bayesian Experimental Design: A Review, Statistical
Science 10, section 2): judging models a and b, of win probability p, adds p (1 - p) to the
information along their difference. Models that are in order already count for nothing, and
neither does a near-tie on which nothing is left to ask.

That active ranking should aim at the expected Kendall's tau is from Chen, Jiao & Lin (2016),
Bayesian Decision Process for Cost-Efficient Dynamic Ranking via Crowdsourcing, JMLR 17.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage.arena.bradley_terry import BradleyTerry
from mirage.arena.estimation import fit_bradley_terry, penalised_information, win_probabilities
from mirage.arena.judgments import Judgments
from mirage.arena.pairs import Pair, Skipped
from mirage.errors import JudgmentError, SettingError, UnknownNameError
from mirage.models import Half, Judgment
from mirage.statistics.clusters import cluster_codes

__all__ = ["AdaptivePairs"]

# The prior of a logit: normal around the mean of all, with variance 4 / _RIDGE. The logits that
# MIRAGE-Bench publishes have a variance of 1.0 to 2.1 in a language.
_RIDGE = 2.0
_FEW = 5  # judgments a model, until which their spread is taken to be that without ties
_SETTLED = 1e-9  # a variance that is 0 but for rounding

_FREE, _ASKED, _JUDGED, _CLOSED = 0, 1, 2, 3  # what became of a pair on a query

_Cell = tuple[int, int, int]  # two models, the first in the order of the models first; a query


class AdaptivePairs:
    """Chooses the pairs of models, and the queries, that the judge is to see next.

    Call :meth:`next` for a batch of pairs, put them to the judge, give its verdicts to
    :meth:`update`, and so on, until there are enough judgments or :attr:`expected_tau` is high
    enough. :meth:`PairwiseJudge.compare_adaptively` is that loop where LLMs judge; here is where
    to begin with people, or anything else. No pair is handed out on the same query twice. Give
    :attr:`judgments` to the fit, and no list of your own: they say to which half each belongs,
    without which logits are stretched and intervals too narrow.

    Choosing a pair takes some 0.1 ms among 19 models and 1 ms among 100.

    Args:
        models: names; two or more.
        query_ids: the queries on which models can be compared; one or more.
        known: judgments from before, such as those of an arena that a new model joins. They are
            not asked for again.
        closed: pairs that cannot be judged, such as where a model has no response. They are not
            handed out, nor part of the exhaustive ranking.
        clusters: by query id, what the query hangs together with. All queries of a cluster are in
            one half, for what hangs together with verdicts is no better than they are.
        seed: of the choice among equals, and of which model is shown first.

    Raises:
        JudgmentError: fewer than two models, no query, or one of them twice; or two known
            judgments on one pair and query, or one on a pair that is closed.
        UnknownNameError: a known judgment, or a closed pair, is on a model or query that is not
            among these.
    """

    def __init__(
        self,
        models: Sequence[str],
        query_ids: Sequence[str],
        *,
        known: Iterable[Judgment] = (),
        closed: Iterable[Pair | Skipped] = (),
        clusters: Mapping[str, str] = MappingProxyType({}),
        seed: int = 0,
    ) -> None:
        self.models: tuple[str, ...] = tuple(models)
        self.query_ids: tuple[str, ...] = tuple(query_ids)
        self._model = _places(self.models, "model")
        self._query = _places(self.query_ids, "query")
        size, queries = len(self.models), len(self.query_ids)
        if size < 2 or queries < 1:
            raise JudgmentError(
                f"an arena has 2 models and 1 query or more, not {size} and {queries}"
            )
        self._rng = np.random.default_rng(seed)
        self._state = np.full((size, size, queries), _FREE, dtype=np.int8)
        self._shown = np.zeros((size, queries))
        # Queries by pair, above the diagonal: not handed out yet, and with the judge.
        # All that follows is by half first.
        earlier = list(known)
        self._half = self._halves(earlier, cluster_codes(self.query_ids, clusters))
        many = np.bincount(self._half, minlength=2)[:, None, None]
        self._left = np.triu(np.ones((2, size, size)) * many, 1)
        self._open = np.zeros((2, size, size))
        self._wins = np.zeros((2, size, size))
        self._ties = [0, 0]
        self._handed_out = [0, 0]
        self._records: list[Judgment] = []
        self._logits = np.zeros((2, size))
        self._apart = np.zeros((2, size, size))  # differences of logits
        self._worth = np.zeros((2, size, size))  # information of one judgment, by pair
        for pair in closed:
            a, b, query = self._cell(pair)
            self._left[self._half[query], a, b] -= self._state[a, b, query] == _FREE
            self._state[a, b, query] = _CLOSED
        self._take_in(
            earlier, _FREE, "is known twice, or closed; one judgment a pair and query counts"
        )

    @property
    def judgments(self) -> Judgments:
        """All judgments so far, known ones included, each with its half.

        Without halves where nothing is left to judge, for then nothing was chosen.

        Raises:
            JudgmentError: there is none.
        """
        judgments = Judgments.from_records(self._records)
        if not (self._left.any() or self._open.any()):
            return replace(judgments, halves=None)
        halves = [self._half[self._query[query_id]] for query_id in judgments.query_ids]
        return replace(judgments, halves=np.array(halves, dtype=np.int8))

    @property
    def halves(self) -> Mapping[str, Half]:
        """The half of each query, by its id, for :attr:`mirage.Judgment.half`."""
        names: tuple[Half, Half] = ("first", "second")
        return {query_id: names[self._half[place]] for query_id, place in self._query.items()}

    @property
    def expected_tau(self) -> float:
        """Kendall's tau that the ranking so far is expected to have with the exhaustive one.

        It follows from the probability that each two models are in the right order: 0 before the
        first judgment, 1 when nothing is left to judge. Where verdicts are independent of each
        other it is right in the mean over arenas. Where those on one query hang together (a poor
        response loses to every other) it tends to be too low.
        """
        from scipy.special import ndtr

        wins, left = self._wins.sum(axis=0), (self._open + self._left).sum(axis=0)
        logits = fit_bradley_terry(wins, _RIDGE, self._logits.mean(axis=0))
        worth = _worth(wins, sum(self._ties), logits)
        variance = _differences(_covariance(wins, worth) - _covariance(wins, worth, left))
        unsettled = variance > _SETTLED
        # Known from all verdicts, of an order that goes by the mean of the fits to both halves.
        order = fit_bradley_terry(self._wins, BradleyTerry.ridge).mean(axis=0)
        apart = (np.sign(order[:, None] - order) * (logits[:, None] - logits))[unsettled]
        wrong = ndtr(-apart / np.sqrt(variance[unsettled])).sum()  # each pair is there twice
        return float(1 - 2 * wrong / (len(self.models) * (len(self.models) - 1)))

    def next(self, n: int | None = None) -> list[Pair]:
        """The next pairs for the judge, to be asked all at once; by default as many as models.

        Fewer where fewer are left, and none where all were handed out. Pairs that are with the
        judge count as if they were answered.

        Raises:
            SettingError: n is below 1.
        """
        wanted = len(self.models) if n is None else n
        if wanted < 1:
            raise SettingError(f"a batch has 1 pair or more, not {n}")
        shares = self._shares(wanted)
        return [pair for half in (0, 1) for pair in self._choose(half, shares[half])]

    def _shares(self, wanted: int) -> list[int]:
        """How many pairs to hand out in each half, so that both have as many."""
        left = [int(self._left[half].sum()) for half in (0, 1)]
        behind = self._handed_out[1] - self._handed_out[0]
        first = min(max((wanted + behind + 1) // 2, wanted - left[1], 0), wanted, left[0])
        return [first, min(wanted - first, left[1])]

    def _choose(self, half: int, wanted: int) -> list[Pair]:
        """Pairs on the queries of a half, by what is known from the other."""
        wins, worth = self._wins[half], self._worth[1 - half]
        covariance = _covariance(wins, worth, self._open[half])
        exhaustive = _covariance(wins, worth, self._open[half] + self._left[half])
        among_equals = self._rng.uniform(0.999, 1, covariance.shape)
        pairs: list[Pair] = []
        while len(pairs) < wanted:
            gains = among_equals * self._gains(half, covariance, covariance - exhaustive)
            gains[self._left[half] == 0] = -1
            a, b = divmod(int(np.argmax(gains)), len(gains))
            pairs.append(self._hand_out(half, a, b))
            _foresee(covariance, a, b, float(worth[a, b]))
        return pairs

    def _halves(self, known: Sequence[Judgment], cluster: Ints) -> Ints:
        """The half of each query: what is known of its cluster, and for the others the smaller."""
        sizes = np.bincount(cluster)
        of_cluster = np.full(len(sizes), -1)
        half = np.full(len(cluster), -1)
        for judgment in known:
            if judgment.half:
                query = self._cell(judgment)[2]
                half[query] = of_cluster[cluster[query]] = int(judgment.half == "second")
        dealt = [0, 0]
        for code in np.flatnonzero(of_cluster < 0).tolist():
            of_cluster[code] = int(dealt[1] < dealt[0])
            dealt[of_cluster[code]] += int(sizes[code])
        return np.where(half < 0, of_cluster[cluster], half)

    def update(self, judgments: Iterable[Judgment | None]) -> None:
        """Take in what the judge said about pairs that were handed out.

        A pair without a judgment (``None``, or left out, where the judge came to no verdict) is
        not handed out again; its judgment may still come with a later update.

        Raises:
            JudgmentError: a judgment is on a pair that was not handed out, or that has one
                already. None is taken in then.
            UnknownNameError: likewise, for a model or query that is not among these.
        """
        taken = [judgment for judgment in judgments if judgment is not None]
        self._take_in(taken, _ASKED, "was not asked for, or has its judgment already")
        self._open[:] = 0

    def _take_in(self, judgments: Sequence[Judgment], before: int, otherwise: str) -> None:
        """Count judgments on distinct cells that are in the state ``before``, and fit anew."""
        cells = [self._cell(judgment) for judgment in judgments]
        taken: set[_Cell] = set()
        for judgment, cell in zip(judgments, cells, strict=True):
            if self._state[cell] != before or cell in taken:
                raise JudgmentError(
                    f"{judgment.model_a!r} against {judgment.model_b!r} on query "
                    f"{judgment.query_id!r} {otherwise}"
                )
            taken.add(cell)
        for judgment, cell in zip(judgments, cells, strict=True):
            if before == _FREE:
                self._take(cell)
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
        for kind, name, known in (
            ("model of this arena", pair.model_a, self._model),
            ("model of this arena", pair.model_b, self._model),
            ("query of this arena", pair.query_id, self._query),
        ):
            if name not in known:
                raise UnknownNameError(kind, name, known)
        a, b = sorted((self._model[pair.model_a], self._model[pair.model_b]))
        return a, b, self._query[pair.query_id]

    def _take(self, cell: _Cell) -> None:
        a, b, query = cell
        self._left[self._half[query], a, b] -= 1
        self._shown[[a, b], query] += 1

    def _hand_out(self, half: int, a: int, b: int) -> Pair:
        """This pair, on a free query of a half on which its models were compared least."""
        shown = self._shown[a] + self._shown[b] + self._rng.random(len(self.query_ids))
        free = (self._state[a, b] == _FREE) & (self._half == half)
        query = int(np.argmin(np.where(free, shown, np.inf)))
        self._take((a, b, query))
        self._state[a, b, query] = _ASKED
        self._open[half, a, b] += 1
        self._handed_out[half] += 1
        first, second = (a, b) if self._rng.random() < 0.5 else (b, a)
        return Pair(self.query_ids[query], self.models[first], self.models[second])

    def _fit(self) -> None:
        """Logits of each half, and what one more judgment on each pair is worth by them."""
        self._logits = fit_bradley_terry(self._wins, _RIDGE, self._logits)
        self._apart = self._logits[:, :, None] - self._logits[:, None, :]
        for half in (0, 1):
            self._worth[half] = _worth(self._wins[half], self._ties[half], self._logits[half])

    def _gains(self, half: int, covariance: Floats, missing: Floats) -> Floats:
        """How much a judgment on each pair lowers the expected wrong orders, but for a factor.

        Logits and worth are those of the other half.

        With S the covariance, c(ij) the contrast of models i and j, and w(ij) their weight: how
        much the sum over i, j of w(ij) c(ij)' S c(ij) falls as ``worth[a, b]`` c(ab) c(ab)' is
        added to the information. To first order that is ``worth[a, b]`` c(ab)' S L S c(ab), where
        L is the sum of w(ij) c(ij) c(ij)'. ``missing`` is the part of S that the missing verdicts
        are responsible for.
        """
        variance = _differences(missing)
        unsettled = variance > _SETTLED
        variance[~unsettled] = 1
        apart, worth = self._apart[1 - half], self._worth[1 - half]
        weights = np.where(unsettled, np.exp(-(apart**2) / variance / 2) / variance, 0)
        spread = covariance * weights.sum(axis=0) - covariance @ weights  # S L
        return np.asarray(worth * _differences(spread @ covariance))


def _worth(wins: Floats, ties: float, logits: Floats) -> Floats:
    """What one more judgment on each pair is worth.

    A judgment's information is p (1 - p), over the dispersion: how much less verdicts spread
    around their expectation than they would without ties (McCullagh & Nelder 1989,
    Generalized Linear Models, section 4.5).
    """
    games, expected = wins + wins.T, win_probabilities(logits)
    spread = expected * expected.T
    # Sums over all judgments of (score - expected)^2, a tie's score being 1/2, and of its mean.
    squares = (wins * (1 - 2 * expected) + games * expected**2).sum() / 2 - ties / 4
    few = _FEW * len(wins) / 4
    return np.asarray(spread * ((games * spread).sum() / 2 + few) / (squares + few))


def _covariance(wins: Floats, worth: Floats, more: Floats | float = 0.0) -> Floats:
    """Of the logits, if there were ``more`` judgments (by pair, above the diagonal)."""
    extra = np.broadcast_to(more, wins.shape)
    games = wins + wins.T + extra + extra.T
    return np.asarray(np.linalg.inv(penalised_information(games * worth, _RIDGE / 4)))


def _places(names: Sequence[str], kind: str) -> dict[str, int]:
    places = {name: place for place, name in enumerate(names)}
    for place, name in enumerate(names):
        if places[name] != place:
            raise JudgmentError(f"{kind} {name!r} is there twice; name each once")
    return places


def _foresee(covariance: Floats, a: int, b: int, worth: float) -> None:
    """Make it, in place, the covariance after one more judgment on a pair (Sherman-Morrison)."""
    step = covariance[:, a] - covariance[:, b]
    covariance -= np.outer(step, step * (worth / (1 + worth * (step[a] - step[b]))))


def _differences(covariance: Floats) -> Floats:
    """The variance of each difference of two."""
    own = covariance.diagonal()
    return np.asarray(own[:, None] + own - 2 * covariance)

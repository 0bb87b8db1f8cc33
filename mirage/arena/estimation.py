"""Bradley-Terry and Davidson models on plain arrays, from win matrices to logits and covariances.

``wins[..., i, j]`` is how often model i was preferred to model j; a tie counts one half for each.
Diagonals are 0. Leading axes are tournaments (bootstrap samples of the queries), which are fitted
together. Logits are natural-log odds, centred so that they sum to 0.

Sources, as cited by the functions:

* Bradley & Terry (1952), Rank Analysis of Incomplete Block Designs: I. The Method of Paired
  Comparisons. Biometrika 39, 324-345.
* Davidson (1970), On Extending the Bradley-Terry Model to Accommodate Ties in Paired Comparison
  Experiments. JASA 65, 317-328.
* Ford (1957), Solution of a Ranking Problem from Binary Comparisons. American Mathematical Monthly
  64, 28-33; Hunter (2004), MM Algorithms for Generalized Bradley-Terry Models. Annals of Statistics
  32, 384-406: conditions under which the likelihood has a maximum.
* Sun & Tran-Dinh (2019), Generalized Self-Concordant Functions: A Recipe for Newton-Type Methods.
  Mathematical Programming 178, 145-213.
* Huber (1967), White (1982), and Liang & Zeger (1986), Longitudinal Data Analysis Using Generalized
  Linear Models. Biometrika 73, 13-22: the sandwich estimate of a covariance, with clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage._base.arrays import Bools, Floats, Ints
from mirage.errors import JudgmentError

_Column = NDArray[Any]
_Derivatives = Callable[[Floats, Ints], tuple[Floats, Floats]]

_STEP = 1e-6  # Newton converges quadratically: after a step this small the error is near 1e-12
_STEPS = 300
# Information about log nu in one judgment between equal models, if nu is 1: 1/3 * 2/3.
_TIE_INFORMATION = 2 / 9
_BLOCK = 1 << 20  # judgments counted at a time
_ROWS = 1 << 18  # judgments whose gradients are in memory at a time


def win_matrix(
    a: _Column, b: _Column, score: _Column, models: int, weights: _Column | None = None
) -> Floats:
    """Return how often each model won against each other model, with a tie as half a win for both.

    The result has the shape ``(models, models)``.

    Args:
        a: Index of the first model of each judgment.
        b: Index of the second model of each judgment.
        score: Score of the first model: 1, 0, or 0.5 for a tie.
        models: Number of models.
        weights: Weight of each judgment; 1 by default.

    Example:
        >>> import numpy as np
        >>> from mirage.arena.estimation import win_matrix
        >>> win_matrix(np.array([0, 0]), np.array([1, 1]), np.array([1, 0.5]), 2).tolist()
        [[0.0, 1.5], [0.5, 0.0]]
    """
    wins = np.zeros(models * models)
    size = max(_BLOCK, models * models)
    for low in range(0, len(a), size):
        rows = slice(low, low + size)
        first, second = a[rows].astype(np.intp), b[rows].astype(np.intp)
        weight = 1.0 if weights is None else weights[rows]
        won = score[rows].astype(np.float64)
        wins += np.bincount(first * models + second, won * weight, len(wins))
        wins += np.bincount(second * models + first, (1 - won) * weight, len(wins))
    return wins.reshape(models, models)


def query_win_matrices(
    query: _Column, a: _Column, b: _Column, score: _Column, queries: int, models: int
) -> Floats:
    """Return the win matrix of each query, of shape ``(queries, models, models)``.

    Args:
        query: Index of the query of each judgment.
        a: Index of the first model of each judgment.
        b: Index of the second model of each judgment.
        score: Score of the first model: 1, 0, or 0.5 for a tie.
        queries: Number of queries.
        models: Number of models.
    """
    row = query.astype(np.intp) * models
    size = queries * models * models
    scores = score.astype(np.float64)
    wins = np.bincount((row + a) * models + b, weights=scores, minlength=size)
    wins += np.bincount((row + b) * models + a, weights=1 - scores, minlength=size)
    return np.asarray(wins, dtype=np.float64).reshape(queries, models, models)


def fit_bradley_terry(wins: Floats, ridge: float = 0.0, start: Floats | None = None) -> Floats:
    """Return the logits that maximise the Bradley-Terry likelihood, of shape ``(..., models)``.

    P(i beats j) = 1 / (1 + exp(logit_j - logit_i)) (Bradley & Terry 1952). The ridge subtracts
    ``ridge / 8`` times the sum of squared centred logits from the log-likelihood. For each model,
    this adds as much information as ``ridge`` tied judgments against a model of logit 0. Without a
    ridge, a model that won or lost everything has no finite logit (Ford 1957; Hunter 2004, section
    2).

    Newton steps are damped by log(1 + d) / d, with d the largest change of a difference of logits
    in the step. The logistic loss is generalised self-concordant with exponent 2 for this d. From
    any starting point, every step therefore increases the likelihood (Sun & Tran-Dinh 2019,
    section 4).

    Args:
        wins: Win matrices, of shape ``(..., models, models)``.
        ridge: Strength of the ridge, in judgments per model.
        start: Logits at which the fit starts; zeros by default.

    Raises:
        JudgmentError: The fit does not converge. This happens only if a model won or lost
            everything and the ridge is almost 0.

    Example:
        >>> import numpy as np
        >>> from mirage.arena.estimation import fit_bradley_terry
        >>> fit_bradley_terry(np.array([[0.0, 3.0], [1.0, 0.0]])).round(2).tolist()
        [0.55, -0.55]
    """
    models, penalty = wins.shape[-1], ridge / 4
    games, gained, first = _batch(wins, start, models)

    def derivatives(logits: Floats, live: Ints) -> tuple[Floats, Floats]:
        strength = np.exp(logits)
        share = games[live]
        total = strength[:, :, None] + strength[:, None, :]
        share /= total
        gradient = gained[live] - strength * share.sum(axis=2) - penalty * logits
        share *= strength[:, :, None]
        share *= strength[:, None, :]
        share /= total
        return gradient, penalised_information(share, penalty)

    return newton(derivatives, first, models).reshape(wins.shape[:-1])


def fit_davidson(
    wins: Floats, ties: Floats, ridge: float = 0.0, start: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the logits and log tie parameter that maximise Davidson's (1970) likelihood.

    With strengths pi = exp(logit), P(i beats j) = pi_i / D and P(tie) = nu sqrt(pi_i pi_j) / D,
    with D = pi_i + pi_j + nu sqrt(pi_i pi_j). Steps are damped as in :func:`fit_bradley_terry`,
    with the change of log nu added to d.

    Args:
        wins: Win matrices, of shape ``(..., models, models)``, in which a tie counts one half for
            both.
        ties: Number of ties among these judgments, of shape ``(...)``.
        ridge: Strength of the ridge on the logits, in judgments per model, as in
            :func:`fit_bradley_terry`. The ridge also shrinks log nu: it adds as much information
            about log nu as ``ridge`` judgments do (each 2/9, at logits of 0 and nu = 1). Without a
            ridge, log nu is finite only if some judgments are ties and some are not.
        start: Logits and log nu at which the fit starts; zeros by default.

    Returns:
        The logits, of shape ``(..., models)``, and log nu, of shape ``(...)``.

    Raises:
        JudgmentError: The fit does not converge. This happens only if a model won or lost
            everything and the ridge is almost 0.
    """
    models, penalty, tie_penalty = wins.shape[-1], ridge / 4, ridge * _TIE_INFORMATION
    games, gained, first = _batch(wins, start, models + 1)
    tied = np.asarray(ties, dtype=np.float64).reshape(len(games))

    def derivatives(params: Floats, live: Ints) -> tuple[Floats, Floats]:
        logits, log_nu = params[:, :models], params[:, models]
        n = games[live]
        win, tie = _davidson_probabilities(logits, log_nu)
        gradient = np.empty_like(params)
        gradient[:, :models] = gained[live] - (n * (win + tie / 2)).sum(axis=2) - penalty * logits
        gradient[:, models] = tied[live] - (n * tie).sum(axis=(1, 2)) / 2 - tie_penalty * log_nu
        return gradient, _davidson_information(n, win, tie, ridge)

    params = newton(derivatives, first, models)
    return params[:, :models].reshape(wins.shape[:-1]), params[:, models].reshape(wins.shape[:-2])


def win_probabilities(logits: Floats, log_nu: Floats | float | None = None) -> Floats:
    """Return the probability that model i is preferred to j, of shape ``(..., models, models)``.

    In Davidson's model (if ``log_nu`` is not ``None``), half the probability of a tie is added to
    the probability of each model, so the probabilities at ``[i, j]`` and ``[j, i]`` sum to 1 here
    too. The diagonal is 0.5.

    Args:
        logits: Logits, of shape ``(..., models)``.
        log_nu: Log of Davidson's tie parameter, of shape ``(...)``; ``None`` for Bradley-Terry.
    """
    if log_nu is None:
        difference = logits[..., :, None] - logits[..., None, :]
        return np.asarray(0.5 + 0.5 * np.tanh(difference / 2), dtype=np.float64)
    win, tie = _davidson_probabilities(logits, np.asarray(log_nu, dtype=np.float64))
    return win + tie / 2


def curvature(logits: Floats, log_nu: float | None = None) -> Floats:
    """Return the information in one judgment about the difference of two logits.

    The result has the shape ``(models, models)``; its diagonal has no meaning.

    Args:
        logits: Logits of the models.
        log_nu: Log of Davidson's tie parameter; ``None`` for Bradley-Terry.
    """
    if log_nu is None:
        expected = win_probabilities(logits)
        return expected * expected.T
    win, tie = _davidson_probabilities(logits, np.asarray(log_nu))
    return np.asarray(win * win.T + tie * (win + win.T) / 4)


def comparison_pieces(wins: Floats) -> list[Ints]:
    """Return the connected components of the graph of compared models, largest first.

    Each component is an array of model indices. Models of different components have no logits on a
    common scale. ``wins`` is one win matrix.
    """
    return bound_groups(wins + wins.T)


def separated(wins: Floats) -> Bools:
    """Return whether each model won all, or lost all, of its judgments.

    ``wins`` has the shape ``(..., models, models)``: entry ``[..., i, j]`` is the number of times
    that model i beat model j; a tie counts half. The result has the shape ``(..., models)``.

    The likelihood alone does not bound the logits of such models. A tie is half a win for both, so
    a model that tied once is not separated. A model without any judgment is separated.
    """
    won, lost = wins.sum(axis=-1), wins.sum(axis=-2)
    return np.asarray((won == 0) | (lost == 0))


def bound_groups(wins: Floats) -> list[Ints]:
    """Return the groups of models within which differences of logits have a finite estimate.

    ``wins`` is one win matrix, of shape ``(models, models)``. The largest group comes first. Within
    a group, every model beat every other, directly or through other models (a tie is half a win).
    If there are several groups, all judgments between two of them went the same way. No finite
    distance between these two groups then maximises the likelihood (Ford 1957; Hunter 2004,
    assumption 1).
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    _, labels = connected_components(csr_array((wins > 0).astype(np.int8)), connection="strong")
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return sorted(groups, key=lambda group: (-len(group), int(group[0])))


def separation_covariance(information: Floats, groups: list[Ints]) -> Floats:
    """Return the covariance of logits that is due to unknown distances between groups of models.

    It is 0 if there is only one group. Otherwise, it is the inverse of the penalised information
    about shifting each group of models as a whole. The sandwich estimate does not include this
    uncertainty, because the residuals of judgments between such groups are nearly 0, whatever the
    distance is.

    Args:
        information: Penalised information about the logits, from :func:`information`.
        groups: Indices of the models in each group, from :func:`bound_groups`.

    Returns:
        The covariance, of shape ``(models, models)``.
    """
    models = sum(map(len, groups))
    moves = np.zeros((models, len(groups)))
    for column, group in enumerate(groups):
        moves[group, column] = 1
    moves -= moves.mean(axis=0)
    group_information = moves.T @ information[:models, :models] @ moves
    return np.asarray(moves @ np.linalg.pinv(group_information, hermitian=True) @ moves.T)


def always_won(wins: Floats) -> tuple[Ints, Ints] | None:
    """Find a group of models that won every judgment against all other models.

    If all models are connected by judgments, the likelihood has a maximum if and only if there is
    no such group (Ford 1957; Hunter 2004, assumption 1).

    Args:
        wins: Win matrix, of shape ``(models, models)``.

    Returns:
        The models of the group, and the other models; ``None`` if there is no such group.
    """
    alone = np.flatnonzero(separated(wins))
    start = int(alone[0]) if len(alone) else 0
    # Models outside of `beaten` were never beaten by those inside.
    beaten = _reachable(wins > 0, start)
    if not beaten.all():
        return np.flatnonzero(~beaten), np.flatnonzero(beaten)
    beaters = _reachable(wins.T > 0, start)
    if not beaters.all():
        return np.flatnonzero(beaters), np.flatnonzero(~beaters)
    return None


def sandwich(
    wins: Floats,
    logits: Floats,
    query: _Column,
    a: _Column,
    b: _Column,
    score: _Column,
    ridge: float = 0.0,
    log_nu: float | None = None,
    factors: Floats | None = None,
) -> Floats:
    """Return the covariance of the logits, robust to dependence within a query.

    The covariance is the sandwich ``A^-1 B A^-1`` of Huber (1967) and White (1982) with clusters
    (Liang & Zeger 1986). A is the information at ``logits``. B is ``G / (G - 1)`` times the sum of
    ``g g'`` over the G queries, with g the gradient of one query's judgments. The inverses are
    restricted to logits that sum to 0.

    The ridge is added to A, and to B with the same weight, as if it were additional observations.
    For ordinary models the effect is negligible. But if a model won or lost everything, the
    variance of its logit would otherwise vanish, because its residuals are nearly 0.

    Args:
        wins: Win matrix of the judgments.
        logits: Fitted logits.
        query: Index of the query, or cluster of queries, of each judgment.
        a: Index of the first model of each judgment.
        b: Index of the second model of each judgment.
        score: Score of the first model of each judgment.
        ridge: Strength of the ridge.
        log_nu: Log of Davidson's tie parameter; ``None`` for Bradley-Terry.
        factors: If ``query`` contains clusters, the small-sample factor of each cluster by
            :func:`mirage.statistics.clusters.small_sample`; otherwise ``None``.

    Returns:
        The covariance, of shape ``(models, models)``; all values are NaN if there is only one query
        or cluster.
    """
    bread, expected, tie_probability = _information(wins, logits, ridge, log_nu)
    models = len(logits)
    clusters = int(np.count_nonzero(np.bincount(query)))
    if clusters < 2:
        return np.full((models, models), np.nan)
    meat = cluster_meat(query, a, b, score, expected, tie_probability, factors)
    meat *= clusters / (clusters - 1) if factors is None else 1.0
    meat[:models, :models] += ridge / 4 * (np.eye(models) - 1 / models)
    meat[models:, models:] += ridge * _TIE_INFORMATION
    return solve_sandwich(bread, meat)[:models, :models]


def solve_sandwich(bread: Floats, meat: Floats) -> Floats:
    """Return the symmetric product ``bread^-1 meat bread^-1``."""
    half = np.linalg.solve(bread, meat)
    covariance = np.linalg.solve(bread, half.T)
    return np.asarray((covariance + covariance.T) / 2)


def influences(
    wins: Floats,
    logits: Floats,
    query: _Column,
    a: _Column,
    b: _Column,
    score: _Column,
    ridge: float = 0.0,
    log_nu: float | None = None,
) -> Floats:
    """Return the influence of each query's judgments on the logits, to first order.

    The influence of a query is ``A^-1 g``, with A and g as in :func:`sandwich`. The sandwich is the
    sum of the outer products of these vectors, apart from the factor ``G / (G - 1)`` and the ridge.

    Args:
        wins: Win matrix of the judgments.
        logits: Fitted logits.
        query: Index of the query of each judgment.
        a: Index of the first model of each judgment.
        b: Index of the second model of each judgment.
        score: Score of the first model of each judgment.
        ridge: Strength of the ridge.
        log_nu: Log of Davidson's tie parameter; ``None`` for Bradley-Terry.

    Returns:
        The influences, of shape ``(queries, models)``: one row for each query that has judgments,
        in the order of the query indices.
    """
    bread, expected, tie_probability = _information(wins, logits, ridge, log_nu)
    cluster = np.unique(query, return_inverse=True)[1]
    columns, values = _gradients(a, b, score, expected, tie_probability)
    gradients = _sum_by_cluster(cluster, columns, values, len(bread))
    return np.asarray(np.linalg.solve(bread, gradients.T)[: len(logits)].T, dtype=np.float64)


def information(
    wins: Floats, logits: Floats, ridge: float = 0.0, log_nu: float | None = None
) -> Floats:
    """Return the penalised Fisher information at these logits, of shape ``(models, models)``.

    The matrix is invertible, although the likelihood does not determine the mean of the logits; see
    :func:`penalised_information`.

    Args:
        wins: Win matrix of the judgments.
        logits: Logits of the models.
        ridge: Strength of the ridge, which adds ``ridge / 4`` to the diagonal for each logit.
        log_nu: Log of Davidson's tie parameter; ``None`` for Bradley-Terry. If it is given, there
            is one more row and column for log nu.
    """
    return _information(wins, logits, ridge, log_nu)[0]


def _information(
    wins: Floats, logits: Floats, ridge: float, log_nu: float | None
) -> tuple[Floats, Floats, Floats | None]:
    """Return the information matrix, the expected scores and the probabilities of a tie.

    Arguments are those of :func:`information`. Expected scores and probabilities have the shape
    ``(models, models)``; the probabilities are ``None`` without ``log_nu``.
    """
    games = wins + wins.T
    if log_nu is None:
        expected = win_probabilities(logits)
        return penalised_information(games * expected * expected.T, ridge / 4), expected, None
    win, tie = _davidson_probabilities(logits, np.asarray(log_nu))
    return _davidson_information(games[None], win[None], tie[None], ridge)[0], win + tie / 2, tie


def cluster_meat(
    query: _Column,
    a: _Column,
    b: _Column,
    score: _Column,
    expected: Floats,
    tie_probability: Floats | None = None,
    factors: Floats | None = None,
) -> Floats:
    """Return the sum over queries of the outer product of a query's gradient with itself.

    With ``factors``, this sum is the matrix B of :func:`sandwich`, apart from the ridge. Without
    ``factors``, B is ``G / (G - 1)`` times this sum, apart from the ridge, for G queries. To limit
    memory, about 2^18 judgments are processed at a time.

    Args:
        query: Index of the query, or cluster of queries, of each judgment.
        a: Index of the first model of each judgment.
        b: Index of the second model of each judgment.
        score: Score of the first model of each judgment.
        expected: Expected score of model i against model j, at ``[i, j]``.
        tie_probability: Probability that models i and j tie, at ``[i, j]``; ``None`` for
            Bradley-Terry.
        factors: Number by which the outer product of each query is multiplied; 1 by default.

    Returns:
        The sum, of shape ``(models, models)``. If ``tie_probability`` is given (Davidson's model),
        there is one more row and column for log nu.
    """
    size = len(expected) + (tie_probability is not None)
    meat = np.zeros((size, size))
    for rows in _query_blocks(query):
        cluster = np.unique(query[rows], return_inverse=True)[1]
        columns, values = _gradients(a[rows], b[rows], score[rows], expected, tie_probability)
        if factors is not None:
            values = [np.sqrt(factors)[query[rows]] * value for value in values]
        meat += _gram(cluster, columns, values, size)
    return meat


def _gradients(
    a: _Column, b: _Column, score: _Column, expected: Floats, tie_probability: Floats | None
) -> tuple[list[Ints], list[Floats]]:
    """Return the elements of the gradient of each judgment's log-likelihood that are not 0.

    Each gradient has two or three such elements. The first list has one array of indices per
    element, and the second one array of values, both with one entry per judgment. The arguments are
    those of :func:`cluster_meat`.
    """
    first, second = a.astype(np.intp), b.astype(np.intp)
    residual = score - expected[first, second]
    columns, values = [first, second], [residual, -residual]
    if tie_probability is not None:
        columns.append(np.full_like(first, len(expected)))
        values.append((score == 0.5) - tie_probability[first, second])
    return columns, values


def _gram(cluster: Ints, columns: list[Ints], values: list[Floats], size: int) -> Floats:
    """Return ``G' G`` for the matrix G of summed gradients from :func:`_sum_by_cluster`."""
    height = int(cluster.max()) + 1
    if height * size <= 32 * len(cluster):
        dense = _sum_by_cluster(cluster, columns, values, size)
        return np.asarray(dense.T @ dense)
    # With few models per query, G is nearly all zeros.
    from scipy.sparse import csr_array

    rows = np.tile(cluster, len(columns))
    entries = (np.concatenate(values), (rows, np.concatenate(columns)))
    sparse = csr_array(entries, shape=(height, size))
    return np.asarray((sparse.T @ sparse).toarray())


def _sum_by_cluster(cluster: Ints, columns: list[Ints], values: list[Floats], size: int) -> Floats:
    """Sum the gradients of the judgments of each cluster.

    Args:
        cluster: Cluster index of each judgment.
        columns: Indices of parameters, from :func:`_gradients`.
        values: Derivatives with respect to these parameters, from :func:`_gradients`.
        size: Number of parameters.

    Returns:
        The sums, of shape ``(clusters, size)``.
    """
    flat = np.zeros((int(cluster.max()) + 1) * size)
    for column, value in zip(columns, values, strict=True):
        flat += np.bincount(cluster * size + column, value, len(flat))
    return flat.reshape(-1, size)


def _query_blocks(query: _Column) -> Iterator[slice | Ints]:
    """Yield row numbers in blocks of limited size, with all rows of a query in the same block."""
    ordered = bool(np.all(query[1:] >= query[:-1]))
    order = None if ordered else np.argsort(query, kind="stable")
    key = query if order is None else query[order]
    cuts = np.searchsorted(key, key[_ROWS::_ROWS])
    edges = np.unique(np.concatenate(([0], cuts, [len(key)])))
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield slice(low, high) if order is None else order[low:high]


def _reachable(edges: Bools, start: int) -> Bools:
    """Return for each node whether it can be reached from ``start`` along ``edges[from, to]``."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    reached = np.zeros(len(edges), dtype=bool)
    nodes = breadth_first_order(csr_array(edges.astype(np.int8)), start, return_predecessors=False)
    reached[nodes] = True
    return reached


def _batch(wins: Floats, start: Floats | None, params: int) -> tuple[Floats, Floats, Floats]:
    """Prepare arrays for fitting one or several win matrices with ``params`` parameters each.

    Returns:
        Number of comparisons of every two models, number of wins of each model, and start values of
        the parameters. The first axis of each array indexes the win matrices.
    """
    flat = np.ascontiguousarray(wins, dtype=np.float64).reshape(-1, *wins.shape[-2:])
    first = np.zeros((len(flat), params))
    first[:] = 0 if start is None else start
    return flat + flat.swapaxes(1, 2), flat.sum(axis=2), first


def penalised_information(curvature: Floats, penalty: float) -> Floats:
    """Return an invertible information matrix of the logits, computed from curvatures.

    The result has the shape ``(..., models, models)``.

    Without a penalty, the information is singular, because the likelihood does not change if a
    constant is added to all logits. The function therefore adds a multiple of the matrix of ones.
    The steps of a fit stay the same, because gradients sum to 0.

    Args:
        curvature: Negative second derivative of the log-likelihood for each pair, with zeros on the
            diagonal.
        penalty: Penalty added to the diagonal.
    """
    models = curvature.shape[-1]
    total = curvature.sum(axis=-1) + penalty
    fill = total.mean(axis=-1) / models
    information = fill[..., None, None] - curvature
    information[..., range(models), range(models)] += total
    return np.asarray(information)


def _davidson_probabilities(logits: Floats, log_nu: Floats) -> tuple[Floats, Floats]:
    """Return the probabilities of a win of model i over j, and of a tie, at ``[..., i, j]``."""
    root = np.exp(logits / 2)
    win = np.square(root)[..., :, None] * np.ones(logits.shape[-1])
    tie = root[..., :, None] * root[..., None, :] * np.exp(log_nu)[..., None, None]
    total = win + win.swapaxes(-1, -2) + tie
    return win / total, tie / total


def _davidson_information(games: Floats, win: Floats, tie: Floats, ridge: float) -> Floats:
    """Return the penalised information about logits and log nu (see :func:`information`)."""
    models = games.shape[-1]
    lose = win.swapaxes(-1, -2)
    information = np.empty((len(games), models + 1, models + 1))
    curvature = games * (win * lose + tie * (win + lose) / 4)
    cross = -(games * tie * (win - lose)).sum(axis=-1) / 2
    information[:, :models, :models] = penalised_information(curvature, ridge / 4)
    information[:, :models, models] = information[:, models, :models] = cross
    spread = (games * tie * (1 - tie)).sum(axis=(-1, -2)) / 2
    information[:, models, models] = spread + ridge * _TIE_INFORMATION
    return information


def newton(derivatives: _Derivatives, params: Floats, models: int) -> Floats:
    """Maximise several likelihoods by damped Newton steps.

    Args:
        derivatives: Function that takes rows of parameters and the indices of these rows, and
            returns the gradient and the information matrix of each row.
        params: Start values, one row per likelihood, with the logits in the first columns. They are
            changed in place.
        models: Number of models, that is, of logits.

    Returns:
        The parameters at the maximum, one row per likelihood.

    Raises:
        JudgmentError: One of the fits does not converge.
    """
    live = np.arange(len(params))
    for _ in range(_STEPS):
        gradient, information = derivatives(params[live], live)
        try:
            step = np.linalg.solve(information, gradient[:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:
            break
        size = np.ptp(step[:, :models], axis=1) + np.abs(step[:, models:]).sum(axis=1)
        moved = params[live] + step * (np.log1p(size) / np.maximum(size, 1e-300))[:, None]
        moved[:, :models] -= moved[:, :models].mean(axis=1, keepdims=True)
        params[live] = moved
        live = live[~(size <= _STEP)]
        if not len(live):
            return params
    raise JudgmentError(
        f"the logits of {len(live)} of {len(params)} fits do not converge: some models won or "
        "lost every comparison, so their logits are unbounded; set a ridge penalty, such as "
        "ridge=0.1"
    )

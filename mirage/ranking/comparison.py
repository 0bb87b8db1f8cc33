"""Comparison of two systems of one ranking, query by query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mirage._base.arrays import Floats, Ints
from mirage._base.near_names import NearNames
from mirage.errors import MirageError
from mirage.statistics.bootstrap import Interval
from mirage.statistics.clusters import cluster_codes, cluster_names
from mirage.statistics.paired import paired_means

if TYPE_CHECKING:
    from mirage.features import FeatureTable
    from mirage.features.findings import Finding
    from mirage.models import Run
    from mirage.ranking.accuracy import Accuracy, Outcome
    from mirage.ranking.entries import Evidence
    from mirage.surrogate import SurrogateRanker

__all__ = [
    "QueryComparer",
    "QueryDifference",
    "SystemComparison",
    "compare_systems",
    "is_comparable",
    "p_positive",
    "p_positive_each",
]

MANNER: Mapping[str, float] = MappingProxyType(
    {
        "target_language": 0.25,
        "english_language": 0.25,
        "answer_bleu": 1.0,
        "answer_length": np.inf,
        "answer_rougeL": 0.2,
        "answer_char3": 0.2,
        "reference_recall": 0.3,
        "support_lexical": 0.5,
        "relevance_lexical": 0.3,
        "fact_agreement": 0.3,
        "fact_precision": 0.5,
        "passage_coverage": 0.05,
    }
)
"""Largest difference of each feature that is ignored, because writing style may cause it.

Layout, courtesies, and other words for the same facts change these features, although the content
is the same. ``validation/coverage/compared_systems.py`` prints how often the better system is found
with these limits, and how often a mere difference of style is reported.
"""

FULL_LIMITS = 0.25
"""Minimum share of queries with different texts for the full limits of :data:`MANNER`.

If two versions of one system give the same text to nearly all queries, few responses can differ by
chance. Below this share, the limits are therefore reduced in proportion to the share.
"""

RECURRING = 3
"""Number of responses in which an unknown fact must recur to count as part of a template."""

NEGLIGIBLE = 0.01
"""Advantage below which two responses count as equal."""

ROUNDING = 1e-9
"""Sum of advantages below which the advantages cancel out."""

PRIOR = 1.2
"""Shape parameter of the weight of each of the two queries that the Bayesian bootstrap adds.

Some responses differ only because a feature misreads a writing style. With 1.2, a system that is
better on all of three differing queries reaches a probability of 0.9, and one that is better on all
of four does not reach 0.975.
"""

MISREADING = 0.75
"""Exponent of the number of languages in the weight of the imaginary queries.

It would be 0.5 if surrogates misread different styles of writing in each language, and 1 if they
misread the same styles in all. With 0.75, two styles of the same texts are called different at most
as often as equal systems may be (``validation/coverage/several_languages.py``).
"""

INDEPENDENCE = 4.0
"""Second parameter of the beta prior of the correlation within clusters; the first one is 1.

The mean of the prior is 0.2. In grades of two LLMs and a person on 159 turns of 20 conversations
(MTRAG, Katsis et al. 2025, arXiv 2501.03468), paired differences have a mean correlation of 0.05
within a conversation, and at most 0.13 (``validation/coverage/dossiers.py``).
"""

CORRELATIONS = (np.arange(50) + 0.5) / 50
"""Grid of possible correlations within clusters."""

UNKNOWN = "unknown_facts"
"""Name of the feature for facts that no passage contains; a template can raise its value."""

SEPARATOR = " … "
"""Separator between the parts of the quote in a finding."""

DRAWS = 10_000
"""Number of draws of the Bayesian bootstrap."""

BLOCK = 1_000
"""Number of draws that are made at a time."""

PRODUCT = 2**18
"""Number of multiplications up to which OpenBLAS uses one thread; several would mostly wait."""

PAIRS = 256
"""Largest number of pairs of systems that share draws, because all their sums are in memory."""


@dataclass(frozen=True)
class QueryDifference(NearNames):
    """A query on which one of two systems has the better response.

    Attributes:
        query_id: Id of the query.
        advantage: Expected share of verdicts that the first system's response wins, minus 0.5; from
            -0.5 to 0.5.
        outcomes: Outcomes of the two responses, such as ``("right", "declined")``.
    """

    query_id: str
    advantage: float
    outcomes: tuple[Outcome, Outcome]


@dataclass(frozen=True)
class SystemComparison(NearNames):
    """The difference between two systems on the same queries.

    Attributes:
        models: Names of the two systems.
        p_better: Probability that the first system is better, from 0 to 1.
        difference: Mean advantage of the first system over all queries: the expected share of
            verdicts that it wins, minus 0.5.
        interval: Confidence interval of the difference, which allows for rare large differences
            that these queries lack; NaN with fewer than ten clusters of queries, or if no response
            differs.
        queries: Queries on which one system is better, in descending order of the first system's
            advantage.
        n: Number of queries that both systems were asked.
        level: Confidence level of the interval.

    Example:
        >>> from mirage import Leaderboard
        >>> board = Leaderboard.bundled("en")
        >>> right = {query.id: query.reference for query in board.dataset}
        >>> cautious = right | dict.fromkeys(board.dataset.query_ids[:6], "I do not know.")
        >>> ranking = board.rank_many({"a": right, "b": cautious}, progress=False)
        >>> comparison = ranking.compare("a", "b")
        >>> comparison.better, comparison.worse, comparison.p_better > 0.9
        (6, 0, True)
    """

    models: tuple[str, str]
    p_better: float
    difference: float
    interval: Interval
    queries: tuple[QueryDifference, ...]
    n: int
    level: float = 0.95

    @property
    def better(self) -> int:
        """Number of queries on which the first system is better."""
        return sum(query.advantage > 0 for query in self.queries)

    @property
    def worse(self) -> int:
        """Number of queries on which the first system is worse."""
        return len(self.queries) - self.better

    def swapped(self) -> SystemComparison:
        """Return the same comparison with the two systems in the opposite order."""
        low, high = self.interval
        return SystemComparison(
            (self.models[1], self.models[0]),
            1 - self.p_better,
            -self.difference,
            (-high, -low),
            tuple(
                QueryDifference(row.query_id, -row.advantage, (row.outcomes[1], row.outcomes[0]))
                for row in reversed(self.queries)
            ),
            self.n,
            self.level,
        )

    def __str__(self) -> str:
        a, b = self.models
        low, high = self.interval
        ends = (
            "" if np.isnan(low) else f", {100 * self.level:g} % interval {low:+.3f} to {high:+.3f}"
        )
        return (
            f"{a} against {b}, query by query: better on {self.better} of {self.n}, worse on "
            f"{self.worse}; P(better) = {self.p_better:.2f}, mean advantage "
            f"{self.difference:+.3f}{ends}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a dictionary for JSON; NaN values are ``None``."""
        return {
            "models": list(self.models),
            "p_better": self.p_better,
            "difference": self.difference,
            "interval": [None if np.isnan(end) else end for end in self.interval],
            "level": self.level,
            "n": self.n,
            "better": self.better,
            "worse": self.worse,
            "queries": [
                {
                    "query_id": query.query_id,
                    "advantage": query.advantage,
                    "outcomes": list(query.outcomes),
                }
                for query in self.queries
            ],
        }


def is_comparable(evidence: Evidence | None, a: str, b: str) -> bool:
    """Return whether ``evidence`` has the surrogate, and the features of both systems."""
    return evidence is not None and evidence.ranker is not None and {a, b} <= evidence.tables.keys()


def compare_systems(
    query_gains: QueryGains,
    p_better: float,
    accuracies: Mapping[str, Accuracy],
    a: str,
    b: str,
    *,
    level: float = 0.95,
) -> SystemComparison:
    """Compare the responses of two systems to the same queries.

    See :meth:`mirage.ranking.Ranking.compare`.

    Args:
        query_gains: Advantages of the first system over the second one.
        p_better: Probability that the first system is better, see :func:`p_positive`.
        accuracies: Outcomes of the responses, by model name.
        a: Name of the first system.
        b: Name of the second system.
        level: Confidence level of the interval.

    Returns:
        The difference between the systems, its interval, and the queries on which they differ.
    """
    ids, gains = query_gains.query_ids, query_gains.gains
    result = paired_means(gains[:, None], query_gains.codes, level=level, most=0.5)[0]
    outcomes = [accuracies[model].outcomes for model in (a, b)]
    rows = [
        QueryDifference(id_, gain, (outcomes[0][id_], outcomes[1][id_]))
        for id_, gain in zip(ids, gains.tolist(), strict=True)
        if gain
    ]
    rows.sort(key=lambda row: -row.advantage)
    return SystemComparison(
        (a, b), p_better, result.difference, result.interval, tuple(rows), len(ids), level
    )


class QueryGains(NamedTuple):
    """The advantages of one system over another on the queries that both were asked.

    Attributes:
        query_ids: Ids of the queries.
        gains: Advantage on each query: the share of verdicts that the response of the first system
            is expected to win, minus 0.5.
        clusters: Name of each query's cluster.
        imaginary: Gain of the imaginary queries of :func:`p_positive`; ``None`` for the default.
    """

    query_ids: tuple[str, ...]
    gains: Floats
    clusters: tuple[str, ...]
    imaginary: float | None = None

    @property
    def codes(self) -> Ints:
        """Cluster of each query, counted from 0."""
        return cluster_codes(self.clusters, {})

    @property
    def p_positive(self) -> float:
        """Probability that the first system is better; see :func:`p_positive`."""
        return p_positive(self.gains, self.codes, self.imaginary)

    @classmethod
    def pooled(cls, by_language: Sequence[QueryGains]) -> QueryGains:
        """Return the advantage on each query, summed over languages of equal weight.

        The gains of a query id that occurs in several languages are added, because parallel
        questions are not independent. If the languages have different numbers of queries, gains are
        weighted first. A query belongs to the cluster that the first language assigns to it.

        The imaginary queries count more with more languages (:data:`MISREADING`), because a
        surrogate may misread a style of writing in several languages.
        """
        mean = sum(len(part.query_ids) for part in by_language) / len(by_language)
        sizes: list[float] = []
        sums: dict[str, float] = {}
        clusters: dict[str, str] = {}
        for part in by_language:
            gains = (part.gains * (mean / len(part.query_ids))).tolist()
            sizes += (abs(gain) for gain in gains if gain)
            for id_, gain, cluster in zip(part.query_ids, gains, part.clusters, strict=True):
                sums[id_] = sums.get(id_, 0.0) + gain
                clusters.setdefault(id_, cluster)
        gains_of_all = np.array([*sums.values()])
        gains_of_all[np.abs(gains_of_all) < ROUNDING] = 0.0
        imaginary = None
        if gains_of_all.any():
            typical = float(np.abs(gains_of_all[gains_of_all != 0]).mean())
            imaginary = max(len(by_language) ** MISREADING * float(np.mean(sizes)), typical)
        return cls(tuple(sums), gains_of_all, tuple(clusters.values()), imaginary)


class QueryComparer:
    """Comparisons of the systems of one ranking, query by query.

    The features and texts of a system are prepared once, when it is first compared.

    Args:
        evidence: Data behind the ranking, with the surrogate and the features of the systems.
        findings: Faults in the responses, by model name.
    """

    def __init__(self, evidence: Evidence, findings: Mapping[str, tuple[Finding, ...]]) -> None:
        self._evidence, self._findings = evidence, findings
        self._tables: dict[str, FeatureTable] = {}
        self._texts: dict[str, _Texts] = {}

    def gains(self, a: str, b: str) -> QueryGains:
        """Return the advantages of system ``a`` over system ``b``, query by query.

        Args:
            a: Name of the first system.
            b: Name of the second system.

        Raises:
            MirageError: The two systems share no query.
        """
        assert self._evidence.ranker is not None  # as is_comparable checks
        first, second = self._table(a), self._table(b)
        ids = first.query_ids
        if ids != second.query_ids:
            in_second = set(second.query_ids)
            ids = tuple(id_ for id_ in ids if id_ in in_second)
            first, second = first.select(ids), second.select(ids)
        if not ids:
            raise MirageError(
                f"{a!r} and {b!r} have no query in common, so they cannot be compared; rank them "
                "on the same queries"
            )
        gains = advantages(self._evidence.ranker, first, second, self._differing_share(a, b, ids))
        return QueryGains(ids, gains, tuple(cluster_names(ids, first.clusters)))

    def _table(self, model: str) -> FeatureTable:
        """Return a system's features for the surrogate, cleaned by :func:`without_templates`."""
        if model not in self._tables:
            assert self._evidence.ranker is not None  # as is_comparable checks
            table = without_templates(self._evidence.tables[model], self._findings.get(model, ()))
            table = replace(table, reasons={}, retry=frozenset())
            self._tables[model] = table.columns(self._evidence.ranker.features)
        return self._tables[model]

    def _differing_share(self, a: str, b: str, query_ids: Sequence[str]) -> float:
        """Return the share of queries on which the responses of two systems have different texts.

        White space around a text does not count. The share is 1 if the texts of a system are
        missing.
        """
        runs = self._evidence.runs
        for model in {a, b} & runs.keys():
            if model not in self._texts:
                self._texts[model] = _texts(runs[model])
        return _share_of_different_texts(self._texts.get(a), self._texts.get(b), query_ids)


def without_templates(table: FeatureTable, findings: Iterable[Finding]) -> FeatureTable:
    """Return the features of a system without counting its templates as invented facts.

    A template is a text that a system repeats, such as the signature "Your assistant Ada". Its name
    is in no passage, and so looks like an invented fact. An unknown fact that recurs in at least
    :data:`RECURRING` responses counts as part of a template. If all unknown facts of a response
    recur, its feature ``unknown_facts`` is set to 0.

    Args:
        table: Features of the system.
        findings: Faults in the responses of the system.
    """
    if UNKNOWN not in table.features:
        return table
    texts = {
        id_: set(quote.split(SEPARATOR))
        for finding in findings
        if finding.kind == "unknown fact"
        for id_, quote in finding.quotes.items()
    }
    counts = Counter(text for of_query in texts.values() for text in of_query)
    values, column = table.values.copy(), table.features.index(UNKNOWN)
    for row, id_ in enumerate(table.query_ids):
        if id_ in texts and all(counts[text] >= RECURRING for text in texts[id_]):
            values[row, column] = 0.0
    return replace(table, values=values, repeats=None)


_Texts = Mapping[str, tuple[str, ...]]
"""The texts of all responses of a system to each query, without white space around them."""


def _share_of_different_texts(
    first: _Texts | None, second: _Texts | None, query_ids: Sequence[str]
) -> float:
    if first is None or second is None or not query_ids:
        return 1.0
    return sum(first.get(id_) != second.get(id_) for id_ in query_ids) / len(query_ids)


def _texts(run: Run) -> _Texts:
    texts: dict[str, tuple[str, ...]] = {}
    for response in sorted(run.responses, key=lambda response: response.repeat):
        text = (response.text or "").strip()
        texts[response.query_id] = (*texts.get(response.query_id, ()), text)
    return texts


def advantages(
    ranker: SurrogateRanker, first: FeatureTable, second: FeatureTable, differing: float = 1.0
) -> Floats:
    """Return the advantage of the first system on each query.

    The advantage is the share of verdicts that the first response is expected to win, minus 0.5.
    The share is computed from the difference of the surrogate's scores
    (:meth:`mirage.SurrogateRanker.scores`). A missing response loses against any response.

    Before scoring, small differences in features are removed, because they may be due to writing
    style alone. If a difference is within the feature's limit (:data:`MANNER`), both responses get
    the mean of their two values.

    Args:
        ranker: The surrogate.
        first: Features of the first system.
        second: Features of the second system on the same queries.
        differing: Share of queries on which the responses have different texts. If it is below
            :data:`FULL_LIMITS`, the limits are reduced in proportion, so that smaller differences
            count too: if most texts are identical, few responses can differ by chance.
    """
    first, second = first.columns(ranker.features), second.columns(ranker.features)
    missing = [np.isnan(table.values).all(axis=1) for table in (first, second)]
    limits = np.array([MANNER.get(name, 0.0) for name in ranker.features])
    # Some limits are infinite, so they cannot be multiplied by 0.
    limits = limits * min(differing / FULL_LIMITS, 1.0) if differing else np.zeros_like(limits)
    same = np.abs(first.values - second.values) <= limits
    means = (first.values + second.values) / 2
    scores = [
        ranker.scores(replace(table, values=np.where(same, means, table.values)))
        for table in (first, second)
    ]
    gains = 0.5 * np.tanh((scores[0] - scores[1]) / 2)  # the logistic function, minus 0.5
    gains = np.where(np.abs(gains) < NEGLIGIBLE, 0.0, gains)
    return np.where(missing[0] | missing[1], (missing[1] - 1.0 * missing[0]) / 2, gains)


def p_positive(gains: Floats, codes: Ints, imaginary: float | None = None) -> float:
    """Return the probability that the first of two systems is better on average.

    The given queries are treated as a sample from all possible queries. The result is the
    probability that the first system's mean advantage (gain) over all possible queries is above 0.
    It is the share of draws of a Bayesian bootstrap (Rubin 1981, The Bayesian Bootstrap, Annals of
    Statistics 9, 130-134) in which the mean is above 0.

    Queries that were not asked may favour either system. Two imaginary queries are therefore added,
    one in favour of each system. Their gains are plus and minus the mean absolute gain of the
    queries on which the systems differ. Without clusters and with gains of equal size, the result
    is that of a beta prior with both parameters :data:`PRIOR`. The prior is for the share of
    differing queries on which the first system is better. For example, the result is 0.92 if the
    systems differ on three queries, and the first one is better on all three.

    Queries of a cluster are neither independent nor identical. Their weights are therefore
    correlated, with a correlation that is itself random (:func:`draw_correlations`). The weight of
    a query is the sum of two gamma variables. All queries of a cluster share the first one, and its
    shape parameter is the correlation. The shape parameter of the second one is 1 minus the
    correlation. With a correlation of 1, whole clusters are drawn; with 0, single queries.
    ``validation/coverage/dossiers.py`` prints how often a probability of 0.9 is right.

    Args:
        gains: Advantage of the first system on each query.
        codes: Cluster of each query, counted from 0.
        imaginary: Absolute gain of the imaginary queries; the mean absolute gain by default.
    """
    return p_positive_each([(gains, codes)], imaginary)[0]


def p_positive_each(
    pairs: Sequence[tuple[Floats, Ints]], imaginary: float | None = None
) -> list[float]:
    """Return the result of :func:`p_positive` for each of many pairs of systems.

    ``pairs`` has the gains and the cluster codes of each pair. Without clusters, pairs with the
    same number of differing queries share their random draws to save time.
    """
    # Draws are made for the system that is ahead, so that the order of the two has no effect.
    behind = np.array([gains.sum() < 0 for gains, _ in pairs], dtype=bool)
    pairs = [
        (-gains if b else gains, codes) for b, (gains, codes) in zip(behind, pairs, strict=True)
    ]
    probabilities = np.full(len(pairs), 0.5)
    of_size: dict[int, list[int]] = {}
    for i, (gains, codes) in enumerate(pairs):
        size = int(np.count_nonzero(gains))
        if size and len(np.unique(codes[gains != 0])) == size:
            of_size.setdefault(size, []).append(i)
        elif size:
            probabilities[i] = _p_positive_in_clusters(gains, codes, imaginary)
    for rows in of_size.values():
        for start in range(0, len(rows), PAIRS):
            chosen = rows[start : start + PAIRS]
            values = [pairs[i][0][pairs[i][0] != 0] for i in chosen]
            probabilities[chosen] = _p_positive_without_clusters(values, imaginary)
    return [float(p) for p in np.where(behind, 1 - probabilities, probabilities)]


def _p_positive_without_clusters(gains: Sequence[Floats], imaginary: float | None) -> Floats:
    """Return :func:`p_positive` for each pair of systems, if no queries form clusters.

    Args:
        gains: Gains of each pair, without zeros. All have the same length.
        imaginary: Absolute gain of the imaginary queries; the mean absolute gain by default.
    """
    values = np.stack(gains, axis=1)
    rng = np.random.default_rng(0)
    sums: list[Floats] = []
    # The variables are drawn in blocks that fit into the processor's cache.
    for start in range(0, DRAWS, BLOCK):
        drawn = rng.standard_exponential((min(BLOCK, DRAWS - start), len(values)))
        step = max(PRODUCT // values.size, 1)
        sums += (drawn[i : i + step] @ values for i in range(0, len(drawn), step))
    added = rng.gamma(PRIOR, size=(DRAWS, 2))
    typical = [np.abs(each).mean() if imaginary is None else imaginary for each in gains]
    totals = np.concatenate(sums) + np.outer(added[:, 0] - added[:, 1], typical)
    return np.asarray((totals > 0).mean(axis=0))


def _p_positive_in_clusters(gains: Floats, codes: Ints, imaginary: float | None) -> float:
    values = gains[gains != 0]
    rng = np.random.default_rng(0)
    clusters, members = np.unique(codes[gains != 0], return_inverse=True)
    shared = draw_correlations(gains, codes, rng)
    typical = np.abs(values).mean() if imaginary is None else imaginary
    typical = typical * (1 + shared * (len(values) / len(clusters) - 1))
    common = rng.gamma(shared[:, None], size=(DRAWS, len(clusters)))
    single = rng.gamma(1 - shared[:, None], size=(DRAWS, len(values)))
    totals = common @ np.bincount(members, values) + single @ values
    added = rng.gamma(PRIOR, size=(DRAWS, 2))
    return float(np.mean(totals + typical * (added[:, 0] - added[:, 1]) > 0))


def draw_correlations(gains: Floats, codes: Ints, rng: np.random.Generator) -> Floats:
    """Draw correlations of the results within clusters from their posterior distribution.

    A query has one of three results: the first system is better, the second one is, or neither is.
    In each cluster, the numbers of queries with these results are modelled by a
    Dirichlet-multinomial distribution (Mosimann 1962, On the Compound Multinomial Distribution,
    Biometrika 49, 65-82). Its mean shares are those of the results among all queries, and its other
    parameter is the correlation. The correlation has a beta prior (:data:`INDEPENDENCE`).

    Args:
        gains: Advantage of the first system on each query.
        codes: Cluster of each query, counted from 0.
        rng: Random generator.

    Returns:
        The correlations, of shape ``(DRAWS,)``.
    """
    from scipy.special import gammaln

    counts = np.zeros((int(codes.max()) + 1, 3))
    np.add.at(counts, (codes, np.sign(gains).astype(np.intp) + 1), 1)
    shares = (counts.sum(axis=0) + 0.5) / (len(gains) + 1.5)
    totals = 1 / CORRELATIONS - 1
    parameters = totals[:, None, None] * shares
    likelihood = gammaln(totals)[:, None] - gammaln(totals[:, None] + counts.sum(axis=1))
    likelihood += (gammaln(parameters + counts) - gammaln(parameters)).sum(axis=2)
    weights = likelihood.sum(axis=1) + (INDEPENDENCE - 1) * np.log1p(-CORRELATIONS)
    weights = np.exp(weights - weights.max())
    return rng.choice(CORRELATIONS, size=DRAWS, p=weights / weights.sum())

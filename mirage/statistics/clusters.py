"""What hangs together counts as one: queries on one document, paraphrases, parallel questions.

A cluster is a name that such queries share. All that says how sure a figure is goes by clusters:
sums over a cluster are what varies independently, whatever goes on within it (Liang & Zeger 1986,
Longitudinal Data Analysis Using Generalized Linear Models, Biometrika 73, 13-22; Cameron & Miller
2015, A Practitioner's Guide to Cluster-Robust Inference, Journal of Human Resources 50, 317-372).
A query that shares nothing is a cluster by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirage._base.arrays import Floats

__all__ = ["multipliers"]


def multipliers(clusters: Sequence[str], draws: int, *, seed: int) -> Floats:
    """A standard normal deviate for each draw and cluster, ``(draws, clusters)``.

    They are what influences are multiplied by where an estimate is drawn anew: the multiplier, or
    score, bootstrap (Kline & Santos 2012, A Score Based Approach to Wild Bootstrap Inference,
    Journal of Econometric Methods 1, 23-41). They go by the name of a cluster: estimates that rest
    on the same clusters, such as those in several languages on parallel questions, are drawn
    together.
    """
    columns = [
        np.random.default_rng([seed, *name.encode()]).standard_normal(draws) for name in clusters
    ]
    return np.stack(columns, axis=1)

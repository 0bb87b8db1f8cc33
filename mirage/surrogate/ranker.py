"""The surrogate: from a model's mean features to its logit, without a judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage.arena import Tournaments
from mirage.errors import FeatureError, NotFittedError, UnknownNameError
from mirage.features import FeatureTable
from mirage.surrogate.estimators import ESTIMATORS, Regressor, make_regressor
from mirage.surrogate.training import TrainingData, mean_features, training_data

__all__ = ["SurrogateRanker"]

Array = NDArray[np.float64]
Data = Mapping[str, TrainingData]

POOLING = (0.0, 0.5, 1.0)

"""The accuracy of systems that answer without passages (closed book)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mirage.dataset import MirageDataset
from mirage.errors import SettingError
from mirage.generation import respond
from mirage.models import Run
from mirage.ranking.accuracy import Accuracy, accuracy_of

if TYPE_CHECKING:
    from mirage.generation.responses import ModelLike
    from mirage.leaderboard._settings import RankSettings

FEATURES = ("answer_match", "wrong_answer", "abstention", "answer_length")
"""Features that determine whether a response is right.

``answer_length`` is needed to distinguish a failed response from one without a short answer.
"""


def closed_book_accuracies(
    dataset: MirageDataset, models: Mapping[str, ModelLike], settings: RankSettings
) -> dict[str, Accuracy]:
    """Ask systems all queries without passages, and return the accuracy of each system by name.

    Queries that no passage answers are asked too, but do not count, because they may have an answer
    that is not in the passages.

    Args:
        dataset: Queries of the leaderboard.
        models: Ranked systems by name.
        settings: Settings of the ranking; ``closed_book`` selects the systems to ask.

    Raises:
        SettingError: If a system consists of recorded responses only, if ``closed_book`` names a
            system that is not ranked, or if no query has short answers.
    """
    if not settings.closed_book:
        return {}
    queries = {query.id: query for query in dataset if query.answerable is not False}
    if not any(query.answers for query in queries.values()):
        raise SettingError(
            f"closed_book needs queries with short answers, but {dataset.name} has none; set the "
            "field 'answers' of its queries"
        )
    systems = _closed_book_systems(models, settings)
    without_passages = MirageDataset(
        (query.model_copy(update={"passages": (), "relevant": ()}) for query in dataset),
        name=f"{dataset.name} without passages",
    )
    return {
        name: _accuracy(without_passages, queries, system, name, settings)
        for name, system in systems.items()
    }


def _closed_book_systems(
    models: Mapping[str, ModelLike], settings: RankSettings
) -> Mapping[str, ModelLike]:
    if isinstance(settings.closed_book, Mapping):
        for name in settings.closed_book:
            if name not in models:
                raise SettingError(
                    f"closed_book names {name!r}, which is not a ranked system; the ranked "
                    f"systems are {', '.join(models)}"
                )
        return settings.closed_book
    for name, system in models.items():
        if isinstance(system, Run | Mapping | str | os.PathLike):
            raise SettingError(
                f"closed_book=True runs each system again without passages, but {name!r} has only "
                "recorded responses; pass its responses without passages, as "
                "closed_book=run_without_passages"
            )
    return models


def _accuracy(
    dataset: MirageDataset,
    counted: Mapping[str, object],
    system: ModelLike,
    name: str,
    settings: RankSettings,
) -> Accuracy:
    from mirage.features import FeatureSuite

    run = respond(
        system,
        dataset,
        name,
        progress=settings.progress,
        concurrency=settings.concurrency,
        timeout=settings.timeout,
    )
    table = FeatureSuite(FEATURES).score(dataset, run, progress=settings.progress)
    return accuracy_of(dataset, table.select([id_ for id_ in dataset.query_ids if id_ in counted]))

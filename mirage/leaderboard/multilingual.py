"""Leaderboards in several languages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from mirage._base.garbage import rare_collection
from mirage._base.near_names import NearNames
from mirage.errors import (
    DatasetError,
    FeatureError,
    GenerationError,
    JudgmentError,
    MirageError,
    NeuralError,
    SettingError,
    UnknownNameError,
)
from mirage.generation import Answer, Generator
from mirage.generation.responses import ModelLike, own_name
from mirage.languages import LANGUAGES
from mirage.leaderboard._settings import (
    RankOptions,
    RankSettings,
    systems_by_name,
    with_named_closed_book,
    with_rank_options,
)
from mirage.leaderboard.leaderboard import Leaderboard
from mirage.llm.estimates import Estimate, sum_estimates
from mirage.models import Run
from mirage.ranking import MultilingualRanking, Ranking
from mirage.ranking.multilingual import check_languages

MultilingualModelLike = Answer | Generator | Mapping[str, ModelLike]
"""A function or generator that answers queries in all languages, or a mapping from language code
to system."""


class MultilingualLeaderboard(NearNames, Mapping[str, Leaderboard]):
    """A mapping from language code to leaderboard; :meth:`rank` ranks a system in all languages.

    Args:
        leaderboards: Leaderboard of each language, by language code.

    Raises:
        DatasetError: If there is no leaderboard, if ``leaderboards`` is not a mapping, or if a key
            is not the language of its leaderboard.

    Example:
        >>> from mirage import Leaderboard, MultilingualLeaderboard
        >>> boards = {code: Leaderboard.bundled(code) for code in ("en", "de")}
        >>> MultilingualLeaderboard(boards)
        MultilingualLeaderboard(languages=['en', 'de'])
    """

    def __init__(self, leaderboards: Mapping[str, Leaderboard]) -> None:
        check_languages(leaderboards, Leaderboard, lambda board: board.dataset.language)
        self._leaderboards = dict(leaderboards)
        if not self._leaderboards:
            raise DatasetError("a multilingual leaderboard needs at least one language")

    def __contains__(self, language: object) -> bool:
        return language in self._leaderboards

    def __getitem__(self, language: str) -> Leaderboard:
        if language not in self._leaderboards:
            raise UnknownNameError("language", language, self._leaderboards, "on this leaderboard")
        return self._leaderboards[language]

    def __iter__(self) -> Iterator[str]:
        return iter(self._leaderboards)

    def __len__(self) -> int:
        return len(self._leaderboards)

    def __repr__(self) -> str:
        return f"MultilingualLeaderboard(languages={list(self)})"

    @classmethod
    def bundled(cls, *, level: str = "quick") -> MultilingualLeaderboard:
        """Return :meth:`Leaderboard.bundled <mirage.Leaderboard.bundled>` for all 18 languages.

        For some languages, pass a mapping to the class, as in its example.

        Args:
            level: ``"quick"`` for queries that distinguish good systems from careless ones;
                ``"hard"`` for queries that distinguish good systems from each other.
        """
        return cls({code: Leaderboard.bundled(code, level=level) for code in LANGUAGES})

    @with_rank_options
    def rank(
        self,
        system: MultilingualModelLike,
        model: str | None = None,
        **options: Unpack[RankOptions],
    ) -> MultilingualRanking:
        """Rank one system in every language.

        A language is left out if the system fails on all queries in this language, if a feature
        fails, or if no judgment is obtained. :attr:`~mirage.MultilingualRanking.left_out` lists
        these languages.

        Args:
            system: A function or generator that answers the queries of all languages
                (``query.language`` is the language), or a mapping from every language code to a
                system as for :meth:`Leaderboard.rank <mirage.Leaderboard.rank>`.
            model: Name in the ranking. By default that of the generator or run, or ``"my-model"``.
            **options: The keyword arguments of :meth:`Leaderboard.rank <mirage.Leaderboard.rank>`.
                ``judgments`` is divided between the languages, and pairs are drawn separately in
                each. ``until_width`` and ``until_against`` apply in each language. ``out`` is a
                folder of files to which votes are appended, one per language, such as ``sw.jsonl``.
                ``judge``, ``seed``, ``progress``, ``n_jobs``, ``concurrency`` and ``timeout`` are
                the same in all languages. ``closed_book`` is ``True``, or a system of the same form
                as ``system``.

        Returns:
            The rankings by language, with the mean logits and mean ranks.

        Raises:
            DatasetError: If the mapping lacks a language, or if ``system`` is a run or file with
                responses in one language only.
            UnknownNameError: If a key of the mapping is not a language of this leaderboard.
            GenerationError: If the system fails on every query of every language.
            SettingError: If settings contradict each other, or if there are fewer judgments than
                languages.
        """
        model = own_name(system) if model is None else model
        return self.rank_many({model: system}, **with_named_closed_book(options, model))

    @with_rank_options
    @rare_collection()
    def rank_many(
        self, models: Mapping[str, MultilingualModelLike], **options: Unpack[RankOptions]
    ) -> MultilingualRanking:
        """Rank several models together in every language.

        ``judgments``, ``until_width`` and ``until_against`` apply to each model separately. The
        method raises the same errors as :meth:`rank`.

        Args:
            models: Systems by name, each as for :meth:`rank`.
            **options: The keyword arguments of :meth:`rank`: ``judge``, ``judgments``,
                ``until_width``, ``until_against``, ``out``, ``seed``, ``progress``, ``n_jobs``,
                ``concurrency``, ``timeout`` and ``closed_book``.

        Returns:
            The rankings by language, with the mean logits and mean ranks.
        """
        settings = self._settings_by_language(RankSettings(**options))
        by_language = {
            name: self._systems_by_language(model, name)
            for name, model in systems_by_name(models).items()
        }
        rankings: dict[str, Ranking] = {}
        failed: dict[str, MirageError] = {}
        for code, leaderboard in self.items():
            try:
                rankings[code] = leaderboard._rank(
                    {name: model[code] for name, model in by_language.items()}, settings[code]
                )
            except (GenerationError, FeatureError, JudgmentError, NeuralError) as error:
                failed[code] = error  # keep the results of the other languages
        if not rankings:
            raise next(iter(failed.values()))
        return MultilingualRanking(rankings, {code: str(why) for code, why in failed.items()})

    @with_rank_options
    def estimate(
        self,
        system: MultilingualModelLike,
        model: str | None = None,
        **options: Unpack[RankOptions],
    ) -> Estimate:
        """Estimate the largest number of judge calls that :meth:`rank` makes, and their cost.

        The result is the sum of :meth:`Leaderboard.estimate <mirage.Leaderboard.estimate>` over the
        languages. Both methods raise the same errors.

        Args:
            system: System to rank, as for :meth:`rank`.
            model: Name in the ranking, as for :meth:`rank`.
            **options: The keyword arguments of :meth:`rank`: ``judge``, ``judgments``,
                ``until_width``, ``until_against``, ``out``, ``seed``, ``progress``, ``n_jobs``,
                ``concurrency``, ``timeout`` and ``closed_book``.

        Returns:
            The estimated calls and cost, summed over the languages.
        """
        model = own_name(system) if model is None else model
        systems = self._systems_by_language(system, model)
        settings = self._settings_by_language(RankSettings(**options))
        return sum_estimates(
            board._estimate(systems[code], model, settings[code]) for code, board in self.items()
        )

    def _settings_by_language(self, settings: RankSettings) -> Mapping[str, RankSettings]:
        """Return the settings by language, with the judgments divided between the languages.

        If the division has a remainder, the first languages get one more judgment each.

        Raises:
            SettingError: If there are fewer judgments than languages.
        """
        judgments = settings.judgments
        each, remainder = divmod(judgments or 0, len(self))
        if judgments and not each:
            raise SettingError(
                f"judgments={judgments} is too few for {len(self)} languages, because each needs "
                "at least one; increase it, or rank in fewer languages"
            )
        by_name = settings.closed_book if isinstance(settings.closed_book, Mapping) else {}
        systems = {name: self._systems_by_language(each, name) for name, each in by_name.items()}
        return {
            code: replace(
                settings,
                closed_book={name: each[code] for name, each in systems.items()}
                or settings.closed_book,
                judgments=judgments and each + (index < remainder),
                out=None if settings.out is None else Path(settings.out) / f"{code}.jsonl",
                seed=_language_seed(code, settings.seed),
            )
            for index, code in enumerate(self)
        }

    def _systems_by_language(
        self, model: MultilingualModelLike, name: str
    ) -> Mapping[str, ModelLike]:
        """Return a mapping from language code to system.

        Raises:
            DatasetError: If a language is missing, or if the system is a run or file with responses
                in one language.
            UnknownNameError: If a key of the mapping is not a language of this leaderboard.
        """
        if isinstance(model, Mapping):
            for code in model:
                self[code]
            missing = [code for code in self if code not in model]
            if missing:
                raise DatasetError(
                    f"model {name!r} has no system for the languages {', '.join(missing)}; pass a "
                    "mapping with every language of this leaderboard"
                )
            return model
        if isinstance(model, Run) or not (callable(model) or isinstance(model, Generator)):
            raise DatasetError(
                f"model {name!r} is not a function, generator or mapping; pass a mapping from "
                "language code to a function, a Generator, a Run, a mapping from query id to text, "
                "or a path"
            )
        return dict.fromkeys(self, model)


def _language_seed(code: str, seed: int) -> int:
    """Return the random seed for drawing the pairs of a language.

    Each language has a different seed, because the questions may be translations of each other.
    Verdicts on different pairs are then more informative than verdicts on the same pairs.
    """
    return seed + int.from_bytes(code.encode())

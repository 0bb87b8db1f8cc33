"""The figures of MIRAGE-Bench (arXiv 2410.13716), and of BERGEN (arXiv 2407.01102), as plots.

Each function (extra ``report``) returns a matplotlib ``Figure``, to be saved with
``figure.savefig("ranks.pdf")``.
Languages stand under their own names, where an installed font shows them; where none does, they
stand under their English names and a :class:`~mirage.report.MissingFontWarning` says which script
is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from mirage.errors import MirageError, UnknownNameError, needing
from mirage.languages import LANGUAGES
from mirage.report._elements import label
from mirage.report.fonts import Lettering, lettering

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mirage.experiments import FewerJudgmentsRow, ImportanceRow, NewModelRow
    from mirage.experiments.bergen import GainRow, OracleRow, SystemRow
    from mirage.ranking import MultilingualRanking, Ranking

__all__ = [
    "plot_features",
    "plot_fewer_judgments",
    "plot_gains",
    "plot_importances",
    "plot_new_models",
    "plot_ranks",
    "plot_retrieval",
]


INK, SOFT, LINE, ACCENT = "#1c2128", "#6b7580", "#d9dee4", "#0b5cad"
# Okabe and Ito's colours, which colour-blind readers tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


# Features (Figure 3) ------------------------------------------------------------------------------


def plot_features(
    ranking: Ranking | MultilingualRanking, models: Sequence[str] | None = None
) -> Figure:
    """Mean features by model, a panel a feature (Figure 3).

    In one language every model has a line; in several, languages are side by side and every model
    is a dot in each.

    Args:
        ranking: with features; published rankings have none.
        models: those in colour, at most six. By default the new ones, or the best one.

    Raises:
        MirageError: no model has a feature, or more than six are to be in colour.
        UnknownNameError: a model is not in the ranking.
        MissingPackageError: matplotlib is not installed.
    """
    rankings = _by_language(ranking)
    names = list(
        dict.fromkeys(f for part in rankings.values() for entry in part for f in entry.features)
    )
    if not names:
        raise MirageError("this ranking has no features to plot: it came without them")
    chosen = _coloured(rankings, models)
    if len(rankings) == 1:
        (part,) = rankings.values()
        return _features_of_one(part, names, chosen)
    return _features_of_many(rankings, names, chosen)


def _coloured(rankings: Mapping[str, Ranking], models: Sequence[str] | None) -> dict[str, str]:
    first = next(iter(rankings.values()))
    if models is None:
        new = [entry.model for entry in first if not entry.anchor]
        models = (new if any(entry.anchor for entry in first) else [])[: len(COLOURS)]
        models = models or first.models[:1]
    if len(models) > len(COLOURS):
        raise MirageError(
            f"{len(models)} models in colour are too many to tell apart; name at most "
            f"{len(COLOURS)}"
        )
    for model in models:
        if not any(model in part for part in rankings.values()):
            raise UnknownNameError("model of this ranking", model, first.models)
    return dict(zip(models, COLOURS, strict=False))


def _features_of_one(ranking: Ranking, names: Sequence[str], chosen: Mapping[str, str]) -> Figure:
    letters = lettering([*map(label, ranking.models), *names])
    width, height = 1.6 * len(names) + 2.6, 0.24 * len(ranking) + 1.2
    with _drawing(letters, 1, len(names), width=width, height=height, sharey=True) as drawing:
        figure, panels = drawing
        places = np.arange(len(ranking))
        colours = [chosen.get(entry.model, SOFT) for entry in ranking]
        for panel, name in zip(panels, names, strict=True):
            values = [entry.features.get(name, math.nan) for entry in ranking]
            panel.hlines(places, 0, values, colors=colours, linewidth=1.2, alpha=0.6)
            panel.scatter(values, places, c=colours, s=18, zorder=3)
            panel.set_title(letters.shown(name), fontsize="small")
            panel.axvline(0, color=LINE, linewidth=1, zorder=0)
        panels[0].set_yticks(places, [letters.shown(_short(model)) for model in ranking.models])
        panels[0].invert_yaxis()
        for tick, colour in zip(panels[0].get_yticklabels(), colours, strict=True):
            tick.set_color(INK if colour == SOFT else colour)
    return figure


def _features_of_many(
    rankings: Mapping[str, Ranking], names: Sequence[str], chosen: Mapping[str, str]
) -> Figure:
    letters = lettering([*_native(rankings), *map(label, chosen), *names])
    rows = math.ceil(len(names) / 2)
    width, height = 0.36 * len(rankings) * 2 + 2, 1.7 * rows + 1.3
    with _drawing(letters, rows, 2, width=width, height=height, sharex=True) as (figure, panels):
        for panel, name in zip(panels, names, strict=False):
            for x, part in enumerate(rankings.values()):
                others = [e.features.get(name, math.nan) for e in part if e.model not in chosen]
                panel.scatter([x] * len(others), others, color=SOFT, s=9, alpha=0.45, linewidths=0)
            for model, colour in chosen.items():
                values = [
                    part[model].features.get(name, math.nan) if model in part else math.nan
                    for part in rankings.values()
                ]
                panel.scatter(range(len(values)), values, color=colour, s=26, zorder=3)
            panel.set_title(letters.shown(name), fontsize="small")
        for panel in panels[len(names) :]:
            panel.set_axis_off()
        for panel in panels[len(names) - 2 : len(names)]:
            _name_languages(panel, rankings, letters)
        _legend(figure, {letters.shown(_short(m)): colour for m, colour in chosen.items()}, True)
    return figure


# Ranks (Figure 4) ---------------------------------------------------------------------------------


def plot_ranks(ranking: MultilingualRanking) -> Figure:
    """The rank of each model in each language, best mean rank first, as a heat map (Figure 4).

    Raises:
        MirageError: the ranking is of one language.
        MissingPackageError: matplotlib is not installed.
    """
    if not isinstance(ranking, Mapping):
        raise MirageError(
            f"this compares ranks in several languages, and the ranking is in "
            f"{ranking.language!r} alone; print it, or write its report"
        )
    models = list(ranking.mean_ranks)
    letters = lettering([*_native(ranking), *map(label, models)])
    places = np.array([[part[model].rank for part in ranking.values()] for model in models])
    width, height = 0.36 * len(ranking) + 3.4, 0.27 * len(models) + 1.6
    with _drawing(letters, 1, 1, width=width, height=height) as (figure, (panel,)):
        panel.imshow(places, cmap="Blues_r", aspect="auto", vmin=1, vmax=places.max() * 1.25)
        for row, column in np.ndindex(places.shape):
            place = int(places[row, column])
            colour = "white" if place < 0.45 * places.max() else INK
            panel.text(column, row, str(place), ha="center", va="center", color=colour, fontsize=7)
        means = ranking.mean_ranks
        panel.set_yticks(
            range(len(models)), [f"{letters.shown(_short(m))}  {means[m]:.1f}" for m in models]
        )
        _name_languages(panel, ranking, letters)
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)
        panel.grid(False)
        panel.set_title("Rank by language; beside the names, the mean rank", loc="left")
    return figure


# Importances (Figure 5) ---------------------------------------------------------------------------


def plot_importances(importances: Mapping[str, float] | Iterable[ImportanceRow]) -> Figure:
    """How much each feature tells, the largest first (Figure 5).

    It is what :meth:`mirage.SurrogateRanker.importances` or
    :func:`mirage.experiments.feature_importance` gives. Of several languages, bars are the means
    and dots the languages.

    Raises:
        MirageError: there is none.
        MissingPackageError: matplotlib is not installed.
    """
    by_feature: dict[str, list[float]] = {}
    if isinstance(importances, Mapping):
        by_feature = {name: [value] for name, value in importances.items()}
    else:
        for row in importances:
            by_feature.setdefault(row.feature, []).append(row.importance)
    if not by_feature:
        raise MirageError("there is no importance to plot")
    means = {name: float(np.mean(values)) for name, values in by_feature.items()}
    names = sorted(means, key=lambda name: -means[name])
    letters = lettering(names)
    height = 0.32 * len(names) + 1.1
    with _drawing(letters, 1, 1, width=5.6, height=height) as (figure, (panel,)):
        lengths = [means[name] for name in names]
        panel.barh(range(len(names)), lengths, color=COLOURS[-1], height=0.55)
        for place, name in enumerate(names):
            if len(by_feature[name]) > 1:
                dots = by_feature[name]
                panel.scatter(dots, [place] * len(dots), color=INK, s=9, alpha=0.5, zorder=3)
        panel.set_yticks(range(len(names)), [letters.shown(name) for name in names])
        panel.invert_yaxis()
        panel.axvline(0, color=SOFT, linewidth=1)
        panel.set_xlabel("rise of the squared error on held-out models, over the logits' variance")
    return figure


# Fewer judgments (Figure 6) -----------------------------------------------------------------------


def plot_fewer_judgments(rows: Iterable[FewerJudgmentsRow]) -> Figure:
    """Tau with the exhaustive ranking, by queries judged and by pairs on each (Figure 6).

    A line a language, and over several their mean; of one, with its 95 % range over draws. Rows
    are what :func:`mirage.experiments.fewer_judgments` gives.

    Raises:
        MirageError: there is none.
        MissingPackageError: matplotlib is not installed.
    """
    rows = list(rows)
    if not rows:
        raise MirageError("there is no result to plot")
    codes = list(dict.fromkeys(row.language for row in rows))
    by_queries = [row for row in rows if row.pairs == 100]
    # All queries are judged wherever not all pairs are.
    total = {row.language: row.queries for row in rows if row.pairs < 100}
    by_pairs = [row for row in rows if row.queries == total.get(row.language)]
    letters = lettering([])
    with _drawing(letters, 1, 2, width=7.6, height=3.1, sharey=True) as (figure, panels):
        _lines(panels[0], by_queries, codes, lambda row: row.queries)
        _lines(panels[1], by_pairs, codes, lambda row: row.pairs)
        panels[0].set_xlabel("queries judged")
        panels[1].set_xlabel("pairs judged on each query, %")
        panels[0].set_ylabel("Kendall's tau")
        names = {codes[0]: ACCENT}
        if len(codes) > 1:
            names = {f"each of {len(codes)} languages": SOFT, "mean": ACCENT}
        _legend(figure, names, False)
    return figure


def _lines(
    panel: Axes,
    rows: Sequence[FewerJudgmentsRow],
    codes: Sequence[str],
    at: Callable[[FewerJudgmentsRow], float],
) -> None:
    for code in codes:
        own = sorted((row for row in rows if row.language == code), key=at)
        xs = [at(row) for row in own]
        alone = len(codes) == 1
        colour, width = (ACCENT, 2.0) if alone else (SOFT, 0.8)
        panel.plot(xs, [row.tau for row in own], color=colour, linewidth=width, marker=".")
        if alone:
            ends = [row.lower for row in own], [row.upper for row in own]
            panel.fill_between(xs, *ends, color=colour, alpha=0.15, linewidth=0)
    shared = sorted(
        set.intersection(*({at(row) for row in rows if row.language == code} for code in codes))
    )
    if len(codes) > 1:
        means = [np.mean([row.tau for row in rows if at(row) == x]) for x in shared]
        panel.plot(shared, means, color=ACCENT, linewidth=2.2, marker="o", markersize=4)


# New models (Figure 8) ----------------------------------------------------------------------------


def plot_new_models(rows: Iterable[NewModelRow]) -> Figure:
    """Predicted logits of models that nobody judged, and their judged ones (Figure 8).

    A panel a model: dots are predicted, with their 95 % intervals, and diamonds are judged. A
    panel's title has the mean over languages of tau between the two orders of all models. Rows
    are what :func:`mirage.experiments.new_models` gives.

    Raises:
        MirageError: there is none.
        MissingPackageError: matplotlib is not installed.
    """
    by_model: dict[str, dict[str, NewModelRow]] = {}
    for row in rows:
        by_model.setdefault(row.model, {})[row.language] = row
    if not by_model:
        raise MirageError("there is no result to plot")
    codes = list(dict.fromkeys(code for results in by_model.values() for code in results))
    letters = lettering([*_native(codes), *map(label, by_model)])
    count, width = len(by_model), max(0.42 * len(codes) + 1.6, 4.2)
    height = 1.75 * count + 1.3
    with _drawing(letters, count, 1, width=width, height=height, sharex=True) as (figure, panels):
        for panel, (model, results) in zip(panels, by_model.items(), strict=True):
            _predicted_and_judged(panel, codes, results)
            tau = np.mean([row.tau for row in results.values()])
            panel.set_title(f"{letters.shown(_short(model))}, tau {tau:.2f}", loc="left")
            panel.set_ylabel("logit")
        _name_languages(panels[-1], codes, letters)
        _legend(figure, {"predicted": ACCENT, "judged": COLOURS[1]}, True, markers=("o", "D"))
    return figure


def _predicted_and_judged(
    panel: Axes, codes: Sequence[str], results: Mapping[str, NewModelRow]
) -> None:
    xs = [x for x, code in enumerate(codes) if code in results]
    own = [results[codes[x]] for x in xs]
    for x, row in zip(xs, own, strict=True):
        panel.vlines(x - 0.12, row.lower, row.upper, color=ACCENT, linewidth=1.5, alpha=0.6)
    panel.scatter([x - 0.12 for x in xs], [row.logit for row in own], color=ACCENT, s=22, zorder=3)
    panel.scatter(
        [x + 0.12 for x in xs], [row.judged for row in own], color=COLOURS[1], s=22, marker="D",
        zorder=3,
    )  # fmt: skip


# Gains (Figures 3 and 5 of BERGEN) ----------------------------------------------------------------


def plot_gains(rows: Iterable[GainRow | OracleRow]) -> Figure:
    """What retrieval brings over closed book, the most first (Figures 3 and 5 of BERGEN).

    A bar a row, with its 95 % interval where it has one. Rows are what
    :func:`mirage.experiments.bergen.retrieval_gain` or
    :func:`~mirage.experiments.bergen.oracle_gain` gives.

    Raises:
        MirageError: there is none.
        MissingPackageError: matplotlib is not installed.
    """
    ordered = sorted(rows, key=lambda row: -row.gain)
    if not ordered:
        raise MirageError("there is no gain to plot")
    parts = [[row.dataset, *(str(getattr(row, key)) for key in row.keys)] for row in ordered]
    telling = [i for i in range(len(parts[0])) if len({part[i] for part in parts}) > 1] or [0]
    names = [", ".join(part[i] for i in telling if part[i]) for part in parts]
    letters = lettering(names)
    height = 0.32 * len(names) + 1.1
    with _drawing(letters, 1, 1, width=5.6, height=height) as (figure, (panel,)):
        places = range(len(names))
        panel.barh(places, [row.gain for row in ordered], color=COLOURS[-1], height=0.55)
        panel.hlines(
            places, [row.lower for row in ordered], [row.upper for row in ordered], color=INK
        )
        panel.set_yticks(places, [letters.shown(_short(name)) for name in names])
        panel.invert_yaxis()
        panel.axvline(0, color=SOFT, linewidth=1)
        panel.set_xlabel("gain over closed book")
    return figure


# Retrieval and answers (Figures 4, 6 and 7 of BERGEN) ---------------------------------------------


def plot_retrieval(rows: Iterable[SystemRow]) -> Figure:
    """The quality of answers by that of retrieval, a panel a dataset (BERGEN's Figures 4, 6 and 7).

    Generators have colours; filled dots are reranked systems. What has no number for retrieval is
    a line, dotted where it is closed book. Rows are what
    :func:`mirage.experiments.bergen.retrieval_vs_generation` gives.

    Raises:
        MirageError: no system has both numbers.
        MissingPackageError: matplotlib is not installed.
    """
    by_dataset: dict[str, list[SystemRow]] = {}
    for row in rows:
        by_dataset.setdefault(row.dataset, []).append(row)
    measured = {
        name: some
        for name, some in by_dataset.items()
        if any(not math.isnan(row.retrieval + row.answers) for row in some)
    }
    if not measured:
        raise MirageError("no system has numbers for both retrieval and answers")
    generators = list(dict.fromkeys(row.generator for some in measured.values() for row in some))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(generators)}
    letters = lettering([*measured, *generators])
    columns = min(len(measured), 3)
    lines = -(-len(measured) // columns)
    shape = {"width": 2.9 * columns + 0.6, "height": 2.7 * lines + 0.9}
    with _drawing(letters, lines, columns, **shape) as (figure, panels):
        for panel, (name, some) in zip(panels, measured.items(), strict=False):
            for row in some:
                _dot(panel, row, colours[row.generator])
            panel.set_title(letters.shown(_short(name)))
            panel.set_xlabel("retrieval")
            panel.set_ylabel("answers")
        for panel in panels[len(measured) :]:
            panel.set_visible(False)
        if len(generators) > 1:
            _legend(figure, {letters.shown(_short(g)): c for g, c in colours.items()}, dots=True)
    return figure


def _dot(panel: Axes, row: SystemRow, colour: str) -> None:
    if math.isnan(row.retrieval):
        dotted = ":" if row.retriever.casefold() in ("", "none") else "-"
        panel.axhline(row.answers, color=colour, linewidth=0.8, linestyle=dotted, alpha=0.7)
        return
    reranked = row.reranker.casefold() not in ("", "none")
    face = colour if reranked else "none"
    panel.scatter([row.retrieval], [row.answers], s=22, edgecolors=colour, facecolors=face)


# What all have in common --------------------------------------------------------------------------


def _by_language(ranking: Ranking | MultilingualRanking) -> Mapping[str, Ranking]:
    return ranking if isinstance(ranking, Mapping) else {ranking.language: ranking}


def _native(codes: Iterable[str]) -> list[str]:
    return [LANGUAGES[code].native_name if code in LANGUAGES else code for code in codes]


def _name_languages(panel: Axes, codes: Iterable[str], letters: Lettering) -> None:
    names = []
    for code in codes:
        known = LANGUAGES.get(code)
        names.append(letters.shown(known.native_name, known.name) if known else code)
    panel.set_xticks(range(len(names)), names, rotation=90)


def _short(model: str, most: int = 40) -> str:
    name = label(model)
    return name if len(name) <= most else f"{name[: most - 1]}…"


@contextmanager
def _drawing(
    letters: Lettering, rows: int, columns: int, *, width: float, height: float, **shared: Any
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure and its panels, which is laid out at the end, while the style holds."""
    with needing("matplotlib", "report"):
        import matplotlib as mpl
        from matplotlib.figure import Figure
    settings: Any = {
        "font.family": letters.families,
        "font.size": 9,
        "text.color": INK,
        "text.parse_math": False,  # a dollar sign in a name is a dollar sign
        "axes.edgecolor": LINE,
        "axes.labelcolor": SOFT,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": "medium",
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#eef1f4",
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=(width, height), layout="constrained", dpi=120)
        yield figure, list(figure.subplots(rows, columns, squeeze=False, **shared).ravel())
        figure.draw_without_rendering()  # ticks are made when they are first drawn


def _legend(
    figure: Figure, names: Mapping[str, str], dots: bool, markers: Sequence[str] = ("o",)
) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [], [], color=colour, marker=markers[i % len(markers)] if dots else "",
            linestyle="" if dots else "-", label=name,
        )
        for i, (name, colour) in enumerate(names.items())
    ]  # fmt: skip
    figure.legend(
        handles=handles, loc="outside upper center", ncols=min(len(handles), 3), frameon=False
    )

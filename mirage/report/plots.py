"""Plot the figures of MIRAGE-Bench (arXiv 2410.13716) and BERGEN (arXiv 2407.01102).

Each function returns a matplotlib ``Figure``, and needs the extra ``report``. Save the figure with
``figure.savefig("ranks.pdf")``. Languages have their native names if an installed font can display
them. Otherwise they have their English names, and a
:class:`~mirage.report.fonts.MissingFontWarning` lists the missing scripts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from mirage.errors import MirageError, UnknownNameError, needing
from mirage.languages import ALL_LANGUAGES
from mirage.report.elements import label
from mirage.report.fonts import Lettering, lettering

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mirage.papers.bergen import GainRow, OracleRow, SystemRow
    from mirage.papers.results import FewerJudgmentsRow, ImportanceRow, NewModelRow
    from mirage.ranking import MultilingualRanking, Ranking

INK, SOFT, LINE, ACCENT = "#1c2128", "#6b7580", "#d9dee4", "#0b5cad"
# Okabe and Ito's colours, which colour-blind readers can distinguish.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


# Features (Figure 3) ------------------------------------------------------------------------------


def plot_features(
    ranking: Ranking | MultilingualRanking, models: Sequence[str] | None = None
) -> Figure:
    """Plot the mean of each feature for each model, with one panel per feature (Figure 3).

    With one language, each model is a line. With several languages, the languages are side by
    side, and each model is a dot in every language.

    Args:
        ranking: Ranking with features. Published rankings have none.
        models: Models to highlight in colour, at most six. By default the new models, or the best
            one if there are none.

    Returns:
        The matplotlib figure, which is neither shown nor saved.

    Raises:
        MirageError: If no model has features, or if ``models`` has more than six names.
        UnknownNameError: If a model is not in the ranking.
        MissingPackageError: If matplotlib is not installed.
    """
    rankings = _by_language(ranking)
    names = list(
        dict.fromkeys(f for part in rankings.values() for entry in part for f in entry.features)
    )
    if not names:
        raise MirageError(
            "this ranking has no features to plot; use a ranking that Leaderboard.rank returns"
        )
    colours = _model_colours(rankings, models)
    if len(rankings) == 1:
        (part,) = rankings.values()
        return _features_of_one(part, names, colours)
    return _features_of_many(rankings, names, colours)


def _model_colours(rankings: Mapping[str, Ranking], models: Sequence[str] | None) -> dict[str, str]:
    first = next(iter(rankings.values()))
    if models is None:
        new = [entry.model for entry in first if not entry.anchor]
        models = (new if any(entry.anchor for entry in first) else [])[: len(COLOURS)]
        models = models or first.models[:1]
    if len(models) > len(COLOURS):
        raise MirageError(
            f"models must have at most {len(COLOURS)} names, one per colour, got {len(models)}"
        )
    for model in models:
        if not any(model in part for part in rankings.values()):
            raise UnknownNameError("model", model, first.models, "in this ranking")
    return dict(zip(models, COLOURS, strict=False))


def _features_of_one(
    ranking: Ranking, names: Sequence[str], model_colours: Mapping[str, str]
) -> Figure:
    letters = lettering([*map(label, ranking.models), *names])
    width, height = 1.6 * len(names) + 2.6, 0.24 * len(ranking) + 1.2
    with _drawing(letters, 1, len(names), width=width, height=height, sharey=True) as drawing:
        figure, panels = drawing
        positions = np.arange(len(ranking))
        colours = [model_colours.get(entry.model, SOFT) for entry in ranking]
        for panel, name in zip(panels, names, strict=True):
            values = [entry.features.get(name, math.nan) for entry in ranking]
            panel.hlines(positions, 0, values, colors=colours, linewidth=1.2, alpha=0.6)
            panel.scatter(values, positions, c=colours, s=18, zorder=3)
            panel.set_title(letters.shown(name), fontsize="small")
            panel.axvline(0, color=LINE, linewidth=1, zorder=0)
        panels[0].set_yticks(positions, [letters.shown(_short(model)) for model in ranking.models])
        panels[0].invert_yaxis()
        for tick, colour in zip(panels[0].get_yticklabels(), colours, strict=True):
            tick.set_color(INK if colour == SOFT else colour)
    return figure


def _features_of_many(
    rankings: Mapping[str, Ranking], names: Sequence[str], model_colours: Mapping[str, str]
) -> Figure:
    letters = lettering([*_native(rankings), *map(label, model_colours), *names])
    rows = math.ceil(len(names) / 2)
    width, height = 0.36 * len(rankings) * 2 + 2, 1.7 * rows + 1.3
    with _drawing(letters, rows, 2, width=width, height=height, sharex=True) as (figure, panels):
        for panel, name in zip(panels, names, strict=False):
            for x, part in enumerate(rankings.values()):
                rest = [
                    entry.features.get(name, math.nan)
                    for entry in part
                    if entry.model not in model_colours
                ]
                panel.scatter([x] * len(rest), rest, color=SOFT, s=9, alpha=0.45, linewidths=0)
            for model, colour in model_colours.items():
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
        _legend(
            figure, {letters.shown(_short(m)): colour for m, colour in model_colours.items()}, True
        )
    return figure


# Rankings (Figure 4) ------------------------------------------------------------------------------


def plot_ranking(ranking: Ranking | MultilingualRanking) -> Figure:
    """Plot the logits of a ranking, or the ranks if the ranking has several languages.

    Args:
        ranking: Ranking in one language or in several.

    Returns:
        The matplotlib figure, which is neither shown nor saved.

    Raises:
        MissingPackageError: If matplotlib is not installed.
    """
    return _ranks(ranking) if isinstance(ranking, Mapping) else _logits(ranking)


def _logits(ranking: Ranking) -> Figure:
    """Plot the logit of each model with its interval, or the ranks if no logits were published.

    The new models are in colour, as in the report.
    """
    logits = [entry.logit for entry in ranking]
    ranks_only = all(map(math.isnan, logits))
    values = [-entry.rank for entry in ranking] if ranks_only else logits
    letters = lettering([*map(label, ranking.models), label(ranking.title)])
    with _drawing(letters, 1, 1, width=7, height=0.27 * len(ranking) + 1.2) as (figure, (panel,)):
        for row, (entry, value) in enumerate(zip(ranking, values, strict=True)):
            colour = SOFT if entry.anchor else ACCENT
            panel.hlines(row, *entry.interval, colors=colour, linewidth=1.6)
            panel.scatter([value], [row], c=colour, s=22, zorder=3)
        panel.set_yticks(
            range(len(ranking)),
            [f"{letters.shown(_short(entry.model))}  {entry.rank}" for entry in ranking],
        )
        panel.invert_yaxis()
        panel.set_xlabel(
            "rank, best on the right"
            if ranks_only
            else f"logit, with the {100 * ranking.level:g} % interval"
        )
        panel.set_title(letters.shown(label(ranking.title)), loc="left")
    return figure


def _ranks(ranking: MultilingualRanking) -> Figure:
    """Plot the rank of each model in each language as a heat map (Figure 4)."""
    models = list(ranking.mean_ranks)
    letters = lettering([*_native(ranking), *map(label, models)])
    ranks = np.array([[part[model].rank for part in ranking.values()] for model in models])
    width, height = max(5.5, 0.36 * len(ranking) + 3.4), 0.27 * len(models) + 1.6
    with _drawing(letters, 1, 1, width=width, height=height) as (figure, (panel,)):
        panel.imshow(ranks, cmap="Blues_r", aspect="auto", vmin=1, vmax=ranks.max() * 1.25)
        for row, column in np.ndindex(ranks.shape):
            rank = int(ranks[row, column])
            colour = "white" if rank < 0.45 * ranks.max() else INK  # readable on dark cells
            panel.text(column, row, str(rank), ha="center", va="center", color=colour, fontsize=7)
        means = ranking.mean_ranks
        panel.set_yticks(
            range(len(models)), [f"{letters.shown(_short(m))}  {means[m]:.1f}" for m in models]
        )
        _name_languages(panel, ranking, letters)
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)
        panel.grid(False)
        # The title may begin at the edge of the figure and have two lines, so that it fits.
        figure.suptitle(
            "Rank by language,\nwith the mean rank beside each name",
            x=0.01,
            ha="left",
            fontsize="medium",
        )
    return figure


# Importances (Figure 5) ---------------------------------------------------------------------------


def plot_importances(importances: Mapping[str, float] | Iterable[ImportanceRow]) -> Figure:
    """Plot the importance of each feature, largest first (Figure 5).

    With several languages, each bar is a mean over the languages, and each dot is one language.

    Args:
        importances: Result of :meth:`mirage.SurrogateRanker.importances` or
            :func:`mirage.papers.feature_importance`.

    Returns:
        The matplotlib figure, which is neither shown nor saved.

    Raises:
        MirageError: If ``importances`` is empty.
        MissingPackageError: If matplotlib is not installed.
    """
    by_feature: dict[str, list[float]] = {}
    if isinstance(importances, Mapping):
        by_feature = {name: [value] for name, value in importances.items()}
    else:
        for row in importances:
            by_feature.setdefault(row.feature, []).append(row.importance)
    if not by_feature:
        raise MirageError(
            "importances is empty, so there is nothing to plot; pass at least one feature"
        )
    means = {name: float(np.mean(values)) for name, values in by_feature.items()}
    names = sorted(means, key=lambda name: -means[name])
    letters = lettering(names)
    height = 0.32 * len(names) + 1.1
    with _drawing(letters, 1, 1, width=5.6, height=height) as (figure, (panel,)):
        lengths = [means[name] for name in names]
        panel.barh(range(len(names)), lengths, color=COLOURS[-1], height=0.55)
        for y, name in enumerate(names):
            if len(by_feature[name]) > 1:
                dots = by_feature[name]
                panel.scatter(dots, [y] * len(dots), color=INK, s=9, alpha=0.5, zorder=3)
        panel.set_yticks(range(len(names)), [letters.shown(name) for name in names])
        panel.invert_yaxis()
        panel.axvline(0, color=SOFT, linewidth=1)
        panel.set_xlabel("rise of the squared error on held-out models, over the logits' variance")
    return figure


# Fewer judgments (Figure 6) -----------------------------------------------------------------------


def plot_fewer_judgments(rows: Iterable[FewerJudgmentsRow]) -> Figure:
    """Plot how well rankings from fewer judgments agree with the exhaustive ranking (Figure 6).

    The exhaustive ranking uses all judgments, and the agreement is Kendall's tau. In one panel, the
    number of judged queries varies; in the other, the percentage of judged pairs per query. Each
    language is a line. With a single language, the 95 % range over random draws is shaded. With
    several languages, one more line shows their mean.

    Args:
        rows: Result of :func:`mirage.papers.fewer_judgments`.

    Returns:
        The matplotlib figure, which is neither shown nor saved.

    Raises:
        MirageError: If ``rows`` is empty.
        MissingPackageError: If matplotlib is not installed.
    """
    rows = list(rows)
    if not rows:
        raise MirageError("rows is empty, so there is nothing to plot; pass at least one row")
    codes = list(dict.fromkeys(row.language for row in rows))
    by_queries = [row for row in rows if row.pairs == 100]
    # Rows with fewer than all pairs judge all queries, so they give the number of queries.
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
        ordered = sorted((row for row in rows if row.language == code), key=at)
        xs = [at(row) for row in ordered]
        alone = len(codes) == 1
        colour, width = (ACCENT, 2.0) if alone else (SOFT, 0.8)
        panel.plot(xs, [row.tau for row in ordered], color=colour, linewidth=width, marker=".")
        if alone:
            ends = [row.lower for row in ordered], [row.upper for row in ordered]
            panel.fill_between(xs, *ends, color=colour, alpha=0.15, linewidth=0)
    shared = sorted(
        set.intersection(*({at(row) for row in rows if row.language == code} for code in codes))
    )
    if len(codes) > 1:
        means = [np.mean([row.tau for row in rows if at(row) == x]) for x in shared]
        panel.plot(shared, means, color=ACCENT, linewidth=2.2, marker="o", markersize=4)


# New models (Figure 8) ----------------------------------------------------------------------------


def plot_new_models(rows: Iterable[NewModelRow]) -> Figure:
    """Plot predicted logits of held-out models beside their logits from judgments (Figure 8).

    Each model has a panel. Dots are predictions with their 95 % intervals, and diamonds are logits
    from judgments. The title of a panel shows Kendall's tau between the predicted and the judged
    order of all models, averaged over languages.

    Args:
        rows: Result of :func:`mirage.papers.new_models`.

    Returns:
        The matplotlib figure, which is neither shown nor saved.

    Raises:
        MirageError: If ``rows`` is empty.
        MissingPackageError: If matplotlib is not installed.
    """
    by_model: dict[str, dict[str, NewModelRow]] = {}
    for row in rows:
        by_model.setdefault(row.model, {})[row.language] = row
    if not by_model:
        raise MirageError("rows is empty, so there is nothing to plot; pass at least one row")
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
    rows = [results[codes[x]] for x in xs]
    for x, row in zip(xs, rows, strict=True):
        panel.vlines(x - 0.12, row.lower, row.upper, color=ACCENT, linewidth=1.5, alpha=0.6)
    panel.scatter([x - 0.12 for x in xs], [row.logit for row in rows], color=ACCENT, s=22, zorder=3)
    panel.scatter(
        [x + 0.12 for x in xs], [row.judged for row in rows], color=COLOURS[1], s=22, marker="D",
        zorder=3,
    )  # fmt: skip


# Gains (Figures 3 and 5 of BERGEN) ----------------------------------------------------------------


def plot_gains(rows: Iterable[GainRow | OracleRow]) -> Figure:
    """Plot the gains of retrieval over closed book, largest first (Figures 3 and 5 of BERGEN).

    Closed book means that the model answers without passages. Each row is a bar, with its 95 %
    interval if it has one.

    Args:
        rows: Result of :func:`mirage.papers.bergen.retrieval_gain` or
            :func:`~mirage.papers.bergen.oracle_gain`.

    Returns:
        The matplotlib figure, which is neither shown nor saved.

    Raises:
        MirageError: If ``rows`` is empty.
        MissingPackageError: If matplotlib is not installed.
    """
    ordered = sorted(rows, key=lambda row: -row.gain)
    if not ordered:
        raise MirageError("rows is empty, so there is nothing to plot; pass at least one row")
    parts = [[row.dataset, *(str(getattr(row, key)) for key in row.keys)] for row in ordered]
    # Bars are named by the settings in which they differ.
    differing = [i for i in range(len(parts[0])) if len({part[i] for part in parts}) > 1] or [0]
    names = [", ".join(part[i] for i in differing if part[i]) for part in parts]
    letters = lettering(names)
    height = 0.32 * len(names) + 1.1
    with _drawing(letters, 1, 1, width=5.6, height=height) as (figure, (panel,)):
        positions = range(len(names))
        panel.barh(positions, [row.gain for row in ordered], color=COLOURS[-1], height=0.55)
        panel.hlines(
            positions, [row.lower for row in ordered], [row.upper for row in ordered], color=INK
        )
        panel.set_yticks(positions, [letters.shown(_short(name)) for name in names])
        panel.invert_yaxis()
        panel.axvline(0, color=SOFT, linewidth=1)
        panel.set_xlabel("gain over closed book")
    return figure


# Retrieval and answers (Figures 4, 6 and 7 of BERGEN) ---------------------------------------------


def plot_retrieval(rows: Iterable[SystemRow]) -> Figure:
    """Plot the quality of answers against that of retrieval (BERGEN's Figures 4, 6 and 7).

    Each dataset has a panel, and each generator (the LLM of a system) has a colour. Each dot is a
    system; filled dots are systems with a reranker. A system without a retrieval score is a
    horizontal line, which is dotted if the system answers without passages (closed book).

    Args:
        rows: Result of :func:`mirage.papers.bergen.retrieval_vs_generation`.

    Returns:
        The matplotlib figure, which is neither shown nor saved.

    Raises:
        MirageError: If no system has scores for both retrieval and answers.
        MissingPackageError: If matplotlib is not installed.
    """
    by_dataset: dict[str, list[SystemRow]] = {}
    for row in rows:
        by_dataset.setdefault(row.dataset, []).append(row)
    measured = {
        name: systems
        for name, systems in by_dataset.items()
        if any(not math.isnan(row.retrieval + row.answers) for row in systems)
    }
    if not measured:
        raise MirageError(
            "no system has scores for both retrieval and answers, so there is nothing to plot; "
            "pass at least one system with both"
        )
    generators = list(
        dict.fromkeys(row.generator for systems in measured.values() for row in systems)
    )
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(generators)}
    letters = lettering([*measured, *generators])
    columns = min(len(measured), 3)
    lines = -(-len(measured) // columns)
    shape = {"width": 2.9 * columns + 0.6, "height": 2.7 * lines + 0.9}
    with _drawing(letters, lines, columns, **shape) as (figure, panels):
        for panel, (name, systems) in zip(panels, measured.items(), strict=False):
            for row in systems:
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
        style = ":" if row.retriever.casefold() in ("", "none") else "-"
        panel.axhline(row.answers, color=colour, linewidth=0.8, linestyle=style, alpha=0.7)
        return
    reranked = row.reranker.casefold() not in ("", "none")
    face = colour if reranked else "none"
    panel.scatter([row.retrieval], [row.answers], s=22, edgecolors=colour, facecolors=face)


# Common parts --------------------------------------------------------------------------


def _by_language(ranking: Ranking | MultilingualRanking) -> Mapping[str, Ranking]:
    return ranking if isinstance(ranking, Mapping) else {ranking.language: ranking}


def _native(codes: Iterable[str]) -> list[str]:
    return [ALL_LANGUAGES[code].native_name if code in ALL_LANGUAGES else code for code in codes]


def _name_languages(panel: Axes, codes: Iterable[str], letters: Lettering) -> None:
    names = []
    for code in codes:
        entry = ALL_LANGUAGES.get(code)
        names.append(letters.shown(entry.native_name, entry.name) if entry else code)
    panel.set_xticks(range(len(names)), names, rotation=90)


def _short(model: str, most: int = 40) -> str:
    name = label(model)
    return name if len(name) <= most else f"{name[: most - 1]}…"


@contextmanager
def _drawing(
    letters: Lettering, rows: int, columns: int, *, width: float, height: float, **shared: Any
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Context manager that yields a new figure and its panels (axes), and applies the style.

    The layout is computed at the end of the ``with`` block, while the style still applies.

    Args:
        letters: Fonts for the texts of the figure.
        rows: Number of rows of panels.
        columns: Number of columns of panels.
        width: Width of the figure in inches.
        height: Height of the figure in inches.
        **shared: Further arguments of ``Figure.subplots``.
    """
    with needing("matplotlib"):
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

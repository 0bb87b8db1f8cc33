"""Tests of the plots: every number is plotted, and every script has a font or a warning."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rankings import ANCHORS, FEATURES, ranking

from mirage import Leaderboard, MirageError, MultilingualRanking
from mirage.errors import UnknownNameError
from mirage.languages import LANGUAGES
from mirage.papers import bergen
from mirage.papers.results import FewerJudgmentsRow, ImportanceRow, NewModelRow
from mirage.report import fonts

pytest.importorskip("matplotlib", reason="the extra report is not installed: matplotlib")

from mirage.report import (
    plot_features,
    plot_fewer_judgments,
    plot_gains,
    plot_importances,
    plot_new_models,
    plot_retrieval,
)
from mirage.report.fonts import MissingFontWarning

LATIN = ("de", "en", "fi", "sw")


def published_ranking(codes: Any = LATIN) -> MultilingualRanking:
    return MultilingualRanking({code: Leaderboard.published(code) for code in codes})


def texts_of(figure: Any) -> list[str]:
    """Return all texts of a figure that are not empty."""
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_a_ranking_in_one_language_is_plotted_with_its_intervals() -> None:
    sample_ranking = Leaderboard.published("sw")
    (panel,) = sample_ranking.plot().axes
    lines, dots = panel.collections[::2], panel.collections[1::2]
    assert [dot.get_offsets()[0][0] for dot in dots] == [entry.logit for entry in sample_ranking]
    ends = [tuple(line.get_segments()[0][:, 0]) for line in lines]
    assert ends == [entry.interval for entry in sample_ranking]
    assert any(word.startswith("gpt-4o-azure") for word in texts_of(panel.figure))


def test_a_ranking_without_logits_is_plotted_by_its_ranks() -> None:
    sample_ranking = Leaderboard.published("yo")
    (panel,) = sample_ranking.plot().axes
    dots = panel.collections[1::2]
    assert [-dot.get_offsets()[0][0] for dot in dots] == [entry.rank for entry in sample_ranking]


def test_ranks_of_all_models_in_all_languages() -> None:
    sample_ranking = published_ranking()
    figure = sample_ranking.plot()
    (panel,) = figure.axes
    ranks = panel.images[0].get_array()
    assert ranks.shape == (19, 4)
    for row, model in enumerate(sample_ranking.mean_ranks):
        for column, code in enumerate(sample_ranking):
            assert ranks[row, column] == sample_ranking[code][model].rank
    assert {"Deutsch", "Kiswahili"} <= set(texts_of(figure))
    assert any(word.startswith("gpt-4o-azure") for word in texts_of(figure))


def test_features_of_one_language_have_a_line_for_each_model() -> None:
    sample_ranking = ranking("en")
    figure = plot_features(sample_ranking)
    assert len(figure.axes) == len(FEATURES)
    for panel, name in zip(figure.axes, FEATURES, strict=True):
        (dots,) = panel.collections[1:]
        plotted = dots.get_offsets()[:, 0].tolist()
        assert plotted == [sample_ranking[model].features[name] for model in sample_ranking.models]
    assert {*ANCHORS, "mine", *FEATURES} <= set(texts_of(figure))


def test_features_of_several_languages_have_a_dot_for_each_model() -> None:
    sample_ranking = MultilingualRanking({code: ranking(code) for code in ("ar", "en")})
    figure = plot_features(sample_ranking, models=["mine"])
    dots = sum(len(collection.get_offsets()) for collection in figure.axes[0].collections)
    assert dots == 8 * 2
    assert "mine" in texts_of(figure)
    with pytest.raises(UnknownNameError, match="did you mean 'mine'"):
        plot_features(sample_ranking, models=["mime"])
    with pytest.raises(MirageError, match="at most 6 names, one per colour, got 7"):
        plot_features(sample_ranking, models=list(sample_ranking.mean_ranks)[:7])


def test_published_rankings_have_no_features() -> None:
    with pytest.raises(MirageError, match="no features to plot"):
        plot_features(published_ranking())


def test_importances_of_one_surrogate_and_of_several_languages() -> None:
    figure = plot_importances({"b": -0.1, "a": 0.5})
    assert [bar.get_width() for bar in figure.axes[0].patches] == [0.5, -0.1]
    rows = [ImportanceRow(code, "f", value) for code, value in (("sw", 0.2), ("en", 0.4))]
    figure = plot_importances(rows)
    assert [bar.get_width() for bar in figure.axes[0].patches] == [pytest.approx(0.3)]
    assert figure.axes[0].collections[0].get_offsets()[:, 0].tolist() == [0.2, 0.4]
    with pytest.raises(MirageError, match="importances is empty"):
        plot_importances({})


def fewer_judgments_rows(code: str, best: float) -> Iterator[FewerJudgmentsRow]:
    for queries, pairs in ((10, 100), (20, 100), (20, 25), (20, 50)):
        tau = best - 1 / (queries * pairs)
        yield FewerJudgmentsRow(code, queries, pairs, 5.0, tau, tau - 0.1, tau + 0.01)


def test_fewer_judgments_have_a_line_a_language_and_their_mean() -> None:
    figure = plot_fewer_judgments(
        [*fewer_judgments_rows("sw", 0.9), *fewer_judgments_rows("en", 0.7)]
    )
    for panel, xs in zip(figure.axes, ([10, 20], [25, 50, 100]), strict=True):
        lines = [line for line in panel.lines if len(line.get_xdata()) == len(xs)]
        assert [list(line.get_xdata()) for line in lines] == [xs] * 3
        first, second, mean = (list(line.get_ydata()) for line in lines)
        assert mean == [pytest.approx((a + b) / 2) for a, b in zip(first, second, strict=True)]
    alone = plot_fewer_judgments(fewer_judgments_rows("sw", 0.9))
    assert len(alone.axes[0].collections) == 1  # the range over draws
    with pytest.raises(MirageError, match="rows is empty"):
        plot_fewer_judgments([])


def test_new_models_have_predicted_and_judged_logits() -> None:
    rows = [
        NewModelRow(code, model, 1, 2, 0.5, -1.0, 2.0, 0.25, 0.9)
        for model in ("x", "y")
        for code in ("sw", "en")
    ]
    figure = plot_new_models(rows)
    assert len(figure.axes) == 2
    plotted = [
        collection.get_offsets()[:, 1].tolist() for collection in figure.axes[0].collections[2:]
    ]
    assert plotted == [[0.5, 0.5], [0.25, 0.25]]
    assert "x, tau 0.90" in texts_of(figure)
    with pytest.raises(MirageError, match="rows is empty"):
        plot_new_models([])


def test_a_missing_number_leaves_a_gap_and_a_name_is_no_formula(tmp_path: Path) -> None:
    sample_ranking = ranking("en", ["$x^2$", "a\n\u202eb"], evidence=False)
    entry = sample_ranking["$x^2$"]
    assert isinstance(entry.features, dict)
    entry.features[FEATURES[0]] = math.nan
    figure = plot_features(sample_ranking)
    assert {"$x^2$", r"a \u202eb"} <= set(texts_of(figure))
    figure.savefig(tmp_path / "features.png")
    figure.savefig(tmp_path / "features.svg")


# Fonts --------------------------------------------------------------------------------------------


def test_without_a_font_languages_have_english_names_and_a_warning_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fonts, "CANDIDATES", ())
    with pytest.warns(MissingFontWarning, match="Bengali, CJK, Devanagari, .*Hangul.*Thai.*noto"):
        figure = published_ranking(LANGUAGES).plot()
    texts = texts_of(figure)
    assert {"Bengali", "Hindi", "Thai", "Telugu", "Chinese", "Korean", "Japanese"} <= set(texts)
    assert {"Deutsch", "русский", "العربية"} <= set(texts)  # matplotlib's own font has these


def test_with_fonts_languages_have_their_own_names() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = published_ranking(LANGUAGES).plot()
    if caught:
        pytest.skip(f"fonts are missing here: {caught[0].message}")
    assert {entry.native_name for entry in LANGUAGES.values()} <= set(texts_of(figure))


def test_a_name_keeps_the_characters_that_a_font_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "CANDIDATES", ())
    with pytest.warns(MissingFontWarning, match="Thai"):
        letters = fonts.lettering(["โม a"])
    assert letters.shown("โม a") == "\ufffd\ufffd a"
    assert letters.shown("โม a", "else") == "else"
    assert letters.shown("b") == "b"


def test_gains_are_bars_and_systems_are_dots() -> None:
    gains = bergen.retrieval_gain(bergen.published(), retriever="SPLADE-v3", reranker="DeBERTa-v3")
    figure = plot_gains(gains)
    (panel,) = figure.axes
    assert [bar.get_width() for bar in panel.patches] == [row.gain for row in gains]
    assert [text.get_text() for text in panel.get_yticklabels()] == [row.dataset for row in gains]
    rows = bergen.retrieval_vs_generation(bergen.published())
    figure = plot_retrieval(rows)
    visible_panels = [panel for panel in figure.axes if panel.get_visible()]
    assert [panel.get_title() for panel in visible_panels] == [
        "KILT ELI5", "KILT HotpotQA", "KILT NQ", "KILT TriviaQA", "KILT Wow",
    ]  # fmt: skip
    assert [len(panel.collections) for panel in visible_panels] == [36] * 5
    assert [len(panel.lines) for panel in visible_panels] == [12] * 5  # closed book, and oracle
    assert "SOLAR-10.7B" in texts_of(figure)
    for plot in (plot_gains, plot_retrieval):
        with pytest.raises(MirageError):
            plot([])

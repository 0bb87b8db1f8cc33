"""Rankings: order, confidence, comparison, and every way of showing them."""

from __future__ import annotations

import html.parser
import json
import math
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from markdown_it import MarkdownIt
from profiles import examples

from mirage.errors import DatasetError, MirageError, UnknownNameError
from mirage.leaderboard import Leaderboard, MultilingualLeaderboard
from mirage.ranking import Entry, MultilingualRanking, Ranking
from mirage.ranking._display import _comparison_notes
from mirage.ranking.accuracy import Accuracy
from mirage.report._page import render
from mirage.statistics.bootstrap import NO_INTERVAL
from mirage.statistics.ranks import ranks

NAN = math.nan

HARD_NAMES = (
    "<script>alert('x')</script>",
    "日本語の検索拡張生成システムその一とその二およびその三",
    "نموذج الإجابة العربي 2",
    "भारतीय-भाषा-मॉडल",
    "ระบบตอบคำถามภาษาไทยรุ่นใหม่ล่าสุดและดีที่สุด",
    "meta-llama/Meta-Llama-3-70B-Instruct-long",
    "a|b*c_d`e\\f[g](h)",
    "two\nlines \x1b[31mred\u202eback",
)


def ranking(
    logits: Sequence[float],
    names: Sequence[str] = "abcdefgh",
    draws: dict[str, Any] | None = None,
    language: str = "sw",
    **more: Any,
) -> Ranking:
    places = ranks(np.array(logits)).tolist()
    entries = [
        Entry(rank, name, logit, (logit - 0.5, logit + 0.25), (1, len(logits)))
        for rank, name, logit in zip(places, names, logits, strict=False)
    ]
    return Ranking(entries, language=language, title="maswali", draws=draws, **more)


def full() -> Ranking:
    """Return a ranking with anchors, a user's model, failures, and a missing value."""
    failures = {"q03": "TimeoutError: too slow", "q07": "KeyError: '<b>'"}
    user_entry = Entry(
        2, "mine", 0.5, (-1.0, 2.0), (1, 3), {"f": 0.25, "g": NAN}, False, 12, failures
    )
    anchors = [
        Entry(3, "anchor/bad", -1.5, (-2.0, -1.0), (2, 3), {"f": 0.0}, True),
        Entry(1, "anchor/good", 1.0, (0.5, 1.5), (1, 2), {"f": 1.0}, True),
    ]
    return Ranking([*anchors, user_entry], language="sw", title="maswali", notes=["A note."])


def test_a_model_that_is_like_no_other_is_marked() -> None:
    words = "high citation recall, low overlap"
    marked = Ranking([replace(entry, unfamiliar=words) for entry in full()], language="sw")
    assert "(?) mine" in marked.to_text()
    assert "**(?) mine**" in marked.to_markdown()
    assert "(?)" not in full().to_text()


def few_answers(answered: int, failed: int, language: str = "sw") -> Ranking:
    user_entry = replace(
        full()["mine"], answered=answered, failures={f"q{n:02}": "no reason" for n in range(failed)}
    )
    entries = [full()["anchor/good"], user_entry]
    return Ranking(entries, language=language, notes=["A note."])


def test_many_failures_give_a_warning() -> None:
    warning = "Warning: mine answered only 3 of 14 queries"
    table = few_answers(3, 11)
    assert warning in " ".join(table.to_text().split())
    assert warning in table.to_markdown()
    assert warning in table._repr_html_()
    assert json.loads(table.to_json())["notes"][0].startswith(warning)
    languages = MultilingualRanking({"sw": table, "en": few_answers(14, 0, "en")})
    assert f"sw: {warning}" in " ".join(languages.to_text().split())
    assert "Warning" not in few_answers(4, 1).to_text()  # a fifth
    assert "Warning" in few_answers(7, 2).to_text()
    assert full().unanswered_notes == ()


# Order and lookup ---------------------------------------------------------------------------------


def test_best_first_whatever_the_order_given() -> None:
    ordered = ranking([-1, 2, 0.5])
    assert ordered.models == ("b", "c", "a")
    assert [entry.rank for entry in ordered] == [1, 2, 3]
    assert len(ordered) == 3
    assert ordered["c"].logit == 0.5
    assert "a" in ordered
    assert "z" not in ordered
    with pytest.raises(UnknownNameError, match="did you mean 'mine'"):
        full()["mime"]


def test_one_model_twice_or_none_is_an_error() -> None:
    with pytest.raises(MirageError, match="'a' is in the ranking twice"):
        ranking([1, 2], "aa")
    with pytest.raises(MirageError, match="at least one model"):
        Ranking([], language="sw")


# Confidence ---------------------------------------------------------------------------------------


def test_p_better_by_hand() -> None:
    draws = {"a": np.array([1.0, 0.0, 2.0, 0.0]), "b": np.array([0.0, 1.0, 2.0, -1.0])}
    paired = ranking([1, 0], draws=draws)
    assert paired.p_better("a", "b") == 2.5 / 4  # two wins and a tie in four draws
    assert paired.p_better("b", "a") == 1.5 / 4
    assert paired.p_better("a", "a") == 0.5
    with pytest.raises(UnknownNameError):
        paired.p_better("a", "z")


@given(arrays(np.float64, (2, 30), elements=st.floats(-5, 5)))
@settings(max_examples=examples(100), deadline=None)
def test_one_of_two_is_better(draws: Any) -> None:
    paired = ranking([1, 0], draws=dict(zip("ab", draws, strict=True)))
    there, back = paired.p_better("a", "b"), paired.p_better("b", "a")
    assert 0 <= there <= 1
    assert there + back == pytest.approx(1)


def test_without_draws_intervals_decide() -> None:
    # Both intervals are 0.75 long: sd 0.191 each, 0.271 of the difference, z = 1 / 0.271 = 3.696.
    assert ranking([1, 0]).p_better("a", "b") == pytest.approx(0.99989, abs=1e-5)
    assert ranking([1, 1]).p_better("a", "b") == 0.5
    certain = [Entry(i + 1, name, -i, (-i, -i)) for i, name in enumerate("ab")]
    assert Ranking(certain, language="sw").p_better("a", "b") == 1


def test_ranks_alone_give_no_confidence() -> None:
    bare = [Entry(i, name, NAN, (NAN, NAN)) for i, name in enumerate("ab", 1)]
    with pytest.raises(MirageError, match="only ranks"):
        Ranking(bare, language="sw", title="maswali").p_better("a", "b")


def test_kendall_tau_by_hand() -> None:
    ours = ranking([4, 3, 2, 1])
    assert ours.kendall_tau(ours) == 1
    assert ours.kendall_tau(ranking([1, 2, 3, 4])) == -1
    # One of six pairs is the other way round.
    assert ours.kendall_tau({"a": 3, "b": 4, "c": 2, "d": 1}) == pytest.approx(4 / 6)
    # tau-b with a tie on one side: 5 of 6 pairs agree, over sqrt(6 * 5).
    assert ours.kendall_tau({"a": 4, "b": 4, "c": 2, "d": 1}) == pytest.approx(5 / math.sqrt(30))
    # Only a, c and d are in both.
    assert ours.kendall_tau(ranking([9, 5, 7], "axc" + "d")) == 1
    assert math.isnan(ours.kendall_tau({"a": 1, "b": 1}))


def test_kendall_tau_needs_two_shared_models_with_numbers() -> None:
    with pytest.raises(MirageError, match="got 1"):
        ranking([2, 1]).kendall_tau({"a": 1.0, "z": 2.0})
    with pytest.raises(MirageError, match="the value of model 'b' in `other` is NaN"):
        ranking([2, 1]).kendall_tau({"a": 1.0, "b": NAN})


# Plain text ---------------------------------------------------------------------------------------


def columns(text: str) -> int:
    """Width in a terminal by Unicode's own tables, without rich."""
    return sum(
        0
        if unicodedata.category(c) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(c) in "WF"
        else 1
        for c in text
    )


def test_text_by_hand() -> None:
    assert str(full()) == "\n".join(
        [
            "maswali",
            "   rank  model        logit   95 % interval  rank interval",
            "      1  anchor/good   1.00    [0.50, 1.50]            1-2",
            "*     2  mine          0.50   [-1.00, 2.00]            1-3",
            "      3  anchor/bad   -1.50  [-2.00, -1.00]            2-3",
            "mine: 2 of 14 queries failed: q03 (TimeoutError: too slow), q07 (KeyError:",
            "  '<b>')",
            "A note.",
        ]
    )


def test_the_table_names_its_level_and_limits_its_comparisons() -> None:
    assert "80 % interval" in str(ranking([1.0, 0.0], level=0.8))
    lines: Any = [f"a against b{i}" for i in range(7)]
    expected = [f"{line}." for line in lines[:5]]
    assert [*_comparison_notes(lines[:5])] == expected
    assert [*_comparison_notes(lines)] == [
        *expected,
        "2 more comparisons: see ranking.comparisons.",
    ]


def test_many_and_long_failures_are_cut() -> None:
    failures = {f"q{i:02d}": "x" * 500 for i in range(1, 11)}
    entry = Entry(1, "mine", 0.0, (0.0, 0.0), failures=failures, answered=4)
    text = Ranking([entry], language="sw").to_text()
    assert "mine: 10 of 14 queries failed: q01" in text
    assert "q05" in text
    assert "q06" not in text
    assert "and 5 more" in text
    assert max(map(columns, text.splitlines())) <= 80


@pytest.mark.parametrize("logit", [1.25, -12345.678])
def test_text_fits_80_columns_in_all_scripts(logit: float) -> None:
    many = ranking([logit] * len(HARD_NAMES), HARD_NAMES)
    lines = str(many).splitlines()
    assert max(map(columns, lines)) <= 80
    assert len(lines) == 2 + len(HARD_NAMES)
    ends = {columns(line) for line in lines[1:]}
    assert len(ends) == 1  # the columns are aligned
    assert "\x1b" not in str(many)
    assert "\u202e" not in str(many)
    assert r"two lines \x1b[31m" in str(many)
    # What runs right to left is isolated, or terminals that reorder would move the numbers.
    assert any("\u2068نموذج" in line and "\u2069" in line for line in lines)


def test_forty_characters_are_cut_only_where_they_must_be() -> None:
    name = "meta-llama/Meta-Llama-3-70B-Instruct-abc"
    assert len(name) == 40
    text = str(ranking([1.0], [name]))
    assert name[:30] in text
    assert "…" in text
    short = Ranking([Entry(1, name, 1.0, (0.0, 2.0))], language="sw")
    assert name in str(short)  # no rank interval, so there is room


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=4, unique=True), st.text())
def test_any_names_give_an_aligned_table(names: list[str], reason: str) -> None:
    from rich.cells import cell_len

    def width(line: str) -> int:  # rich's, with a column for spacing marks as in `columns`
        return cell_len(line) + sum(unicodedata.category(c) == "Mc" for c in line)

    entries = [
        Entry(i, name, -i, (-i - 1, -i + 1), failures={"q1": reason})
        for i, name in enumerate(names, 1)
    ]
    lines = Ranking(entries, language="sw", title="maswali").to_text().split("\n")
    assert all(width(line) <= 80 for line in lines)
    assert len({width(line) for line in lines[1 : 2 + len(names)]}) == 1
    assert [line.split()[:2] for line in lines[2 : 2 + len(names)]] == [
        ["*", str(i)] for i in range(1, 1 + len(names))
    ]


# Markdown, HTML, JSON, pandas ---------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """The cells of the tables of an HTML text, and its tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, "a tag was not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


# The names as pages show them: on one line, with hidden characters as escapes.
SHOWN_NAMES = [*HARD_NAMES[:-1], r"two lines \x1b[31mred\u202eback"]


def test_markdown_parses_to_the_same_cells() -> None:
    many = ranking(list(range(8, 0, -1)), HARD_NAMES)
    page = Page(MarkdownIt("commonmark").enable("table").render(many.to_markdown()))
    assert page.rows[0] == ["rank", "model", "logit", "95 % interval", "rank interval"]
    assert [row[1] for row in page.rows[1:]] == SHOWN_NAMES
    assert page.rows[1][2:] == ["8.00", "[7.50, 8.25]", "1-8"]
    assert {tag for tag, _ in page.tags} == {
        "p", "table", "thead", "tbody", "tr", "th", "td", "strong",
    }  # fmt: skip


def test_markdown_marks_own_models_and_lists_failures() -> None:
    text = full().to_markdown()
    assert "| 2 | **mine** | 0.50 |" in text
    assert "| 1 | anchor/good | 1.00 |" in text
    assert "2 of 14 queries failed" in text
    assert text.endswith("A note.")


def test_html_escapes_names_and_keeps_their_direction() -> None:
    many = ranking(list(range(8, 0, -1)), HARD_NAMES)
    html = many._repr_html_()
    page = Page(html)
    assert "<script>" not in html
    assert [row[1] for row in page.rows[1:]] == SHOWN_NAMES
    assert page.tags[0] == ("div", {"class": "mirage-ranking", "dir": "ltr"})
    assert page.tags.count(("bdi", {})) >= 8 * 5
    assert "http" not in html  # nothing is loaded from elsewhere


def test_html_marks_own_models_and_lists_failures() -> None:
    page = Page(full()._repr_html_())
    assert page.tags.count(("tr", {"class": "own"})) == 1
    assert "KeyError: &#x27;&lt;b&gt;&#x27;" in full()._repr_html_()


def strictly(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_has_everything() -> None:
    plain = strictly(full().to_json())
    assert (plain["language"], plain["level"]) == ("sw", 0.95)
    assert [row["model"] for row in plain["entries"]] == ["anchor/good", "mine", "anchor/bad"]
    assert plain["entries"][1] == {
        "rank": 2,
        "model": "mine",
        "logit": 0.5,
        "interval": [-1.0, 2.0],
        "rank_interval": [1, 3],
        "features": {"f": 0.25, "g": None},
        "anchor": False,
        "answered": 12,
        "failed": 2,
        "failures": {"q03": "TimeoutError: too slow", "q07": "KeyError: '<b>'"},
        "unfamiliar": "",
        "uncontrolled": None,
        "findings": [],
        "fragility": None,
        "accuracy": None,
        "closed_book": None,
    }
    assert plain["entries"][0]["answered"] is None
    many = ranking([0.1] * 8, HARD_NAMES)
    assert {row["model"] for row in strictly(many.to_json())["entries"]} == set(HARD_NAMES)


def test_pandas_frame() -> None:
    frame = full().to_pandas()
    assert list(frame.index) == ["anchor/good", "mine", "anchor/bad"]
    assert list(frame.columns) == [
        "rank", "logit", "lower", "upper", "rank_best", "rank_worst", "anchor", "answered",
        "failed", "unfamiliar", "right", "wrong", "declined", "f", "g",
    ]  # fmt: skip
    mine = frame.loc["mine"]
    assert (mine["rank"], mine["lower"], mine["rank_worst"]) == (2, -1.0, 3)
    assert (mine["answered"], mine["failed"], mine["f"]) == (12, 2, 0.25)
    assert frame["g"].isna().all()
    assert frame["answered"].isna().tolist() == [True, False, True]


def test_pandas_frame_counts_outcomes() -> None:
    outcomes = dict(zip("abcdef", ["right"] * 3 + ["wrong"] * 2 + ["declined"], strict=True))
    entry: Any = replace(full()["mine"], accuracy=Accuracy(outcomes))
    (row,) = Ranking([entry], language="sw").to_pandas().to_dict("records")
    assert (row["right"], row["wrong"], row["declined"]) == (3, 2, 1)


def test_without_pandas_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MirageError, match="pandas; install it with: pip install"):
        full().to_pandas()


def test_repr_is_short_and_hash_is_possible() -> None:
    assert repr(full()) == "Ranking('maswali', language='sw', models=3)"
    assert len({*full(), *full()}) == 3


# Several languages --------------------------------------------------------------------------------


def several() -> MultilingualRanking:
    names = ("anchor", "mine", "third")
    failed = Entry(1, "mine", 2.0, (1.0, 3.0), failures={"q01": "TimeoutError"}, answered=13)
    yoruba = Ranking(
        [failed, Entry(2, "third", 1, (0, 2)), Entry(3, "anchor", 0, (0, 1), anchor=True)],
        language="yo",
    )
    return MultilingualRanking(
        {
            "ar": ranking([3, 2, 1], names, language="ar"),
            "sw": ranking([2, 1, 3], names),
            "yo": yoruba,
            "zh": ranking([4, 3, 2, 1], (*names, "only-here"), language="zh"),
        }
    )


def test_mean_ranks_by_hand() -> None:
    # mine: 2, 3, 1, 2; anchor: 1, 2, 3, 1; third: 3, 1, 2, 3.
    means = several().mean_ranks
    assert list(means.items()) == [("anchor", 1.75), ("mine", 2.0), ("third", 2.25)]


def test_it_is_a_mapping_from_language_to_ranking() -> None:
    over = several()
    assert list(over) == ["ar", "sw", "yo", "zh"]
    assert over["yo"]["mine"].rank == 1
    assert "de" not in over
    with pytest.raises(UnknownNameError, match="language 'de' in this ranking"):
        over["de"]


def test_languages_are_ordered_by_mean_logit() -> None:
    # mine: 2, 1, 2, 3; anchor: 3, 2, 0, 4; third: 1, 3, 1, 2.
    over = several()
    assert list(over.mean_logits.items()) == [("anchor", 2.25), ("mine", 2.0), ("third", 1.75)]
    assert over.models == ("anchor", "mine", "third")
    assert dict(over.ranks) == {"anchor": 1, "mine": 2, "third": 3}
    logits = {"ar": ([5, 1], "ab"), "sw": ([0, 1], "ab"), "th": ([0, 1], "ab")}
    apart = MultilingualRanking(
        {code: ranking(*row, language=code) for code, row in logits.items()}
    )
    assert apart.models == ("a", "b")  # mean logits 5 / 3 and 1
    assert list(apart.mean_ranks.items()) == [("b", 4 / 3), ("a", 5 / 3)]


def test_languages_with_ranks_only_are_ordered_by_mean_rank() -> None:
    over = MultilingualRanking({code: Leaderboard.published(code) for code in ("sw", "yo")})
    assert over.models == tuple(over.mean_ranks)
    assert all(map(math.isnan, over.mean_logits.values()))
    assert str(over).startswith("Mean rank over 2 languages")
    assert strictly(over.to_json())["mean_logits"][over.models[0]] is None
    assert over.to_pandas()["rank"].is_monotonic_increasing
    note = "Only ranks are known in yo, so models are ordered by their mean rank, which has no"
    assert note in " ".join(str(over).split())
    assert note in over.to_markdown()
    assert note in render(over)
    assert several().without_logits_notes == ()


def test_languages_as_text() -> None:
    lines = str(several()).splitlines()
    assert lines[0] == "Mean logit over 4 languages"
    assert lines[1].split() == ["rank", "model", "logit", "mean", "rank", "best", "worst"]
    assert lines[2].split() == ["*", "1", "anchor", "2.25", "1.8", "1", "(ar)", "3", "(yo)"]
    assert lines[3].split() == ["*", "2", "mine", "2.00", "2.0", "1", "(yo)", "3", "(sw)"]
    assert lines[-1] == "yo: mine: 1 of 14 queries failed: q01 (TimeoutError)"
    many = MultilingualRanking({"th": ranking([1.0] * 8, HARD_NAMES, language="th")})
    assert max(map(columns, str(many).splitlines())) <= 80


def test_languages_as_markup_json_and_frame() -> None:
    over = several()
    for page in (
        Page(over._repr_html_()),
        Page(MarkdownIt("commonmark").enable("table").render(over.to_markdown())),
    ):
        assert page.rows[0] == ["rank", "model", "logit", "mean rank", "ar", "sw", "yo", "zh"]
        assert page.rows[2] == ["2", "mine", "2.00", "2.0", "2", "3", "1", "2"]
    plain = strictly(over.to_json())
    assert plain["mean_ranks"] == {"anchor": 1.75, "mine": 2.0, "third": 2.25}
    assert plain["mean_logits"] == {"anchor": 2.25, "mine": 2.0, "third": 1.75}
    assert plain["languages"]["sw"]["entries"][0]["model"] == "third"
    frame = over.to_pandas()
    assert frame.loc["third"].tolist()[:7] == [3, 1, 2, 3, 2.25, 3, 1.75]
    assert frame[["lower", "upper", "rank_best", "rank_worst"]].isna().all(axis=None)
    assert plain["intervals"]["third"] == plain["winner_interval"] == [None, None]
    assert plain["level"] == 0.95


def two_languages_with_draws() -> MultilingualRanking:
    """Two languages whose draws deviate from the logits by hand, level 0.5."""
    logits = {"ar": {"a": 3, "b": 2, "c": 1}, "sw": {"a": 3, "b": 1, "c": 2}}
    deviations = {
        "ar": {"a": [0, 0, -0.2, 0.2], "b": [0, 0, 0.6, -0.6], "c": [0, 0, 0, 0]},
        "sw": {"a": [0, 0, 0.2, -0.2], "b": [0, 0, 1.0, -1.0], "c": [0, 0, -0.4, 0.4]},
    }
    rankings = {}
    for code, by_model in logits.items():
        ordered = sorted(by_model, key=lambda name: -by_model[name])
        entries = [
            Entry(rank, name, by_model[name], (-9, 9), (1, 3))
            for rank, name in enumerate(ordered, 1)
        ]
        draws = {name: by_model[name] + np.array(deviations[code][name]) for name in by_model}
        rankings[code] = Ranking(entries, language=code, draws=draws, level=0.5)
    return MultilingualRanking(rankings)


def test_intervals_of_mean_logits_by_hand() -> None:
    over = two_languages_with_draws()
    # Mean logits 3, 1.5, 1.5; mean errors: a none; b 0, 0, 0.8, -0.8; c 0, 0, -0.2, 0.2.
    assert list(over.mean_logits.values()) == [3, 1.5, 1.5]
    # Percentiles 25 and 75 of -0.8, 0, 0, 0.8 and of -0.2, 0, 0, 0.2.
    expected = {"a": (3, 3), "b": (1.3, 1.7), "c": (1.45, 1.55)}
    for model, ends in expected.items():
        assert over.intervals[model] == pytest.approx(ends)
    # b and c are equal in half of the draws, and each is ahead in a quarter.
    assert over.p_better("b", "c") == 0.5
    assert over.p_better("a", "b") == 1
    assert over.p_better("c", "a") == 0
    assert over.p_better("a", "a") == 0.5
    assert dict(over.rank_intervals) == {"a": (1, 1), "b": (2, 3), "c": (2, 3)}
    assert over.winner_interval == (3, 3)
    assert over.level == 0.5
    lines = str(over).splitlines()
    header = ["rank", "model", "logit", "50", "%", "interval", "rank", "interval", "worst"]
    assert lines[1].split() == header
    assert lines[2].split() == ["*", "1", "a", "3.00", "[3.00,", "3.00]", "1-1", "1"]
    plain = strictly(over.to_json())
    assert plain["intervals"]["b"] == pytest.approx([1.3, 1.7])
    assert plain["rank_intervals"]["b"] == [2, 3]
    frame = over.to_pandas()
    assert frame.loc["b", ["rank_best", "rank_worst"]].tolist() == [2, 3]
    assert frame.loc["b", ["lower", "upper"]].tolist() == pytest.approx([1.3, 1.7])
    with pytest.raises(UnknownNameError, match="model 'd' among those ranked in all languages"):
        over.p_better("a", "d")


def test_without_draws_mean_logits_have_no_intervals() -> None:
    over = several()
    assert set(over.rank_intervals.values()) == {None}
    assert all(math.isnan(low) for low, _ in over.intervals.values())
    assert math.isnan(over.winner_interval[0])
    assert over.winner_notes == ()
    with pytest.raises(MirageError, match="the ranking in 'ar' has no random draws"):
        over.p_better("mine", "third")


def test_a_model_without_an_interval_in_one_language_has_none_in_the_mean() -> None:
    languages = dict(two_languages_with_draws())
    part = languages["sw"]
    entries = [
        replace(entry, interval=NO_INTERVAL) if entry.model == "a" else entry for entry in part
    ]
    draws = {model: part.drawn()[model] for model in part.models}
    languages["sw"] = Ranking(entries, language="sw", draws=draws, level=0.5)
    over = MultilingualRanking(languages)
    assert math.isnan(over.intervals["a"][0])
    assert math.isnan(over.winner_interval[0])
    assert not math.isnan(over.intervals["b"][0])


def test_the_winner_has_a_note_if_its_interval_changes() -> None:
    first, second = Entry(1, "a", 1.0, (0.5, 1.5), (1, 2)), Entry(2, "b", 0.9, (0.4, 1.4), (1, 2))
    changed = Ranking([first, second], language="sw", winner_interval=(0.3, 1.7))
    sentence = (
        "The best of several models may be in first place by luck. The 95 % interval of a that "
        "allows for this is [0.30, 1.70]."
    )
    assert changed.winner_notes == (sentence,)
    assert " ".join(sentence.split()) in " ".join(str(changed).split())
    assert sentence in strictly(changed.to_json())["notes"]
    assert strictly(changed.to_json())["winner_interval"] == [0.3, 1.7]
    equal = Ranking([first, second], language="sw", winner_interval=(0.501, 1.499))
    assert equal.winner_notes == Ranking([first, second], language="sw").winner_notes == ()


def test_models_that_a_language_lacks_are_named() -> None:
    def part(code: str, models: str) -> Ranking:
        entries = [Entry(n, name, -float(n), (-n - 1.0, 1.0 - n)) for n, name in enumerate(models)]
        return Ranking(entries, language=code)

    ranking = MultilingualRanking({"sw": part("sw", "xyz"), "de": part("de", "yz")})
    assert ranking.models == ("y", "z")
    assert ranking.left_out_models == {"x": "not ranked in de"}
    line = "Left out of the mean (not ranked in de): x."
    assert line in str(ranking)
    assert line in ranking.to_markdown()
    assert line in ranking._repr_html_()
    assert json.loads(ranking.to_json())["left_out_models"] == {"x": "not ranked in de"}
    assert line in render(ranking)
    many = MultilingualRanking({"sw": part("sw", "abcdefghijklmn"), "de": part("de", "n")})
    assert "a, b, c, d, e, f, g, h, i, j and 3 more models" in " ".join(str(many).split())
    same = MultilingualRanking({"sw": part("sw", "yz"), "de": part("de", "yz")})
    assert (same.left_out_models, same.left_out_notes) == ({}, ())


def test_no_language_or_no_shared_model_is_an_error() -> None:
    with pytest.raises(MirageError, match="at least one language"):
        MultilingualRanking({})
    with pytest.raises(MirageError, match="no model is ranked in all"):
        MultilingualRanking({"ar": ranking([1], "a", language="ar"), "sw": ranking([1], "b")})


def test_rankings_under_another_language_are_an_error() -> None:
    parts = {"de": ranking([1], "a", language="en"), "en": ranking([1], "a", language="de")}
    with pytest.raises(DatasetError, match="key 'de' is in 'en'"):
        MultilingualRanking(parts)
    for wrong in ([*parts.values()], ["en", "de"]):
        with pytest.raises(DatasetError, match="a mapping from language code to Ranking"):
            MultilingualRanking(wrong)
        with pytest.raises(DatasetError, match="a mapping from language code to Leaderboard"):
            MultilingualLeaderboard(wrong)


def test_ranks_fall_as_logits_rise() -> None:
    ordered = ranking([0.3, -2, 5, 0.3])
    assert all(a.rank <= b.rank and a.logit >= b.logit for a, b in pairwise(ordered))

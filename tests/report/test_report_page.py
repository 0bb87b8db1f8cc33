"""The page as a text: complete, escaped, sealed, and the same each time."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hostile import STRINGS
from rankings import ANCHORS, FEATURES, ranker, ranking
from reading import Reader

from mirage import BradleyTerry, Leaderboard, MirageError, MultilingualRanking, Run, respond
from mirage.arena import PositionBias, SelfPreference
from mirage.arena.controls import position
from mirage.languages import LANGUAGES
from mirage.models import HumanAgreement, Judgment, Vote
from mirage.ranking import Entry, Ranking
from mirage.report import _responses as responses
from mirage.report import render, write


def written(made: Ranking | MultilingualRanking, path: Path, **options: Any) -> str:
    write(made, path, **options)
    return path.read_text(encoding="utf-8")


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def test_everything_of_one_language_is_there(tmp_path: Path) -> None:
    made = ranking(notes=["A note."])
    page = written(made, tmp_path / "report.html", details={"cost": "4.20 USD"})
    for words in ("<h3", "A title", "A note.", "4.20 USD", "Feature importance", "validation.tau"):
        assert words in page
    for model in (*ANCHORS, "mine", "other"):
        assert f">{model[:6]}" in page
    assert page.count("<tr") >= 2 * len(made)
    assert "failed on 2 of 12 queries" in page
    data = data_of(page)
    assert data["models"] == list(made.models)
    entry = data["languages"]["en"]["entries"][0]
    assert entry["rank"] == 1
    assert entry["logit"] == pytest.approx(made["mine"].logit, abs=1e-4)
    assert data["languages"]["en"]["features"] == list(FEATURES)


def test_a_model_that_answered_little_is_warned_of(tmp_path: Path) -> None:
    made = ranking()
    few = replace(made["mine"], answered=2, failures={f"q{n}": "late" for n in range(10)})
    others = [entry for entry in made if entry.model != "mine"]
    page = written(Ranking([few, *others], language="en"), tmp_path / "report.html")
    assert "Warning: mine answered only 2 of 12 queries" in page


def test_it_opens_with_findings_that_link_to_responses(tmp_path: Path) -> None:
    made = ranking()
    page = written(made, tmp_path / "r.html")
    assert page.index('id="en-findings"') < page.index('id="en-leaderboard"')
    assert '<a href="#en-findings">' in page
    data = data_of(page)["languages"]["en"]
    place = str(made.models.index("mine"))
    rows = [row for some in data["pages"][place].values() for row in some]
    shown = {data["queries"][row["query"]]["n"] for row in rows}
    linked = set(map(int, re.findall(rf'href="#en/{place}/([0-9]+)"', page)))
    named = {id_ for one in made.findings["mine"] for id_ in one.query_ids}
    assert linked == {data["queries"][id_]["n"] for id_ in named}
    assert linked <= shown
    (entry,) = (one for one in data["entries"] if one["model"] == int(place))
    assert [one["count"] for one in entry["findings"]] == [
        one.count for one in made.findings["mine"]
    ]
    for one in made.findings["mine"]:
        assert f"{one.words} on <b>{one.count}</b> of {one.of} queries: " in page


def test_it_says_what_the_ranking_is_about(tmp_path: Path) -> None:
    made = ranking()
    told = Ranking(made, language="en", about="They are <b>simulated</b>.", evidence=made.evidence)
    page = written(told, tmp_path / "r.html")
    assert '<p class="about">They are &lt;b&gt;simulated&lt;/b&gt;.</p>' in page
    assert page.index('class="about"') < page.index('id="en-findings"')


def test_a_model_that_is_like_no_other_is_marked(tmp_path: Path) -> None:
    made = ranking()
    entries = [replace(e, unfamiliar="low <overlap>" * (e.model == "mine")) for e in made]
    page = written(Ranking(entries, language="en", evidence=made.evidence), tmp_path / "r.html")
    assert page.count(">unfamiliar</span>") == 1
    assert page.index("so that its rank says little: <bdi>low &lt;") < page.index(
        'id="en-leaderboard"'
    )
    assert [row["unfamiliar"] for row in data_of(page)["languages"]["en"]["entries"]][:2] == [
        "low <overlap>",
        "",
    ]


def test_logits_without_controls_stand_beside_those_with_them(tmp_path: Path) -> None:
    # Who is shown first mostly wins: x always is, z never.
    judgments = [
        Judgment(query_id=f"q{n}", model_a=a, model_b=b, verdict="b" if n % 6 == 5 else "a")
        for n in range(24)
        for a, b in (("x", "y"), ("y", "z"), ("x", "z"))
    ]
    made = Ranking.from_judgments(judgments, bradley_terry=BradleyTerry(controls=[position()]))
    page = written(made, tmp_path / "page.html")
    assert "Logit without controls" in page
    for entry in made:
        assert entry.uncontrolled is not None
        plain = f"{entry.uncontrolled:.2f}".replace("-", "−")
        assert f">{plain}</td>" in page
        assert abs(entry.uncontrolled - entry.logit) > 0.01 or entry.model == "y"
    assert "without controls" not in written(ranking("en"), tmp_path / "plain.html")


def test_many_models_keep_their_findings_behind_a_click(tmp_path: Path) -> None:
    page = written(ranking(models=list("abcd")), tmp_path / "r.html")
    opening = page[page.index('id="en-findings"') : page.index('id="en-leaderboard"')]
    assert opening.count("<details>") == 4


def test_several_languages_open_with_all_findings_in_one(tmp_path: Path) -> None:
    several = MultilingualRanking({code: ranking(code) for code in ("ar", "en")})
    page = written(several, tmp_path / "r.html")
    assert page.index('id="findings"') < page.index('id="ranks"') < page.index('id="ar-findings"')
    (worst, *_) = several.findings["mine"]
    assert f"{worst.words} on <b>{worst.count}</b> queries: " in page


def test_win_probabilities_are_those_of_the_ranking(tmp_path: Path) -> None:
    made = ranking()
    pairs = data_of(written(made, tmp_path / "r.html"))["languages"]["en"]["pairs"]
    assert pairs["columns"] == list(range(len(made)))
    for i, a in enumerate(made.models):
        for j, b in enumerate(made.models):
            expected = None if i == j else round(1000 * made.p_better(a, b))
            assert pairs["rows"][i][j] == expected


def test_importances_are_computed_only_when_wanted(tmp_path: Path) -> None:
    made = ranking()
    assert "Feature importance" not in written(made, tmp_path / "r.html", importances=False)
    several = MultilingualRanking({"en": made, "ar": ranking("ar")})
    assert "Feature importance" not in written(several, tmp_path / "r.html")
    assert written(several, tmp_path / "r.html", importances=True).count("-importance") == 2


def test_an_importance_that_cannot_be_computed_says_why(tmp_path: Path) -> None:
    made = ranking()
    assert made.evidence is not None
    few = Ranking(
        made, language="en", evidence=replace(made.evidence, ranker=ranker("en", models=4))
    )
    page = written(few, tmp_path / "r.html")
    assert "Not computed: cannot hold 2 of 4 models out" in page


def test_a_bundled_board_shows_what_faults_cost(tmp_path: Path) -> None:
    board = Leaderboard.bundled("sw")
    made = board.rank({query.id: query.reference for query in board.dataset}, model="mine")
    page = written(made, tmp_path / "r.html")
    assert "Feature importance" not in page
    costs = page.split("Cost of a fault", 1)[1]
    assert costs.index(">uncited<") < costs.index(">refusal<") < costs.index(">lying<")


def test_several_languages_have_a_heat_map_and_a_panel_each(tmp_path: Path) -> None:
    several = MultilingualRanking({code: ranking(code) for code in ("ar", "en")})
    page = written(several, tmp_path / "r.html")
    assert 'id="ranks"' in page
    assert page.count('class="panel"') == 2
    assert "العربية" in page
    data = data_of(page)
    assert data["models"] == list(several.mean_ranks)
    assert data["languages"]["ar"]["direction"] == "rtl"
    ranks = page.partition('id="ranks"')[2].partition("</table>")[0]
    for words in ("95 % interval", "Rank interval"):
        assert words in ranks
    best = next(iter(several.mean_ranks))
    low, high = several.intervals[best]
    place = several.rank_intervals[best]
    assert place is not None
    assert f'<td class="number wide">{low:g} to {high:g}</td>' in ranks
    assert f'<td class="number wide">{place[0]} to {place[1]}</td>' in ranks


@pytest.mark.parametrize("code", ["sw", "yo", "de"])
def test_published_rankings_have_a_report(code: str, tmp_path: Path) -> None:
    made = Leaderboard.published(code)
    page = written(made, tmp_path / "r.html")
    data = data_of(page)
    assert len(data["models"]) == 19
    assert not data["languages"][code]["pages"]
    if code == "yo":  # has ranks only
        assert data["languages"][code]["pairs"] is None
        assert "the confidence that" in page
        assert "95 % interval" not in page.split("<script")[0]
    assert "came without responses and surrogate" in page


def test_all_published_languages_have_one(tmp_path: Path) -> None:
    made = MultilingualRanking({code: Leaderboard.published(code) for code in LANGUAGES})
    page = written(made, tmp_path / "r.html")
    assert page.count('class="panel"') == 18
    assert len(page.encode()) < 1_000_000


def test_the_same_ranking_gives_the_same_file(tmp_path: Path) -> None:
    first = written(ranking(), tmp_path / "a.html")
    assert first == written(ranking(), tmp_path / "b.html")


def test_the_policy_names_what_may_run_and_nothing_loads(tmp_path: Path) -> None:
    page = written(ranking(), tmp_path / "r.html")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ")
    assert "unsafe" not in policy[1]
    for tag in ("script", "style"):
        found = re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert found is not None
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
        page = page.replace(found[0], "")
    assert re.findall(r"""\s(?:src|srcset|action|style|on\w+)=""", page.split('id="data"')[0]) == []
    links = set(re.findall(r'href="([^"]*)"', page))
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert not re.search(r"url\(|@import|innerHTML|eval\(", page)


def without_findings(page: str) -> str:
    """A page without what it says of responses, which follows from their texts."""
    start, end = '<section class="findings">', "</section>"
    assert page.count(start) == 1
    before, _, rest = page.partition(start)
    opening = rest.partition(end)[0]
    assert set(tags(opening)) <= {"h3", "h4", "p", "details", "summary", "a", "bdi", *INSIDE}
    return before + rest.partition(end)[2]


INSIDE = ("ul", "li", "b", "q", "span", "wbr", "div")


def tags(page: str) -> list[str]:
    """The tags of a page, but for those where a line may end."""
    return [tag for tag in Reader(page).tags if tag != "wbr"]


@pytest.mark.parametrize("start", range(0, 200, 20))
def test_hostile_strings_change_nothing_of_the_page(start: int, tmp_path: Path) -> None:
    some = [text[:50_000] for text in STRINGS[start : start + 20]]
    options = {"importances": False}
    hostile = ranking("ar", some, texts=some, title=some[0], notes=some)
    harmless = ranking("ar", list("abcdefghijklmnopqrst"), texts=["x"] * 20, notes=["x"] * 20)
    first = written(hostile, tmp_path / "a.html", details={some[1]: some[2]}, **options)
    other = written(harmless, tmp_path / "b.html", details={"x": "y"}, **options)
    assert tags(without_findings(first)) == tags(without_findings(other))
    assert len(data_of(first)["languages"]["ar"]["pages"]) == 20


def test_broken_text_can_be_written(tmp_path: Path) -> None:
    entries = [
        Entry(1, "a\ud800\x00", 1.0, (0.5, 1.5), failures={"q\udfff": "\ud83d"}, answered=1),
        Entry(2, "b", math.nan, (math.nan, math.nan)),
    ]
    made = Ranking(entries, language="sw", title="\ud800", notes=["\x00"])
    page = written(made, tmp_path / "r.html")
    assert "a\ufffd␀" in page


# Judges -------------------------------------------------------------------------------------------


def votes() -> list[Vote]:
    return [
        Vote(query_id=f"q{n}", model_a=a, model_b=b, judge=judge, verdict="a" if n % 3 else "b")
        for n in range(6)
        for a, b in (("x", "y"), ("y", "x"))
        for judge in ("<b>one</b>", "two")
    ]


def test_navigation_leads_to_what_is_there(tmp_path: Path) -> None:
    verdicts = [
        Judgment(query_id=f"q{n}", model_a="x", model_b="y", verdict="a" if n % 3 else "b")
        for n in range(6)
    ]
    for made in (ranking(), Ranking.from_judgments(verdicts)):
        page = written(made, tmp_path / "r.html")
        navigation = page[page.index("<nav") : page.index("</nav>")]
        for target in re.findall('href="#([^"]+)"', navigation):
            assert f'id="{target}"' in page


def test_what_is_known_of_judges_is_shown(tmp_path: Path) -> None:
    from mirage.arena import judge_agreement, position_bias, self_preference

    found = [
        judge_agreement(votes(), draws=50),
        position_bias(votes(), draws=50),
        *self_preference(votes(), {"<b>one</b>": "f", "two": "g", "x": "f", "y": "h"}, draws=50),
    ]
    page = written(ranking(), tmp_path / "r.html", judges=found)
    assert 'id="judges"' in page
    assert "All 2 judges (Fleiss)" in page
    assert f"{found[1].value:.3f}" in page
    assert "&lt;b&gt;one&lt;/b&gt;" in page
    assert isinstance(found[1], PositionBias)
    assert any(isinstance(one, SelfPreference) for one in found)
    assert 'id="judges"' not in written(ranking(), tmp_path / "r.html")


def test_agreement_with_people_is_shown(tmp_path: Path, data_dir: Path) -> None:
    from mirage.metaeval import LabelledSentences, evaluate

    labelled = LabelledSentences.memerag(data_dir / "memerag" / "memerag", ["de"])
    found = evaluate(labelled, "support_lexical", draws=20)
    page = written(ranking(), tmp_path / "r.html", judges=[found])
    assert "Agreement with people" in page
    assert f"{found['support_lexical']['mean'].balanced_accuracy:.3f}" in page


def test_how_a_judge_agrees_with_itself_across_languages_is_shown(tmp_path: Path) -> None:
    from mirage.metaeval import language_consistency

    same = {(f"q{n}",): n % 2 for n in range(20)}
    swahili = {**same, ("q0",): 1, ("q1",): 0, ("q2",): None}
    found = language_consistency({"en": same, "de": same, "sw": swahili}, judge="<i>one</i>")
    page = written(ranking(), tmp_path / "r.html", judges=[found])
    assert "Agreement with itself across languages" in page
    assert "&lt;i&gt;one&lt;/i&gt;, all languages (Krippendorff&#x27;s alpha)" in page.replace(
        "'", "&#x27;"
    )
    assert "Swahili with the others" in page
    assert "1 without a verdict" in page
    assert f"{found.alpha:.3f}" in page


def test_what_rankings_know_of_their_judge_is_shown_once(tmp_path: Path) -> None:
    known = HumanAgreement(
        judge="a judge",
        language=None,
        task="faithfulness",
        balanced_accuracy=0.625,
        source="somebody's <labels>",
    )
    rankings = {
        code: Ranking(ranking(code), language=code, agreement=[known]) for code in ("ar", "en")
    }
    page = written(MultilingualRanking(rankings), tmp_path / "r.html")
    assert page.count("somebody's &lt;labels&gt;") == 1
    assert "a judge, faithfulness, mean over languages" in page
    assert ">0.625<" in page
    assert '<a href="#judges">' in page


def test_anything_else_is_no_finding(tmp_path: Path) -> None:
    with pytest.raises(MirageError, match="not int"):
        write(ranking(), tmp_path / "r.html", judges=[3])  # type: ignore[list-item]


# Errors and sizes ---------------------------------------------------------------------------------


def test_a_file_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(MirageError, match=r"missing.r\.html: cannot be written"):
        write(ranking(), tmp_path / "missing" / "r.html")


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from mirage.report import plot_ranks

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    rankings = MultilingualRanking({"sw": Leaderboard.published("sw")})
    with pytest.raises(MirageError, match=r"pip install 'mirage-rag\[report\] @ git"):
        plot_ranks(rankings)


def test_many_models_are_compared_with_some(tmp_path: Path) -> None:
    made = ranking(models=[f"model {number}" for number in range(60)], evidence=False)
    page = written(made, tmp_path / "r.html")
    pairs = data_of(page)["languages"]["en"]["pairs"]
    assert len(pairs["columns"]) == 40
    assert len(pairs["rows"]) == len(made)
    assert "against 40 models" in page
    # The best and the last are there, whoever else is.
    assert {0, len(made) - 1} <= set(pairs["columns"])


def test_much_text_stays_within_its_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MOST_BYTES", 50_000)
    texts = [f"##Reason: [1]\n##Answer: {n} " + "<&ช" * 3000 for n in range(9)]
    page = written(ranking(models=["a", "b", "c", "d"], texts=texts), tmp_path / "r.html")
    assert len(json.dumps(data_of(page)["languages"]["en"]["pages"]).encode()) < 200_000
    assert "What is not shown" in page


def test_what_changes_when_a_model_is_asked_again_is_shown() -> None:
    board = Leaderboard.bundled("sw")
    texts = {one.id: one.reference or "" for one in board.dataset}
    other = texts | {"q03": "##Answer: ?"}
    run = Run.of_repeats([respond(each, board.dataset, "twice") for each in (texts, other)])
    page = render(board.rank(run, model="twice"), importances=False)
    assert "Stability between repeats" in page
    assert re.search(r'title="SD within [0-9.]+, between [0-9.]+; q03"[^>]*>3 %', page)
    assert "40 queries asked 2 times: 80, 0 of them failed" in page
    assert "Stability between repeats" not in render(board.rank(run.repeats[0], model="once"), importances=False)

"""Tests of the report as text: complete, escaped, self-contained and reproducible."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hostile import STRINGS
from rankings import ANCHORS, FEATURES, new_ranking, ranking
from reading import Reader
from subsets import slow_except

from mirage import BradleyTerry, Leaderboard, MirageError, MultilingualRanking, Run, respond
from mirage.arena.biases import PositionBias, SelfPreference
from mirage.arena.controls import position
from mirage.errors import SettingError
from mirage.languages import LANGUAGES
from mirage.models import HumanAgreement, Judgment, Vote
from mirage.ranking import Entry, Ranking
from mirage.report import _responses as responses
from mirage.report._page import render


def write_and_read(
    sample_ranking: Ranking | MultilingualRanking, path: Path, **options: Any
) -> str:
    sample_ranking.write(path, **options)
    return path.read_text(encoding="utf-8")


def data_of(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return dict(json.loads(match[1]))


def test_a_report_in_one_language_is_complete(tmp_path: Path) -> None:
    sample_ranking = ranking(notes=["A note."])
    page = write_and_read(sample_ranking, tmp_path / "report.html", details={"cost": "4.20 USD"})
    for words in ("<h3", "A title", "A note.", "4.20 USD", "validation.tau"):
        assert words in page
    for model in (*ANCHORS, "mine", "other"):
        assert f">{model[:6]}" in page
    assert page.count("<tr") >= 2 * len(sample_ranking)
    assert "failed on 2 of 12 queries" in page
    data = data_of(page)
    assert data["models"] == list(sample_ranking.models)
    entry = data["languages"]["en"]["entries"][0]
    assert entry["rank"] == 1
    assert entry["logit"] == pytest.approx(sample_ranking["mine"].logit, abs=1e-4)
    assert data["languages"]["en"]["features"] == list(FEATURES)


def test_a_model_with_few_answers_has_a_warning(tmp_path: Path) -> None:
    sample_ranking = ranking()
    few = replace(sample_ranking["mine"], answered=2, failures={f"q{n}": "late" for n in range(10)})
    rest = [entry for entry in sample_ranking if entry.model != "mine"]
    page = write_and_read(Ranking([few, *rest], language="en"), tmp_path / "report.html")
    assert "Warning: mine answered only 2 of 12 queries" in page


def test_the_page_starts_with_findings_that_link_to_responses(tmp_path: Path) -> None:
    sample_ranking = ranking()
    page = write_and_read(sample_ranking, tmp_path / "r.html")
    assert page.index('id="en-findings"') < page.index('id="en-leaderboard"')
    assert '<a href="#en-findings">' in page
    data = data_of(page)["languages"]["en"]
    model_index = str(sample_ranking.models.index("mine"))
    rows = [
        row
        for responses_of_kind in data["pages"][model_index].values()
        for row in responses_of_kind
    ]
    displayed = {data["queries"][row["query"]]["n"] for row in rows}
    linked = set(map(int, re.findall(rf'href="#en/{model_index}/([0-9]+)"', page)))
    in_findings = {id_ for finding in sample_ranking.findings["mine"] for id_ in finding.query_ids}
    assert linked == {data["queries"][id_]["n"] for id_ in in_findings}
    assert linked <= displayed
    (entry,) = (row for row in data["entries"] if row["model"] == int(model_index))
    assert [finding["count"] for finding in entry["findings"]] == [
        finding.count for finding in sample_ranking.findings["mine"]
    ]
    for finding in sample_ranking.findings["mine"]:
        low, high = finding.interval
        share = "" if math.isnan(low) else f" (95 % interval {100 * low:.0f} to {100 * high:.0f} %)"
        shown = f"{finding.words} on <b>{finding.count}</b> of {finding.of} queries{share}: "
        assert shown in page


def test_the_about_text_of_a_ranking_is_shown(tmp_path: Path) -> None:
    sample_ranking = ranking()
    described = Ranking(
        sample_ranking,
        language="en",
        about="They are <b>simulated</b>.",
        evidence=sample_ranking.evidence,
    )
    page = write_and_read(described, tmp_path / "r.html")
    assert '<p class="about">They are &lt;b&gt;simulated&lt;/b&gt;.</p>' in page
    assert page.index('class="about"') < page.index('id="en-findings"')


def test_an_unfamiliar_model_is_marked(tmp_path: Path) -> None:
    sample_ranking = ranking()
    entries = [replace(e, unfamiliar="low <overlap>" * (e.model == "mine")) for e in sample_ranking]
    page = write_and_read(
        Ranking(entries, language="en", evidence=sample_ranking.evidence), tmp_path / "r.html"
    )
    assert page.count(">unfamiliar</span>") == 1
    assert page.index("so that its rank is unreliable: <bdi>low &lt;") < page.index(
        'id="en-leaderboard"'
    )
    assert [row["unfamiliar"] for row in data_of(page)["languages"]["en"]["entries"]][:2] == [
        "low <overlap>",
        "",
    ]


def test_logits_without_controls_are_shown_too(tmp_path: Path) -> None:
    # The judge mostly favours the first response; x is always first, z never.
    judgments = [
        Judgment(query_id=f"q{n}", model_a=a, model_b=b, verdict="b" if n % 6 == 5 else "a")
        for n in range(24)
        for a, b in (("x", "y"), ("y", "z"), ("x", "z"))
    ]
    sample_ranking = Ranking.from_judgments(
        judgments, bradley_terry=BradleyTerry(controls=[position()])
    )
    page = write_and_read(sample_ranking, tmp_path / "page.html")
    assert "Logit without controls" in page
    for entry in sample_ranking:
        assert entry.uncontrolled is not None
        plain = f"{entry.uncontrolled:.2f}".replace("-", "−")
        assert f">{plain}</td>" in page
        assert abs(entry.uncontrolled - entry.logit) > 0.01 or entry.model == "y"
    assert "without controls" not in write_and_read(ranking("en"), tmp_path / "plain.html")


def test_findings_of_many_models_are_collapsed(tmp_path: Path) -> None:
    page = write_and_read(ranking(models=list("abcd")), tmp_path / "r.html")
    opening = page[page.index('id="en-findings"') : page.index('id="en-leaderboard"')]
    assert opening.count("<details>") == 4


def test_several_languages_start_with_pooled_findings(tmp_path: Path) -> None:
    several = MultilingualRanking({code: ranking(code) for code in ("ar", "en")})
    page = write_and_read(several, tmp_path / "r.html")
    assert page.index('id="findings"') < page.index('id="ranks"') < page.index('id="ar-findings"')
    (worst, *_) = several.findings["mine"]
    assert f"{worst.words} on <b>{worst.count}</b> queries: " in page


def test_win_probabilities_are_those_of_the_ranking(tmp_path: Path) -> None:
    sample_ranking = ranking()
    pairs = data_of(write_and_read(sample_ranking, tmp_path / "r.html"))["languages"]["en"]["pairs"]
    assert pairs["columns"] == list(range(len(sample_ranking)))
    for i, a in enumerate(sample_ranking.models):
        for j, b in enumerate(sample_ranking.models):
            expected = None if i == j else round(1000 * sample_ranking.p_better(a, b))
            assert pairs["rows"][i][j] == expected


def test_importances_are_not_shown(tmp_path: Path) -> None:
    # They have no interval that holds with as few models as a leaderboard has.
    assert "importance" not in write_and_read(ranking(), tmp_path / "r.html").lower()


@pytest.mark.slow
def test_a_bundled_board_shows_what_faults_cost(tmp_path: Path) -> None:
    board = Leaderboard.bundled("sw")
    sample_ranking = board.rank(
        {query.id: query.reference for query in board.dataset}, model="mine"
    )
    page = write_and_read(sample_ranking, tmp_path / "r.html")
    assert "Feature importance" not in page
    costs = page.split("Cost of a fault", 1)[1]
    assert costs.index(">uncited<") < costs.index(">refusal<") < costs.index(">lying<")


def test_several_languages_have_a_heat_map_and_a_panel_each(tmp_path: Path) -> None:
    several = MultilingualRanking({code: ranking(code) for code in ("ar", "en")})
    page = write_and_read(several, tmp_path / "r.html")
    assert 'id="ranks"' in page
    assert page.count('class="panel"') == 2
    assert "العربية" in page
    data = data_of(page)
    assert data["models"] == list(several.models)
    assert data["languages"]["ar"]["direction"] == "rtl"
    ranks = page.partition('id="ranks"')[2].partition("</table>")[0]
    for words in ("95 % interval", "Rank interval"):
        assert words in ranks
    best = several.models[0]
    ends = " to ".join(f"{end:.2f}".replace("-", "−") for end in several.intervals[best])
    ranks_of_best = several.rank_intervals[best]
    assert ranks_of_best is not None
    assert f'<td class="number">{ends}</td>' in ranks
    assert f'<td class="number">{ranks_of_best[0]} to {ranks_of_best[1]}</td>' in ranks


@pytest.mark.parametrize("code", ["sw", "yo", "de"])
def test_published_rankings_have_a_report(code: str, tmp_path: Path) -> None:
    sample_ranking = Leaderboard.published(code)
    page = write_and_read(sample_ranking, tmp_path / "r.html")
    data = data_of(page)
    assert len(data["models"]) == 19
    assert not data["languages"][code]["pages"]
    if code == "yo":  # has ranks only
        assert data["languages"][code]["pairs"] is None
        assert "the probability that" in page
        assert "95 % interval" not in page.split("<script")[0]
    assert "came without responses and surrogate" in page


def test_all_published_languages_have_a_report(tmp_path: Path) -> None:
    sample_ranking = MultilingualRanking({code: Leaderboard.published(code) for code in LANGUAGES})
    page = write_and_read(sample_ranking, tmp_path / "r.html")
    assert page.count('class="panel"') == 18
    assert len(page.encode()) < 1_000_000


def test_the_same_ranking_gives_the_same_file(tmp_path: Path) -> None:
    first = write_and_read(new_ranking(), tmp_path / "a.html")
    assert first == write_and_read(new_ranking(), tmp_path / "b.html")


def test_the_policy_names_what_may_run_and_nothing_loads(tmp_path: Path) -> None:
    page = write_and_read(ranking(), tmp_path / "r.html")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; ")
    assert "unsafe" not in policy[1]
    for tag in ("script", "style"):
        element = re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert element is not None
        digest = base64.b64encode(hashlib.sha256(element[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
        page = page.replace(element[0], "")
    assert re.findall(r"""\s(?:src|srcset|action|style|on\w+)=""", page.split('id="data"')[0]) == []
    links = set(re.findall(r'href="([^"]*)"', page))
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert not re.search(r"url\(|@import|innerHTML|eval\(", page)


def remove_findings(page: str) -> str:
    """Return a page without its findings and warnings, which depend on the responses' texts."""
    page = re.sub("<li><bdi>Warning: .*?</bdi></li>", "", page, flags=re.DOTALL)
    start, end = '<section class="findings">', "</section>"
    assert page.count(start) == 1
    before, _, rest = page.partition(start)
    opening = rest.partition(end)[0]
    assert set(tags(opening)) <= {"h3", "h4", "p", "details", "summary", "a", "bdi", *INSIDE}
    return before + rest.partition(end)[2]


INSIDE = ("ul", "li", "b", "q", "span", "wbr", "div")


def tags(page: str) -> list[str]:
    """Return the tags of a page without ``wbr``, which marks possible line breaks."""
    return [tag for tag in Reader(page).tags if tag != "wbr"]


@cache
def harmless_tags() -> list[str]:
    harmless = ranking("ar", list("abcdefghijklmnopqrst"), texts=["x"] * 20, notes=["x"] * 20)
    return tags(remove_findings(render(harmless, details={"x": "y"})))


@pytest.mark.parametrize("start", slow_except([100], range(0, 200, 20)))
def test_hostile_strings_do_not_change_the_elements_of_the_page(start: int, tmp_path: Path) -> None:
    texts = [text[:7_000] for text in STRINGS[start : start + 20]]
    hostile = ranking("ar", texts, texts=texts, title=texts[0], notes=texts)
    first = write_and_read(hostile, tmp_path / "a.html", details={texts[1]: texts[2]})
    assert tags(remove_findings(first)) == harmless_tags()
    assert len(data_of(first)["languages"]["ar"]["pages"]) == 20


def test_broken_text_can_be_written(tmp_path: Path) -> None:
    entries = [
        Entry(1, "a\ud800\x00", 1.0, (0.5, 1.5), failures={"q\udfff": "\ud83d"}, answered=1),
        Entry(2, "b", math.nan, (math.nan, math.nan)),
    ]
    sample_ranking = Ranking(entries, language="sw", title="\ud800", notes=["\x00"])
    page = write_and_read(sample_ranking, tmp_path / "r.html")
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
    for sample_ranking in (ranking(), Ranking.from_judgments(verdicts)):
        page = write_and_read(sample_ranking, tmp_path / "r.html")
        navigation = page[page.index("<nav") : page.index("</nav>")]
        for target in re.findall('href="#([^"]+)"', navigation):
            assert f'id="{target}"' in page


def test_results_on_judges_are_shown(tmp_path: Path) -> None:
    from mirage.arena import judge_agreement, position_bias, self_preference

    results = [
        judge_agreement(votes(), draws=50),
        position_bias(votes(), draws=50),
        *self_preference(votes(), {"<b>one</b>": "f", "two": "g", "x": "f", "y": "h"}, draws=50),
    ]
    page = write_and_read(ranking(), tmp_path / "r.html", judges=results)
    assert 'id="judges"' in page
    assert "All 2 judges (Fleiss)" in page
    assert f"{results[1].value:.3f}" in page
    assert "&lt;b&gt;one&lt;/b&gt;" in page
    assert isinstance(results[1], PositionBias)
    assert any(isinstance(result, SelfPreference) for result in results)
    assert 'id="judges"' not in write_and_read(ranking(), tmp_path / "r.html")


@pytest.mark.slow
def test_agreement_with_people_is_shown(tmp_path: Path, data_dir: Path) -> None:
    from mirage.metaeval import LabelledSentences, evaluate

    labelled = LabelledSentences.memerag(data_dir / "memerag" / "memerag", ["de"])
    evaluation = evaluate(labelled, "support_lexical")
    page = write_and_read(ranking(), tmp_path / "r.html", judges=[evaluation])
    assert "Agreement with people" in page
    assert f"{evaluation['support_lexical']['mean'].balanced_accuracy:.3f}" in page


def test_consistency_across_languages_is_shown(tmp_path: Path) -> None:
    from mirage.metaeval import language_consistency

    same = {(f"q{n}",): n % 2 for n in range(20)}
    swahili = {**same, ("q0",): 1, ("q1",): 0, ("q2",): None}
    consistency = language_consistency({"en": same, "de": same, "sw": swahili}, judge="<i>one</i>")
    page = write_and_read(ranking(), tmp_path / "r.html", judges=[consistency])
    assert "Agreement with itself across languages" in page
    assert "&lt;i&gt;one&lt;/i&gt;, all languages (Krippendorff&#x27;s alpha)" in page.replace(
        "'", "&#x27;"
    )
    assert "Swahili with the others" in page
    assert "1 without a verdict" in page
    assert f"{consistency.alpha:.3f}" in page


def test_the_agreement_of_several_rankings_is_shown_once(tmp_path: Path) -> None:
    agreement = HumanAgreement(
        judge="a judge",
        language=None,
        task="faithfulness",
        balanced_accuracy=0.625,
        source="somebody's <labels>",
    )
    rankings = {
        code: Ranking(ranking(code), language=code, agreement=[agreement]) for code in ("ar", "en")
    }
    page = write_and_read(MultilingualRanking(rankings), tmp_path / "r.html")
    assert page.count("somebody's &lt;labels&gt;") == 1
    assert "a judge, faithfulness, mean over languages" in page
    assert ">0.625<" in page
    assert '<a href="#judges">' in page


def test_other_objects_in_judges_are_errors(tmp_path: Path) -> None:
    with pytest.raises(MirageError, match="not int"):
        ranking().write(tmp_path / "r.html", judges=[3])  # type: ignore[list-item]


# Errors and sizes ---------------------------------------------------------------------------------


def test_a_file_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(MirageError, match=r"missing.r\.html: cannot be written"):
        ranking().write(tmp_path / "missing" / "r.html")


@pytest.mark.parametrize(
    ("suffix", "method"),
    [("csv", "to_pandas().to_csv"), ("md", "to_markdown"), ("json", "to_json"), ("docx", "")],
)
def test_a_page_is_not_written_to_a_file_of_another_format(
    tmp_path: Path, suffix: str, method: str
) -> None:
    path = tmp_path / f"ranking.{suffix}"
    with pytest.raises(SettingError, match=r"must end in \.html") as error:
        ranking().write(path)
    assert method in str(error.value)
    assert not path.exists()


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    rankings = MultilingualRanking({"sw": Leaderboard.published("sw")})
    with pytest.raises(MirageError, match=r"pip install 'mirage-rag\[report\] @ git"):
        rankings.plot()


def test_win_probabilities_have_at_most_forty_columns(tmp_path: Path) -> None:
    sample_ranking = ranking(models=[f"model {number}" for number in range(60)], evidence=False)
    page = write_and_read(sample_ranking, tmp_path / "r.html")
    pairs = data_of(page)["languages"]["en"]["pairs"]
    assert len(pairs["columns"]) == 40
    assert len(pairs["rows"]) == len(sample_ranking)
    assert "against 40 models" in page
    # The first and the last model are always included.
    assert {0, len(sample_ranking) - 1} <= set(pairs["columns"])


def test_long_responses_stay_below_the_size_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "MOST_BYTES", 50_000)
    texts = [f"##Reason: [1]\n##Answer: {n} " + "<&ช" * 2500 for n in range(9)]
    page = write_and_read(ranking(models=["a", "b", "c", "d"], texts=texts), tmp_path / "r.html")
    assert len(json.dumps(data_of(page)["languages"]["en"]["pages"]).encode()) < 200_000
    assert "What is not shown" in page


def test_stability_between_repeats_is_shown() -> None:
    board = Leaderboard.bundled("sw")
    texts = {query.id: query.reference or "" for query in board.dataset}
    other = texts | {"q03": "##Answer: ?"}
    run = Run.of_repeats([respond(answers, board.dataset, "twice") for answers in (texts, other)])
    page = render(board.rank(run, model="twice"))
    assert "Stability between repeats" in page
    # Clopper and Pearson's interval of one query in forty.
    assert re.search(r'title="q03"[^>]*>3 % \(0 to 13\)', page) or "2 % (0 to 13)" in page
    assert "40 queries asked 2 times: 80, 0 of them failed" in page
    assert "Stability between repeats" not in render(board.rank(run.repeats[0], model="once"))

"""Findings: kinds of fault, affected queries, counts and quotes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from mirage import FeatureTable, Leaderboard, MirageDataset, MultilingualRanking, respond
from mirage.features.findings import Finding, findings_of, pooled, summary
from mirage.languages import LANGUAGES
from mirage.leaderboard.leaderboard import SIMULATED
from mirage.models import Passage, Query, Response, Run

ROOT = Path(__file__).parents[1]
PASSAGES = (
    Passage(id="n#1", text="The Nile is the longest river of Africa."),
    Passage(id="n#2", text="The Congo crosses the equator twice."),
)


def query(id_: str, *, answerable: bool = True, answers: bool = True) -> Query:
    return Query(
        id=id_,
        language="en",
        text="Which river of Africa is the longest?",
        passages=PASSAGES,
        relevant=["n#1"] if answerable else [],
        reference="##Reason: [1]\n##Answer: The Nile [1].",
        answerable=answerable,
        answers=[["Nile"]] if answers and answerable else [],
        wrong_answers=[["Congo"]] if answers and answerable else [],
    )


def run(texts: Mapping[str, str | None]) -> Run:
    responses = [
        Response(query_id=id_, text=text, error=None if text is not None else "TimeoutError: slow")
        for id_, text in texts.items()
    ]
    return Run(model="mine", language="en", responses=tuple(responses))


def kinds(texts: Mapping[str, str | None], **options: bool) -> dict[str, tuple[str, ...]]:
    dataset = MirageDataset([query(id_, **options) for id_ in texts], name="rivers")
    return {finding.kind: finding.query_ids for finding in findings_of(dataset, run(texts))}


def test_a_true_and_cited_answer_has_no_fault() -> None:
    assert kinds({"q1": "##Reason: [1]\n##Answer: It is the Nile that is longest [1]."}) == {}


@pytest.mark.parametrize("answers", [True, False])
def test_the_size_of_blocks_does_not_change_findings(
    answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {
        "q1": "##Answer: It is the Congo [2].",
        "q2": "##Answer: I do not know.",
        "q3": None,
        "q4": "##Answer: Tea and biscuits.",
        "q5": "##Answer: The Nile, since 1987 [1].",
    }
    together = kinds(texts, answers=answers)
    assert together
    monkeypatch.setattr("mirage.features.findings.BLOCK", 2)
    assert kinds(texts, answers=answers) == together


def test_each_fault_is_found_on_its_query() -> None:
    faults = kinds(
        {
            "q1": "##Answer: The longest river of Africa is the Congo [1].",
            "q2": "##Answer: The longest river of Africa is the Nile.",
            "q3": "##Answer: The longest river of Africa is the Nile [2].",
            "q4": "##Answer: There are many long rivers in Africa to talk about [1].",
            "q5": "##Answer: Der längste Fluss in ganz Afrika heißt auf Deutsch Nil [1].",
            "q6": None,
        }
    )
    assert faults == {
        "wrong fact": ("q1",),
        "language": ("q5",),
        "missing answer": ("q4",),
        "no citation": ("q2",),
        "wrong citation": ("q3",),
        "no response": ("q6",),
    }


def test_a_query_without_a_response_is_no_better_than_a_failed_one() -> None:
    dataset = MirageDataset([query("q1"), query("q2")], name="rivers")
    (silence,) = findings_of(dataset, run({"q1": "##Answer: It is the Nile [1]."}))
    assert (silence.kind, silence.query_ids, silence.of) == ("no response", ("q2",), 2)
    assert np.isnan(silence.interval).all()


def test_the_quote_of_a_wrong_fact_is_the_sentence_that_states_it() -> None:
    text = "##Answer: Africa has many rivers [1]. The longest one is the Congo [1]."
    dataset = MirageDataset([query("q1")], name="rivers")
    (finding,) = findings_of(dataset, run({"q1": text}))
    assert finding.quotes == {"q1": "The longest one is the Congo."}
    assert finding.counted == "states a wrong fact on 1 of 1 queries"
    assert finding.interval == pytest.approx((0.025, 1))


def test_only_facts_that_no_passage_contains_are_quoted() -> None:
    text = "##Answer: It is the Nile, which is 6,650 km long [1], as Herodotus said [7]."
    dataset = MirageDataset([query("q1")], name="rivers")
    quotes = {item.kind: item.quotes["q1"] for item in findings_of(dataset, run({"q1": text}))}
    assert quotes == {"misplaced citation": "[7]", "unknown fact": "6,650 … Herodotus"}


def test_the_opposite_of_a_passage_is_found() -> None:
    faults = kinds({"q1": "##Answer: The Nile is not the longest river of Africa [1]."})
    assert faults == {"denial": ("q1",), "wrong fact": ("q1",)}


def test_an_empty_answer_is_called_empty() -> None:
    faults = kinds({"q1": "##Answer:", "q2": "##Answer: ..."})
    assert faults["empty answer"][0] == "q1"
    assert "language" not in faults
    assert "q1" not in faults.get("refusal", ()) + faults.get("missing answer", ())
    assert "q1" not in faults.get("no citation", ())


def features(columns: Mapping[str, list[float]], ids: tuple[str, ...]) -> FeatureTable:
    values = np.array(list(columns.values())).T
    return FeatureTable("mine", "en", ids, tuple(columns), values)


def test_an_abstention_is_a_fault_only_on_answerable_queries() -> None:
    silent, invented = "##Answer: The passages do not say.", "##Answer: It is the Volta River [2]."
    assert kinds({"q1": silent}) == {"refusal": ("q1",)}  # which explains the missing citation
    faults = kinds({"q1": silent, "q2": invented, "q3": "##Answer:"}, answerable=False)
    assert faults["invention"] == ("q2",)


def test_values_of_the_table_override_computed_ones() -> None:
    dataset = MirageDataset([query("q1")], name="rivers")
    answers = run({"q1": "##Answer: It is the Nile, the longest river [1]."})
    assert findings_of(dataset, answers) == ()
    (finding,) = findings_of(dataset, answers, features({"target_language": [0.2]}, ("q1",)))
    assert finding.kind == "language"


def test_responses_that_nothing_can_be_checked_in_are_named() -> None:
    bare = Query(id="q2", language="en", text="Which river of Africa is the longest?")
    answers = run({"q1": "##Answer: It is the Nile, the longest river [1].", "q2": "The Nile."})
    (unchecked,) = findings_of(MirageDataset([query("q1"), bare], name="rivers"), answers)
    assert (unchecked.kind, unchecked.query_ids, unchecked.of) == ("not checked", ("q2",), 2)
    assert "could not be checked for wrong facts, missing answers" in summary([unchecked])
    assert "passages, answers or a reference" in summary(pooled({"en": [unchecked]}))


# As text ------------------------------------------------------------------------------------------


def finding(count: int, kind: str = "language", of: int = 40) -> Finding:
    ids = tuple(f"q{n:02}" for n in range(1, count + 1))
    return Finding(kind, "answers in another language", ids, of)  # type: ignore[arg-type]


def test_a_line_lists_at_most_three_queries() -> None:
    assert str(finding(2)) == "answers in another language on 2 of 40 queries (q01, q02)"
    assert str(finding(4)).endswith("on 4 of 40 queries (q01, q02, q03, ...)")


def test_a_summary_omits_failed_responses() -> None:
    assert summary([finding(1), finding(2, "no response")]) == str(finding(1))
    assert summary([finding(2, "no response")]) == ""


def test_pooled_findings_list_languages_by_number_of_queries() -> None:
    (both,) = pooled({"en": [finding(1)], "sw": [finding(5)], "de": []})
    assert str(both) == "answers in another language on 6 queries (sw 5, en 1)"
    (english,) = pooled({"en": [finding(1)]})
    assert str(english) == "answers in another language on 1 query (en 1)"


# In rankings --------------------------------------------------------------------------------------


def lies(query: Query) -> str:
    wrong = {"q01": "Congo", "q02": "Jupiter"}
    return f"##Answer: It is {wrong.get(query.id, 'not known to me')}."


@pytest.fixture(scope="module")
def two() -> MultilingualRanking:
    return MultilingualRanking(
        {
            code: Leaderboard.bundled(code).rank(lies, model="liar", progress=False)
            for code in ("en", "sw")
        }
    )


def test_a_ranking_shows_findings_and_describes_its_anchors(two: MultilingualRanking) -> None:
    ranking = two["en"]
    text = " ".join(ranking.to_text().split())
    assert "liar states a wrong fact on 1 of " in text
    assert "cites nothing on " in text
    assert SIMULATED in text
    assert "simulated systems" in ranking.to_markdown()
    assert "simulated systems" in ranking._repr_html_()
    plain = json.loads(ranking.to_json())
    assert plain["about"] == SIMULATED
    (liar,) = (entry for entry in plain["entries"] if entry["findings"])
    assert liar["model"] == "liar"
    wrong = liar["findings"][0]
    assert (wrong["kind"], wrong["query_ids"]) == ("wrong fact", ["q01"])
    assert wrong["quotes"]["q01"] == "It is Congo."


def test_a_ranking_of_several_languages_describes_its_anchors_once(
    two: MultilingualRanking,
) -> None:
    text = " ".join(two.to_text().split())
    assert text.count("simulated systems") == 1
    assert re.search(r"liar states a wrong fact on \d+ queries \(.*en 1", text)


def test_a_published_ranking_has_no_description_of_anchors() -> None:
    assert Leaderboard.published("sw").about == ""
    assert Leaderboard.published("sw").findings == {}


def test_the_first_pages_show_the_report() -> None:
    picture = ROOT / "docs" / "assets" / "report.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200_000
    assert "(docs/assets/report.png)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(assets/report.png)" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_pages_say_what_the_table_says(page: str) -> None:
    plain = (ROOT / page).read_text(encoding="utf-8").replace("`", "")
    assert SIMULATED in " ".join(plain.split())


def test_copied_passages_are_a_finding() -> None:
    passages = [
        Passage(id=f"p{number}", text=text)
        for number, text in enumerate(
            (
                "The Nile is the longest river of Africa and flows to the north.",
                "The Congo crosses the equator twice on its way to the ocean.",
                "The Niger has an inland delta, and its name is older than its maps.",
            )
        )
    ]
    row = Query(id="q1", language="en", text="Which river is the longest?", passages=passages)
    dataset = MirageDataset([row], name="rivers")
    copied = " ".join(passage.text for passage in passages)
    for text, expected in ((f"The Nile. {copied}", True), (passages[0].text, False)):
        found = {finding.kind for finding in findings_of(dataset, run({"q1": text}))}
        assert ("copied passages" in found) == expected


REFERENCES_WITH_FAULTS = {"quick": 1, "hard": 31}
"""Number of faults that are falsely reported for the bundled references of all languages."""


@pytest.mark.slow
@pytest.mark.parametrize("level", REFERENCES_WITH_FAULTS)
def test_few_bundled_references_seem_wrong(level: str) -> None:
    serious = {"wrong fact", "invention", "refusal", "denial", "language", "copied passages"}
    faults = []
    for code in LANGUAGES:
        dataset = MirageDataset.bundled(code, level=level)
        texts = {item.id: item.reference for item in dataset}
        references = respond(texts, dataset, progress=False)
        faults += [
            (code, finding.kind, id_)
            for finding in findings_of(dataset, references)
            if finding.kind in serious
            for id_ in finding.query_ids
        ]
    assert len(faults) <= REFERENCES_WITH_FAULTS[level], faults
    assert not {"denial", "language", "copied passages"} & {kind for _, kind, _ in faults}

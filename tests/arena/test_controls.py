"""Controls: the likelihood by another optimiser, biased judges, and notes of a ranking."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from mirage import BradleyTerry, Judgment, Passage, Query, Ranking, Response, Run
from mirage.arena import Control, Judgments, fragility
from mirage.arena.controls import formatting, length, position, same_family
from mirage.errors import JudgmentError, SettingError, UnknownNameError

NAMES = "abcdef"


def biased(queries=60, effect=1.5, seed=0, models=6):
    """Return judgments of a judge that favours the first response and a control of worse models."""
    rng = np.random.default_rng(seed)
    logits = np.linspace(0.8, -0.8, models)
    rows, values = [], {}
    for query in range(queries):
        x = rng.normal(-logits, 0.5)
        for i in range(models):
            for j in range(i + 1, models):
                a, b = (i, j) if rng.random() < 0.5 else (j, i)
                odds = logits[a] - logits[b] + effect * (x[a] - x[b]) + 0.5
                verdict = "a" if rng.random() < expit(odds) else "b"
                on = {"query_id": f"q{query}", "model_a": NAMES[a], "model_b": NAMES[b]}
                rows.append(Judgment(**on, verdict=verdict, judge="j"))
                values[f"q{query}", NAMES[a], NAMES[b]] = x[a] - x[b]
    return rows, Control(
        "wordiness", lambda j: values[j.query_id, j.model_a, j.model_b], "it may help"
    )


def test_the_fit_maximises_the_likelihood():
    rows, wordy = biased(queries=8, models=3)
    fit = BradleyTerry(controls=[wordy, position()]).fit(rows)
    a, b = (
        [NAMES.index(n) for n in names]
        for names in zip(*((j.model_a, j.model_b) for j in rows), strict=True)
    )
    won = np.array([j.verdict == "a" for j in rows])
    x = np.array([[wordy.of(j), 1.0] for j in rows])

    def loss(params):
        odds = params[a] - params[b] + x @ params[3:]
        ridge = (
            0.1 / 8 * ((params[:3] - params[:3].mean()) ** 2).sum()
            + 0.1 / 8 * (params[3:] ** 2).sum()
        )
        return -np.log(expit(np.where(won, odds, -odds))).sum() + ridge

    best = minimize(loss, np.zeros(5), tol=1e-12).x
    assert fit.logits == pytest.approx(best[:3] - best[:3].mean(), abs=1e-4)
    assert [effect.value for effect in fit.effects] == pytest.approx(best[3:], abs=1e-4)
    assert fit.uncontrolled.logits == pytest.approx(BradleyTerry().fit(rows).logits)


@pytest.mark.parametrize("ties", ["half", "drop"])
def test_ties_are_treated_as_without_controls(ties):
    rows, wordy = biased(queries=20, models=3)
    with_ties = [
        row.model_copy(update={"verdict": "tie"}) if number % 4 == 0 else row
        for number, row in enumerate(rows)
    ]
    fit = BradleyTerry(ties=ties, controls=[wordy]).fit(with_ties)
    plain = BradleyTerry(ties=ties).fit(with_ties)
    assert fit.uncontrolled.logits == pytest.approx(plain.logits)
    without = [row for row in with_ties if row.verdict != "tie"]
    dropped = BradleyTerry(controls=[wordy]).fit(without)
    assert (fit.logits == pytest.approx(dropped.logits)) == (ties == "drop")


def test_an_irrelevant_control_changes_almost_nothing():
    rows, _ = biased(effect=0.0)
    rng = np.random.default_rng(1)
    noise = {row: rng.normal() for row in rows}
    fit = BradleyTerry(controls=[Control("noise", noise.__getitem__)]).fit(rows)
    assert fit.logits == pytest.approx(fit.uncontrolled.logits, abs=0.03)
    low, high = fit.effects[0].interval
    assert low < 0 < high


def test_controls_correct_a_biased_judge():
    rows, wordy = biased(queries=200)
    ranking = Ranking.from_judgments(rows, bradley_terry=BradleyTerry(controls=[wordy, position()]))
    assert ranking.models == tuple(NAMES)
    plain = Ranking.from_judgments(rows)
    assert plain.models != tuple(NAMES)
    assert ranking["a"].uncontrolled == plain["a"].logit
    assert ranking.notes[0].startswith("Controlled for wordiness, which is associated with +1.")
    assert "The control may remove quality: it may help." in ranking.notes[0]
    assert "quality" not in ranking.notes[1]
    assert "uncontrolled" in str(ranking)
    assert "uncontrolled" not in str(plain)
    entry = json.loads(ranking.to_json())["entries"][0]
    assert entry["uncontrolled"] == ranking["a"].uncontrolled
    assert not ranking.fragility


def texts():
    query = Query(id="q0", language="en", text="Why?", passages=(Passage(id="p", text="Because."),))
    answers = {
        "a": "##Reason: long words do not count here [p].\n##Answer: One two three [p].",
        "b": "##Answer: One.",
        "c": "##Answer: # Title\n- **One**\n- two",
    }
    runs = [
        Run(model=m, language="en", responses=(Response(query_id="q0", text=text),))
        for m, text in answers.items()
    ]
    return [query], runs


def test_controls_by_hand():
    dataset, runs = texts()
    verdict = Judgment(query_id="q0", model_a="a", model_b="b", verdict="a", judge="a-judge")
    assert length(dataset, runs).of(verdict) == pytest.approx((3 - 1) / (3 + 1))
    swapped = verdict.model_copy(update={"model_a": "b", "model_b": "a"})
    assert length(dataset, runs).of(swapped) == pytest.approx(-0.5)
    assert formatting(dataset, runs).of(verdict) == 0
    assert formatting(dataset, runs).of(verdict.model_copy(update={"model_a": "c"})) == 1
    assert position().of(swapped) == 1
    family = same_family({"a": "x", "a-judge": "x"})
    assert [family.of(verdict), family.of(swapped)] == [1, -1]
    with pytest.raises(UnknownNameError, match="unknown model 'z' in the runs"):
        length(dataset, runs).of(verdict.model_copy(update={"model_a": "z"}))


def test_a_control_that_follows_from_models_is_an_error():
    rows, _ = biased(queries=5)
    family_control = same_family({"a": "x", "j": "x"})  # with one judge it follows from the models
    with pytest.raises(JudgmentError, match="cannot separate same family from quality"):
        BradleyTerry(controls=[family_control]).fit(rows)


def test_unsupported_uses_of_controls_are_errors():
    rows, wordy = biased(queries=5)
    with pytest.raises(SettingError, match="davidson"):
        BradleyTerry(ties="davidson", controls=[wordy])
    model = BradleyTerry(controls=[position()])
    with pytest.raises(SettingError, match="not support controls"):
        model.bootstrap(rows)
    with pytest.raises(SettingError, match="not support controls"):
        fragility(rows, bradley_terry=model)
    assert model.fit(Judgments.from_records(rows)).effects[0].value > 0

"""The audit of optimisers, on a board that withstands them and on one that does not."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.arena import Judgments
from mirage.dataset import MirageDataset
from mirage.features import FeatureSuite
from mirage.leaderboard import OPTIMISERS, Leaderboard, leak_audit
from mirage.models import Judgment, Response, Run

QUERIES = MirageDataset.bundled("sw")


def citing(share: float, seed: int) -> Run:
    """Return answers that cite relevant passages with some chance, and sometimes another one."""
    rng = np.random.default_rng(seed)
    responses = []
    for query in QUERIES:
        cited = [id_ for id_ in query.relevant if rng.random() < share]
        cited += [id_ for id_ in query.passage_ids[:1] if rng.random() < 0.2]
        text = "##Reason: kwa sababu\n##Answer: jibu " + " ".join(f"[{id_}]" for id_ in cited)
        responses.append(Response(query_id=query.id, text=text))
    return Run(model=f"cites {share:g}", language="sw", responses=tuple(responses))


@pytest.fixture(scope="module")
def leaky() -> Leaderboard:
    """Return a board whose only feature is whether relevant passages are cited."""
    runs = [citing(share, i) for i, share in enumerate((0.1, 0.3, 0.5, 0.7, 0.9))]
    rng = np.random.default_rng(0)
    judgments = [
        Judgment(
            query_id=query.id,
            model_a=a.model,
            model_b=b.model,
            verdict="b" if rng.random() < 0.5 + 0.1 * (j - i) else "a",
        )
        for query in QUERIES
        for i, a in enumerate(runs)
        for j, b in enumerate(runs)
        if i < j
    ]
    suite = FeatureSuite(["citation_recall@10"])
    return Leaderboard.from_judgments(
        Judgments.from_records(judgments), QUERIES, runs, suite=suite, progress=False
    )


@pytest.mark.slow
def test_citing_everything_leaks_on_a_board_of_citations(
    leaky: Leaderboard,
) -> None:
    audit = leak_audit(leaky, progress=False)
    assert {row.optimiser for row in audit} == set(OPTIMISERS)
    by_name = {row.optimiser: row for row in audit}
    assert {"echo", "everything", "titles"} <= {row.optimiser for row in audit.leaks}
    assert by_name["everything"].above >= 0.8
    assert by_name["null"].above < 0.5
    assert not by_name["null"].leaks
    assert [row.logit for row in audit] == sorted((r.logit for r in audit), reverse=True)
    assert "leaks" in str(audit)


@pytest.mark.slow
def test_no_optimiser_leaks_on_a_bundled_board() -> None:
    some = {name: OPTIMISERS[name] for name in ("echo", "nearest_sentence")}
    audit = leak_audit(Leaderboard.bundled("sw"), some, progress=False)
    assert audit.leaks == ()
    assert max(row.above for row in audit) < 0.5


def test_optimisers_see_no_gold() -> None:
    query = QUERIES["q01"]
    for name, write in OPTIMISERS.items():
        assert write(query) == write(query.without_gold()), name
        assert write(query).startswith("##Reason:")

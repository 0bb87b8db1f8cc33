"""Test whether a new version of a system is better, in what, and on which questions.

    python examples/compare_two_versions.py

Both versions answer the same questions, so their features are compared question by question.
"""

import argparse

import numpy as np

from mirage import Leaderboard, Passage, Query
from mirage.text import split_sentences


def retrieve(query: Query) -> Passage:
    """Return the passage with most words in common with the question."""
    words = set(query.text.lower().split())
    return max(query.passages, key=lambda p: len(words & set(p.text.lower().split())))


def old(query: Query) -> str:
    """Return the whole passage, and one citation at its end."""
    best = retrieve(query)
    return f"##Reason: {best.title}\n##Answer: {best.text} [{best.id}]"


def new(query: Query) -> str:
    """Return the first two sentences of the passage, with a citation in each."""
    best = retrieve(query)
    cited = [f"{text.rstrip('.')} [{best.id}]." for text in split_sentences(best.text, "en")[:2]]
    return f"##Reason: {best.title}\n##Answer: {' '.join(cited)}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    ranking = Leaderboard.bundled("en").rank_many({"old": old, "new": new})
    for name in ("old", "new"):
        place = ranking[name]
        low, high = place.interval
        print(f"{name}: rank {place.rank}, logit {place.logit:.2f}, 95 % [{low:.2f}, {high:.2f}]")
    print(f"P(new is better than old) = {ranking.p_better('new', 'old'):.2f}\n")

    evidence = ranking.evidence
    assert evidence is not None
    assert evidence.dataset is not None  # a ranking of systems has what it was made from
    tables = evidence.tables
    change = (tables["new"].values - tables["old"].values).round(2)  # (questions, features)
    print(f"{'mean of':20}{'old':>8}{'new':>8}   better on  worse on")
    for column, feature in enumerate(tables["new"].features):
        before, after = (ranking[name].features[feature] for name in ("old", "new"))
        up, down = (change[:, column] > 0).sum(), (change[:, column] < 0).sum()
        print(f"{feature:20}{before:8.2f}{after:8.2f}{up:12}{down:10}")

    answer = tables["new"].features.index("answer_match")
    row = np.nanargmin(change[:, answer])  # where no passage answers there is nothing to match
    query = evidence.dataset[int(row)]
    print(f"\n{query.text} ({query.id}, answer_match {change[row, answer]:+.2f})")
    for name in ("old", "new"):
        print(f"\n{name}:\n{evidence.runs[name][query.id].text}")

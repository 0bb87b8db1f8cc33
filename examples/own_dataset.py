"""Measure a system on your own questions: which features can be computed, and why others cannot.

    python examples/own_dataset.py

Features need no leaderboard. If a question lacks data, such as a reference, the value is NaN with a
reason, and not zero. To rank on your own questions, have some systems judged on them, as in
train_a_surrogate.py.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from mirage import FeatureSuite, MirageDataset, Passage, Query, respond

PASSAGES = (
    Passage(id="help/12#0", text="You can return shoes within 30 days, if you have not worn them."),
    Passage(id="help/12#1", text="Postage is free from 50 euros. Returns cost 4 euros."),
    Passage(id="help/3#0", text="Our shop in Kiel is open from 9 to 18, Monday to Saturday."),
)
QUERIES = (
    Query(
        id="q1",
        language="en",
        text="How long can I return shoes?",
        passages=PASSAGES,
        relevant=("help/12#0",),
        reference="##Answer: You can return unworn shoes within 30 days [help/12#0].",
        answerable=True,
        answers=(("30 days", "thirty days"),),
    ),
    Query(  # nobody wrote a reference yet
        id="q2",
        language="en",
        text="Is your shop open on Sundays?",
        passages=PASSAGES,
        relevant=("help/3#0",),
    ),
    Query(  # nor said what is relevant
        id="q3",
        language="en",
        text="What does it cost to return something?",
        passages=PASSAGES,
    ),
)


def my_rag(query: Query) -> str:
    """Quote the first passage."""
    return f"##Answer: {query.passages[0].text} [1]"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "help-centre.jsonl"
        MirageDataset(QUERIES).save(file)  # a question a line: look at it, add to it
        dataset = MirageDataset.load(file)
    table = FeatureSuite.default("en").score(dataset, respond(my_rag, dataset))
    print(f"{'':20}  mean  {'    '.join(table.query_ids)}")
    for feature, mean in zip(table.features, table.mean(), strict=True):
        print(f"{feature:20}{mean:6.2f}", *(f"{value:5.2f}" for value in table[feature]))
    for (query_id, feature), reason in table.reasons.items():
        print(f"{query_id} has no {feature}: {reason}")

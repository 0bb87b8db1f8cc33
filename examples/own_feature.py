"""Add your own metric: any function of a question and a response.

    python examples/own_feature.py

An AnsweredFeature is a function of the parsed response: the answer without its citations, its
sentences, and the passages that each of them cites. If there is nothing to measure, it returns
NotComputed with a reason, and not zero.
"""

import argparse
import re
from collections.abc import Callable

import numpy as np

from mirage import FeatureSuite, MirageDataset, Query, Response, respond
from mirage.features import Answered, NotComputed
from mirage.features.base import AnsweredFeature


def names_the_answer(query: Query, response: Response) -> float | NotComputed:
    """Return whether the response contains the short answers of the query."""
    if not query.answers:
        return NotComputed("no passage answers the question")
    text = (response.text or "").lower()
    return float(all(any(form.lower() in text for form in forms) for forms in query.answers))


def numbers_shown(item: Answered) -> float | NotComputed:
    """Return the share of the answer's numbers that occur in a passage."""
    numbers = re.findall(r"\d+", item.parsed.answer_text)
    shown = re.findall(r"\d+", " ".join(passage.text for passage in item.query.passages))
    if not numbers:
        return NotComputed("the answer has no number")
    return sum(number in shown for number in numbers) / len(numbers)


DATASET = MirageDataset.bundled("en")
SYSTEMS: dict[str, dict[str, str] | Callable[[Query], str]] = {
    "reference": {query.id: query.reference or "" for query in DATASET},
    "first passage": lambda query: f"##Answer: {query.passages[0].text} [1]",
    "made up": lambda query: f"##Answer: It is {query.passages[2].title}, since 1742 [3].",
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    mine = AnsweredFeature("numbers_shown", numbers_shown)
    suite = FeatureSuite(["citation_recall@10", names_the_answer, mine], "en")
    print(f"{'':14}" + "".join(f"{name:>26}" for name in suite.names))
    for name, system in SYSTEMS.items():
        table = suite.score(DATASET, respond(system, DATASET, name))
        known = np.count_nonzero(~np.isnan(table.values), axis=0)
        cells = zip(table.mean(), known, strict=True)
        print(f"{name:14}" + "".join(f"{mean:12.2f} on {n:2} queries" for mean, n in cells))

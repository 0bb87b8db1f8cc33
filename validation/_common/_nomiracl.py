"""The arena of NoMIRACL's ten LLMs: features, tournaments and judgments by language."""

from __future__ import annotations

from dataclasses import dataclass

from _shared import DATA

from mirage import BradleyTerry, FeatureSuite, FeatureTable, Judgments
from mirage.arena import Tournaments
from mirage.sources import nomiracl

LANGUAGES = ("ar", "de", "en", "es", "fa", "id", "sw", "zh")
MODELS = 10
FEATURES = (
    *nomiracl.FEATURES,
    "answer_char3",
    "answer_length",
    "passage_coverage",
    "unknown_facts",
)
REFUSAL = ("abstention", "invention")


@dataclass(frozen=True)
class Arena:
    """The features, tournaments and judgments of one language."""

    tables: list[FeatureTable]
    tournaments: Tournaments
    judgments: Judgments


def arena(code: str) -> Arena:
    """Return the arena of one language of NoMIRACL."""
    dataset, runs, records = nomiracl.load(DATA / "nomiracl", code)
    suite = FeatureSuite((*FEATURES, *REFUSAL), code)
    judgments = Judgments.from_records(records)
    drawn = BradleyTerry().bootstrap(
        judgments, tournaments=200, queries=100, seed=0, progress=False
    )
    tables = [suite.score(dataset, run, progress=False) for run in runs.values()]
    return Arena(tables, drawn, judgments)

"""Queries with passages and short answers to train on, small enough for a small model."""

from __future__ import annotations

from mirage import MirageDataset
from mirage.models import Passage, Query

PLACES = ("Kisumu", "Turku", "Lagos", "Quito", "Osaka", "Lyon", "Medan", "Patna")


def dataset(count: int = 24, *, start: int = 0) -> MirageDataset:
    """Return questions about where people live; one of two passages has the answer."""
    return MirageDataset(
        (
            Query(
                id=f"q{i}",
                language="en",
                text=f"Where does person {i} live?",
                passages=(
                    Passage(id=f"{i}#0", text=f"Person {i} lives in {PLACES[i % len(PLACES)]}."),
                    Passage(id=f"{i}#1", text=f"Person {i} has a boat."),
                ),
                relevant=(f"{i}#0",),
                reference=f"##Reason: Says so [2].\n##Answer: In {PLACES[i % len(PLACES)]} [1].",
                answers=((PLACES[i % len(PLACES)], f"the city of {PLACES[i % len(PLACES)]}"),),
            )
            for i in range(start, start + count)
        ),
        name="places",
    )

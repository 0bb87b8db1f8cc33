"""The page on which a test set is reviewed."""

from __future__ import annotations

import re

from hostile import STRINGS

from mirage import MirageDataset, Passage, Query
from mirage.building import Draft, Fault, RejectedItem
from mirage.report import render_review


def item(text: str) -> Query:
    return Query(
        id="q1",
        language="en",
        text=text,
        passages=(Passage(id="a#0", text=f"The Nile, not the Niger. {text}"),),
        relevant=("a#0",),
        answers=(("Nile", "the Nile"),),
        wrong_answers=(("Niger",),),
        metadata={"kind": "single", "document": "a", "closed_book": "right"},
    )


def test_answers_are_marked_in_the_passages_and_wrong_ones_otherwise() -> None:
    page = render_review(MirageDataset([item("Which river?")], name="tests"))
    assert "<mark>The Nile</mark>, not the " in page
    assert '<mark class="fault">Niger</mark>.' in page
    assert 'data-item="q1"' in page
    assert "known without passages" in page
    assert page.count("<script>") == 1


def test_what_was_rejected_is_listed_with_its_reasons() -> None:
    fault = Fault(kind="duplicate", detail="of q1")
    draft = Draft(question="Which stream?")
    left_out = RejectedItem(id="q2", kind="single", faults=(fault,), passages=("a#0",), draft=draft)
    page = render_review(MirageDataset([item("Which?")], name="tests"), rejected=[left_out])
    assert "Which stream?" in page
    assert re.search(r"duplicate: <bdi>of q1</bdi>", page)


def test_hostile_strings_stay_strings() -> None:
    for text in STRINGS:
        if text.strip() and len(text) < 5000 and not re.search("[\ud800-\udfff]", text):
            page = render_review(MirageDataset([item(text)], name="tests"))
            assert page.count("<script>") == 1
            assert "<img" not in page
            assert "<iframe" not in page

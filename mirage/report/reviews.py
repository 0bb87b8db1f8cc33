"""A page to review a test set: items with their passages, to be struck by a person who reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from mirage.building import RejectedItem
from mirage.building.instructions import find_instructions
from mirage.dataset import MirageDataset
from mirage.languages import Language
from mirage.models import Passage, Query
from mirage.report._elements import Child, tag
from mirage.report._file import save, whole

__all__ = ["render_review", "write_review"]


def write_review(
    dataset: MirageDataset, path: str | Path, *, rejected: Iterable[RejectedItem] = ()
) -> None:
    """Write a page with all items of a test set, each with a box to strike it.

    Answers and wrong answers are marked where passages hold them word for word. An item that no
    passage answers says so, and an item with a passage that may give instructions to its reader or
    a model has a warning. A
    button gives the decisions as a file, which :func:`mirage.building.strike` applies. The page
    needs no server and sends nothing.

    Args:
        dataset: the items.
        path: the file to write.
        rejected: those that the checks rejected, to be listed with their reasons.

    Raises:
        MirageError: the file cannot be written.
    """
    save(render_review(dataset, rejected=rejected), path)


def render_review(dataset: MirageDataset, *, rejected: Iterable[RejectedItem] = ()) -> str:
    """The text of the file that :func:`write_review` writes, with the same ``rejected``."""
    left_out = list(rejected)
    entry = Language.of(dataset.language)
    lead = (
        f"{len(dataset)} items in {entry.name}. Read each with its passages, strike what is wrong, "
        "and save the decisions."
    )
    button = tag("button", "Save decisions", type="button", id="save")
    count = tag("span", id="count", class_="hint")
    parts: list[Child] = [tag("p", button, " ", count, class_="turn")]
    parts.append(tag("div", (_item(query, entry) for query in dataset), class_="cards"))
    if left_out:
        parts.append(tag("h2", "Rejected by the checks", id="rejected"))
        parts.append(tag("div", map(_rejected, left_out), class_="cards"))
    main = tag(
        "main",
        tag("div", parts, id="overview"),
        tag("article", id="page", hidden=True),
        id="main",
    )
    links = [tag("a", "Items", href="#main")]
    links += [tag("a", "Rejected", href="#rejected")] if left_out else []
    navigation = tag("nav", links, aria_label="Parts")
    data = {"dataset": dataset.name, "items": list(dataset.query_ids)}
    return whole(f"Review of {dataset.name}", lead, navigation, main, data, "review.js")


def _item(query: Query, entry: Language) -> Element:
    writing = {"lang": entry.code, "dir": entry.direction}
    box = f"strike-{query.id}"
    facts = {
        "kind": query.metadata.get("kind"),
        "document": query.metadata.get("document", query.cluster),
        "known without passages": query.metadata.get("closed_book"),
    }
    chips = (
        tag("div", tag("dt", name), tag("dd", tag("bdi", it))) for name, it in facts.items() if it
    )
    return tag(
        "section",
        tag("h3", tag("bdi", f"{query.id}: {query.text}", **writing)),
        tag("dl", chips, class_="chips facts"),
        _warnings(query),
        _forms("Answers", query.answers, writing),
        _forms("Wrong answers", query.wrong_answers, writing),
        tag("p", query.reference or "", class_="response reference", **writing),
        (_passage(passage, query, writing) for passage in query.passages),
        tag(
            "p",
            tag("label", tag("input", type="checkbox", id=box, data_item=query.id), " Strike"),
            " ",
            tag("input", type="text", placeholder="why", aria_label=f"why {query.id} is struck",
                data_note=query.id),
        ),
        class_="card",
    )  # fmt: skip


def _warnings(query: Query) -> Iterator[Element]:
    """Yield what to look at before the item itself."""
    if query.answerable is False:
        yield tag(
            "p",
            "No passage answers this question. A right response says that it cannot be answered.",
            class_="notice",
        )
    for passage in query.passages:
        finding = find_instructions(passage.titled_text)
        if finding is not None:
            yield tag(
                "p",
                tag("b", "Warning: "),
                "passage ",
                tag("bdi", passage.id),
                " holds text that reads like an instruction to its reader or a model: ",
                tag("q", tag("bdi", finding.excerpt)),
                " Strike the item if it follows that text.",
                class_="notice warning",
            )


def _forms(title: str, answers: Iterable[tuple[str, ...]], writing: Mapping[str, Any]) -> Child:
    lines = [tag("li", tag("bdi", " | ".join(forms), **writing)) for forms in answers]
    return tag("div", tag("p", tag("b", title)), tag("ul", lines)) if lines else None


def _passage(passage: Passage, query: Query, writing: Mapping[str, Any]) -> Element:
    relevant = passage.id in query.relevant
    words = " (relevant)" if relevant else ""
    title = tag("summary", tag("bdi", passage.id), words, " ", tag("bdi", passage.title))
    body = tag("p", _marked(passage.text, query), class_="passage", **writing)
    return tag("details", title, body, open=relevant or query.answerable is False)


def _marked(text: str, query: Query) -> Iterator[Child]:
    """The text with its answers marked, the longest of two that begin at one place."""
    right = {form.casefold() for forms in query.answers for form in forms}
    wrong = {form.casefold() for forms in query.wrong_answers for form in forms}
    forms = sorted(right | wrong, key=len, reverse=True)
    if not forms:
        yield text
        return
    cursor = 0
    for match in re.finditer("|".join(map(re.escape, forms)), text, re.IGNORECASE):
        yield text[cursor : match.start()]
        is_right = match[0].casefold() in right
        yield tag("mark", match[0], class_=None if is_right else "fault")
        cursor = match.end()
    yield text[cursor:]


def _rejected(item: RejectedItem) -> Element:
    reasons = (
        tag("li", f"{fault.kind}: " if fault.detail else fault.kind, tag("bdi", fault.detail))
        for fault in item.faults
    )
    question = "" if item.draft is None else item.draft.question
    return tag(
        "section",
        tag("h3", tag("bdi", f"{item.id} ({item.kind}): {question}")),
        tag("ul", reasons),
        tag("p", tag("bdi", ", ".join(item.passages)), class_="hint"),
        class_="card",
    )

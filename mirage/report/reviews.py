"""Write a page on which a person reviews the items of a test set and strikes out bad ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from mirage.dataset import MirageDataset
from mirage.languages import Language
from mirage.models import Passage, Query
from mirage.report.elements import Child, tag
from mirage.report.file import save, whole
from mirage.testsets.instructions import find_instructions
from mirage.testsets.item_sets import RejectedItem


def write_review(
    dataset: MirageDataset, path: str | Path, *, rejected: Iterable[RejectedItem] = ()
) -> None:
    """Write a page with all items of a test set, each with a checkbox to strike it out.

    Answers and wrong answers are highlighted in the passages that contain them word for word. A
    notice marks items whose question no passage answers. A warning marks items with a passage that
    may give instructions to its reader or a model. A button saves the decisions to a file, and
    :func:`mirage.testsets.strike` removes the struck items from the test set. The page needs no
    server and sends nothing.

    Args:
        dataset: The items.
        path: Path of the file.
        rejected: Items that the checks rejected, which are listed with reasons. By default there
            are none.

    Raises:
        MirageError: If the file cannot be written.

    Example:
        >>> from mirage import MirageDataset
        >>> from mirage.report import write_review
        >>> write_review(MirageDataset.bundled("en"), "review.html")  # doctest: +SKIP
    """
    save(render_review(dataset, rejected=rejected), path)


def render_review(dataset: MirageDataset, *, rejected: Iterable[RejectedItem] = ()) -> str:
    """Return the page that :func:`write_review` writes, as a string.

    Args:
        dataset: The items.
        rejected: Items that the checks rejected, which are listed with reasons.
    """
    left_out = list(rejected)
    entry = Language.of(dataset.language)
    lead = (
        f"{len(dataset)} items in {entry.name}. Read each item with its passages, strike wrong "
        "items, and save the decisions."
    )
    button = tag("button", "Save decisions", type="button", id="save")
    count = tag("span", id="count", class_="hint")
    parts: list[Child] = [tag("p", button, " ", count, class_="turn")]
    parts.append(tag("div", (_card(query, entry) for query in dataset), class_="cards"))
    if left_out:
        parts.append(tag("h2", "Rejected by the checks", id="rejected"))
        parts.append(tag("div", map(_rejected_card, left_out), class_="cards"))
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


def _card(query: Query, entry: Language) -> Element:
    writing = {"lang": entry.code, "dir": entry.direction}
    box = f"strike-{query.id}"
    facts = {
        "kind": query.metadata.get("kind"),
        "document": query.metadata.get("document", query.cluster),
        "answered without passages": query.metadata.get("closed_book"),
    }
    chips = (
        tag("div", tag("dt", name), tag("dd", tag("bdi", fact)))
        for name, fact in facts.items()
        if fact
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
    """Yield the notices and warnings of an item."""
    if query.answerable is False:
        yield tag(
            "p",
            "No passage answers this question. A correct response abstains from answering it.",
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
                " contains text that reads like an instruction to its reader or a model: ",
                tag("q", tag("bdi", finding.excerpt)),
                " Strike the item if it follows that text.",
                class_="notice warning",
            )


def _forms(title: str, answers: Iterable[tuple[str, ...]], writing: Mapping[str, Any]) -> Child:
    lines = [tag("li", tag("bdi", " | ".join(forms), **writing)) for forms in answers]
    return tag("div", tag("p", tag("b", title)), tag("ul", lines)) if lines else None


def _passage(passage: Passage, query: Query, writing: Mapping[str, Any]) -> Element:
    relevant = passage.id in query.relevant
    note = " (relevant)" if relevant else ""
    title = tag("summary", tag("bdi", passage.id), note, " ", tag("bdi", passage.title))
    body = tag("p", _highlight(passage.text, query), class_="passage", **writing)
    return tag("details", title, body, open=relevant or query.answerable is False)


def _highlight(text: str, query: Query) -> Iterator[Child]:
    """Yield the pieces of a passage's text as HTML, with right and wrong answers highlighted.

    If several answers match at one position, the longest match is highlighted.
    """
    right_forms = {form.casefold() for forms in query.answers for form in forms}
    wrong_forms = {form.casefold() for forms in query.wrong_answers for form in forms}
    forms = sorted(right_forms | wrong_forms, key=len, reverse=True)
    if not forms:
        yield text
        return
    cursor = 0
    for match in re.finditer("|".join(map(re.escape, forms)), text, re.IGNORECASE):
        yield text[cursor : match.start()]
        is_right = match[0].casefold() in right_forms
        yield tag("mark", match[0], class_=None if is_right else "fault")
        cursor = match.end()
    yield text[cursor:]


def _rejected_card(item: RejectedItem) -> Element:
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

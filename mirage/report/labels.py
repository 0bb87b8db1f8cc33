"""The page on which a person labels answers, or pairs of answers, without knowing the systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirage.languages import Language
from mirage.report.elements import tag
from mirage.report.file import whole


def render_labels(task: Mapping[str, Any], *, offline: bool = False) -> str:
    """Return the page for one rater as HTML text.

    The page shows one item at a time. It sends each label to the server that it came from, and
    shows the next item when the server has stored the label.

    Args:
        task: The items in the order of the page, the possible labels, the name of the rater, and
            the labels given so far, as :meth:`mirage.labelling.session.Session.data` returns them.
        offline: Whether the page works without a server: it then keeps the labels in the browser,
            and a button saves them to a file.
    """
    languages = {item["language"]: Language.of(item["language"]) for item in task["items"]}
    directions = {code: entry.direction for code, entry in languages.items()}
    count = len(task["items"])
    many = "" if count == 1 else "s"
    lead = f"{count} item{many} for {task['rater']}. Press the number of a label, or tap it."
    overview = tag(
        "div",
        tag("progress", id="progress", max=count, value=0, aria_label="Labelled items"),
        tag("p", id="count", class_="hint"),
        tag("article", id="item", class_="labelling", tabindex="-1", aria_labelledby="question"),
        tag("div", id="labels", class_="labels", role="group", aria_label="Labels"),
        tag("p", id="problem", class_="error", role="alert"),
        tag(
            "p",
            tag("button", "Back", type="button", id="back"),
            tag("button", "Next", type="button", id="next"),
            tag("button", "First without a label", type="button", id="open"),
            tag(
                "button", "Save the labels to a file", type="button", id="save", hidden=not offline
            ),
            class_="turn steps",
        ),
        tag(
            "p",
            "Keys: a digit gives a label; ← and → show the previous and the next item.",
            class_="hint wide",
        ),
        id="overview",
    )
    main = tag("main", overview, tag("article", id="page", hidden=True), id="main")
    data = {**task, "directions": directions, "offline": offline}
    title = "Label pairs" if count and len(task["items"][0]["texts"]) > 1 else "Label answers"
    return whole(title, lead, None, main, data, "label.js", connect=not offline)

"""Write the static site of a board: one HTML page, and JSON files that it loads when needed."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from mirage._base.files import make_folder, write_text
from mirage.boards._exports import write_exports
from mirage.boards.folders import BOARD_FILE, BoardFolder, Entry
from mirage.boards.records import SURROGATE, Version
from mirage.boards.rules import RULES, marks, tries
from mirage.boards.scores import pooled, rank_ranges
from mirage.boards.views import ALL, Listing, Row, Site
from mirage.errors import MirageError
from mirage.languages import Language
from mirage.ranking import Ranking
from mirage.report.elements import Child, cut, label, tag
from mirage.report.file import save, whole
from mirage.report.sections import column, scrolling, table

SURROGATE_ABOUT = (
    "A rank shows how well a system answers the bundled general-knowledge questions from given "
    "passages, not how good it is on your documents."
)
"""Explanation of the ranks on a board that is scored by the bundled surrogates."""

_INLINE = 1_500_000
"""Largest total size of the views, in characters, for which the page contains all of them."""


def write_board(board: BoardFolder, rankings: Mapping[str, Ranking], out: Path) -> Site:
    """Write the site of a board into a folder.

    Args:
        board: The board.
        rankings: The rankings from :func:`mirage.boards.scores.rank_submissions`.
        out: Folder of the site. It is created if it does not exist; an earlier site in it is
            replaced.

    Returns:
        The content of the page.

    Raises:
        MirageError: The folder contains files but no site of a board, or cannot be written.
    """
    site = _site(board, rankings)
    _clear(out)
    write_site(site, out)
    for code in board.file.versions:
        _write_responses(board, code, out)
    write_exports(site, board, out)
    write_text(out / BOARD_FILE, board.manifest().model_dump_json(indent=2) + "\n")
    return site


def _clear(out: Path) -> None:
    """Delete an earlier site, which may contain responses that must no longer be shown."""
    if out.is_dir() and any(out.iterdir()) and not (out / BOARD_FILE).is_file():
        raise MirageError(f"{out}: the folder contains other files; choose a new folder")
    for name in ("data", "every_eval_ever"):
        if (out / name).is_dir() and not (out / name).is_symlink():
            shutil.rmtree(out / name)
    make_folder(out / "data")


# What the page shows ------------------------------------------------------------------------------


def _site(board: BoardFolder, rankings: Mapping[str, Ranking]) -> Site:
    numbers = tries(board)
    views: dict[str, list[Row]] = {}
    means = pooled(dict(rankings))
    if means is not None:
        by_surrogate = board.file.judge == SURROGATE
        ranges = (rank_ranges(means, means.models) if by_surrogate else None) or (
            means.rank_intervals
        )
        views[ALL] = [
            Row(id_, means.mean_logits[id_], means.intervals[id_], ranges[id_])
            for id_ in means.models
        ]
    for code, ranking in rankings.items():
        remarks = marks(board, code)
        views[code] = [
            Row(
                entry.model,
                entry.logit,
                entry.interval,
                entry.rank_interval,
                entry.failed,
                [*_unlike(entry.unfamiliar), *remarks.get(entry.model, ())],
            )
            for entry in ranking
        ]
    return Site(
        board.file.title,
        [
            Listing(
                entry.id,
                entry.record.model,
                entry.record.submitter,
                entry.record.date.isoformat(),
                *numbers[entry.id],
                entry.record.link,
                [code for code in board.file.versions if _is_shown(board, entry, code)],
            )
            for entry in board.entries
        ],
        views,
        board.file.versions,
        board.file.rules,
        board.file.removed,
        list(_unranked(board, rankings)),
        SURROGATE_ABOUT if board.file.judge == SURROGATE else "",
    )


def _unlike(why: str) -> list[str]:
    return [f"unlike every system that the scores were learned from: {why}"] if why else []


def _unranked(
    board: BoardFolder, rankings: Mapping[str, Ranking]
) -> Iterable[tuple[str, str, str]]:
    """Yield the submission id, language code and reason for each missing rank."""
    for entry in board.entries:
        for code, digest in entry.record.data.items():
            version = board.file.versions.get(code)
            if version is None or digest != version.data:
                yield entry.id, code, f"answers an earlier version of the queries, {digest[:12]}"
            elif code not in rankings or entry.id not in rankings[code]:
                yield entry.id, code, "not judged yet"


def _is_shown(board: BoardFolder, entry: Entry, code: str) -> bool:
    """Return whether the site shows the responses of a submission to the current queries."""
    is_current = entry.record.data.get(code) == board.file.versions[code].data
    return is_current and entry.record.show_responses


# Files --------------------------------------------------------------------------------------------


def write_site(site: Site, out: Path) -> None:
    """Write ``index.html``, and ``data/VIEW.json`` for each view.

    A view is the table of one language, or of the means over all languages.

    If all views together are small, the page contains them and works when it is opened as a file.
    Otherwise it contains only the first view and loads the others over HTTP. It always loads the
    responses over HTTP.

    Args:
        site: The content of the page.
        out: Folder of the site.
    """
    make_folder(out / "data")
    index = {listing.id: number for number, listing in enumerate(site.listings)}
    views = {name: _columns(rows, index) for name, rows in site.views.items()}
    texts = {name: _compact(view) for name, view in views.items()}
    for name, text in texts.items():
        write_text(out / "data" / f"{name}.json", text)
    inline = sum(map(len, texts.values())) <= _INLINE
    first = next(iter(views), None)
    data = {
        "title": label(site.title),
        "level": f"{100 * site.level:g}",
        "submissions": _listing_columns(site.listings),
        "versions": _version_texts(site.versions),
        "names": {code: Language.of(code).name for code in site.versions},
        "directions": {code: Language.of(code).direction for code in site.versions},
        "order": list(views),
        "views": {name: view for name, view in views.items() if inline or name == first},
    }
    save(whole(site.title, _lead(site), _navigation(site), _main(site), data, "board.js",
               connect=True), out / "index.html")  # fmt: skip


def _columns(rows: Sequence[Row], index: Mapping[str, int]) -> dict[str, Any]:
    """Return the rows of a view (a table on the page) as columns by name, which take less space.

    ``index`` maps the id of each submission to its position in the list of submissions.
    """
    return {
        "row": [index[row.id] for row in rows],
        "best": [row.ranks and row.ranks[0] for row in rows],
        "worst": [row.ranks and row.ranks[1] for row in rows],
        "logit": [_short(row.logit) for row in rows],
        "low": [_short(row.interval[0]) for row in rows],
        "high": [_short(row.interval[1]) for row in rows],
        "failed": [row.failed for row in rows],
        "remarks": {
            number: [cut(text, 300)[0] for text in row.remarks]
            for number, row in enumerate(rows)
            if row.remarks
        },
    }


def _listing_columns(listings: Sequence[Listing]) -> dict[str, list[Any]]:
    """Return the fields of the submissions as columns by name.

    To save space, ``sets`` has each distinct list of languages once, and ``shown`` has a position
    in ``sets`` for each submission.
    """
    columns = {name: [getattr(row, name) for row in listings] for name in Listing._fields}
    sets = list(dict.fromkeys(map(tuple, columns["shown"])))
    positions = {languages: position for position, languages in enumerate(sets)}
    return columns | {"shown": [positions[tuple(row)] for row in columns["shown"]], "sets": sets}


def _short(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _write_responses(board: BoardFolder, code: str, out: Path) -> None:
    """Write the responses that may be shown, one file per submission, and the questions."""
    shown = [entry for entry in board.entries if _is_shown(board, entry, code)]
    if not shown:
        return
    make_folder(out / "data" / "queries")
    questions = {query.id: query.text for query in board.datasets[code]}
    write_text(out / "data" / "queries" / f"{code}.json", _compact(questions))
    for entry in shown:
        folder = out / "data" / "responses" / entry.id
        make_folder(folder)
        rows = [
            {"query": answer.response.query_id}
            | (
                {"error": answer.response.error}
                if answer.response.text is None
                else {"text": answer.response.text}
            )
            for answer in entry.answers[code]
        ]
        write_text(folder / f"{code}.json", _compact(rows))


# The page -----------------------------------------------------------------------------------------


def _lead(site: Site) -> str:
    submissions = len(site.listings)
    return (
        f"{submissions} submission{'s' * (submissions != 1)} in {len(site.versions)} "
        f"language{'s' * (len(site.versions) != 1)}"
    )


def _version_texts(versions: Mapping[str, Version]) -> dict[str, str]:
    """Return, for each table on the page, a text that names its judge and version of queries."""
    texts = {
        code: f"queries {version.data[:12]}, {label(version.judge)}"
        for code, version in versions.items()
    }
    digest = hashlib.sha256(_compact(sorted(texts.items())).encode()).hexdigest()[:12]
    return texts | {ALL: f"{len(texts)} languages, {digest}"}


def _navigation(site: Site) -> Element:
    parts = {"#board": "Board", "#rules": "Rules"}
    if site.unranked:
        parts["#unranked"] = "Not ranked"
    if site.removed:
        parts["#removed"] = "Removed"
    links = (tag("li", tag("a", title, href=href)) for href, title in parts.items())
    return tag("nav", tag("ul", links), aria_label="Sections")


def _main(site: Site) -> Element:
    parts: list[Child] = []
    if site.about:
        parts.append(tag("p", label_sentences(site.about), class_="hint about"))
    parts += _board(site)
    parts.append(
        tag(
            "section",
            tag("h2", "Rules", id="rules"),
            tag("ul", (tag("li", rule) for rule in (*RULES, *map(label_sentences, site.rules)))),
        )
    )
    if site.unranked:
        rows = [(id_, f"{Language.of(code).name}: {reason}") for id_, code, reason in site.unranked]
        parts.append(_section("unranked", "Not ranked", ("Submission", "Reason"), rows))
    if site.removed:
        gone_rows = [
            (gone.id, gone.model, gone.submitter, gone.date.isoformat(), gone.reason)
            for gone in site.removed
        ]
        heads = ("Submission", "Model", "Submitter", "Removed", "Reason")
        parts.append(_section("removed", "Removed", heads, gone_rows))
    return tag(
        "main",
        tag("div", parts, id="overview"),
        tag("article", id="page", hidden=True),
        id="main",
    )


def label_sentences(text: str) -> str:
    """Return the first 1,000 characters of a text from the board file, made valid for HTML."""
    return cut(text, 1000)[0]


def _board(site: Site) -> list[Child]:
    """Return the controls and the empty table of a view; the page's script fills the table."""
    names = {ALL: "All languages"} | {code: Language.of(code).name for code in site.versions}
    options = (tag("option", names[view], value=view) for view in site.views)
    controls = tag(
        "div",
        tag("label", "View ", tag("select", options, id="view")),
        tag(
            "label",
            tag("span", "Filter by model, submitter or submission", class_="unseen"),
            tag(
                "input",
                type="search",
                id="search",
                placeholder="Filter",
                autocomplete="off",
            ),
        ),
        tag("output", class_="count", id="count", aria_live="polite"),
        class_="controls",
    )
    heads = [
        column("Ranks", class_="number"),
        column(f"{100 * site.level:g} % interval of the logit", class_="drawn"),
        column("Logit", class_="number wide"),
        column("Model", class_="name"),
        column("Submitter", class_="wide"),
        column("Date", class_="wide"),
        column("Submission", class_="number wide"),
        column("Queries, judge", class_="words wide"),
    ]
    rows = table(heads, (), class_="leaderboard board", id="rows")
    hint = (
        "Ranks are the best and the worst rank of a submission; all ranges hold at once with a "
        f"confidence of {100 * site.level:g} %. Submission: its number among all of its submitter."
    )
    return [
        tag("h2", "Board", id="board"),
        controls,
        tag("p", id="version", class_="hint"),
        *scrolling(rows, "Submissions", hint),
        tag("p", id="turn", class_="turn"),
        tag("noscript", tag("p", "The table needs JavaScript. data/ has it as JSON.")),
    ]


def _section(id_: str, title: str, heads: Iterable[str], rows: Iterable[Sequence[str]]) -> Element:
    cells = (tag("tr", (tag("td", tag("bdi", cut(text, 500)[0])) for text in row)) for row in rows)
    body = table((column(head, class_="name") for head in heads), cells)
    return tag("section", tag("h2", title, id=id_), *scrolling(body, title, ""))

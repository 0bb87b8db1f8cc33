"""mirage label: let people label answers, or compare pairs of answers, blind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import check_folder, dataset_of, existing, runs_of, sentences_in
from mirage.cli._output import out, out_either, say
from mirage.cli._shell import app, argument, example, flag, option
from mirage.errors import MirageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirage.labelling.items import Item
    from mirage.labelling.session import Session

SCALE = "correct,partly,wrong,cannot tell"


@app.command(
    epilog=example(
        "# Label answers",
        "mirage label my-rag.jsonl --language sw --rater ann --out labels.jsonl",
        "# Settle the disagreements of several raters",
        "mirage label my-rag.jsonl --language sw --settle --out labels.jsonl",
        "# Print how well the raters agree",
        "mirage label --out labels.jsonl",
        "# Compare pairs of answers",
        "mirage label my-rag.jsonl --language sw --pairs --rater ann --out votes.jsonl",
    )
)
def label(
    file: Annotated[
        Path,
        option(
            "FILE",
            "File of labels. Each new label is appended to it. Repeat the command to continue "
            "after the last label.",
            "--out",
        ),
    ],
    responses: Annotated[
        list[str] | None,
        argument(
            "RESPONSES",
            'Responses as JSON Lines, {"query_id": ..., "text": ...} per line, with one file per '
            "system, or one file of sentences that `mirage decide --rest` wrote. Without "
            "RESPONSES, print how well the raters in the file of labels agree.",
        ),
    ] = None,
    language: options.Language = None,
    dataset: options.Dataset = None,
    rater: Annotated[str | None, option("NAME", "Name of the person who labels.")] = None,
    pairs: Annotated[
        bool,
        flag(
            "Compare pairs of responses instead of labelling each. If there is a single file and "
            "no --dataset, its responses are compared with those of the bundled leaderboard.",
            "--pairs",
        ),
    ] = False,
    items: Annotated[int, option("N", "Number of answers or pairs to draw.", min=1)] = 100,
    scale: Annotated[
        str,
        option(
            "LABELS",
            "Possible labels of an answer, separated by commas, with the positive label first.",
        ),
    ] = SCALE,
    feature: Annotated[
        str,
        option("NAME", "Draw answers that cover the values of this feature evenly."),
    ] = "support_lexical",
    seed: options.Seed = 0,
    settle: Annotated[
        bool, flag("Present only items on which the raters disagree, to settle them.", "--settle")
    ] = False,
    page: Annotated[
        Path | None,
        option(
            "FILE",
            "Write a page for labelling to this file, instead of serving it. It works without this "
            "command, for example on a phone, and keeps the labels in the browser.",
        ),
    ] = None,
    collect: Annotated[
        Path | None,
        option(
            "FILE",
            "Add the labels from a file that was saved on the page for labelling; see --page.",
            "--import",
        ),
    ] = None,
    port: Annotated[
        int, option("N", "Port on 127.0.0.1 for the page; 0 selects a free port.", min=0, max=65535)
    ] = 0,
    as_json: options.Json = False,
) -> None:
    """Let people label answers or compare pairs without system names.

    Prints the address of a page on this machine. The page shows one item at a time, in a random
    order, without names or scores, and each label is saved before the next item appears.
    Press Ctrl-C to end. Repeat the command with another --rater for a second opinion, and with
    --settle to settle disagreements.

    The items are a random sample in which each answer has the same probability, so `mirage
    metaeval` and `mirage decide` can use the labels without weights.
    """
    from mirage.labelling.session import open_session
    from mirage.labelling.summaries import summarise_labels

    if responses:
        if (rater is None) == (not settle):
            raise MirageError("give either --rater NAME, or --settle to settle conflicts")
        check_folder(file)
        check_folder(page)
        if collect is not None:
            existing(collect)
        drawn, note = _items(
            responses, language, dataset, pairs, feature, None if settle else items, seed
        )
        labels = scale.split(",")
        with open_session(
            drawn, file, rater=rater or "", scale=labels, seed=seed, settle=settle
        ) as session:
            if settle and not session.items:
                say("no item has a conflict to settle")
            elif page is not None:
                say(note)
                _write_page(session, page)
                return
            elif collect is not None:
                _import(session, collect)
            else:
                say(note)
                _serve(session, port)
    summary = summarise_labels(existing(file))
    plain: dict[str, Any] = {
        "labels": {name: dict(counts) for name, counts in summary.labels.items()},
        "agreement": _plain(summary.agreement),
        "conflicts": {"open": summary.open, "settled": summary.settled},
    }
    out_either(f"{file}\n{summary}", plain, as_json)


def _items(
    responses: list[str],
    language: str | None,
    dataset: Path | None,
    pairs: bool,
    feature: str,
    size: int | None,
    seed: int,
) -> tuple[Sequence[Item], str]:
    """Draw the items to label; return them with a note on how they were drawn.

    If ``size`` is ``None``, all items are returned.
    """
    from mirage.labelling.items import answer_items, draw, pair_items, scores_of, sentence_items

    if _is_sentences(responses):
        if pairs:
            raise MirageError(
                "--pairs needs files of responses; leave out --pairs to label a file of sentences"
            )
        candidates: Sequence[Item] = sentence_items(
            sentences_in(existing(Path(responses[0])), language)
        )
        left_out, kind = 0, "sentences"
    elif pairs and len(responses) == 1 and dataset is None:
        return _pairs_with_board(responses, language, size, seed)
    else:
        queries = dataset_of(language, dataset)
        runs = runs_of(queries.language, responses)
        if pairs:
            candidates, left_out = pair_items(queries, runs)
            kind = "pairs"
        else:
            candidates, left_out = answer_items(queries, runs)
            kind = "answers"
    total, size = len(candidates), min(size or len(candidates), len(candidates))
    positions = draw(scores_of(candidates, feature), size, seed=seed)
    note = f"{size} of {total} {kind}, each with probability {size / total:.3g}"
    return [candidates[position] for position in positions], note + _left_out(left_out)


def _pairs_with_board(
    responses: list[str], language: str | None, size: int | None, seed: int
) -> tuple[Sequence[Item], str]:
    """Return the pairs that `mirage rank --judge` would draw, and a note on how they were drawn.

    Each pair is a response of the only run in ``responses`` and one of a model on the bundled
    leaderboard. If ``size`` is ``None``, all pairs are returned.
    """
    from mirage.cli._inputs import leaderboard_of
    from mirage.labelling.items import pair_items

    board = leaderboard_of(language, "bundled", None, None, False)
    (run,) = runs_of(board.dataset.language, responses)
    runs, pairs = board.judged_pairs(run, judgments=size, seed=seed)
    items, left_out = pair_items(board.dataset, runs, pairs)
    note = f"{len(items)} pairs with models of the leaderboard, as `mirage rank --judge` draws them"
    return items, note + _left_out(left_out)


def _left_out(count: int) -> str:
    return f"; {count} without an answer left out" if count else ""


def _is_sentences(responses: list[str]) -> bool:
    """Return whether the only input is a file of sentences."""
    from mirage._base.files import read_rows

    path = Path(responses[0])
    if len(responses) > 1 or not path.is_file():
        return False
    return any("sentence" in fields for _, fields in list(read_rows(path))[:1])


def _write_page(session: Session, page: Path) -> None:
    from mirage.report.file import save
    from mirage.report.labels import render_labels

    save(render_labels(session.data(), offline=True), page)
    out(f"{page}: {len(session.items)} items for {session.rater}")


def _import(session: Session, path: Path) -> None:
    """Add the labels in a file that a page saved; the session must have the page's items."""
    from mirage._base.files import read_rows, validated
    from mirage.labelling.records import PageLabel

    rows = [(where, validated(PageLabel, row, where)) for where, row in read_rows(existing(path))]
    for where, row in rows:
        if row.rater != session.rater:
            raise MirageError(
                f"{where}: the label is by rater {row.rater!r}, expected {session.rater!r}"
            )
        if row.item not in session.items:
            raise MirageError(
                f"{where}: there is no item with the id {row.item!r}; give the same responses and "
                "options as when the labelling page was written"
            )
    for _, row in rows:
        session.put(row.item, row.label)
    say(f"{path}: {len(rows)} labels added")


def _serve(session: Session, port: int) -> None:
    """Serve the page until the command is interrupted."""
    from mirage.labelling.server import LabelServer

    with LabelServer(session, port) as server:
        say(f"open {server.url} in a browser on this machine; Ctrl-C ends")
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            say("stopped")


def _plain(agreement: Any) -> Any:
    from dataclasses import asdict

    return None if agreement is None else asdict(agreement)

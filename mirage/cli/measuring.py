"""Commands that turn responses and verdicts into numbers: features, fit, metaeval."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from mirage.cli.inputs import (
    AllowFailedOption,
    DatasetOption,
    JobsOption,
    JsonOption,
    LanguageArgument,
    NamesOption,
    ResponsesArgument,
    SeedOption,
    dataset_of,
    file_of,
    named_numbers,
    runs_of,
)
from mirage.cli.shell import example, fell_short, out, out_json, say
from mirage.errors import DatasetError, UnknownNameError

if TYPE_CHECKING:
    from mirage.arena import Judgments
    from mirage.arena.judge import Votes
    from mirage.dataset import MirageDataset
    from mirage.features import FeatureTable
    from mirage.metaeval import LabelledSentences, MetaEvaluation, Score
    from mirage.models import Run, Vote

__all__ = ["add_to", "judgments_in"]

VERDICTS_OF_A_JURY = ("majority", "all")
TASKS = ("faithfulness", "relevance")


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        epilog=example(
            "mirage features sw my-rag.jsonl",
            "mirage features sw my-rag.jsonl --min citation_recall@10=0.6",
        )
    )(features)
    app.command(
        epilog=example(
            "mirage fit votes.jsonl", "mirage fit judgments.jsonl --tournaments 200 --json"
        )
    )(fit)
    app.command(
        epilog=example(
            "mirage metaeval labels.jsonl --judge support_lexical",
            "mirage metaeval MEMERAG/data/memerag_ext --judge support_lexical=0.5",
        )
    )(metaeval)


# Features -----------------------------------------------------------------------------------------


def features(
    language: LanguageArgument,
    responses: ResponsesArgument,
    name: NamesOption = None,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A feature; may be repeated.  [default: the eight that need no model]",
            show_default=False,
        ),
    ] = None,
    minimum: Annotated[
        list[str] | None,
        typer.Option(
            "--min",
            metavar="NAME=NUMBER",
            help="Fall short (status 1) where the mean of a feature is lower; may be repeated.",
            show_default=False,
        ),
    ] = None,
    allow_failed: AllowFailedOption = 0,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="Show each query, and not the means only.")
    ] = False,
    dataset: DatasetOption = None,
    jobs: JobsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Score responses by features such as citation_recall@10.

    A value that cannot be computed is left out of the mean, and counted.
    """
    from mirage.features import FeatureSuite, canonical_name

    asked = dataset_of(language, dataset)
    names = [canonical_name(one) for one in feature or ()]
    suite = FeatureSuite(names) if names else FeatureSuite.offline()
    needed = {
        canonical_name(one): least for one, least in named_numbers("--min", minimum or ()).items()
    }
    for one in needed:
        if one not in suite.names:
            raise UnknownNameError("feature of this suite", one, suite.names)
    runs = runs_of(asked.language, responses, name)
    tables = [suite.score(asked, run, n_jobs=jobs, progress=True) for run in runs]
    if as_json:
        out_json([_plain_table(table) for table in tables])
    else:
        out("\n\n".join(_shown(table, per_query) for table in tables))
    reasons = [
        _too_low(run, asked, one, least, allow_failed)
        for run in runs
        for one, least in needed.items()
    ]
    if any(reasons):
        fell_short(list(filter(None, reasons)))


def _shown(table: FeatureTable, per_query: bool) -> str:
    from mirage._base.tables import Table, to_text

    means = dict(zip(table.features, table.mean().tolist(), strict=True))
    title = f"{table.model}: {len(table)} queries in {table.language!r}"
    rows = tuple((name, _number(means[name]), _number_of_gaps(table, name)) for name in means)
    reasons = sorted({f"{name}: {why}" for (_, name), why in table.reasons.items()})
    more = f"; and {len(reasons) - 3} more reasons" if len(reasons) > 3 else ""
    notes = ("not computed: " + "; ".join(reasons[:3]) + more,) if reasons else ()
    header = ("feature", "mean", "not computed")
    text = to_text(Table(title, header, rows, (False,) * len(rows), notes, name=0).filled())
    return text if not per_query else f"{text}\n\n{_by_query(table)}"


def _by_query(table: FeatureTable) -> str:
    """The queries in tables of three features, which 80 columns have room for."""
    from mirage._base.tables import Table, to_text

    parts = []
    for start in range(0, len(table.features), 3):
        some = table.features[start : start + 3]
        rows = tuple(
            (query_id, *map(_number, values))
            for query_id, values in zip(
                table.query_ids, table.columns(some).values.tolist(), strict=True
            )
        )
        parts.append(to_text(Table("", ("query", *some), rows, (False,) * len(rows), name=0)))
    return "\n\n".join(parts)


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.3f}"


def _number_of_gaps(table: FeatureTable, name: str) -> str:
    gaps = sum(value != value for value in table[name].tolist())
    return str(gaps) if gaps else ""


def _plain_table(table: FeatureTable) -> dict[str, Any]:
    return {
        "model": table.model,
        "language": table.language,
        "mean": dict(zip(table.features, table.mean().tolist(), strict=True)),
        "queries": {
            query_id: dict(zip(table.features, row, strict=True))
            for query_id, row in zip(table.query_ids, table.values.tolist(), strict=True)
        },
        "not_computed": [
            {"query_id": query_id, "feature": name, "reason": why}
            for (query_id, name), why in table.reasons.items()
        ],
    }


def _too_low(
    run: Run, dataset: MirageDataset, feature: str, least: float, allow_failed: int
) -> str | None:
    """Why the mean of a feature is not what it is to be, if it is not."""
    from mirage.testing import FellShortError, assert_feature

    try:
        assert_feature(
            run, feature, ge=least, on=dataset, name=run.model, allow_failed=allow_failed
        )
    except FellShortError as error:
        return str(error)
    return None


# Judgments ----------------------------------------------------------------------------------------


def fit(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="JUDGMENTS",
            help="JSON Lines of judgments, or of votes as `mirage judge` writes them; - is "
            "standard input.",
            show_default=False,
        ),
    ],
    ties: Annotated[
        str, typer.Option(metavar="HOW", help="half (a win), drop, or davidson.")
    ] = "half",
    ridge: Annotated[
        float, typer.Option(metavar="N", help="Holds back models that won or lost everything.")
    ] = 0.1,
    tournaments: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Bootstrap so many tournaments for the intervals, and intervals of ranks.  "
            "[default: none; sandwich intervals]",
            show_default=False,
        ),
    ] = 0,
    judge: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Count one judge only.", show_default=False),
    ] = None,
    votes: Annotated[
        str, typer.Option(metavar="HOW", help="What a jury brings: majority, or all.")
    ] = "majority",
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Turn judgments or votes into a Bradley-Terry ranking."""
    from mirage.arena import BradleyTerry

    model = BradleyTerry(ties=ties, ridge=ridge)  # type: ignore[arg-type]  # it checks
    judgments = judgments_in(file, judge, votes)
    if tournaments:
        drawn = model.bootstrap(
            judgments, tournaments=tournaments, queries=None, seed=seed, progress=True
        )
        between = [tuple(ends) for ends in drawn.rank_interval().tolist()]
        rows = _rows(drawn.models, drawn.mean, drawn.interval(), between)
        alone: tuple[str, ...] = ()
    else:
        fitted = model.fit(judgments)
        rows = _rows(fitted.models, fitted.logits, fitted.interval(), [None] * len(fitted.models))
        alone = fitted.separated
    queries = len(judgments.query_ids)
    if as_json:
        plain = [row._asdict() for row in rows]
        out_json(
            {"judgments": len(judgments), "queries": queries, "separated": alone, "models": plain}
        )
    else:
        out(_fitted(f"{len(judgments)} judgments on {queries} queries", rows, alone))


class _Row(NamedTuple):
    rank: int
    model: str
    logit: float
    interval: tuple[float, float]
    rank_interval: tuple[int, int] | None


def _rows(models: Sequence[str], logits: Any, ends: Any, between: Sequence[Any]) -> list[_Row]:
    from mirage.statistics.ranks import ranks

    columns = (ranks(logits).tolist(), models, logits.tolist(), map(tuple, ends.tolist()), between)
    return sorted(_Row(*row) for row in zip(*columns, strict=True))


def _fitted(title: str, rows: Sequence[_Row], alone: Sequence[str]) -> str:
    from mirage._base.tables import Table, to_text

    header = ("rank", "model", "logit", "95 % interval", "rank interval")
    cells = tuple(
        (
            str(row.rank),
            row.model,
            f"{row.logit:.2f}",
            "" if row.interval[0] != row.interval[0] else "[{:.2f}, {:.2f}]".format(*row.interval),
            "" if row.rank_interval is None else "{}-{}".format(*row.rank_interval),
        )
        for row in rows
    )
    why = "won or lost every judgment, so the size of its logit says little"
    notes = tuple(f"{model}: {why}" for model in alone)
    return to_text(Table(title, header, cells, (False,) * len(cells), notes).filled())


def judgments_in(path: Path, judge: str | None = None, how: str = "majority") -> Judgments:
    """The judgments in a file of judgments, or those that follow from a file of votes.

    Raises:
        DatasetError: the file holds neither, or names the line and field that is wrong.
        UnknownNameError: no such judge, or no such way to count votes.
        JudgmentError: nothing is left.
    """
    from mirage._base.files import read_rows, validated
    from mirage.arena import Judgments
    from mirage.models import Judgment, Vote

    if how not in VERDICTS_OF_A_JURY:
        raise UnknownNameError("way to count votes", how, VERDICTS_OF_A_JURY)
    rows = list(read_rows(file_of(path)))
    if not rows:
        raise DatasetError(f"{path}: no judgment in this file")
    judges = sorted({str(row.get("judge", "")) for _, row in rows})
    if judge is not None:
        rows = [(where, row) for where, row in rows if row.get("judge", "") == judge]
        if not rows:
            raise UnknownNameError(f"judge in {path}", judge, judges)
    if any("asked" in row or row.get("verdict") in ("invalid", "failed") for _, row in rows):
        votes = [validated(Vote, row, where) for where, row in rows]
        return _of_votes(votes, "all" if how == "all" else "majority")
    return Judgments.from_records(validated(Judgment, row, where) for where, row in rows)


def _of_votes(votes: list[Vote], how: Votes) -> Judgments:
    from mirage.arena import Judgments
    from mirage.arena._votes import tabulate
    from mirage.arena.judge import judgments_of

    def pair(vote: Vote) -> tuple[str, str, frozenset[str]]:
        return vote.judge, vote.query_id, frozenset((vote.model_a, vote.model_b))

    lost = {pair(vote) for vote in votes if vote.verdict in ("invalid", "failed")}
    kept = [vote for vote in votes if pair(vote) not in lost]
    if len(kept) < len(votes):
        say(f"{len(votes) - len(kept)} of {len(votes)} votes left out: invalid or failed")
    tabulate(kept or votes)  # refuses votes that stand there twice, and where none has a verdict
    return Judgments.from_records(judgments_of(kept, how))


# Judges -------------------------------------------------------------------------------------------


def metaeval(
    labels: Annotated[
        Path,
        typer.Argument(
            metavar="LABELS",
            help="JSON Lines with a labelled sentence a line, or a folder of MEMERAG.",
            show_default=False,
        ),
    ],
    judge: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FEATURE[=THRESHOLD]",
            help="What is judged; may be repeated. Without a threshold it is cross-validated.  "
            "[default: support_lexical]",
            show_default=False,
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE", help="Of sentences that do not name theirs.", show_default=False
        ),
    ] = None,
    positive: Annotated[
        str, typer.Option(metavar="LABEL", help="The label that a high score speaks for.")
    ] = "Supported",
    task: Annotated[
        str, typer.Option(metavar="TASK", help="Of MEMERAG: faithfulness, or relevance.")
    ] = "faithfulness",
    compare: Annotated[
        bool, typer.Option("--compare", help="Test every two judges for a difference.")
    ] = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure how far judges agree with people's labels.

    A judge here is a feature with a threshold; the library takes LLMs and functions as well.
    """
    from mirage.metaeval import evaluate

    labelled = _labelled(labels, language, positive, task)
    measured = evaluate(
        labelled, [_score(text) for text in judge or ["support_lexical"]], seed=seed
    )
    tested = measured.compare(seed=seed) if compare else None
    if as_json:
        out_json(_plain_figures(measured, tested))
    else:
        out(str(measured))
        if tested is not None:
            out(f"\n{tested}")


def _labelled(path: Path, language: str | None, positive: str, task: str) -> LabelledSentences:
    from mirage.metaeval import LabelledSentences

    if path.is_dir():
        if task not in TASKS:
            raise UnknownNameError("task of MEMERAG", task, TASKS)
        return LabelledSentences.memerag(path, task=task)  # type: ignore[arg-type]
    return LabelledSentences.from_jsonl(file_of(path), language=language, positive=positive)


def _score(text: str) -> Score:
    from mirage.metaeval import score

    name, equals, _ = text.rpartition("=")
    if not equals:
        return score(text)
    return score(name, named_numbers("--judge", [text])[name])


def _plain_figures(measured: MetaEvaluation, tested: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "judges": {
            result.name: {
                "threshold": result.threshold,
                "figures": {code: row._asdict() for code, row in result.figures.items()},
            }
            for result in measured
        },
        "left_out": measured.left_out,
    }
    if tested is not None:
        plain["comparisons"] = [row._asdict() for row in tested]
    return plain

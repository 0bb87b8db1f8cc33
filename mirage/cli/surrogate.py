"""mirage surrogate: train surrogates, and show their training data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import (
    check_folder,
    dataset_of,
    file_of,
    is_language,
    language_of,
    ranker_of,
    runs_of,
)
from mirage.cli._output import out_either, say, wrapped
from mirage.cli._shell import argument, example, fall_short, flag, group, option
from mirage.errors import MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.surrogate import SurrogateRanker
    from mirage.surrogate.ranker import Validation

commands = group("surrogate", "Train surrogates, and show their training data.")


@commands.command(
    epilog=example(
        "mirage surrogate train a.jsonl b.jsonl --language sw --judgments votes.jsonl --out sw.npz",
        "mirage surrogate train --language sw --utilities mine.yaml --out sw.npz",
    )
)
def train(
    file: Annotated[Path, option("FILE", "Write the surrogate to this file.", "--out")],
    responses: Annotated[
        list[str] | None,
        argument(
            "RESPONSES",
            "Responses of the judged models as JSON Lines, one file per model. A model is named "
            "after its file; NAME=FILE sets another name.",
        ),
    ] = None,
    language: options.Language = None,
    judgments: Annotated[
        Path | None,
        option(
            "FILE",
            "Judgments of these models as JSON Lines, or the votes that `mirage judge` wrote.",
        ),
    ] = None,
    utilities: Annotated[
        Path | None,
        option(
            "FILE",
            "Train on simulated models instead of RESPONSES. FILE is a YAML or JSON file that sets "
            "how much the simulated judge penalises each fault, such as a wrong answer.",
        ),
    ] = None,
    dataset: options.Dataset = None,
    estimator: Annotated[
        str,
        option(
            "NAME",
            "Regression to fit: auto (selected on held-out models), linear, ridge, svr, mlp, "
            "monotone_boosting, monotone_forest, forest (as in the paper MIRAGE-Bench), verdicts "
            "or verdict_trees (fitted to single judgments).",
        ),
    ] = "auto",
    validate: Annotated[
        bool, flag("Also print the accuracy on held-out models.", "--validate")
    ] = False,
    seed: options.Seed = 0,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Train a surrogate, which is a regression that predicts ranks.

    A surrogate predicts a model's logit (its strength in comparisons) from features of the
    responses. It ranks further models without a judge:
    `mirage rank RESPONSES --dataset FILE --surrogate FILE --trust`.

    By default, the surrogate is trained on RESPONSES and --judgments. With --utilities, it is
    trained on simulated models, whose responses are compared by a simulated judge.
    """
    from mirage.arena import read_judged
    from mirage.leaderboard import Leaderboard

    check_folder(file)
    if utilities is not None:
        if responses or judgments or dataset:
            raise MirageError(
                "--utilities trains on simulated models; leave out RESPONSES, --judgments and "
                "--dataset"
            )
        ranker = _train_on_arena(language_of(language), utilities, estimator, seed)
        validation = ranker.cross_validate(n_jobs=jobs) if validate else None
        ranker.save(file)
        _print(f"{file}: {ranker}", ranker, validation, as_json)
        return
    if not responses or judgments is None:
        raise MirageError(
            "give RESPONSES and --judgments to train on judged models, or --utilities to train on "
            "simulated models"
        )
    queries = dataset_of(language, dataset)
    judged = read_judged(file_of(judgments))
    runs = runs_of(queries.language, responses)
    board = Leaderboard.from_judgments(
        judged,
        queries,
        runs,
        estimator=estimator,
        seed=seed,
        n_jobs=jobs,
    )
    ranker = board.ranker
    idle = [run.model for run in runs if run.model not in board.anchors]
    if idle:
        say(f"left out, because there is no judgment of them: {', '.join(idle)}")
    validation = ranker.cross_validate(n_jobs=jobs) if validate else None
    ranker.save(file)
    _print(f"{file}: {ranker}", ranker, validation, as_json)


@commands.command(epilog=example("mirage surrogate show sw"))
def show(
    source: Annotated[
        str,
        argument(
            "LANGUAGE|FILE",
            "Language code, which selects the bundled surrogate, or a surrogate file.",
        ),
    ],
    level: options.Level = "quick",
    trust: options.Trust = False,
    as_json: options.Json = False,
) -> None:
    """Show how a surrogate was trained, and how much each fault costs.

    Prints the surrogate's features, the logits of the models that it was trained on, and by how
    much each kind of fault, such as a wrong answer, lowers a model's logit.
    """
    from mirage.surrogate import SurrogateRanker

    if is_language(source):
        ranker = SurrogateRanker.pretrained(source, level=level)
    else:
        ranker = ranker_of(Path(source), trust)
    _print(_description(ranker), ranker, None, as_json)


@commands.command(epilog=example("mirage surrogate rebuild surrogates/"))
def rebuild(
    folder: Annotated[Path, argument("FOLDER", "Folder to write the surrogates to.")],
    level: Annotated[
        list[str] | None,
        option(
            "LEVEL",
            "Train only the surrogates of this level, quick or hard; may be repeated.  [default: "
            "all]",
        ),
    ] = None,
    jobs: options.Jobs = -1,
    as_json: options.Json = False,
) -> None:
    """Train the bundled surrogates again, and check the files.

    Prints how many of the files are identical to those in the package. Training takes half an hour
    on two cores, and uses only the bundled corpora. With the same versions of the libraries, the
    files are byte-identical.

    The exit status is 1 if a surrogate orders the costs of faults wrongly. False answers must lower
    the logit more than wrong abstentions, and wrong abstentions more than missing citations.
    """
    from mirage.dataset import LEVELS
    from mirage.surrogate.artifacts import MANIFEST, verify
    from mirage.surrogate.pretraining import write_pretrained

    for name in level or ():
        if name not in LEVELS:
            raise UnknownNameError("level", name, LEVELS)
    violations = write_pretrained(folder, levels=level or tuple(LEVELS), n_jobs=jobs)
    faults = verify(folder)
    equal = [name for name, fault in faults.items() if not fault]
    plain = {"surrogates": sorted(faults), "equal": equal, "manifest": MANIFEST}
    text = f"{folder}: {len(faults)} surrogates, {len(equal)} of which equal the bundled ones"
    out_either(text, plain, as_json)
    fall_short(violations)


def _train_on_arena(language: str, utilities: Path, estimator: str, seed: int) -> SurrogateRanker:
    from mirage.surrogate.estimators import VERDICT_TREES
    from mirage.surrogate.pretraining import train_on_arena
    from mirage.surrogate.utilities import read_utilities

    return train_on_arena(
        language,
        utilities=read_utilities(file_of(utilities)),
        estimator=VERDICT_TREES if estimator == "auto" else estimator,
        seed=seed,
    )


# Output -------------------------------------------------------------------------------------------


def _print(
    text: str, ranker: SurrogateRanker, validation: Validation | None, as_json: bool
) -> None:
    lines = [text] if validation is None else [text, *_validation_lines(validation)]
    out_either("\n".join(lines), _plain(ranker, validation), as_json)


def _description(ranker: SurrogateRanker) -> str:
    from mirage._base.tables import Table, to_text
    from mirage.surrogate.fault_costs import fault_costs

    parts = [
        f"estimator {ranker.estimator}, recipe {ranker.recipe}, seed {ranker.seed}",
        wrapped("features: " + ", ".join(ranker.features)),
    ]
    for code, data in ranker.data.items():
        title = f"{code}: {len(data.query_ids)} queries, {len(data.y)} tournaments"
        rows = sorted(zip(data.mean_y.tolist(), data.models, strict=True), reverse=True)
        cells = tuple((name, f"{logit:.2f}") for logit, name in rows)
        parts.append(to_text(Table(title, ("model", "logit"), cells, name=0)))
        costs = tuple(
            (cost.kind, f"{cost.logit:.2f}", f"{cost.logit / len(data.query_ids):.3f}")
            for cost in fault_costs(ranker, code)
        )
        if costs:
            title = f"{code}: what a fault costs, in logits"
            header = ("fault", "on all queries", "on one")
            parts.append(to_text(Table(title, header, costs, name=0)))
    return "\n".join(parts)


def _validation_lines(validation: Validation) -> list[str]:
    lines = []
    for code, (low, high) in validation.tau_interval().items():
        # Without an interval, tau of a few models means nothing.
        tau = f"{validation.tau[code]:.2f} (95 % interval {low:.2f} to {high:.2f})"
        lines.append(
            f"{code}: held-out models, {len(validation.held_out)} splits: Kendall's tau "
            + (tau if not math.isnan(low) else "is not shown: too few models for an interval")
        )
    return lines


def _plain(ranker: SurrogateRanker, validation: Validation | None) -> dict[str, Any]:
    from mirage.surrogate.fault_costs import fault_costs

    plain: dict[str, Any] = {
        "estimator": ranker.estimator,
        "recipe": str(ranker.recipe),
        "seed": ranker.seed,
        "features": ranker.features,
        "languages": {
            code: {
                "queries": len(data.query_ids),
                "tournaments": len(data.y),
                "logits": dict(zip(data.models, data.mean_y.tolist(), strict=True)),
                "fault_costs": {cost.kind: cost.logit for cost in fault_costs(ranker, code)},
            }
            for code, data in ranker.data.items()
        },
    }
    if validation is not None:
        plain["validation"] = {
            "splits": len(validation.held_out),
            "tau": {
                code: {"tau": validation.tau[code], "lower": low, "upper": high}
                for code, (low, high) in validation.tau_interval().items()
                if not math.isnan(low)
            },
        }
    return plain

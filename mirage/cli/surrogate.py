"""mirage surrogate: trains surrogates, shows what they learnt from, and checks those that ship."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import (
    check_folder,
    dataset_of,
    file_of,
    is_language,
    place_of,
    ranker_of,
    runs_of,
)
from mirage.cli._output import out_either, say, wrapped
from mirage.cli._shell import argument, example, fall_short, group, option
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.surrogate import SurrogateRanker, Validation

__all__ = ["commands"]

commands = group("surrogate", "Train surrogates, look into them, and check those that ship.")


@commands.command(
    epilog=example(
        "mirage surrogate train sw a.jsonl b.jsonl c.jsonl --judgments votes.jsonl --out sw.npz",
        "mirage surrogate train sw --utilities mine.yaml --out sw.npz",
    )
)
def train(
    language: options.Language,
    file: Annotated[Path, option("FILE", "Where to write it.", "--out")],
    responses: Annotated[
        list[Path] | None, argument("RESPONSES", "Responses of judged models, a file a model.")
    ] = None,
    judgments: Annotated[
        Path | None,
        option("FILE", "Judgments, or votes as `mirage judge` writes them, on these models."),
    ] = None,
    utilities: Annotated[
        Path | None,
        option("FILE", "YAML or JSON: how much each fault of the simulated arena costs."),
    ] = None,
    name: options.Names = None,
    dataset: options.Dataset = None,
    estimator: Annotated[str, option("NAME", "auto selects one; forest is the paper's.")] = "auto",
    tournaments: Annotated[int, option("N", "Tournaments to learn from.", min=1)] = 200,
    validate: options.Validate = False,
    seed: options.Seed = 0,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Train a surrogate on judged models, or on simulated ones.

    It ranks others without a judge:
    `mirage rank LANGUAGE RESPONSES --dataset FILE --surrogate FILE --trust`.

    With --utilities, no responses and judgments are needed: the judge of the simulated arena
    counts faults as your file says, and the surrogate learns from its verdicts.
    """
    from mirage.arena import read_judged
    from mirage.leaderboard import Leaderboard

    check_folder(file)
    if utilities is not None:
        if responses or judgments or dataset or name:
            raise MirageError(
                "--utilities trains on the simulated arena; leave out RESPONSES, --judgments, "
                "--dataset and --name"
            )
        ranker = _trained_on_arena(language, utilities, estimator, tournaments, seed)
        validation = ranker.cross_validate(n_jobs=jobs) if validate else None
        ranker.save(file)
        _print(f"{file}: {ranker}", ranker, validation, as_json)
        return
    if not responses or judgments is None:
        raise MirageError(
            "give RESPONSES and --judgments to learn from judged models, or --utilities to learn "
            "from the simulated arena"
        )
    queries = dataset_of(language, dataset)
    judged = read_judged(file_of(judgments))
    runs = runs_of(queries.language, responses, name)
    board = Leaderboard.from_judgments(
        queries,
        runs,
        judged,
        estimator=estimator,
        tournaments=tournaments,
        seed=seed,
        n_jobs=jobs,
    )
    ranker = board.ranker
    idle = [run.model for run in runs if run.model not in board.anchors]
    if idle:
        say(f"left out, for there is no judgment on them: {', '.join(idle)}")
    validation = ranker.cross_validate(n_jobs=jobs) if validate else None
    ranker.save(file)
    _print(f"{file}: {ranker}", ranker, validation, as_json)


@commands.command(epilog=example("mirage surrogate show sw"))
def show(
    source: Annotated[str, argument("LANGUAGE|FILE", "One that ships, or a file.")],
    trust: options.Trust = False,
    validate: options.Validate = False,
    jobs: options.Jobs = 1,
    as_json: options.Json = False,
) -> None:
    """Show what a surrogate was trained on."""
    from mirage.surrogate import SurrogateRanker

    if is_language(source):
        ranker = SurrogateRanker.pretrained(source)
    else:
        ranker = ranker_of(Path(source), trust)
    validation = ranker.cross_validate(n_jobs=jobs) if validate else None
    _print(_described(ranker), ranker, validation, as_json)


@commands.command(epilog=example("mirage surrogate verify"))
def verify(
    folder: Annotated[
        Path | None,
        argument("FOLDER", "Surrogates in joblib.  [default: those that ship]"),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check that surrogates are those that ship.

    Their SHA-256 is compared, and no file is opened. Falls short (status 1) where one was changed,
    is missing or does not ship.
    """
    from mirage.surrogate import artifacts

    faults = artifacts.verify(None if folder is None else place_of(folder))
    wrong = [fault for fault in faults.values() if fault]
    plain = {name: {"sound": not why, "reason": why or None} for name, why in faults.items()}
    text = f"{len(faults) - len(wrong)} of {len(faults)} surrogates are those that ship"
    out_either(text, plain, as_json)
    fall_short(wrong)


@commands.command(epilog=example("mirage surrogate rebuild surrogates/"))
def rebuild(
    folder: Annotated[Path, argument("FOLDER", "Where to write the artifacts.")],
    jobs: options.Jobs = -1,
    as_json: options.Json = False,
) -> None:
    """Train the surrogates that ship again, bit for bit.

    They learn from the bundled corpora alone, in half an hour on two cores. Falls short (status 1)
    if in one of them a falsehood costs less than a wrong abstention, or that less than missing
    citations.
    """
    from mirage.surrogate.artifacts import MANIFEST
    from mirage.surrogate.pretraining import write_pretrained

    violations = write_pretrained(folder, n_jobs=jobs)
    files = sorted(path.name for path in folder.glob("*.joblib"))
    plain = {"surrogates": files, "manifest": MANIFEST}
    out_either(f"{folder}: {len(files)} surrogates and a manifest", plain, as_json)
    fall_short(violations)


def _trained_on_arena(
    language: str, utilities: Path, estimator: str, tournaments: int, seed: int
) -> SurrogateRanker:
    from mirage.languages import Language
    from mirage.surrogate.estimators import VERDICT_TREES
    from mirage.surrogate.pretraining import train_on_arena
    from mirage.surrogate.utilities import read_utilities

    return train_on_arena(
        Language.of(language).code,
        utilities=read_utilities(file_of(utilities)),
        estimator=VERDICT_TREES if estimator == "auto" else estimator,
        tournaments=tournaments,
        seed=seed,
    )


# Showing ------------------------------------------------------------------------------------------


def _print(
    text: str, ranker: SurrogateRanker, validation: Validation | None, as_json: bool
) -> None:
    lines = [text] if validation is None else [text, *_validated(validation)]
    out_either("\n".join(lines), _plain(ranker, validation), as_json)


def _described(ranker: SurrogateRanker) -> str:
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


def _validated(validation: Validation) -> list[str]:
    return [
        f"{code}: held-out models, {len(validation.held_out)} splits: Kendall's tau "
        f"{validation.tau[code]:.2f}, R2 {validation.r2[code]:.2f}, "
        f"{validation.coverage[code]:.0%} inside their 95 % interval"
        for code in validation.tau
    ]


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
            "tau": validation.tau,
            "r2": validation.r2,
            "coverage": validation.coverage,
        }
    return plain

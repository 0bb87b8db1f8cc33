"""Commands about surrogates: train, show, verify, rebuild."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirage.cli.inputs import (
    DatasetOption,
    JobsOption,
    JsonOption,
    LanguageArgument,
    NamesOption,
    ResponsesArgument,
    SeedOption,
    check_folder,
    dataset_of,
    place_of,
    runs_of,
)
from mirage.cli.ranks import TrustOption, loaded
from mirage.cli.shell import example, fell_short, out, out_json, say, wrapped
from mirage.errors import ArtifactError

if TYPE_CHECKING:
    from mirage.surrogate import SurrogateRanker, Validation

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command(
        epilog=example(
            "mirage surrogate train sw a.jsonl b.jsonl c.jsonl --judgments votes.jsonl --out "
            "sw.joblib"
        )
    )(train)
    group.command(epilog=example("mirage surrogate show sw"))(show)
    group.command(epilog=example("mirage surrogate verify"))(verify)
    group.command(epilog=example("mirage surrogate rebuild surrogates/"))(rebuild)
    app.add_typer(
        group, name="surrogate", help="Train surrogates, look into them, and check those that ship."
    )


def train(
    language: LanguageArgument,
    responses: ResponsesArgument,
    judgments: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Judgments, or votes as `mirage judge` writes them, on these models.",
            show_default=False,
        ),
    ],
    file: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="Where to write it.", show_default=False),
    ],
    name: NamesOption = None,
    dataset: DatasetOption = None,
    estimator: Annotated[
        str, typer.Option(metavar="NAME", help="auto selects one; forest is the paper's.")
    ] = "auto",
    tournaments: Annotated[
        int, typer.Option(metavar="N", min=1, help="Tournaments to learn from.")
    ] = 200,
    validate: Annotated[
        bool,
        typer.Option("--validate", help="Also predict models that are held out."),
    ] = False,
    seed: SeedOption = 0,
    jobs: JobsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Train a surrogate on judged models.

    It ranks others without a judge:
    `mirage rank LANGUAGE RESPONSES --dataset FILE --surrogate FILE --trust`.
    """
    from mirage.arena import BradleyTerry
    from mirage.cli.measuring import judgments_in
    from mirage.features import FeatureSuite
    from mirage.surrogate import SurrogateRanker

    check_folder(file)
    asked = dataset_of(language, dataset)
    ranker = SurrogateRanker(estimator, seed=seed)
    suite = FeatureSuite.offline(asked.language)
    known = judgments_in(judgments)
    runs = runs_of(asked.language, responses, name)
    drawn = BradleyTerry().bootstrap(
        known, tournaments=tournaments, queries=None, seed=seed, progress=True
    )
    tables = [suite.score(asked, run, n_jobs=jobs, progress=True) for run in runs]
    ranker.fit([table for table in tables if table.model in drawn.models], drawn)
    idle = [table.model for table in tables if table.model not in drawn.models]
    if idle:
        say(f"left out, for there is no judgment on them: {', '.join(idle)}")
    checked = ranker.cross_validate(n_jobs=jobs) if validate else None
    ranker.save(file)
    if as_json:
        out_json(_plain(ranker, checked))
    else:
        out(f"{file}: {ranker}")
        if checked is not None:
            out(_validated(checked))


def show(
    source: Annotated[
        str,
        typer.Argument(
            metavar="LANGUAGE|FILE", help="One that ships, or a file.", show_default=False
        ),
    ],
    trust: TrustOption = False,
    validate: Annotated[
        bool,
        typer.Option("--validate", help="Also predict models that are held out."),
    ] = False,
    jobs: JobsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Show what a surrogate was trained on."""
    ranker = _found(source, trust)
    checked = ranker.cross_validate(n_jobs=jobs) if validate else None
    if as_json:
        out_json(_plain(ranker, checked))
        return
    out(_described(ranker))
    if checked is not None:
        out(_validated(checked))


def verify(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FOLDER]",
            help="Artifacts beside their manifest.  [default: those that ship]",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check the SHA-256 of surrogates against their manifest.

    Falls short (status 1) where one was changed, is missing or is in no manifest.
    """
    found = _shipped() if folder is None else _in_folder(place_of(folder))
    wrong = {name: why for name, why in found.items() if why}
    if as_json:
        out_json({name: {"sound": not why, "reason": why or None} for name, why in found.items()})
    else:
        out(f"{len(found) - len(wrong)} of {len(found)} surrogates are as their manifest says")
    if wrong:
        fell_short(list(wrong.values()))


def rebuild(
    folder: Annotated[
        Path, typer.Argument(help="Where to write the artifacts.", show_default=False)
    ],
    jobs: JobsOption = -1,
    as_json: JsonOption = False,
) -> None:
    """Train the surrogates that ship again, bit for bit.

    They learn from the bundled corpora alone, in about two minutes.
    """
    from mirage.surrogate.artifacts import MANIFEST
    from mirage.surrogate.pretraining import write_pretrained

    write_pretrained(folder, n_jobs=jobs)
    files = sorted(path.name for path in folder.glob("*.joblib"))
    if as_json:
        out_json({"surrogates": files, "manifest": MANIFEST})
    else:
        out(f"{folder}: {len(files)} surrogates and a manifest")


# Showing ------------------------------------------------------------------------------------------


def _found(source: str, trust: bool) -> SurrogateRanker:
    from mirage.languages import LANGUAGES, Language
    from mirage.surrogate import SurrogateRanker

    path = Path(source)
    if source in LANGUAGES:
        return SurrogateRanker.pretrained(source)
    if path.exists() or path.suffix or len(path.parts) > 1:
        return loaded(path, trust)
    return SurrogateRanker.pretrained(Language.of(source).code)


def _described(ranker: SurrogateRanker) -> str:
    from mirage._base.tables import Table, to_text

    parts = [
        f"estimator {ranker.estimator}, recipe {ranker.recipe}, seed {ranker.seed}",
        wrapped("features: " + ", ".join(ranker.features)),
    ]
    for code, one in ranker.data.items():
        title = f"{code}: {len(one.query_ids)} queries, {len(one.y)} tournaments"
        rows = sorted(zip(one.mean_y.tolist(), one.models, strict=True), reverse=True)
        cells = tuple((name, f"{logit:.2f}") for logit, name in rows)
        parts.append(
            to_text(Table(title, ("model", "logit"), cells, (False,) * len(cells), name=0))
        )
    return "\n".join(parts)


def _validated(checked: Validation) -> str:
    return "\n".join(
        f"{code}: held-out models, {len(checked.held_out)} splits: Kendall's tau "
        f"{checked.tau[code]:.2f}, R2 {checked.r2[code]:.2f}, {checked.coverage[code]:.0%} inside "
        "their 95 % interval"
        for code in checked.tau
    )


def _plain(ranker: SurrogateRanker, checked: Validation | None) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "estimator": ranker.estimator,
        "recipe": str(ranker.recipe),
        "seed": ranker.seed,
        "features": ranker.features,
        "languages": {
            code: {
                "queries": len(one.query_ids),
                "tournaments": len(one.y),
                "logits": dict(zip(one.models, one.mean_y.tolist(), strict=True)),
            }
            for code, one in ranker.data.items()
        },
    }
    if checked is not None:
        plain["validation"] = {
            "splits": len(checked.held_out),
            "tau": checked.tau,
            "r2": checked.r2,
            "coverage": checked.coverage,
        }
    return plain


# Checking -----------------------------------------------------------------------------------------


def _shipped() -> dict[str, str]:
    """What is wrong with each surrogate that ships; empty where nothing is."""
    from mirage.languages import LANGUAGES
    from mirage.surrogate import artifacts

    return {code: _wrong(lambda code=code: artifacts.read_pretrained(code)) for code in LANGUAGES}


def _in_folder(folder: Path) -> dict[str, str]:
    """The same for a folder: what its manifest names, and what it does not name."""
    import json

    from mirage.surrogate import artifacts

    manifest = folder / artifacts.MANIFEST
    if not manifest.is_file():
        raise ArtifactError(
            f"{folder}: there is no {artifacts.MANIFEST}; `mirage surrogate rebuild` writes one"
        )
    try:
        named = set(json.loads(manifest.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise ArtifactError(f"{manifest}: is no manifest ({error})") from None
    names = sorted(named | {path.name for path in folder.glob("*.joblib")})
    return {name: _wrong(lambda name=name: artifacts.read(folder / name)) for name in names}


def _wrong(read: Any) -> str:
    try:
        read()
    except ArtifactError as error:
        return str(error)
    return ""

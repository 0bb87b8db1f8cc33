"""mirage baseline: save the features of a run, for comparison with later runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import check_folder, dataset_of, run_of
from mirage.cli._output import out
from mirage.cli._shell import app, argument, example, option


@app.command(
    epilog=example(
        "mirage baseline my-rag.jsonl --language sw --out baseline.json",
        "mirage baseline monday.jsonl tuesday.jsonl friday.jsonl --language sw --out baseline.json",
    )
)
def baseline(
    responses: Annotated[
        list[str],
        argument(
            "RESPONSES",
            'JSON Lines {"query_id": ..., "text": ...}: FILE, or NAME=FILE to name the model; - '
            "is standard input. Give three or more runs of one system, made on different days, so "
            "that `mirage check` can account for noise between runs.",
        ),
    ],
    file: Annotated[
        Path, option("FILE", "Write the baseline to this file, replacing it if it exists.", "--out")
    ],
    language: options.Language = None,
    dataset: options.Dataset = None,
    feature: options.Features = None,
) -> None:
    """Save the features of a model's responses as a baseline file.

    Commit the file to your repository. `mirage check` and, in pytest, assert_no_regression compare
    later responses with it.
    """
    from mirage.features import FeatureSuite
    from mirage.testing import save_baseline

    check_folder(file)
    queries = dataset_of(language, dataset)
    suite = FeatureSuite(feature) if feature else None
    runs = [run_of(queries.language, text) for text in responses]
    saved = save_baseline(runs, file, on=queries, suite=suite)
    table = saved.table
    missing = table.unmeasured
    measured = [name for name in table.features if name not in missing]
    lines = [f"{file}: {len(table)} queries, {len(measured)} features"]
    lines += [f"not measured, {name}: {why}" for name, why in missing.items()]
    out("\n".join(lines))

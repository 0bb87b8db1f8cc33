"""mirage baseline: what the pytest plugin compares later runs with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import check_folder, dataset_of, runs_of
from mirage.cli._output import out_either
from mirage.cli._shell import argument, example, group, option

__all__ = ["commands"]

commands = group("baseline", "Save what later runs are compared with.")


@commands.command(epilog=example("mirage baseline save sw my-rag.jsonl --out baseline.json"))
def save(
    language: options.Language,
    responses: Annotated[
        Path,
        argument("RESPONSES", 'JSON Lines {"query_id": ..., "text": ...}; - is standard input.'),
    ],
    file: Annotated[Path, option("FILE", "The baseline; one that is there is replaced.", "--out")],
    name: Annotated[
        str | None, option("NAME", "What to call the model.  [default: the file's name]")
    ] = None,
    dataset: options.Dataset = None,
    feature: options.Features = None,
    as_json: options.Json = False,
) -> None:
    """Save a model's features as a small file to commit.

    assert_no_regression compares later runs with it, in pytest.
    """
    from mirage.features import FeatureSuite
    from mirage.testing import save_baseline

    check_folder(file)
    queries = dataset_of(language, dataset)
    suite = FeatureSuite(feature) if feature else None
    (run,) = runs_of(queries.language, [responses], [name] if name else None)
    baseline = save_baseline(run, file, on=queries, suite=suite)
    table = baseline.table
    missing = table.unmeasured
    measured = [name for name in table.features if name not in missing]
    plain = {
        "queries": len(table),
        "features": measured,
        "not_measured": missing,
        "failed": len(baseline.failed),
    }
    lines = [f"{file}: {len(table)} queries, {len(measured)} features"]
    lines += [f"not measured, {name}: {why}" for name, why in missing.items()]
    out_either("\n".join(lines), plain, as_json)

"""mirage hub: check that the benchmark on the hub can be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import existing, language_of
from mirage.cli._output import out_either, wrapped
from mirage.cli._shell import app, example, fall_short, option

if TYPE_CHECKING:
    from mirage.sources.hub_survey import Part

REASONS = 5  # largest number of omitted rows to list with reasons, per dataset


@app.command(epilog=example("mirage hub --language sw", "mirage hub --language sw --copies FOLDER"))
def hub(
    language: options.RequiredLanguage = None,
    copies: Annotated[
        Path | None,
        option(
            "FOLDER", "Read the datasets from copies in this folder instead of downloading them."
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check that MIRAGE-Bench on the Hugging Face hub can be read.

    Lists how many rows each of its three datasets has for a language, and which rows are left out
    and why. The exit status is 1 if a dataset cannot be used. Requires mirage-rag[hub].
    """
    from mirage.sources.hub_survey import survey

    folder = None if copies is None else existing(copies)
    parts = survey(language_of(language), path=folder)
    out_either("\n".join(map(_description, parts)), [part._asdict() for part in parts], as_json)
    fall_short(f"{part.dataset}: {part.problem}" for part in parts if part.problem)


def _description(part: Part) -> str:
    contents = ", ".join(f"{count} {what}" for what, count in part.found.items()) or "nothing"
    lines = [f"{part.dataset} ({part.revision or 'not found'})"]
    if part.revision:
        lines += [f"  {part.rows} rows: {contents}", f"  columns: {', '.join(part.columns)}"]
    lines += [f"  {kind}: {', '.join(names)}" for kind, names in part.names.items()]
    if part.revision:
        lines.append(f"  left out: {len(part.left_out)}")
    lines += [f"    {why}" for why in part.left_out[:REASONS]]
    if len(part.left_out) > REASONS:
        lines.append(f"    and {len(part.left_out) - REASONS} more")
    return "\n".join(
        wrapped(line.strip(), " " * (len(line) - len(line.lstrip()))) for line in lines
    )

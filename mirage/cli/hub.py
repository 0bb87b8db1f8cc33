"""mirage hub: whether the benchmark on the hub can be read as it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import place_of
from mirage.cli._output import out_either, wrapped
from mirage.cli._shell import example, fall_short, group, option

if TYPE_CHECKING:
    from mirage.sources.hub_survey import Part

__all__ = ["commands"]

REASONS = 5  # rows that were left out to name, of each dataset

commands = group("hub", "Look at MIRAGE-Bench on the Hugging Face hub (extra hub).")


@commands.command(epilog=example("mirage hub check sw", "mirage hub check sw --copies FOLDER"))
def check(
    language: options.Language,
    copies: Annotated[
        Path | None,
        option("FOLDER", "Copies of the benchmark's datasets, in place of the hub."),
    ] = None,
    judge: Annotated[
        str | None, option("NAME", "Whose judgments.  [default: GPT-4o's]", "--judge")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Read what the hub has of a language, and say what was found and what was left out.

    Falls short (status 1) where one of the three datasets cannot be used.
    """
    from mirage.sources.hub_survey import survey

    folder = None if copies is None else place_of(copies)
    parts = survey(language, path=folder, judge=judge)
    out_either("\n".join(map(_described, parts)), [part._asdict() for part in parts], as_json)
    fall_short(f"{part.dataset}: {part.problem}" for part in parts if part.problem)


def _described(part: Part) -> str:
    found = ", ".join(f"{count} {what}" for what, count in part.found.items()) or "nothing"
    lines = [f"{part.dataset} ({part.revision or 'not found'})"]
    if part.revision:
        lines += [f"  {part.rows} rows: {found}", f"  columns: {', '.join(part.columns)}"]
    lines += [f"  {kind}: {', '.join(names)}" for kind, names in part.names.items()]
    if part.revision:
        lines.append(f"  left out: {len(part.left_out)}")
    lines += [f"    {why}" for why in part.left_out[:REASONS]]
    if len(part.left_out) > REASONS:
        lines.append(f"    and {len(part.left_out) - REASONS} more")
    return "\n".join(
        wrapped(line.strip(), " " * (len(line) - len(line.lstrip()))) for line in lines
    )

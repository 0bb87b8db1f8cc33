"""mirage published: the ranking of the MIRAGE-Bench paper."""

from __future__ import annotations

from mirage.cli import _options as options
from mirage.cli._output import out, out_json_text
from mirage.cli._shell import app, example

__all__ = ["published"]


@app.command(epilog=example("mirage published sw"))
def published(language: options.Language, as_json: options.Json = False) -> None:
    """Print the MIRAGE-Bench paper's ranking of 19 LLMs."""
    from mirage.leaderboard import Leaderboard

    ranking = Leaderboard.published(language)
    if as_json:
        out_json_text(ranking.to_json())
    else:
        out(ranking)

"""The command line: a thin shell over the library.

Results go to standard output, everything else to standard error. A command ends with 0 where what
was asked for holds, with 1 where it fell short, and with 2 where the input was bad.
"""

from __future__ import annotations

from typing import Annotated

import typer

from mirage.cli.asking import add_to as add_asking
from mirage.cli.baselines import add_to as add_baselines
from mirage.cli.checking import add_to as add_checking
from mirage.cli.data import add_to as add_data
from mirage.cli.measuring import add_to as add_measuring
from mirage.cli.ranks import add_to as add_ranks
from mirage.cli.shell import Shell, say_plainly, version
from mirage.cli.surrogates import add_to as add_surrogates

__all__ = ["app"]

app = typer.Typer(
    cls=Shell,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich's takes longer to import than to read
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def main(
    _version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Rank retrieval-augmented generation systems in 18 languages, offline.

    Exit status: 0 what was asked for holds, 1 it fell short, 2 the input was bad.
    """
    say_plainly()


for add in (
    add_ranks,
    add_asking,
    add_measuring,
    add_baselines,
    add_surrogates,
    add_data,
    add_checking,
):
    add(app)

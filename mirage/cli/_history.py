"""Where a command notes what it measured, and at which commit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Annotated

from mirage.cli._shell import option
from mirage.errors import MirageError

__all__ = ["File", "Label", "Sha", "check_history", "commit_of"]

File = Annotated[
    Path | None, option("FILE", "Add this run to a history, which `mirage history` shows.")
]
Sha = Annotated[
    str | None, option("SHA", "With --history.  [default: that of the CI job, or of git]")
]
Label = Annotated[str, option("TEXT", "With --history: a word for people.", show_default=False)]

_VARIABLES = ("GITHUB_SHA", "CI_COMMIT_SHA")  # of GitHub and of GitLab


def check_history(history: Path | None, commit: str | None, label: str) -> None:
    """Refuse settings of a history where there is none, and a run of which no commit is known."""
    if history is None:
        if commit or label:
            raise MirageError("--commit and --label go with --history")
        return
    commit_of(commit)


def commit_of(commit: str | None) -> str:
    """The commit that is named, or that is checked out here."""
    known = commit or next(filter(None, map(os.environ.get, _VARIABLES)), None)
    if known:
        return known
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        raise MirageError("nothing says which commit this is; give --commit SHA") from None
    return done.stdout.strip()

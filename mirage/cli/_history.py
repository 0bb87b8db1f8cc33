"""Find the commit that a command records in a history file."""

from __future__ import annotations

import os
import subprocess

from mirage.errors import MirageError

_VARIABLES = ("MIRAGE_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA")


def current_commit() -> str:
    """Return the SHA of the current commit.

    It is read from ``MIRAGE_COMMIT``, from the variables of the CI job or, if none of them is set,
    from the git repository.

    Raises:
        MirageError: If no variable is set and git has no commit.
    """
    commit = next(filter(None, map(os.environ.get, _VARIABLES)), None)
    if commit:
        return commit
    try:
        process = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        raise MirageError(
            "--history: the current commit is unknown, because this folder is not in a git "
            "repository with a commit; set the environment variable MIRAGE_COMMIT to the SHA of "
            "the commit"
        ) from (None)
    return process.stdout.strip()

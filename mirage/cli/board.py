"""mirage board: check the submissions to a team's board, and build its site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mirage.cli import _options as options
from mirage.cli._inputs import existing, file_of, named_texts
from mirage.cli._output import out, out_either
from mirage.cli._shell import argument, example, fall_short, group, option

if TYPE_CHECKING:
    from mirage.boards.folders import BoardFolder

commands = group("board", "Host a leaderboard for a team: a static site from files in Git.")

Folder = Annotated[Path, argument("FOLDER", "Folder of the board, with board.json.")]
Previous = Annotated[
    Path | None,
    option(
        "PATH",
        "An earlier state of the board: its folder, such as a checkout of the main branch, or its "
        "site. Submissions that were silently removed or changed since then count as problems.",
    ),
]


@commands.command(epilog=example("mirage board new board --language sw --title 'Our RAG systems'"))
def new(
    folder: Annotated[Path, argument("FOLDER", "Folder of the new board.")],
    title: Annotated[str, option("TEXT", "Title of the page.")],
    language: Annotated[
        list[str],
        option(
            "CODE",
            "Language of the board as an ISO 639-1 code; may be repeated. The queries are those of "
            "FOLDER/queries/CODE.jsonl, or the bundled ones.",
            autocompletion=options.complete_language,
        ),
    ],
    judge: Annotated[
        str,
        option(
            "NAME",
            "Name of the judge whose votes are in FOLDER/judgments/CODE.jsonl (CODE: a language). "
            "With `surrogate`, no votes are needed: the bundled surrogate scores the responses to "
            "the bundled queries.",
        ),
    ] = "surrogate",
) -> None:
    """Create a board, which is a team's own leaderboard.

    Writes board.json and CI jobs to FOLDER. The jobs check pull requests, and publish the site on
    GitHub Pages or GitLab Pages.
    """
    from mirage.boards.starting import start_board

    start_board(folder, language, title=title, judge=judge)
    out(f"{folder / 'board.json'}: a board in {', '.join(language)}")


@commands.command(
    epilog=example("mirage board submit board sw=my-rag.jsonl --model my-rag --submitter anna")
)
def submit(
    folder: Folder,
    responses: Annotated[
        list[str],
        argument(
            "CODE=FILE",
            'Responses in a language, as JSON Lines {"query_id": ..., "text": ...}.',
        ),
    ],
    model: Annotated[str, option("NAME", "Name of the system.")],
    submitter: Annotated[str, option("NAME", "Your name, such as your GitHub user name.")],
    link: Annotated[str, option("URL", "Address of the code or a description.")] = "",
) -> None:
    """Create a submission folder, to commit in a pull request.

    If `mirage board check` would refuse the submission, the folder is deleted again, and the exit
    status is 1.
    """
    import shutil
    from datetime import UTC, datetime

    from mirage.boards.folders import BoardFolder
    from mirage.boards.rules import new_problems
    from mirage.boards.starting import add_submission

    texts = named_texts("CODE=FILE", responses, "CODE=FILE, such as sw=my-rag.jsonl")
    files = {code: file_of(Path(text)) for code, text in texts.items()}
    day = datetime.now(UTC).date()
    before = BoardFolder(existing(folder))
    path = add_submission(folder, files, model=model, submitter=submitter, day=day, link=link)
    problems = new_problems(before, BoardFolder(folder))
    if problems:
        shutil.rmtree(path)
    fall_short(problems)
    out(f"{path}: commit this folder in a pull request")


@commands.command(epilog=example("mirage board check board --previous ../base"))
def check(folder: Folder, previous: Previous = None, as_json: options.Json = False) -> None:
    """Check the submissions to a board.

    Exit status: 0 if the board may be published, and 1 if there is a problem. Each problem is
    printed with its file and line.
    """
    board, problems = _problems(folder, previous)
    if as_json or not problems:
        text = f"{folder}: {len(board.entries)} submissions, no problem"
        plain = {"submissions": [entry.id for entry in board.entries], "problems": problems}
        out_either(text, plain, as_json)
    fall_short(problems)


@commands.command(epilog=example("mirage board build board --out site"))
def build(
    folder: Folder,
    site: Annotated[Path, option("FOLDER", "Write the site to this folder.", "--out")],
    previous: Previous = None,
    jobs: options.Jobs = 1,
) -> None:
    """Check a board, and write its site.

    A submission contains no scores: the command computes all scores from the responses.

    If `mirage board check` would report a problem, nothing is written and the exit status is 1.
    """
    from mirage.boards.scores import rank_submissions
    from mirage.boards.site import write_board

    manifest = site / "board.json"
    earlier = manifest if previous is None and manifest.exists() else previous
    board, problems = _problems(folder, earlier)
    fall_short(problems)
    written = write_board(board, rank_submissions(board, n_jobs=jobs), site)
    counts = (f"{view} {len(rows)}" for view, rows in written.views.items())
    out(f"{site / 'index.html'}: {len(board.entries)} submissions ({', '.join(counts)})")


def _problems(folder: Path, previous: Path | None) -> tuple[BoardFolder, list[str]]:
    """Return the board in a folder, and its problems."""
    from mirage.boards.folders import BoardFolder, read_manifest
    from mirage.boards.rules import check_board

    board = BoardFolder(existing(folder))
    earlier = None if previous is None else read_manifest(existing(previous))
    return board, check_board(board, earlier)

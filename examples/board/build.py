"""Build the site of a board with three small systems in two languages.

    python examples/board/build.py [FOLDER]

The folder gets the board (``board/``: board.json, CI jobs and submissions) and its site
(``site/``). It needs no network, no key and no GPU. To look at the site:

    python -m http.server --directory FOLDER/site
"""

import argparse
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from mirage import MirageDataset, Query, respond
from mirage.boards.folders import BoardFolder
from mirage.boards.rules import check_board
from mirage.boards.scores import rank_submissions
from mirage.boards.site import write_board
from mirage.boards.starting import add_submission, start_board
from mirage.text import split_sentences, tokenize

LANGUAGES = ("sw", "en")


def shared_words(query: Query, text: str) -> int:
    """Return how many words of the question a text has."""
    return len({*tokenize(query.text, query.language)} & {*tokenize(text, query.language)})


def first_passage(query: Query) -> str:
    """Quote the first sentence of the first passage."""
    passage = query.passages[0]
    return f"##Answer: {split_sentences(passage.text, query.language)[0]} [{passage.id}]"


def nearest_passage(query: Query) -> str:
    """Quote the first sentence of the passage that shares most words with the question."""
    passage = max(query.passages, key=lambda passage: shared_words(query, passage.text))
    return f"##Answer: {split_sentences(passage.text, query.language)[0]} [{passage.id}]"


def nearest_sentence(query: Query) -> str:
    """Quote the sentence that shares most words with the question."""
    sentences = [
        (sentence, passage.id)
        for passage in query.passages
        for sentence in split_sentences(passage.text, query.language)
    ]
    sentence, id_ = max(sentences, key=lambda pair: shared_words(query, pair[0]))
    return f"##Reason: [{id_}]\n##Answer: {sentence} [{id_}]"


SYSTEMS = (
    (first_passage, "anna", date(2026, 11, 3)),
    (nearest_passage, "ben", date(2026, 11, 10)),
    (nearest_sentence, "anna", date(2026, 11, 17)),
)


def main(folder: Path) -> None:
    """Write the board and its site."""
    board = folder / "board"
    start_board(board, LANGUAGES, title="Three small systems")
    for system, submitter, day in SYSTEMS:
        files = {code: folder / f"{system.__name__}-{code}.jsonl" for code in LANGUAGES}
        for code, file in files.items():
            run = respond(system, MirageDataset.bundled(code), system.__name__, progress=False)
            run.save(file)
        add_submission(board, files, model=system.__name__, submitter=submitter, day=day)
    content = BoardFolder(board)
    problems = check_board(content)
    if problems:
        raise SystemExit("\n".join(problems))
    site = write_board(content, rank_submissions(content, progress=False), folder / "site")
    for code, rows in site.views.items():
        print(code, *(f"{row.ranks}: {row.id}" for row in rows), sep="\n  ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="by default a temporary folder")
    options = parser.parse_args()
    if options.folder is None:
        with TemporaryDirectory() as temporary:
            main(Path(temporary))
    else:
        main(options.folder)

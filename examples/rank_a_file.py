"""Rank recorded responses: a system that can write a file needs no Python.

    python examples/rank_a_file.py                        # on a file that the script writes
    mirage data queries en > queries.jsonl                # the questions, with their passages
    python examples/rank_a_file.py en responses.jsonl     # your system's responses to them

A line of responses.jsonl has a "query_id" and a "text", or "text": null and an "error". A question
that failed, or has no line, is listed below the table with the reason. It is left out of the means,
and does not count as zero.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from mirage import Leaderboard, MirageDataset


def record(path: Path, language: str) -> None:
    """Write responses as your system would: quote the first passage, fail on q05, omit the last."""
    with path.open("w", encoding="utf-8") as file:
        for query in MirageDataset.bundled(language)[:-1]:
            row: dict[str, str | None] = {
                "query_id": query.id,
                "text": f"##Answer: {query.passages[0].text} [1]",
            }
            if query.id == "q05":
                row |= {"text": None, "error": "HTTP 503 from the index"}
            print(json.dumps(row, ensure_ascii=False), file=file)


def main(language: str = "en", responses: str | None = None) -> None:
    """Rank the given file, or one that the script writes."""
    with TemporaryDirectory() as folder:
        path = Path(responses or Path(folder) / "first-passage.jsonl")
        if responses is None:
            record(path, language)
        print(Leaderboard.bundled(language).rank(path, model=path.stem))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("language", nargs="?", default="en")
    parser.add_argument("responses", nargs="?", help="JSON Lines; made up by default")
    options = parser.parse_args()
    main(options.language, options.responses)

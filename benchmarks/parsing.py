"""Parsing takes time in proportion to length, garbage included.

    python benchmarks/parsing.py

The seconds to parse, split and tokenize 50 kB and 400 kB made of one piece over and over, and
their ratio: 8 is linear, 64 would be quadratic. Then the same for what raters and judges may write,
with the readers of their answers.
"""

from __future__ import annotations

import argparse
import time

from mirage.features.nuggets import LISTS, read_labels, read_nuggets
from mirage.features.rated import read_fluency
from mirage.llm.questions import final_verdict, harmless
from mirage.text import parse, split_sentences, tokenize

PIECES = (
    "[",
    "[1,",
    "[1] a",
    "([1])",
    "[1](#",
    "#",
    "##Answer:",
    "**Answer",
    "1. ",
    "「あ。",
    "\\",
    "[1-999,",
    "1-9,2-9,",
)
ANSWERS = (
    '[{\\"',
    '[{"',
    '{"a":',
    "[[",
    '["support",',
    "1. support\n",
    "- [vital] ",
    "<|",
    "##Rating",
)
SHOWN = tuple(f"100{n}#0" for n in range(10))


def seconds(piece: str, length: int) -> float:
    """Processor time for a text of so many characters."""
    text = "##Answer: " + piece * (length // len(piece))
    start = time.process_time()
    parse(text, "en", SHOWN)
    split_sentences(text, "en")
    tokenize(text, "en")
    return time.process_time() - start


def seconds_to_read(piece: str, length: int) -> float:
    """Processor time for every reader of what LLMs answer."""
    text = piece * (length // len(piece))
    start = time.process_time()
    read_nuggets(text)
    read_labels(text, 3)
    read_fluency(text)
    final_verdict(text, ("A", "B"))
    harmless(text, LISTS)
    return time.process_time() - start


def main() -> None:
    """Print a line a piece."""
    seconds("warm up. ", 1000)
    print("piece          50 kB    400 kB   ratio")
    for measure, pieces in ((seconds, PIECES), (seconds_to_read, ANSWERS)):
        for piece in pieces:
            short, long = measure(piece, 50_000), measure(piece, 400_000)
            print(f"{piece!r:14} {short:7.3f} {long:9.3f} {long / short:7.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    main()

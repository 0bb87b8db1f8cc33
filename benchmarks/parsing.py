"""Parsing takes time in proportion to length, garbage included.

    python benchmarks/parsing.py

The seconds to parse, split and tokenize 50 kB and 400 kB made of one piece over and over, and
their ratio: 8 is linear, 64 would be quadratic.
"""

from __future__ import annotations

import time

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


def main() -> None:
    """Print a line a piece."""
    seconds("warm up. ", 1000)
    print("piece          50 kB    400 kB   ratio")
    for piece in PIECES:
        short, long = seconds(piece, 50_000), seconds(piece, 400_000)
        print(f"{piece!r:12} {short:7.3f} {long:9.3f} {long / short:7.1f}")


if __name__ == "__main__":
    main()

"""Parsing of plain text."""

from __future__ import annotations

from mirage.corpus._structure import Block, Parsed


def parse(content: bytes) -> Parsed:
    """Return the whole text as one block."""
    text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    return Parsed([Block(text)])

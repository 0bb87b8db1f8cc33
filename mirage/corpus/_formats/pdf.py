"""Parsing of PDF with pypdf."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mirage.corpus._structure import Block, Parsed
from mirage.errors import DatasetError, needing


def parse(content: bytes) -> Parsed:
    """Return one block of text per page."""
    with needing("pypdf"):
        from pypdf import PasswordType, PdfReader

    with _silence_pypdf():
        reader = PdfReader(io.BytesIO(content))
        # Many files are encrypted with an empty password, only to forbid printing.
        if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
            raise DatasetError("the file is encrypted; save it without a password")
        pages = [page.extract_text().strip() for page in reader.pages]
        title = str(getattr(reader.metadata, "title", None) or "")
    blocks = [Block(page) for page in pages if page]
    empty = len(pages) - len(blocks)
    problem = (
        f"no text on {empty} of {len(pages)} pages, which may be scans; run OCR on the file"
        if empty
        else ""
    )
    return Parsed(blocks, title, problem)


@contextmanager
def _silence_pypdf() -> Iterator[None]:
    """Return a context manager that silences pypdf's log messages about damage in files."""
    logger = logging.getLogger("pypdf")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)

"""Test that logged text from users cannot control a terminal."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage import MirageDataset, respond
from mirage._base.logs import logger
from mirage._base.quoting import visible
from mirage.models import Query

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b1m\u202egnp.exe\r"


def test_an_error_of_a_system_is_logged_without_escape_sequences(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def answer(query: Query) -> str:
        if query.id == "q1":
            raise ValueError(HOSTILE)
        return "Yes."

    queries = (Query(id=f"q{i}", language="en", text="Which?") for i in range(3))
    with caplog.at_level(logging.WARNING):
        respond(answer, MirageDataset(queries), HOSTILE, progress=False)
    (record,) = caplog.records
    assert "\\x1b[2J" in record.getMessage()
    assert not any(char in record.getMessage() for char in "\x1b\x07\x9b\u202e\r")


@given(st.text())
def test_visible_text_is_logged_unchanged(text: str) -> None:
    visible_text = visible(text)
    assert all(
        char.isprintable() or char in "\t\n" or char not in "\x00\x1b\x7f" for char in visible_text
    )
    if text.isprintable():
        assert visible_text == text


def test_a_logger_has_its_filter_once() -> None:
    assert logger("mirage.twice") is logger("mirage.twice")
    assert len(logger("mirage.twice").filters) == 1

"""A change of style raises no alarm in the gate."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mirage.languages import LANGUAGES
from mirage.surrogate.drafts import bundled_texts

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "gate.py"
STYLES = (
    "heading",
    "bullets",
    "bold",
    "opener",
    "closer",
    "signature",
    "footer",
    "emoji",
    "table",
    "JSON",
    "numbering",
)
# Layout and small talk that features still read as part of the answer.
READ_AS_TEXT = {"heading", "opener", "closer", "signature", "footer", "emoji", "numbering"}


@cache
def benchmark() -> dict[str, Any]:
    return runpy.run_path(str(BENCHMARK))


@cache
def bench(code: str) -> Any:
    return benchmark()["Bench"](code)


@pytest.mark.parametrize(
    "code", [c if c == "en" else pytest.param(c, marks=pytest.mark.slow) for c in LANGUAGES]
)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason="read as text", strict=False))
        if name in READ_AS_TEXT
        else name
        for name in STYLES
    ],
)
def test_a_change_of_style_is_no_alarm(code: str, name: str) -> None:
    true = {id_: texts.true[0] for id_, texts in bundled_texts(code).items()}
    for held_back in (False, True):
        style = benchmark()["styles"](code, held_back)[name]
        comparison = bench(code).compare([true], [{id_: style(t) for id_, t in true.items()}])
        assert comparison.verdict != "worse", [c.feature for c in comparison.regressed(0.05)]


def test_every_style_is_tested() -> None:
    assert set(benchmark()["styles"]("en", False)) == set(STYLES)

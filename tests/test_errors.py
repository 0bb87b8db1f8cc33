"""Test the messages of errors."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import mirage.errors
from mirage._base.packages import package
from mirage.errors import (
    EXTRAS,
    HARNESSES,
    MirageError,
    MissingPackageError,
    UnknownNameError,
    install_command,
    needing,
)
from mirage.languages import Language


def test_every_error_is_a_mirage_error() -> None:
    errors = [getattr(mirage.errors, name) for name in mirage.errors.__all__]
    assert all(issubclass(error, MirageError) for error in errors)


def test_an_unknown_name_hints_at_the_nearest_and_reads_well() -> None:
    error = UnknownNameError("feature", "answer_blue", ["answer_bleu", "citation_recall@10"])
    assert str(error) == "unknown feature 'answer_blue'; did you mean 'answer_bleu'?"
    assert isinstance(error, KeyError)
    assert isinstance(error, ValueError)


def test_the_first_of_equally_similar_names_is_suggested() -> None:
    queries = [f"q{number:02}" for number in range(1, 41)]
    assert str(UnknownNameError("query", "q1", queries)).endswith("did you mean 'q01'?")
    assert str(UnknownNameError("query", "Nile", queries)).startswith(
        "unknown query 'Nile'; known:"
    )
    assert str(UnknownNameError("query", "Nile", [])).startswith("unknown query 'Nile'")
    place = UnknownNameError("query", "q1", queries, "in the run of model 'm'")
    assert str(place) == "unknown query 'q1' in the run of model 'm'; did you mean 'q01'?"
    assert str(pickle.loads(pickle.dumps(place))) == str(place)


def test_an_unknown_name_survives_the_way_between_processes() -> None:
    with pytest.raises(UnknownNameError) as caught:
        Language.of("Kiswahili")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) == "unknown language 'Kiswahili'; did you mean 'sw'?"
    assert again.known == caught.value.known


def test_the_install_command_names_a_source_that_exists_before_the_package_is_on_pypi() -> None:
    source = "git+https://github.com/mirage-rag/mirage"
    assert install_command() == f"pip install 'mirage-rag @ {source}'"
    assert install_command("hub") == f"pip install 'mirage-rag[hub] @ {source}'"


def import_with_needing(name: str) -> None:
    with needing(name):
        __import__(name)


@pytest.mark.parametrize("require", [package, import_with_needing])
def test_a_missing_package_that_no_list_has_is_a_clear_error(
    require: Callable[[str], object],
) -> None:
    expected = (
        "the package unlisted_package, .*add the package to HARNESSES or EXTRAS in mirage/errors.py"
    )
    with pytest.raises(MissingPackageError, match=expected):
        require("unlisted_package")


def test_every_optional_package_is_listed() -> None:
    """Packages that are imported with an error for users who lack them have a pip command."""
    listed = {name for names in EXTRAS.values() for name in names} | set(HARNESSES)
    named = {
        name
        for path in Path(mirage.errors.__file__).parent.rglob("*.py")
        for name in re.findall(r'\b(?:needing|package)\("([\w-]+)[^"]*"\)', path.read_text("utf-8"))
    }
    assert {"ragas", "torch"} <= named
    assert named - listed == set()  # otherwise, add them to HARNESSES or EXTRAS in mirage/errors.py

"""Test files: written from responses, and scored by the faults that they catch."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from mirage._base.files import file_name, write_text
from mirage._base.quoting import python_literal
from mirage.dataset import MirageDataset, write_run
from mirage.errors import MirageError, SettingError
from mirage.models import Run
from mirage.testing._inputs import STAND_IN
from mirage.testing.mutation import SEEDS, SHARES, Bound, MutationScore, fates_of, suggested_bounds

if TYPE_CHECKING:
    import pytest

__all__ = ["score_tests", "write_tests"]


def score_tests(
    file: str | Path,
    dataset: MirageDataset,
    run: Run,
    *,
    kinds: Collection[str] | None = None,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
    seeds: int = SEEDS,
) -> MutationScore:
    """The mutation score of a file of tests: pytest runs it on the responses and on each mutant.

    The assertions of :mod:`mirage.testing`, and the fixture ``mirage_run``, read the mutant in
    place of whatever system the tests name, so that none is asked: the environment variable
    ``MIRAGE_RESPONSES`` names its file meanwhile. Other assertions see no fault.

    Args:
        file: the tests.
        dataset: the queries that they are about.
        run: the responses, which the tests are to pass on.
        kinds: which kinds of fault; all by default.
        shares: of the queries that can have a fault, how many have it.
        seed: The first random seed.
        seeds: How many seeds mutants are drawn with.

    Raises:
        MirageError: pytest is not installed, finds no test, or cannot read the file.
    """
    path = Path(file)
    if not path.is_file():
        raise MirageError(f"{path}: no such file of tests")
    with tempfile.TemporaryDirectory(prefix="mirage-") as folder:
        responses = Path(folder) / f"{file_name(run.model.replace('/', '-')) or 'run'}.jsonl"

        def falling(mutant: Run) -> tuple[str, ...]:
            write_run(mutant, responses)
            return _falling(path, responses)

        return fates_of(falling, dataset, run, kinds=kinds, shares=shares, seed=seed, seeds=seeds)


def _falling(path: Path, responses: Path) -> tuple[str, ...]:
    """The tests of a file that fail on these responses."""
    try:
        import pytest
    except ImportError:
        raise MirageError("scoring tests takes pytest: pip install pytest") from None
    outcomes, said = _Outcomes(), io.StringIO()
    with _standing_in(responses), redirect_stdout(said), redirect_stderr(said):
        status = pytest.main([str(path), "-q", "-p", "no:cacheprovider"], plugins=[outcomes])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise MirageError(f"{path}: pytest cannot run it: {said.getvalue().strip()[-600:]}")
    return tuple(dict.fromkeys(outcomes.fallen))


class _Outcomes:
    """A plugin that hears of tests that fail, or whose fixtures do."""

    def __init__(self) -> None:
        self.fallen: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.fallen.append(report.nodeid.rpartition("::")[2])


@contextmanager
def _standing_in(responses: Path) -> Iterator[None]:
    before = os.environ.get(STAND_IN)
    os.environ[STAND_IN] = str(responses)
    try:
        yield
    finally:
        if before is None:
            del os.environ[STAND_IN]
        else:
            os.environ[STAND_IN] = before


# Files of tests -----------------------------------------------------------------------------------


def write_tests(
    file: str | Path,
    dataset: MirageDataset,
    run: Run,
    responses: str | Path,
    queries: str | Path | None = None,
    *,
    kinds: Collection[str] | None = None,
    shares: Sequence[float] = SHARES,
    seed: int = 0,
    seeds: int = SEEDS,
) -> MutationScore:
    """Write a pytest file that passes on the responses, with its mutation score in its header.

    The names of files and of the model are in string literals of the file and nowhere else, so that
    no name runs as code.

    Args:
        file: The file to write; an existing one is replaced.
        dataset: The queries.
        run: The responses.
        responses: The file with the responses, which the tests read.
        queries: The file of the dataset, which the tests read; by default they take the bundled
            queries of its language.
        kinds: Kinds of fault to try; all by default.
        shares: For each share, a mutant has the fault on this share of the queries that can have
            it.
        seed: The first random seed.
        seeds: How many seeds mutants are drawn with.

    Raises:
        SettingError: No fault breaks any bound, so that there is nothing to write.
    """
    bounds, score = suggested_bounds(
        dataset, run, kinds=kinds, shares=shares, seed=seed, seeds=seeds
    )
    if not bounds:
        why = "".join(f"; {name} was not measured: {why}" for name, why in score.unmeasured.items())
        raise SettingError(
            f"{dataset.name}: no fault breaks a bound on the features of {run.model!r}; "
            f"{len(dataset)} queries may be too few to tell (5 are the fewest), or lack relevant "
            f"passages and short answers{why}"
        )
    folder = Path(file).absolute().parent
    own = None if queries is None else _seen_from(folder, queries)
    text = _file(bounds, score, run, _seen_from(folder, responses), dataset.language, own)
    write_text(Path(file), text)
    return score


def _seen_from(folder: Path, path: str | Path) -> str:
    try:
        return Path(os.path.relpath(Path(path).absolute(), folder)).as_posix()
    except ValueError:  # on another drive
        return Path(path).absolute().as_posix()


def _file(
    bounds: tuple[Bound, ...],
    score: MutationScore,
    run: Run,
    responses: str,
    language: str,
    queries: str | None,
) -> str:
    asked = python_literal(language)
    if queries is not None:
        asked = f"MirageDataset.from_jsonl(HERE / {python_literal(queries)})"
    imports = ["from mirage import MirageDataset"] if queries else []
    return "\n".join(
        [
            '"""Tests of the answers of a RAG system, written by `mirage tests write`.',
            "",
            "Mutation score, the share of the kinds of fault that break a test:",
            *(f"- {score.counted(share)} on {_queries(share)}" for share in score.shares),
            *_missed(score),
            '"""',
            "",
            "from pathlib import Path",
            "",
            "import pytest",
            "",
            *imports,
            "from mirage.testing import assert_feature",
            "",
            "HERE = Path(__file__).parent",
            "# Or your system: a function from a query to text.",
            f"RAG = HERE / {python_literal(responses)}",
            f"QUERIES = {asked}",
            "",
            "",
            "@pytest.fixture",
            "def run(mirage_run):",
            f"    return mirage_run(RAG, {python_literal(run.model)}, on=QUERIES)",
            "",
            "",
            "# A mean may get worse by a tenth of its range, support by a quarter, and by chance.",
            "# Improving breaks no bound. A test that cannot tell is skipped.",
            "@pytest.mark.parametrize(",
            '    ("feature", "bounds"),',
            "    [",
            *(line for bound in bounds for line in _lines(bound, score)),
            "    ],",
            ")",
            "def test_answers(run, feature, bounds):",
            "    assert_feature(run, feature, on=QUERIES, **bounds)",
            "",
        ]
    )


def _queries(share: float) -> str:
    return "all queries that can have it" if share == 1 else f"{share:.0%} of these"


def _missed(score: MutationScore) -> list[str]:
    whole = (fate.kind for fate in score.missed if fate.share == score.shares[0])
    missed = list(dict.fromkeys(whole))
    lines = [f"Missed: {', '.join(missed)}."] if missed else []
    if score.unmeasured:
        lines.append(f"Not measured: {', '.join(score.unmeasured)}.")
    return lines


def _lines(bound: Bound, score: MutationScore) -> list[str]:
    """A row of the table of bounds, and why it is there."""
    kinds = [fate.kind for fate in score.fates if bound.feature in fate.caught_by]
    most = list(dict.fromkeys(kinds))
    named = ", ".join(most[:2]) + (", ..." if len(most) > 2 else "")
    limits = ", ".join(f"{python_literal(side)}: {value:g}" for side, value in bound.limits.items())
    return [
        f"        # {bound.why}: {named}",
        f"        ({python_literal(bound.feature)}, {{{limits}}}),",
    ]

"""Writing test files for the responses of a system, and measuring which faults tests catch."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from mirage._base.files import file_name, write_text
from mirage._base.quoting import python_literal
from mirage.dataset import MirageDataset
from mirage.errors import MirageError, SettingError
from mirage.models import Run
from mirage.testing._inputs import STAND_IN
from mirage.testing.mutation import SEEDS, Bound, MutationScore, fates_of, suggested_bounds

if TYPE_CHECKING:
    import pytest


def score_tests(
    file: str | Path,
    dataset: MirageDataset,
    run: Run,
    *,
    kinds: Collection[str] | None = None,
    seed: int = 0,
    seeds: int = SEEDS,
) -> MutationScore:
    """Return the mutation score of a test file: the share of inserted faults that make it fail.

    pytest runs the file on the original responses and on each mutant, a copy of the responses with
    one kind of fault. Meanwhile the environment variable ``MIRAGE_RESPONSES`` contains the path of
    the responses. The assertions of :mod:`mirage.testing` and the fixture ``mirage_run`` read that
    file instead of asking the system that the tests name. Other assertions do not see the faults.

    Args:
        file: The test file.
        dataset: The queries of the tests.
        run: The responses; the tests should pass on them.
        kinds: Kinds of fault; all by default.
        seed: The first random seed.
        seeds: Number of consecutive random seeds.

    Raises:
        MirageError: pytest is not installed, collects no test, or cannot read the file.
    """
    path = Path(file)
    if not path.is_file():
        raise MirageError(f"{path}: no such test file")
    with tempfile.TemporaryDirectory(prefix="mirage-") as folder:
        responses = Path(folder) / f"{file_name(run.model.replace('/', '-')) or 'run'}.jsonl"

        def failing_tests(mutant: Run) -> tuple[str, ...]:
            mutant.save(responses)
            return _failing_tests(path, responses)

        return fates_of(failing_tests, dataset, run, kinds=kinds, seed=seed, seeds=seeds)


def _failing_tests(path: Path, responses: Path) -> tuple[str, ...]:
    """Return the names of the tests in a file that fail on these responses."""
    try:
        import pytest
    except ImportError:
        raise MirageError(
            "pytest is needed to score tests; install it with: pip install pytest"
        ) from None
    outcomes, output = _Outcomes(), io.StringIO()
    with _stand_in_set(responses), redirect_stdout(output), redirect_stderr(output):
        status = pytest.main([str(path), "-q", "-p", "no:cacheprovider"], plugins=[outcomes])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise MirageError(f"{path}: pytest cannot run it: {output.getvalue().strip()[-600:]}")
    return tuple(dict.fromkeys(outcomes.failures))


class _Outcomes:
    """A pytest plugin that collects the names of tests that fail or whose fixtures fail."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failures.append(report.nodeid.rpartition("::")[2])


@contextmanager
def _stand_in_set(responses: Path) -> Iterator[None]:
    """Set the environment variable ``MIRAGE_RESPONSES`` to a path within a ``with`` block."""
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
    seed: int = 0,
    seeds: int = SEEDS,
) -> MutationScore:
    """Write a pytest file that passes on the responses, with its mutation score in its header.

    The mutation score is the share of the kinds of fault, inserted into the responses, that make a
    test of the file fail.

    The names of files and of the model occur only in string literals of the file, so that they
    cannot run as code.

    Args:
        file: The file to write; an existing file is replaced.
        dataset: The queries.
        run: The responses.
        responses: File with the responses, which the tests read.
        queries: File of the dataset, which the tests read; by default they use the bundled queries
            of its language.
        kinds: Kinds of fault; all by default.
        seed: The first random seed.
        seeds: Number of consecutive random seeds.

    Returns:
        The mutation score of the written tests.

    Raises:
        SettingError: No fault breaks any bound, so no test can be written; or the model failed on a
            query, so the tests would not pass.
    """
    if run.failed:
        raise SettingError(
            f"{run.model!r} failed on {len(run.failed)} of the {len(dataset)} queries of "
            f"{dataset.name}, so the tests would fail; the first failure, on "
            f"{run.failed[0].query_id!r}: {run.failed[0].error}"
        )
    bounds, score = suggested_bounds(dataset, run, kinds=kinds, seed=seed, seeds=seeds)
    if not bounds:
        why = "".join(f"; {name} was not measured: {why}" for name, why in score.unmeasured.items())
        raise SettingError(
            f"{dataset.name}: no tests can be written for {run.model!r}, because none of the "
            f"simulated faults changes a feature enough; {len(dataset)} queries may be too few "
            f"(at least 5 are needed), or they lack relevant passages and short answers{why}"
        )
    folder = Path(file).absolute().parent
    queries_path = None if queries is None else _relative_path(folder, queries)
    text = _test_code(
        bounds, score, run, _relative_path(folder, responses), dataset.language, queries_path
    )
    write_text(Path(file), text)
    return score


def _relative_path(folder: Path, path: str | Path) -> str:
    try:
        return Path(os.path.relpath(Path(path).absolute(), folder)).as_posix()
    except ValueError:  # on Windows, if the path is on another drive than the folder
        return Path(path).absolute().as_posix()


def _test_code(
    bounds: tuple[Bound, ...],
    score: MutationScore,
    run: Run,
    responses: str,
    language: str,
    queries: str | None,
) -> str:
    queries_code = python_literal(language)
    if queries is not None:
        queries_code = f"MirageDataset.load(HERE / {python_literal(queries)})"
    imports = ["from mirage import MirageDataset"] if queries else []
    return "\n".join(
        [
            '"""Tests of the answers of a RAG system, written by `mirage tests write`.',
            "",
            "Mutation score, the share of the kinds of fault that break a test:",
            *(f"- {score.counted(share)} on {_describe_share(share)}" for share in score.shares),
            *_missed_lines(score),
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
            f"QUERIES = {queries_code}",
            "",
            "",
            "@pytest.fixture",
            "def run(mirage_run):",
            f"    return mirage_run(RAG, {python_literal(run.model)}, on=QUERIES)",
            "",
            "",
            "# A mean may get worse by a tenth of its range (support: by a quarter) and by chance.",
            "# An improvement breaks no bound. An inconclusive test is skipped.",
            "@pytest.mark.parametrize(",
            '    ("feature", "bounds"),',
            "    [",
            *(line for bound in bounds for line in _bound_lines(bound, score)),
            "    ],",
            ")",
            "def test_answers(run, feature, bounds):",
            "    assert_feature(run, feature, on=QUERIES, **bounds)",
            "",
        ]
    )


def _describe_share(share: float) -> str:
    return "all queries that can have it" if share == 1 else f"{share:.0%} of these"


def _missed_lines(score: MutationScore) -> list[str]:
    whole = (fate.kind for fate in score.missed if fate.share == score.shares[0])
    missed = list(dict.fromkeys(whole))
    lines = [f"Missed: {', '.join(missed)}."] if missed else []
    if score.unmeasured:
        lines.append(f"Not measured: {', '.join(score.unmeasured)}.")
    return lines


def _bound_lines(bound: Bound, score: MutationScore) -> list[str]:
    """Return the lines that add a bound to the parameters of the written test.

    The first line is a comment that states why the bound exists and which kinds of fault it
    catches, according to ``score``. The second line has the feature and its limits.
    """
    kinds = [fate.kind for fate in score.fates if bound.feature in fate.caught_by]
    distinct = list(dict.fromkeys(kinds))
    examples = ", ".join(distinct[:2]) + (", ..." if len(distinct) > 2 else "")
    limits = ", ".join(f"{python_literal(side)}: {value:g}" for side, value in bound.limits.items())
    return [
        f"        # {bound.why}: {examples}",
        f"        ({python_literal(bound.feature)}, {{{limits}}}),",
    ]

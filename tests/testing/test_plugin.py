"""The plugin in real pytest runs: fixtures, marker, ini option, xdist, JUnit file, and its cost."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import mirage.testing
from mirage.errors import DatasetError
from mirage.testing._runs import Runs

pytest_plugins = ["pytester"]

PLUGIN = "mirage.testing.plugin"
ROOT = Path(mirage.__file__).parents[1]

# Other plugins, which would be imported anew for nothing.
UNNEEDED = ("-p", "no:hypothesispytest", "-p", "no:anyio")

Outcome = pytest.RunResult
RunPytest = Callable[..., Outcome]


@pytest.fixture(scope="module")
def _imported() -> None:
    """Import the library before pytest runs inside this process.

    Such a run unloads the modules that it imports first, so each would import them again.
    """
    for name in mirage.testing.__all__:
        getattr(mirage.testing, name)
    board = mirage.Leaderboard.bundled("sw")
    board.rank({query.id: query.reference or "" for query in board.dataset}, model="reference")


@pytest.fixture
def run_pytest(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, _imported: None
) -> RunPytest:
    """Run pytest in an empty folder, with every warning an error: here, or as a program."""
    installed = any(entry.value == PLUGIN for entry in entry_points(group="pytest11"))
    # In an installation older than the entry point, name the plugin instead.
    load = () if installed else ("-p", PLUGIN)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(*options: str, program: bool = False) -> Outcome:
        start = pytester.runpytest_subprocess if program else pytester.runpytest_inprocess
        return start("-W", "error", *load, *UNNEEDED, *options)

    return run


def properties(path: Path) -> dict[str, list[tuple[str, Any]]]:
    """Return the properties of each test in a JUnit file."""
    cases = ElementTree.parse(path).iter("testcase")
    return {
        case.attrib["name"]: [
            (item.attrib["name"], json.loads(item.attrib["value"]))
            for item in case.iter("property")
        ]
        for case in cases
    }


MODELS = """
    import re
    from pathlib import Path

    import pytest
    from mirage import FeatureSuite, MirageDataset
    from mirage.errors import DatasetError
    from mirage.testing import assert_feature, assert_no_regression, assert_ranks, save_baseline

    def reference(query):
        return MirageDataset.bundled(query.language)[query.id].reference

    def good(query):
        with Path("asked").open("a") as file:
            file.write(query.language + "/" + query.id + "\\n")
        return reference(query)

    def uncited(query):
        return re.sub(r"\\s?\\[[^\\]]+\\]", "", reference(query))
"""


def answered_queries(pytester: pytest.Pytester) -> list[str]:
    return (pytester.path / "asked").read_text().split()


def test_the_package_names_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"mirage": PLUGIN}


def test_fixtures_assertions_and_the_junit_file(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makeini("[pytest]\nmirage_language = sw\n")
    pytester.makepyfile(
        MODELS
        + """
    def test_feature(mirage_run):
        assert_feature(mirage_run(good, "my-rag"), "citation_recall@10", ge=0.6)

    def test_ranks(mirage_run):
        assert_ranks(mirage_run(good, "my-rag"), "anchor/uncited")

    def test_feature_of_a_function():
        assert_feature(uncited, "citation_recall@10", le=0.2)

    @pytest.mark.mirage_language("de")
    def test_the_marker_goes_before_the_option(mirage_run):
        assert mirage_run(good, "my-rag").language == "de"
        assert_feature(good, "citation_recall@10", ge=0.8, on="de")

    def test_no_regression_falls_short(mirage_run, tmp_path):
        suite = FeatureSuite(["citation_recall@10", "citation_map@10"])
        save_baseline(mirage_run(good, "my-rag"), tmp_path / "b.json", suite=suite)
        assert_no_regression(uncited, tmp_path / "b.json")

    def test_two_models_under_one_name(mirage_run):
        mirage_run(good, "my-rag")
        with pytest.raises(DatasetError, match="two models have the name 'my-rag'"):
            mirage_run(uncited, "my-rag")
    """
    )
    outcome = run_pytest("--junitxml=junit.xml", "--strict-markers", "-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=5, failed=1)
    # Swahili once, and German twice: by the fixture and by the assertion on the function.
    assert len(answered_queries(pytester)) == 3 * 40

    recorded = properties(pytester.path / "junit.xml")
    ((name, facts),) = recorded["test_feature"]
    assert name == "mirage.feature"
    assert facts["held"]
    assert (facts["model"], facts["feature"], facts["mean"]) == ("my-rag", "citation_recall@10", 1)
    ((name, facts),) = recorded["test_ranks"]
    assert (name, facts["at_least"], facts["held"]) == ("mirage.ranks", "anchor/uncited", True)
    ((name, facts),) = recorded["test_no_regression_falls_short"]
    assert (name, facts["held"]) == ("mirage.no_regression", False)
    assert "citation_recall@10" in facts["worse"]
    assert facts["features"]["citation_recall@10"]["after"] == 0

    output = outcome.stdout.str()
    failure = output[output.index("test_no_regression_falls_short") :]
    assert "my-model is worse than the baseline in citation_recall@10" in failure
    assert failure.count("E       - q") == 5
    assert "_failures.py" not in failure  # no line of the library, only that of the test
    assert "regressions.py" not in failure
    assert ">       assert_no_regression(uncited" in failure


@pytest.mark.slow
def test_an_inconclusive_comparison_skips_the_test_by_default(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        MODELS
        + """
    def spaced(query):  # no answer is identical to the baseline's
        return good(query) + " "

    def save(path):
        suite = FeatureSuite(["citation_recall@10"])
        return save_baseline(good, path / "b.json", on="sw", suite=suite)

    def test_it_is_no_worse(tmp_path):
        assert assert_no_regression(spaced, save(tmp_path)).verdict == "no worse"

    def test_it_is_inconclusive(tmp_path):
        assert_no_regression(spaced, save(tmp_path), margin=0.05, on="sw")

    def test_a_later_failure_counts(tmp_path):
        assert_no_regression(spaced, save(tmp_path), margin=0.05, on="sw")
        assert False

    def test_repeats(mirage_run):
        assert len(mirage_run(good, "my-rag", on="sw", repeats=2).repeats) == 2

    def test_it_may_pass(tmp_path):
        assert_no_regression(spaced, save(tmp_path), margin=0.05, inconclusive="pass", on="sw")
    """
    )
    outcome = run_pytest("-rs", "--junitxml=junit.xml", "-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=3, skipped=1, failed=1)
    outcome.stdout.fnmatch_lines(["SKIPPED*cannot tell whether my-model is worse than the base*"])
    ((_, facts),) = properties(pytester.path / "junit.xml")["test_it_is_inconclusive"]
    assert facts["verdict"] == "inconclusive"
    pytester.makeini("[pytest]\nmirage_inconclusive = fail\n")
    outcome = run_pytest("-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=3, failed=2)
    assert "FellShortError: cannot tell whether my-model" in outcome.stdout.str()


def test_a_bound_that_five_queries_cannot_settle_skips_the_test(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        MODELS
        + """
    FIVE = MirageDataset(list(MirageDataset.bundled("sw"))[:5])

    def test_five_right_answers():
        assert_feature(good, "citation_recall@10", ge=0.8, on=FIVE)

    def test_five_wrong_answers():
        assert_feature(uncited, "citation_recall@10", ge=0.8, on=FIVE)

    def test_a_bound_that_five_settle():
        assert_feature(good, "citation_recall@10", ge=0.5, on=FIVE)

    def test_it_may_pass():
        assert_feature(good, "citation_recall@10", ge=0.8, on=FIVE, inconclusive="pass")
    """
    )
    outcome = run_pytest("-rs", "--junitxml=junit.xml", "-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=2, skipped=1, failed=1)
    outcome.stdout.fnmatch_lines(["SKIPPED*cannot tell whether citation_recall@10 of my-model is*"])
    recorded = properties(pytester.path / "junit.xml")
    verdicts = {test: facts["verdict"] for test, ((_, facts),) in recorded.items()}
    assert verdicts == {
        "test_five_right_answers": "inconclusive",
        "test_five_wrong_answers": "broken",
        "test_a_bound_that_five_settle": "holds",
        "test_it_may_pass": "inconclusive",
    }
    assert recorded["test_five_right_answers"][0][1]["held"] is False
    pytester.makeini("[pytest]\nmirage_inconclusive = fail\n")
    run_pytest("-p", "no:cacheprovider").assert_outcomes(passed=2, failed=2)


@pytest.mark.slow
def test_under_xdist_a_model_is_asked_once(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makeini("[pytest]\nmirage_language = sw\n")
    pytester.makepyfile(
        MODELS
        + """
    @pytest.mark.parametrize("number", range(6))
    def test_holds(mirage_run, number):
        assert_feature(mirage_run(good, "my-rag"), "citation_recall@10", ge=0.6)

    @pytest.mark.parametrize("number", range(4))
    def test_fails(mirage_run, number):
        assert_feature(mirage_run(good, "my-rag"), "citation_recall@10", le=0.6)
    """
    )
    outcome = run_pytest("-n", "2", "--junitxml=junit.xml", program=True)
    outcome.assert_outcomes(passed=6, failed=4)
    assert len(answered_queries(pytester)) == 40
    recorded = properties(pytester.path / "junit.xml")
    assert len(recorded) == 10
    for test, ((_, facts),) in recorded.items():
        assert facts["held"] == test.startswith("test_holds")


@pytest.mark.slow
def test_a_run_that_was_cut_off_is_resumed_from_the_cache(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        MODELS
        + """
    @pytest.mark.mirage_language("sw")
    def test_feature(mirage_run):
        def model(query):
            if query.id == "q05" and Path("cut").exists():
                raise KeyboardInterrupt
            return good(query)

        assert_feature(mirage_run(model, "my rag", resume=True), "citation_recall@10", ge=0.8)
    """
    )
    cut = pytester.path / "cut"
    cut.touch()
    assert run_pytest(program=True).ret == pytest.ExitCode.INTERRUPTED
    cut.unlink()
    assert len(answered_queries(pytester)) == 4
    outcome = run_pytest()
    outcome.assert_outcomes(passed=1)
    line = "mirage: my rag: 4 of 40 answers come from an interrupted session; --cache-clear *"
    outcome.stdout.fnmatch_lines([line])
    assert answered_queries(pytester) == [
        f"sw/{query.id}" for query in mirage.MirageDataset.bundled("sw")
    ]
    # A session that ends leaves no answers, which a changed system could get.
    assert not list((pytester.path / ".pytest_cache/d/mirage").iterdir())
    outcome = run_pytest()
    assert "interrupted session" not in outcome.stdout.str()
    assert len(answered_queries(pytester)) == 80


@pytest.mark.slow
def test_under_xdist_two_systems_need_two_names(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        MODELS
        + """
    from functools import partial
    import time

    def suffixed(suffix, query):
        return good(query) + suffix

    SYSTEMS = {
        "functions": (good, uncited),
        "lambdas": (lambda query: "a",
                    lambda query: "b"),
        "arguments": (partial(suffixed, "."), partial(suffixed, "!")),
    }

    @pytest.mark.parametrize("kind", SYSTEMS)
    @pytest.mark.parametrize("number", [0, 1])
    def test_run(mirage_run, kind, number):
        mirage_run(SYSTEMS[kind][number], kind, on="sw")
    """
    )
    outcome = run_pytest("-n", "2", program=True)
    outcome.assert_outcomes(passed=3, failed=3)
    assert outcome.stdout.str().count("DatasetError: two models have the name") >= 3


def test_a_run_on_other_queries_needs_the_dataset(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        MODELS
        + """
    from mirage import Query

    OURS = MirageDataset(
        Query(id=f"j{i}", language="ja", text="\u3044\u3064", answers=[["2001"]])
        for i in range(9)
    )

    def test_feature(mirage_run):
        run = mirage_run(lambda query: "2001", on=OURS)
        assert_feature(run, "answer_match", ge=0.5, on=OURS)
        with pytest.raises(DatasetError, match="pass its queries with on=dataset"):
            assert_feature(run, "answer_match", ge=0.5)
    """
    )
    run_pytest("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_inconclusive_assertions_in_threads_fixtures_and_expected_failures_skip(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        MODELS
        + """
    from concurrent.futures import ThreadPoolExecutor

    FIVE = MirageDataset(list(MirageDataset.bundled("sw"))[:5])

    def check():
        assert_feature(good, "citation_recall@10", ge=0.8, on=FIVE)

    def test_thread():
        with ThreadPoolExecutor() as pool:
            pool.submit(check).result()

    @pytest.mark.xfail(strict=True)
    def test_expected_failure():
        check()

    @pytest.fixture(scope="module")
    def checked():
        check()

    @pytest.fixture
    def indirect(checked):
        pass

    def test_first_use(checked):
        pass

    def test_second_use(indirect):
        pass

    def test_no_use():
        pass
    """
    )
    outcome = run_pytest("-rs", "-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=1, skipped=4)
    pytester.makeini("[pytest]\nmirage_inconclusive = fail\n")
    outcome = run_pytest("-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=1, failed=1, errors=2, xfailed=1)


def test_resuming_needs_the_cache_of_pytest() -> None:
    with pytest.raises(DatasetError, match=r"resume=True needs .* cache, which is switched"):
        Runs(None, None)({}, on="sw", resume=True)


def test_a_missing_language_is_one_clear_error(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        MODELS
        + """
    def test_feature():
        assert_feature(good, "citation_recall@10", ge=1)
    """
    )
    outcome = run_pytest()
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["E*DatasetError: no queries were specified*"])
    assert "subject.py" not in outcome.stdout.str()


# Test runs that do not use the plugin -------------------------------------------------------------


def loaded(code: str, *, after: str = "") -> set[str]:
    """Return the modules that a new interpreter loads when it runs some code after other code."""
    program = f"{after}\nimport sys\nbefore = {{*sys.modules}}\n{code}\n"
    run = subprocess.run(
        [sys.executable, "-c", f"{program}print(*sys.modules.keys() - before)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return set(run.stdout.split())


def test_the_plugin_loads_nothing_but_pytest() -> None:
    more = loaded(f"import {PLUGIN}", after="import pytest")
    assert {name for name in more if name not in sys.stdlib_module_names} - {"_contextvars"} == {
        "mirage",
        "mirage._base",
        "mirage._base.lazy",
        "mirage.testing",
        "mirage.testing._current_test",
        PLUGIN,
    }


def test_the_assertions_need_no_pytest() -> None:
    assert "pytest" not in loaded("from mirage.testing import assert_ranks, save_baseline")


def test_a_run_that_does_not_use_the_plugin_loads_no_library(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        """
    import sys

    def test_nothing():
        assert not {"numpy", "pydantic", "mirage.models"} & set(sys.modules)
    """
    )
    outcome = run_pytest("--junitxml=junit.xml", "-v", program=True)
    outcome.assert_outcomes(passed=1)
    assert properties(pytester.path / "junit.xml") == {"test_nothing": []}

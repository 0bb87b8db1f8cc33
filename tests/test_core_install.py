"""What a plain install does without the packages of extras."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mirage.errors import EXTRAS, install_command

WITHOUT = ("datasets", "lingua", "openai", "pandas", "sklearn", "tenacity", "torch")

# The first statements of a program that finds none of the packages above.
START = f"""
import sys

class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {WITHOUT}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing)
"""

RANK_AND_GATE = """
from mirage import Leaderboard
from mirage.retrieval import BM25
from mirage.testing import assert_no_regression, plan, save_baseline

def answer(query):
    return f"##Answer: {query.passages[0].text.split('. ')[0]} [1]."

folder = sys.argv[1]
board = Leaderboard.bundled("sw")
ranking = board.rank(answer, model="mine", progress=False)
assert 1 < ranking["mine"].rank < 31
ranking.write(f"{folder}/report.html")
save_baseline(answer, f"{folder}/baseline.json", on=board)
assert_no_regression(answer, f"{folder}/baseline.json", on=board)
assert plan(0.3, queries=40).designs
passages = [passage for query in board.dataset for passage in query.passages]
assert BM25.build(passages, language="sw", progress=False).search(board.dataset[0].text, k=1)
"""

# Runs each argument, and prints its error.
EACH = """
from mirage.errors import MirageError

for statements in sys.argv[1:]:
    try:
        exec(statements)
    except MirageError as error:
        print(error)
"""

FIT = """
from mirage.surrogate.estimators import ESTIMATORS

ESTIMATORS["ridge"]([0], 0)
"""

TREES = """
from mirage.surrogate.estimators import one_thread

one_thread()
"""

ASK = """
from mirage import LLM

LLM("m", base_url="http://localhost:9/v1").complete("hello")
"""


def run(statements: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", START + statements, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_plain_install_ranks_gates_plans_and_searches(tmp_path: Path) -> None:
    done = run(RANK_AND_GATE, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").stat().st_size > 0


def test_what_needs_an_extra_names_it() -> None:
    done = run(EACH, FIT, TREES, ASK)
    extras = {"scikit-learn": "fit", "openai": "llm"}
    fit, llm = (
        f"this needs the package {package}; install it with: {install_command(extra)}"
        for package, extra in extras.items()
    )
    assert done.stdout.splitlines() == [fit, fit, llm], done.stderr
    assert all(package in EXTRAS[extra] for package, extra in extras.items())


def test_scikit_learn_and_the_client_of_llms_are_no_core_packages() -> None:
    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = {re.split(r"[<>=\[]", line)[0] for line in project["dependencies"]}
    assert core & {"scikit-learn", "openai", "lingua-language-detector", "tenacity"} == set()
    for extra in ("fit", "llm"):  # developers have them, as most tests need them
        assert set(project["optional-dependencies"][extra]) <= set(
            project["optional-dependencies"]["test"]
        )

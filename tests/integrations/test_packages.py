"""Every integration's example runs unchanged, and a missing package is a one-line error."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest
from adapter_example import run_example

from mirage import integrations
from mirage.errors import HARNESSES, MissingPackageError
from mirage.integrations import frames
from mirage.models import Run

INSTALL = {
    **{name: rf"pip install {re.escape(command)}$" for name, command in HARNESSES.items()},
    "datasets": r"'mirage-rag\[hub\]",
}
NEEDS = {**{name: name for name in INSTALL}, "frames": "polars", "trec": "ir_measures"}


def test_every_adapter_is_in_the_table_and_its_package_in_a_list() -> None:
    adapters = {path.stem for path in Path(integrations.__file__).parent.glob("[!_]*.py")}
    table = (integrations.__doc__ or "").partition("=\n\n")[0]
    assert set(re.findall(r"^``(\w+)``", table, re.MULTILINE)) == adapters
    assert set(NEEDS) == adapters  # otherwise, add the package to HARNESSES in mirage/errors.py


@pytest.mark.filterwarnings("ignore")  # of the harnesses
@pytest.mark.parametrize("name", NEEDS)
def test_the_example_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is not installed")
        module = importlib.import_module(f"mirage.integrations.{name}")
    run_example(module)
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("name", INSTALL)
def test_a_missing_package_is_an_error_with_the_command(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for loaded in [key for key in sys.modules if key.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"mirage.integrations.{name}", raising=False)
    with pytest.raises(MissingPackageError, match=rf"package {name}; .*{INSTALL[name]}"):
        importlib.import_module(f"mirage.integrations.{name}")


def test_an_old_deepeval_is_an_error_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    class LLMTestCase:
        additional_metadata: dict[str, str] | None = None

    names = {
        "dataset": ["EvaluationDataset"],
        "errors": ["MissingTestCaseParamsError"],
        "metrics": ["BaseMetric"],
        "test_case": [],
    }
    package = ModuleType("deepeval")
    package.__dict__.update(__version__="2.9.3", __path__=[])
    monkeypatch.setitem(sys.modules, "deepeval", package)
    for module, classes in names.items():
        stub = ModuleType(f"deepeval.{module}")
        stub.__dict__.update({each: type(each, (Exception,), {}) for each in classes})
        stub.__dict__["LLMTestCase"] = LLMTestCase
        monkeypatch.setitem(sys.modules, stub.__name__, stub)
    monkeypatch.delitem(sys.modules, "mirage.integrations.deepeval", raising=False)
    message = rf"deepeval 2\.9\.3 is too old; install .*: {INSTALL['deepeval']}"
    with pytest.raises(MissingPackageError, match=message):
        importlib.import_module("mirage.integrations.deepeval")


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_missing_frame_package_is_an_error_that_names_the_extra(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    run = Run(model="m", language="en", responses=())
    with pytest.raises(MissingPackageError, match=rf"package {name}; .*'mirage-rag\[frames"):
        run.to_pandas() if name == "pandas" else frames.to_polars(run)

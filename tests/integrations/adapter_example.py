"""Run the example in an adapter's docstring.

As a program it needs no pytest, so that the example can run in an environment that has the
adapter's own extra and nothing else::

    python tests/integrations/adapter_example.py deepeval
"""

from __future__ import annotations

import importlib
import itertools
import sys
import textwrap
from types import ModuleType


def run_example(module: ModuleType) -> None:
    """Run the first indented block of a module's docstring, which has to use the module."""
    lines = (module.__doc__ or "").split("\n")
    start = itertools.dropwhile(lambda line: not line.startswith("    "), lines)
    block = itertools.takewhile(lambda line: not line or line.startswith("    "), start)
    code = textwrap.dedent("\n".join(block))
    package, _, name = module.__name__.rpartition(".")
    assert module.__name__ in code or f"{package} import {name}" in code, code
    exec(compile(code, f"example of {module.__name__}", "exec"), {})


if __name__ == "__main__":
    for adapter in sys.argv[1:]:
        run_example(importlib.import_module(f"mirage.integrations.{adapter}"))

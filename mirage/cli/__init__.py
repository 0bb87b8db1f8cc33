"""The command line: a thin shell over the library, one module a command or group of commands.

Results go to standard output, everything else to standard error. A command ends with 0 where what
was asked for holds, with 1 where it fell short, and with 2 where the input was bad.
"""

from __future__ import annotations

from importlib import import_module

from mirage.cli._shell import app

__all__ = ["app"]

# In the order in which help lists them; a module adds its command when it is imported.
COMMANDS = (
    *("rank", "report", "published", "queries", "generate", "judge", "features", "fit"),
    *("index", "retrieve", "rerank", "eval_run", "score", "bench", "finetune"),
    *("metaeval", "decide", "baseline", "plan", "check", "drift", "history"),
    *("surrogate", "data", "tests", "hub", "doctor"),
)

for command in COMMANDS:
    import_module(f"{__name__}.{command}")

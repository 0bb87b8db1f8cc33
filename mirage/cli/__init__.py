"""The command line: a thin layer over the library, with one module per command or group.

Results go to standard output, everything else to standard error. A command ends with status 0 on
success, 1 if a check fails, 2 if the input is invalid, and 3 if the result is inconclusive.
"""

from __future__ import annotations

from importlib import import_module

from mirage.cli._shell import SECTIONS, app

__all__ = ["app"]

# A module adds its command when it is imported.
for commands in SECTIONS.values():
    for command in commands:
        import_module(f"{__name__}.{command.replace('-', '_')}")

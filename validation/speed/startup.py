"""Seconds from a cold process: the import, a rank in one language, and ranks in all 18.

    taskset -c 0 python validation/speed/startup.py

Each program runs in a process of its own, five times in turn. The script prints the wall and CPU
seconds of the fastest run and its peak memory. They include the start of Python, which is printed
first. Bytecode is compiled before, as pip does when it installs a package; with ``--no-bytecode``,
Python compiles every module in every run. If lingua is installed, whose trigram tables Mirage
bundles, both identify the language of one text among ten candidates, in processes that have already
imported Mirage's identification.

With ``--venv FOLDER``, an environment in which only ``pip install .`` was run, the script also
prints the size and the number of its packages.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

TURNS = 5
_CODES = ("de", "en", "es", "fi", "fr", "id", "sw", "yo", "zu", "sn")
_ANSWER = """
def answer(query):
    return f"##Answer: {query.passages[0].text.split('. ')[0]} [1]."
"""
PROGRAMS = {
    "python": "",
    "import mirage": "import mirage",
    "rank, one language": f"""
from mirage import Leaderboard
{_ANSWER}
print(Leaderboard.bundled("sw").rank(answer, model="mine", progress=False))
""",
    "rank, 18 languages": f"""
from mirage import MultilingualLeaderboard
{_ANSWER}
print(MultilingualLeaderboard.bundled().rank(answer, model="mine", progress=False))
""",
    "trigrams, neither": "import mirage.text.identification",
    "trigrams, ours": """
from mirage.text.identification import identify
identify("which language is this", "sw", ())
""",
    "trigrams, lingua": f"""
import mirage.text.identification
from lingua import IsoCode639_1, LanguageDetectorBuilder
codes = [getattr(IsoCode639_1, code.upper()) for code in {_CODES}]
builder = LanguageDetectorBuilder.from_iso_codes_639_1(*codes)
detector = builder.with_low_accuracy_mode().build()
detector.compute_language_confidence_values("which language is this")
""",
}
# Runs a program and prints its processor time and peak memory.
_METER = """
import resource
usage = resource.getrusage(resource.RUSAGE_SELF)
import sys
print("\\n", usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, file=sys.stderr)
"""


class Run(NamedTuple):
    """One run of a program.

    Attributes:
        seconds: Wall time in seconds.
        cpu: CPU time in seconds.
        memory: Peak memory, in MiB.
    """

    seconds: float
    cpu: float
    memory: float


def run(program: str, environment: dict[str, str]) -> Run:
    """Run a program in a new process."""
    command = [sys.executable, "-c", program + _METER]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    cpu, memory = map(float, done.stderr.splitlines()[-1].split())
    return Run(time.perf_counter() - start, cpu, memory)


def measure(turns: int, names: list[str], bytecode: bool) -> None:
    """Print and record the fastest run of each program."""
    runs: dict[str, list[Run]] = {name: [] for name in names}
    off = {"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"}
    environment = {name: value for name, value in os.environ.items() if name not in off}
    with tempfile.TemporaryDirectory() as folder:
        environment["PYTHONPYCACHEPREFIX"] = folder
        if not bytecode:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        for turn in range(turns + bytecode):
            for name in names:
                measured = run(PROGRAMS[name], environment)
                if turn >= bytecode:  # the first run writes the bytecode
                    runs[name].append(measured)
    print(f"{'':22}{'seconds':>9}{'CPU':>9}{'MiB':>7}")
    for name, measured in runs.items():
        best = min(measured)
        print(f"{name:22}{best.seconds:9.3f}{best.cpu:9.3f}{best.memory:7.0f}")
        for unit, figure in best._asdict().items():
            add_figure(figure, "startup", name, unit)


def measure_install(venv: Path) -> None:
    """Print and record the size of the packages of an environment, without pip and setuptools."""
    tools = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
    python = venv / "bin" / "python"
    listing = subprocess.run(
        [python, "-m", "pip", "list", "--format=json"], capture_output=True, text=True, check=True
    )
    packages = {entry["name"] for entry in json.loads(listing.stdout)} - {"pip", "setuptools"}
    folder = next(venv.glob("lib/python3*/site-packages"))
    files = [
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.relative_to(folder).parts[0].startswith(tools)
    ]
    sizes = {
        "MB": sum(path.stat().st_size for path in files),
        "MB without bytecode": sum(path.stat().st_size for path in files if path.suffix != ".pyc"),
    }
    print(f"plain install: {len(packages)} packages")
    add_figure(len(packages), "install", "packages")
    for unit, size in sizes.items():
        print(f"  {size / 1e6:.0f} {unit}")
        add_figure(size / 1e6, "install", unit)


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("--no-bytecode", action="store_true", help="compile modules in every run")
    parser.add_argument("--venv", type=Path, help="environment with a plain install")
    options = parser.parse_args()
    programs = [name for name in PROGRAMS if not (options.quick and "18" in name)]
    if importlib.util.find_spec("lingua") is None:
        programs.remove("trigrams, lingua")
    measure(1 if options.quick else TURNS, programs, not options.no_bytecode)
    if options.venv:
        measure_install(options.venv)
    save(parser, options)

"""The overhead of Ray: 2,000 tasks of 50 ms on two workers, against the ideal.

The ideal is tasks x seconds / workers. Workers and Ray are started before the measurement. The
other columns have the same tasks through Ray's own `ray.get` of all of them at once, and through
joblib's Ray backend.

    python validation/speed/ray_overhead.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage.executors import ray_executor
from mirage.executors.base import Once

WORKERS = 2


def clocked(work: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def wait(seconds: float) -> None:
    """Sleep, as a task that only takes time."""
    time.sleep(seconds)


def main() -> None:
    """Print the time of each way."""
    parser = script_parser(__doc__)
    parser.add_argument("--ms", type=float, default=50.0, help="milliseconds a task")
    options = parser.parse_args()
    tasks, seconds = 20 if options.quick else 2000, options.ms / 1000
    ideal = tasks * seconds / WORKERS
    with ray_executor(num_cpus=WORKERS, log_to_driver=False) as executor:
        import joblib
        import ray
        from ray.util.joblib import register_ray

        register_ray()
        remote, loaded = ray.remote(wait), Once(lambda: wait)

        def ours(function: Callable[[float], None]) -> None:
            assert sum(1 for _ in executor.map(function, [seconds] * tasks)) == tasks

        def rays() -> None:
            ray.get([remote.remote(seconds) for _ in range(tasks)])

        def joblibs() -> None:
            with joblib.parallel_config(backend="ray", n_jobs=WORKERS):
                joblib.Parallel()(joblib.delayed(wait)(seconds) for _ in range(tasks))

        runs: dict[str, Callable[[], object]] = {
            "mirage, tasks": lambda: ours(wait),
            "mirage, actors": lambda: ours(loaded),
            "ray.get": rays,
            "joblib, backend ray": joblibs,
        }
        list(executor.map(wait, [0.0] * 50))
        list(executor.map(loaded, [0.0] * 50))
        print(f"{tasks} tasks of {options.ms:g} ms on {WORKERS} workers; ideal {ideal:.2f} s")
        for name, work in runs.items():
            took = clocked(work)
            print(f"{name:20} {took:7.2f} s   overhead {100 * (took / ideal - 1):5.1f} %")
            add_figure(took, name, "s")
            add_figure(took / ideal - 1, name, "overhead")
    save(parser, options)


if __name__ == "__main__":
    main()

"""Answers and verdicts by a cluster of two Ray nodes on this machine, one of which is removed.

    python two_nodes.py URL FOLDER

Writes run.jsonl and votes.jsonl.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import ray
from judging import make_dataset, make_runs
from ray.cluster_utils import Cluster

from mirage import LLM, PairwiseJudge, Query, respond
from mirage.executors import ray_executor

DATASET = make_dataset(60)


def answer(query: Query) -> str:
    time.sleep(0.1)
    return f"{query.text} {query.id}"


def main(url: str, folder: Path) -> None:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )

    def on_two_nodes(out: Path, work: object) -> None:
        """Do some work that writes a file, and remove a node when the file has a few lines."""
        second = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        thread = threading.Thread(target=work)  # type: ignore[arg-type]
        thread.start()
        while thread.is_alive() and (not out.exists() or out.read_text().count("\n") < 8):
            time.sleep(0.02)
        assert thread.is_alive(), "it was over before a node was removed"
        cluster.remove_node(second, allow_graceful=False)
        thread.join()

    with ray_executor(cluster.address, processes=2, log_to_driver=False) as executor:
        run = folder / "run.jsonl"
        on_two_nodes(
            run, lambda: respond(answer, DATASET, out=run, executor=executor, progress=False)
        )
        votes = folder / "votes.jsonl"
        judge = PairwiseJudge(LLM("m", base_url=url, cache=folder / "cache"))
        on_two_nodes(
            votes,
            lambda: judge.compare(
                DATASET, make_runs(DATASET), out=votes, executor=executor, progress=False
            ),
        )
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

"""A simulated copy of MIRAGE-Bench: parquet files in the schemas of the hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mirage.dataset import MirageDataset
from mirage.models import Query
from mirage.sources import hub
from mirage.sources.hub import JUDGMENTS, OUTPUTS, QUERIES, REFERENCE_MODEL
from mirage.surrogate.simulation import System, judge, simulate

CODE = "sw"
NUMBER = 30
REPEATED = 3  # times that the bundled corpus is repeated, under other ids, to have enough queries

SYSTEMS = {
    REFERENCE_MODEL: System("a", {}),
    "gpt-4o-azure": System("b", {"uncited": 0.3}),
    "cohereforai-c4ai-command-r": System("c", {"uncited": 0.5, "off-topic": 0.2}),
    "meta-llama/Meta-Llama-3-8B-Instruct": System("d", {"hallucinated": 0.6, "uncited": 0.5}),
    "Qwen/Qwen2-1.5B-Instruct": System("e", {"wrong-language": 0.5, "truncated": 0.6}),
    "google/gemma-1.1-2b-it": System("f", {"garbled": 0.7, "uncited": 0.8}),
}
"""Simulated, under names that the benchmark's models have; from good to bad."""

UNJUDGED = "vectara/unjudged"
Rows = list[dict[str, Any]]


def prompt_of(question: str, passages: list[tuple[str, str]]) -> str:
    """Return a prompt in the format of the benchmark."""
    contexts = "\n".join(f"[{id_}] {text}" for id_, text in passages)
    return (
        f"Question: {question}\n\nContexts:\n{contexts}\n\n"
        "Instruction: Answer from the contexts, and cite them as [id]. ##Reason: ... ##Answer: ..."
    )


def prompt_row(query: Query) -> dict[str, Any]:
    return {
        "query_id": query.id,
        "prompt": prompt_of(query.text, [(p.id, p.text) for p in query.passages]),
        "positive_ids": list(query.relevant),
        "negative_ids": [id_ for id_ in query.passage_ids if id_ not in query.relevant],
    }


@dataclass
class Arena:
    """The rows of the three datasets, from the bundled corpus and the simulated arena."""

    prompts: Rows
    outputs: Rows
    judgments: Rows

    def write(self, folder: Path, code: str = CODE) -> Path:
        for name in hub.DATASETS:
            write(folder, name, getattr(self, ATTRIBUTES[name]), code)
        return folder


ATTRIBUTES = {QUERIES: "prompts", OUTPUTS: "outputs", JUDGMENTS: "judgments"}


def write(folder: Path, name: str, rows: Rows, code: str = CODE, parts: int = 1) -> None:
    here = folder / name.partition("/")[2] / code
    here.mkdir(parents=True, exist_ok=True)
    for part in range(parts):
        some = rows[part * len(rows) // parts : (part + 1) * len(rows) // parts]
        columns = dict.fromkeys(name for row in rows for name in row)
        table = pa.table({name: [row.get(name) for row in some] for name in columns})
        pq.write_table(table, here / f"dev-{part:05}-of-{parts:05}.parquet")


def make_arena() -> Arena:
    corpora = {code: MirageDataset.bundled(code) for code in ("en", "es", CODE)}
    models = list(SYSTEMS)
    prompts: Rows = []
    outputs: Rows = []
    judgments: Rows = []
    for copy in range(REPEATED):
        runs, utilities = simulate(corpora, CODE, list(SYSTEMS.values()), seed=copy)
        verdicts = judge(utilities, models, corpora[CODE].query_ids, seed=copy)
        for query in corpora[CODE]:
            renamed = query.model_copy(update={"id": f"{query.id}-{copy}"})
            prompts.append(prompt_row(renamed))
            answers = {model: run[query.id].text for model, run in zip(models, runs, strict=True)}
            outputs.append(
                {
                    "query_id": renamed.id,
                    "outputs": [{"model": m, "output": text} for m, text in answers.items()]
                    + [{"model": UNJUDGED, "output": "##Reason: x ##Answer: y"}],
                    "citation_MAP@10": {m: float(len(text or "")) for m, text in answers.items()},
                    "fluency_score": {m: float(i) for i, m in enumerate(models)},
                }
            )
        for judgment in verdicts.to_records():
            judgments.append(
                {
                    "query_id": f"{judgment.query_id}-{copy}",
                    "judge": "gpt-4o",
                    "model_A": judgment.model_a,
                    "model_B": judgment.model_b,
                    "output": "... [[A]]",
                    "verdict": {"a": "A", "b": "B", "tie": "Tie"}[judgment.verdict],
                }
            )
    query_ids = {row["query_id"] for row in prompts[:NUMBER]}
    return Arena(
        *(
            [row for row in rows if row["query_id"] in query_ids]
            for rows in (prompts, outputs, judgments)
        )
    )

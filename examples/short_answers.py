"""Short answers: questions in plain JSON Lines, three systems, and the value of each metric.

    python examples/short_answers.py

The upper bound answers with the short answer itself. "a sentence" puts it into a sentence. "other
spelling" spells a name differently, and only the character recall still gives credit for it.
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from mirage import FeatureSuite, MirageDataset, respond
from mirage.generation import OracleAnswer

ROWS = (
    {"id": "q1", "question": "Кто написал «Войну и мир»?", "answers": ["Лев Толстой", "Толстой"]},
    {"id": "q2", "question": "Сколько дней в високосном году?", "answers": ["366"]},
    {"id": "q3", "question": "Столица Кении?", "answers": ["Найроби"]},
)
SENTENCES = {"q1": "Это написал Лев Толстой.", "q2": "В нём 366 дней.", "q3": "Это город Найроби."}
OTHERWISE = {"q1": "Лев Толстый", "q2": "366", "q3": "Найробы"}
METRICS = ("qa_match", "qa_exact", "qa_f1", "qa_char3_recall")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "answers.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
        dataset = MirageDataset.from_qa(file, language="ru")
    runs = [
        OracleAnswer().run(dataset, progress=False),
        respond(SENTENCES, dataset, "a sentence"),
        respond(OTHERWISE, dataset, "other spelling"),
    ]
    print(f"{'':16}" + "".join(f"{name:>17}" for name in METRICS))
    for run in runs:
        means = FeatureSuite(METRICS).score(dataset, run).mean()
        print(f"{run.model:16}" + "".join(f"{mean:17.2f}" for mean in means))

"""From documents to a ranked pipeline: index, retrieve, measure, answer, rank, report.

    python examples/pipeline.py [REPORT.html]

The documents are the passages of the bundled Swahili questions, so that the relevant ones are
known. To use your own folder, pass its path to Corpus.build. Measuring needs the extra `retrieval`.
"""

import argparse

from mirage import Corpus, Leaderboard, MirageDataset, Pipeline, Query
from mirage.retrieval import BM25, evaluate


def answer(query: Query) -> str:
    """Quote the best passage; put an LLM here."""
    best = query.passages[0]
    return f"##Answer: {best.text.split('. ')[0].rstrip('.')} [{best.id}]."


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", nargs="?", help="HTML page to write")
    options = parser.parse_args()
    dataset = MirageDataset.bundled("sw")
    passages = {passage.id: passage for query in dataset for passage in query.passages}
    corpus = Corpus.build(passages.values(), language="sw")
    rag = Pipeline(BM25.build(corpus, progress=False), generator=answer, show_k=3, name="my-rag")

    run = rag.retrieve(dataset)
    print(evaluate(run, dataset, ["nDCG@10", "R@10", "R@3"]))

    ranking = Leaderboard.bundled("sw").rank(rag, model="my-rag", progress=False)
    entry = ranking["my-rag"]
    print(f"\n{entry.model} is number {entry.rank} of {len(ranking)}, {entry.rank_interval}")
    if options.report:
        ranking.write(options.report, retrieval={"my-rag": run})
        print(f"{options.report} shows what was retrieved for each question, with scores")

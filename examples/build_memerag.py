r"""Build a benchmark for judges of sentences as MEMERAG was built; people then label the sentences.

    export OPENAI_API_KEY=...
    MEMERAG_MODELS=gpt-4o-mini,gpt-4.1-nano MEMERAG_FILTER=gpt-4o-mini \
        python examples/build_memerag.py sw out/
    ... python examples/build_memerag.py sw out/ topics.tsv qrels.tsv corpus.jsonl 50

MEMERAG_MODELS names the models that answer. MEMERAG_FILTER names the model that decides which
questions have answers that change over time. Models are called at OpenAI, or at OPENAI_BASE_URL.
NAME@URL is a model at its own endpoint without a key. Without files of your own, the questions and
passages are those of the small bundled corpus, and each model gets three questions. If you start
the script again, it resumes.

Then fill in "label" in out/sentences.jsonl and measure a judge on it:

    evaluate(LabelledSentences.from_jsonl("out/sentences.jsonl"), "support_lexical")
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from mirage import LLM, MirageDataset, OpenAIGenerator
from mirage.metaeval import build_judge_benchmark
from mirage.retrieval import BM25
from mirage.sources.trec import read_passages


def llm(model: str) -> LLM:
    """Return the LLM for NAME or NAME@URL."""
    name, _, url = model.strip().partition("@http")
    return LLM(name, base_url=f"http{url}" if url else None)


def main(language: str = "en", out: str = "memerag", *files: str) -> None:
    """Build the benchmark, and print how many questions were kept and dropped."""
    models, time_filter = os.environ.get("MEMERAG_MODELS"), os.environ.get("MEMERAG_FILTER")
    if not models or not time_filter or len(files) not in (0, 4):
        sys.exit(__doc__)
    if files:
        topics, qrels, corpus, per_model = files
        queries = MirageDataset.from_trec(topics, qrels, language=language)
        passages = read_passages(Path(corpus))
    else:
        queries, per_model = MirageDataset.bundled(language), "3"
        passages = {passage.id: passage for query in queries for passage in query.passages}
    built = build_judge_benchmark(
        queries,
        BM25.build(passages.values(), language=language),
        {name: OpenAIGenerator(llm(name), name=name) for name in models.split(",")},
        out=out,
        llm=llm(time_filter),
        per_model=int(per_model),
    )
    print(built)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("language", nargs="?", default="en")
    parser.add_argument("out", nargs="?", default="memerag")
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="topics, qrels, corpus, and questions per model"
    )
    options = parser.parse_args()
    main(options.language, options.out, *options.files)

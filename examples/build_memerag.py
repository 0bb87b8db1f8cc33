"""Build a benchmark for judges of sentences, as MEMERAG was built, up to what people have to label.

    export OPENAI_API_KEY=...
    MEMERAG_MODELS=gpt-4o-mini,gpt-4.1-nano MEMERAG_FILTER=gpt-4o-mini \\
        python examples/build_memerag.py sw out/
    ... python examples/build_memerag.py sw out/ topics.tsv qrels.tsv corpus.jsonl 50

MEMERAG_MODELS names the models that answer, and MEMERAG_FILTER the one that says which questions
have answers that change over time. A model is asked at OpenAI, or where OPENAI_BASE_URL says;
NAME@URL is one at an endpoint of its own that needs no key. Without files of your own, the
questions and passages are those of the small corpus that ships with the library, and each model
gets three. Started again, it goes on where it was.

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
    """Return the LLM that NAME or NAME@URL stands for."""
    name, _, url = model.strip().partition("@http")
    return LLM(name, base_url=f"http{url}" if url else None)


def main(language: str = "en", out: str = "memerag", *files: str) -> None:
    """Build it, and print what became of the questions."""
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

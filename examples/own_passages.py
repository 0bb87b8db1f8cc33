"""Rank a system that retrieves its own passages: return them with the text.

    python examples/own_passages.py

A function may return (text, passages). Citations and support are then measured on the passages that
the system read, and these passages are matched with the dataset's by id, text and document. The
systems below get their passages in the form of LangChain and LlamaIndex, which one line converts.
The classes imitate langchain_core.documents.Document and llama_index.core.schema.NodeWithScore, so
that the script needs neither package.
"""

import argparse
from dataclasses import dataclass, field

from mirage import FeatureSuite, MirageDataset, Query, respond

DATASET = MirageDataset.bundled("en")
FEATURES = ("citation_recall@10", "context_recall", "support_lexical")


@dataclass
class Document:
    """A class with the attributes of LangChain's Document."""

    page_content: str
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass
class NodeWithScore:
    """A class with the attributes of LlamaIndex's NodeWithScore."""

    node_id: str
    text: str
    score: float


def find(query: Query) -> list[tuple[str, str]]:
    """Return paths and texts with most words in common, in place of a vector store."""
    words = set(query.text.lower().rstrip("?").split())
    ranked = sorted(query.passages, key=lambda p: -len(words & set(p.text.lower().split())))
    return [(f"index/{number}.txt", passage.text) for number, passage in enumerate(ranked[:3])]


def langchain_system(query: Query) -> tuple[str, list[dict[str, str]]]:
    """Answer from documents, as `retriever.invoke(query.text)` returns them."""
    documents = [Document(text, {"source": path}) for path, text in find(query)]
    text = f"{documents[0].page_content} [1]"
    return text, [{"id": d.metadata["source"], "text": d.page_content} for d in documents]


def llamaindex_system(query: Query) -> tuple[str, list[dict[str, str]]]:
    """Answer from nodes, as `query_engine.query(query.text).source_nodes` has them."""
    nodes = [NodeWithScore(path, text, 1.0) for path, text in find(query)]
    text = f"{nodes[0].text} [1]"
    return text, [{"id": n.node_id, "text": n.text} for n in nodes]


def text_only(query: Query) -> str:
    """Answer without returning passages: [1] then means the first passage of the query."""
    return f"{find(query)[0][1]} [1]"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    suite = FeatureSuite(FEATURES, "en")
    print(f"{'':20}" + "".join(f"{name:>20}" for name in suite.names))
    for system in (langchain_system, llamaindex_system, text_only):
        table = suite.score(DATASET, respond(system, DATASET, system.__name__))
        print(f"{table.model:20}" + "".join(f"{mean:20.2f}" for mean in table.mean()))

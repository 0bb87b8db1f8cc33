"""Rank one system in all 18 languages, and see in which languages it is weak, and why.

    python examples/all_languages.py

The function answers the questions of every language; ``query.language`` is the language code.
"""

import argparse

from mirage import MultilingualLeaderboard, Query
from mirage.text import split_sentences


def my_rag(query: Query) -> str:
    """Quote from the passage whose title has most words in common with the question, and cite it.

    Words are split at spaces. Is that a good idea in Chinese, Japanese and Thai?
    """
    words = set(query.text.lower().split())
    best = max(query.passages, key=lambda p: len(words & set(p.title.lower().split())))
    first, *_ = split_sentences(best.text, query.language)
    return f"##Reason: [{best.id}]\n##Answer: {first} [{best.id}]"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    rankings = MultilingualLeaderboard.bundled().rank(my_rag, model="my-rag")
    print(rankings)

    print("\nmy-rag by language, worst citations first; and Kendall's tau to the English order")
    print("      rank  citation_recall@10  answer_rougeL   tau")
    order = sorted(
        rankings, key=lambda code: rankings[code]["my-rag"].features["citation_recall@10"]
    )
    for code in order:
        place, tau = rankings[code]["my-rag"], rankings[code].kendall_tau(rankings["en"])
        recall, rouge = place.features["citation_recall@10"], place.features["answer_rougeL"]
        print(f"{code}{place.rank:8}{recall:20.2f}{rouge:15.2f}{tau:6.2f}")

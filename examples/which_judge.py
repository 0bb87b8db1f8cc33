"""Which judge agrees best with people? Three that need no key, and four prompts of any LLM.

MEMERAG (arXiv 2502.17163) has real answers in several languages, and labels by people: whether the
passages support each sentence. The script compares judges with these labels:

    MIRAGE_DATA=../shared/data python examples/which_judge.py
    MIRAGE_DATA=../shared/data python examples/which_judge.py de --model gpt-4o-mini
    ... --endpoint http://localhost:11434/v1 --model llama3.2

The arguments are languages, by default all available ones. --model adds an LLM with four prompts,
at OpenAI (with the key in OPENAI_API_KEY) or at an --endpoint (with the key in JUDGE_API_KEY, if it
needs one). Answers are cached: an interrupted run resumes, and a second run is free. Replace
`names_and_numbers` by your own judge.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from mirage import LLM
from mirage.errors import MirageError
from mirage.metaeval import (
    STRATEGIES,
    AnswerSentence,
    LabelledSentences,
    LLMSentenceJudge,
    MetaEvaluation,
    evaluate,
)
from mirage.metaeval.gold import MEAN
from mirage.text import tokenize

NO_DATA = (
    "MEMERAG is not at hand: get https://github.com/amazon-science/MEMERAG (CC BY-NC 4.0, for "
    "evaluation only), copy its folder `data` to a folder of yours as `memerag`, and name that "
    "folder in MIRAGE_DATA."
)


def words_found(sentence: AnswerSentence) -> float:
    """Return the share of the sentence's words that occur in the passages."""
    code = sentence.query.language
    words = tokenize(sentence.text, code)
    known = {word for passage in sentence.cited for word in tokenize(passage.text, code)}
    return sum(word in known for word in words) / max(1, len(words))


def names_and_numbers(sentence: AnswerSentence) -> str:
    """Return whether all numbers and names of the sentence occur in the passages."""
    shown = " ".join(passage.text for passage in sentence.cited)
    _, *words = re.findall(r"\w+", sentence.text) or [""]  # any first word has a capital
    facts = [word for word in words if word[0].isupper() or word[0].isdigit()]
    return "Supported" if all(fact in shown for fact in facts) else "Not Supported"


def show(result: MetaEvaluation) -> None:
    """Print balanced accuracy with significance, as in the paper's Table 5, and Figure 2."""
    ranked = sorted(result, key=lambda judge: -judge[MEAN].balanced_accuracy)
    best = ranked[0]
    columns = (MEAN, *result.truth.languages) if len(result.truth.languages) > 1 else (MEAN,)
    compared = {column: result.compare(column) for column in columns}
    width = max(len(judge.name) for judge in result)

    mean = best[MEAN]
    print(f"Balanced accuracy in % on {mean.sentences} sentences of {mean.queries} answers")
    print((f"{'':{width}}  " + "".join(f"{column:>8}   " for column in columns)).rstrip())
    for judge in ranked:
        cells = ""
        for column in columns:
            mark = "" if judge is best else compared[column][best.name, judge.name].mark
            cells += f"{100 * judge[column].balanced_accuracy:8.1f}{mark:3}"
        print(f"{judge.name:{width}}  {cells}".rstrip())
    print("Marks: differs from the first row (permutation test, Holm): * 5 %, ** 1 %, *** 0.1 %")
    print("Zero-shot GPT-4o mini had 59.7 in the paper, with guidelines 71.6 (five languages).")
    for why, count in result.left_out.items():
        print(f"{count} sentences were left out: {why}")
    for judge in ranked:
        if judge[MEAN].invalid:
            print(f"{judge.name}: {judge[MEAN].invalid} sentences without a valid label are wrong")
        if judge.threshold:
            print(f"{judge.name}: {judge.threshold}")

    print("\nBy language, from chance (50) to agreement with people throughout (100)")
    for code in result.truth.languages:
        print()
        for judge in ranked:
            percent = 100 * judge[code].balanced_accuracy
            bar = "█" * round(max(0.0, percent - 50))
            print(f"{code}  {judge.name:{width}}  {percent:5.1f}  {bar}")


def llm_judges(model: str, endpoint: str | None) -> list[LLMSentenceJudge]:
    """Return an LLM with the paper's four prompts."""
    key = os.environ.get("JUDGE_API_KEY") if endpoint else None  # None: OPENAI_API_KEY, at OpenAI
    llm = LLM(model, base_url=endpoint, api_key=key)
    return [LLMSentenceJudge(llm, strategy) for strategy in STRATEGIES]


def main() -> None:
    """Load the data, print the cost, ask the judges, and print the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("languages", nargs="*", help="such as: en de")
    parser.add_argument("--model", help="an LLM to measure too")
    parser.add_argument("--endpoint", help="where it is, if not at OpenAI")
    options = parser.parse_args()
    if options.endpoint and not options.model:
        parser.error("--endpoint needs a --model")
    folder = Path(os.environ.get("MIRAGE_DATA", "")) / "memerag" / "memerag"
    if not folder.is_dir():
        print(NO_DATA, file=sys.stderr)
        sys.exit(2)
    try:
        labelled = LabelledSentences.memerag(folder, options.languages or None)
        llms = llm_judges(options.model, options.endpoint) if options.model else []
        for judge in llms:
            print(f"{judge.name}: {judge.estimate(labelled.decided()[0].sentences)}\n", flush=True)
        show(evaluate(labelled, ["support_lexical", words_found, names_and_numbers, *llms]))
    except MirageError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

"""Write the pages of docs/validation/ from the files in validation/results/.

python validation/report.py
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "_common"))
from _pages import PAGES, pages

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "validation" / "index.md"
BEGIN, END = "<!-- python validation/report.py -->", "<!-- end of the table -->"
NOT_RERUN = "2026-11-23 (commit 90bfae2)"
"""The last commit before scripts wrote files; other pages have figures of such earlier runs."""


def only(values: list[float]) -> float:
    """Return the one figure that matches."""
    (value,) = values
    return value


FOLDERS = {
    "coverage": "Coverage and false positive rates",
    "power": "Power and savings",
    "truth": "Truth, facts and the gate",
    "recovery": "Recovery, growth and attacks",
    "speed": "Speed and memory",
    "papers": "Published data and papers",
}
Key = tuple[str, str, tuple[str, ...], str]
CHOICES: dict[str, Callable[[list[float]], float]] = {"": only, "least": min, "most": max}
# The figures of a script that the table has: a label, which of the matches, the names in the file
# (patterns as for files), and a format.
KEYS: dict[str, tuple[Key, ...]] = {
    "coverage/balanced_accuracy": tuple(
        (label, "", ("over all cells", size, "least"), ".1%")
        for label, size in (
            ("lowest coverage (nominal: 95 %) with 14 queries", "14 queries"),
            ("with 20", "20 queries"),
            ("with 40", "40 queries"),
            ("with 100", "100 queries"),
        )
    ),
    "coverage/compared_systems": (
        (
            "better system found (`p_better` >= 0.9), for systems that differ by three faults",
            "",
            ("three faults", "all kinds", "the same manner", "the better one"),
            ".1%",
        ),
        (
            "systems with the same content in two styles that are wrongly called different",
            "",
            ("two manners", "all pairs", "different"),
            ".1%",
        ),
        (
            "the same, judged by the interval alone",
            "",
            ("two manners", "all pairs", "by interval"),
            ".1%",
        ),
    ),
    "coverage/compared_scores": (
        (
            'verdict "worse" wrong (nominal: at most 5 %), least favourable design',
            "",
            ("false worse at most",),
            ".1%",
        ),
        ("mean of all designs", "", ("false worse, mean",), ".1%"),
        (
            'verdict "no worse" wrong (at most 5 %), least favourable design',
            "",
            ("false no worse at most",),
            ".1%",
        ),
        (
            "designs significantly above 5 % (by 1.5 standard errors)",
            "",
            ("rates above the threshold",),
            ".0f",
        ),
    ),
    "coverage/dossiers": (
        (
            "systems with `p_better` >= 0.9 that are better (60 questions, correlation 0.05)",
            "",
            ("60 questions", "0.05", "dossiers", "right"),
            ".1%",
        ),
        (
            "correlation within clusters in real paired grades",
            "",
            ("correlation of real grades", "two systems", "mean"),
            ".2f",
        ),
    ),
    "coverage/several_languages": (
        (
            "either of two equal systems has `p_better` >= 0.975 (nominal: 5 %), least favourable "
            "design",
            "most",
            ("*", "*", "*", "p_better", "equal, 0.975"),
            ".1%",
        ),
        (
            "the same, for two styles of the same texts in 18 languages",
            "",
            ("two manners", "18 languages", "P >= 0.975"),
            ".1%",
        ),
    ),
    "coverage/gate_errors": (
        (
            "wrong verdicts (nominal: at most 5 %), least favourable design",
            "",
            ("largest error rate",),
            ".1%",
        ),
        (
            "designs significantly above 6 % (by 1.5 standard errors)",
            "",
            ("cells above the threshold",),
            ".0f",
        ),
    ),
    "coverage/grids": (
        ("lowest coverage (nominal: 95 %)", "least", ("*", "*", "coverage: *"), ".1%"),
        (
            "largest false positive rate (at most 5 %)",
            "most",
            ("*", "*", "false positive rate"),
            ".1%",
        ),
    ),
    "coverage/history": (
        (
            "histories with a false alarm (nominal: at most 5 %), least favourable design",
            "most",
            ("false alarms", "*", "*", "none"),
            ".1%",
        ),
        (
            "the same if the difficulty of queries changes",
            "most",
            ("false alarms", "*", "*", "permuted"),
            ".1%",
        ),
    ),
    "coverage/intervals": (
        (
            "lowest coverage of logits (nominal: 95 %), without ties",
            "least",
            ("rankings", "no ties", "*", "logit"),
            ".1%",
        ),
        (
            "for clustered queries, with `cluster=`",
            "least",
            ("rankings", "clusters *", "*", "logit"),
            ".1%",
        ),
        (
            "for clustered queries, without `cluster=`",
            "least",
            ("rankings", "untold *", "*", "logit"),
            ".1%",
        ),
    ),
    "coverage/judge_drift": (
        (
            "false alarms on an unchanged judge (nominal: at most 5 %), least favourable design",
            "most",
            ("false alarms", "*", "*", "unchanged"),
            ".1%",
        ),
        (
            "cause found if the judge changes a fifth of its verdicts",
            "least",
            ("told apart", "40 3", "noise 0.1", "judge * 0.2", "right"),
            ".1%",
        ),
        (
            "if the system gets worse on a fifth of its queries",
            "least",
            ("told apart", "40 3", "noise 0.1", "system loses 0.2", "right"),
            ".1%",
        ),
    ),
    "coverage/judged_ranking": (
        (
            "lowest coverage of logits (nominal: 95 %)",
            "least",
            ("*", "*", "coverage: logit"),
            ".1%",
        ),
        (
            "with bootstrap intervals",
            "least",
            ("*", "*", "coverage: logit, tournaments"),
            ".1%",
        ),
        ("of single rank intervals", "least", ("*", "*", "coverage: rank"), ".1%"),
    ),
    "coverage/paired": (
        (
            "largest false positive rate (nominal: at most 5 %)",
            "most",
            ("alike: *", "*", "significant"),
            ".1%",
        ),
        ("lowest coverage (95 %)", "least", ("*", "*", "coverage"), ".1%"),
    ),
    "coverage/rank_sets": (
        (
            "lowest joint coverage of all rank intervals (nominal: 95 %)",
            "",
            ("over all cells", "all ranks, least"),
            ".1%",
        ),
        (
            "of the rank interval of one model",
            "",
            ("over all cells", "lowest, least"),
            ".1%",
        ),
        (
            "of the logit of the first model",
            "",
            ("over all cells", "winner, least"),
            ".1%",
        ),
        (
            "of that logit without the correction for selection",
            "",
            ("over all cells", "uncorrected, least"),
            ".1%",
        ),
    ),
    "coverage/retrieval_intervals": (
        (
            "lowest coverage of a mean (nominal: 95 %)",
            "least",
            ("*", "*", "coverage: mean"),
            ".1%",
        ),
        (
            "largest false positive rate (at most 5 %)",
            "most",
            ("*", "*", "false positive rate*"),
            ".1%",
        ),
    ),
    "coverage/unscaled_scores": (
        (
            'verdict "worse" wrong (at most 5 %) with 50 items, timeouts of 2 %',
            "",
            ("no loss, 2 % timeouts of 30 s", "50 items", "worse"),
            ".1%",
        ),
        (
            "the permutation test alone",
            "",
            ("no loss, 2 % timeouts of 30 s", "50 items", "unchecked"),
            ".1%",
        ),
        (
            "the verdict with timeouts of 120 s, above the assumed limit",
            "",
            ("no loss, 2 % timeouts of 120 s", "50 items", "worse"),
            ".1%",
        ),
        (
            "latencies twice as long called worse, 100 items",
            "",
            ("slower, factor 2", "100 items", "worse"),
            ".1%",
        ),
    ),
    "papers/short_answers": (
        ("responses", "", ("responses",), ",.0f"),
        ("largest difference from BERGEN", "most", ("*", "largest difference"), ".0f"),
    ),
    "truth/abstention": (
        ("mean F1 of the text-only rule", "", ("F1 on the test set", "ours", "mean"), ".3f"),
        ("mean F1 of the feature", "", ("F1 on the test set", "by the feature", "mean"), ".3f"),
        (
            "mean F1 of the text-only rule on recorded answers",
            "",
            ("F1 on NoMIRACL's outputs", "ours", "mean"),
            ".3f",
        ),
        (
            "right answers of HalluQA classified as abstentions",
            "",
            ("HalluQA", "right answers taken for abstentions"),
            ".1%",
        ),
    ),
    "truth/facts": (
        *(
            (
                f"ROC AUC of `fact_agreement` on {title}",
                "",
                (data, "reference alone", "fact_agreement", "AUC"),
                ".3f",
            )
            for data, title in (("halluqa", "HalluQA"), ("mtrag", "MTRAG"))
        ),
    ),
    "truth/metric_agreement": (
        (
            "rank correlation of ragas' faithfulness with `support_lexical_all`",
            "",
            ("ragas", "faithfulness", "rank correlation"),
            ".2f",
        ),
        (
            "rank correlation of its answer correctness with `fact_agreement`",
            "",
            ("ragas", "answer_correctness", "rank correlation"),
            ".2f",
        ),
    ),
    "truth/board_copies": (
        (
            "copied responses refused, number of languages (of 18)",
            "",
            ("repeats the reference", "languages in which it is refused"),
            ".0f",
        ),
        (
            "quotations of passages refused, number of languages (of 18)",
            "most",
            ("quotes*", "languages in which it is refused"),
            ".0f",
        ),
    ),
    "truth/spans": (
        ("mean F1", "", ("mean F1 by type", "all types"), ".2f"),
        ("true texts with a false mark", "", ("true texts with a mark", "all"), ".1%"),
    ),
    "speed/startup": (
        ("`import mirage`, CPU seconds", "", ("startup", "import mirage", "cpu"), ".2f"),
        ("rank in one language", "", ("startup", "rank, one language", "cpu"), ".2f"),
        ("ranks in 18 languages", "", ("startup", "rank, 18 languages", "cpu"), ".1f"),
        ("start of Python, which these include", "", ("startup", "python", "cpu"), ".2f"),
    ),
    "speed/llm_calls": (
        ("time relative to a loop over httpx", "", ("ratio",), ".2f"),
        ("CPU time relative to it", "", ("ratio of CPU times",), ".2f"),
        ("memory after 1,000 calls, MiB", "", ("memory after 1,000 calls, MiB",), ".0f"),
        ("after 5,000 calls", "", ("memory after all calls, MiB",), ".0f"),
    ),
    "speed/retrieval": (
        ("one question among 50,000 passages, CPU ms", "", ("one question, ms",), ".3f"),
        (
            "relative to bm25s with numba",
            "",
            ("bm25s", "numba", "ours over theirs"),
            ".2f",
        ),
        (
            "the same for natural sentences in three languages, at most",
            "most",
            ("*", "k=*", "ours over theirs"),
            ".2f",
        ),
    ),
    "speed/bradley_terry": (
        ("times faster than choix", "", ("times faster than choix.ilsr_pairwise",), ".0f"),
        ("than evalica", "", ("times faster than evalica.bradley_terry",), ".0f"),
        (
            "fit of 10 million judgments of 1,000 models, seconds",
            "",
            ("1,000 models, 10 million judgments: fit with sandwich intervals, s",),
            ".1f",
        ),
    ),
    "speed/board": (
        ("size of the page, MB", "", ("page, MB",), ".1f"),
        ("first view, ms", "", ("first view, ms",), ".0f"),
        ("change of language, ms", "", ("change of view, loading it, ms",), ".0f"),
    ),
    "speed/features": (
        ("all features, responses per second", "", ("17 features, responses per second",), ".0f"),
        (
            "speed of four features relative to langid, sacrebleu and rouge_score",
            "",
            ("4 features, times the peers' rate",),
            ".2f",
        ),
    ),
    "speed/grid_runs": (
        ("first run of 48 cells, seconds", "", ("first run, s",), ".1f"),
        ("second run, seconds", "", ("second run, s",), ".2f"),
    ),
    "speed/page": (
        ("time to write, CPU seconds", "", ("written, s of CPU",), ".0f"),
        ("size, MB", "", ("size, MB",), ".1f"),
    ),
}


def agreement_line(
    tool: str, metric: str, name: str, feature: str, difference: str, calls: str = ".0f"
) -> tuple[str, str, tuple[Key, ...]]:
    """Return the line of the guide for users of another tool that compares a metric with a feature.

    Args:
        tool: Name of the tool in the guide.
        metric: Name of the metric in the guide.
        name: Name of the metric in the file of figures.
        feature: Name of the feature.
        difference: Description of what differs.
        calls: Format of the calls of an LLM.
    """
    script, names = "truth/metric_agreement", (tool.casefold(), name)
    keys: tuple[Key, ...] = (
        (script, "", (*names, "calls"), calls),
        (script, "", (*names, "rank correlation"), ".2f"),
    )
    line = f"| {tool} {metric} | {{}} | `{feature}` | {{}} | {difference} |"
    return "guides/from-ragas.md", line, keys


METRICS: tuple[tuple[str, ...], ...] = (
    (
        *("ragas", "Faithfulness", "faithfulness", "support_lexical_all"),
        "ragas counts supported statements; the feature weighs words and numbers",
    ),
    (
        *("ragas", "ResponseGroundedness", "nv_response_groundedness", "support_lexical_all"),
        *("ragas asks twice for a grade of 0, 1 or 2", ".1f"),
    ),
    (
        *("ragas", "FactualCorrectness", "factual_correctness(mode=f1)", "fact_agreement"),
        "the feature is 0 if one number or name differs from the reference",
    ),
    (
        *("ragas", "AnswerCorrectness", "answer_correctness", "fact_agreement"),
        "the feature is 0 if one number or name differs from the reference; a quarter of the ragas "
        "score is the similarity of embeddings",
    ),
    (
        *("ragas", "AnswerAccuracy", "nv_accuracy", "answer_match"),
        "ragas grades agreement with the reference; the feature needs short answers",
    ),
    (
        *("ragas", "ResponseRelevancy", "answer_relevancy", "relevance_lexical"),
        "ragas compares the answer with the question, and needs embeddings; the feature compares "
        "the cited passages with the question. Another feature, `abstention`, measures whether "
        "the response was right to answer or to abstain",
    ),
    (
        *("ragas", "LLMContextRecall", "context_recall", "context_recall"),
        "the feature needs relevant passages instead of a reference",
    ),
    (
        *("ragas", "ContextEntityRecall", "context_entity_recall", "context_recall"),
        "ragas compares names; the feature compares passages",
    ),
    (
        *("ragas", "LLMContextPrecisionWithReference", "llm_context_precision_with_reference"),
        "context_precision",
        "ragas gives more weight to contexts at the top, and makes a call for each context",
        ".1f",
    ),
    (
        *("ragas", "ContextRelevance", "nv_context_relevance", "context_precision"),
        "ragas asks whether contexts are on the topic; the feature counts those that answer the "
        "question",
    ),
    (
        *("ragas", "NoiseSensitivity", "noise_sensitivity(mode=relevant)", "incorrect_attempt"),
        *("ragas counts each statement that the reference lacks; lower is better", ".1f"),
    ),
    (
        *("ragas", "IDBasedContextRecall", "id_based_context_recall", "context_recall"),
        "none; the values are equal",
    ),
    (
        *("ragas", "IDBasedContextPrecision", "id_based_context_precision", "context_precision"),
        "none; the values are equal",
    ),
    (
        *("ragas", "BleuScore", "bleu_score", "answer_bleu"),
        "the feature removes citations and headings, and uses each language's tokenizer",
    ),
    (
        *("ragas", "RougeScore", "rouge_score(mode=fmeasure)", "answer_rougeL"),
        "the feature removes citations and headings, and uses each language's tokenizer",
    ),
    (
        *("ragas", "ChrfScore", "chrf_score", "answer_char3"),
        "the feature is the recall of character 3-grams",
    ),
    (
        *("ragas", "ExactMatch", "exact_match", "qa_exact"),
        "the feature ignores case and punctuation, and accepts each spelling",
    ),
    (
        *("ragas", "StringPresence", "string_present", "qa_match"),
        "the feature ignores case and punctuation, and accepts each spelling. The feature "
        "`answer_match` also recognises if the answer is denied",
    ),
    (
        *("DeepEval", "Faithfulness", "FaithfulnessMetric", "support_lexical_all"),
        "as for ragas Faithfulness; one of the calls writes a reason",
    ),
    (
        *("DeepEval", "AnswerRelevancy", "AnswerRelevancyMetric", "relevance_lexical"),
        "DeepEval compares the answer with the question, without embeddings; the feature compares "
        "the cited passages with the question",
    ),
    (
        *("DeepEval", "ContextualPrecision", "ContextualPrecisionMetric", "context_precision"),
        "DeepEval gives more weight to contexts at the top, and judges all contexts in one call",
    ),
    (
        *("DeepEval", "ContextualRecall", "ContextualRecallMetric", "context_recall"),
        "as for ragas LLMContextRecall: the feature needs relevant passages instead of a reference",
    ),
    (
        *("DeepEval", "ContextualRelevancy", "ContextualRelevancyMetric", "context_precision"),
        *("DeepEval counts statements on the topic; the feature counts passages", ".1f"),
    ),
    (
        *("DeepEval", "Hallucination", "HallucinationMetric", "unknown_facts"),
        "DeepEval asks which contexts agree with the answer; the feature is the share of the "
        "answer's numbers, dates and names that occur in no context, and lower is better",
    ),
)
"""Metrics of other tools with their counterparts: the arguments of :func:`agreement_line`."""

# Lines of guides whose figures come from the files: the page, the line with a gap for each figure,
# and the script, choice, names and format of each.
LINES: tuple[tuple[str, str, tuple[Key, ...]], ...] = (
    (
        "guides/features.md",
        "| HalluQA, answers of 24 LLMs | {} | {} |",
        (
            ("truth/facts", "", ("halluqa", "reference alone", "fact_agreement", "AUC"), ".2f"),
            ("truth/facts", "", ("halluqa", "reference alone", "reference_recall", "AUC"), ".2f"),
        ),
    ),
    (
        "guides/features.md",
        "| MTRAG, answers of two LLMs | {} | {} |",
        (
            ("truth/facts", "", ("mtrag", "reference alone", "fact_agreement", "AUC"), ".2f"),
            ("truth/facts", "", ("mtrag", "reference alone", "reference_recall", "AUC"), ".2f"),
        ),
    ),
    (
        "guides/features.md",
        "| held-out test set, mean of 18 languages (worst) | {} ({}) | {} ({}) |",
        (
            ("truth/abstention", "", ("F1 on the test set", "by the feature", "mean"), ".2f"),
            ("truth/abstention", "", ("F1 on the test set", "by the feature", "worst"), ".2f"),
            ("truth/abstention", "", ("F1 on the test set", "ours", "mean"), ".2f"),
            ("truth/abstention", "", ("F1 on the test set", "ours", "worst"), ".2f"),
        ),
    ),
    (
        "guides/features.md",
        "| recorded answers of eleven LLMs in eight languages (worst) | {} ({}) | |",
        (
            ("truth/abstention", "", ("F1 on NoMIRACL's outputs", "ours", "mean"), ".2f"),
            ("truth/abstention", "", ("F1 on NoMIRACL's outputs", "ours", "worst"), ".2f"),
        ),
    ),
    (
        "guides/features.md",
        "(`validation/papers/short_answers.py`: no difference on {} responses)",
        (("papers/short_answers", "", ("responses",), ",.0f"),),
    ),
    *(agreement_line(*arguments) for arguments in METRICS),
)


def scripts() -> list[Path]:
    """Return the scripts in the order of the table."""
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / "validation" / folder).glob("[!_]*.py"))
    ]


def results_of(script: Path) -> dict[str, Any] | None:
    """Return what a full run of a script wrote, or None if there is no file."""
    path = ROOT / "validation" / "results" / f"{script.stem}.json"
    if not path.is_file():
        return None
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return results


def summary(script: Path) -> str:
    """Return the first line of a script's docstring."""
    doc = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    return doc.partition("\n")[0].replace("``", "`").rstrip(".")


def pages_of(name: str) -> list[str]:
    """Return links to the pages that name a script, with their titles."""
    texts = {
        page: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").rglob("*.md"))
    }
    return [
        f"[{_title(text)}](../{page.relative_to(ROOT / 'docs').as_posix()})"
        for page, text in texts.items()
        if page != PAGE and f"validation/{name}.py" in text
    ]


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def matches(figures: Any, names: tuple[str, ...]) -> list[float]:
    """Return the figures whose names match the patterns; null is left out."""
    if not names or not isinstance(figures, dict):
        return [figures] if isinstance(figures, float) and not names else []
    return [
        match
        for name, below in figures.items()
        if fnmatchcase(name, names[0])
        for match in matches(below, names[1:])
    ]


def figure(results: dict[str, Any], choice: str, names: tuple[str, ...], form: str) -> str:
    """Return a figure of a file as text."""
    return format(CHOICES[choice](matches(results["figures"], names)), form)


def lines() -> list[tuple[Path, str]]:
    """Return the lines of guides with the figures of the files."""
    filled = []
    for page, line, keys in LINES:
        texts = []
        for name, choice, names, form in keys:
            results = results_of(ROOT / "validation" / f"{name}.py")
            assert results is not None
            texts.append(figure(results, choice, names, form))
        filled.append((ROOT / "docs" / page, line.format(*texts)))
    return filled


def row(script: Path, results: dict[str, Any] | None) -> str:
    """Return the row of a script: its command, its subject, its main figures and its pages."""
    name = f"{script.parent.name}/{script.stem}"
    cells = [f"`python validation/{name}.py`", summary(script)]
    if results is not None:
        cells.append(key_figures(name, script, results))
    return f"| {' | '.join([*cells, ', '.join(pages_of(name)) or 'none'])} |"


def key_figures(name: str, script: Path, results: dict[str, Any]) -> str:
    """Return the main figures of a script, with the date and the size of the run.

    Raises:
        ValueError: ``KEYS`` does not say which figures are the main ones.
    """
    if name not in KEYS:
        raise ValueError(
            f"{_file(script)} has no entry in KEYS of validation/report.py; add the entry {name!r} "
            "with the main figures of the file, or delete the file"
        )
    figures = [
        f"{label}: {figure(results, choice, names, form).replace('%', ' %')}"
        for label, choice, names, form in KEYS[name]
    ]
    sizes = [f"up to {size:,} simulations per row" for size in results["arguments"].values()]
    source = f"[all figures](https://github.com/mirage-rag/mirage/blob/main/{_file(script)})"
    return f"{'; '.join(figures)} ({', '.join([results['date'], *sizes, source])})"


def _file(script: Path) -> str:
    return f"validation/results/{script.stem}.json"


def table() -> str:
    """Return the tables: one for each folder, and one of the scripts without a file."""
    results = {script: results_of(script) for script in scripts()}
    parts = []
    for folder, title in FOLDERS.items():
        rows = [
            row(script, report)
            for script, report in results.items()
            if script.parent.name == folder and report is not None
        ]
        if not rows:
            continue
        head = f"### {title}\n\n"
        if folder == "coverage":
            names = ", ".join(f"[{page.title}](coverage/{name}.md)" for name, page in PAGES.items())
            head += (
                "These pages compare nominal rates, such as a coverage of 95 %, with the rates in "
                f"simulations: {names}.\n\n"
            )
        head += "| command | what it measures | main figures | pages |\n| --- | --- | --- | --- |\n"
        parts.append(head + "\n".join(rows) + "\n")
    rows = [row(script, None) for script, report in results.items() if report is None]
    parts.append(
        "### Scripts without a file of figures\n\n"
        f"The figures on the pages in the last column come from runs before {NOT_RERUN}, when "
        "scripts did not save them yet. If the last column says none, no figures are published."
        "\n\n"
        "| command | what it measures | figures on |\n| --- | --- | --- |\n"
        + "\n".join(rows)
        + "\n"
    )
    return "\n".join(parts)


def page_with_table(text: str) -> str:
    """Return the text of the page with the table between the two comments."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n{END}{after}"


def main() -> None:
    """Rewrite the pages."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for path, text in pages():
        path.write_text(text, encoding="utf-8")
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

"""How well ragas and DeepEval metrics agree with features, and how many LLM calls they make.

    pip install 'ragas>=0.4.3' 'langchain-community<0.4.2' 'deepeval>=4.3.1'
    python validation/truth/metric_agreement.py    # half a minute

The rows are the bundled English queries that have an answer, with six answers each: the reference,
a relevant passage, an irrelevant passage, an abstention, the reference followed by an irrelevant
sentence, and the short answer alone. The shown passages vary: all, a relevant and an irrelevant
one, irrelevant ones alone, or the relevant ones last.

If a metric needs an LLM, a function called the loopback replaces it, without a network. It splits a
text into sentences, and a sentence is supported by a text that has its numbers and names and at
least 60 % of its longer words. A sentence is relevant to a question if it shares a longer word with
it, and a passage if it has 60 % of them. Embeddings are vectors of hashed words. So the figures
show how similar the questions of the metrics are, not how well an LLM answers them.

The agreement is Spearman's rank correlation; it is positive if both give high scores to the same
rows.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import re
import sys
import typing
import warnings
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage import MirageDataset, Passage, Query, Response, Run
from mirage.features import FeatureSuite
from mirage.text import split_sentences

Floats = NDArray[np.float64]

SHARED = 0.6
DIMENSIONS = 256
ANSWERS = 6
_ABSTENTION = "I do not know."
_TOKEN = re.compile(r"\d[\d.,]*\d|\w+")


class Row(NamedTuple):
    """An answer to a query, with the passages that were shown for it."""

    query: Query
    answer: str
    shown: tuple[Passage, ...]

    @property
    def reference(self) -> str:
        """The reference answer without its reason and citations."""
        answer = (self.query.reference or "").rpartition("##Answer:")[2]
        return re.sub(r"\s*\[[^\]]*\]", "", answer).strip()

    @property
    def contexts(self) -> list[str]:
        """The texts of the shown passages."""
        return [passage.text for passage in self.shown]


# Rows ---------------------------------------------------------------------------------------------


def answers_to(row: Row) -> tuple[str, ...]:
    """Return :data:`ANSWERS` answers of different quality."""
    query, reference = row.query, row.reference
    good = next(p for p in query.passages if p.id in query.relevant)
    bad = next(p for p in query.passages if p.id not in query.relevant)
    sentence = split_sentences(bad.text, query.language)[0]
    mixed = f"{reference} {sentence}"
    return reference, good.text, bad.text, _ABSTENTION, mixed, query.answers[0][0]


def choose_passages(query: Query, number: int) -> tuple[Passage, ...]:
    """Return the shown passages, by a number from 0 to 3."""
    good = tuple(p for p in query.passages if p.id in query.relevant)
    bad = tuple(p for p in query.passages if p.id not in query.relevant)
    return (query.passages, good[:1] + bad[:1], bad, bad + good)[number]


def make_rows(queries: int | None = None) -> list[Row]:
    """Return the rows of the first queries, or of all."""
    dataset = [q for q in MirageDataset.bundled("en") if q.answers and q.relevant and q.reference]
    rows = []
    for number, query in enumerate(dataset[:queries]):
        for kind in range(ANSWERS):
            row = Row(query, "", choose_passages(query, (number + kind) % 4))
            rows.append(row._replace(answer=answers_to(row)[kind]))
    return rows


def feature_values(names: list[str], rows: list[Row]) -> dict[str, Floats]:
    """Return the values of features on the rows; an answer cites the first shown passage."""
    values: dict[str, list[Floats]] = {name: [] for name in names}
    dataset = MirageDataset(list({row.query.id: row.query for row in rows}.values()))
    for kind in range(ANSWERS):
        responses = tuple(
            Response(
                query_id=row.query.id,
                text=row.answer if row.answer == _ABSTENTION else f"{row.answer} [1]",
                shown=tuple(passage.id for passage in row.shown),
            )
            for row in rows[kind::ANSWERS]
        )
        table = FeatureSuite(names).score(
            dataset, Run(model="m", language="en", responses=responses)
        )
        for name in names:
            values[name].append(table[name])
    return {name: np.stack(columns, axis=1).ravel() for name, columns in values.items()}


# The loopback -------------------------------------------------------------------------------------


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [part for part in re.split(r"(?<=[.!?])\s+", text.strip()) if part]


def longer_words(text: str) -> set[str]:
    """Return the words of four letters or more."""
    return set(re.findall(r"\w{4,}", text.casefold()))


def is_supported(sentence: str, text: str) -> bool:
    """Return whether a text has the numbers, the names and most longer words of a sentence."""
    return has_most_words(text, sentence) and {*entities(sentence)} <= {*re.findall(_TOKEN, text)}


def has_most_words(text: str, sentence: str) -> bool:
    """Return whether a text has most of the longer words of a sentence."""
    words = longer_words(sentence)
    return len(words & longer_words(text)) >= SHARED * max(len(words), 1)


def is_relevant(sentence: str, question: str) -> bool:
    """Return whether a sentence shares a longer word with a question."""
    return bool(longer_words(sentence) & longer_words(question))


def is_useful(context: str, reference: str) -> bool:
    """Return whether a context supports a sentence of the reference."""
    return any(is_supported(sentence, context) for sentence in sentences(reference))


def supported_share(text: str, evidence: str) -> float:
    """Return the share of a text's sentences that are supported."""
    parts = sentences(text)
    return sum(is_supported(part, evidence) for part in parts) / max(len(parts), 1)


def entities(text: str) -> list[str]:
    """Return numbers, and words with a capital letter that do not begin a sentence."""
    tokens = [token for part in sentences(text) for token in re.findall(_TOKEN, part)[1:]]
    return sorted({token for token in tokens if token[0].isupper() or token[0].isdigit()})


def embed(text: str) -> list[float]:
    """Return a vector of unit length that counts hashed words."""
    vector = np.zeros(DIMENSIONS)
    for word in re.findall(r"\w+", text.casefold()):
        vector[zlib.crc32(word.encode()) % DIMENSIONS] += 1
    return typing.cast("list[float]", (vector / max(float(np.linalg.norm(vector)), 1e-9)).tolist())


# ragas --------------------------------------------------------------------------------------------


def reply_to_ragas(prompt: str, row: Row) -> str:
    """Return the loopback's answer to a prompt of ragas, whose last line has the input."""
    inputs = re.findall(r"^input: (\{.*?\})\nOutput:", prompt, re.S | re.M)
    if not inputs:
        return str(_rating(prompt, row))
    given = json.loads(inputs[-1])
    return json.dumps(_structured_reply(prompt, given))


def _structured_reply(prompt: str, given: dict[str, Any]) -> dict[str, Any]:
    if "statements" in given:
        context = given["context"]
        verdicts = [(each, int(is_supported(each, context))) for each in given["statements"]]
        return {"statements": [{"statement": s, "reason": "", "verdict": v} for s, v in verdicts]}
    if "ground_truth" in given:
        answer, truth = given["answer"], given["ground_truth"]
        right = [each for each in answer if is_supported(each, " ".join(truth))]
        kinds = {
            "TP": right,
            "FP": [each for each in answer if each not in right],
            "FN": [each for each in truth if not is_supported(each, " ".join(answer))],
        }
        return {
            kind: [{"statement": each, "reason": ""} for each in statements]
            for kind, statements in kinds.items()
        }
    if "text" in given:
        return {"entities": entities(given["text"])}
    if "classifications" in prompt:
        return {
            "classifications": [
                {"statement": s, "reason": "", "attributed": int(is_supported(s, given["context"]))}
                for s in sentences(given["answer"])
            ]
        }
    if "context" in given:
        return {"reason": "", "verdict": int(is_useful(given["context"], given["answer"]))}
    if "noncommittal" in prompt:
        return {
            "question": sentences(given["response"])[0],
            "noncommittal": int(given["response"] == _ABSTENTION),
        }
    if "response" in given:
        return {"claims": sentences(given["response"])}
    return {"statements": sentences(given["answer"])}


def _rating(prompt: str, row: Row) -> int:
    """Return a rating for the metrics that ask for a number: 0 to 4, or 0 to 2."""
    if "Reference Answer" in prompt:
        precision = supported_share(row.answer, row.reference)
        recall = supported_share(row.reference, row.answer)
        return 4 if precision == recall == 1 else 2 if recall > 0 else 0
    evidence = " ".join(row.contexts)
    if row.answer in prompt:
        share = supported_share(row.answer, evidence)
        return 2 if share == 1 else 1 if share > 0 else 0
    useful = sum(has_most_words(context, row.query.text) for context in row.contexts)
    return 2 if useful == len(row.contexts) else 1 if useful else 0


def ragas_scores(rows: list[Row]) -> tuple[dict[str, Floats], dict[str, float]]:
    """Return scores of ragas by metric, and calls of the LLM for each row."""
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    logging.getLogger("ragas").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain_core.outputs import Generation, LLMResult
        from ragas import SingleTurnSample
        from ragas import metrics as m
        from ragas.embeddings.base import BaseRagasEmbeddings
        from ragas.llms.base import BaseRagasLLM
        from ragas.run_config import RunConfig

        metrics = [
            *(m.IDBasedContextRecall(), m.IDBasedContextPrecision(), m.LLMContextRecall()),
            *(m.LLMContextPrecisionWithReference(), m.ContextRelevance(), m.ContextEntityRecall()),
            *(m.Faithfulness(), m.ResponseGroundedness(), m.NoiseSensitivity()),
            *(m.FactualCorrectness(), m.AnswerCorrectness(), m.AnswerAccuracy()),
            *(m.ResponseRelevancy(), m.BleuScore(), m.RougeScore(), m.ChrfScore()),
        ]
        short = [m.ExactMatch(), m.StringPresence()]  # with a short answer as the reference

    class Loopback(BaseRagasLLM):  # type: ignore[misc]
        calls = 0
        row: Row

        def is_finished(self, response: Any) -> bool:  # noqa: ARG002
            return True

        def generate_text(self, prompt: Any, n: int = 1, **_: Any) -> Any:
            self.calls += n
            text = reply_to_ragas(prompt.to_string(), self.row)
            return LLMResult(generations=[[Generation(text=text)] * n])

        async def agenerate_text(self, prompt: Any, n: int = 1, **_: Any) -> Any:
            return self.generate_text(prompt, n)

    class Vectors(BaseRagasEmbeddings):  # type: ignore[misc]
        def embed_query(self, text: str) -> list[float]:
            return embed(text)

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [embed(text) for text in texts]

        async def aembed_query(self, text: str) -> list[float]:
            return embed(text)

        async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
            return self.embed_documents(texts)

    def sample(row: Row, reference: str) -> Any:
        return SingleTurnSample(
            user_input=row.query.text,
            response=row.answer,
            reference=reference,
            retrieved_contexts=row.contexts,
            retrieved_context_ids=[passage.id for passage in row.shown],
            reference_context_ids=list(row.query.relevant),
        )

    async def score_rows(metric: Any, llm: Any, references: list[str]) -> Floats:
        scores = []
        for row, reference in zip(rows, references, strict=True):
            llm.row = row
            scores.append(await metric.single_turn_ascore(sample(row, reference)))
        return np.array(scores, dtype=float)

    long_references = [row.reference for row in rows]
    short_references = [row.query.answers[0][0] for row in rows]
    vectors = Vectors()
    vectors.set_run_config(RunConfig())
    scores, calls = {}, {}
    for metric in (*metrics, *short):
        llm = Loopback()
        if hasattr(metric, "llm"):
            metric.llm = llm
        if hasattr(metric, "embeddings"):
            metric.embeddings = vectors
        if metric.name == "answer_correctness":
            metric.answer_similarity = m.AnswerSimilarity(embeddings=vectors)
        references = short_references if metric in short else long_references
        scores[metric.name] = asyncio.run(score_rows(metric, llm, references))
        calls[metric.name] = llm.calls / len(rows)
    return scores, calls


# DeepEval -----------------------------------------------------------------------------------------


def minimal(schema: Any) -> Any:
    """Return the smallest value of a pydantic model or type."""
    if hasattr(schema, "model_fields"):
        fields = schema.model_fields
        return schema(**{key: minimal(field.annotation) for key, field in fields.items()})
    origin = typing.get_origin(schema)
    parts = typing.get_args(schema)
    if origin is list:
        return [minimal(parts[0])]
    if origin is typing.Literal:
        return parts[0]
    if parts:
        return minimal(next(part for part in parts if part is not type(None)))
    return {str: "yes", int: 1, float: 1.0, bool: True, dict: {}, list: []}.get(schema, "yes")


def verdicts_for_deepeval(metric: str, prompt: str, row: Row) -> list[tuple[str, bool]]:
    """Return the loopback's verdicts on the parts that a metric of DeepEval judges.

    Args:
        metric: Name of the metric's module.
        prompt: The prompt. ``contextual_relevancy`` asks about one context in each call.
        row: The row.
    """
    question, evidence = row.query.text, " ".join(row.contexts)
    if metric == "faithfulness":
        return [(part, is_supported(part, evidence)) for part in sentences(row.answer)]
    if metric == "answer_relevancy":
        return [(part, is_relevant(part, question)) for part in sentences(row.answer)]
    if metric == "contextual_precision":
        return [(context, is_useful(context, row.reference)) for context in row.contexts]
    if metric == "contextual_recall":
        return [(part, is_supported(part, evidence)) for part in sentences(row.reference)]
    if metric == "contextual_relevancy":
        context = next(each for each in row.contexts if each in prompt)
        return [(part, is_relevant(part, question)) for part in sentences(context)]
    return [(context, is_useful(context, row.answer)) for context in row.contexts]


def deepeval_scores(rows: list[Row]) -> tuple[dict[str, Floats], dict[str, float]]:
    """Return scores of DeepEval by metric, and calls of the LLM for each row."""
    os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from deepeval import metrics as m
        from deepeval.models import DeepEvalBaseLLM
        from deepeval.test_case import LLMTestCase

    class Loopback(DeepEvalBaseLLM):  # type: ignore[misc]
        calls = 0
        row: Row

        def load_model(self) -> Any:
            return self

        def get_model_name(self) -> str:
            return "loopback"

        def generate(self, prompt: str, schema: Any = None) -> Any:
            self.calls += 1
            name, fields = getattr(schema, "__name__", ""), getattr(schema, "model_fields", {})
            if name in ("Claims", "Statements"):
                return schema(**{name.lower(): sentences(self.row.answer)})
            if name == "Truths":
                return schema(truths=sentences(" ".join(self.row.contexts)))
            if "verdicts" not in fields:
                return minimal(schema)
            kind = typing.get_args(fields["verdicts"].annotation)[0]
            module = schema.__module__.split(".")[-2]
            rest = {"statement", "reason"} & kind.model_fields.keys()
            return schema(
                verdicts=[
                    kind(verdict="yes" if verdict else "no", **dict.fromkeys(rest, part))
                    for part, verdict in verdicts_for_deepeval(module, prompt, self.row)
                ]
            )

        async def a_generate(self, prompt: str, schema: Any = None) -> Any:
            return self.generate(prompt, schema)

    scores, calls = {}, {}
    for kind in (
        *(m.FaithfulnessMetric, m.AnswerRelevancyMetric, m.ContextualPrecisionMetric),
        *(m.ContextualRecallMetric, m.ContextualRelevancyMetric, m.HallucinationMetric),
    ):
        llm = Loopback()
        values = []
        for llm.row in rows:
            case = LLMTestCase(
                input=llm.row.query.text,
                actual_output=llm.row.answer,
                expected_output=llm.row.reference,
                retrieval_context=llm.row.contexts,
                context=llm.row.contexts,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                metric = kind(model=llm, async_mode=False)
            values.append(metric.measure(case, _show_indicator=False))
        scores[kind.__name__] = np.array(values, dtype=float)
        calls[kind.__name__] = llm.calls / len(rows)
    return scores, calls


# Agreement ----------------------------------------------------------------------------------------


class Tool(NamedTuple):
    """A tool: the function that runs its metrics, and the feature that is nearest to each."""

    scores: Callable[[list[Row]], tuple[dict[str, Floats], dict[str, float]]]
    counterparts: Mapping[str, str]


TOOLS: Mapping[str, Tool] = {
    "ragas": Tool(
        ragas_scores,
        {
            "id_based_context_recall": "context_recall",
            "id_based_context_precision": "context_precision",
            "context_recall": "context_recall",
            "llm_context_precision_with_reference": "context_precision",
            "nv_context_relevance": "context_precision",
            "context_entity_recall": "context_recall",
            "faithfulness": "support_lexical_all",
            "nv_response_groundedness": "support_lexical_all",
            "noise_sensitivity(mode=relevant)": "incorrect_attempt",
            "factual_correctness(mode=f1)": "fact_agreement",
            "answer_correctness": "fact_agreement",
            "nv_accuracy": "answer_match",
            "answer_relevancy": "relevance_lexical",
            "bleu_score": "answer_bleu",
            "rouge_score(mode=fmeasure)": "answer_rougeL",
            "chrf_score": "answer_char3",
            "exact_match": "qa_exact",
            "string_present": "qa_match",
        },
    ),
    "deepeval": Tool(
        deepeval_scores,
        {
            "FaithfulnessMetric": "support_lexical_all",
            "AnswerRelevancyMetric": "relevance_lexical",
            "ContextualPrecisionMetric": "context_precision",
            "ContextualRecallMetric": "context_recall",
            "ContextualRelevancyMetric": "context_precision",
            "HallucinationMetric": "unknown_facts",
        },
    ),
}
LOWER = frozenset(("noise_sensitivity(mode=relevant)", "incorrect_attempt", "unknown_facts"))
"""Metrics and features for which smaller is better."""


class Agreement(NamedTuple):
    """How a metric agrees with a feature.

    Attributes:
        correlation: Spearman's rank correlation, NaN if either is the same on all rows.
        gap: Largest difference.
        rows: Number of rows on which both have a value.
        calls: Calls of the LLM for each row.
    """

    correlation: float
    gap: float
    rows: int
    calls: float


def measure_agreement(tool: str, rows: list[Row]) -> dict[str, Agreement]:
    """Return the agreement of each metric of a tool with its counterpart."""
    from scipy.stats import spearmanr

    run, counterparts = TOOLS[tool]
    scores, calls = run(rows)
    names = {name.partition("(")[0]: name for name in counterparts}
    values = feature_values(sorted(set(counterparts.values())), rows)
    result = {}
    for title, metric_scores in scores.items():
        metric = names[title.partition("(")[0]]
        feature = counterparts[metric]
        x, y = (
            -each if name in LOWER else each
            for name, each in ((metric, metric_scores), (feature, values[feature]))
        )
        both = ~np.isnan(x) & ~np.isnan(y)
        is_flat = np.ptp(x[both]) == 0 or np.ptp(y[both]) == 0
        rho = float("nan") if is_flat else float(spearmanr(x[both], y[both]).statistic)
        gap = float(np.abs(metric_scores[both] - values[feature][both]).max())
        result[metric] = Agreement(rho, gap, int(both.sum()), calls[title])
    return result


def is_installed(tool: str) -> bool:
    """Return whether a tool can be imported."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(tool)
    except ImportError:
        return False
    return True


def main() -> None:
    """Print a line for each metric."""
    parser = script_parser(__doc__)
    options = parser.parse_args()
    if not all(map(is_installed, TOOLS)):
        print("nothing to measure: this needs ragas and DeepEval")
        return
    rows = make_rows(3 if options.quick else None)
    print(f"{len(rows)} rows: rank correlation, largest difference, rows, calls for a row")
    for tool in TOOLS:
        for metric, figures in measure_agreement(tool, rows).items():
            feature = TOOLS[tool].counterparts[metric]
            rho, gap, count, calls = figures
            print(f"{tool:9} {metric:37} {feature:20} {rho:5.2f} {gap:6.3f} {count:4} {calls:5.2f}")
            add_figure(rho, tool, metric, "rank correlation")
            add_figure(gap, tool, metric, "largest difference")
            add_figure(count, tool, metric, "rows")
            add_figure(calls, tool, metric, "calls")
    save(parser, options)


if __name__ == "__main__":
    main()

"""Agreement of metrics of ragas and DeepEval with features, and their calls, on the same rows.

The rows are the bundled English queries with the answers of :mod:`answers`. Where a metric needs an
LLM, a loopback stands in for it: it splits an answer into sentences, and takes a sentence for
supported if a context has at least 60 % of its longer words. As a program, it prints the figures::

    python tests/integrations/metric_agreement.py ragas
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import typing
import warnings
from typing import Any

import numpy as np
from answers import answers

from mirage.dataset import MirageDataset
from mirage.features import FeatureSuite
from mirage.models import Response, Run

SHARED = 0.6
_CITATION = re.compile(r"\[[^\]]*\]")


def rows() -> tuple[MirageDataset, Run]:
    """Return the queries that have a reference, and their answers without citations."""
    dataset = MirageDataset([query for query in MirageDataset.bundled("en") if query.reference])
    texts = {
        id_: _CITATION.sub("", text).strip() or "No." for id_, text in answers(dataset).items()
    }
    responses = tuple(Response(query_id=query.id, text=texts[query.id]) for query in dataset)
    return dataset, Run(model="m", language="en", responses=responses)


def features(*names: str) -> dict[str, np.ndarray]:
    """Return values of features on the rows."""
    table = FeatureSuite(list(names)).score(*rows())
    return {name: table[name] for name in names}


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+", text.strip()) if part]


def is_supported(sentence: str, context: str) -> bool:
    words = set(re.findall(r"\w{4,}", sentence.casefold()))
    present = set(re.findall(r"\w{4,}", context.casefold()))
    return len(words & present) >= SHARED * max(len(words), 1)


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


# ragas --------------------------------------------------------------------------------------------


def ragas_llm() -> Any:
    """Return a loopback LLM for ragas that counts its calls."""
    from langchain_core.outputs import Generation, LLMResult
    from ragas.llms.base import BaseRagasLLM

    class Loopback(BaseRagasLLM):  # type: ignore[misc]
        calls = 0

        def is_finished(self, response: Any) -> bool:  # noqa: ARG002
            return True

        def generate_text(self, prompt: Any, n: int = 1, **_: Any) -> Any:
            self.calls += n
            text = json.dumps(reply(prompt.to_string()))
            return LLMResult(generations=[[Generation(text=text)] * n])

        async def agenerate_text(self, prompt: Any, n: int = 1, **_: Any) -> Any:
            return self.generate_text(prompt, n)

    return Loopback()


def reply(prompt: str) -> dict[str, Any]:
    """Answer a prompt of ragas by the input at its end."""
    given = json.loads(re.findall(r"^input: (\{.*?\})\nOutput:", prompt, re.S | re.M)[-1])
    if "statements" in given:
        verdicts = [
            {"statement": each, "reason": "", "verdict": int(is_supported(each, given["context"]))}
            for each in given["statements"]
        ]
        return {"statements": verdicts}
    if "classifications" in prompt:
        return {
            "classifications": [
                {"statement": s, "reason": "", "attributed": int(is_supported(s, given["context"]))}
                for s in sentences(given["answer"])
            ]
        }
    if "context" in given:
        useful = any(is_supported(s, given["context"]) for s in sentences(given["answer"]))
        return {"reason": "", "verdict": int(useful)}
    if "response" in given and "noncommittal" in prompt:
        return {"question": "What?", "noncommittal": 0}
    if "response" in given:
        return {"claims": sentences(given["response"])}
    return {"statements": sentences(given["answer"])}


def ragas_scores() -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Return scores of ragas by metric, and calls of the LLM for each row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ragas import SingleTurnSample
        from ragas import metrics as m

    dataset, run = rows()
    samples = [
        SingleTurnSample(
            user_input=query.text,
            response=response.text,
            reference=query.reference,
            retrieved_contexts=[passage.text for passage in query.passages],
            retrieved_context_ids=list(query.passage_ids),
            reference_context_ids=list(query.relevant),
        )
        for query, response in zip(dataset, run, strict=True)
    ]
    scores, calls = {}, {}
    for metric in (
        *(m.IDBasedContextRecall(), m.IDBasedContextPrecision(), m.BleuScore(), m.RougeScore()),
        *(m.Faithfulness(), m.LLMContextRecall(), m.LLMContextPrecisionWithReference()),
        m.FactualCorrectness(),
    ):
        llm = ragas_llm()
        if hasattr(metric, "llm"):
            metric.llm = llm
        scored = [asyncio.run(metric.single_turn_ascore(sample)) for sample in samples]
        scores[metric.name] = np.array(scored, dtype=float)
        calls[metric.name] = llm.calls / len(samples)
    return scores, calls


# DeepEval -----------------------------------------------------------------------------------------


def deepeval_scores() -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Return scores of DeepEval by metric, and calls of the LLM for each row."""
    from deepeval import metrics as m
    from deepeval.models import DeepEvalBaseLLM
    from deepeval.test_case import LLMTestCase

    class Loopback(DeepEvalBaseLLM):  # type: ignore[misc]
        calls = 0
        case: Any = None

        def load_model(self) -> Any:
            return self

        def get_model_name(self) -> str:
            return "loopback"

        def generate(self, prompt: str, schema: Any = None) -> Any:  # noqa: ARG002
            self.calls += 1
            name, fields = getattr(schema, "__name__", ""), getattr(schema, "model_fields", {})
            said = sentences(self.case.actual_output)
            context = " ".join(self.case.retrieval_context)
            if name == "Claims":
                return schema(claims=said)
            if name == "Truths":
                return schema(truths=sentences(context))
            if "verdicts" in fields and "Faithfulness" in schema.__module__.title():
                verdict = typing.get_args(fields["verdicts"].annotation)[0]
                words = ("yes" if is_supported(each, context) else "no" for each in said)
                return schema(verdicts=[verdict(verdict=word, reason="") for word in words])
            return minimal(schema)

        async def a_generate(self, prompt: str, schema: Any = None) -> Any:
            return self.generate(prompt, schema)

    dataset, run = rows()
    scores, calls = {}, {}
    for kind in (
        *(m.FaithfulnessMetric, m.AnswerRelevancyMetric, m.ContextualPrecisionMetric),
        *(m.ContextualRecallMetric, m.ContextualRelevancyMetric, m.HallucinationMetric),
    ):
        llm = Loopback()
        values = []
        for query, response in zip(dataset, run, strict=True):
            contexts = [passage.text for passage in query.passages]
            llm.case = LLMTestCase(
                input=query.text,
                actual_output=response.text or "",
                expected_output=query.reference,
                retrieval_context=contexts,
                context=contexts,
            )
            metric = kind(model=llm, async_mode=False)
            values.append(metric.measure(llm.case, _show_indicator=False))
        scores[kind.__name__] = np.array(values, dtype=float)
        calls[kind.__name__] = llm.calls / len(dataset)
    return scores, calls


PAIRS = {
    "ragas": {
        "id_based_context_recall": "context_recall",
        "id_based_context_precision": "context_precision",
        "bleu_score": "answer_bleu",
        "rouge_score": "answer_rougeL",
        "faithfulness": "support_lexical_all",
        "factual_correctness": "fact_agreement",
    },
    "deepeval": {"FaithfulnessMetric": "support_lexical_all"},
}
"""Metrics with the feature that answers the same question."""


def agreement(tool: str) -> dict[str, tuple[float, float, int]]:
    """Return rank correlation, largest difference and number of rows of each pair."""
    from scipy.stats import spearmanr

    scores, _ = {"ragas": ragas_scores, "deepeval": deepeval_scores}[tool]()
    values = features(*dict.fromkeys(PAIRS[tool].values()))
    result = {}
    for metric, feature in PAIRS[tool].items():
        x, y = scores[metric], values[feature]
        both = ~np.isnan(x) & ~np.isnan(y)
        gap = float(np.abs(x[both] - y[both]).max())
        is_flat = np.ptp(x[both]) == 0 or np.ptp(y[both]) == 0
        rho = float("nan") if is_flat else float(spearmanr(x[both], y[both]).statistic)
        result[metric] = (rho, gap, int(both.sum()))
    return result


if __name__ == "__main__":
    made, per_row = {"ragas": ragas_scores, "deepeval": deepeval_scores}[sys.argv[1]]()
    for title, number in per_row.items():
        print(f"{title}: mean {np.nanmean(made[title]):.3f}, {number:.2f} calls per row")
    for title, (rho, gap, count) in agreement(sys.argv[1]).items():
        print(f"{title}: rank correlation {rho:.2f}, largest difference {gap:.3f}, {count} rows")

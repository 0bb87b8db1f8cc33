"""Small rankings with evidence for tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from mirage import BradleyTerry, FeatureTable, Judgments, SurrogateRanker
from mirage.dataset import MirageDataset
from mirage.models import Passage, Query, Response, Run
from mirage.ranking import Entry, Evidence, Ranking
from mirage.statistics.rank_sets import rank_sets
from mirage.statistics.ranks import ranks

FEATURES = ("citation_recall@10", "answer_bleu", "target_language")
ANCHORS = tuple(f"anchor-{i}" for i in range(6))
QUERIES = 12

QUESTION = {"ar": "ما أطول نهر في أفريقيا؟", "en": "Which river of Africa is the longest?"}
PASSAGE = {
    "ar": "نهر النيل هو أطول نهر في أفريقيا.",
    "en": "The Nile is the longest river of Africa.",
}


def dataset(code: str, texts: Sequence[str] = ()) -> MirageDataset:
    """Return queries with three passages.

    Each of ``texts`` is the question of one query and a passage of others.
    """
    texts_or_blank = texts or [""]
    queries = []
    for number in range(max(QUERIES, len(texts))):
        chosen_texts = [texts_or_blank[(number + i) % len(texts_or_blank)] for i in range(4)]
        passages = [
            Passage(
                id=f"{number}#{i}", text=chosen_texts[i] or PASSAGE[code], title=chosen_texts[i - 1]
            )
            for i in (1, 2, 3)
        ]
        queries.append(
            Query(
                id=f"q{number}",
                language=code,
                text=acceptable(chosen_texts[0]) or QUESTION[code],
                passages=passages,
                relevant=[passages[0].id],
                reference=f"##Reason: [1]\n##Answer: {chosen_texts[1] or PASSAGE[code]} [1]",
            )
        )
    return MirageDataset(queries, name=f"tests-{code}")


def acceptable(text: str) -> str:
    """Return a text with broken UTF-8 replaced, as questions and names of runs require."""
    return text.encode("utf-8", "replace").decode()


@cache
def ranker(code: str, models: int = len(ANCHORS)) -> SurrogateRanker:
    """Return a surrogate trained on models that are better the higher their features are."""
    rng = np.random.default_rng(0)
    ids = tuple(f"q{number}" for number in range(QUERIES))
    quality = np.linspace(1, 0, models)
    tables = [
        FeatureTable(name, code, ids, FEATURES, level + rng.random((QUERIES, len(FEATURES))))
        for name, level in zip(ANCHORS[:models], quality, strict=True)
    ]
    a, b = np.triu_indices(models, 1)
    names = np.array(ANCHORS)
    judgments = Judgments.from_arrays(
        query=np.tile(ids, len(a)),
        model_a=np.repeat(names[a], QUERIES),
        model_b=np.repeat(names[b], QUERIES),
        score=rng.random(len(a) * QUERIES) < 0.8,
    )
    return SurrogateRanker("ridge").fit(
        tables, BradleyTerry().bootstrap(judgments, tournaments=20, queries=10)
    )


def run(model: str, data: MirageDataset, texts: Sequence[str] = ()) -> Run:
    """Return responses to all queries; every fifth fails."""
    responses = []
    for number, query in enumerate(data):
        text = texts[number % len(texts)] if texts else f"Text {number}"
        if number % 5 == 4:
            responses.append(Response(query_id=query.id, text=None, error=f"TimeoutError: {text}"))
            continue
        answer = text if texts else f"##Reason: see [9]\n##Answer: {PASSAGE[data.language]} [2]"
        responses.append(Response(query_id=query.id, text=answer))
    return Run(model=acceptable(model), language=data.language, responses=tuple(responses))


def ranking(
    code: str = "en",
    models: Sequence[str] = ("mine", "other"),
    *,
    texts: Sequence[str] = (),
    evidence: bool = True,
    title: str = "A title",
    notes: Sequence[str] = (),
) -> Ranking:
    """Return a ranking of new models and six anchors, which equal arguments share.

    A shared ranking computes its findings only once. ``texts`` are used as responses, questions and
    passages.
    """
    return _cached_ranking(code, tuple(models), tuple(texts), evidence, title, tuple(notes))


def new_ranking(
    code: str = "en",
    models: Sequence[str] = ("mine", "other"),
    texts: Sequence[str] = (),
    evidence: bool = True,
    title: str = "A title",
    notes: Sequence[str] = (),
) -> Ranking:
    """Return a ranking like :func:`ranking` that no other test shares."""
    rng = np.random.default_rng([7, *code.encode()])
    data, names = dataset(code, texts), [*models, *ANCHORS]
    runs = {
        model: run(
            model, data, [*texts[i % len(texts) :], *texts[: i % len(texts)]] if texts else ()
        )
        for i, model in enumerate(models)
    }
    ids = tuple(query.id for query in data)
    tables = {}
    for model in runs:
        values = rng.random((len(ids), len(FEATURES)))
        values[4::5] = np.nan
        reasons = {(id_, name): "the model failed" for id_ in ids[4::5] for name in FEATURES}
        tables[model] = FeatureTable(model, code, ids, FEATURES, values, reasons)
    logits = np.linspace(2, -2, len(names))
    draws = logits + rng.normal(scale=0.4, size=(100, len(names)))
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    between = rank_sets(logits, draws - logits).tolist()
    spans = [(best, worst) for best, worst in between]
    entries = [
        Entry(
            int(rank),
            name,
            float(logits[i]),
            (float(low[i]), float(high[i])),
            spans[i],
            dict(zip(FEATURES, rng.random(len(FEATURES)).tolist(), strict=True)),
            anchor=i >= len(models),
            answered=None if i >= len(models) else len(ids) - len(ids[4::5]),
            failures={
                response.query_id: response.error or ""
                for response in (runs[name].failed if name in runs else ())
            },
        )
        for i, (rank, name) in enumerate(zip(ranks(logits), names, strict=True))
    ]
    all_evidence = Evidence(
        data, runs, tables, ranker(code), {"seed": 0, "validation": {"tau": 0.9}}
    )
    return Ranking(
        entries,
        language=code,
        title=title,
        draws={name: draws[:, i] for i, name in enumerate(names)},
        notes=notes,
        evidence=all_evidence if evidence else None,
    )


_cached_ranking = cache(new_ranking)

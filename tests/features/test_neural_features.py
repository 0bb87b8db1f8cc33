"""Support by NLI and the reranker's score, with small real models that the tests create.

Expected scores come from transformers and sentence-transformers, one pair at a time.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llm_server import ChatServer

from mirage.dataset import MirageDataset
from mirage.errors import FeatureError, MissingPackageError, NeuralError, SettingError
from mirage.features import Feature, FeatureSuite, NotComputed, answered
from mirage.features.neural import reranker_score, support_entailment, support_neutral
from mirage.llm import LLM
from mirage.llm.cache import Cache
from mirage.models import Passage, Query, Response, Run
from mirage.neural import NLI, Reranker
from mirage.neural.pairs import Pair, _batches
from mirage.text import parse

LONGEST = 128
QUERIES = 14
"""Queries per language, so few that a small vocabulary covers their characters."""
SCRIPTS = ("en", "ar", "hi", "te", "th", "ja", "ko", "zh", "ru")
PAPER = (
    "target_language",
    "english_language",
    "citation_recall@10",
    "citation_map@10",
    "support_entailment",
    "support_neutral",
    "reranker_score",
    "answer_bleu",
    "answer_rougeL",
    "answer_overlap",
    "fluency",
)


# Models -------------------------------------------------------------------------------------------


class Zoo:
    """A maker of small models of three architectures, with real tokenizers, in folders."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        texts = [
            p.text for c in SCRIPTS for q in MirageDataset.bundled(c)[:QUERIES] for p in q.passages
        ]
        self.tokenizers = {
            # XLM-RoBERTa's and DeBERTa's kind, with the templates of both, and BERT's.
            "xlm-roberta": _unigram(texts, "<s> $A </s> </s> $B </s>"),
            "deberta-v2": _unigram(texts, "<s> $A </s> $B </s>"),
            "bert": _wordpiece(texts),
        }

    def make(self, kind: str, labels: Sequence[str], seed: int = 0, **config: Any) -> Path:
        """The folder of a model with these labels; a reranker has one."""
        import torch
        from transformers import AutoConfig, AutoModelForSequenceClassification

        tokenizer = self.tokenizers[kind]
        settings: dict[str, Any] = {"max_position_embeddings": 600, **config}
        disentangled = {
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
            "type_vocab_size": 0,
        }
        model_config = AutoConfig.for_model(
            kind,
            vocab_size=len(tokenizer),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            initializer_range=0.4,  # with the usual 0.02, all pairs would score alike
            pad_token_id=tokenizer.pad_token_id,
            id2label=dict(enumerate(labels)),
            label2id={name: i for i, name in enumerate(labels)},
            **(disentangled if kind == "deberta-v2" else {}) | settings,
        )
        torch.manual_seed(seed)
        folder = self.folder / f"{kind}-{'-'.join(labels)}-{seed}-{len(config)}"
        AutoModelForSequenceClassification.from_config(model_config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder


def _unigram(texts: Sequence[str], pair: str) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import TokenizersBackend

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    core = Tokenizer(models.Unigram())
    core.normalizer = normalizers.NFKC()
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=6000, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    core.train_from_iterator(texts, trainer)
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair=pair, special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), special, strict=True))
    return TokenizersBackend(tokenizer_object=core, model_max_length=LONGEST, **names)


def _wordpiece(texts: Sequence[str]) -> Any:
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertTokenizer

    core = BertWordPieceTokenizer()
    core.train_from_iterator(texts, vocab_size=3000, show_progress=False)
    return BertTokenizer(vocab=core.get_vocab(), model_max_length=LONGEST)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zoo]:
    for package in ("torch", "transformers", "sentence_transformers"):
        pytest.importorskip(package, reason=f"needs {package} of the extra neural")
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # such small models gain nothing from more
    yield Zoo(tmp_path_factory.mktemp("models"))
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def nli(zoo: Zoo) -> Path:
    return zoo.make("deberta-v2", ("entailment", "neutral", "contradiction"))


@pytest.fixture(scope="module")
def reranker(zoo: Zoo) -> Path:
    return zoo.make("xlm-roberta", ("score",))


def in_memory(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder)
    return model, AutoTokenizer.from_pretrained(folder)


def one_by_one(folder: Path, pairs: Sequence[Pair], cut: str = "only_first") -> Any:
    """Return the logits that plain transformers computes pair by pair, one row per pair."""
    import torch

    model, tokenizer = in_memory(folder)
    rows = []
    for first, second in pairs:
        inputs = tokenizer(
            first, second, truncation=cut, max_length=LONGEST, return_tensors="pt", verbose=False
        )
        with torch.no_grad():
            rows.append(model(**inputs).logits[0].double().numpy())
    return np.array(rows)


def softmax(logits: Any) -> Any:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.fixture
def shapes(zoo: Zoo) -> Callable[[Any], list[tuple[int, int]]]:
    """Return a function that watches a model and gives the list of the shapes of its batches."""
    assert zoo

    def watch(model: Any) -> list[tuple[int, int]]:
        batch_shapes: list[tuple[int, int]] = []
        model.register_forward_pre_hook(
            lambda _module, _args, kwargs: batch_shapes.append(tuple(kwargs["input_ids"].shape)),
            with_kwargs=True,
        )
        return batch_shapes

    return watch


def natural_pairs(*codes: str) -> list[Pair]:
    """Return pairs of a bundled passage and the question, or the reference."""
    return [
        (passage.text, text)
        for code in codes
        for query in MirageDataset.bundled(code)[:QUERIES]
        for passage in query.passages
        for text in (query.text, answered_reference(query).sentences[0].text)
    ]


def answered_reference(query: Query) -> Any:
    return answered(query, Response(query_id=query.id, text=query.reference)).parsed


# Scores -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("deberta-v2", ("entailment", "neutral", "contradiction")),
        ("bert", ("CONTRADICTION", "ENTAILMENT", "NEUTRAL")),
        ("xlm-roberta", ("Neutral", "Contradiction", "Entail")),
    ],
)
def test_probabilities_are_those_of_a_plain_loop(
    zoo: Zoo, kind: str, labels: tuple[str, ...]
) -> None:
    folder = zoo.make(kind, labels)
    pairs = natural_pairs(*SCRIPTS)[::20]
    model = NLI(folder)
    scores = model.scores(pairs)
    expected = softmax(one_by_one(folder, pairs))
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)
    assert expected.std(axis=0).min() > 0.01  # the pairs do differ
    assert model.labels == labels
    lowered = [name.lower()[:6] for name in labels]
    assert model.column("entailment") == lowered.index("entail")
    assert model.column("neutral") == lowered.index("neutra")


def test_logits_are_those_of_a_plain_loop(zoo: Zoo, reranker: Path) -> None:
    from sentence_transformers import CrossEncoder
    from torch.nn import Identity

    for folder in (reranker, zoo.make("bert", ("score",))):
        questions = natural_pairs("en", "th", "ar")[::2]
        pairs = [(question, passage) for passage, question in questions[::5]]
        scores = Reranker(folder).scores(pairs)
        expected = one_by_one(folder, pairs, "only_second")[:, 0]
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)
        encoder = CrossEncoder(str(folder), activation_fn=Identity(), device="cpu")
        named_route = [float(encoder.predict([pair])[0]) for pair in pairs]
        np.testing.assert_allclose(scores, named_route, rtol=0, atol=1e-5)
        assert np.abs(scores).max() > 1  # no sigmoid


def test_models_may_be_objects(nli: Path, tmp_path: Path) -> None:
    pairs = natural_pairs("en")[:10]
    model, tokenizer = in_memory(nli)
    cache_path = tmp_path / "scores.sqlite"
    scorer = NLI(model.train(), tokenizer, cache=cache_path)
    np.testing.assert_allclose(scorer.scores(pairs), NLI(nli).scores(pairs), atol=1e-6)
    assert not cache_path.exists()
    assert repr(scorer) == "NLI('DebertaV2ForSequenceClassification')"
    for wrong in ((model,), (str(nli), tokenizer)):
        with pytest.raises(SettingError, match="a tokenizer is needed if, and only if"):
            NLI(*wrong)
    with pytest.raises(SettingError, match="max_length must be at least 16 tokens"):
        NLI(nli, max_length=15)
    with pytest.raises(SettingError, match="token_budget at least 1"):
        NLI(nli, token_budget=0)


def test_each_distinct_pair_is_computed_once(nli: Path, shapes: Any) -> None:
    model, tokenizer = in_memory(nli)
    batches = shapes(model)
    scorer = NLI(model, tokenizer)
    pairs = natural_pairs("en", "ja")[:40]
    repeated = random.Random(0).choices(pairs, k=300)
    scores = scorer.scores(repeated)
    assert sum(rows for rows, _ in batches) == len(set(repeated))
    scorer.scores(pairs)
    assert sum(rows for rows, _ in batches) == len(pairs)
    np.testing.assert_array_equal(scores, scorer.scores(repeated))
    assert sum(rows for rows, _ in batches) == len(pairs)
    assert scorer.scores([]).shape == (0, 3)


def test_batches_keep_to_the_budget(nli: Path, shapes: Any) -> None:
    model, tokenizer = in_memory(nli)
    batches = shapes(model)
    pairs = natural_pairs("en", "zh")[::3]
    by_default = NLI(model, tokenizer).scores(pairs)
    assert max(rows * length for rows, length in batches) <= 1024
    padded = sum(rows * length for rows, length in batches)
    lengths = [min(LONGEST, len(tokenizer(*pair, verbose=False)["input_ids"])) for pair in pairs]
    assert padded < 1.1 * sum(lengths)  # sorted by length
    batches.clear()
    small = NLI(model, tokenizer, token_budget=200).scores(pairs)
    assert max(rows * length for rows, length in batches) <= 200
    batches.clear()
    single = NLI(model, tokenizer, token_budget=1).scores(pairs)
    assert {rows for rows, _ in batches} == {1}
    np.testing.assert_allclose(by_default, small, atol=1e-5)
    np.testing.assert_allclose(by_default, single, atol=1e-5)


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 200))
def test_batches_of_any_lengths_keep_to_the_budget(lengths: list[int], budget: int) -> None:
    batches = list(_batches(lengths, budget))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) * max(lengths[i] for i in batch) <= budget or len(batch) == 1
    in_order = [lengths[i] for batch in batches for i in batch]
    assert in_order == sorted(lengths, reverse=True)


def test_the_order_of_pairs_does_not_change_scores(nli: Path) -> None:
    pairs = natural_pairs("en", "ar")[:60]
    shuffled = random.Random(1).sample(pairs, len(pairs))
    scores = NLI(nli, cache=False).scores(pairs)
    again = NLI(nli, cache=False, token_budget=500).scores(shuffled)
    np.testing.assert_allclose([scores[pairs.index(pair)] for pair in shuffled], again, atol=1e-5)


def test_scores_of_more_pairs_than_are_sorted_together(
    nli: Path, shapes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirage.neural.pairs._PART", 7)
    model, tokenizer = in_memory(nli)
    batches = shapes(model)
    pairs = natural_pairs("en")[:20]
    scores = NLI(model, tokenizer).scores(pairs)
    assert sum(rows for rows, _ in batches) == len(set(pairs)) == 20
    assert len(batches) == 3
    np.testing.assert_allclose(scores, softmax(one_by_one(nli, pairs)), atol=1e-5)


def in_two_threads(scorer: NLI, forward: Callable[[], None]) -> Any:
    """Score many pairs while torch has two threads, calling ``forward`` in each batch."""
    import torch

    hook = scorer._loaded.model.register_forward_pre_hook(lambda *_: forward())
    torch.set_num_threads(2)
    try:
        return scorer.scores(natural_pairs("en", "ja")[:60])
    finally:
        hook.remove()
        threads_after, _ = torch.get_num_threads(), torch.set_num_threads(1)
        assert threads_after == 2


def test_batches_are_computed_side_by_side(nli: Path) -> None:
    import torch

    both = threading.Barrier(2, timeout=60)
    threads = set()

    def forward() -> None:
        here = (threading.get_ident(), torch.get_num_threads())
        if here not in threads:
            threads.add(here)
            both.wait()  # until the other thread is in its first batch

    scores = in_two_threads(NLI(*in_memory(nli), token_budget=300), forward)
    assert [number for _, number in threads] == [1, 1]
    assert threading.get_ident() not in dict(threads)
    pairs = natural_pairs("en", "ja")[:60]
    np.testing.assert_allclose(scores, softmax(one_by_one(nli, pairs)), rtol=0, atol=1e-5)


def test_one_batch_has_all_threads(nli: Path) -> None:
    import torch

    threads = []
    scorer = NLI(*in_memory(nli), token_budget=10**6)
    in_two_threads(scorer, lambda: threads.append(torch.get_num_threads()))
    assert threads == [2]


def test_a_batch_that_fails_leaves_no_thread_behind(nli: Path) -> None:
    def forward() -> None:
        raise ValueError("no memory")

    before = set(threading.enumerate())
    with pytest.raises(ValueError, match="no memory"):
        in_two_threads(NLI(*in_memory(nli), token_budget=1), forward)
    assert set(threading.enumerate()) <= before


# Length -------------------------------------------------------------------------------------------

LONG = " ".join(f"The river number {i} is long." for i in range(60))
SHORT = "Which river is the longest?"
HALF = " ".join(f"The river number {i} is long." for i in range(6))


def test_only_the_premise_is_cut(nli: Path) -> None:
    scorer = NLI(nli)
    scores = scorer.scores([(LONG, SHORT), (f"{LONG} It ends here.", SHORT), (LONG, f"{SHORT} No")])
    np.testing.assert_allclose(scores[:1], softmax(one_by_one(nli, [(LONG, SHORT)])), atol=1e-5)
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)  # what lies behind the cut is not read
    assert np.abs(scores[0] - scores[2]).max() > 1e-4  # the end of the hypothesis is


def test_only_the_passage_is_cut(reranker: Path) -> None:
    scorer = Reranker(reranker)
    scores = scorer.scores([(SHORT, LONG), (SHORT, f"{LONG} It ends here."), (f"{SHORT} No", LONG)])
    expected = one_by_one(reranker, [(SHORT, LONG)], "only_second")
    np.testing.assert_allclose(scores[:1], expected[:, 0], atol=1e-5)
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert abs(scores[0] - scores[2]) > 1e-4


def test_a_text_that_fits_is_never_cut(nli: Path, reranker: Path) -> None:
    # Each has more than half of the room, so that cutting the longer one would cut both.
    pair = (HALF, f"{HALF} It is.")
    expected = softmax(one_by_one(nli, [pair]))
    np.testing.assert_allclose(NLI(nli).scores([pair]), expected, atol=1e-5)
    assert np.abs(softmax(one_by_one(nli, [pair], "longest_first")) - expected).max() > 1e-4
    logits = one_by_one(reranker, [pair], "only_second")
    np.testing.assert_allclose(Reranker(reranker).scores([pair]), logits[:, 0], atol=1e-5)
    assert abs(one_by_one(reranker, [pair], "longest_first") - logits).max() > 1e-4


def test_a_sentence_may_be_too_long_by_itself(nli: Path, reranker: Path) -> None:
    pairs = [(LONG, LONG), (SHORT, LONG)]
    expected = softmax(one_by_one(nli, pairs, "longest_first"))
    np.testing.assert_allclose(NLI(nli).scores(pairs), expected, atol=1e-5)
    turned = [(second, first) for first, second in pairs]
    logits = one_by_one(reranker, turned, "longest_first")[:, 0]
    np.testing.assert_allclose(Reranker(reranker).scores(turned), logits, atol=1e-5)


def test_the_limit_is_the_smallest_of_three(zoo: Zoo, nli: Path, shapes: Any) -> None:
    def longest(folder: Path, tokens: int, **settings: Any) -> int:
        model, tokenizer = in_memory(folder)
        tokenizer.model_max_length = tokens
        batches = shapes(model)
        NLI(model, tokenizer, **settings).scores([(LONG, SHORT)])
        return max(length for _, length in batches)

    few = zoo.make("bert", ("entailment", "neutral"), max_position_embeddings=48)
    assert longest(nli, 40) == 40  # the tokenizer's
    assert longest(nli, 10**30, max_length=24) == 24  # what is asked for
    assert longest(few, 10**30) == 48  # the model's
    few = zoo.make("xlm-roberta", ("entailment", "neutral"), max_position_embeddings=48)
    assert longest(few, 10**30) == 46  # which has no use for the first two positions


# Features -----------------------------------------------------------------------------------------

NILE = Query(
    id="q",
    language="en",
    text="Which river is the longest in Africa?",
    passages=(
        Passage(id="1#0", title="Nile", text="The Nile is 6,650 km long."),
        Passage(id="2#0", text="The Congo crosses the equator twice."),
        Passage(id="3#0", title="Oslo", text="Oslo lies at a fjord."),
    ),
    relevant=("1#0",),
)
RESPONSE = (
    "##Reason: Passage [1] names the length. The others [2][3] do not. I looked at all.\n"
    "##Answer: It is the Nile [1]. It is long. The Congo is shorter [1, 2]."
)


def value(feature: Feature, text: str = RESPONSE, query: Query = NILE) -> float | NotComputed:
    return feature.compute([answered(query, Response(query_id=query.id, text=text))])[0]


def test_support_is_the_mean_over_sentences_and_their_citations(nli: Path) -> None:
    nile, congo, oslo = "Nile\nThe Nile is 6,650 km long.", NILE.passages[1].text, "Oslo\nOslo lies"
    pairs = [
        (nile, "Passage names the length."),
        (congo, "The others do not."),
        (f"{oslo} at a fjord.", "The others do not."),
        (nile, "It is the Nile."),
        (nile, "The Congo is shorter."),
        (congo, "The Congo is shorter."),
    ]
    entailment, neutral, _ = softmax(one_by_one(nli, pairs)).mean(axis=0)
    scorer = NLI(nli)
    assert value(support_entailment(scorer)) == pytest.approx(entailment, abs=1e-5)
    assert value(support_neutral(scorer)) == pytest.approx(neutral, abs=1e-5)
    assert repr(support_neutral(scorer)) == support_neutral(scorer).name == "support_neutral"
    assert isinstance(support_neutral(scorer), Feature)


def test_words_that_look_like_headings_stay_in_the_reason(nli: Path) -> None:
    text = "##Reason: I was asked. [1]\nAnswer: the Nile is meant. [1]\n##Answer: The Nile."
    pairs = [("Nile\nThe Nile is 6,650 km long.", "I was asked.")]
    pairs += [(pairs[0][0], "Answer: the Nile is meant.")]
    expected = softmax(one_by_one(nli, pairs))[:, 0].mean()
    assert value(support_entailment(NLI(nli)), text) == pytest.approx(expected, abs=1e-5)


def test_the_reranker_score_is_the_mean_over_cited_passages(reranker: Path) -> None:
    passages = ("Nile\nThe Nile is 6,650 km long.", "The Congo crosses the equator twice.")
    pairs = [(NILE.text, passage) for passage in passages]
    expected = one_by_one(reranker, pairs, "only_second")[:, 0].mean()
    text = "##Reason: [2] says little [2].\n##Answer: The Nile [1]."
    assert value(reranker_score(Reranker(reranker)), text) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("code", SCRIPTS)
def test_references_in_many_scripts(nli: Path, reranker: Path, code: str) -> None:
    queries = [query for query in MirageDataset.bundled(code) if query.answerable][:5]
    batch = [
        answered(query, Response(query_id=query.id, text=query.reference)) for query in queries
    ]
    scorer = NLI(nli)
    entailment = support_entailment(scorer).compute(batch)
    neutral = support_neutral(scorer).compute(batch)
    relevance = reranker_score(Reranker(reranker)).compute(batch)
    for i, item in enumerate(batch):
        answer_only = answered(item.query, Response(query_id="q", text=item.parsed.answer))
        reason = parse(item.parsed.reason, code, item.shown)
        pairs = [
            (f"{passage.title}\n{passage.text}", sentence.text)
            for part in (reason, answer_only.parsed)
            for sentence in part.sentences
            for passage in map(item.query.__getitem__, sentence.citations)
        ]
        expected = softmax(one_by_one(nli, pairs)).mean(axis=0)
        assert [entailment[i], neutral[i]] == pytest.approx(expected[:2], abs=1e-5)
        cited = [item.query[passage] for passage in item.parsed.citations]
        logits = one_by_one(
            reranker, [(item.query.text, f"{p.title}\n{p.text}") for p in cited], "only_second"
        )
        assert relevance[i] == pytest.approx(logits.mean(), abs=1e-5)


def features(nli: Path, reranker: Path) -> Iterator[Feature]:
    scorer = NLI(nli)
    yield support_entailment(scorer)
    yield support_neutral(scorer)
    yield reranker_score(Reranker(reranker))


def test_a_response_without_a_citation_gets_0(nli: Path, reranker: Path) -> None:
    for feature in features(nli, reranker):
        assert value(feature, "The Nile.") == 0
        assert value(feature, "") == 0
        assert value(feature, "The Nile [9].") == 0


def test_missing_values_have_a_reason(nli: Path, reranker: Path) -> None:
    unanswerable = NILE.model_copy(update={"answerable": False})
    bare = Query(id="q", language="en", text="Which?")
    elsewhere = answered(NILE, Response(query_id="q", text="It is [1].", shown=("9#9",)))
    for feature in features(nli, reranker):
        for query, reason in (
            (unanswerable, "no passage answers"),
            (bare, "passages that were shown"),
        ):
            result = value(feature, query=query)
            assert isinstance(result, NotComputed)
            assert reason in result.reason
        missing, there = feature.compute([elsewhere, answered(NILE, elsewhere.response)])
        assert isinstance(missing, NotComputed)
        assert "'9#9'" in missing.reason
        assert missing == there
        # A gap leaves its neighbours as they are.
        good = answered(NILE, Response(query_id="q", text=RESPONSE))
        values = feature.compute([elsewhere, good, elsewhere, good])
        assert values[1] == values[3] == value(feature)


def test_texts_that_are_not_unicode(nli: Path, reranker: Path) -> None:
    for feature in features(nli, reranker):
        odd = Passage.model_construct(id="1#0", title="", text="The Nile \ud800 is long.")
        query = Query.model_construct(**dict(NILE) | {"passages": (odd,)})
        replaced = NILE.model_copy(
            update={"passages": (Passage(id="1#0", text="The Nile ? is long."),)}
        )
        text = "It is the Nile [1]."
        assert value(feature, text, query) == value(feature, text, replaced) != 0


# Labels -------------------------------------------------------------------------------------------


def test_models_without_the_label_are_refused(zoo: Zoo, reranker: Path) -> None:
    two = NLI(zoo.make("bert", ("not_entailment", "entailment")))
    assert support_entailment(two).name == "support_entailment"
    with pytest.raises(NeuralError, match=r"'neutral'.* labels are not_entailment, entailment"):
        support_neutral(two)
    for labels in (("LABEL_0", "LABEL_1"), ("entailment", "entails", "neutral")):
        with pytest.raises(NeuralError, match=f"'entailment'.* {', '.join(labels)}; use a model"):
            NLI(zoo.make("bert", labels))
    with pytest.raises(NeuralError, match="labels are score"):
        NLI(reranker)


def test_a_reranker_gives_one_score(nli: Path) -> None:
    with pytest.raises(
        NeuralError, match="is not a reranker: it returns 3 scores per pair instead of 1"
    ):
        Reranker(nli)


def test_scores_have_to_be_finite(zoo: Zoo) -> None:
    model, tokenizer = in_memory(zoo.make("bert", ("score",)))
    model.classifier.weight.data.fill_(float("inf"))
    scorer = Reranker(model, tokenizer)
    with pytest.raises(NeuralError, match="not finite"):
        scorer.scores([("a", "b")])
    model.classifier.weight.data.fill_(1.0)
    assert np.isfinite(scorer.scores([("a", "b")])).all()  # and nothing was kept


# Loading ------------------------------------------------------------------------------------------


def test_models_that_cannot_be_loaded(
    zoo: Zoo, nli: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    assert zoo
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for name in (tmp_path, "no/such-model", "./no/such/folder"):
        with pytest.raises(NeuralError, match="cannot be loaded") as caught:
            NLI(name)
        assert repr(str(name)) in str(caught.value)
        assert "hf download" in str(caught.value)
    # The configuration is there, the weights are not: known when they are needed.
    half = tmp_path / "half"
    half.mkdir()
    (half / "config.json").write_bytes((nli / "config.json").read_bytes())
    scorer = NLI(half)
    with pytest.raises(NeuralError, match=r"half.* cannot be loaded"):
        scorer.scores([("a", "b")])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingPackageError, match=r"package transformers; .*mirage-rag\[neural\]"):
        NLI("any/model")


def test_a_missing_package_is_named_when_it_is_needed(
    nli: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = NLI(nli)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingPackageError, match="package torch;"):
        scorer.scores([("a", "b")])


# The cache ----------------------------------------------------------------------------------------

IN_ANOTHER_PROCESS = """
import json, sys
from mirage.neural import NLI

folder, cache, *texts = sys.argv[1:]
pairs = list(zip(texts[::2], texts[1::2]))
print(json.dumps(NLI(folder, cache=cache).scores(pairs).tolist()))
"""


def replace_weights(folder: Path, content: bytes) -> None:
    """Replace the weights of a model without changing the file's size and time."""
    weights = folder / "model.safetensors"
    stat = weights.stat()
    weights.write_bytes(content[: stat.st_size])
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_stored_scores_are_used_by_other_processes(zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.make("bert", ("entailment", "neutral"), seed=1)
    cache = tmp_path / "scores.sqlite"
    pairs = [("Nairobi is a city.", "It is in Kenya."), ("ไนโรบี", "เมือง")]
    texts = [text for pair in pairs for text in pair]
    ran = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS, str(folder), str(cache), *texts],
        capture_output=True,
        text=True,
        check=True,
    )
    there = json.loads(ran.stdout)
    np.testing.assert_allclose(there, softmax(one_by_one(folder, pairs)), atol=1e-5)
    replace_weights(folder, bytes(10**7))
    here = NLI(folder, cache=cache)
    assert here.scores(pairs[::-1]).tolist() == there[::-1]  # without the weights
    # What the scores depend on is part of the key.
    for other in (
        lambda: here.scores([pairs[0][::-1]]),
        lambda: NLI(folder, cache=cache, max_length=40).scores(pairs),
        lambda: NLI(folder, cache=False).scores(pairs),
    ):
        with pytest.raises(NeuralError, match="cannot be loaded"):
            other()
    os.utime(folder / "model.safetensors")
    with pytest.raises(NeuralError, match="cannot be loaded"):
        NLI(folder, cache=cache).scores(pairs)


def test_scores_are_stored_in_the_given_cache(
    nli: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRAGE_CACHE", str(tmp_path / "mine"))
    cache = Cache(tmp_path / "given.sqlite")
    for cache_setting in (True, cache, tmp_path / "named.sqlite", False):
        NLI(nli, cache=cache_setting).scores([("a", "b"), ("a", "c"), ("a", "b")])
    assert [path.name for path in sorted((tmp_path / "mine").glob("*.sqlite"))] == ["neural.sqlite"]
    for path in (tmp_path / "mine" / "neural.sqlite", cache.path, tmp_path / "named.sqlite"):
        assert len(Cache(path)) == 2


# Suites -------------------------------------------------------------------------------------------


def grades(request: Any) -> str:
    """Return the output of a rater for either of the LLM's features."""
    content = request["messages"][-1]["content"]
    return "##Rating: 4\n##Explanation: fine" if "##Rating" in content else "Right. [[5]]"


def repeating(responses: int) -> tuple[MirageDataset, list[Run]]:
    """Return two runs with ``responses`` responses together, to twelve questions repeatedly."""
    queries = [query for query in MirageDataset.bundled("en")[:QUERIES] if query.answerable]
    assert len(queries) == 12
    repeated_queries = (
        query.model_copy(update={"id": str(i)})
        for i, query in enumerate(islice(cycle(queries), responses // 2))
    )
    dataset = MirageDataset(repeated_queries, name="repeating")
    runs = []
    for model, cited in (("both", "[1][2]"), ("one", "[2]")):
        texts = {q.id: f"##Reason: So it is {cited}.\n##Answer: {q.text} {cited}" for q in dataset}
        answers = tuple(Response(query_id=id_, text=text) for id_, text in texts.items())
        runs.append(Run(model=model, language="en", responses=answers))
    return dataset, runs


@pytest.mark.parametrize("responses", [48, pytest.param(1000, marks=pytest.mark.slow)])
def test_eleven_features_compute_each_distinct_pair_once(
    nli: Path, reranker: Path, shapes: Any, server: ChatServer, responses: int
) -> None:
    server.answer = grades
    dataset, runs = repeating(responses)
    (nli_model, nli_tokenizer), (ranker, ranker_tokenizer) = in_memory(nli), in_memory(reranker)
    read_by_nli, read_by_reranker = shapes(nli_model), shapes(ranker)
    suite = FeatureSuite.full(
        LLM("rater", base_url=server.url, cache=False),
        nli=NLI(nli_model, nli_tokenizer),
        reranker=Reranker(ranker, ranker_tokenizer),
        language="en",
    )
    tables = [suite.score(dataset, run) for run in runs]
    assert all(table.features == PAPER for table in tables)
    assert all(np.isfinite(table.values).all() for table in tables)
    # Of each question: two passages, each with two sentences, and with the question.
    assert sum(rows for rows, _ in read_by_nli) == 12 * 4
    assert sum(rows for rows, _ in read_by_reranker) == 12 * 2

    query = dataset[3:4].query_ids[0]
    first, second = (f"{p.title}\n{p.text}" for p in dataset[query].passages[:2])
    sentences = ("So it is.", dataset[query].text)
    for table, passages in zip(tables, ((first, second), (second,)), strict=True):
        pairs = [(passage, sentence) for passage in passages for sentence in sentences]
        supports = softmax(one_by_one(nli, pairs)).mean(axis=0)
        pairs = [(sentences[1], passage) for passage in passages]
        relevance = one_by_one(reranker, pairs, "only_second").mean()
        expected = [*supports[:2], relevance]
        names = ["support_entailment", "support_neutral", "reranker_score"]
        row = table.select([query]).columns(names).values[0]
        np.testing.assert_allclose(row, expected, atol=1e-5)


def test_the_full_suite_takes_names_of_models(nli: Path, reranker: Path) -> None:
    llm = LLM("rater", base_url="http://localhost:1/v1", cache=False)
    suite = FeatureSuite.full(llm, nli=str(nli), reranker=str(reranker), language="sw")
    assert suite.names == PAPER
    assert suite.language == "sw"
    with pytest.raises(NeuralError, match="is not a reranker"):
        FeatureSuite.full(llm, nli=str(nli), reranker=str(nli))
    with pytest.raises(NeuralError, match="does not have exactly one label 'entailment'"):
        FeatureSuite.full(llm, nli=str(reranker), reranker=str(reranker))


def test_the_models_of_the_paper_are_the_default(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    assert zoo
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    llm = LLM("rater", base_url="http://localhost:1/v1", cache=False)
    with pytest.raises(NeuralError, match="MoritzLaurer/mDeBERTa-v3-base-xnli-multilingual-nli"):
        FeatureSuite.full(llm)
    with pytest.raises(NeuralError, match="BAAI/bge-reranker-v2-m3"):
        Reranker()


def test_neural_features_stay_in_one_process(nli: Path) -> None:
    dataset, (run, _) = repeating(24)
    suite = FeatureSuite([support_entailment(NLI(nli))])
    with pytest.raises(FeatureError, match=r"support_entailment.*other process.*n_jobs=1"):
        suite.score(dataset, run, n_jobs=2)


def test_a_failure_names_feature_query_and_model(nli: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    half.mkdir()
    (half / "config.json").write_bytes((nli / "config.json").read_bytes())
    dataset, (run, _) = repeating(24)
    suite = FeatureSuite([support_entailment(NLI(half))])
    with pytest.raises(FeatureError, match=r"'support_entailment'.*'0'.*'both'.* cannot be loaded"):
        suite.score(dataset, run)

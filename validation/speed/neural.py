"""How fast pairs of texts are scored, against a loop that takes one pair at a time.

    python validation/speed/neural.py [pairs] [threads]

Needs the extra ``neural``. A pair is a passage and a text about it, in their natural length. Short
pairs come from the bundled corpora (18 languages; with the question, and with each sentence of the
reference). Long pairs come from MEMERAG (in the folder that MIRAGE_DATA names; with each sentence
of an answer). Every fifth pair is a repetition; in a real arena, whose models cite the same
passages, there are more. The models have random weights and the architectures of MIRAGE-Bench's NLI
model (DeBERTa-v2) and reranker (XLM-RoBERTa). They are small, so that the work around them counts.
Both sides load the model beforehand, use the same number of threads, and store nothing on disk.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModelForSequenceClassification, TokenizersBackend

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import DATA, require_data

from mirage.dataset import MirageDataset
from mirage.features import answered
from mirage.languages import LANGUAGES
from mirage.models import Passage, Response
from mirage.neural import NLI
from mirage.neural.pairs import Pair
from mirage.sources import memerag

LONGEST = 512


def main(number: int, threads: int, quick: bool) -> None:
    """Print the rates of both, their ratio, and the largest difference of a score."""
    torch.set_num_threads(threads)
    print(f"{number} pairs, {threads} threads")
    kinds = {"bundled corpora": bundled_pairs, "MEMERAG": memerag_pairs}
    for name in ["MEMERAG"] if quick else kinds:
        pairs_of_kind = kinds[name]()
        distinct = random.Random(0).sample(list(pairs_of_kind), number - number // 5)
        pairs = random.Random(0).sample([*distinct, *distinct[: number // 5]], number)
        tokenizer = trained_tokenizer({text for pair in distinct for text in pair})
        lengths = [len(tokenizer(*pair)["input_ids"]) for pair in distinct]
        low, middle, high = np.quantile(lengths, (0.05, 0.5, 0.95))
        print(f"{name}: {middle:.0f} tokens a pair, 5 % below {low:.0f}, 5 % above {high:.0f}")
        for layers, width in ((2, 32),) if quick else ((2, 32), (4, 256)):
            for kind in ("deberta-v2", "xlm-roberta"):
                model = small_model(kind, layers, width, len(tokenizer))
                compare(f"{name}, {layers} layers of {width}", model, tokenizer, pairs)


def compare(title: str, model: Any, tokenizer: Any, pairs: Sequence[Pair]) -> None:
    """Time one model on these pairs, all of them and the distinct ones."""
    one_by_one(model, tokenizer, pairs[:20])  # what is compiled or allocated once
    scorer, again = (NLI(model, tokenizer, max_length=LONGEST) for _ in range(2))
    start = time.perf_counter()
    ours = scorer.scores(pairs)
    scored = time.perf_counter()
    plain = one_by_one(model, tokenizer, pairs)
    looped = time.perf_counter()
    again.scores(distinct := list(set(pairs)))
    end = time.perf_counter()

    number, seconds, loop = len(pairs), scored - start, looped - scored
    config = model.config
    without_repeats = (loop / number) / ((end - looped) / len(distinct))
    print(f"  {config.model_type}, {config.num_hidden_layers} layers of {config.hidden_size}")
    print(f"    NLI.scores          {seconds:6.1f} s, {number / seconds:6.1f} pairs/s")
    print(f"    one pair at a time  {loop:6.1f} s, {number / loop:6.1f} pairs/s")
    print(f"    ratio               {loop / seconds:6.2f}, without repeats {without_repeats:.2f}")
    add_figure(number / seconds, title, config.model_type, "pairs per second")
    add_figure(loop / seconds, title, config.model_type, "times one pair at a time")
    add_figure(without_repeats, title, config.model_type, "times, without repeats")
    add_figure(np.abs(ours - plain).max(), title, config.model_type, "largest difference")
    print(f"    largest difference  {np.abs(ours - plain).max():.1e}", flush=True)


def one_by_one(model: Any, tokenizer: Any, pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Return the probabilities of the labels, as a script without this library computes them."""
    rows = []
    for premise, hypothesis in pairs:
        inputs = tokenizer(
            premise, hypothesis, truncation="only_first", max_length=LONGEST, return_tensors="pt"
        )
        with torch.inference_mode():
            rows.append(model(**inputs).logits.softmax(-1)[0].tolist())
    return np.array(rows)


def bundled_pairs() -> dict[Pair, None]:
    """Return distinct pairs of the bundled corpora."""
    pairs: dict[Pair, None] = {}
    for code in LANGUAGES:
        for query in MirageDataset.bundled(code):
            reference = Response(query_id=query.id, text=query.reference)
            sentences = [sentence.text for sentence in answered(query, reference).parsed.sentences]
            for passage in query.passages:
                for text in (query.text, *sentences):
                    pairs[with_title(passage), text] = None
    return pairs


def memerag_pairs() -> dict[Pair, None]:
    """Return distinct pairs of MEMERAG, in English, German and Spanish."""
    pairs: dict[Pair, None] = {}
    for code in ("en", "de", "es"):
        source = memerag.load(DATA / "memerag" / "memerag" / f"{code}.jsonl", code)
        for sentence in source.sentences:
            for passage in source.dataset[sentence.query_id].passages:
                pairs[with_title(passage), sentence.text] = None
    return pairs


def with_title(passage: Passage) -> str:
    """Return the passage as the features read it."""
    return f"{passage.title}\n{passage.text}".strip()


def trained_tokenizer(texts: Collection[str]) -> Any:
    """Return a tokenizer of 8,000 pieces that are frequent in these texts."""
    core = Tokenizer(models.BPE(unk_token="[UNK]"))
    core.normalizer = normalizers.NFKC()
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    trainer = trainers.BpeTrainer(vocab_size=8000, special_tokens=special, show_progress=False)
    core.train_from_iterator(sorted(texts), trainer)
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return TokenizersBackend(
        tokenizer_object=core, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )


def small_model(kind: str, layers: int, width: int, pieces: int) -> Any:
    """Return a classifier with three labels and random weights."""
    disentangled = {
        "relative_attention": True,
        "position_buckets": 256,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "type_vocab_size": 0,
    }
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        kind,
        vocab_size=pieces,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * width,
        max_position_embeddings=LONGEST + 2,
        initializer_range=0.1,
        pad_token_id=0,
        id2label={0: "entailment", 1: "neutral", 2: "contradiction"},
        label2id={"entailment": 0, "neutral": 1, "contradiction": 2},
        **(disentangled if kind == "deberta-v2" else {}),
    )
    return AutoModelForSequenceClassification.from_config(config).eval()


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("pairs", default=2000, nargs="?", type=int)
    parser.add_argument("threads", default=2, nargs="?", type=int)
    options = parser.parse_args()
    require_data("memerag")
    if options.quick:
        options.pairs, options.threads = 10, 1
    main(options.pairs, options.threads, options.quick)
    save(parser, options)

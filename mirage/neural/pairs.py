"""Models that score pairs of texts: natural language inference (NLI) models and rerankers.

Each distinct pair is scored once. A batch contains pairs of similar length, up to a maximum number
of tokens.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mirage._base.packages import package
from mirage.errors import NeuralError, SettingError
from mirage.executors import Executor
from mirage.executors.base import Once
from mirage.llm.cache import Cache, default_cache_path
from mirage.neural._models import (
    attempt,
    compute_in_halves,
    encodable,
    model_location,
    reduce_model,
    weights_digest,
)

NLI_MODEL = "MoritzLaurer/mDeBERTa-v3-base-xnli-multilingual-nli-2mil7"
"""The name on the hub of the NLI model that MIRAGE-Bench uses."""

RERANKER_MODEL = "BAAI/bge-reranker-v2-m3"
"""The name on the hub of the reranker that MIRAGE-Bench uses."""

Pair = tuple[str, str]
"""Two texts that a model reads together, such as (premise, hypothesis) or (query, passage)."""

_CPU_BUDGET = 1024  # tokens; larger batches do not fit into a core's cache and are slower
_GPU_BUDGET = 8192
_PART = 512  # number of pairs that are sorted by length together and sent to a worker together


class _PairScorer(ABC):
    """The base class of models that score pairs of texts.

    Each distinct pair is scored only once.
    """

    _DEFAULT: ClassVar[str]
    _CUT: ClassVar[str]  # the text to truncate if a pair is too long
    _PRECISION: ClassVar[str]  # the data type on CUDA

    def __init__(
        self,
        model: Any = None,
        tokenizer: Any = None,
        *,
        max_length: int = 512,
        token_budget: int | None = None,
        cache: bool | str | Path | Cache = True,
    ) -> None:
        model = self._DEFAULT if model is None else model
        by_name = isinstance(model, str | Path)
        if by_name != (tokenizer is None):
            raise SettingError(
                "a tokenizer is needed if, and only if, model is an object; pass tokenizer=, or "
                "leave it out if you give the model by name or folder"
            )
        if max_length < 16 or (token_budget is not None and token_budget < 1):
            raise SettingError(
                "max_length must be at least 16 tokens and token_budget at least 1, got "
                f"max_length={max_length} and token_budget={token_budget}"
            )
        self.max_length: int = max_length
        self.token_budget: int | None = token_budget
        self._by_name = by_name
        if by_name:
            self.name: str = model_location(model)
            auto = package("transformers").AutoConfig
            self.config: Any = attempt(
                self.name, lambda: auto.from_pretrained(self.name, trust_remote_code=False)
            )
            self.cache = _open_cache(cache)
        else:
            self.name = type(model).__name__
            self.config = model.config
            self.cache = None  # another model can have the same class name
            self._loaded = _Loaded(model.eval(), tokenizer)
        self._scores_by_key: dict[bytes, Sequence[float]] = {}
        self._check()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __reduce__(self) -> Any:
        # Scores from workers are cached by the process that requests them.
        make = partial(
            type(self), max_length=self.max_length, token_budget=self.token_budget, cache=False
        )
        model = [self.name] if self._by_name else [self._loaded.model, self._loaded.tokenizer]
        return reduce_model(make, *model)

    def compute_ahead(self, groups: Iterable[Sequence[Pair]], executor: Executor) -> None:
        """Compute the scores of pairs on workers, so that later calls of :meth:`scores` are fast.

        The scores equal those that :meth:`scores` would compute for each group by itself, because
        the batches contain the same pairs. The scores are kept in memory. They are also cached on
        disk if this object has a cache and the workers use the same device and precision as this
        process.

        Args:
            groups: Groups of pairs. The pairs of a group are split into batches together.
            executor: The executor whose workers load the model and compute the scores.
        """
        planned: set[bytes] = set()
        keys_by_part: dict[int, list[bytes]] = {}

        def parts() -> Iterator[list[Pair]]:
            for pairs in groups:
                new = [(k, p) for k, p in self._new(pairs).items() if k not in planned]
                planned.update(key for key, _ in new)
                for start in range(0, len(new), _PART):
                    part = new[start : start + _PART]
                    keys_by_part[len(keys_by_part)] = [key for key, _ in part]
                    yield [pair for _, pair in part]

        for number, (placement, rows) in executor.map(self._worker_task, parts()):
            self._store(
                keys_by_part[number], rows, on_disk=placement == _placement(self._PRECISION)
            )

    @cached_property
    def _worker_task(self) -> Once[Sequence[Pair], tuple[tuple[str, str], list[list[float]]]]:
        """The function that workers call to score pairs.

        The function is cached in this object, so the model is sent to the workers only once.
        """
        return Once(partial(_worker_scorer, self))

    @abstractmethod
    def _check(self) -> None:
        """Raise a NeuralError if the model does not have the outputs that this class needs."""

    @abstractmethod
    def _scores_of(self, logits: Any) -> Any:
        """Convert a tensor of logits to a tensor of scores; both have one row per pair."""

    def _rows(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return the scores of all pairs, of shape ``(pairs, outputs of the model)``.

        Pairs without stored scores are computed first.
        """
        new = list(self._new(pairs).items())
        for start in range(0, len(new), _PART):
            part = new[start : start + _PART]
            for positions, rows in self._score_batches([pair for _, pair in part]):
                self._store([part[i][0] for i in positions], rows)
        scores = [self._scores_by_key[self._key(_clean(pair))] for pair in pairs]
        return np.array(scores, dtype=np.float64).reshape(len(scores), self.config.num_labels)

    def _new(self, pairs: Iterable[Pair]) -> dict[bytes, Pair]:
        """Return the distinct pairs whose scores are neither in memory nor on disk.

        The keys of the mapping are the cache keys of the pairs.
        """
        distinct = {self._key(pair): pair for pair in map(_clean, pairs)}
        return {key: pair for key, pair in distinct.items() if not self._has_scores(key)}

    def _has_scores(self, key: bytes) -> bool:
        """Return whether the pair with this cache key has scores in memory or on disk.

        Scores that are only on disk are read into memory.
        """
        if key not in self._scores_by_key and self.cache is not None:
            entry = self.cache.get(key)
            if entry is not None:
                self._scores_by_key[key] = entry["scores"]
        return key in self._scores_by_key

    def _score_batches(
        self, pairs: Sequence[Pair]
    ) -> Iterator[tuple[list[int], list[list[float]]]]:
        """Compute the scores of pairs in batches.

        Yields:
            For each batch, the positions of its pairs in ``pairs``, and their scores.
        """
        limit = min(self.max_length, self._loaded.longest)
        tokens = self._loaded.encode(pairs, limit, self._CUT)
        lengths = [len(ids["input_ids"]) for ids in tokens]
        on_cpu = self._loaded.model.device.type == "cpu"
        budget = self.token_budget or (_CPU_BUDGET if on_cpu else _GPU_BUDGET)
        batches = list(_batches(lengths, budget))

        def score(batch: Sequence[int]) -> list[list[float]]:
            return compute_in_halves(batch, lambda part: self._score([tokens[i] for i in part]))

        with _parallel_map(len(batches) if on_cpu else 1) as parallel_map:
            yield from zip(batches, parallel_map(score, batches), strict=True)

    def _score(self, batch: Sequence[Mapping[str, list[int]]]) -> list[list[float]]:
        scores: list[list[float]] = self._scores_of(self._loaded.logits(batch)).tolist()
        return scores

    def _store(
        self, keys: Sequence[bytes], rows: Sequence[list[float]], on_disk: bool = True
    ) -> None:
        """Store scores in memory, and on disk if this object has a cache and ``on_disk`` is true.

        Raises:
            NeuralError: A score is not finite.
        """
        if not np.isfinite(rows).all():
            raise NeuralError(f"{self!r} returned scores that are not finite: {rows}")
        for key, row in zip(keys, rows, strict=True):
            self._scores_by_key[key] = row
            if self.cache is not None and on_disk:
                self.cache.put(key, self.name, {"scores": row})

    def _key(self, pair: Pair) -> bytes:
        return hashlib.sha256(json.dumps([self._identity, *pair]).encode()).digest()

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all that affects the scores.

        This includes the model, its version, the maximum length, the device and the precision.
        """
        parts = [self._identity, None if self._by_name else weights_digest(self._loaded.model)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @cached_property
    def _identity(self) -> list[Any]:
        """The settings that affect the scores and are therefore part of the cache key of a pair."""
        version, placement = _version(self.name, self.config), _placement(self._PRECISION)
        return [type(self).__name__, self.name, version, self.max_length, *placement]

    @cached_property
    def _loaded(self) -> _Loaded:
        return _load(self.name, *_placement(self._PRECISION))


class NLI(_PairScorer):
    """A model of natural language inference (NLI) that scores pairs (premise, hypothesis).

    Each pair is scored only once, even if several features or responses need it. If the model is
    given by name or folder, this also holds across processes: scores are cached on disk by model,
    version and pair. The constructor reads only the configuration of the model; its weights are
    loaded when the first pair is scored. The model runs on a GPU if there is one: in bfloat16 on
    CUDA if the GPU supports it, otherwise in float32. On a CPU, batches run in parallel, one per
    torch thread (``torch.set_num_threads``). The scores of a pair may change by about 1e-6 if other
    pairs are in the same batch, because padding changes the order in which numbers are added.

    Args:
        model: The name of a model on the hub, by default :data:`NLI_MODEL`; the folder of a model;
            or a transformers model for sequence classification. Such an object keeps its device
            and precision, and is put into evaluation mode. Its scores are not cached on disk.
        tokenizer: The tokenizer, if ``model`` is an object.
        max_length: The maximum number of tokens of a pair. In a longer pair, the premise is
            truncated. If the hypothesis alone is too long, both texts are truncated.
        token_budget: The maximum number of tokens of a batch, including padding; by default 1,024
            on a CPU and 8,192 on a GPU. A longer pair is a batch by itself. A batch that does not
            fit in memory is split in two.
        cache: The cache of scores: a path or a :class:`~mirage.llm.cache.Cache`. ``True`` means
            ``neural.sqlite`` in the folder of the environment variable ``MIRAGE_CACHE``, or else in
            the user's cache folder. ``False`` means no cache on disk.

    Raises:
        NeuralError: The model does not exist, cannot be downloaded, or does not have exactly one
            label for entailment.
        SettingError: A model object is given without its tokenizer, a tokenizer is given without a
            model object, or ``max_length`` or ``token_budget`` is too small.
        MissingPackageError: The extra ``neural`` is not installed.
    """

    _DEFAULT = NLI_MODEL
    _CUT = "only_first"
    _PRECISION = "bfloat16"  # DeBERTa overflows in float16

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the model's labels, in the order of the columns of :meth:`scores`."""
        return tuple(name for _, name in sorted(self.config.id2label.items()))

    def column(self, label: str) -> int:
        """Return the position of the column of :meth:`scores` with the probability of a label.

        Args:
            label: The label, such as ``"entailment"`` or ``"neutral"``. Only its first six letters
                are compared, because some models use names such as ``"entail"``.

        Raises:
            NeuralError: The model has no such label, or several; the message lists its labels.
        """
        stem = label[:6]  # some models name the label "entail"
        columns = [i for i, name in enumerate(self.labels) if name.casefold().startswith(stem)]
        if len(columns) != 1:
            raise NeuralError(
                f"{self!r} does not have exactly one label {label!r}: its labels are "
                f"{', '.join(self.labels)}; use a model whose id2label contains this label once"
            )
        return columns[0]

    def scores(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return the probability (softmax) of each label for each pair.

        The result has the shape ``(pairs, labels)``.
        """
        return self._rows(pairs)

    def _check(self) -> None:
        self.column("entailment")

    def _scores_of(self, logits: Any) -> Any:
        return logits.softmax(-1)


class Reranker(_PairScorer):
    """A reranker (cross-encoder) that scores pairs (query, passage).

    Each pair is scored only once. If the model is given by name or folder, scores are also cached
    on disk. The weights are loaded when the first pair is scored. The model runs on a GPU if there
    is one: in float16 on CUDA, otherwise in float32. On a CPU, batches run in parallel, one per
    torch thread.

    Args:
        model: The name of a model on the hub, by default :data:`RERANKER_MODEL`; the folder of a
            model; or a transformers model for sequence classification. The scores of such an object
            are not cached on disk.
        tokenizer: The tokenizer, if ``model`` is an object.
        max_length: The maximum number of tokens of a pair. In a longer pair, the passage is
            truncated. If the query alone is too long, both texts are truncated.
        token_budget: The maximum number of tokens of a batch, including padding; by default 1,024
            on a CPU and 8,192 on a GPU.
        cache: The cache of scores: a path or a :class:`~mirage.llm.cache.Cache`. ``True`` means
            ``neural.sqlite`` in the folder of the environment variable ``MIRAGE_CACHE``, or else in
            the user's cache folder. ``False`` means no cache on disk.

    Raises:
        NeuralError: The model does not exist, cannot be downloaded, or returns more than one score
            per pair.
        SettingError: A model object is given without its tokenizer, a tokenizer is given without a
            model object, or ``max_length`` or ``token_budget`` is too small.
        MissingPackageError: The extra ``neural`` is not installed.
    """

    _DEFAULT = RERANKER_MODEL
    _CUT = "only_second"
    _PRECISION = "float16"

    def scores(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return the score of each pair: the model's logit, without a sigmoid.

        The result has the shape ``(pairs,)``.
        """
        return self._rows(pairs)[:, 0]

    def _check(self) -> None:
        if self.config.num_labels != 1:
            raise NeuralError(
                f"{self!r} is not a reranker: it returns {self.config.num_labels} scores per pair "
                "instead of 1; use a cross-encoder with one score"
            )

    def _scores_of(self, logits: Any) -> Any:
        return logits


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A loaded model that scores pairs of texts, and its tokenizer."""

    model: Any
    tokenizer: Any

    @property
    def longest(self) -> int:
        """The maximum number of tokens that the model can read at a time."""
        # A tokenizer without a limit has model_max_length 10^30. Models like RoBERTa start to
        # number positions after the padding id, so fewer positions are left for tokens.
        most, part = self.tokenizer.model_max_length, self.model.base_model
        positions = getattr(self.model.config, "max_position_embeddings", None)
        for name in ("embeddings", "position_embeddings", "padding_idx"):
            part = getattr(part, name, None)
        return int(min(most, positions - (0 if part is None else part + 1)) if positions else most)

    def encode(self, pairs: Sequence[Pair], limit: int, cut: str) -> list[Mapping[str, list[int]]]:
        """Return the token ids of each pair, truncated to ``limit`` tokens.

        Args:
            pairs: The pairs.
            limit: The maximum number of tokens of a pair.
            cut: The text to truncate: ``"only_first"`` or ``"only_second"``. If the other text
                alone is too long, both are truncated.
        """
        return [
            self._cut(pair, limit, cut) if len(ids["input_ids"]) > limit else ids
            for pair, ids in zip(pairs, self._tokenize(pairs), strict=True)
        ]

    def _cut(self, pair: Pair, limit: int, cut: str) -> Mapping[str, list[int]]:
        whole = ("", pair[1]) if cut == "only_first" else (pair[0], "")
        room = limit - len(self._tokenize([whole])[0]["input_ids"])
        strategy = cut if room > 0 else "longest_first"
        return self._tokenize([pair], truncation=strategy, max_length=limit)[0]

    def _tokenize(self, pairs: Sequence[Pair], **truncation: Any) -> list[Mapping[str, list[int]]]:
        # Pass lists: a tokenizer treats a single pair with an empty second text as one text.
        firsts, seconds = map(list, zip(*pairs, strict=True))
        columns = self.tokenizer(firsts, seconds, verbose=False, **truncation)
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns.keys(), row, strict=True)) for row in rows]

    def logits(self, batch: Sequence[Mapping[str, list[int]]]) -> Any:
        """Return the logits of the model for one batch, in float32, with one row per pair."""
        torch, device = package("torch"), self.model.device
        # Converting lists to tensors in the tokenizer would be slow.
        columns = self.tokenizer.pad(list(batch))
        inputs = {name: torch.tensor(rows, device=device) for name, rows in columns.items()}
        with torch.inference_mode():
            return self.model(**inputs).logits.float()


def _batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Group pairs of similar length into batches, and yield the positions of each batch's pairs.

    Args:
        lengths: The number of tokens of each pair.
        budget: The maximum number of tokens of a batch, including padding. A longer pair is a batch
            by itself.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    while order:
        size = max(1, budget // lengths[order[0]])
        yield order[:size]
        order = order[size:]


@contextmanager
def _parallel_map(tasks: int) -> Iterator[Any]:
    """Yield a function that works like ``map`` but runs several calls in parallel.

    Torch's threads are divided among the calls. If all threads computed one small batch together,
    they would mostly wait for each other, especially on a busy machine.

    Args:
        tasks: The number of calls.
    """
    torch = package("torch")
    threads = torch.get_num_threads()
    workers = min(threads, tasks)
    if workers < 2:
        yield map
        return
    share = (threads // workers,)
    pool = ThreadPoolExecutor(workers, "mirage-batch", torch.set_num_threads, share)
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # new threads start with the number that was set last


def _worker_scorer(
    scorer: _PairScorer,
) -> Callable[[Sequence[Pair]], tuple[tuple[str, str], list[list[float]]]]:
    """Return a function that scores pairs on a worker.

    The function returns the device and the precision that the worker uses, and the scores of each
    pair.
    """

    def score(pairs: Sequence[Pair]) -> tuple[tuple[str, str], list[list[float]]]:
        batches = [
            (position, row)
            for positions, rows in scorer._score_batches(pairs)
            for position, row in zip(positions, rows, strict=True)
        ]
        return _placement(scorer._PRECISION), [row for _, row in sorted(batches)]

    return score


def _clean(pair: Pair) -> Pair:
    return encodable(pair[0]), encodable(pair[1])


# Loading ------------------------------------------------------------------------------------------


def _load(name: str, device: str, precision: str) -> _Loaded:
    torch, cross_encoder = package("torch"), package("sentence_transformers").CrossEncoder
    weights = {"dtype": getattr(torch, precision)}
    encoder = attempt(name, lambda: cross_encoder(name, device=device, model_kwargs=weights))
    return _Loaded(encoder.model.eval(), encoder.tokenizer)


def _placement(on_cuda: str) -> tuple[str, str]:
    """Return the names of the device and the precision that models use on this machine.

    Args:
        on_cuda: The precision to use on CUDA if the GPU supports it. In all other cases, the
            precision is float32.
    """
    torch = package("torch")
    if torch.cuda.is_available():
        supported = on_cuda == "float16" or torch.cuda.is_bf16_supported(including_emulation=False)
        return "cuda", on_cuda if supported else "float32"
    return "mps" if torch.backends.mps.is_available() else "cpu", "float32"


def _version(name: str, config: Any) -> Any:
    """Return a value that changes if the weights of a model change.

    For a model on the hub, it is the commit. For a model folder, it is the name, size and
    modification time of each file.
    """
    if not Path(name).is_dir():
        return getattr(config, "_commit_hash", None)
    stats = [(path.name, path.stat()) for path in sorted(Path(name).iterdir()) if path.is_file()]
    return [(file, stat.st_size, stat.st_mtime_ns) for file, stat in stats]


def _open_cache(cache: bool | str | Path | Cache) -> Cache | None:
    if isinstance(cache, Cache):
        return cache
    if cache is False:
        return None
    return Cache(default_cache_path().with_name("neural.sqlite") if cache is True else cache)

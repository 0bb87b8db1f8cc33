"""Models that score pairs of texts: natural-language inference, and rerankers.

Each distinct pair is scored once, sorted by length, in batches of a number of tokens.
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
from mirage.executors import Executor, Once
from mirage.llm import Cache
from mirage.llm.cache import default_cache_path
from mirage.neural._models import attempt, encodable, in_halves, place_of, remade, weights_digest

__all__ = ["NLI", "NLI_MODEL", "RERANKER_MODEL", "Pair", "Reranker"]

NLI_MODEL = "MoritzLaurer/mDeBERTa-v3-base-xnli-multilingual-nli-2mil7"
"""The NLI model of MIRAGE-Bench."""

RERANKER_MODEL = "BAAI/bge-reranker-v2-m3"
"""The reranker of MIRAGE-Bench."""

Pair = tuple[str, str]
"""Two texts that a model reads together, in this order."""

_CPU_BUDGET = 1024  # more does not fit into a core's cache, and is slower
_GPU_BUDGET = 8192
_TOGETHER = 512  # pairs that are sorted by length together, and that a worker gets at a time


class _PairScorer(ABC):
    """A model that scores pairs of texts, each distinct pair once; see :class:`NLI`."""

    _DEFAULT: ClassVar[str]
    _CUT: ClassVar[str]  # which text loses its end where both are too long together
    _PRECISION: ClassVar[str]  # on CUDA

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
            raise SettingError("give the name of a model, or else a model and its tokenizer")
        if max_length < 16 or (token_budget is not None and token_budget < 1):
            raise SettingError(
                f"max_length is 16 tokens or more and token_budget 1 or more, not {max_length} and "
                f"{token_budget}"
            )
        self.max_length: int = max_length
        self.token_budget: int | None = token_budget
        self._by_name = by_name
        if by_name:
            self.name: str = place_of(model)
            auto = package("transformers").AutoConfig
            self.config: Any = attempt(self.name, lambda: auto.from_pretrained(self.name))
            self.cache = _open_cache(cache)
        else:
            self.name = type(model).__name__
            self.config = model.config
            self.cache = None  # nothing tells a later model of this name from this one
            self._loaded = _Loaded(model.eval(), tokenizer)
        self._known: dict[bytes, Sequence[float]] = {}
        self._check()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __reduce__(self) -> Any:
        # What workers compute is kept where it is asked for.
        make = partial(
            type(self), max_length=self.max_length, token_budget=self.token_budget, cache=False
        )
        own = [self.name] if self._by_name else [self._loaded.model, self._loaded.tokenizer]
        return remade(make, *own)

    def compute_ahead(self, groups: Iterable[Sequence[Pair]], executor: Executor) -> None:
        """Have workers compute what :meth:`scores` of each of these groups would, one by one.

        The scores are those that it would give, for the same pairs are computed together. They are
        in memory then, and on disk if that is wanted and workers compute as this process would.

        Args:
            groups: pairs, as they will be asked for.
            executor: its workers load the model.

        Raises:
            NeuralError: the model cannot be loaded, or gives scores that are not finite.
        """
        planned: set[bytes] = set()
        sent: dict[int, list[bytes]] = {}

        def parts() -> Iterator[list[Pair]]:
            for pairs in groups:
                new = [(k, p) for k, p in self._new(pairs).items() if k not in planned]
                planned.update(key for key, _ in new)
                for start in range(0, len(new), _TOGETHER):
                    part = new[start : start + _TOGETHER]
                    sent[len(sent)] = [key for key, _ in part]
                    yield [pair for _, pair in part]

        for number, (where, rows) in executor.map(self._on_a_worker, parts()):
            self._keep(sent[number], rows, on_disk=where == _placement(self._PRECISION))

    @cached_property
    def _on_a_worker(self) -> Once[Sequence[Pair], tuple[tuple[str, str], list[list[float]]]]:
        """Scores pairs, and says where they were computed; one object, so that it is sent once."""
        return Once(partial(_scoring, self))

    @abstractmethod
    def _check(self) -> None:
        """Raise a NeuralError where the model is of another kind."""

    @abstractmethod
    def _scores_of(self, logits: Any) -> Any:
        """From a tensor of logits to one of scores; both have a row a pair."""

    def _rows(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """The scores of each pair, in order, one row a pair."""
        new = list(self._new(pairs).items())
        for start in range(0, len(new), _TOGETHER):
            part = new[start : start + _TOGETHER]
            for places, rows in self._computed([pair for _, pair in part]):
                self._keep([part[i][0] for i in places], rows)
        known = [self._known[self._key(_clean(pair))] for pair in pairs]
        return np.array(known, dtype=np.float64).reshape(len(known), self.config.num_labels)

    def _new(self, pairs: Iterable[Pair]) -> dict[bytes, Pair]:
        """The distinct pairs whose scores are not known yet, by their keys."""
        distinct = {self._key(pair): pair for pair in map(_clean, pairs)}
        return {key: pair for key, pair in distinct.items() if not self._is_known(key)}

    def _is_known(self, key: bytes) -> bool:
        """Whether a pair has its scores in memory, read from the disk where they are only there."""
        if key not in self._known and self.cache is not None:
            entry = self.cache.get(key)
            if entry is not None:
                self._known[key] = entry["scores"]
        return key in self._known

    def _computed(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], list[list[float]]]]:
        """The scores of pairs, a batch at a time, each with the places of its pairs."""
        limit = min(self.max_length, self._loaded.longest)
        tokens = self._loaded.encode(pairs, limit, self._CUT)
        lengths = [len(ids["input_ids"]) for ids in tokens]
        on_cpu = self._loaded.model.device.type == "cpu"
        budget = self.token_budget or (_CPU_BUDGET if on_cpu else _GPU_BUDGET)
        batches = list(_batches(lengths, budget))

        def score(batch: Sequence[int]) -> list[list[float]]:
            return in_halves(batch, lambda part: self._scored([tokens[i] for i in part]))

        with _side_by_side(len(batches) if on_cpu else 1) as mapped:
            yield from zip(batches, mapped(score, batches), strict=True)

    def _scored(self, batch: Sequence[Mapping[str, list[int]]]) -> list[list[float]]:
        scores: list[list[float]] = self._scores_of(self._loaded.logits(batch)).tolist()
        return scores

    def _keep(
        self, keys: Sequence[bytes], rows: Sequence[list[float]], on_disk: bool = True
    ) -> None:
        """Put scores into memory, and on disk if that is wanted."""
        if not np.isfinite(rows).all():
            raise NeuralError(f"{self!r} gave scores that are not finite: {rows}")
        for key, row in zip(keys, rows, strict=True):
            self._known[key] = row
            if self.cache is not None and on_disk:
                self.cache.put(key, self.name, {"scores": row})

    def _key(self, pair: Pair) -> bytes:
        return hashlib.sha256(json.dumps([self._identity, *pair]).encode()).digest()

    @cached_property
    def fingerprint(self) -> str:
        """Changes with whatever changes the scores of a pair."""
        facts = [self._identity, None if self._by_name else weights_digest(self._loaded.model)]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @cached_property
    def _identity(self) -> list[Any]:
        """What the scores of a pair depend on besides its texts."""
        version, place = _version(self.name, self.config), _placement(self._PRECISION)
        return [type(self).__name__, self.name, version, self.max_length, *place]

    @cached_property
    def _loaded(self) -> _Loaded:
        return _load(self.name, *_placement(self._PRECISION))


class NLI(_PairScorer):
    """A model of natural-language inference, with its scores of pairs (premise, hypothesis).

    A pair that both features of support ask for, or several responses, models or batches, is
    computed once. With a named model that holds over processes too: scores are kept on disk by
    model, version and pair. The configuration is read at once, the weights when the first pair
    has to be computed, onto a GPU where there is one: in bfloat16 on CUDA (where it has it), in
    float32 elsewhere. On a CPU, batches are computed side by side, one for each of torch's threads
    (``torch.set_num_threads``). Scores may differ by some 1e-6 with what else is in a batch, for
    padding changes the order of sums.

    Args:
        model: a model's name on the hub, by default :data:`NLI_MODEL`; a folder that holds one;
            or a transformers model for sequence classification. Such an object stays on its device
            and in its precision, is put into evaluation mode, and its scores are not kept on disk.
        tokenizer: the tokenizer, if ``model`` is an object.
        max_length: the longest pair in tokens. Of a longer one the premise loses its end; where
            the hypothesis alone is too long, both do.
        token_budget: the largest batch in tokens, padding included; by default 1,024 on a CPU and
            8,192 on a GPU. A longer pair has a batch of its own. A batch
            that does not fit in memory is halved.
        cache: where to keep scores: a path, a :class:`~mirage.llm.Cache`, ``True`` for
            ``neural.sqlite`` in the folder that ``MIRAGE_CACHE`` names or in the user's cache
            folder, ``False`` for nowhere.

    Raises:
        NeuralError: there is no such model, or it cannot be had without a network.
        SettingError: a model without its tokenizer, or a length or budget that is too small.
        MissingPackageError: the extra ``neural`` is not installed.
    """

    _DEFAULT = NLI_MODEL
    _CUT = "only_first"
    _PRECISION = "bfloat16"  # DeBERTa overflows in float16

    @property
    def labels(self) -> tuple[str, ...]:
        """The model's own names of its labels, in the order of :meth:`scores`."""
        return tuple(name for _, name in sorted(self.config.id2label.items()))

    def column(self, label: str) -> int:
        """Which column of :meth:`scores` is ``entailment`` or ``neutral``, by the model's names.

        Raises:
            NeuralError: the model names no label so, or several; says what its labels are.
        """
        stem = label[:6]  # some models say entail
        columns = [i for i, name in enumerate(self.labels) if name.casefold().startswith(stem)]
        if len(columns) != 1:
            raise NeuralError(
                f"{self!r} has no label {label!r} of its own: its labels are "
                f"{', '.join(self.labels)}; take a model whose id2label names it"
            )
        return columns[0]

    def scores(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """The probability (softmax) of each label for each pair; shape ``(pairs, labels)``."""
        return self._rows(pairs)

    def _check(self) -> None:
        self.column("entailment")

    def _scores_of(self, logits: Any) -> Any:
        return logits.softmax(-1)


class Reranker(_PairScorer):
    """A reranker (cross-encoder), with its scores of pairs (query, passage).

    As :class:`NLI` (there for ``tokenizer``, ``max_length``, ``token_budget`` and ``cache``), by
    default with :data:`RERANKER_MODEL`, but of a pair that is too long the passage loses its end,
    and the precision on CUDA is float16.

    Raises:
        NeuralError: also where the model gives more than one score.
    """

    _DEFAULT = RERANKER_MODEL
    _CUT = "only_second"
    _PRECISION = "float16"

    def scores(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """The logit of each pair, without a sigmoid; shape ``(pairs,)``."""
        return self._rows(pairs)[:, 0]

    def _check(self) -> None:
        if self.config.num_labels != 1:
            raise NeuralError(
                f"{self!r} is no reranker: it gives a pair {self.config.num_labels} scores instead "
                "of 1"
            )

    def _scores_of(self, logits: Any) -> Any:
        return logits


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A model in memory, with its tokenizer."""

    model: Any
    tokenizer: Any

    @property
    def longest(self) -> int:
        """The most tokens that the model takes."""
        # A tokenizer that knows no limit says 10^30; RoBERTa's kind counts on from padding's id.
        most, part = self.tokenizer.model_max_length, self.model.base_model
        positions = getattr(self.model.config, "max_position_embeddings", None)
        for name in ("embeddings", "position_embeddings", "padding_idx"):
            part = getattr(part, name, None)
        return int(min(most, positions - (0 if part is None else part + 1)) if positions else most)

    def encode(self, pairs: Sequence[Pair], limit: int, cut: str) -> list[Mapping[str, list[int]]]:
        """The token ids of each pair, at most ``limit`` of them."""
        return [
            self._cut(pair, limit, cut) if len(ids["input_ids"]) > limit else ids
            for pair, ids in zip(pairs, self._tokenized(pairs), strict=True)
        ]

    def _cut(self, pair: Pair, limit: int, cut: str) -> Mapping[str, list[int]]:
        whole = ("", pair[1]) if cut == "only_first" else (pair[0], "")
        room = limit - len(self._tokenized([whole])[0]["input_ids"])
        how = cut if room > 0 else "longest_first"
        return self._tokenized([pair], truncation=how, max_length=limit)[0]

    def _tokenized(self, pairs: Sequence[Pair], **truncation: Any) -> list[Mapping[str, list[int]]]:
        # In lists, for a tokenizer takes a single pair with an empty second text for no pair.
        firsts, seconds = map(list, zip(*pairs, strict=True))
        columns = self.tokenizer(firsts, seconds, verbose=False, **truncation)
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns.keys(), row, strict=True)) for row in rows]

    def logits(self, batch: Sequence[Mapping[str, list[int]]]) -> Any:
        """The model's output for one batch, in float32, a row a pair."""
        torch, device = package("torch"), self.model.device
        # By itself the tokenizer takes long to make tensors of lists.
        columns = self.tokenizer.pad(list(batch))
        inputs = {name: torch.tensor(rows, device=device) for name, rows in columns.items()}
        with torch.inference_mode():
            return self.model(**inputs).logits.float()


def _batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Positions in batches, the longest first; each of one, or at most ``budget`` with padding."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    while order:
        size = max(1, budget // lengths[order[0]])
        yield order[:size]
        order = order[size:]


@contextmanager
def _side_by_side(tasks: int) -> Iterator[Any]:
    """A function like ``map`` that does several of so many tasks at a time.

    They share torch's threads: those that compute one small batch together mostly wait for each
    other, and worse so on a busy machine.
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
        torch.set_num_threads(threads)  # new threads of others begin with what was set last


def _scoring(
    scorer: _PairScorer,
) -> Callable[[Sequence[Pair]], tuple[tuple[str, str], list[list[float]]]]:
    """What a worker does: the scores of pairs, in their order, and where it computes."""

    def scored(pairs: Sequence[Pair]) -> tuple[tuple[str, str], list[list[float]]]:
        batches = [
            (place, row)
            for places, rows in scorer._computed(pairs)
            for place, row in zip(places, rows, strict=True)
        ]
        return _placement(scorer._PRECISION), [row for _, row in sorted(batches)]

    return scored


def _clean(pair: Pair) -> Pair:
    return encodable(pair[0]), encodable(pair[1])


# Loading ------------------------------------------------------------------------------------------


def _load(name: str, device: str, precision: str) -> _Loaded:
    torch, cross_encoder = package("torch"), package("sentence_transformers").CrossEncoder
    weights = {"dtype": getattr(torch, precision)}
    encoder = attempt(name, lambda: cross_encoder(name, device=device, model_kwargs=weights))
    return _Loaded(encoder.model.eval(), encoder.tokenizer)


def _placement(on_cuda: str) -> tuple[str, str]:
    """The device to compute on, and the precision there: on CUDA this one, if it is there."""
    torch = package("torch")
    if torch.cuda.is_available():
        has_it = on_cuda == "float16" or torch.cuda.is_bf16_supported(including_emulation=False)
        return "cuda", on_cuda if has_it else "float32"
    return "mps" if torch.backends.mps.is_available() else "cpu", "float32"


def _version(name: str, config: Any) -> Any:
    """What changes when the weights behind a name do: the commit, or the files of a folder."""
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

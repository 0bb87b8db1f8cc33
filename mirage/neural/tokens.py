"""Cross-encoders that score each token of a passage, for pruning passages as Provence does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage._base.packages import package
from mirage.errors import NeuralError, SettingError
from mirage.neural._models import attempt, compute_in_halves, encodable, model_location

_ARCHITECTURES = {"deberta": "deberta-v2", "roberta": "xlm-roberta", "bert": "bert"}
"""The model type in transformers, by the prefix of the names of the model's weights."""

_HEAD = "token_classifier."
"""The prefix of the weight names of the layer in Provence that scores tokens."""


class TokenScores(NamedTuple):
    """The scores of the tokens of a text.

    Attributes:
        starts: For each token, the position of its first character in the text, in ascending
            order.
        scores: The score of each token.
    """

    starts: NDArray[np.int64]
    scores: NDArray[np.float64]


class TokenCrossEncoder:
    """A cross-encoder that predicts how relevant each token of a text is to a question.

    The score of a token is the probability that it should be kept when the passage is pruned to its
    relevant parts. The model is a token classifier of transformers that reads pairs of question and
    text. Its only label, or the second of its two labels, means that the token is kept. Models in
    the format of Provence (Chirkova et al. 2025, arXiv 2501.16214) can be loaded too: BERT, DeBERTa
    or RoBERTa models with a ``token_classifier``. Their scores for whole passages are ignored. Code
    from the hub is never run. A text that is too long is split into parts, and the model reads each
    part together with the question.

    Args:
        model: The name of a model on the hub, or the folder of a model.
        max_length: The maximum number of tokens that the model reads at a time, question and text
            together.
        batch_size: The number of texts in a batch.

    Raises:
        NeuralError: The model cannot be loaded, or has no scores per token.
        SettingError: ``max_length`` is below 16, or ``batch_size`` below 1.
        MissingPackageError: The extra ``neural`` is not installed.
    """

    def __init__(self, model: str | Path, *, max_length: int = 512, batch_size: int = 16) -> None:
        if max_length < 16 or batch_size < 1:
            raise SettingError(
                "max_length must be at least 16 tokens and batch_size at least 1, got "
                f"max_length={max_length} and batch_size={batch_size}"
            )
        self.name: str = model_location(model)
        self.max_length = max_length
        self.batch_size = batch_size
        self._torch = package("torch")
        transformers = package("transformers")
        self._tokenizer: Any = attempt(
            self.name, lambda: transformers.AutoTokenizer.from_pretrained(self.name)
        )
        self._model: Any = attempt(self.name, lambda: _load(transformers, self.name))
        if self._model.config.num_labels not in (1, 2):
            raise NeuralError(
                f"{self!r} has {self._model.config.num_labels} labels per token, but 1 or 2 are "
                "needed; use a token classifier with 1 or 2 labels, or a model in the format of "
                "Provence"
            )
        self._model.to("cuda" if self._torch.cuda.is_available() else "cpu").eval()

    def __repr__(self) -> str:
        return f"TokenCrossEncoder({self.name!r})"

    def token_scores(self, pairs: Sequence[tuple[str, str]]) -> list[TokenScores]:
        """Return the scores of all tokens of the text, for each pair (question, text).

        A score is the probability that the token should be kept.
        """
        rows: list[TokenScores] = []
        for start in range(0, len(pairs), self.batch_size):
            rows += compute_in_halves(pairs[start : start + self.batch_size], self._compute)
        return rows

    def _compute(self, pairs: Sequence[tuple[str, str]]) -> list[TokenScores]:
        torch = self._torch
        questions = [encodable(question) for question, _ in pairs]
        texts = [encodable(text) for _, text in pairs]
        longest = min(self.max_length, self._tokenizer.model_max_length)
        inputs = self._tokenizer(
            questions,
            texts,
            truncation="only_second",
            max_length=longest,
            padding=True,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            return_tensors="pt",
        )
        parts = inputs.pop("overflow_to_sample_mapping").tolist()
        starts = inputs.pop("offset_mapping")[..., 0].tolist()
        with torch.inference_mode():
            logits = self._model(**inputs.to(self._model.device)).logits.float()
        is_single = logits.shape[-1] == 1
        kept = logits.sigmoid()[..., 0] if is_single else logits.softmax(-1)[..., 1]
        columns: list[tuple[list[int], list[float]]] = [([], []) for _ in pairs]
        for row, (number, scores) in enumerate(zip(parts, kept.tolist(), strict=True)):
            for token, sequence in enumerate(inputs.sequence_ids(row)):
                if sequence == 1:
                    columns[number][0].append(starts[row][token])
                    columns[number][1].append(scores[token])
        return [
            TokenScores(np.array(positions, dtype=np.int64), np.array(scores, dtype=np.float64))
            for positions, scores in columns
        ]


def _load(transformers: Any, name: str) -> Any:
    """Load a transformers token classifier, or a model in Provence's format."""
    file = transformers.utils.cached_file(
        name, "model.safetensors", _raise_exceptions_for_missing_entries=False
    )
    if file is not None:
        with package("safetensors").safe_open(file, "pt") as stored:
            names = list(stored.keys())
            if any(each.startswith(_HEAD) for each in names):
                weights = {each: stored.get_tensor(each) for each in names}
                return _load_provence(transformers, name, weights)
    load = transformers.AutoModelForTokenClassification.from_pretrained
    model, report = load(name, output_loading_info=True)
    # The output layer of a reranker has the same name, and may have the same shape.
    trained = any("TokenClassification" in each for each in model.config.architectures or ())
    if report["missing_keys"] or not trained:
        raise NeuralError(
            "the model is not a token classifier, so it has no scores per token; its architecture "
            f"is {', '.join(model.config.architectures or ()) or 'unknown'}"
        )
    return model


def _load_provence(transformers: Any, name: str, weights: Mapping[str, Any]) -> Any:
    """Convert a model in Provence's format to a transformers token classifier."""
    prefix = next(
        (each for each in _ARCHITECTURES if any(w.startswith(f"{each}.") for w in weights)), ""
    )
    if not prefix:
        raise NeuralError(
            f"the architecture of the model is not one of {', '.join(_ARCHITECTURES)}"
        )
    settings, _ = transformers.PreTrainedConfig.get_config_dict(name)
    labels = len(weights[f"{_HEAD}weight"])
    settings = {k: v for k, v in settings.items() if k not in ("id2label", "label2id", "auto_map")}
    kind = _ARCHITECTURES[prefix]
    config = transformers.CONFIG_MAPPING[kind].from_dict(settings | {"model_type": kind})
    config.num_labels = labels
    model = transformers.AutoModelForTokenClassification.from_config(config)
    used = {w: tensor for w, tensor in weights.items() if w.startswith((f"{prefix}.", _HEAD))}
    report = model.load_state_dict(
        {w.replace(_HEAD, "classifier."): tensor for w, tensor in used.items()}, strict=False
    )
    if report.missing_keys:
        raise NeuralError(
            f"the files of the model lack the weights {', '.join(sorted(report.missing_keys))}"
        )
    return model

"""Functions that load text encoders with sentence-transformers.

The functions also set the pooling (how the vectors of tokens become one vector) and the maximum
number of tokens.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal, get_args

from mirage._base.packages import package
from mirage.errors import NeuralError, SettingError
from mirage.neural._models import attempt

Pooling = Literal["mean", "cls", "last"]
"""How the vectors of the tokens become the vector of a text.

``"mean"`` is the mean of all tokens, ``"cls"`` the first token, and ``"last"`` the last token.
"""

_MODES = {"mean": "mean", "cls": "cls", "last": "lasttoken"}
"""The name that sentence-transformers gives to each kind of pooling."""

_CARDS: tuple[tuple[str, Pooling], ...] = (
    (r"retromae", "cls"),
    (r"distilbert-dot-tas_b", "cls"),
    (r"co-condenser-(marco|wiki)", "cls"),
    (r"simlm-base", "cls"),
    (r"dragon-(plus|roberta)-(context|query)-encoder", "cls"),
    (r"m?contriever", "mean"),
    (r"repllama", "last"),
    (r"promptriever", "last"),
    (r"e5-mistral", "last"),
)
"""The pooling of well-known models that have no sentence-transformers configuration files.

Each entry is a regular expression for the names of models, and the pooling that their model cards
(descriptions on the hub) specify.
"""

_NO_CODE = {"trust_remote_code": False}


def check_limits(batch_size: int, pooling: str | None, max_length: int | None) -> None:
    """Raise a SettingError if one of these settings of an encoder is invalid."""
    if batch_size < 1:
        raise SettingError(f"batch_size must be at least 1, got batch_size={batch_size}")
    if pooling is not None and pooling not in get_args(Pooling):
        raise SettingError(f"pooling must be one of {', '.join(_MODES)}, got pooling={pooling!r}")
    if max_length is not None and max_length < 1:
        raise SettingError(f"max_length must be at least 1 token, got max_length={max_length}")


def card_pooling(name: str) -> Pooling | None:
    """Return the pooling that the model card of a well-known model specifies.

    The result is ``None`` for any other model.

    Example:
        >>> card_pooling("Shitao/RetroMAE_MSMARCO_finetune")
        'cls'
    """
    stem = name.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    return next((pooling for pattern, pooling in _CARDS if re.match(pattern, stem)), None)


def load_sentence_model(name: str, pooling: Pooling | None, max_length: int | None) -> Any:
    """Load a ``SentenceTransformer``.

    Args:
        name: The name of a model on the hub, or a model folder.
        pooling: The pooling. By default it is read from the model's configuration files of
            sentence-transformers. If there are none, it is the result of :func:`card_pooling`.
        max_length: The number of tokens to which longer texts are truncated; by default the limit
            of the model.

    Raises:
        NeuralError: The model cannot be loaded, or its pooling is unknown.
        SettingError: ``pooling`` is set, but the model does not have exactly one pooling layer, or
            ``max_length`` is higher than the limit of the model.
    """
    make = package("sentence_transformers").SentenceTransformer
    if attempt(name, lambda: _has_modules(name)):
        model = attempt(name, lambda: make(name))
        if pooling is not None:
            _set_pooling(name, model, pooling)
    else:
        mode = pooling or card_pooling(name)
        if mode is None:
            if attempt(name, lambda: any(_file(name, file) for file in _CONFIGS)):
                raise NeuralError(
                    f"model {name!r} has no configuration for sentence-transformers, so its "
                    "pooling is unknown; set pooling to cls, mean or last, as its model card or "
                    "paper says"
                )
            model = attempt(name, lambda: make(name))  # raises an error with the reason
        else:
            model = attempt(name, lambda: _assemble(name, mode))
    limit_length(name, model, max_length)
    return model


def load_sparse_model(name: str, max_length: int | None) -> Any:
    """Load a ``SparseEncoder``.

    Args:
        name: The name of a model on the hub, or a model folder.
        max_length: The number of tokens to which longer texts are truncated; by default the limit
            of the model.

    Raises:
        NeuralError: The model cannot be loaded, or does not predict term weights.
        SettingError: ``max_length`` is higher than the limit of the model.
    """
    make = package("sentence_transformers").SparseEncoder
    if not attempt(name, lambda: _has_modules(name)):
        auto = package("transformers").AutoConfig
        config = attempt(name, lambda: auto.from_pretrained(name, **_NO_CODE))
        # sentence-transformers would add an output layer with random weights to such a model.
        if not any(each.endswith("ForMaskedLM") for each in config.architectures or ()):
            raise NeuralError(
                f"model {name!r} does not predict term weights: it is not a masked language model "
                "and has no configuration for sentence-transformers; use a model such as "
                "naver/splade-v3"
            )
    model = attempt(name, lambda: make(name))
    limit_length(name, model, max_length)
    return model


_CONFIGS = ("config.json", "adapter_config.json")


def _file(name: str, file: str) -> str | None:
    path: str | None = package("sentence_transformers.util").load_file_path(name, file)
    return path


def _has_modules(name: str) -> bool:
    """Return whether a model has sentence-transformers configuration files."""
    if "/" in name or Path(name).is_dir():
        return _file(name, "modules.json") is not None
    try:  # sentence-transformers adds this prefix to a name without an owner
        return _file(f"sentence-transformers/{name}", "modules.json") is not None
    except OSError:
        return _file(name, "modules.json") is not None


def _set_pooling(name: str, model: Any, pooling: Pooling) -> None:
    modules = [each for each in model if isinstance(getattr(each, "pooling_mode", None), str)]
    if len(modules) != 1:
        raise SettingError(
            f"model {name!r} does not have exactly one pooling layer, so its pooling cannot be "
            f"changed; leave out pooling={pooling!r}"
        )
    modules[0].pooling_mode = _MODES[pooling]


def _assemble(name: str, pooling: Pooling) -> Any:
    """Return a ``SentenceTransformer`` that consists of a transformers model and a pooling layer.

    The model may also be a PEFT adapter.
    """
    modules = package("sentence_transformers.sentence_transformer.modules")
    adapter, tokenizer = _file(name, "adapter_config.json"), None
    if adapter is not None and _file(name, "tokenizer_config.json") is None:
        tokenizer = json.loads(Path(adapter).read_text("utf-8"))["base_model_name_or_path"]
    transformer = modules.Transformer(
        name,
        model_kwargs=dict(_NO_CODE),
        processor_kwargs=dict(_NO_CODE),
        config_kwargs=dict(_NO_CODE),
        tokenizer_name_or_path=tokenizer,
        # Without this, the tokenizer of a chat model would format texts as chat messages.
        modality_config={"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
        module_output_name="token_embeddings",
    )
    if pooling == "last":
        _end_texts(transformer.tokenizer)
    pool = modules.Pooling(transformer.get_embedding_dimension(), _MODES[pooling])
    return package("sentence_transformers").SentenceTransformer(modules=[transformer, pool])


def _end_texts(tokenizer: Any) -> None:
    """Make a tokenizer add a special token to the end of each text, for the pooling ``last``."""
    if tokenizer("a")["input_ids"][-1] not in tokenizer.all_special_ids:
        tokenizer.add_eos_token = True
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token


def limit_length(name: str, model: Any, max_length: int | None) -> None:
    """Set the number of tokens to which a model truncates texts; ``None`` leaves it unchanged.

    Raises:
        SettingError: ``max_length`` is higher than the limit of the model.
    """
    if max_length is None:
        return
    limit = getattr(getattr(model[0], "config", None), "max_position_embeddings", None)
    if limit is not None and 0 < limit < max_length:
        raise SettingError(
            f"model {name!r} reads at most {limit} tokens, got max_length={max_length}"
        )
    model.max_seq_length = max_length

"""Answers from model weights on this machine."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from mirage.dataset import MirageDataset
from mirage.errors import GenerationError, SettingError, missing_package
from mirage.generation.base import answered, run_in_batches
from mirage.generation.chat import own_prompt, plain_messages, prompt_ids
from mirage.generation.prompts import (
    ANSWER_TOKENS,
    Prompt,
    PromptMaker,
    prompt_for,
    query_seed,
)
from mirage.models import Query, Response, Run

__all__ = ["TransformersGenerator", "VLLMGenerator"]

# Sampling is done by noise, so what shapes it elsewhere is at the value that does nothing.
_GREEDY = {
    "do_sample": False,
    "num_beams": 1,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 50,
    "return_dict_in_generate": False,
}


class TransformersGenerator:
    """Answers by a causal language model, in batches, through Hugging Face's transformers.

    The prompt goes through the tokenizer's chat template; a tokenizer without one gets the bare
    text. With or without sampling, an answer does not depend on what else is in the batch (but
    for the rounding of the arithmetic). A batch that does not fit in memory is halved.

    Args:
        model: a name on the hub, a folder, or a model and its tokenizer (which stay as they are).
            The folder may be one that :func:`mirage.training.finetune` wrote, or any with an
            adapter of PEFT: the model under it is loaded from where the adapter says (needs the
            extra ``finetune``).
        name: what the run calls the model, by default its name on the hub or its folder.
        prompt: from a query to its prompt; by default a :class:`RagPrompt` that counts with the
            model's own tokenizer, with a context of 8,192 tokens, or fewer if the model has fewer.
        device: where to compute, such as ``"cuda:1"``; by default CUDA, else MPS, else the CPU. A
            model that is given with its tokenizer stays where it is by default.
        dtype: numbers to compute with, such as ``"float16"``; by default those of the checkpoint.
        batch_size: queries to answer at a time.
        max_new_tokens: the longest answer, in tokens.
        temperature: sampling temperature; 0 takes the likeliest token each time.
        seed: for sampling.

    Raises:
        SettingError: a setting that makes no sense.
        MissingPackageError: torch or transformers is not installed, or peft for an adapter.
    """

    def __init__(
        self,
        model: str | Path | tuple[Any, Any],
        *,
        name: str | None = None,
        prompt: PromptMaker | None = None,
        device: str | None = None,
        dtype: str | None = None,
        batch_size: int = 8,
        max_new_tokens: int = ANSWER_TOKENS,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> None:
        _check(batch_size, max_new_tokens, temperature)
        self._given = model
        self._settings: dict[str, Any] = {
            "name": name,
            "prompt": prompt,
            "device": device,
            "dtype": dtype,
            "batch_size": batch_size,
            "max_new_tokens": max_new_tokens,
            "temperature": temperature,
        }
        self._torch = _package("torch", "neural")
        transformers = _package("transformers", "neural")
        self.model: Any
        self.tokenizer: Any
        if isinstance(model, tuple):
            self.model, self.tokenizer = model
        else:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(model)
            self.model = _load(transformers, model, dtype)
            if _is_adapter(model):
                name = name or str(model)  # the model under it has a name too
            # Some models come with one, and warn at every batch that max_new_tokens is there too.
            self.model.generation_config.max_length = None
            device = device or _device(self._torch)
        if device is not None:
            self.model.to(device)
        self.model.eval()
        self.name: str = name or self.model.name_or_path or type(self.model).__name__
        longest = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        self.prompt: PromptMaker = prompt or own_prompt(self.tokenizer, longest, max_new_tokens)
        self.batch_size: int = batch_size
        self.max_new_tokens: int = max_new_tokens
        self.temperature: float = temperature
        self.seed: int = seed

    def __repr__(self) -> str:
        return f"TransformersGenerator({self.name!r}, device={str(self.model.device)!r})"

    def again(self, number: int) -> TransformersGenerator:
        """The generator that samples anew, for the ``number``-th answer."""
        other = copy.copy(self)
        other.seed = self.seed + number
        return other

    def __reduce__(self) -> Any:
        # A name is loaded anew where it comes; a model that was given goes with its weights.
        return partial(TransformersGenerator, **self._settings | {"seed": self.seed}), (
            self._given,
        )

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """As :meth:`mirage.Generator.run`."""
        answer = partial(self._answer, prompt_for(dataset, self.prompt))
        return run_in_batches(self.name, dataset, answer, self.batch_size, out, progress)

    def _answer(self, make_prompt: PromptMaker, queries: Sequence[Query]) -> list[Response]:
        torch = self._torch
        prompts = [make_prompt(query) for query in queries]
        rows = [prompt_ids(prompt.messages, self.tokenizer) for prompt in prompts]
        config = self._config()
        # Padded by hand, so that the tokenizer, which may be the caller's, stays as it is.
        width = max(map(len, rows))
        ids = [[config.pad_token_id] * (width - len(row)) + row for row in rows]
        mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
        device = self.model.device
        with torch.inference_mode():
            output = self.model.generate(
                input_ids=torch.tensor(ids, device=device),
                attention_mask=torch.tensor(mask, device=device),
                generation_config=config,
                logits_processor=self._sampling(queries),
            )
        texts = self.tokenizer.batch_decode(output[:, width:], skip_special_tokens=True)
        return _responses(queries, texts, prompts)

    def _config(self) -> Any:
        """The model's own settings, such as the tokens that end its answer, and greedy decoding."""
        config = copy.deepcopy(self.model.generation_config)
        config.update(**_GREEDY, max_new_tokens=self.max_new_tokens)
        if config.eos_token_id is None:
            config.eos_token_id = self.tokenizer.eos_token_id
        if config.pad_token_id is None:
            candidates = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, 0)
            config.pad_token_id = next(id_ for id_ in candidates if id_ is not None)
        return config

    def _sampling(self, queries: Sequence[Query]) -> list[Any]:
        """What turns the likeliest token into a sample: noise of each query's own.

        The largest of logits plus Gumbel noise is a draw from their softmax (Gumbel 1954, section
        on extreme values; Maddison et al. 2014, A* Sampling, section 2).
        """
        if not self.temperature:
            return []
        torch, device = self._torch, self.model.device
        sources = [
            torch.Generator(device).manual_seed(query_seed(self.seed, query)) for query in queries
        ]

        def sample(_: Any, scores: Any) -> Any:
            draws = [
                torch.empty(scores.shape[1], device=device).exponential_(generator=source)
                for source in sources
            ]
            tiny = torch.finfo(torch.float32).tiny
            return scores / self.temperature - torch.stack(draws).clamp_min(tiny).log()

        return [sample]


class VLLMGenerator:
    """Answers by vLLM's offline engine, which batches by itself.

    Args:
        model: a name on the hub, a folder, or a ``vllm.LLM``. Its tokenizer needs a chat template.
        batch_size: queries to hand to the engine at a time; a run that is killed loses so many.
        engine: with a name or folder, anything that ``vllm.LLM`` takes, such as
            ``tensor_parallel_size=2``.

    ``name``, ``prompt``, ``max_new_tokens``, ``temperature`` and ``seed`` are as in
    :class:`TransformersGenerator`.

    Raises:
        SettingError: a setting that makes no sense, or one of the engine beside an engine.
        MissingPackageError: vllm is not installed.
    """

    def __init__(
        self,
        model: Any,
        *,
        name: str | None = None,
        prompt: PromptMaker | None = None,
        batch_size: int = 256,
        max_new_tokens: int = ANSWER_TOKENS,
        temperature: float = 0.0,
        seed: int = 0,
        **engine: Any,
    ) -> None:
        _check(batch_size, max_new_tokens, temperature)
        self._vllm = _package("vllm", "vllm")
        by_name = isinstance(model, str | Path)
        self._given = str(model) if by_name else None
        self._settings: dict[str, Any] = engine | {
            "name": name,
            "prompt": prompt,
            "batch_size": batch_size,
            "max_new_tokens": max_new_tokens,
            "temperature": temperature,
        }
        if engine and not by_name:
            raise SettingError(f"the vllm.LLM has its settings: {', '.join(engine)} go to it")
        self.model: Any = self._vllm.LLM(model=str(model), **engine) if by_name else model
        config = self.model.llm_engine.model_config
        self.name: str = name or str(config.model)
        self.tokenizer: Any = self.model.get_tokenizer()
        self.prompt: PromptMaker = prompt or own_prompt(
            self.tokenizer, config.max_model_len, max_new_tokens
        )
        self.batch_size: int = batch_size
        self.max_new_tokens: int = max_new_tokens
        self.temperature: float = temperature
        self.seed: int = seed

    def __repr__(self) -> str:
        return f"VLLMGenerator({self.name!r})"

    def again(self, number: int) -> VLLMGenerator:
        """The generator that samples anew, for the ``number``-th answer."""
        other = copy.copy(self)
        other.seed = self.seed + number
        return other

    def __reduce__(self) -> Any:
        if self._given is None:
            raise GenerationError(
                f"the engine of {self!r} cannot be sent to another process; give the generator the "
                "model's name, which is loaded there"
            )
        make = partial(VLLMGenerator, **self._settings, seed=self.seed)
        return make, (self._given,)

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """As :meth:`mirage.Generator.run`."""
        answer = partial(self._answer, prompt_for(dataset, self.prompt))
        return run_in_batches(self.name, dataset, answer, self.batch_size, out, progress)

    def _answer(self, make_prompt: PromptMaker, queries: Sequence[Query]) -> list[Response]:
        prompts = [make_prompt(query) for query in queries]
        params = [
            self._vllm.SamplingParams(
                temperature=self.temperature,
                max_tokens=self.max_new_tokens,
                seed=query_seed(self.seed, query),
            )
            for query in queries
        ]
        conversations = [plain_messages(prompt.messages, self.tokenizer) for prompt in prompts]
        outputs = self.model.chat(conversations, params, use_tqdm=False)
        return _responses(queries, [output.outputs[0].text for output in outputs], prompts)


def _check(batch_size: int, max_new_tokens: int, temperature: float) -> None:
    if batch_size < 1 or max_new_tokens < 1 or not temperature >= 0:
        raise SettingError(
            "batch_size and max_new_tokens are 1 or more and temperature 0 or more, not "
            f"{batch_size}, {max_new_tokens} and {temperature}"
        )


def _package(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise missing_package(name, extra) from None


def _is_adapter(model: str | Path) -> bool:
    return (Path(model) / "adapter_config.json").is_file()


def _load(transformers: Any, model: str | Path, dtype: str | None) -> Any:
    """A model, or one below an adapter and the adapter."""
    load = transformers.AutoModelForCausalLM.from_pretrained
    if not _is_adapter(model):
        return load(model, dtype=dtype or "auto")
    peft = _package("peft", "finetune")
    config = peft.PeftConfig.from_pretrained(model)
    base = load(config.base_model_name_or_path, dtype=dtype or "auto")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of transformers, to peft
        return peft.PeftModel.from_pretrained(base, model)


def _device(torch: Any) -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _responses(
    queries: Sequence[Query], texts: Sequence[str], prompts: Sequence[Prompt]
) -> list[Response]:
    return [
        answered(query, text, prompt.shown)
        for query, text, prompt in zip(queries, texts, prompts, strict=True)
    ]

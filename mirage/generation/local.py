"""Generators that run model weights on this machine, with transformers or vLLM."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, get_args

from mirage._base.packages import check_bitsandbytes, package
from mirage.dataset import MirageDataset
from mirage.errors import GenerationError, SettingError
from mirage.generation._fingerprints import prompt_digest
from mirage.generation.base import answered, run_in_batches
from mirage.generation.chat import own_prompt, plain_messages, prompt_ids
from mirage.generation.prompts import (
    ANSWER_TOKENS,
    Prompt,
    PromptMaker,
    prompt_for,
    query_seed,
)
from mirage.llm.budget import Usage
from mirage.models import Query, Response, Run

Bits = Literal["4bit", "8bit"]
"""The precision in which the weights of a model are loaded, instead of the checkpoint's."""

# Sampling is done by adding noise to the logits, so generate() itself must decode greedily.
_GREEDY = {
    "do_sample": False,
    "num_beams": 1,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 50,
    "return_dict_in_generate": False,
}


class _LocalGenerator(ABC):
    """The base class of generators that run a model on this machine.

    Attributes:
        usage: Number of queries (``calls``) and tokens that this object has processed so far.
    """

    name: str
    prompt: PromptMaker
    seed: int
    _source: Any
    _settings: dict[str, Any]
    _repeat = 0

    def __init__(self, batch_size: int, max_new_tokens: int, temperature: float) -> None:
        if batch_size < 1 or max_new_tokens < 1 or not temperature >= 0:
            raise SettingError(
                "batch_size and max_new_tokens must be at least 1, and temperature at least 0; got "
                f"batch_size={batch_size}, max_new_tokens={max_new_tokens}, "
                f"temperature={temperature}"
            )
        self.batch_size = batch_size
        self.max_new_tokens = max_new_tokens
        self.temperature = temperature
        self.usage: Usage = Usage()

    def __copy__(self) -> Self:
        # Without this method, copies would load the model again, as in another process.
        new = object.__new__(type(self))
        vars(new).update(vars(self))
        return new

    def again(self, number: int) -> Self:
        """Return a copy of this generator for repeat ``number`` of a run, counted from 0.

        Each repeat has another random seed.
        """
        repeat = copy.copy(self)
        repeat.seed = self.seed + number
        repeat._repeat = self._repeat + number
        return repeat

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """Return a run with one response to each query of the dataset.

        Args:
            dataset: The queries.
            out: The file to which responses are appended, and from which a killed run resumes; see
                :meth:`mirage.Generator.run`.
            progress: Whether to show a progress bar on stderr, if stderr is a terminal.
        """
        answer = partial(self._answer, prompt_for(dataset, self.prompt))
        return run_in_batches(
            self.name, dataset, answer, self.batch_size, out, progress, self._answer_settings
        )

    def _answer_settings(self, dataset: MirageDataset) -> dict[str, Any]:
        """Return the settings on which the answers to a dataset depend."""
        prompt = prompt_digest(prompt_for(dataset, self.prompt), dataset.language)
        model = self._source if isinstance(self._source, str | Path) else self.name
        return local_settings(model, self._settings, self.seed - self._repeat, prompt)

    @abstractmethod
    def _answer(self, make_prompt: PromptMaker, queries: Sequence[Query]) -> list[Response]:
        """Return the responses to a batch of queries."""

    def _responses(
        self,
        queries: Sequence[Query],
        texts: Sequence[str],
        prompts: Sequence[Prompt],
        cut_off: Sequence[bool],
    ) -> list[Response]:
        responses = [
            answered(query, text, prompt.shown, cut_off=at_limit)
            for query, text, prompt, at_limit in zip(queries, texts, prompts, cut_off, strict=True)
        ]
        return [self._check_reasoning(response) for response in responses]

    def _check_reasoning(self, response: Response) -> Response:
        """Return the response, or a failure if the model was still reasoning at the token limit."""
        if response.text or not response.reasoning:
            return response
        reason = (
            f"the model was still reasoning at the limit max_new_tokens={self.max_new_tokens}; "
            "increase it"
        )
        return response.model_copy(update={"text": None, "error": reason})

    def _count(self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> None:
        """Add the queries and tokens of a batch to the usage."""
        self.usage.calls += len(prompts)
        self.usage.prompt_tokens += sum(map(len, prompts))
        self.usage.completion_tokens += sum(map(len, answers))


def local_settings(
    model: str | Path, settings: Mapping[str, Any], seed: int, prompt: str
) -> dict[str, Any]:
    """Return the settings on which the answers of a local model depend.

    Args:
        model: The name or folder of the model.
        settings: The arguments that the generator was created with.
        seed: The random seed of the first repeat.
        prompt: The digest of the prompt; see :func:`prompt_digest`.
    """
    values = {name: settings[name] for name in _CHANGE_ANSWERS if settings.get(name) is not None}
    if settings["temperature"]:
        values["seed"] = seed
    return {"model": str(model), **values, "prompt": prompt}


_CHANGE_ANSWERS = ("dtype", "load_in", "quantization", "max_new_tokens", "temperature")
"""The arguments of local generators that change the answers."""


class TransformersGenerator(_LocalGenerator):
    """A generator that runs a causal language model in batches with Hugging Face transformers.

    The tokenizer's chat template is applied to the prompt. If there is none, the bare text is used.
    With or without sampling, an answer does not depend on the other queries of its batch, except
    for rounding errors. If a batch does not fit into memory, it is split into halves.

    Args:
        model: A name on the Hugging Face hub, a folder, or a tuple of a model and its tokenizer
            (which are not changed). The folder may contain a PEFT adapter, for example from
            :func:`mirage.training.finetune`; its base model is then loaded too (needs the extra
            ``finetune``).
        name: The name of the model in the run; by default its name on the hub or its folder.
        prompt: A function that returns the prompt for a query. The default is a :class:`RagPrompt`
            that counts tokens with the model's tokenizer. Its context has 8,192 tokens, or fewer if
            the model's context is shorter.
        device: The device, such as ``"cuda:1"``. The default is CUDA, else MPS, else the CPU. A
            model that is passed with its tokenizer stays on its device by default.
        dtype: Floating-point type, such as ``"float16"``; by default that of the checkpoint.
        load_in: ``"8bit"`` or ``"4bit"`` loads the weights in 8 bits, or in 4 bits (NF4 with
            computation in ``dtype``, by default bfloat16; Dettmers et al. 2023, arXiv 2305.14314).
            This needs the packages bitsandbytes and accelerate, and a device that bitsandbytes
            supports.
        batch_size: Number of queries in a batch.
        max_new_tokens: Maximum number of tokens of an answer.
        temperature: Sampling temperature. With 0, the most likely token is always chosen.
        seed: Random seed for sampling.

    Raises:
        SettingError: If a setting is not valid.
        MissingPackageError: If torch or transformers is not installed, or peft for an adapter, or
            bitsandbytes or accelerate for ``load_in``.
    """

    def __init__(
        self,
        model: str | Path | tuple[Any, Any],
        *,
        name: str | None = None,
        prompt: PromptMaker | None = None,
        device: str | None = None,
        dtype: str | None = None,
        load_in: Bits | None = None,
        batch_size: int = 8,
        max_new_tokens: int = ANSWER_TOKENS,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(batch_size, max_new_tokens, temperature)
        self._source = model
        self._settings = {
            "name": name,
            "prompt": prompt,
            "device": device,
            "dtype": dtype,
            "load_in": load_in,
            "batch_size": batch_size,
            "max_new_tokens": max_new_tokens,
            "temperature": temperature,
        }
        self._torch = package("torch")
        transformers = package("transformers")
        self.model: Any
        self.tokenizer: Any
        if load_in is not None:
            _check_bits(load_in, model)
        if isinstance(model, tuple):
            self.model, self.tokenizer = model
        else:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(model)
            device = device or _device(self._torch)
            options = {"dtype": dtype or "auto"} | _bits_options(
                transformers, load_in, dtype, device
            )
            self.model = _load(transformers, model, options)
            if _is_adapter(model):
                name = name or str(model)  # otherwise the name of the base model would be used
            # If a model sets max_length too, transformers warns at every batch.
            self.model.generation_config.max_length = None
        # Quantised weights are loaded on their device, and cannot be moved.
        if device is not None and load_in is None:
            self.model.to(device)
        self.model.eval()
        self.name: str = name or self.model.name_or_path or type(self.model).__name__
        longest = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        self.prompt: PromptMaker = prompt or own_prompt(self.tokenizer, longest, max_new_tokens)
        self.seed: int = seed

    def __repr__(self) -> str:
        return f"TransformersGenerator({self.name!r}, device={str(self.model.device)!r})"

    def __reduce__(self) -> Any:
        # A model given by name is loaded in the other process; a model object is sent with weights.
        return partial(TransformersGenerator, **self._settings | {"seed": self.seed}), (
            self._source,
        )

    def _answer(self, make_prompt: PromptMaker, queries: Sequence[Query]) -> list[Response]:
        torch = self._torch
        prompts = [make_prompt(query) for query in queries]
        rows = [prompt_ids(prompt.messages, self.tokenizer) for prompt in prompts]
        config = self._config()
        # Pad here, because padding with the tokenizer would change the caller's tokenizer.
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
        written = output[:, width:]
        answers = written.tolist()
        self._count(rows, _without_end(answers, config.eos_token_id))
        texts = self.tokenizer.batch_decode(written, skip_special_tokens=True)
        end_ids = _end_ids(config.eos_token_id)
        return self._responses(
            queries, texts, prompts, [end_ids.isdisjoint(answer) for answer in answers]
        )

    def _config(self) -> Any:
        """Return the model's generation settings, such as its end tokens, with greedy decoding."""
        config = copy.deepcopy(self.model.generation_config)
        config.update(**_GREEDY, max_new_tokens=self.max_new_tokens)
        if config.eos_token_id is None:
            config.eos_token_id = self.tokenizer.eos_token_id
        if config.pad_token_id is None:
            candidates = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, 0)
            config.pad_token_id = next(id_ for id_ in candidates if id_ is not None)
        return config

    def _sampling(self, queries: Sequence[Query]) -> list[Any]:
        """Return the logits processors that sample by adding noise, with one seed per query.

        The list is empty if the temperature is 0. Otherwise, logits are divided by the temperature.
        The token with the largest sum of logit and Gumbel noise is a sample from the softmax
        (Gumbel 1954, section on extreme values; Maddison et al. 2014, A* Sampling, section 2).
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


class VLLMGenerator(_LocalGenerator):
    """A generator that runs a model with the offline engine of vLLM.

    Args:
        model: A name on the Hugging Face hub, a folder, or a ``vllm.LLM``. Its tokenizer needs a
            chat template.
        name: The name of the model in the run; by default its name on the hub or its folder.
        prompt: A function that returns the prompt for a query. The default is a :class:`RagPrompt`
            that counts tokens with the model's tokenizer. Its context has 8,192 tokens, or fewer if
            the model's context is shorter.
        batch_size: Number of queries to pass to the engine at a time. If a run is killed, the
            answers of the current batch are lost.
        max_new_tokens: Maximum number of tokens of an answer.
        temperature: Sampling temperature. With 0, the most likely token is always chosen.
        seed: Random seed for sampling.
        engine: Further arguments of ``vllm.LLM``, such as ``tensor_parallel_size=2``, if ``model``
            is a name or folder.

    Raises:
        SettingError: If a setting is not valid, or ``engine`` is passed together with a
            ``vllm.LLM``.
        MissingPackageError: If vllm is not installed.
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
        super().__init__(batch_size, max_new_tokens, temperature)
        self._vllm = package("vllm")
        by_name = isinstance(model, str | Path)
        self._source = str(model) if by_name else None
        self._settings = engine | {
            "name": name,
            "prompt": prompt,
            "batch_size": batch_size,
            "max_new_tokens": max_new_tokens,
            "temperature": temperature,
        }
        if engine and not by_name:
            raise SettingError(
                "model is a vllm.LLM object, whose settings cannot be changed here; pass "
                f"{', '.join(engine)} to vllm.LLM(...) instead"
            )
        self.model: Any = self._vllm.LLM(model=str(model), **engine) if by_name else model
        config = self.model.llm_engine.model_config
        self.name: str = name or str(config.model)
        self.tokenizer: Any = self.model.get_tokenizer()
        self.prompt: PromptMaker = prompt or own_prompt(
            self.tokenizer, config.max_model_len, max_new_tokens
        )
        self.seed: int = seed

    def __repr__(self) -> str:
        return f"VLLMGenerator({self.name!r})"

    def __reduce__(self) -> Any:
        if self._source is None:
            raise GenerationError(
                f"the engine of {self!r} cannot be sent to another process; create the generator "
                "with the model's name, and the other process loads the model"
            )
        make = partial(VLLMGenerator, **self._settings, seed=self.seed)
        return make, (self._source,)

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
        completions = [output.outputs[0] for output in outputs]
        self._count(
            [output.prompt_token_ids or () for output in outputs],
            [completion.token_ids for completion in completions],
        )
        texts = [completion.text for completion in completions]
        cut_off = [completion.finish_reason == "length" for completion in completions]
        return self._responses(queries, texts, prompts, cut_off)


def _is_adapter(model: str | Path) -> bool:
    return (Path(model) / "adapter_config.json").is_file()


def _load(transformers: Any, model: str | Path, options: dict[str, Any]) -> Any:
    """Load a model; if the folder contains an adapter, load its base model with the adapter."""
    load = transformers.AutoModelForCausalLM.from_pretrained
    if not _is_adapter(model):
        return load(model, **options)
    peft = package("peft")
    config = peft.PeftConfig.from_pretrained(model)
    base = load(config.base_model_name_or_path, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft triggers them in transformers
        return peft.PeftModel.from_pretrained(base, model)


def _check_bits(load_in: str, model: object) -> None:
    """Raise an error if a model cannot be loaded in 4 or 8 bits."""
    if load_in not in get_args(Bits):
        raise SettingError(f"load_in must be '4bit' or '8bit', got {load_in!r}")
    if isinstance(model, tuple):
        raise SettingError(
            "load_in can be set only if the model is given by name or folder, but this model is "
            "loaded already"
        )
    check_bitsandbytes(f"load_in={load_in!r}")


def _bits_options(
    transformers: Any, load_in: Bits | None, dtype: str | None, device: str
) -> dict[str, Any]:
    """Return the arguments that make transformers load a model in 4 or 8 bits.

    The result is empty if ``load_in`` is ``None``.
    """
    if load_in is None:
        return {}
    settings: dict[str, Any] = {"load_in_8bit": True}
    if load_in == "4bit":
        settings = {
            "load_in_4bit": True,
            "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_compute_dtype": dtype or "bfloat16",
        }
    place = "cuda:0" if device == "cuda" else device
    config = transformers.BitsAndBytesConfig(**settings)
    return {"quantization_config": config, "device_map": {"": place}}


def _without_end(rows: Sequence[list[int]], ends: int | list[int] | None) -> list[list[int]]:
    """Return the ids of each answer up to its first end token, without the padding after it."""
    end_ids = _end_ids(ends)
    return [
        row[: next((n for n, id_ in enumerate(row, 1) if id_ in end_ids), len(row))] for row in rows
    ]


def _end_ids(ends: int | list[int] | None) -> set[int]:
    return {ends} if isinstance(ends, int) else set(ends or ())


def _device(torch: Any) -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"

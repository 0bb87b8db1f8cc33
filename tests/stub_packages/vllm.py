"""A stand-in for vLLM with the parts of its interface that the library uses.

Its answer to a prompt is the first word of the last message, in capitals. The environment variable
``STUB_VLLM`` is the path of a file with one JSON line per engine and per batch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


def _log(**values: Any) -> None:
    with open(os.environ["STUB_VLLM"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"pid": os.getpid(), **values}) + "\n")


@dataclass
class SamplingParams:
    temperature: float
    max_tokens: int
    seed: int


class _Tokenizer:
    all_special_tokens: tuple[str, ...] = ()

    def get_added_vocab(self) -> dict[str, int]:
        return {}

    def encode(self, text: str, add_special_tokens: bool) -> list[str]:  # noqa: ARG002
        return text.split()


class LLM:
    def __init__(self, model: str, **settings: Any) -> None:
        if model == "missing":
            raise OSError("there is no such model")
        print("vLLM prints many lines")
        _log(model=model, settings=settings)
        config = SimpleNamespace(model=model, max_model_len=4096)
        self.llm_engine = SimpleNamespace(model_config=config)

    def get_tokenizer(self) -> _Tokenizer:
        return _Tokenizer()

    def chat(
        self,
        messages: Sequence[Sequence[dict[str, str]]],
        sampling_params: Sequence[SamplingParams],
        use_tqdm: bool,
    ) -> list[Any]:
        assert not use_tqdm
        texts = [conversation[-1]["content"] for conversation in messages]
        _log(batch=len(texts), seeds=[params.seed for params in sampling_params])
        if any("CRASH" in text for text in texts):
            os._exit(7)
        if any("RAISE" in text for text in texts):
            raise ValueError("a bad prompt")
        print("and some more")
        return [_output(text) for text in texts]


def _output(text: str) -> Any:
    word = text.split()[0].upper()
    completion = SimpleNamespace(
        text=f"<think>{word}?</think>{word}", token_ids=[1, 2, 3], finish_reason="stop"
    )
    return SimpleNamespace(outputs=[completion], prompt_token_ids=list(range(len(text.split()))))

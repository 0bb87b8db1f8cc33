"""Generators, which answer the queries of a dataset and return a run of responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.generation.base import Generator
    from mirage.generation.callables import Answer, CallableGenerator, ReplayGenerator
    from mirage.generation.http import HTTPGenerator, OpenAIGenerator
    from mirage.generation.local import TransformersGenerator, VLLMGenerator
    from mirage.generation.prompts import Prompt, PromptMaker, RagPrompt
    from mirage.generation.replies import PassageLike, Reply
    from mirage.generation.responses import ModelLike, respond
    from mirage.generation.short_answers import OracleAnswer, ShortAnswerPrompt

__all__ = [
    "Answer",
    "CallableGenerator",
    "Generator",
    "HTTPGenerator",
    "ModelLike",
    "OpenAIGenerator",
    "OracleAnswer",
    "PassageLike",
    "Prompt",
    "PromptMaker",
    "RagPrompt",
    "ReplayGenerator",
    "Reply",
    "ShortAnswerPrompt",
    "TransformersGenerator",
    "VLLMGenerator",
    "respond",
]

__getattr__, __dir__ = lazy(__name__, __file__)

"""Generators, which answer the queries of a dataset and return a run of responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage._base.lazy import lazy

if TYPE_CHECKING:
    from mirage.generation.base import Generator
    from mirage.generation.callables import Answer, ReplayGenerator
    from mirage.generation.http import HTTPGenerator, OpenAIGenerator
    from mirage.generation.local import TransformersGenerator, VLLMGenerator
    from mirage.generation.prompts import DatasetPrompt, Prompt, RagPrompt
    from mirage.generation.replies import Reply
    from mirage.generation.responses import respond
    from mirage.generation.short_answers import OracleAnswer, ShortAnswerPrompt
    from mirage.generation.templates import TemplatePrompt

__all__ = [
    "Answer",
    "DatasetPrompt",
    "Generator",
    "HTTPGenerator",
    "OpenAIGenerator",
    "OracleAnswer",
    "Prompt",
    "RagPrompt",
    "ReplayGenerator",
    "Reply",
    "ShortAnswerPrompt",
    "TemplatePrompt",
    "TransformersGenerator",
    "VLLMGenerator",
    "respond",
]

_NAMES = {
    "mirage.generation.base": ("Generator",),
    "mirage.generation.callables": ("Answer", "ReplayGenerator"),
    "mirage.generation.http": ("HTTPGenerator", "OpenAIGenerator"),
    "mirage.generation.local": ("TransformersGenerator", "VLLMGenerator"),
    "mirage.generation.prompts": ("DatasetPrompt", "Prompt", "RagPrompt"),
    "mirage.generation.replies": ("Reply",),
    "mirage.generation.responses": ("respond",),
    "mirage.generation.short_answers": ("OracleAnswer", "ShortAnswerPrompt"),
    "mirage.generation.templates": ("TemplatePrompt",),
}

__getattr__, __dir__ = lazy(__name__, _NAMES)

"""How the papers set their LLMs, where this library's defaults differ: for ``LLM(model, **...)``.

An :class:`~mirage.LLM` has the temperature 0 unless told otherwise: a second run then differs from
the first by as little as an endpoint allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["GENERATION", "SENTENCE_JUDGES"]

GENERATION: Mapping[str, Any] = MappingProxyType({"temperature": 0.1})
"""Of the LLMs that answer in MIRAGE-Bench (arXiv 2410.13716, appendix B)."""

SENTENCE_JUDGES: Mapping[str, Any] = MappingProxyType(
    {"temperature": 0.1, "parameters": {"top_p": 0.1}}
)
"""Of the LLMs that judge sentences in MEMERAG (arXiv 2502.17163, section 5.1).

They are asked again, five times at most, where they name no label, as those of
:class:`mirage.metaeval.LLMSentenceJudge` are.
"""

"""LLM settings of MIRAGE-Bench and MEMERAG that differ from the defaults of this library.

Pass them as keyword arguments, as in ``LLM(model, **GENERATION)``. The default temperature of
:class:`~mirage.LLM` is 0, so repeated runs differ as little as the endpoint allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

GENERATION: Mapping[str, Any] = MappingProxyType({"temperature": 0.1})
"""Settings of the LLMs that generate answers in MIRAGE-Bench (arXiv 2410.13716, appendix B)."""

SENTENCE_JUDGES: Mapping[str, Any] = MappingProxyType(
    {"temperature": 0.1, "parameters": {"top_p": 0.1}}
)
"""Settings of the LLMs that judge sentences in MEMERAG (arXiv 2502.17163, section 5.1).

If an LLM's answer contains no label, the LLM is asked again, at most five times, as in
:class:`mirage.metaeval.LLMSentenceJudge`.
"""

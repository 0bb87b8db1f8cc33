"""Clients for LLM endpoints, with caching, budgets and retries, and batches of questions."""

from __future__ import annotations

from mirage.llm.budget import Budget, Price
from mirage.llm.client import LLM, as_llm
from mirage.llm.estimates import Estimate
from mirage.llm.questions import Form, Question

__all__ = [
    "LLM",
    "Budget",
    "Estimate",
    "Form",
    "Price",
    "Question",
    "as_llm",
]

"""The one client through which every call to an LLM goes."""

from mirage.llm.budget import Budget, Price, Usage
from mirage.llm.cache import Cache
from mirage.llm.client import LLM, Completion, Connection, Message, estimate_tokens
from mirage.llm.estimates import Estimate

__all__ = [
    "LLM",
    "Budget",
    "Cache",
    "Completion",
    "Connection",
    "Estimate",
    "Message",
    "Price",
    "Usage",
    "estimate_tokens",
]

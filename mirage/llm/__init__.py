"""Clients for LLM endpoints, with caching, budgets and retries, and batches of questions."""

from mirage.llm.budget import Budget, Price, Usage
from mirage.llm.cache import Cache
from mirage.llm.client import LLM, Completion, Connection, Message, RerankForm, estimate_tokens
from mirage.llm.embeddings import embed_all
from mirage.llm.estimates import Estimate
from mirage.llm.questions import Form, Outcome, Question, ask_all
from mirage.llm.reranking import relevance_all

__all__ = [
    "LLM",
    "Budget",
    "Cache",
    "Completion",
    "Connection",
    "Estimate",
    "Form",
    "Message",
    "Outcome",
    "Price",
    "Question",
    "RerankForm",
    "Usage",
    "ask_all",
    "embed_all",
    "estimate_tokens",
    "relevance_all",
]

"""Queries in other words, or in another language, before passages are looked for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from mirage._base.files import read_rows
from mirage._base.logs import logger
from mirage.corpus import Corpus
from mirage.errors import DatasetError, LLMError
from mirage.languages import Language
from mirage.llm import LLM
from mirage.llm.questions import Form, Outcome, Question, ask_all
from mirage.models import Query
from mirage.retrieval.base import Retriever
from mirage.retrieval.run import RetrievalRun

__all__ = ["LLMQueryRewriter", "QueryRewriter", "RecordedQueries", "RewritingRetriever"]

_LOG = logger("mirage.retrieval")

LONGEST = 500
"""Characters of a rewritten query, at most: a longer one is an essay, not a query."""


@runtime_checkable
class QueryRewriter(Protocol):
    """Anything with these puts queries into other words."""

    @property
    def name(self) -> str:
        """What runs call it."""

    @property
    def fingerprint(self) -> str:
        """Changes with whatever changes its queries."""

    def rewrite(self, queries: Sequence[Query]) -> Sequence[Query]:
        """The same queries, by id and in order, with other texts and perhaps languages."""


class RewritingRetriever:
    """A retriever that is asked rewritten queries, such as translations; itself a retriever.

    What reranks, generates and measures still sees the original queries.

    Args:
        retriever: finds the passages.
        rewriter: rewrites the queries for it.
    """

    def __init__(self, retriever: Retriever, rewriter: QueryRewriter) -> None:
        self.retriever: Retriever = retriever
        self.rewriter: QueryRewriter = rewriter
        self.name: str = f"{rewriter.name}>{retriever.name}"

    @property
    def corpus(self) -> Corpus:
        """The retriever's."""
        return self.retriever.corpus

    @property
    def fingerprint(self) -> str:
        """Of both."""
        return repr((self.rewriter.fingerprint, self.retriever.fingerprint))

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """The best ``k`` passages for each query as it is rewritten.

        Raises:
            DatasetError: the rewriter gave other queries than it got.
        """
        asked = list(queries)
        rewritten = list(self.rewriter.rewrite(asked))
        if [query.id for query in rewritten] != [query.id for query in asked]:
            raise DatasetError(f"{self.rewriter.name} gave other queries than it got")
        found = self.retriever.retrieve(rewritten, k)
        return RetrievalRun(dict(found), self.name)


class RecordedQueries:
    """Rewritten queries that are at hand, such as translations made elsewhere.

    Args:
        texts: the new text by query id, or the path of JSON Lines with ``id`` (or ``query_id``) and
            ``text`` (or ``query``).
        language: of the new texts; by default that of the queries.
        name: what runs call it.

    Raises:
        DatasetError: the file cannot be read; names the line.
        UnknownNameError: no such language.
    """

    def __init__(
        self,
        texts: Mapping[str, str] | str | Path,
        *,
        language: str | None = None,
        name: str = "recorded",
    ) -> None:
        self.texts: dict[str, str] = (
            _recorded(Path(texts)) if isinstance(texts, str | Path) else dict(texts)
        )
        self.language: str | None = None if language is None else Language.of(language).code
        self.name = name

    @property
    def fingerprint(self) -> str:
        """Of the texts and their language."""
        return _digest(repr((self.language, sorted(self.texts.items()))))

    def rewrite(self, queries: Sequence[Query]) -> list[Query]:
        """The queries with these texts.

        Raises:
            DatasetError: there is no text for one of them; names it.
        """
        missing = next((query.id for query in queries if query.id not in self.texts), None)
        if missing is not None:
            raise DatasetError(f"the recorded queries have no text for query {missing!r}")
        return [_with(query, self.texts[query.id], self.language) for query in queries]


class LLMQueryRewriter:
    """Queries as an LLM translates them, or puts them for a search engine.

    Asked by the one client, so answers are cached and count in its budget. Where no answer can be
    read, or a call fails, the query stays as it is; how many did is logged, and in :attr:`kept`.

    Args:
        llm: is asked.
        language: the language to translate into; ``None`` rewrites in the query's own.

    Raises:
        UnknownNameError: no such language.
    """

    def __init__(self, llm: LLM, language: str | None = None) -> None:
        self.llm = llm
        self.language: str | None = None if language is None else Language.of(language).code
        does = "rewritten" if self.language is None else f"in {self.language}"
        self.name: str = f"{Path(llm.model).name} {does}".replace(" ", "-")
        self.kept: dict[str, str] = {}
        """Why a query stayed as it was, by id, when queries were last rewritten."""

    @property
    def fingerprint(self) -> str:
        """Of what is asked of which model, with which settings."""
        return _digest(
            repr((self.llm.digest(_question("", self.language, "").messages), FORM.text))
        )

    def rewrite(self, queries: Sequence[Query]) -> list[Query]:
        """The queries in new words; those that are in the language already stay.

        Raises:
            LLMError: no call was answered, or there is no key for OpenAI.
        """
        asked = [query for query in queries if query.language != self.language]
        questions = [_question(query.text, self.language, query.language) for query in asked]
        outcomes = dict(
            zip(
                (query.id for query in asked),
                ask_all(self.llm, questions, what="queries rewritten"),
                strict=True,
            )
        )
        self.kept = {id_: _reason(each) for id_, each in outcomes.items() if each.value is None}
        failed = [outcome.failed for outcome in outcomes.values() if outcome.failed]
        if failed and len(failed) == len(asked):
            raise LLMError(f"no query of {len(asked)} was rewritten; the first: {failed[0]}")
        if self.kept:
            first, why = next(iter(self.kept.items()))
            _LOG.warning(
                "%d of %d queries stay as they are; the first, %r: %s",
                len(self.kept),
                len(asked),
                first,
                why,
            )
        texts = {id_: each.value for id_, each in outcomes.items() if each.value is not None}
        return [
            _with(query, texts[query.id], self.language) if query.id in texts else query
            for query in queries
        ]


def _with(query: Query, text: str, language: str | None) -> Query:
    return query.model_copy(update={"text": text, "language": language or query.language})


def _reason(outcome: Outcome[str]) -> str:
    return outcome.failed or outcome.invalid


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _recorded(path: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    for where, row in read_rows(path):
        id_, text = row.get("id", row.get("query_id")), row.get("text", row.get("query"))
        if not isinstance(id_, str | int) or not isinstance(text, str) or not text.strip():
            raise DatasetError(f"{where}: expected an object with 'id' and 'text'")
        if texts.setdefault(str(id_), text) != text:
            raise DatasetError(f"{where}: query {str(id_)!r} stands here a second time")
    return texts


# What is asked ------------------------------------------------------------------------------------


def read_query(text: str) -> str | None:
    """The query that an answer consists of; ``None`` where it is empty, several lines or long."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != 1 or len(lines[0]) > LONGEST:
        return None
    return lines[0].strip("\"'“”„«»「」`* ") or None


FORM = Form(
    text="Write the new query alone: one line, without quotes, label or comment.",
    reminder="Your whole output has to be one line: the new query and nothing else.",
    read=read_query,
    sought="query on one line",
)

_TRANSLATE = "Translate a question into {language}, as a native speaker would ask it."
_REWRITE = (
    "Put a question as a query for a search engine, in the same language: keep every name, number "
    "and condition, spell out what is only hinted at, and leave out what is idle talk."
)


def _question(text: str, language: str | None, original: str) -> Question[str]:
    if language is None:
        name = f" It is in {Language.of(original).name}." if original else ""
        return Question(_REWRITE + name, "Rewrite the question", FORM, (("question", text),))
    task = _TRANSLATE.format(language=Language.of(language).name)
    return Question(task, "Translate the question", FORM, (("question", text),))

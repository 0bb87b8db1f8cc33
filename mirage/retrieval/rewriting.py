"""Query rewriting, which rewords or translates queries before retrieval."""

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
from mirage.llm import LLM, as_llm
from mirage.llm.questions import Form, Question, ask_all
from mirage.models import Query
from mirage.retrieval.base import Retriever
from mirage.retrieval.run import RetrievalRun

_LOG = logger("mirage.retrieval")

LONGEST = 500
"""The maximum number of characters of a rewritten query; longer responses are rejected."""


@runtime_checkable
class QueryRewriter(Protocol):
    """The interface of objects that reword or translate queries."""

    @property
    def name(self) -> str:
        """The name of the rewriter, which is added to the name of the retriever."""

    @property
    def fingerprint(self) -> str:
        """A string that changes whenever the rewriter might return other texts.

        It depends, for example, on the model and its prompt.
        """

    def rewrite(self, queries: Sequence[Query]) -> Sequence[Query]:
        """Return the queries in the same order, with the same ids and rewritten texts."""


class RewritingRetriever:
    """A retriever that rewrites queries, and then passes them to another retriever.

    A rewriter may translate queries, for example. Rerankers, generators and measures still get the
    original queries.

    Args:
        retriever: The retriever that finds passages for the rewritten queries.
        rewriter: The object that rewrites the queries.
    """

    def __init__(self, retriever: Retriever, rewriter: QueryRewriter) -> None:
        self.retriever: Retriever = retriever
        self.rewriter: QueryRewriter = rewriter
        self.name: str = f"{rewriter.name}>{retriever.name}"

    @property
    def corpus(self) -> Corpus:
        """The corpus of the retriever that gets the rewritten queries."""
        return self.retriever.corpus

    @property
    def fingerprint(self) -> str:
        """A string that consists of the fingerprints of the rewriter and the retriever."""
        return repr((self.rewriter.fingerprint, self.retriever.fingerprint))

    def retrieve(self, queries: Iterable[Query], k: int) -> RetrievalRun:
        """Rewrite the queries, and return the best ``k`` passages for each of them.

        Raises:
            DatasetError: The ids of the rewritten queries differ from those of ``queries``.
        """
        batch = list(queries)
        rewritten = list(self.rewriter.rewrite(batch))
        if [query.id for query in rewritten] != [query.id for query in batch]:
            raise DatasetError(
                f"{self.rewriter.name} must return one query per query that it receives, with the "
                "same id and in the same order, but the ids differ"
            )
        run = self.retriever.retrieve(rewritten, k)
        return RetrievalRun(dict(run), self.name)


class RecordedQueries:
    """A rewriter that replaces queries by recorded texts, such as existing translations.

    Args:
        texts: The new text of each query by query id, or the path of a JSON Lines file with the
            fields ``id`` (or ``query_id``) and ``text`` (or ``query``).
        language: The language of the new texts; by default the language of the original queries.
        name: The name of the rewriter, which is added to the name of the retriever.

    Raises:
        DatasetError: The file cannot be read, or a line is invalid; the message names the line.
        UnknownNameError: The language is unknown.
    """

    def __init__(
        self,
        texts: Mapping[str, str] | str | Path,
        *,
        language: str | None = None,
        name: str = "recorded",
    ) -> None:
        self.texts: dict[str, str] = (
            _read_texts(Path(texts)) if isinstance(texts, str | Path) else dict(texts)
        )
        self.language: str | None = None if language is None else Language.of(language).code
        self.name = name

    @property
    def fingerprint(self) -> str:
        """A digest of the texts and their language."""
        return _digest(repr((self.language, sorted(self.texts.items()))))

    def rewrite(self, queries: Sequence[Query]) -> list[Query]:
        """Return the queries with the recorded texts in place of their own.

        Raises:
            DatasetError: A query has no recorded text; the message names the query.
        """
        missing = next((query.id for query in queries if query.id not in self.texts), None)
        if missing is not None:
            raise DatasetError(
                f"the recorded rewritten queries have no text for query {missing!r}; add it"
            )
        return [_with_text(query, self.texts[query.id], self.language) for query in queries]


class LLMQueryRewriter:
    """A rewriter that lets an LLM translate queries, or reword them for a search engine.

    Responses are cached, and calls count towards the budget of the LLM. If a call fails or its
    response cannot be parsed, the query stays unchanged. The number of such queries is logged, and
    the attribute ``kept`` maps their ids to the reasons.

    Args:
        llm: The LLM that rewrites queries, or its name.
        language: The language to translate queries into. By default, queries are reworded in their
            own language.

    Raises:
        UnknownNameError: The language is unknown.
    """

    def __init__(self, llm: LLM | str, language: str | None = None) -> None:
        self.llm: LLM = as_llm(llm)
        self.language: str | None = None if language is None else Language.of(language).code
        suffix = "rewritten" if self.language is None else f"in {self.language}"
        self.name: str = f"{Path(self.llm.model).name} {suffix}".replace(" ", "-")
        self.kept: dict[str, str] = {}
        """The reasons why queries stayed unchanged in the last call, by query id."""

    @property
    def fingerprint(self) -> str:
        """A digest of the model, its settings and the prompt."""
        return _digest(
            repr((self.llm.digest(_question("", self.language, "").messages), FORM.text))
        )

    def rewrite(self, queries: Sequence[Query]) -> list[Query]:
        """Return the rewritten queries; queries in the target language stay unchanged.

        Raises:
            LLMError: Every call failed, or OpenAI is called without an API key.
        """
        pending = [query for query in queries if query.language != self.language]
        questions = [_question(query.text, self.language, query.language) for query in pending]
        outcomes = dict(
            zip(
                (query.id for query in pending),
                ask_all(self.llm, questions, what="queries rewritten"),
                strict=True,
            )
        )
        self.kept = {
            id_: each.failed or each.invalid for id_, each in outcomes.items() if each.value is None
        }
        failed = [outcome.failed for outcome in outcomes.values() if outcome.failed]
        if failed and len(failed) == len(pending):
            raise LLMError(
                f"none of the {len(pending)} queries was rewritten; the first error is: {failed[0]}"
            )
        if self.kept:
            first, why = next(iter(self.kept.items()))
            _LOG.warning(
                "%d of %d queries were not rewritten and stay unchanged; the first reason, for "
                "query %r, is: %s",
                len(self.kept),
                len(pending),
                first,
                why,
            )
        texts = {id_: each.value for id_, each in outcomes.items() if each.value is not None}
        return [
            _with_text(query, texts[query.id], self.language) if query.id in texts else query
            for query in queries
        ]


def _with_text(query: Query, text: str, language: str | None) -> Query:
    return query.model_copy(update={"text": text, "language": language or query.language})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _read_texts(path: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    for location, row in read_rows(path):
        id_, text = row.get("id", row.get("query_id")), row.get("text", row.get("query"))
        if not isinstance(id_, str | int) or not isinstance(text, str) or not text.strip():
            raise DatasetError(f"{location}: expected an object with 'id' and 'text'")
        if texts.setdefault(str(id_), text) != text:
            raise DatasetError(
                f"{location}: query {str(id_)!r} has a different text in an earlier line; ids must "
                "be unique"
            )
    return texts


# Prompts ------------------------------------------------------------------------------------------


def read_query(text: str) -> str | None:
    """Return the query in an LLM's response, without surrounding quotation marks.

    The result is ``None`` if the response is empty, has several lines, or is longer than
    :data:`LONGEST` characters.
    """
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

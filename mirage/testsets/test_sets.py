"""Test sets from documents: an LLM writes questions, and checks reject faulty questions.

:func:`build_test_set` selects passages that are worth asking about and has an LLM write an item
from each. It keeps items that pass the checks of :mod:`mirage.testsets.item_checks` and that the
LLM answers correctly from the passages. Rejected items are listed with the reason.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from mirage._base.journal import Journal
from mirage.corpus import Corpus
from mirage.corpus.documents import CHUNK
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.languages import Language
from mirage.llm import LLM
from mirage.llm.estimates import Estimate, estimate, sum_estimates
from mirage.models import Passage, Query
from mirage.retrieval import BM25
from mirage.testsets.askable import Askable, askable_passages, corpus_of, words_of
from mirage.testsets.instructions import holds_orders
from mirage.testsets.item_checks import (
    PAIRS,
    Draft,
    Fault,
    ItemKind,
    duplicate_of,
    faults_in,
    query_of,
    stands,
)
from mirage.testsets.item_questions import (
    Asker,
    LLMReply,
    Slot,
    answer_prompt,
    keep_answer,
    keep_draft,
    writing_prompt,
)
from mirage.testsets.item_sets import SKIPPED, ItemSet, RejectedItem, beside, documents_of
from mirage.text import abstains, mentioned
from mirage.text.abstentions import ABSTAINS_AT

T = TypeVar("T")

ITEM_KINDS: Mapping[ItemKind, float] = {
    "single": 0.35,
    "list": 0.15,
    "date": 0.1,
    "two_passages": 0.1,
    "comparison": 0.1,
    "near_miss": 0.2,
}
"""The default shares of the kinds of items."""

DRAFTS_PER_ITEM = 3
"""The largest number of drafts per requested item."""

MOST_USES_PER_PASSAGE = 3
"""The largest number of drafts about one passage, if there are few passages."""

PARTNER_DEPTH = 50
"""The number of similar passages from which the second passage of an item is chosen."""

RANK_DEPTH = 50
"""The number of search results among which an item's own passages are ranked (``found_at``)."""

SEARCH_DEPTH = 50
"""The number of search results that are examined for distractors, or for a stated answer."""


# The plan -----------------------------------------------------------------------------------------


class SlotQueue:
    """A deterministic queue of planned items (slots), each with its kind and its passages.

    Args:
        askable: The passages worth asking about, which are used in their order.
        index: Index of the documents. It is searched for a second, similar passage if an item is
            about two passages.
    """

    def __init__(self, askable: Askable, index: BM25) -> None:
        self.index = index
        self.waiting = deque(askable.passages * MOST_USES_PER_PASSAGE)
        self.batch_limit = len(askable.passages)  # no passage is used twice in one batch
        self.by_document: dict[str, list[Passage]] = {}
        for passage in askable.passages:
            self.by_document.setdefault(passage.document_id, []).append(passage)
        self.slot_count = 0

    def next_slots(self, kinds: Sequence[ItemKind], deferred: Collection[str] = ()) -> list[Slot]:
        """Return one planned item (slot) for each of these kinds, or fewer if passages run out.

        Passages whose ids are in ``deferred`` are used last.
        """
        # The sort is stable, so the order of passages is otherwise unchanged.
        self.waiting = deque(sorted(self.waiting, key=lambda passage: passage.id in deferred))
        used_documents = {passage.document_id for passage in self.waiting if passage.id in deferred}
        slots = []
        for kind in kinds[: self.batch_limit]:
            if not self.waiting:
                break
            passage = self.waiting.popleft()
            partner = self._partner(passage, used_documents) if kind in PAIRS else None
            passages = (passage,) if partner is None else (passage, partner)
            used_documents |= {each.document_id for each in passages}
            # The partner was just used, so its own turn comes last.
            if partner is not None and partner in self.waiting:
                self.waiting.remove(partner)
                self.waiting.append(partner)
            self.slot_count += 1
            if kind in PAIRS and partner is None:
                kind = "single"
            slots.append(Slot(f"q{self.slot_count:03}", kind, passages))
        return slots

    def _partner(self, passage: Passage, used_documents: Collection[str]) -> Passage | None:
        """Return the most similar passage of the same document, or else of the corpus.

        In the corpus, documents that are not in ``used_documents`` are preferred. An item about two
        documents merges all items about either document into one cluster, and fewer clusters mean
        less evidence in comparisons. The result is ``None`` if no similar passage exists.
        """
        candidates = [other for other in self.by_document[passage.document_id] if other != passage]
        if candidates:
            ids = [other.id for other in candidates]
            scores = self.index.scores(passage.text, ids)
            return candidates[max(range(len(candidates)), key=scores.__getitem__)]
        hits = [hit.passage for hit in self.index.search(passage.text, PARTNER_DEPTH + 1)]
        candidates = [other for other in hits if other.id != passage.id]
        return min(candidates, key=lambda other: other.document_id in used_documents, default=None)


def quota_of(kinds: Mapping[ItemKind, float], items: int) -> list[ItemKind]:
    """Return the kind of each item to build, in an order that mixes the kinds.

    For every ``n``, the kinds have about the requested shares among the first ``n`` items.
    """
    total = sum(kinds.values())
    counts: Counter[ItemKind] = Counter()
    order: list[ItemKind] = []
    for number in range(1, items + 1):
        # The next kind is the one that is furthest behind its share.
        kind = max(kinds, key=lambda kind: number * kinds[kind] / total - counts[kind])
        counts[kind] += 1
        order.append(kind)
    return order


# Building -----------------------------------------------------------------------------------------


def build_test_set(
    documents: Corpus | str | Path | Iterable[Passage] | Sequence[str | Path],
    *,
    language: str,
    llm: LLM,
    items: int = 50,
    kinds: Mapping[ItemKind, float] = ITEM_KINDS,
    shown: int = 5,
    size: int = CHUNK,
    overlap: int = 0,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool = True,
) -> ItemSet:
    """Build a test set from documents: an LLM writes items, and checks reject faulty items.

    Passages worth asking about are selected from all documents
    (:func:`~mirage.testsets.askable_passages`). For each passage, the LLM writes a question, short
    answers, wrong answers and a reference. Items are first checked without an LLM
    (:func:`~mirage.testsets.faults_in`, :func:`~mirage.testsets.duplicate_of`). Then the LLM
    answers the question twice: from the passages that the item shows, and without passages. An item
    is rejected if the answer from the passages is not correct. A question that should have no
    answer is rejected in two cases: the LLM answers it from the passages, or a passage of the
    corpus states the answer that the LLM gives without passages. Rejected items are replaced, with
    at most three drafts per requested item.

    An item shows the passages that it was written from. It also shows distractors: passages that
    BM25 retrieves for the question and that do not state an answer. Items about the same
    document form a cluster. If an item is about two documents, all items about either of them form
    one cluster.

    If ``out`` is given, the items are written to this file, and the rejected items to
    ``NAME.rejected.jsonl``. Replies of the LLM are appended to ``NAME.journal.jsonl``. After an
    interruption, the same call resumes from these replies.

    Args:
        documents: The documents: a corpus, paths of files, or passages; see
            :func:`~mirage.testsets.corpus_of`.
        language: ISO 639-1 code of the documents and of the items.
        llm: The LLM that writes the items and answers them.
        items: Number of items to build.
        kinds: Relative share of each kind of item; the shares need not add up to 1.
        shown: Number of passages that an item shows.
        size: Number of words per passage, if documents are split.
        overlap: Number of words that a passage repeats from the previous one.
        seed: Random seed for the order of documents.
        out: The file of the dataset; by default nothing is written.
        progress: Whether to show progress bars on stderr, if stderr is a terminal.

    Returns:
        The items that passed all checks, the rejected items with their faults, and the passages
        that were considered.

    Raises:
        DatasetError: If the documents cannot be read, no passage is worth asking about, no item
            passed, or a file cannot be written.
        LLMError: If OpenAI is called without an API key.
        SettingError: If ``items`` or ``shown`` is out of range, or no kind has a share.
        UnknownNameError: If the language or a kind is unknown.
    """
    check_plan(items, kinds, shown)
    entry = Language.with_board(language)
    index, askable = prepare_index(documents, entry, size, overlap, seed, progress)
    journal_path = None if out is None else beside(Path(out), "journal")
    with Journal(journal_path, LLMReply) as journal:
        asker = Asker(llm, journal, progress)
        builder = ItemBuilder(
            asker, index, entry, shown, instruction_words=askable.instruction_words
        )
        queue = SlotQueue(askable, index)
        quota = quota_of(kinds, items)
        while len(builder.queries) < items and queue.slot_count < DRAFTS_PER_ITEM * items:
            missing_kinds = _missing_kinds(quota, builder.queries)[
                : DRAFTS_PER_ITEM * items - queue.slot_count
            ]
            slots = queue.next_slots(missing_kinds, builder.used_passages)
            if not slots:
                break
            builder.write_items(slots, asker)
            if builder.stopped:
                break
    rejected = tuple(sorted(builder.rejected, key=lambda item: int(item.id[1:])))
    rejected = (*rejected, *_skipped_passages(askable))
    result = ItemSet(assign_clusters(builder.queries), rejected, askable, items, entry.code)
    if out is not None:
        result.write(out)
    return result


def estimate_test_set(
    documents: Corpus | str | Path | Iterable[Passage] | Sequence[str | Path],
    *,
    language: str,
    llm: LLM,
    items: int = 50,
    kinds: Mapping[ItemKind, float] = ITEM_KINDS,
    shown: int = 5,
    size: int = CHUNK,
    overlap: int = 0,
    seed: int = 0,
    progress: bool = True,
) -> Estimate:
    """Estimate the cost of :func:`build_test_set` with these arguments if no draft is rejected.

    An item takes three calls. A rejected draft, which the estimate does not include, takes one to
    three more. Nothing is sent to the LLM. The questions do not exist yet, so the estimate uses the
    first words of a passage in place of each question.

    Args:
        documents: The documents: a corpus, paths of files, or passages; see
            :func:`~mirage.testsets.corpus_of`.
        language: ISO 639-1 code of the documents and of the items.
        llm: The LLM that would write the items and answer them.
        items: Number of items to build.
        kinds: Relative share of each kind of item; the shares need not add up to 1.
        shown: Number of passages that an item shows.
        size: Number of words per passage, if documents are split.
        overlap: Number of words that a passage repeats from the previous one.
        seed: Random seed for the order of documents.
        progress: Whether to show a progress bar on stderr, if stderr is a terminal.

    Raises:
        DatasetError: If the documents cannot be read, or no passage is worth asking about.
        SettingError: If ``items`` or ``shown`` is out of range, or no kind has a share.
        UnknownNameError: If the language or a kind is unknown.
    """
    check_plan(items, kinds, shown)
    entry = Language.with_board(language)
    index, askable = prepare_index(documents, entry, size, overlap, seed, progress)
    slots = SlotQueue(askable, index).next_slots(quota_of(kinds, items))
    writing_prompts = [writing_prompt(slot, entry) for slot in slots]
    answer_prompts = []
    for slot in slots:
        text = " ".join(slot.passages[0].text.split()[:20])[:200]
        passages = [hit.passage for hit in index.search(text, shown)]
        answer_prompts += [answer_prompt(text, passages, entry), answer_prompt(text, (), entry)]
    return sum_estimates((estimate(llm, writing_prompts), estimate(llm, answer_prompts)))


def _skipped_passages(askable: Askable) -> Iterator[RejectedItem]:
    for number, (id_, excerpt) in enumerate(askable.instructions, 1):
        fault = Fault(kind=SKIPPED, detail=excerpt)
        yield RejectedItem(id=f"s{number:03}", kind="single", faults=(fault,), passages=(id_,))


MOST_ITEMS = 2000
"""The largest number of items; the time to search for duplicates grows with its square."""


def check_plan(items: int, kinds: Mapping[ItemKind, float], passages_per_item: int) -> None:
    """Raise an error if the numbers or shares of items are out of range."""
    if items < 1 or passages_per_item < 2:
        raise SettingError(
            "items must be at least 1, and shown (passages per item) at least 2; got "
            f"items={items}, shown={passages_per_item}"
        )
    if items > MOST_ITEMS:
        raise SettingError(
            f"items must be at most {MOST_ITEMS}, got {items}, because each item is compared with "
            "all others; build several test sets from parts of the documents"
        )
    for kind, share in kinds.items():
        if kind not in ITEM_KINDS:
            raise UnknownNameError("kind of item", kind, ITEM_KINDS)
        if not share >= 0:
            raise SettingError(f"the share of kind {kind!r} must be at least 0, got {share}")
    if not sum(kinds.values()) > 0:
        raise SettingError("at least one kind of item must have a share above 0")


def prepare_index(
    documents: Any, entry: Language, size: int, overlap: int, seed: int, progress: bool
) -> tuple[BM25, Askable]:
    """Return a BM25 index of the documents, and the passages that are worth asking about.

    Args:
        documents: The documents: a corpus, paths of files, or passages; see
            :func:`~mirage.testsets.corpus_of`.
        entry: The language of the documents.
        size: Number of words per passage, if documents are split.
        overlap: Number of words that a passage repeats from the previous one.
        seed: Random seed for the order of documents.
        progress: Whether to show a progress bar on stderr, if stderr is a terminal.

    Raises:
        DatasetError: If the documents cannot be read, or no passage is worth asking about.
    """
    corpus = corpus_of(documents, entry, size=size, overlap=overlap)
    askable = askable_passages(corpus, entry, seed=seed)
    if not askable.passages:
        reasons = ", ".join(f"{reason}: {n}" for reason, n in askable.passed_over.items())
        reasons += "".join(f"; {id_}: {excerpt!r}" for id_, excerpt in askable.instructions[:1])
        raise DatasetError(
            f"no passage is suitable for writing questions in {entry.name} ({reasons}); give "
            "other documents"
        )
    return BM25.build(corpus, language=entry.code, progress=progress), askable


def _missing_kinds(quota: Sequence[ItemKind], queries: Iterable[Query]) -> list[ItemKind]:
    """Return the kinds of the items that are still missing, in the order of the quota.

    ``quota`` lists the kinds of all requested items, and ``queries`` are the accepted items.
    """
    item_counts = Counter(query.metadata["kind"] for query in queries)
    missing = []
    for kind in quota:
        if item_counts[kind]:
            item_counts[kind] -= 1
        else:
            missing.append(kind)
    # Items of another kind than planned, such as pairs without a partner, replace missing ones.
    return missing[: len(missing) - sum(item_counts.values())]


class ItemBuilder:
    """A collector of accepted items and rejected drafts, which checks drafts in batches.

    Args:
        asker: The client of the LLM that answers the questions; ``None`` skips this check.
        index: Index of the documents, which is searched for distractors.
        entry: The language of the items.
        passages_per_item: Number of passages that an item shows.
        complete: If true, wrong answers and a reference are required, and drafts must neither copy
            a passage nor obey instructions in it.
        instruction_words: Words that occur only in instructions to a reader or a model. A draft
            with such a word in its question or answers is rejected.
    """

    def __init__(
        self,
        asker: Asker | None,
        index: BM25,
        entry: Language,
        passages_per_item: int,
        complete: bool = True,
        instruction_words: Collection[str] = (),
    ) -> None:
        self.asker, self.index, self.entry, self.passages_per_item = (
            asker,
            index,
            entry,
            passages_per_item,
        )
        self.instruction_words = instruction_words
        self.complete = complete
        self.queries: list[Query] = []
        self.rejected: list[RejectedItem] = []
        self.earlier_questions: dict[str, list[str]] = {}
        # Passages that have an item, or about which the LLM could not write one.
        self.used_passages: set[str] = set()
        self.stopped = False

    def write_items(self, slots: Sequence[Slot], asker: Asker) -> None:
        """Have the LLM write the items of these slots, and check them."""
        questions = [
            writing_prompt(slot, self.entry, self._questions_about(slot)) for slot in slots
        ]
        replies = asker.ask(questions, "items written", keep_draft)
        drafts = []
        for slot, reply in zip(slots, replies, strict=True):
            self._remember(slot, reply)
            draft, faults = _draft_of(reply)
            if draft is None:
                self._reject(slot, draft, faults)
            else:
                drafts.append((slot, draft))
        self.check(drafts)

    def check(self, drafts: Iterable[tuple[Slot, Draft]]) -> None:
        """Keep the drafts that pass all checks, and record the others as rejected."""
        waiting: list[tuple[Slot, Draft, Query]] = []
        for slot, draft in drafts:
            faults = faults_in(draft, slot.kind, slot.passages, self.entry, complete=self.complete)
            faults += self._instruction_faults(draft)
            if faults:
                self._reject(slot, draft, faults)
                continue
            query = self._with_distractors(slot, draft)
            earlier_queries = [*self.queries, *(each for *_, each in waiting)]
            faults = _duplicate_faults(query, earlier_queries)
            if faults:
                self._reject(slot, draft, faults)
            else:
                waiting.append((slot, draft, query))
        if self.asker is None:
            for slot, _, query in waiting:
                self._accept(slot, query, {})
        else:
            self._check_answers(waiting, self.asker)

    def _instruction_faults(self, draft: Draft) -> list[Fault]:
        text = "\n".join((draft.question, *(form for forms in draft.answers for form in forms)))
        word = next(
            (word for word in words_of(text, self.entry) if word in self.instruction_words), None
        )
        return [] if word is None else [Fault(kind="named by instructions alone", detail=word)]

    def _remember(self, slot: Slot, reply: LLMReply | str) -> None:
        """Store a question under each of its passages, so that the LLM does not repeat it."""
        if isinstance(reply, LLMReply) and reply.draft is not None and reply.draft.question:
            for passage in slot.passages:
                self.earlier_questions.setdefault(passage.id, []).append(reply.draft.question)

    def _questions_about(self, slot: Slot) -> list[str]:
        return [
            text for passage in slot.passages for text in self.earlier_questions.get(passage.id, ())
        ]

    def _with_distractors(self, slot: Slot, draft: Draft) -> Query:
        """Convert a draft to a query that shows the draft's passages and distractors."""
        query = query_of(draft, slot.kind, slot.passages, self.entry, id=slot.id)
        return with_distractors(query, self.index, self.passages_per_item)

    def _check_answers(self, waiting: Sequence[tuple[Slot, Draft, Query]], asker: Asker) -> None:
        """Have the LLM answer the questions, and accept or reject the items by its answers.

        Each question is answered twice: from the passages of the item, and without passages.
        """
        queries = [query for *_, query in waiting]
        open_book = [answer_prompt(query.text, query.passages, self.entry) for query in queries]
        closed_book = [answer_prompt(query.text, (), self.entry) for query in queries]
        replies = asker.ask([*open_book, *closed_book], "items answered", keep_answer)
        reply_pairs = zip(replies[: len(queries)], replies[len(queries) :], strict=True)
        for (slot, draft, query), query_replies in zip(waiting, reply_pairs, strict=True):
            failures = [each for each in query_replies if isinstance(each, str)]
            if failures:
                self._reject(slot, draft, [_not_asked_fault(failures[0])])
                continue
            open_answer, closed_answer = (_answer_of(each) for each in query_replies)
            faults = self._answer_faults(query, open_answer, closed_answer)
            if faults:
                self._reject(slot, draft, faults)
            else:
                verdict = _rate_answer(query, closed_answer, self.entry)
                self._accept(slot, query, {"closed_book": verdict, "checked_by": asker.llm.model})

    def _accept(self, slot: Slot, query: Query, answer_metadata: Mapping[str, str]) -> None:
        metadata = {
            **query.metadata,
            "document": slot.passages[0].document_id,
            "found_at": self._own_passage_rank(query, slot),
            **answer_metadata,
        }
        self.queries.append(query.model_copy(update={"metadata": metadata}))
        self.used_passages.update(passage.id for passage in slot.passages)

    def _own_passage_rank(self, query: Query, slot: Slot) -> str:
        """Return the best BM25 rank among the passages that the item was written from.

        Ranks start at 1. The rank is returned as a text, or ``beyond 50`` if none of these passages
        is among the first 50 results.
        """
        own_ids = {passage.id for passage in slot.passages}
        hit_ids = [hit.passage.id for hit in self.index.search(query.text, RANK_DEPTH)]
        ranks = (n for n, id_ in enumerate(hit_ids, 1) if id_ in own_ids)
        return str(next(ranks, f"beyond {RANK_DEPTH}"))

    def _answer_faults(self, query: Query, open_answer: str, closed_answer: str) -> list[Fault]:
        if query.answerable:
            if states_all(query, open_answer, self.entry):
                return []
            return [Fault(kind="not answered from the passages", detail=open_answer or "no answer")]
        if not _is_abstention(open_answer, query, self.entry):
            return [
                Fault(
                    kind="answered by a passage",
                    detail=f"the LLM answered {open_answer!r} from the passages",
                )
            ]
        if _is_abstention(closed_answer, query, self.entry):
            return []
        for hit in self.index.search(f"{query.text} {closed_answer}", SEARCH_DEPTH):
            if stands(closed_answer, hit.passage.titled_text, self.entry):
                detail = (
                    f"the LLM answered {closed_answer!r}, which passage {hit.passage.id} states"
                )
                return [Fault(kind="answered by a passage", detail=detail)]
        return []

    def _reject(self, slot: Slot, draft: Draft | None, faults: Sequence[Fault]) -> None:
        ids = tuple(passage.id for passage in slot.passages)
        item = RejectedItem(
            id=slot.id, kind=slot.kind, faults=tuple(faults), passages=ids, draft=draft
        )
        self.rejected.append(item)
        # After a failed call, such as an exhausted budget, no further items are tried.
        self.stopped |= faults[0].kind == "not asked"
        if faults[0].kind in ("skipped", "unreadable"):
            self.used_passages.update(ids)


def _duplicate_faults(query: Query, earlier_queries: Sequence[Query]) -> list[Fault]:
    duplicate = duplicate_of(query, earlier_queries)
    return [] if duplicate is None else [Fault(kind="duplicate", detail=f"of {duplicate.id}")]


def _not_asked_fault(why: str) -> Fault:
    return Fault(kind="not asked", detail=why)


def _draft_of(reply: LLMReply | str) -> tuple[Draft | None, list[Fault]]:
    """Return the draft in a reply, and the faults of the reply.

    Without faults, the list is empty; otherwise the draft is ``None``.
    """
    if isinstance(reply, str):
        return None, [_not_asked_fault(reply)]
    if reply.draft is None:
        return None, [Fault(kind="unreadable", detail=reply.unreadable)]
    return reply.draft, []


def _answer_of(reply: LLMReply | str) -> str:
    """Return the answer of a reply, or an empty text if it cannot be parsed."""
    return "" if isinstance(reply, str) or reply.answer is None else reply.answer


def states_all(query: Query, text: str, entry: Language) -> bool:
    """Return whether a text in the language ``entry`` states every short answer of a query."""
    return bool(text) and all(
        mentioned(forms, text, entry.code) or any(stands(form, text, entry) for form in forms)
        for forms in query.answers
    )


def _is_abstention(answer: str, query: Query, entry: Language) -> bool:
    """Return whether an answer is empty or an abstention."""
    return not answer.strip() or abstains(answer, entry, question=query.text) >= ABSTAINS_AT


def _rate_answer(query: Query, answer: str, entry: Language) -> Literal["right", "wrong", "none"]:
    if _is_abstention(answer, query, entry):
        return "none"
    return "right" if query.answers and states_all(query, answer, entry) else "wrong"


def with_distractors(query: Query, index: BM25, passage_count: int) -> Query:
    """Add distractors to a query until it shows ``passage_count`` passages, if there are enough.

    Distractors are passages that BM25 finds for the question and that state none of its answers.
    All passages are ordered by their BM25 scores, so that the order does not reveal which passages
    are distractors.
    """
    entry = Language.of(query.language)
    own_passages = {passage.id: passage for passage in query.passages}
    room = max(0, passage_count - len(own_passages))
    distractors: list[Passage] = []
    for hit in index.search(query.text, SEARCH_DEPTH):
        if len(distractors) == room:
            break
        passage = hit.passage
        if passage.id in own_passages or states_some(query, passage, entry):
            continue
        # Instructions in a distractor would also reach the systems that are tested.
        if holds_orders(passage.titled_text):
            continue
        distractors.append(passage)
    passages = [*own_passages.values(), *distractors]
    scores = index.scores(query.text, [passage.id for passage in passages])
    order = sorted(range(len(passages)), key=lambda n: (-scores[n], passages[n].id))
    return query.model_copy(update={"passages": tuple(passages[n] for n in order)})


def states_some(query: Query, passage: Passage, entry: Language) -> bool:
    """Return whether a passage in the language ``entry`` states a short answer of a query."""
    text = passage.titled_text
    return any(stands(form, text, entry) for forms in query.answers for form in forms)


def assign_clusters(queries: Iterable[Query]) -> tuple[Query, ...]:
    """Return copies of the queries with a cluster assigned to each.

    Queries that share a document, directly or through other queries, have the same cluster.
    """
    # Union-find over documents.
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    queries = list(queries)
    for query in queries:
        for document in documents_of(query):
            parent[root(document)] = root(query.metadata["document"])
    return tuple(
        query.model_copy(update={"cluster": root(query.metadata["document"])}) for query in queries
    )

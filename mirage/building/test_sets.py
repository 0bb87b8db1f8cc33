"""Test sets from documents: questions that an LLM writes, and checks that let few faults through.

:func:`build_test_set` chooses passages that are worth asking about, has an LLM write an item from
each, and keeps what passes the checks of :mod:`mirage.building.item_checks` and is answered rightly
from the passages that it shows.
What fails is listed with its reason.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from mirage._base.files import (
    json_object,
    lines,
    read_rows,
    refuse_link,
    validated,
    write_records,
    writing,
)
from mirage._base.journal import Journal
from mirage._base.tables import Table, to_text
from mirage.building.askable import Askable, askable_passages, corpus_of, words_of
from mirage.building.evaluation_sets import reason_counts
from mirage.building.instructions import holds_orders
from mirage.building.item_checks import (
    PAIRS,
    Draft,
    Fault,
    FaultKind,
    ItemKind,
    duplicate_of,
    faults_in,
    query_of,
    stands,
)
from mirage.building.item_questions import (
    Asker,
    Slot,
    Told,
    answering,
    keep_answer,
    keep_draft,
    writing_of,
)
from mirage.corpus import Corpus
from mirage.corpus.documents import CHUNK
from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, SettingError, UnknownNameError
from mirage.languages import Language
from mirage.llm import LLM
from mirage.llm.estimates import Estimate, estimate, sum_estimates
from mirage.models import Id, Passage, Query, Record
from mirage.retrieval import BM25
from mirage.text import ABSTAINS_AT, abstains, mentioned

__all__ = [
    "ITEM_KINDS",
    "ItemSet",
    "RejectedItem",
    "build_test_set",
    "estimate_test_set",
    "read_rejected",
    "strike",
]

T = TypeVar("T")

ITEM_KINDS: Mapping[ItemKind, float] = {
    "single": 0.35,
    "list": 0.15,
    "date": 0.1,
    "two_passages": 0.1,
    "comparison": 0.1,
    "near_miss": 0.2,
}
"""The shares of the kinds of items, unless others are asked for."""

CLEARING = 29
"""Clusters that it takes to say of a system without any loss that less than a tenth is lost.

At the level 0.95 (:func:`mirage.statistics.upper_bounds`): ``log(0.05) / log(0.9)``.
"""

ATTEMPTS = 3
"""Drafts for each item that is wanted, at most."""

REUSE = 3
"""How often a passage is asked about, at most, where there are few."""

PARTNERS = 50
"""Passages, the likest first, among which the second one of a pair is chosen."""

FOUND_AMONG = 50
"""Passages among which the first of its own is looked for, by the words of a question."""

LOOKED_THROUGH = 50
"""Passages in which an answer to a question that has none is looked for."""


SKIPPED: FaultKind = "instructions in the passage"
"""The fault of a passage that nothing is asked about."""


class RejectedItem(Record):
    """An item that is not in the test set, and why; or a passage that was skipped.

    Attributes:
        id: that of its place in the plan; no item of the set has it.
        kind: what it was to be.
        faults: what is wrong with it, one or more.
        passages: the ids of the passages that it was written from.
        draft: what was written; ``None`` where nothing that can be read was.
    """

    id: Id
    kind: ItemKind
    faults: tuple[Fault, ...]
    passages: tuple[Id, ...]
    draft: Draft | None = None


@dataclass(frozen=True, eq=False, repr=False)
class ItemSet:
    """Items that passed all checks, those that did not, and how far they cover the documents.

    It prints as a table of what became of the drafts.

    Attributes:
        queries: the items, in the order in which they were planned. ``metadata`` says of each its
            ``kind``, its ``document``, at which place the words of the question find the first of
            its passages in the corpus (``found_at``), and in ``closed_book`` whether the LLM knew
            the answer without passages (``right``), said another one (``wrong``), or said none
            (``none``).
        rejected: the others, with what is wrong with each.
        askable: the passages worth asking about.
        wanted: how many items were asked for.
        language: of all items, as ISO 639-1 code.
    """

    queries: tuple[Query, ...]
    rejected: tuple[RejectedItem, ...]
    askable: Askable
    wanted: int
    language: str

    @property
    def dataset(self) -> MirageDataset:
        """The items as a dataset.

        Raises:
            DatasetError: there is none.
        """
        if not self.queries:
            first = next((f": {f.detail}" for item in self.rejected for f in item.faults), "")
            reasons = self._reasons() or "none was written"
            raise DatasetError(f"no item passed the checks ({reasons}; the first{first})")
        return MirageDataset(self.queries, name=f"made-{self.language}")

    @property
    def covered(self) -> int:
        """How many documents an item has a relevant passage, or a near miss, of."""
        return len({document for query in self.queries for document in _documents(query)})

    @property
    def counts(self) -> dict[str, int]:
        """How many drafts there were, were rejected for each reason, and passed; and coverage."""
        first = Counter(item.faults[0].kind for item in self.rejected)
        skipped = first.pop(SKIPPED, 0)
        kinds = Counter(query.metadata["kind"] for query in self.queries)
        return {
            "drafts": len(self.queries) + first.total(),
            **{reason: first[reason] for reason in get_args(FaultKind) if first[reason]},
            "items": len(self.queries),
            **{f"kind {kind}": kinds[kind] for kind in get_args(ItemKind) if kinds[kind]},
            "known without passages": sum(
                query.metadata.get("closed_book") == "right" for query in self.queries
            ),
            "passages skipped for instructions": skipped,
            "documents": self.askable.documents,
            "documents worth asking about": self.askable.askable_documents,
            "documents covered": self.covered,
            "clusters": len({query.cluster for query in self.queries}),
        }

    @property
    def unasked(self) -> int:
        """How many drafts the LLM gave no answer on; the same call asks for them again."""
        return sum(item.faults[0].kind == "not asked" for item in self.rejected)

    def _reasons(self) -> str:
        return reason_counts(item.faults[0].kind for item in self.rejected)

    def __repr__(self) -> str:
        return f"ItemSet({len(self.queries)} items, {len(self.rejected)} rejected)"

    def __str__(self) -> str:
        counts = self.counts
        rest, rows = counts["drafts"], [("drafts", "", str(counts["drafts"]))]
        for reason in get_args(FaultKind):
            if reason in counts:
                rest -= counts[reason]
                rows.append((reason, str(counts[reason]), str(rest)))
        kinds = ", ".join(
            f"{kind} {counts[f'kind {kind}']}"
            for kind in get_args(ItemKind)
            if f"kind {kind}" in counts
        )
        few = f", and {CLEARING} are the fewest of which `no worse` can be said"
        skipped = [item.passages[0] for item in self.rejected if item.faults[0].kind == SKIPPED]
        names = ", ".join(skipped[:5]) + (", ..." if len(skipped) > 5 else "")
        instructions = (
            f"passages skipped because they tell a reader or a model what to do: {len(skipped)} "
            f"({names})"
        )
        notes = (
            *([instructions] if skipped else ()),
            f"{len(self.queries)} of {self.wanted} items that were asked for; {kinds or 'no kind'}",
            f"covered: {counts['documents covered']} documents of {counts['documents']}, of which "
            f"{counts['documents worth asking about']} have a passage worth asking about",
            f"known without passages: {counts['known without passages']}",
            f"clusters, of items that share a document: {counts['clusters']}; each counts as one "
            f"query where two runs are compared{few if counts['clusters'] < CLEARING else ''}",
        )
        head, marks = ("draft", "rejected", "left"), (False,) * len(rows)
        return to_text(Table("A test set from documents", head, tuple(rows), marks, notes, name=0))

    def write(self, path: str | Path) -> None:
        """Write the items as a dataset, and the rejected ones beside it (``NAME.rejected.jsonl``).

        Raises:
            DatasetError: there is no item, or a file cannot be written.
        """
        place = Path(path)
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
        write_records(self.rejected, beside(place, "rejected"))
        self.dataset.to_jsonl(place)


def beside(path: Path, what: str) -> Path:
    """Return the file of a dataset that holds something else of it: ``tests.rejected.jsonl``.

    Raises:
        DatasetError: it is a symbolic link.
    """
    place = path.with_name(f"{path.stem}.{what}.jsonl")
    refuse_link(place)
    return place


# The plan -----------------------------------------------------------------------------------------


class Plan:
    """Passages to ask about, handed out a wave at a time; the same calls give the same slots."""

    def __init__(self, askable: Askable, index: BM25) -> None:
        self.index = index
        self.waiting = deque(askable.passages * REUSE)
        self.most = len(askable.passages)  # a wave asks about no passage twice
        self.by_document: dict[str, list[Passage]] = {}
        for passage in askable.passages:
            self.by_document.setdefault(passage.document_id, []).append(passage)
        self.made = 0

    def wave(self, kinds: Sequence[ItemKind], done: Collection[str] = ()) -> list[Slot]:
        """Slots for items of these kinds, fewer where passages run out; ``done`` passages last."""
        self.waiting = deque(sorted(self.waiting, key=lambda passage: passage.id in done))
        taken = {passage.document_id for passage in self.waiting if passage.id in done}
        slots = []
        for kind in kinds[: self.most]:
            if not self.waiting:
                break
            passage = self.waiting.popleft()
            partner = self._partner(passage, taken) if kind in PAIRS else None
            passages = (passage,) if partner is None else (passage, partner)
            taken |= {each.document_id for each in passages}
            if partner is not None and partner in self.waiting:  # it has had its turn
                self.waiting.remove(partner)
                self.waiting.append(partner)
            self.made += 1
            if kind in PAIRS and partner is None:
                kind = "single"
            slots.append(Slot(f"q{self.made:03}", kind, passages))
        return slots

    def _partner(self, passage: Passage, taken: Collection[str]) -> Passage | None:
        """Another passage of the document, the likest; else the likest of any.

        Of these first one whose document is not ``taken``: an item on two documents makes one
        cluster of all items on either, and it is clusters that count as evidence.
        """
        others = [other for other in self.by_document[passage.document_id] if other != passage]
        if others:
            ids = [other.id for other in others]
            scores = self.index.scores(passage.text, ids)
            return others[max(range(len(others)), key=scores.__getitem__)]
        hits = [hit.passage for hit in self.index.search(passage.text, PARTNERS + 1)]
        others = [other for other in hits if other.id != passage.id]
        return min(others, key=lambda other: other.document_id in taken, default=None)


def quota_of(kinds: Mapping[ItemKind, float], items: int) -> list[ItemKind]:
    """The kinds of so many items, in an order in which every beginning has about these shares."""
    total = sum(kinds.values())
    given: Counter[ItemKind] = Counter()
    order: list[ItemKind] = []
    for number in range(1, items + 1):
        kind = max(kinds, key=lambda kind: number * kinds[kind] / total - given[kind])
        given[kind] += 1
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
    """Make a test set from documents: an LLM writes items, and what passes all checks is kept.

    Passages worth asking about are chosen over all documents
    (:func:`~mirage.building.askable_passages`). The LLM writes a question from each, with short
    answers, wrong answers and a reference. Items are checked without it
    (:func:`~mirage.building.faults_in`, :func:`~mirage.building.duplicate_of`); then the LLM
    answers the question from the passages that the item shows, and from none. An item that it does
    not answer rightly from the passages is rejected; so is a question that should have no answer
    where it names one, with passages, or where what it knows stands in a passage of the corpus.
    Where items are rejected, others are written in their place, up to three drafts for each that
    is wanted.

    An item shows the passages that it was written from, and those of the corpus that its words find
    and that do not state its answer. Its cluster is its document; items that share one, by way of
    a pair of passages, are of one cluster.

    With ``out`` the items, and ``NAME.rejected.jsonl`` beside them, are written; what the LLM says
    goes to ``NAME.journal.jsonl`` as it comes, and the same call goes on from there.

    Args:
        documents: see :func:`~mirage.building.corpus_of`.
        language: ISO 639-1 code of the documents and of the items.
        llm: writes and answers.
        items: how many are wanted.
        kinds: the share of each kind of item, on any scale.
        shown: passages an item shows.
        size: words a passage that documents are cut into.
        overlap: words that a passage repeats from the one before it.
        seed: of the order of documents.
        out: the file of the dataset.
        progress: show progress bars on stderr, if that is a terminal.

    Raises:
        DatasetError: the documents cannot be read, none is worth asking about, no item passed, or
            a file cannot be written.
        LLMError: there is no key for OpenAI.
        SettingError: ``items`` or ``shown`` is too small, or the kinds have no share.
        UnknownNameError: no such language or kind.
    """
    check_plan(items, kinds, shown)
    entry = Language.of(language)
    index, askable = prepared(documents, entry, size, overlap, seed, progress)
    journal_path = None if out is None else beside(Path(out), "journal")
    with Journal(journal_path, Told) as journal:
        asker = Asker(llm, journal, progress)
        made = Making(asker, index, entry, shown, ordered=askable.instruction_words)
        plan = Plan(askable, index)
        quota = quota_of(kinds, items)
        while len(made.queries) < items and plan.made < ATTEMPTS * items:
            lacking = _lacking(quota, made.queries)[: ATTEMPTS * items - plan.made]
            slots = plan.wave(lacking, made.done)
            if not slots:
                break
            made.take(slots, asker)
            if made.stopped:
                break
    rejected = tuple(sorted(made.rejected, key=lambda item: int(item.id[1:])))
    rejected = (*rejected, *_skipped_passages(askable))
    result = ItemSet(clustered(made.queries), rejected, askable, items, entry.code)
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
    """What :func:`build_test_set` will take with these arguments, if no draft is rejected.

    Three calls an item. Each rejected draft takes one to three more. Nothing is sent; the questions
    are not known yet, so the first words of a passage stand for each.

    Args:
        documents: as :func:`build_test_set` has them, as all that follow.
        language: of the documents and of the items.
        llm: whose cache and price count.
        items: how many are wanted.
        kinds: the share of each kind of item.
        shown: passages an item shows.
        size: words a passage.
        overlap: words that a passage repeats.
        seed: of the order of documents.
        progress: show a progress bar on stderr, if that is a terminal.

    Raises:
        DatasetError: as :func:`build_test_set`.
        SettingError: as :func:`build_test_set`.
        UnknownNameError: as :func:`build_test_set`.
    """
    check_plan(items, kinds, shown)
    entry = Language.of(language)
    index, askable = prepared(documents, entry, size, overlap, seed, progress)
    slots = Plan(askable, index).wave(quota_of(kinds, items))
    written = [writing_of(slot, entry) for slot in slots]
    answered = []
    for slot in slots:
        text = " ".join(slot.passages[0].text.split()[:20])[:200]
        found = [hit.passage for hit in index.search(text, shown)]
        answered += [answering(text, found, entry), answering(text, (), entry)]
    return sum_estimates((estimate(llm, written), estimate(llm, answered)))


def _skipped_passages(askable: Askable) -> Iterator[RejectedItem]:
    for number, (id_, excerpt) in enumerate(askable.instructions, 1):
        fault = Fault(kind=SKIPPED, detail=excerpt)
        yield RejectedItem(id=f"s{number:03}", kind="single", faults=(fault,), passages=(id_,))


MOST_ITEMS = 2000


def check_plan(items: int, kinds: Mapping[ItemKind, float], shown: int) -> None:
    if items < 1 or shown < 2:
        raise SettingError(
            f"a test set has 1 item or more, each with 2 passages or more, not {items} and {shown}"
        )
    if items > MOST_ITEMS:
        raise SettingError(
            f"a test set has at most {MOST_ITEMS} items, not {items}, because each is compared "
            "with all others; make several sets from parts of the documents"
        )
    for kind, share in kinds.items():
        if kind not in ITEM_KINDS:
            raise UnknownNameError("kind of item", kind, ITEM_KINDS)
        if not share >= 0:
            raise SettingError(f"a share is 0 or more, not {share}")
    if not sum(kinds.values()) > 0:
        raise SettingError("give a kind of item a share above 0")


def prepared(
    documents: Any, entry: Language, size: int, overlap: int, seed: int, progress: bool
) -> tuple[BM25, Askable]:
    corpus = corpus_of(documents, entry, size=size, overlap=overlap)
    askable = askable_passages(corpus, entry, seed=seed)
    if not askable.passages:
        why = ", ".join(f"{reason}: {n}" for reason, n in askable.passed_over.items())
        why += "".join(f"; {id_}: {excerpt!r}" for id_, excerpt in askable.instructions[:1])
        raise DatasetError(f"no passage is worth asking about in {entry.name} ({why})")
    return BM25.build(corpus, language=entry.code, progress=progress), askable


def _lacking(quota: Sequence[ItemKind], queries: Iterable[Query]) -> list[ItemKind]:
    """The kinds that are still to be written, in the order of the quota."""
    made = Counter(query.metadata["kind"] for query in queries)
    lacking = []
    for kind in quota:
        if made[kind]:
            made[kind] -= 1
        else:
            lacking.append(kind)
    return lacking[: len(lacking) - sum(made.values())]  # pairs that became single ones


class Making:
    """Items and rejected drafts as they come, a wave at a time.

    Without an ``asker`` nothing is asked. ``complete`` is whether items need wrong answers and a
    reference. ``ordered`` are words that occur only in instructions to a reader or a model.
    """

    def __init__(
        self,
        asker: Asker | None,
        index: BM25,
        entry: Language,
        shown: int,
        complete: bool = True,
        ordered: Collection[str] = (),
    ) -> None:
        self.asker, self.index, self.entry, self.shown = asker, index, entry, shown
        self.ordered = ordered
        self.complete = complete
        self.queries: list[Query] = []
        self.rejected: list[RejectedItem] = []
        self.asked: dict[str, list[str]] = {}
        self.done: set[str] = set()  # passages with an item, and those that gave none
        self.stopped = False

    def take(self, slots: Sequence[Slot], asker: Asker) -> None:
        """Have the items of these slots written, and check them."""
        questions = [writing_of(slot, self.entry, self._earlier(slot)) for slot in slots]
        told = asker.ask(questions, "items written", keep_draft)
        drafts = []
        for slot, said in zip(slots, told, strict=True):
            self._remember(slot, said)
            draft, faults = _draft_of(said)
            if draft is None:
                self._reject(slot, draft, faults)
            else:
                drafts.append((slot, draft))
        self.check(drafts)

    def check(self, drafts: Iterable[tuple[Slot, Draft]]) -> None:
        """Keep what is sound among these drafts."""
        waiting: list[tuple[Slot, Draft, Query]] = []
        for slot, draft in drafts:
            faults = faults_in(draft, slot.kind, slot.passages, self.entry, complete=self.complete)
            faults += self._faults_of_words(draft)
            if faults:
                self._reject(slot, draft, faults)
                continue
            query = self._shown(slot, draft)
            others = [*self.queries, *(each for *_, each in waiting)]
            faults = _faults_among(query, others)
            if faults:
                self._reject(slot, draft, faults)
            else:
                waiting.append((slot, draft, query))
        if self.asker is None:
            for slot, _, query in waiting:
                self._keep(slot, query, {})
        else:
            self._answer(waiting, self.asker)

    def _faults_of_words(self, draft: Draft) -> list[Fault]:
        text = "\n".join((draft.question, *(form for forms in draft.answers for form in forms)))
        word = next((word for word in words_of(text, self.entry) if word in self.ordered), None)
        return [] if word is None else [Fault(kind="named by instructions alone", detail=word)]

    def _remember(self, slot: Slot, said: Told | str) -> None:
        """What was asked about a passage, so that it is not asked again."""
        if isinstance(said, Told) and said.draft is not None and said.draft.question:
            for passage in slot.passages:
                self.asked.setdefault(passage.id, []).append(said.draft.question)

    def _earlier(self, slot: Slot) -> list[str]:
        return [text for passage in slot.passages for text in self.asked.get(passage.id, ())]

    def _shown(self, slot: Slot, draft: Draft) -> Query:
        """The query with the passages that it shows."""
        query = query_of(draft, slot.kind, slot.passages, self.entry, id=slot.id)
        return with_distractors(query, self.index, self.shown)

    def _answer(self, waiting: Sequence[tuple[Slot, Draft, Query]], asker: Asker) -> None:
        """Keep those that the LLM answers from the passages as it should."""
        queries = [query for *_, query in waiting]
        open_book = [answering(query.text, query.passages, self.entry) for query in queries]
        closed_book = [answering(query.text, (), self.entry) for query in queries]
        told = asker.ask([*open_book, *closed_book], "items answered", keep_answer)
        pairs = zip(told[: len(queries)], told[len(queries) :], strict=True)
        for (slot, draft, query), said in zip(waiting, pairs, strict=True):
            unsaid = [each for each in said if isinstance(each, str)]
            if unsaid:
                self._reject(slot, draft, [_not_asked(unsaid[0])])
                continue
            seen, known = (_answer_of(each) for each in said)
            faults = self._faults_of_answers(query, seen, known)
            if faults:
                self._reject(slot, draft, faults)
            else:
                standing = _standing(query, known, self.entry)
                self._keep(slot, query, {"closed_book": standing, "checked_by": asker.llm.model})

    def _keep(self, slot: Slot, query: Query, known: Mapping[str, str]) -> None:
        metadata = {
            **query.metadata,
            "document": slot.passages[0].document_id,
            "found_at": self._found_at(query, slot),
            **known,
        }
        self.queries.append(query.model_copy(update={"metadata": metadata}))
        self.done.update(passage.id for passage in slot.passages)

    def _found_at(self, query: Query, slot: Slot) -> str:
        """The place of the first of its passages among those that its words find, from 1."""
        own = {passage.id for passage in slot.passages}
        found = [hit.passage.id for hit in self.index.search(query.text, FOUND_AMONG)]
        places = (n for n, id_ in enumerate(found, 1) if id_ in own)
        return str(next(places, f"beyond {FOUND_AMONG}"))

    def _faults_of_answers(self, query: Query, seen: str, known: str) -> list[Fault]:
        if query.answerable:
            if states_all(query, seen, self.entry):
                return []
            return [Fault(kind="not answered from the passages", detail=seen or "no answer")]
        if not _is_none(seen, query, self.entry):
            return [Fault(kind="answered by a passage", detail=f"read: {seen}")]
        if _is_none(known, query, self.entry):
            return []
        for hit in self.index.search(f"{query.text} {known}", LOOKED_THROUGH):
            if stands(known, hit.passage.titled_text, self.entry):
                detail = f"known: {known}, in {hit.passage.id}"
                return [Fault(kind="answered by a passage", detail=detail)]
        return []

    def _reject(self, slot: Slot, draft: Draft | None, faults: Sequence[Fault]) -> None:
        ids = tuple(passage.id for passage in slot.passages)
        item = RejectedItem(
            id=slot.id, kind=slot.kind, faults=tuple(faults), passages=ids, draft=draft
        )
        self.rejected.append(item)
        self.stopped |= faults[0].kind == "not asked"
        if faults[0].kind in ("skipped", "unreadable"):
            self.done.update(ids)


def _faults_among(query: Query, others: Sequence[Query]) -> list[Fault]:
    other = duplicate_of(query, others)
    return [] if other is None else [Fault(kind="duplicate", detail=f"of {other.id}")]


def _not_asked(why: str) -> Fault:
    return Fault(kind="not asked", detail=why)


def _draft_of(said: Told | str) -> tuple[Draft | None, list[Fault]]:
    """What was written, or why there is nothing."""
    if isinstance(said, str):
        return None, [_not_asked(said)]
    if said.draft is None:
        return None, [Fault(kind="unreadable", detail=said.unreadable)]
    return said.draft, []


def _answer_of(said: Told | str) -> str:
    """What was answered; nothing where that cannot be read."""
    return "" if isinstance(said, str) or said.answer is None else said.answer


def states_all(query: Query, text: str, entry: Language) -> bool:
    """Whether a text states every short answer of a query."""
    return bool(text) and all(
        mentioned(forms, text, entry.code) or any(stands(form, text, entry) for form in forms)
        for forms in query.answers
    )


def _is_none(answer: str, query: Query, entry: Language) -> bool:
    """Whether somebody said that the answer cannot be told."""
    return not answer.strip() or abstains(answer, entry, question=query.text) >= ABSTAINS_AT


def _standing(query: Query, known: str, entry: Language) -> Literal["right", "wrong", "none"]:
    if _is_none(known, query, entry):
        return "none"
    return "right" if query.answers and states_all(query, known, entry) else "wrong"


def with_distractors(query: Query, index: BM25, shown: int) -> Query:
    """A query with its own passages and those that its words find and that state no answer of it.

    They stand in the order in which they were found, so that none can tell which are its own.
    """
    entry = Language.of(query.language)
    own = {passage.id: passage for passage in query.passages}
    room = max(0, shown - len(own))
    others: list[Passage] = []
    for hit in index.search(query.text, LOOKED_THROUGH):
        if len(others) == room:
            break
        passage = hit.passage
        if passage.id in own or states_some(query, passage, entry):
            continue
        if holds_orders(passage.titled_text):
            continue
        others.append(passage)
    passages = [*own.values(), *others]
    scores = index.scores(query.text, [passage.id for passage in passages])
    order = sorted(range(len(passages)), key=lambda n: (-scores[n], passages[n].id))
    return query.model_copy(update={"passages": tuple(passages[n] for n in order)})


def states_some(query: Query, passage: Passage, entry: Language) -> bool:
    """Whether a passage states a short answer of a query."""
    text = passage.titled_text
    return any(stands(form, text, entry) for forms in query.answers for form in forms)


def clustered(queries: Iterable[Query]) -> tuple[Query, ...]:
    """The queries with clusters such that those with a document in common are of one."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    queries = list(queries)
    for query in queries:
        for document in _documents(query):
            parent[root(document)] = root(query.metadata["document"])
    return tuple(
        query.model_copy(update={"cluster": root(query.metadata["document"])}) for query in queries
    )


def _documents(query: Query) -> Iterator[str]:
    """The documents that an item is about."""
    yield query.metadata["document"]
    relevant = set(query.relevant)
    yield from (each.document_id for each in query.passages if each.id in relevant)


# Review -------------------------------------------------------------------------------------------


class _Decisions(Record):
    """What a person decided on the page of a test set: items that are struck, each with a note."""

    dataset: str
    struck: dict[str, str]


def strike(dataset: MirageDataset, decisions: str | Path) -> MirageDataset:
    """A dataset without the items that somebody struck.

    Args:
        dataset: the items.
        decisions: the file that the page of :func:`mirage.report.write_review` saved.

    Raises:
        DatasetError: it is no such file, it is about another dataset, or nothing is left.
        UnknownNameError: the dataset has no such item.
    """
    place = Path(decisions)
    text = " ".join(line for _, line in lines(place))
    made = validated(_Decisions, json_object(str(place), text)[1], str(place))
    if made.dataset != dataset.name:
        raise DatasetError(f"{place}: decided on {made.dataset!r}, and not on {dataset.name!r}")
    for id_ in made.struck:
        dataset[id_]  # or the error that names the nearest
    kept = [query for query in dataset if query.id not in made.struck]
    return MirageDataset(kept, name=dataset.name)


def read_rejected(dataset: str | Path) -> tuple[RejectedItem, ...]:
    """What was rejected when a file of items was made; nothing where no file beside it says so.

    Args:
        dataset: the file of the items.

    Raises:
        DatasetError: the file beside it is damaged.
    """
    place = beside(Path(dataset), "rejected")
    if not place.is_file():
        return ()
    return tuple(validated(RejectedItem, row, where) for where, row in read_rows(place))

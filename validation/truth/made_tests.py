"""Mistakes planted in items of test sets: how many are caught or wrongly rejected.

    python validation/truth/made_tests.py [--languages en,sw,...]

Items are those of the bundled corpora, written by people, in the form in which an LLM submits them.
In six languages, 38 mistakes of 21 kinds are planted in them, 228 in all, and checked as
`mirage.testsets.build_test_set` checks: by the texts alone, and with an LLM that answers the
questions with and without passages. That LLM is a server on loopback. It either answers correctly,
or repeats the mistake, and then it detects nothing that the texts do not show. The last kinds
cannot be detected from the texts alone. The next table has the share of items without a mistake
that are rejected, in these languages and in the twelve others. Finally, a test set of each language
is made from the documents by an LLM whose first draft on every passage has a mistake, in a process
that is killed three times (SIGKILL) and started again.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from item_llm import PASSAGE, QUESTION, draft_of
from llm_server import ChatServer, last_user_text

from mirage import LLM, MirageDataset
from mirage._base.journal import Journal
from mirage.languages import LANGUAGES, Language
from mirage.retrieval import BM25
from mirage.testsets import build_test_set
from mirage.testsets.item_checks import Draft
from mirage.testsets.item_questions import Asker, LLMReply, Slot
from mirage.testsets.item_sets import read_rejected
from mirage.testsets.test_sets import ItemBuilder

DESIGNED_ON = ("en", "sw", "ru", "ar", "hi", "zh")
KINDS = {
    "single": "single",
    "invented": "single",
    "list": "list",
    "two_passages": "two_passages",
    "near_miss": "near_miss",
}
Item = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """An item, its topic, and the right answer (none if no passage has one)."""

    slot: Slot
    item: Item
    truth: tuple[str, ...]


def cases_of(language: str) -> list[Case]:
    """Return bundled items of the required kinds, without a mistake."""
    cases = []
    for query in MirageDataset.bundled(language):
        kind = KINDS.get(query.metadata["kind"])
        if kind is None:
            continue
        passages = tuple(query[id_] for id_ in query.relevant) or query.passages[:1]
        if kind == "two_passages" and len(passages) < 2:
            kind = "single"
        truth = tuple(forms[0] for forms in query.answers)
        cases.append(Case(Slot(query.id, kind, passages), draft_of(query), truth))
    return cases


# Mistakes -----------------------------------------------------------------------------------------


class Planting(NamedTuple):
    """The input of a mistake: an item, other items of its language, and a random generator."""

    case: Case
    others: Sequence[Case]
    language: str


def _other_language(p: Planting) -> Item:
    """Return the item in another language, as if the LLM ignored the language."""
    other = "de" if p.language == "en" else "en"
    return draft_of(MirageDataset.bundled(other)[p.case.slot.id])


def _question_in_another(p: Planting) -> Item:
    return p.case.item | {"question": _other_language(p)["question"]}


def _reference_in_another(p: Planting) -> Item:
    return p.case.item | {"answer": _other_language(p)["answer"]}


def _answer_of_another(p: Planting) -> Item:
    """Return an answer that occurs in no passage of the item, also in the reference."""
    other = p.others[0].item
    return p.case.item | {"answers": other["answers"], "answer": other["answer"]}


def _answer_in_question(p: Planting) -> Item:
    return p.case.item | {"question": f"{p.case.item['question']} ({p.case.truth[0]})"}


def _twice(p: Planting) -> Item:
    return dict(p.case.item)


def _reworded(p: Planting) -> Item:
    """Return the question with its words in another order, and the last of them left out."""
    gap = "" if Language.of(p.language).tokens == "character" else " "
    words = list(p.case.item["question"]) if not gap else p.case.item["question"].split()
    middle = len(words) // 2
    return p.case.item | {"question": gap.join(words[middle:-1] + words[:middle])}


def _right_as_wrong(p: Planting) -> Item:
    wrong = [[p.case.truth[0].upper()], *p.case.item["wrong_answers"]]
    return p.case.item | {"wrong_answers": wrong}


def _form_as_wrong(p: Planting) -> Item:
    """Return an item with another form of the right answer among the wrong answers."""
    first, *rest = p.case.item["answers"]
    wrong = [[first[-1]], *p.case.item["wrong_answers"]]
    return p.case.item | {"answers": [first[:-1] or first, *rest], "wrong_answers": wrong}


def _no_wrong(p: Planting) -> Item:
    return p.case.item | {"wrong_answers": []}


def _cites_another(p: Planting) -> Item:
    return p.case.item | {"answer": f"{p.case.item['answer']} [7]"}


def _cites_nothing(p: Planting) -> Item:
    return p.case.item | {"answer": p.case.item["answer"].split(" [")[0]}


def _wrong_reference(p: Planting) -> Item:
    """Return an item whose reference is on another topic, with correct citations."""
    return p.case.item | {"answer": p.others[0].item["answer"]}


def _question_of_another(p: Planting) -> Item:
    return p.case.item | {"question": p.others[0].item["question"]}


def _answered_after_all(p: Planting) -> Item:
    """Return an item whose question is declared unanswerable although a passage answers it."""
    abstaining = next(each.item for each in p.others if each.slot.kind == "near_miss")
    return p.case.item | {"answers": [], "answer": abstaining["answer"]}


def _answers_after_all(p: Planting) -> Item:
    """Return an unanswerable item whose reference gives an answer."""
    answering = next(each.item for each in p.others if each.slot.kind == "single")
    return p.case.item | {"answer": answering["answer"]}


def _one_of_a_list(p: Planting) -> Item:
    return p.case.item | {"answers": p.case.item["answers"][:1]}


def _cites_one_of_two(p: Planting) -> Item:
    return p.case.item | {"answer": p.case.item["answer"].replace(" [2]", "")}


def _false_form(p: Planting) -> Item:
    """Return an item with a form of another answer among the forms of the right one."""
    first, *rest = p.case.item["answers"]
    return p.case.item | {"answers": [[*first, p.others[0].truth[0]], *rest]}


def _false_reason(p: Planting) -> Item:
    return p.case.item | {"reason": p.others[0].item["reason"]}


def _true_but_beside(p: Planting) -> Item:
    """Return an item with a name or number of the passage that is not the answer, as answer."""
    beside = next(
        word
        for word in _names(p.case.slot.passages[0].text)
        if word not in p.case.item["question"] and all(word not in each for each in p.case.truth)
    )
    return p.case.item | {"answers": [[beside]], "answer": f"{beside} [1]."}


def _names(text: str) -> Iterator[str]:
    """Yield the words of a passage, longest first: likely wrong answers of a careless writer."""
    yield from sorted(text.replace(".", " ").replace(",", " ").split(), key=len, reverse=True)
    yield from (text[n : n + 3] for n in range(10, 60, 5))


Mistake = Callable[[Planting], Item]

SINGLE, NEAR, LIST, TWO = ("single",), ("near_miss",), ("list",), ("two_passages",)
MISTAKES: tuple[tuple[str, Mistake, tuple[str, ...]], ...] = (
    ("all in another language", _other_language, SINGLE),
    ("question in another language", _question_in_another, SINGLE),
    ("reference in another language", _reference_in_another, SINGLE),
    ("answer stands in no passage", _answer_of_another, SINGLE),
    ("answer in the question", _answer_in_question, SINGLE),
    ("question asked before", _twice, SINGLE),
    ("question asked before, reworded", _reworded, SINGLE),
    ("right answer among the wrong ones", _right_as_wrong, SINGLE),
    ("another form of it among the wrong ones", _form_as_wrong, SINGLE),
    ("no wrong answer", _no_wrong, SINGLE),
    ("cites what is not shown", _cites_another, SINGLE),
    ("cites nothing", _cites_nothing, SINGLE),
    ("reference on something else", _wrong_reference, SINGLE),
    ("no answer, and a passage has one", _answered_after_all, SINGLE),
    ("no answer, and the reference gives one", _answers_after_all, NEAR),
    ("a list of one", _one_of_a_list, LIST),
    ("one of two passages cited", _cites_one_of_two, TWO),
    ("question on something else", _question_of_another, SINGLE),
    ("an answer beside the question", _true_but_beside, SINGLE),
    ("a false form of the answer", _false_form, SINGLE),
    ("a false reason", _false_reason, SINGLE),
)
AS_UNANSWERABLE = (_answered_after_all,)
DUPLICATES = (_twice, _reworded)
ONCE = (
    "a list of one",
    "one of two passages cited",
    "a false form of the answer",
    "a false reason",
)


# The LLM ------------------------------------------------------------------------------------------


class Answerer:
    """An LLM that answers from the passages, correctly or with the mistake of the item."""

    def __init__(self) -> None:
        self.truths: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {}
        self.agrees_on: tuple[str, tuple[str, ...]] | None = None

    def learn(self, cases: Sequence[Case]) -> None:
        """Store the right answers to these questions, and their passages."""
        for case in cases:
            texts = frozenset(passage.titled_text for passage in case.slot.passages)
            self.truths[case.item["question"]] = (case.truth, texts)

    def __call__(self, request: Mapping[str, Any]) -> str:
        """Return the text of an answer."""
        prompt = last_user_text(request)
        passages = {text for *_, text in PASSAGE.findall(prompt)}
        question = QUESTION.findall(prompt)[0][1]
        if self.agrees_on is not None and question == self.agrees_on[0]:
            told = self.agrees_on[1] if passages else ()
        else:
            truth, texts = self.truths.get(question, ((), frozenset()))
            told = truth if truth and texts <= passages else ()
        return json.dumps({"answer": "; ".join(told) or None}, ensure_ascii=False)


def rejected(
    case: Case, before: Sequence[Case], index: BM25, language: str, asker: Asker | None
) -> tuple[str, ...]:
    """Return why a case is rejected, given earlier cases; empty if it is not."""
    making = ItemBuilder(asker, index, Language.of(language), 5)
    making.check([(each.slot, Draft.model_validate(each.item)) for each in before])
    sound = len(making.rejected)
    making.check([(case.slot, Draft.model_validate(case.item))])
    return tuple(fault.kind for item in making.rejected[sound:] for fault in item.faults)


@dataclass
class World:
    """One language: its items without a mistake, and all its passages."""

    language: str
    cases: list[Case]
    index: BM25

    @classmethod
    def of(cls, language: str) -> World:
        """Return the world of a language."""
        passages = {p.id: p for q in MirageDataset.bundled(language) for p in q.passages}
        index = BM25.build(passages.values(), language=language, progress=False)
        return cls(language, cases_of(language), index)


def planted(world: World, rng: random.Random) -> Iterator[tuple[str, Case, list[Case]]]:
    """Yield the mistakes of one language: kind, case, and earlier questions."""
    for name, mistake, kinds in MISTAKES:
        fit = [case for case in world.cases if case.slot.kind in kinds]
        for case in rng.sample(fit, min(len(fit), 1 if name in ONCE else 2)):
            others = [each for each in world.cases if each is not case and each.slot.kind in kinds]
            rng.shuffle(others)
            if mistake in (_answered_after_all, _answers_after_all):
                others = [each for each in world.cases if each is not case]
            item = mistake(Planting(case, others, world.language))
            slot = case.slot
            if mistake in AS_UNANSWERABLE:
                slot = Slot(slot.id, "near_miss", slot.passages)
            before = [case] if mistake in DUPLICATES else []
            yield (
                name,
                Case(Slot(f"{slot.id}x", slot.kind, slot.passages), item, case.truth),
                before,
            )


def _catch(languages: Sequence[str], server: ChatServer, answerer: Answerer) -> None:
    llm = LLM("answers", base_url=server.url, cache=False)
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    why: dict[str, Counter[str]] = defaultdict(Counter)
    for language in languages:
        world = World.of(language)
        answerer.truths.clear()
        answerer.learn(world.cases)
        for name, case, before in planted(world, random.Random(f"made tests {language}")):
            row = rows[name]
            row["planted"] += 1
            texts = rejected(case, before, world.index, language, None)
            row["texts"] += bool(texts)
            why[name].update(texts[:1])
            for mode in ("agreeing", "right"):
                first = tuple(forms[0] for forms in case.item["answers"])
                answerer.agrees_on = (case.item["question"], first) if mode == "agreeing" else None
                asker = Asker(llm, Journal(None, LLMReply), progress=False)
                row[mode] += bool(rejected(case, before, world.index, language, asker))
            answerer.agrees_on = None
    print(f"{'mistake':42} {'planted':>7} {'texts':>6} {'agreeing':>9} {'right':>6}  found as")
    total: Counter[str] = Counter()
    for name, row in rows.items():
        total += row
        first = ", ".join(f"{kind} {n}" for kind, n in why[name].most_common(2))
        cells = (row["texts"], row["agreeing"], row["right"])
        print(f"{name:42} {row['planted']:7} {cells[0]:6} {cells[1]:9} {cells[2]:6}  {first}")
        for column in ("planted", "texts", "agreeing", "right"):
            add_figure(row[column], "mistakes", name, column)
    parts = [total["texts"], total["agreeing"], total["right"]]
    print(f"{'all':42} {total['planted']:7} {parts[0]:6} {parts[1]:9} {parts[2]:6}")
    for column in ("planted", "texts", "agreeing", "right"):
        add_figure(total[column], "mistakes", "all", column)


def clean(languages: Sequence[str], title: str) -> None:
    """Print the share of items without a mistake that are rejected by their texts alone."""
    lost: Counter[str] = Counter()
    count = 0
    for language in languages:
        world = World.of(language)
        making = ItemBuilder(None, world.index, Language.of(language), 5)
        making.check([(case.slot, Draft.model_validate(case.item)) for case in world.cases])
        lost.update(item.faults[0].kind for item in making.rejected)
        count += len(world.cases)
    words = ", ".join(f"{kind} {n}" for kind, n in lost.most_common())
    print(
        f"{lost.total()} of {count} ({lost.total() / count:.1%}) in {','.join(languages)}: {words}"
    )
    add_figure(lost.total(), "items without a mistake", title, "rejected")
    add_figure(count, "items without a mistake", title, "items")


# From documents to a test set ---------------------------------------------------------------------


def _of_one_passage(case: Case) -> Case:
    """Return the item that is written if only the first passage is known."""
    slot = Slot(case.slot.id, case.slot.kind, case.slot.passages[:1])
    answer = case.item["answer"].split(" [2]")[0]
    return Case(slot, case.item | {"answer": answer}, case.truth)


class Writer:
    """An LLM that writes an item from each passage: first with a mistake, then without."""

    def __init__(self, world: World) -> None:
        self.world, self.rng = world, random.Random(f"writer {world.language}")
        single = [_of_one_passage(case) for case in world.cases if case.slot.kind == "single"]
        self.by_text = {case.slot.passages[0].titled_text: case for case in single}
        self.answerer = Answerer()
        self.answerer.learn(single)
        names = [name for name, mistake, kinds in MISTAKES if kinds == SINGLE]
        self.mistakes = [
            each for each in MISTAKES if each[0] in names[:13] and each[1] not in DUPLICATES
        ]
        self.drafts = {
            text: self._wrong(case) if self.rng.random() < 0.6 else case.item
            for text, case in self.by_text.items()
        }

    def _wrong(self, case: Case) -> Item:
        others = [each for each in self.by_text.values() if each is not case]
        _, mistake, _ = self.rng.choice(self.mistakes)
        return mistake(Planting(case, self.rng.sample(others, len(others)), self.world.language))

    def __call__(self, request: Mapping[str, Any]) -> str:
        """Return the text of an answer."""
        time.sleep(0.01)
        prompt = last_user_text(request)
        if not prompt.startswith("You write an item"):
            return self.answerer(request)
        text = PASSAGE.findall(prompt)[0][-1]
        case = self.by_text.get(text)
        if case is None:
            return json.dumps({"skip": "nothing to ask"})
        item = case.item if "<asked_1 " in prompt else self.drafts[text]
        return json.dumps(item, ensure_ascii=False)


def _make(url: str, language: str, out: str, items: int) -> None:
    documents = [case.slot.passages[0] for case in cases_of(language) if case.slot.kind == "single"]
    llm = LLM("writes", base_url=url, cache=False, concurrency=4)
    build_test_set(
        documents,
        language=language,
        llm=llm,
        items=items,
        kinds={"single": 1.0},
        shown=4,
        out=out,
        progress=False,
    )


def _documents_to_items(languages: Sequence[str], kills: int) -> None:
    context = multiprocessing.get_context("spawn")
    for language in languages:
        writer = Writer(World.of(language))
        rng = random.Random(language)
        with ChatServer(writer) as server, tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "tests.jsonl"
            journal = Path(folder) / "tests.journal.jsonl"
            needless = 0
            for kill in range(kills + 1):
                known = journal.read_text().splitlines() if journal.exists() else []
                sent = len(server.requests)
                process = context.Process(target=_make, args=(server.url, language, str(out), 9))
                process.start()
                goal = sent + rng.randrange(2, 10)
                while kill < kills and process.is_alive() and len(server.requests) < goal:
                    time.sleep(0.005)
                if kill < kills:
                    process.kill()
                process.join()
                # Each line of the journal begins with the digest of what was asked.
                answered = {json.loads(line)["asked"] for line in known if line.endswith("}")}
                needless += sum(
                    _digest(each) in answered for each in _whole(server.requests[sent:])
                )
            asked = Counter(map(_digest, _whole(server.requests)))
            made = [(each.text, each.answers) for each in MirageDataset.load(out)]
            rejected_drafts = read_rejected(out)
        sound = {
            (case.item["question"], tuple(map(tuple, case.item["answers"])))
            for case in writer.by_text.values()
        }
        print(
            f"{language}: {len(made)} of 9 items, {sum(each not in sound for each in made)} with a "
            f"mistake; {len(rejected_drafts)} drafts rejected; {asked.total()} requests, "
            f"{asked.total() - len(asked)} of them again, as {kills} kills lost up to 4 under way "
            f"each; {needless} of what had been answered"
        )
        names = "test sets from documents", language
        add_figure(len(made), *names, "items")
        add_figure(sum(each not in sound for each in made), *names, "items with a mistake")
        add_figure(needless, *names, "requests repeated after an answer")


def _whole(requests: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the lines without those that a kill cut off."""
    return [request for request in requests if "messages" in request]


def _digest(request: Mapping[str, Any]) -> str:
    """Return the digest of a request as the journal stores it."""
    asked = json.dumps([request["model"], last_user_text(request)])
    return hashlib.sha256(asked.encode()).hexdigest()


def _main() -> None:
    parser = script_parser(__doc__)
    parser.add_argument("--languages", default=",".join(DESIGNED_ON))
    parser.add_argument("--parts", default="catch,clean,make")
    options = parser.parse_args()
    languages = options.languages.split(",")[: 1 if options.quick else None]
    answerer = Answerer()
    if "catch" in options.parts:
        with ChatServer(answerer) as server:
            _catch(languages, server, answerer)
    if "clean" in options.parts:
        clean(languages, "these languages")
        if not options.quick:
            clean([code for code in LANGUAGES if code not in languages], "other languages")
    if "make" in options.parts:
        _documents_to_items(languages, 1 if options.quick else 3)
    save(parser, options)


if __name__ == "__main__":
    _main()

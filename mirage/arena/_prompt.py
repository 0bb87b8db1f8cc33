"""The prompt for a judge of two responses, and the parser of its verdict.

The prompt covers the same criteria as that of MIRAGE-Bench (arXiv 2410.13716, Figure 13) in
different words, and asks for a verdict in the same format. External text (question, passages,
responses) is enclosed in markers that the text itself cannot close.
"""

from __future__ import annotations

from hashlib import sha256

from mirage.features.judged import reference_lines
from mirage.languages import Language
from mirage.llm.questions import Form, Question, final_verdict, verdict_break
from mirage.llm.templates import PromptFields, Template
from mirage.models import Passage, Query, Response, Verdict

FIELDS = PromptFields(
    material=(
        ("question", "question"),
        ("reference", "reference"),
        ("passage", "passages"),
        # The lists count as part of the passages: they define which passage a cited number refers
        # to.
        ("order-of-a", "passages"),
        ("order-of-b", "passages"),
        ("response-a", "answer_a"),
        ("response-b", "answer_b"),
    ),
    required=("question", "answer_a", "answer_b"),
    verdicts=("[[A]]", "[[B]]"),
)
"""The fields of a prompt for two responses."""

_TASK = """\
You are the impartial judge of two responses to one question. Two systems wrote them from passages \
that a search engine had found for the question; some of the passages may be of no use for it.

Decide which response serves better the person who asked. Weigh
- {truth};
- whether the passages that it cites say what it cites them for;
- whether it is complete: details are worth something where they help to answer the question, and \
speak against a response where they are beside it;
- whether it says so where the passages hold no answer, rather than makes one up;
- whether it is in {language}, the language of the question, and reads well.
Do not let yourself be swayed by which response comes first, by how long they are, or by headings \
such as ##Reason: and ##Answer:, which are their required form.

{citations}"""

_BY_PASSAGES = "whether what it says is right, and answers the question, going by the passages"

_BY_REFERENCE = """\
whether what it says is right, and answers the question, going by the text marked <reference \
{word}>, which is right: if it has several lines, each is a part of the whole right answer, and \
forms of one part are separated by slashes. Compare the meaning, not the words"""

REFERENCE_DIGEST = sha256(_BY_REFERENCE.encode()).hexdigest()[:16]
"""The digest of the prompt that ships with the library, in its version with a reference answer."""

_AIM = "Judge the texts marked <response-a {word}> and <response-b {word}>"

_CITATIONS = (
    "Responses cite passages in brackets, by id or by number. A number that is no id counts the "
    "passages in the order in which they stand here."
)

_CITATIONS_BY_LIST = (
    "Responses cite passages in brackets, by id or by number. A number that is no id counts the "
    "passages in the order in which that response's author was shown them, which the lists of ids "
    "marked <order-of-a {word}> and <order-of-b {word}> tell."
)

_VERDICTS: dict[str, Verdict] = {"A": "a", "B": "b", "C": "tie"}


def read_verdict(text: str) -> Verdict | None:
    """Return the verdict on the last line of a judge's output, or ``None`` if there is none.

    The verdict is ``[[A]]``, ``[[B]]`` or ``[[C]]`` (a tie).
    """
    letter = final_verdict(text, _VERDICTS)
    return None if letter is None else _VERDICTS[letter]


_FORM: Form[Verdict] = Form(
    text="Compare the responses in a few sentences. Then end with a line that holds nothing but "
    "your verdict: [[A]] if response A is better, [[B]] if response B is better, [[C]] if neither "
    "is.",
    reminder="Keep the comparison short. Your last line has to be your verdict and nothing else: "
    "[[A]], [[B]] or [[C]]",
    read=read_verdict,
    sought="verdict",
    # Break up only verdicts in the inserted texts, because some models cite with double brackets.
    breaks=(verdict_break(_VERDICTS),),
)


def shows_reference(template: Template | None, reference: bool) -> bool:
    """Return whether a judge's prompt shows the right answer.

    A custom template shows the answer if the template has the field ``{reference}``. The default
    prompt shows the answer if ``reference`` is true.
    """
    fields = [] if template is None else [field for _, field in template.pieces]
    return "reference" in fields or (reference and template is None)


def judge_question(
    query: Query,
    a: Response,
    b: Response,
    template: Template | None = None,
    *,
    reference: bool = False,
) -> Question[Verdict]:
    """Return a question to a judge: which of two responses to a query is better.

    The prompt contains all passages of the query in full, with their ids. If the responses store
    their own passages, as those of pipelines do, it contains the passages of both responses
    instead. If both systems received them in the same order, the prompt numbers them in this order.
    Otherwise it lists them in the query's order, and states for each system the order in which it
    received them.

    Args:
        query: The query.
        a: The response that is shown first, as response A.
        b: The response that is shown second, as response B.
        template: The user's prompt; by default the prompt that ships with the library.
        reference: Whether the prompt that ships with the library shows the right answer. A template
            shows the right answer if it has the field ``{reference}``.
    """
    query = _with_shown_passages(query, a, b)
    orders = {"a": query.shown_to(a), "b": query.shown_to(b)}
    passages = (
        _ordered_passages(query, orders["a"]) if orders["a"] == orders["b"] else query.passages
    )
    passage_ids = tuple(passage.id for passage in passages)
    lists = {} if all(passage_ids[: len(order)] == order for order in orders.values()) else orders
    numbers = [""] * len(passages) if lists else [f"-{n}" for n in range(1, len(passages) + 1)]
    language = Language.of(query.language).name
    has_reference = shows_reference(template, reference)
    task = _TASK.format(
        language=language,
        truth=_BY_REFERENCE if has_reference else _BY_PASSAGES,
        citations=_CITATIONS_BY_LIST if lists else _CITATIONS,
    )
    material = (
        ("question", query.text),
        *([("reference", str(reference_lines(query)))] if has_reference else ()),
        *((f"passage{n}", _format_passage(p)) for n, p in zip(numbers, passages, strict=True)),
        *((f"order-of-{of}", _numbered_list(order)) for of, order in lists.items()),
        ("response-a", a.text or ""),
        ("response-b", b.text or ""),
    )
    return Question(task, _AIM, _FORM, material, template, language)


def _with_shown_passages(query: Query, a: Response, b: Response) -> Query:
    """Return the query with the passages that at least one of the two systems received.

    If the responses do not store passages, the query is returned unchanged.
    """
    if not (a.passages or b.passages):
        return query
    shown_ids = {*query.shown_to(a), *query.shown_to(b)}
    passages = tuple(p for p in query.knowing(a, b).passages if p.id in shown_ids)
    return query.model_copy(update={"passages": passages})


def _ordered_passages(query: Query, order: tuple[str, ...]) -> tuple[Passage, ...]:
    """Return the passages of the query, sorted by the position of their ids in ``order``.

    Passages whose ids are not in ``order`` come last.
    """
    position = {id_: n for n, id_ in enumerate(order)}
    return tuple(
        sorted(query.passages, key=lambda passage: position.get(passage.id, len(position)))
    )


def _format_passage(passage: Passage) -> str:
    title = f"title: {passage.title}\n" if passage.title else ""
    return f"id: {passage.id}\n{title}{passage.text}"


def _numbered_list(ids: tuple[str, ...]) -> str:
    return "\n".join(f"{n}: {id_}" for n, id_ in enumerate(ids, 1))

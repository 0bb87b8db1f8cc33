"""Prompts that users write: templates with slots for the question and the passages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter

from mirage.errors import SettingError, UnknownNameError
from mirage.generation.prompts import CONTEXT_TOKENS, Prompt, fitted, room
from mirage.languages import Language
from mirage.llm.client import Message, estimate_tokens
from mirage.models import Passage, Query

SLOTS = ("question", "passages", "language")
"""Slots that the messages of a template may have."""

PASSAGE_SLOTS = ("number", "id", "title", "text")
"""Slots that the template of one passage may have."""

EXAMPLE_FIELDS = ("question", "passages", "answer")
"""Fields of an example (few-shot); ``passages`` is optional."""


@dataclass(frozen=True)
class TemplatePrompt:
    """A function that makes a prompt from texts with slots, such as ``{question}``.

    The slots are ``{question}``, ``{passages}`` and ``{language}``, the English name of the
    language of the question. Write ``{{`` and ``}}`` for braces. Slots are only replaced: a
    template cannot execute code or read attributes, and a slot inside a question or a passage is
    plain text. Unlike the built-in prompts, a template does not put tags around the question and
    the passages, so write tags yourself if passages are not trusted.

    A call raises :class:`~mirage.errors.GenerationError` if the query alone does not fit into the
    context, or none of its passages fits.

    Args:
        user: The user message.
        system: The system message; by default there is none.
        closed_book_user: The user message for queries without passages. The default is ``user``
            with an empty ``{passages}``.
        closed_book_system: The system message for queries without passages; by default ``system``.
        passage: The text of one passage, with the slots ``{number}`` (from 1), ``{id}``,
            ``{title}`` and ``{text}``. Passages are separated by an empty line.
        examples: Solved examples (few-shot), which become earlier turns of the chat. Each has a
            ``question``, an ``answer``, and optionally ``passages`` as one text.
        passage_tokens: Maximum number of tokens per passage; the rest of a passage is cut off.
        context_tokens: Maximum number of tokens of prompt and answer together. If not all passages
            fit, the last ones are left out.
        answer_tokens: Number of tokens of the context that are reserved for the answer.
        count: A function that returns the number of tokens of a text; by default an estimate.

    Raises:
        SettingError: If a template is malformed or lacks the question, or the context has no room
            for a prompt.
        UnknownNameError: If a template has an unknown slot, or an example an unknown field.

    Example:
        >>> from mirage import MirageDataset
        >>> prompt = TemplatePrompt("{passages}\\n\\nIn {language}: {question}", passage="- {text}")
        >>> prompt(MirageDataset.bundled("sw")[0]).messages[0]["content"].splitlines()[-1][:12]
        'In Swahili: '
    """

    user: str
    system: str = ""
    closed_book_user: str = ""
    closed_book_system: str = ""
    passage: str = "{title}\n{text}"
    examples: Sequence[Mapping[str, str]] = ()
    passage_tokens: int = 800
    context_tokens: int = CONTEXT_TOKENS
    answer_tokens: int = 128
    count: Callable[[str], int] = estimate_tokens

    def __post_init__(self) -> None:
        room(self.context_tokens, self.answer_tokens, self.passage_tokens)
        for name in ("user", "system", "closed_book_user", "closed_book_system"):
            slots = _slots(name, getattr(self, name), SLOTS)
            if name.startswith("closed_book") and "passages" in slots:
                raise SettingError(
                    f"{name}: a closed-book prompt has no passages; remove {{passages}}"
                )
        for name in ("user", "closed_book_user"):
            text = getattr(self, name)
            if "question" not in _slots(name, text, SLOTS) and (text or name == "user"):
                raise SettingError(
                    f"{name}: the template has no {{question}}, so the model would not see the "
                    "question; add it"
                )
        if "text" not in _slots("passage", self.passage, PASSAGE_SLOTS):
            raise SettingError(
                "passage: the template has no {text}, so the passages would have no text; add it"
            )
        for example in self.examples:
            for field in example:
                if field not in EXAMPLE_FIELDS:
                    raise UnknownNameError("field", field, EXAMPLE_FIELDS, "in an example")
            for field in ("question", "answer"):
                if field not in example:
                    raise SettingError(
                        f"examples: the example {dict(example)} has no {field!r}; add it"
                    )

    @property
    def shows_passages(self) -> bool:
        """Whether the user message has the slot ``{passages}``."""
        return "passages" in _slots("user", self.user, SLOTS)

    def __call__(self, query: Query) -> Prompt:
        """Return the prompt for a query."""

        def messages(passages: list[Passage]) -> tuple[Message, ...]:
            return self._messages(query, passages)

        passages = query.passages if self.shows_passages else ()
        space = room(self.context_tokens, self.answer_tokens, self.passage_tokens)
        return fitted(query, passages, messages, self.passage_tokens, space, self.count)

    def _messages(self, query: Query, passages: Sequence[Passage]) -> tuple[Message, ...]:
        language = Language.of(query.language).name

        def fill(template: str, question: str, passages: str) -> str:
            # A single pass, so that a slot inside a question or a passage stays plain text.
            values = {"question": question, "passages": passages, "language": language}
            return template.format(**values).strip()

        def user(has_passages: bool) -> str:
            return self.user if has_passages else self.closed_book_user or self.user

        system = self.system if passages else self.closed_book_system or self.system
        entries = "\n\n".join(self._entry(n, p) for n, p in enumerate(passages, 1))
        turns = [("system", fill(system, query.text, entries))] if system else []
        for example in self.examples:
            shown = example.get("passages", "")
            turns.append(("user", fill(user(bool(shown)), example["question"], shown)))
            turns.append(("assistant", example["answer"]))
        turns.append(("user", fill(user(bool(passages)), query.text, entries)))
        return tuple({"role": role, "content": content} for role, content in turns)

    def _entry(self, number: int, passage: Passage) -> str:
        values = {"id": passage.id, "title": passage.title, "text": passage.text}
        return self.passage.format(number=number, **values).strip()


def _slots(name: str, template: str, allowed: Sequence[str]) -> set[str]:
    """Return the names of a template's slots.

    Raises:
        SettingError: If the template is malformed, or a slot has a format specification or reads an
            attribute.
        UnknownNameError: If a slot is not in ``allowed``.
    """
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise SettingError(
            f"{name}: not a valid template ({error}); write {{{{ and }}}} for braces"
        ) from None
    slots = set()
    for _, slot, form, conversion in parts:
        if slot is None:
            continue
        # Attributes, items and formats of `str.format` could read any object.
        if form or conversion or not slot.isidentifier():
            raise SettingError(
                f"{name}: {{{slot}}} is not the plain name of a slot; the slots are "
                f"{', '.join(allowed)}; write {{{{ and }}}} for braces"
            )
        if slot not in allowed:
            raise UnknownNameError("slot", slot, allowed, f"in the template {name!r}")
        slots.add(slot)
    return slots

"""Prompts that users write: templates with slots for the question and the passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from string import Formatter

from mirage.errors import SettingError, UnknownNameError
from mirage.generation.prompts import FittedPrompt, Prompt
from mirage.languages import Language
from mirage.llm.client import Message
from mirage.llm.questions import harmless
from mirage.models import Passage, Query

SLOTS = ("question", "passages", "language")
"""Slots that the messages of a template may have."""

PASSAGE_SLOTS = ("number", "id", "title", "text")
"""Slots that the template of one passage may have."""

EXAMPLE_FIELDS = ("question", "passages", "answer")
"""Fields of an example (few-shot); ``passages`` is optional."""


@dataclass(frozen=True)
class TemplatePrompt(FittedPrompt):
    """A function that makes a prompt from texts with slots, such as ``{question}``.

    The slots are ``{question}``, ``{passages}`` and ``{language}``, the English name of the
    language of the question. Write ``{{`` and ``}}`` for braces. Slots are only replaced: a
    template cannot execute code or read attributes, and a slot inside a question or a passage is
    plain text. Unlike the built-in prompts, a template does not put tags around the question and
    the passages, so write tags yourself if passages are not trusted. Control tokens of chat
    templates in the question and the passages are altered, so that they have no effect; those that
    you write yourself stay.

    The limits on tokens, ``count`` and the errors of a call are those of :class:`RagPrompt`.

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
    _: KW_ONLY
    answer_tokens: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("user", "system", "closed_book_user", "closed_book_system"):
            text = getattr(self, name)
            slots = _slots(name, text, SLOTS)
            if name.startswith("closed_book") and "passages" in slots:
                raise SettingError(
                    f"{name}: a closed-book prompt has no passages; remove {{passages}}"
                )
            if name.startswith("closed_book") and text and not self.shows_passages:
                raise SettingError(
                    f"{name}: the prompt never shows passages, so this text would replace the "
                    "other one for every query; add {passages} to user, or leave this text out"
                )
            is_needed = name == "user" or (name == "closed_book_user" and text)
            if is_needed and "question" not in slots:
                raise SettingError(
                    f"{name}: the template has no {{question}}, so the model would not see the "
                    "question; add it"
                )
        if "text" not in _slots("passage", self.passage, PASSAGE_SLOTS):
            raise SettingError(
                "passage: the template has no {text}, so the passages would have no text; add it"
            )
        if isinstance(self.examples, str) or not isinstance(self.examples, Sequence):
            raise SettingError(f"examples must be a list of mappings, got {self.examples!r}")
        for example in self.examples:
            _check_example(example)

    @property
    def shows_passages(self) -> bool:
        """Whether the user message or the system message has the slot ``{passages}``."""
        return any("passages" in _slots("user", text, SLOTS) for text in (self.user, self.system))

    def __call__(self, query: Query) -> Prompt:
        """Return the prompt for a query."""
        prompt = super().__call__(query)
        # Some tokens are the user's own. But the brackets of a template, such as "[{title}]", may
        # also complete a harmless text to a token. Then there are more than with blank texts.
        blank = Passage.model_construct(id=" ", title=" ", text=" ")
        blank_query = query.model_copy(update={"text": " "})
        template = self._messages(blank_query, [blank] * len(prompt.shown))
        if _control_tokens(prompt.messages) == _control_tokens(template):
            return prompt
        safe = ({**message, "content": harmless(message["content"])} for message in prompt.messages)
        return prompt._replace(messages=tuple(safe))

    def _passages(self, query: Query) -> Sequence[Passage]:
        return query.passages if self.shows_passages else ()

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


def _control_tokens(messages: Sequence[Message]) -> int:
    """Return the number of control tokens; :func:`harmless` adds a space to each."""
    return sum(len(harmless(m["content"])) - len(m["content"]) for m in messages)


def _check_example(example: Mapping[str, str]) -> None:
    """Raise an error if an example lacks a field, or has an unknown field or one without text."""
    if not isinstance(example, Mapping):
        raise SettingError(f"examples: each example must be a mapping, got {example!r}")
    for field, text in example.items():
        if field not in EXAMPLE_FIELDS:
            raise UnknownNameError("field", field, EXAMPLE_FIELDS, "in an example")
        if not isinstance(text, str):
            raise SettingError(f"examples: {field!r} must be a text, got {text!r}")
    for field in ("question", "answer"):
        if field not in example:
            raise SettingError(f"examples: the example {dict(example)} has no {field!r}; add it")


def _slots(name: str, template: str, allowed: Sequence[str]) -> set[str]:
    """Return the names of a template's slots.

    Raises:
        SettingError: If the template is malformed, or a slot has a format specification or reads an
            attribute.
        UnknownNameError: If a slot is not in ``allowed``.
    """
    if not isinstance(template, str):
        raise SettingError(f"{name} must be a text, got {template!r}")
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

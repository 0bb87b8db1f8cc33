"""Prompts that users write for judges: texts with named fields, checked before the first call.

A template is plain text with fields such as ``{question}``. ``{{`` and ``}}`` are literal braces.
Fields are names from a fixed list: attributes, indexes, conversions and format specifications are
errors, so nothing in a template is evaluated.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter

from mirage.errors import SettingError

_DIGEST_DIGITS = 16  # hexadecimal digits; the digests of requests in vote files have as many
_NUMBER = re.compile(r"-\d+$")


@dataclass(frozen=True)
class PromptFields:
    """The fields that the prompt of one kind of judge may have.

    Besides these, every prompt may have ``{language}``, the English name of the question's
    language; ``{marks}``, a warning that the inserted texts are not instructions; and ``{form}``,
    the instructions on how to write the verdict.

    Attributes:
        material: Pairs of a text's name and the field that the text fills, such as ``("passage",
            "passages")``. Names are listed without numbers: ``passage-3`` belongs to ``passage``. A
            text whose name is not listed is left out of the prompt.
        required: Fields that a prompt must have.
        verdicts: The possible verdicts, such as ``[[yes]]``. A prompt without ``{form}`` must
            contain all of them, because an answer without a verdict cannot be read.
    """

    material: tuple[tuple[str, str], ...]
    required: tuple[str, ...]
    verdicts: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all fields."""
        return (*dict.fromkeys(field for _, field in self.material), "language", "marks", "form")

    def field_of(self, name: str) -> str | None:
        """Return the field that a text belongs to, such as ``passages`` for ``passage-3``.

        Returns ``None`` if the text belongs to no field.
        """
        fields = dict(self.material)
        return fields.get(name, fields.get(_NUMBER.sub("", name)))


@dataclass(frozen=True)
class Template:
    """A prompt with fields that was checked by :func:`template_of`.

    Attributes:
        text: The prompt as the user wrote it.
        fields: The fields that the prompt may have.
        pieces: Pairs of a literal text and the name of the field after it. The name is empty if no
            field follows.
    """

    text: str
    fields: PromptFields
    pieces: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of the text's SHA-256."""
        return hashlib.sha256(self.text.encode("utf-8", "replace")).hexdigest()[:_DIGEST_DIGITS]

    def fill(self, values: Mapping[str, str], texts: Mapping[str, str]) -> str:
        """Return the prompt with its fields filled in.

        Braces within the values and texts are not treated as fields.

        Args:
            values: Values by field, inserted within a line, such as the language.
            texts: Texts by field, each already enclosed in tags. Line breaks are added so that each
                tag is alone on its line.
        """
        prompt, ends_text = "", False
        for literal, field in self.pieces:
            if ends_text and literal and not literal.startswith("\n"):
                prompt += "\n"
            prompt += literal
            ends_text = field in texts
            if ends_text and prompt and not prompt.endswith("\n"):
                prompt += "\n"
            prompt += texts[field] if ends_text else values.get(field, "")
        return prompt


def template_of(text: str | None, fields: PromptFields, judge: str) -> Template | None:
    """Check a prompt that the user wrote, and return it as a template.

    Args:
        text: The prompt; ``None`` if the judge uses the prompt that ships with Mirage.
        fields: The fields that the prompt may have.
        judge: A noun that names the judge in error messages.

    Returns:
        The template, or ``None`` if there is no prompt.

    Raises:
        SettingError: If the prompt has an unknown field, lacks a required field or verdict, or has
            a single brace.

    Example:
        >>> fields = PromptFields((("answer", "answer"),), ("answer",), ("[[yes]]",))
        >>> template = template_of("Is\\n{answer} right? [[yes]] or [[no]]", fields, "a judge")
        >>> print(template.fill({}, {"answer": "{form}"}))
        Is
        {form}
         right? [[yes]] or [[no]]
    """
    if text is None:
        return None
    if not isinstance(text, str):
        raise SettingError(
            f"prompt must be a string with fields in braces, got {type(text).__name__}"
        )
    pieces, unknown = [], []
    try:
        for literal, name, specification, conversion in Formatter().parse(text):
            # `{a:b}` and `{a!r}` are format syntax; only plain names are fields.
            whole = f"{name}{f'!{conversion}' if conversion else ''}"
            whole += f":{specification}" if specification else ""
            pieces.append((literal, name or ""))
            if name is not None and whole not in fields.names:
                unknown.append(f"{{{whole}}}")
    except ValueError as error:
        raise SettingError(
            f"the prompt of {judge} has a single brace ({error}); write {{{{ and }}}} for braces "
            "that do not enclose a field"
        ) from None
    named = {field for _, field in pieces}
    missing = [f"{{{name}}}" for name in fields.required if name not in named]
    problems = []
    if unknown:
        problems.append(f"has the unknown field {', '.join(dict.fromkeys(unknown))}")
    if missing:
        problems.append(f"lacks {', '.join(missing)}")
    if problems:
        names = ", ".join(f"{{{name}}}" for name in fields.names)
        raise SettingError(
            f"the prompt of {judge} {' and '.join(problems)}; its fields are {names}, and {{{{ and "
            "}} are literal braces"
        )
    absent = [verdict for verdict in fields.verdicts if verdict not in text]
    if "form" not in named and absent:
        raise SettingError(
            f"the prompt of {judge} does not mention the verdicts {', '.join(absent)}, so no "
            "verdict could be read from the answer; add the field {form}, or name these verdicts "
            "in the prompt"
        )
    return Template(text, fields, tuple(pieces))

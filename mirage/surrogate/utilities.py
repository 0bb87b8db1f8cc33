"""How the simulated judge computes the utility of a response from its faults.

The simulated judge prefers responses with a higher utility. The utility is a weighted sum of
aspects, such as correctness. Each fault of a response lowers some of the aspects. Which responses
are better than others is a design decision, expressed by the weights and the effects of faults.
From best to worst:

1. correct and supported;
2. correct, but not cited or wrongly cited;
3. half right: the answer appears beside a false statement;
4. no answer: a wrong abstention, then a list of candidates or a response that does not decide;
5. a falsehood: a wrong answer in any wording, a denial of the right answer, an answer to another
   question, or an invented answer if no passage answers the question.

Users who prefer another order can pass their own numbers: see :func:`read_utilities`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields, replace
from operator import mul
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mirage._base.inputs import read_text
from mirage.errors import SettingError, UnknownNameError


@dataclass(frozen=True, slots=True)
class Quality:
    """The aspects of a response that the simulated judge scores, each from 0 (worst) to 1 (best).

    The writing style is not scored.

    Attributes:
        correct: Correctness of the answer. A response without an answer asserts nothing false, so
            it keeps most of this score.
        grounded: Support of the answer by the passages that it cites.
        language: Whether the response is in the language of the query.
        complete: Completeness of the answer; irrelevant text lowers it too.
        form: Format and brevity of the response.
    """

    correct: float = 1.0
    grounded: float = 1.0
    language: float = 1.0
    complete: float = 1.0
    form: float = 1.0

    def times(self, left: Quality) -> Quality:
        """Return this quality with each aspect multiplied by its factor in ``left``."""
        return Quality(*map(mul, astuple(self), astuple(left)))


WEIGHTS = Quality(correct=7.0, grounded=1.0, language=2.8, complete=1.4, form=0.5)
"""Weight of each aspect in the utility, in natural-log odds.

Grounding has a seventh of the weight of correctness, so missing citations never cost as much as a
falsehood or a wrong abstention.
"""

_FALSE = Quality(correct=0.0, grounded=0.1, complete=0.5)
# A response that does not answer asserts nothing false, so it keeps most of its correctness.
_NO_CHOICE = Quality(correct=0.85, grounded=0.25, complete=0.2)

LEFT: Mapping[str, Quality] = MappingProxyType(
    {
        # Citations, amount and form.
        "over-cited": Quality(grounded=0.7),
        "uncited": Quality(grounded=0.25),
        "wrongly-cited": Quality(grounded=0.1),
        "truncated": Quality(),  # ``complete`` is the share of sentences that remain
        "padded": Quality(complete=0.6, form=0.7),
        "verbose": Quality(complete=0.8, form=0.6),
        "format-broken": Quality(complete=0.8, form=0.0),
        # Another language.
        "mixed-language": Quality(language=0.4),
        "wrong-language": Quality(language=0.0),
        # The answer is included, with something false or irrelevant.
        "wrong-number": Quality(0.8, 0.7),
        "cut-off": Quality(0.8, 0.5, complete=0.2, form=0.5),
        "hallucinated": Quality(0.8, 0.5),
        "half-right": Quality(0.8, 0.5),
        "dumping": Quality(0.5, 0.7, complete=0.3, form=0.3),
        # No answer.
        "refusal": Quality(0.9, 0.25, complete=0.3),
        "listing": _NO_CHOICE,
        "undecided": _NO_CHOICE,
        # A falsehood.
        "off-topic": Quality(0.0, 0.5, complete=0.3),
        "other-question": Quality(0.0, 0.1, complete=0.3),
        "lying": _FALSE,
        "wrong-entity": _FALSE,
        "answered-anyway": _FALSE,
        "denying": _FALSE,
        "mention-lie": _FALSE,
        "guessing": _FALSE,
        "abstain-then-lie": _FALSE,
        "swapped": _FALSE,
        # A falsehood of a careless reader. Quotations that do not answer are at least supported.
        "first-passage": Quality(0.0, 0.5, complete=0.3),
        "one-hop": Quality(0.0, 0.5, complete=0.3),
        "hasty": _FALSE,
        "update-ignoring": _FALSE,
        "exception-ignoring": _FALSE,
        "one-sided": _FALSE,
        "namesake-mistaking": _FALSE,
        "miscalculating": Quality(0.0, 0.5, complete=0.5),
        # Additional cost of a fault if it also removes the answer.
        "wrong-number in the answer": Quality(correct=0.1),
        "cut-off before the answer": Quality(correct=0.3),
        "garbled": Quality(0.0, 0.0, 0.3, 0.2, 0.0),
    }
)
"""Factors by which each kind of fault multiplies the aspects; 1 leaves an aspect unchanged."""


@dataclass(frozen=True)
class Utilities:
    """The numbers from which the utility of a response is computed, given its faults.

    Attributes:
        weights: Weight of each aspect in the utility, in natural-log odds.
        left: Factors by which each kind of fault multiplies the aspects.

    Example:
        >>> UTILITIES.cost("uncited") < UTILITIES.cost("refusal") < UTILITIES.cost("lying")
        True
    """

    weights: Quality = WEIGHTS
    left: Mapping[str, Quality] = field(default_factory=lambda: LEFT)

    def quality(self, faults: Iterable[str], *, complete: float = 1.0) -> Quality:
        """Return the quality of a response with some faults.

        Args:
            faults: Names of the faults.
            complete: Share of the original sentences that remain, from 0 to 1.
        """
        quality = Quality(complete=complete)
        for fault in faults:
            quality = quality.times(self.left[fault])
        return quality

    def of(self, faults: Iterable[str], *, complete: float = 1.0) -> float:
        """Return the utility of a response with some faults.

        Args:
            faults: Names of the faults.
            complete: Share of the original sentences that remain, from 0 to 1.
        """
        quality = self.quality(faults, complete=complete)
        return float(sum(map(mul, astuple(quality), astuple(self.weights))))

    def cost(self, *faults: str) -> float:
        """Return the decrease in the utility of a response that these faults cause."""
        return self.of(()) - self.of(faults)

    def changed(self, plain: Mapping[str, Any]) -> Utilities:
        """Return a copy of these utilities with other numbers for some aspects or faults.

        Args:
            plain: New numbers, as ``{"weights": {aspect: number}, "faults": {fault: {aspect:
                number}}}``.

        Raises:
            SettingError: If a number is not valid or a section is not a mapping.
            UnknownNameError: If there is no such section, aspect or fault.

        Example:
            >>> UTILITIES.changed({"weights": {"grounded": 3.0}}).weights.grounded
            3.0
        """
        sections = _require_mapping("utilities", plain)
        for section in sections:
            if section not in ("weights", "faults"):
                raise UnknownNameError(
                    "section", section, ("weights", "faults"), "of the utilities"
                )
        weights = _parse_numbers("weights", sections.get("weights", {}), most=None)
        factors = dict(self.left)
        for fault, numbers in _require_mapping("faults", sections.get("faults", {})).items():
            if fault not in factors:
                raise UnknownNameError("kind of fault", fault, factors)
            factors[fault] = replace(
                factors[fault], **_parse_numbers(f"faults: {fault}", numbers, most=1.0)
            )
        return Utilities(replace(self.weights, **weights), MappingProxyType(factors))


UTILITIES = Utilities()
"""Utilities that the bundled surrogates were trained with."""


def read_utilities(path: Path) -> Utilities:
    """Read utilities from a YAML or JSON file; numbers that are not in the file keep their default.

    This file gives citations a larger weight, and a list of candidates a higher cost::

        weights:
          grounded: 3.0
        faults:
          listing: {correct: 0.2}

    Raises:
        SettingError: If the file is not valid.
        UnknownNameError: If there is no such section, aspect or fault.
    """
    import yaml

    text = read_text(path, "settings")
    try:
        plain = yaml.safe_load(text)  # reads JSON as well
    except (yaml.YAMLError, RecursionError) as error:
        message = str(getattr(error, "problem", None) or error).partition("\n")[0]
        raise SettingError(f"{path}: not valid YAML or JSON ({message})") from None
    try:
        return UTILITIES.changed(plain)
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from None


def _require_mapping(name: str, plain: Any) -> Mapping[str, Any]:
    if not isinstance(plain, Mapping):
        raise SettingError(f"{name}: expected a mapping from names to numbers, got {plain!r}")
    return plain


def _parse_numbers(name: str, plain: Any, *, most: float | None) -> dict[str, float]:
    parts = tuple(part.name for part in fields(Quality))
    numbers = {}
    for part, number in _require_mapping(name, plain).items():
        if part not in parts:
            raise UnknownNameError("aspect", part, parts, f"in {name}")
        numeric = isinstance(number, int | float) and not isinstance(number, bool)
        if not numeric or not 0 <= number <= (most or 100.0):
            limits = f"between 0 and {most or 100.0:g}"
            raise SettingError(f"{name}: {part}: expected a number {limits}, got {number!r}")
        numbers[part] = float(number)
    return numbers

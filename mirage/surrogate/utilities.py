"""The utilities of the simulated judge: how much each part of a response counts, and what each
kind of fault leaves of it.

The order of faults is a decision, and these numbers state it. From best to worst:

1. correct and supported;
2. correct, but not cited or wrongly cited;
3. half right: the answer stands beside a false statement;
4. no answer: a wrong abstention, then a list of candidates or a response that does not decide;
5. a falsehood: a wrong answer in any wording, a denial of the right one, an answer to another
   question, or an invention where no passage answers.

Users who rank faults differently give their own numbers: see :func:`read_utilities`.
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

__all__ = ["LEFT", "UTILITIES", "WEIGHTS", "Quality", "Utilities", "read_utilities"]


@dataclass(frozen=True, slots=True)
class Quality:
    """The parts of a response that the judge knows, each from 0 (worst) to 1.

    The manner of writing is no part of it.
    """

    correct: float = 1.0
    grounded: float = 1.0
    language: float = 1.0
    complete: float = 1.0
    form: float = 1.0

    def times(self, left: Quality) -> Quality:
        """Return this quality with each part multiplied by the same part of ``left``."""
        return Quality(*map(mul, astuple(self), astuple(left)))


WEIGHTS = Quality(correct=7.0, grounded=1.0, language=2.8, complete=1.4, form=0.5)
"""The utility of each part, in natural-log odds.

Grounding weighs a seventh of correctness, so that missing citations never cost as much as a
falsehood or a wrong abstention.
"""

_FALSE = Quality(correct=0.0, grounded=0.1, complete=0.5)
# A response that does not answer says nothing false, so most of its correctness is left.
_NO_CHOICE = Quality(correct=0.85, grounded=0.25, complete=0.2)

LEFT: Mapping[str, Quality] = MappingProxyType(
    {
        # Citations, amount and form.
        "over-cited": Quality(grounded=0.7),
        "uncited": Quality(grounded=0.25),
        "wrongly-cited": Quality(grounded=0.1),
        "truncated": Quality(),  # the share of sentences that is left counts as complete
        "padded": Quality(complete=0.6, form=0.7),
        "verbose": Quality(complete=0.8, form=0.6),
        "format-broken": Quality(complete=0.8, form=0.0),
        # Another language.
        "mixed-language": Quality(language=0.4),
        "wrong-language": Quality(language=0.0),
        # The answer is there, with something false or beside the point.
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
        # What more a fault costs if it also takes the answer away.
        "wrong-number in the answer": Quality(correct=0.1),
        "cut-off before the answer": Quality(correct=0.3),
        "garbled": Quality(0.0, 0.0, 0.3, 0.2, 0.0),
    }
)
"""What each kind of fault leaves of each part; 1 if nothing is lost."""


@dataclass(frozen=True)
class Utilities:
    """How much a simulated judge likes a response, by the faults that it has.

    Attributes:
        weights: Utility of each part of the quality, in natural-log odds.
        left: What each kind of fault leaves of each part.

    >>> UTILITIES.cost("uncited") < UTILITIES.cost("refusal") < UTILITIES.cost("lying")
    True
    """

    weights: Quality = WEIGHTS
    left: Mapping[str, Quality] = field(default_factory=lambda: LEFT)

    def quality(self, faults: Iterable[str], *, complete: float = 1.0) -> Quality:
        """Return what is left of a response with some faults.

        Args:
            faults: Names of the faults.
            complete: Share of the sentences that were not dropped.
        """
        quality = Quality(complete=complete)
        for fault in faults:
            quality = quality.times(self.left[fault])
        return quality

    def of(self, faults: Iterable[str], *, complete: float = 1.0) -> float:
        """Return the utility of a response with some faults, as :meth:`quality` takes them."""
        quality = self.quality(faults, complete=complete)
        return float(sum(map(mul, astuple(quality), astuple(self.weights))))

    def cost(self, *faults: str) -> float:
        """Return how much utility a faultless response loses by some faults."""
        return self.of(()) - self.of(faults)

    def changed(self, plain: Mapping[str, Any]) -> Utilities:
        """Return these utilities with other numbers for some names.

        Args:
            plain: ``{"weights": {part: number}, "faults": {fault: {part: number}}}``. Names that
                are left out keep their numbers.

        Raises:
            UnknownNameError: There is no such section, fault or part.
            SettingError: A number is missing or outside its range.
        """
        sections = _mapping("utilities", plain)
        for section in sections:
            if section not in ("weights", "faults"):
                raise UnknownNameError("section of the utilities", section, ("weights", "faults"))
        weights = _numbers("weights", sections.get("weights", {}), most=None)
        left = dict(self.left)
        for fault, numbers in _mapping("faults", sections.get("faults", {})).items():
            if fault not in left:
                raise UnknownNameError("kind of fault", fault, left)
            left[fault] = replace(left[fault], **_numbers(f"faults: {fault}", numbers, most=1.0))
        return Utilities(replace(self.weights, **weights), MappingProxyType(left))


UTILITIES = Utilities()
"""The utilities that the surrogates that ship were trained with."""


def read_utilities(path: Path) -> Utilities:
    """Read utilities from a YAML or JSON file; names that it leaves out keep their numbers.

    Such a file makes citations count more, and a list of candidates less::

        weights:
          grounded: 3.0
        faults:
          listing: {correct: 0.2}

    Raises:
        SettingError: The file is not YAML or JSON, or a number is missing or outside its range.
        UnknownNameError: It names a section, fault or part that does not exist.
        DatasetError: The file cannot be read.
    """
    import yaml

    text = read_text(path, "settings")
    try:
        plain = yaml.safe_load(text)  # reads JSON as well
    except (yaml.YAMLError, RecursionError) as error:
        message = str(getattr(error, "problem", None) or error).partition("\n")[0]
        raise SettingError(f"{path}: not YAML or JSON ({message})") from None
    try:
        return UTILITIES.changed(plain)
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from None


def _mapping(name: str, plain: Any) -> Mapping[str, Any]:
    if not isinstance(plain, Mapping):
        raise SettingError(f"{name}: give a mapping from names to numbers, not {plain!r}")
    return plain


def _numbers(name: str, plain: Any, *, most: float | None) -> dict[str, float]:
    parts = tuple(part.name for part in fields(Quality))
    numbers = {}
    for part, number in _mapping(name, plain).items():
        if part not in parts:
            raise UnknownNameError(f"part of a response in {name}", part, parts)
        numeric = isinstance(number, int | float) and not isinstance(number, bool)
        if not numeric or not 0 <= number <= (most or 100.0):
            limits = f"between 0 and {most or 100.0:g}"
            raise SettingError(f"{name}: {part}: give a number {limits}, not {number!r}")
        numbers[part] = float(number)
    return numbers

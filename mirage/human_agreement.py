"""How far judges and features are to be trusted: what is known of their agreement with people."""

from __future__ import annotations

from functools import cache
from importlib import resources

from mirage.languages import Language
from mirage.models import HumanAgreement

__all__ = ["known_agreement"]


def known_agreement(name: str, language: str | None = None) -> tuple[HumanAgreement, ...]:
    """What is known of a judge's or feature's agreement with people.

    For LLMs these are the figures that MEMERAG publishes (arXiv 2502.17163, Table 5: means over
    five languages); for features without a model, what ``benchmarks/metaeval.py`` measured on
    MEMERAG's labels, of which nothing was learnt. They are about single sentences, in which a
    judge says whether the passages support them; how it compares two whole responses nobody has
    measured there.

    Args:
        name: of a model or a feature.
        language: ISO 639-1 code. What is known in this language, or else in the mean of others;
            by default all that is known.

    Raises:
        UnknownNameError: no such language.
    """
    figures = tuple(figure for figure in _shipped() if figure.judge == name)
    if language is None:
        return figures
    code = Language.of(language).code
    here = tuple(figure for figure in figures if figure.language == code)
    return here or tuple(figure for figure in figures if figure.language is None)


@cache
def _shipped() -> tuple[HumanAgreement, ...]:
    source = resources.files("mirage") / "data" / "published" / "human_agreement.jsonl"
    lines = source.read_text(encoding="utf-8").splitlines()
    return tuple(map(HumanAgreement.model_validate_json, lines))

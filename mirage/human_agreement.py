"""Published and measured agreement of judges and features with human labels."""

from __future__ import annotations

from functools import cache
from importlib import resources

from mirage.languages import Language
from mirage.models import HumanAgreement


def known_agreement(name: str, language: str | None = None) -> tuple[HumanAgreement, ...]:
    """Return the known agreement of a judge or feature with human labels.

    The labels are those of MEMERAG (arXiv 2502.17163). They state for each sentence whether the
    passages support it. For LLMs, the figures are those of the paper (Table 5: means over five
    languages). For features that need no neural model, they were measured by
    ``validation/papers/metaeval.py``; these features were not trained on the labels. The agreement
    of judges that compare two whole responses was not measured. The result is empty if there are no
    figures.

    Args:
        name: Name of a model or a feature.
        language: ISO 639-1 code. If there are no figures for this language, the means over
            languages are returned. By default all figures are returned.

    Raises:
        UnknownNameError: If there is no such language.

    Example:
        >>> [figure.task for figure in known_agreement("support_lexical", "de")]
        ['faithfulness']
    """
    figures = tuple(figure for figure in _load_figures() if figure.judge == name)
    if language is None:
        return figures
    code = Language.of(language).code
    in_language = tuple(figure for figure in figures if figure.language == code)
    return in_language or tuple(figure for figure in figures if figure.language is None)


@cache
def _load_figures() -> tuple[HumanAgreement, ...]:
    source = resources.files("mirage") / "data" / "published" / "human_agreement.jsonl"
    lines = source.read_text(encoding="utf-8").splitlines()
    return tuple(map(HumanAgreement.model_validate_json, lines))

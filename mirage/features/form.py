"""Whether a response has the form that the benchmark's prompt asks for."""

from __future__ import annotations

from mirage.features.base import Answered, Definition, Facts


def well_formed(item: Answered) -> float:
    """Return 1 if the response has a reason and then an answer, each under its heading, else 0.

    The form is that of MIRAGE-Bench's prompt (arXiv 2410.13716, appendix): ``##Reason: ...
    ##Answer: ...``. If the headings are missing, the parser reads the reason as part of the answer.
    """
    return float(item.parsed.well_formed)


DEFINITIONS = (Definition("well_formed", well_formed, Facts("higher", 0, 1)),)

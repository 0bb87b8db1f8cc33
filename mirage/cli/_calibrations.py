"""Create LLM judges that use the same label names as people, and find stale calibrations.

A calibration is a file of the verdicts of a judge on sentences that people labelled.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.cli._inputs import existing
from mirage.cli._shell import end_inconclusive

if TYPE_CHECKING:
    from mirage.llm import LLM
    from mirage.metaeval import LabelledSentences, LLMSentenceJudge


def sentence_judge(
    llm: LLM, labelled: LabelledSentences, prompt: str | None, **settings: Any
) -> LLMSentenceJudge:
    """Return an LLM judge of faithfulness that answers with the label names of ``labelled``.

    Args:
        llm: The client of the LLM.
        labelled: Sentences with people's labels.
        prompt: The prompt; ``None`` for the built-in one.
        **settings: Further settings of :class:`mirage.metaeval.LLMSentenceJudge`.
    """
    from mirage.metaeval import LLMSentenceJudge
    from mirage.metaeval.prompts import LABELS

    supported, not_supported = LABELS["faithfulness"]
    usable = {*labelled.names} - labelled.undecided
    negative = [name for name in sorted(usable) if name != labelled.positive]
    names = {supported: labelled.positive}
    if len(negative) == 1:
        names[not_supported] = negative[0]
    return LLMSentenceJudge(llm, prompt=prompt, names=names, **settings)


def require_fresh(path: Path, judge: LLMSentenceJudge, labelled: LabelledSentences) -> None:
    """End the command with status 3 if the calibration in a file is stale.

    A calibration is stale if the judge or the labels have changed since it was written.
    """
    from mirage.metaeval.calibration import Calibration

    changes = Calibration.load(existing(path)).changes(judge, labelled)
    end_inconclusive(
        f"{path} is stale: {change}; measure the judge again, with another --calibration file"
        for change in changes
    )

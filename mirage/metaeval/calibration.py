"""Files with a judge's verdicts on labelled sentences, to reuse them until something changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mirage._base.files import validated, write_text
from mirage._base.inputs import read_text
from mirage.errors import DatasetError
from mirage.metaeval.labels import LabelledSentences
from mirage.metaeval.llm_judge import LLMSentenceJudge
from mirage.metaeval.prompts import label_question
from mirage.metaeval.sentences import AnswerSentence
from mirage.models import Name, Passage, Query, Record

# The prompt for this fixed sentence depends on the wording only, not on the data.
_SAMPLE = AnswerSentence(
    Query(id="q", language="en", text="Where?", passages=(Passage(id="1", text="There."),)),
    "There.",
)


class Calibration(Record):
    """The verdicts of a judge on labelled sentences, and digests that show if they are stale.

    Attributes:
        model: The model of the judge.
        prompt_digest: Digest (hash) of the prompt, the strategy, the task and the names of the
            labels.
        parameters_digest: Digest of the endpoint and of parameters such as the temperature.
        data_digest: Digest of the sentences, their labels and the positive label.
        verdicts: The judge's label of each sentence, by the digest (hash) of the sentence; ``None``
            if the judge gave no label.
    """

    model: Name
    prompt_digest: Name
    parameters_digest: Name
    data_digest: Name
    verdicts: dict[str, str | None]

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Read a calibration from a JSON file.

        Raises:
            DatasetError: The file is not a calibration.
        """
        try:
            fields = json.loads(read_text(Path(path)))
        except ValueError as error:
            raise DatasetError(f"{path}: the file is not a calibration ({error})") from None
        if not isinstance(fields, dict):
            raise DatasetError(f"{path}: the file is not a calibration: expected a JSON object")
        return validated(cls, fields, str(path))

    def save(self, path: str | Path) -> None:
        """Write the calibration as JSON.

        Raises:
            DatasetError: The file cannot be written.
        """
        write_text(Path(path), self.model_dump_json(indent=1) + "\n")

    def changes(self, judge: LLMSentenceJudge, labelled: LabelledSentences) -> tuple[str, ...]:
        """Return one phrase per change since the calibration; empty if there is none.

        Args:
            judge: The judge as it is now.
            labelled: The labelled sentences as they are now.
        """
        now = calibrate(judge, labelled, verdicts={})
        model = f"the model was {self.model!r} and is {now.model!r}"
        checks = (
            (self.model == now.model, model),
            (self.prompt_digest == now.prompt_digest, "the prompt has changed"),
            (
                self.parameters_digest == now.parameters_digest,
                "the endpoint or the parameters have changed",
            ),
            (self.data_digest == now.data_digest, "sentences or labels have changed"),
        )
        return tuple(words for is_same, words in checks if not is_same)

    def recorded(self, judge: LLMSentenceJudge) -> RecordedLabels:
        """Return a judge that reuses stored verdicts, and asks ``judge`` about other sentences."""
        return RecordedLabels(judge, self)


@dataclass(frozen=True)
class RecordedLabels:
    """A judge that reuses stored verdicts, and asks an LLM only about other sentences.

    Attributes:
        judge: The LLM judge.
        calibration: The stored verdicts.
    """

    judge: LLMSentenceJudge
    calibration: Calibration

    @property
    def name(self) -> str:
        """The name that tables show: the name of the LLM judge."""
        return self.judge.name

    @property
    def prompt_digest(self) -> str:
        """The digest of the user's own prompt; empty if the judge has a built-in prompt."""
        return self.judge.prompt_digest

    def label(self, sentences: Sequence[AnswerSentence]) -> list[str | None]:
        """Return one label per sentence, in order; ``None`` if the judge gave none."""
        stored = self.calibration.verdicts
        keys = [_sentence_digest(sentence) for sentence in sentences]
        new = [s for s, key in zip(sentences, keys, strict=True) if key not in stored]
        labels = iter(self.judge.label(new) if new else ())
        return [stored[key] if key in stored else next(labels) for key in keys]


def calibrate(
    judge: LLMSentenceJudge,
    labelled: LabelledSentences,
    *,
    verdicts: dict[str, str | None] | None = None,
) -> Calibration:
    """Ask a judge for its verdicts on labelled sentences, and return them as a calibration.

    Args:
        judge: The judge.
        labelled: Sentences with labels from people.
        verdicts: Verdicts that are already known, by the digest of the sentence. By default the
            judge is asked for all verdicts.

    Raises:
        JudgmentError: A call of the judge failed.
    """
    sentences = labelled.sentences
    if verdicts is None:
        labels = judge.label(sentences)
        verdicts = dict(zip(map(_sentence_digest, sentences), labels, strict=True))
    prompt = label_question(_SAMPLE, judge.task, judge.strategy, judge.template).prompt
    rows = sorted(
        [_sentence_digest(sentence), *label]
        for sentence, label in zip(sentences, labelled.majority().labels, strict=True)
    )
    return Calibration(
        model=judge.llm.model,
        prompt_digest=_digest([prompt, judge.task, judge.strategy, sorted(judge.names.items())]),
        parameters_digest=_digest([judge.llm.endpoint, judge.llm.parameters]),
        data_digest=_digest([rows, labelled.positive]),
        verdicts=verdicts,
    )


def _sentence_digest(sentence: AnswerSentence) -> str:
    query = sentence.query
    passages = [[passage.id, passage.title, passage.text] for passage in query.passages]
    return _digest(
        [query.language, query.id, query.text, passages, sentence.text, sentence.citations]
    )


def _digest(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]

"""mirage decide: label sentences by a feature with bounded error, and by an LLM or people."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mirage.cli import _options as options
from mirage.cli._calibrations import require_fresh, sentence_judge
from mirage.cli._inputs import check_folder, dataset_of, labelled_of, run_of, score_of, sentences_in
from mirage.cli._llms import LLMSettings, prompt_of
from mirage.cli._output import out_either, out_json, say, summarise
from mirage.cli._shell import app, argument, example, fall_short, keeping, option
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.llm.estimates import Estimate
    from mirage.metaeval import AnswerSentence, LabelledSentences
    from mirage.metaeval.abstaining import Cascade, Decision
    from mirage.metaeval.judges import Score


@app.command(
    epilog=example(
        "mirage decide labels.jsonl sentences.jsonl --risk 0.1 --rest for-people.jsonl",
        "mirage decide labels.jsonl my-rag.jsonl --dataset queries.jsonl --judge gpt-4o --dry-run",
        "mirage decide labels.jsonl sentences.jsonl --judge gpt-4o --out decided.jsonl",
    )
)
def decide(
    labels: options.Labels,
    sentences: Annotated[
        Path,
        argument(
            "SENTENCES",
            "Sentences to label, in the format of LABELS but without labels; with --dataset, a "
            "file of responses.",
        ),
    ],
    feature: Annotated[
        list[str] | None,
        option(
            "FEATURE[=THRESHOLD]",
            "Feature to decide with; may be repeated. Without a threshold, or with several "
            "features, a logistic regression is fitted to LABELS.  [default: support_lexical]",
        ),
    ] = None,
    risk: Annotated[
        float, option("SHARE", "Largest acceptable share of errors among automatic decisions.")
    ] = 0.2,
    confidence: Annotated[
        float,
        option(
            "P",
            "Probability, over new samples of LABELS, that the share of errors is at most --risk.",
        ),
    ] = 0.95,
    language: options.LabelLanguage = None,
    positive: options.Positive = "Supported",
    dataset: Annotated[
        Path | None,
        option(
            "FILE", "Queries as JSON Lines; SENTENCES is then read as responses to these queries."
        ),
    ] = None,
    model: Annotated[
        str | None,
        option(
            "NAME",
            "LLM that labels the sentences for which the feature is not decisive.  [default: none]",
            "--judge",
        ),
    ] = None,
    prompt: options.SentencePrompt = None,
    calibration: Annotated[
        Path | None,
        option(
            "FILE",
            "With --judge: calibration that `mirage metaeval --calibration` wrote. If it is stale, "
            "the command ends with status 3 and labels nothing.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        option(
            "FILE",
            "Write the decisions to this file, as JSON Lines with one sentence per line.  "
            "[default: standard output]",
            "--out",
        ),
    ] = None,
    rest: Annotated[
        Path | None,
        option(
            "FILE",
            "Also write the sentences that remain unlabelled, so that people can label them.",
        ),
    ] = None,
    dry_run: options.DryRun = False,
    base_url: options.BaseUrl = None,
    llm: options.Llm = None,
    budget: options.Budget = None,
    seed: options.Seed = 0,
    as_json: options.SummaryJson = False,
) -> None:
    """Label sentences automatically, with a bounded share of errors.

    A sentence gets a label if the value of the feature is decisive; the others stay unlabelled. The
    cutoffs are calibrated on LABELS: the share of wrong decisions is at most --risk with a
    probability of --confidence, for sentences drawn in the same way as the labelled sentences. With
    --judge, an LLM labels the other sentences; its share of errors is not bounded.

    The exit status is 1 if the feature cannot decide any sentence safely, or if the LLM leaves
    sentences without a label.
    """
    from mirage.metaeval import cascade, write_sentences

    for output in (file, rest):
        check_folder(output)
    if model is None and (prompt or calibration):
        raise MirageError("--prompt and --calibration need --judge")
    labelled = labelled_of(labels, language, positive)
    unlabelled = _sentences(sentences, dataset, language, labelled)
    settings = LLMSettings(llm, base_url, budget)
    # If the LLM refuses or the budget ends, sentences are left over and decisions are kept.
    judge = (
        None
        if model is None
        else sentence_judge(settings.llm(model), labelled, prompt_of(prompt), failed_is_wrong=True)
    )
    if judge is not None and calibration is not None:
        require_fresh(calibration, judge, labelled)
    judged = cascade(
        _feature_scores(feature), judge, labelled, risk=risk, confidence=confidence, seed=seed
    )
    decisions = judged.scored(unlabelled)
    undecided = [row.sentence for row in decisions if row.label is None]
    unsure, estimate = len(undecided), judge.estimate(undecided) if judge else None
    plan = {
        "calibration": asdict(judged.abstaining),
        "sentences": len(unlabelled),
        "left": unsure,
        "estimate": None if estimate is None else asdict(estimate),
    }
    words = _plan(judged, len(unlabelled), unsure, estimate)
    if dry_run:
        out_either(words, plan, as_json)
        return
    say(words)
    with keeping(None, cached=settings.cache):
        decisions = judged.finished(decisions)
    _write(decisions, file)
    undecided = [row.sentence for row in decisions if row.label is None]
    if rest is not None:
        write_sentences(undecided, rest)
    counts = Counter((row.by, row.label) for row in decisions if row.label is not None)
    labels_by = [{"by": by, "label": label, "sentences": n} for (by, label), n in counts.items()]
    parts = [f"{row['sentences']} {row['label']} by {row['by']}" for row in labels_by]
    text = ", ".join([*parts, f"{len(undecided)} without a label"])
    summary = {**plan, "given": labels_by, "left": len(undecided)}
    summarise(text, file, summary, as_json=as_json)
    if judged.abstaining.coverage == 0:
        fall_short([str(judged.abstaining)])
    if judge is not None and undecided:
        fall_short([f"{judge.name} gave no label to {len(undecided)} of {unsure} sentences"])


def _sentences(
    path: Path, dataset: Path | None, language: str | None, labelled: LabelledSentences
) -> tuple[AnswerSentence, ...]:
    """Return the sentences to label, which must be in the language of the labels."""
    from mirage.metaeval import sentences_of

    if dataset is None:
        sentences = sentences_in(path, language)
    else:
        queries = dataset_of(language, dataset)
        sentences = sentences_of(queries, run_of(queries.language, str(path)))
    codes = sorted({row.query.language for row in sentences} | {*labelled.languages})
    if len(codes) > 1:
        raise MirageError(
            f"the labels are in {', '.join(labelled.languages)}, but the sentences are in "
            f"{', '.join(sorted({row.query.language for row in sentences}))}; --risk limits "
            "errors only in the language of the labels, so give labels and sentences in one "
            "language"
        )
    if not sentences:
        raise MirageError(f"{path}: the file contains no sentences to label")
    return sentences


def _feature_scores(texts: list[str] | None) -> Score | list[Score]:
    """Parse the values of ``--feature``.

    Returns:
        One score if the only feature has a threshold, else the features that a logistic regression
        combines.
    """
    scores = list(map(score_of, texts or ["support_lexical"]))
    if len(scores) == 1 and scores[0].threshold is not None:
        return scores[0]
    with_threshold = next((score.name for score in scores if score.threshold is not None), None)
    if with_threshold is not None:
        raise MirageError(
            f"--feature {with_threshold} has a threshold, but features that are combined must not "
            "have one; leave out the threshold"
        )
    return scores


def _plan(judged: Cascade, sentences: int, unsure: int, estimate: Estimate | None) -> str:
    rest = f"{unsure} of {sentences} sentences are left"
    to = "for people" if estimate is None else f"for an LLM: {estimate}"
    return f"{judged}\n{rest} {to}"


def _write(decisions: Iterable[Decision], file: Path | None) -> None:
    from mirage._base.files import write_text

    rows = (
        {
            "query_id": row.sentence.query.id,
            "query": row.sentence.query.text,
            "sentence": row.sentence.text,
            "label": row.label,
            "by": row.by,
            "score": None if math.isnan(row.score) else round(row.score, 6),
        }
        for row in decisions
    )
    if file is None:
        for line in rows:
            out_json(line)
        return
    write_text(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

"""mirage decide: labels of sentences by a score where it is sure, by an LLM or people elsewhere."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mirage.cli import _options as options
from mirage.cli._inputs import check_folder, file_of, labelled_of, runs_of, score_of
from mirage.cli._llms import llms_of
from mirage.cli._output import out_either, out_json, say, summarise
from mirage.cli._shell import app, argument, example, fall_short, flag, keeping, option
from mirage.errors import MirageError

if TYPE_CHECKING:
    from mirage.llm.estimates import Estimate
    from mirage.metaeval import AnswerSentence, Cascade, Decision, LabelledSentences, Score

__all__ = ["decide"]


@app.command(
    epilog=example(
        "mirage decide labels.jsonl sentences.jsonl --risk 0.1 --left for-people.jsonl",
        "mirage decide labels.jsonl my-rag.jsonl --dataset queries.jsonl --model gpt-4o --estimate",
        "mirage decide labels.jsonl sentences.jsonl --model gpt-4o --out decided.jsonl",
    )
)
def decide(
    labels: Annotated[
        Path,
        argument("LABELS", "JSON Lines with a labelled sentence a line, or a folder of MEMERAG."),
    ],
    sentences: Annotated[
        Path,
        argument("SENTENCES", "As LABELS, where labels may be missing; with --dataset, responses."),
    ],
    judge: Annotated[
        list[str] | None,
        option(
            "FEATURE[=THRESHOLD]",
            "What decides where it is sure. Several, or one without a threshold, are made one "
            "probability by the labels.  [default: support_lexical]",
        ),
    ] = None,
    risk: Annotated[
        float, option("SHARE", "Of what is decided, the share that may be wrong.")
    ] = 0.2,
    confidence: Annotated[
        float, option("SHARE", "Of the draws of labels, those in which the risk is kept.")
    ] = 0.95,
    balanced: Annotated[
        bool, flag("Let the risk be of the mean error of the two labels.", "--balanced")
    ] = False,
    language: Annotated[str | None, option("CODE", "Of sentences that do not name theirs.")] = None,
    positive: Annotated[
        str,
        option("LABEL", "The label that a good score speaks for: a high one, or as it declares."),
    ] = "Supported",
    dataset: Annotated[
        Path | None, option("FILE", "Take SENTENCES for responses to these queries (JSON Lines).")
    ] = None,
    model: Annotated[
        str | None, option("NAME", "The LLM that is asked about the rest.  [default: none is]")
    ] = None,
    file: Annotated[
        Path | None,
        option("FILE", "Write a line a sentence here.  [default: standard output]", "--out"),
    ] = None,
    left: Annotated[
        Path | None,
        option("FILE", "Write what is left without a label here, for people, as LABELS has it."),
    ] = None,
    dry_run: Annotated[
        bool, flag("Say what it would take, and ask nothing.", "--estimate", "--dry-run")
    ] = False,
    base_url: options.BaseUrl = None,
    key_from: options.KeyFrom = None,
    max_tokens: options.MaxTokens = 1024,
    temperature: options.Temperature = 0.0,
    concurrency: options.Concurrency = 8,
    budget: options.Budget = None,
    price: options.Price = None,
    cache: options.Cache = True,
    seed: options.Seed = 0,
    as_json: Annotated[
        bool, flag("With --out or --estimate: print a summary as JSON.", "--json")
    ] = False,
) -> None:
    """Label sentences where a score is sure, and ask elsewhere.

    LABELS of people say how sure is sure, so that the share that is wrong among what the score
    decides is below --risk, of sentences like those; nothing is stated of the rest. What it may
    take is said before the first call. Falls short (status 1) where the labels do not show the risk
    of any share, or the LLM leaves something without a label.
    """
    from mirage.metaeval import LLMSentenceJudge, cascade, write_sentences

    for place in (file, left):
        check_folder(place)
    labelled = labelled_of(labels, language, positive)
    others = _sentences(sentences, dataset, language, labelled)
    llms = llms_of(
        [] if model is None else [model],
        base_url,
        key_from,
        max_tokens=max_tokens,
        temperature=temperature,
        concurrency=concurrency,
        cache=cache,
        budget=budget,
        price=price,
    )
    # What the LLM is not asked for a budget, or refuses, is left, and what was decided is not lost.
    costly = LLMSentenceJudge(llms[0], failed_is_wrong=True) if llms else None
    shares: dict[str, Any] = {"risk": risk, "confidence": confidence, "balanced": balanced}
    judged = cascade(_cheap(judge), costly, labelled, seed=seed, **shares)
    decisions = judged.scored(others)
    rest = [one.sentence for one in decisions if one.label is None]
    unsure, estimate = len(rest), costly.estimate(rest) if costly else None
    plan = {
        "calibration": asdict(judged.abstaining),
        "sentences": len(others),
        "left": unsure,
        "estimate": None if estimate is None else asdict(estimate),
    }
    words = _plan(judged, len(others), unsure, estimate)
    if dry_run:
        out_either(words, plan, as_json)
        return
    say(words)
    with keeping(None, cached=cache):
        decisions = judged.finished(decisions)
    _write(decisions, file)
    rest = [one.sentence for one in decisions if one.label is None]
    if left is not None:
        write_sentences(rest, left)
    counts = Counter((one.by, one.label) for one in decisions if one.label is not None)
    given = [{"by": by, "label": label, "sentences": n} for (by, label), n in counts.items()]
    told = [f"{row['sentences']} {row['label']} by {row['by']}" for row in given]
    text = ", ".join([*told, f"{len(rest)} left without a label"])
    summarise(text, {**plan, "given": given, "left": len(rest)}, file, as_json)
    if judged.abstaining.coverage == 0:
        fall_short([str(judged.abstaining)])
    if costly is not None and rest:
        fall_short([f"{costly.name} gave no label to {len(rest)} of {unsure} sentences"])


def _sentences(
    path: Path, dataset: Path | None, language: str | None, labelled: LabelledSentences
) -> tuple[AnswerSentence, ...]:
    """What is to be labelled, in the one language of the labels."""
    from mirage.dataset import MirageDataset
    from mirage.metaeval import read_sentences, sentences_of

    if dataset is None:
        sentences = read_sentences(file_of(path), language=language)
    else:
        queries = MirageDataset.from_jsonl(file_of(dataset))
        sentences = sentences_of(queries, runs_of(queries.language, [path], None)[0])
    codes = sorted({one.query.language for one in sentences} | {*labelled.languages})
    if len(codes) > 1:
        raise MirageError(
            f"labels in {', '.join(labelled.languages)} and sentences in "
            f"{', '.join(sorted({one.query.language for one in sentences}))}: a risk is stated of "
            "one language, that of the labels; give one file a language"
        )
    if not sentences:
        raise MirageError(f"{path}: there is no sentence to label")
    return sentences


def _cheap(texts: list[str] | None) -> Score | list[Score]:
    """The score: the one that is named with its threshold, or those to be made one."""
    scores = list(map(score_of, texts or ["support_lexical"]))
    if len(scores) == 1 and scores[0].threshold is not None:
        return scores[0]
    known = next((one.name for one in scores if one.threshold is not None), None)
    if known is not None:
        raise MirageError(
            f"--judge {known} has a threshold, which several together have no use for; leave it out"
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
            "query_id": one.sentence.query.id,
            "query": one.sentence.query.text,
            "sentence": one.sentence.text,
            "label": one.label,
            "by": one.by,
            "score": None if math.isnan(one.score) else round(one.score, 6),
        }
        for one in decisions
    )
    if file is None:
        for row in rows:
            out_json(row)
        return
    write_text(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

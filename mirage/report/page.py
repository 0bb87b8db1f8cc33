"""The report: rankings as one HTML file that needs nothing else.

The page holds its style and its script; a content security policy names their hashes, so that
nothing else can run or load. All that comes from models and files enters through
:mod:`mirage.report._elements`, which escapes it. The same rankings give the same file, to the byte.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from mirage.errors import FeatureError, MirageError
from mirage.ranking import Evidence, MultilingualRanking, Ranking
from mirage.report import _elements as elements
from mirage.report import _findings as found
from mirage.report import _sections as sections
from mirage.report._elements import Child, label, rounded, tag
from mirage.report._file import save, whole
from mirage.report._responses import Sample, sample
from mirage.report._retrieval import retrieved, runs_by_language
from mirage.report._stability import stability
from mirage.report.judges import JudgeFinding, findings, measure_judges
from mirage.retrieval import RetrievalRun
from mirage.surrogate import SurrogateRanker
from mirage.surrogate.fault_costs import fault_costs

__all__ = ["render", "write"]

REPEATS = 10
"""Splits behind a feature importance; the twenty of an experiment take twice as long."""

COLUMNS = 40
"""Models against which win probabilities are shown."""


def write(
    ranking: Ranking | MultilingualRanking,
    path: str | Path,
    *,
    judges: Iterable[JudgeFinding] = (),
    details: Mapping[str, object] | None = None,
    importances: bool | None = None,
    retrieval: Mapping[str, RetrievalRun | Mapping[str, RetrievalRun]] | None = None,
) -> None:
    """Write a report: one HTML file that needs nothing else, for any browser.

    It has the leaderboard, features and win probabilities, and a page for each model with its
    best, worst and failed responses; in several languages, where responses are many, some of them,
    and it says so. The same ranking gives the same file.

    Args:
        ranking: in one language or in several.
        path: the file to write.
        judges: what is known of the judges, besides what the ranking knows: results of
            :func:`mirage.arena.judge_agreement`, :func:`~mirage.arena.position_bias`,
            :func:`~mirage.arena.verbosity_bias`, :func:`~mirage.arena.self_preference` (its
            single results), and :func:`mirage.metaeval.evaluate`.
        details: more facts for the provenance, by name, such as ``{"cost": "4.20 USD"}``.
        importances: whether to compute the importance of features, which takes some seconds a
            language and needs the surrogate; by default of one language, and not of several.
        retrieval: by model, the run that a pipeline found its passages by (``pipeline.retrieve``),
            or, of a ranking in several languages, its runs by language: their scores stand beside
            the passages, and how good the runs are stands beside the models (extra
            ``retrieval``).

    Raises:
        MirageError: the file cannot be written, a finding on judges is none, or a run is of no
            model of this ranking.
    """
    page = render(
        ranking, judges=judges, details=details, importances=importances, retrieval=retrieval
    )
    save(page, path)


def render(
    ranking: Ranking | MultilingualRanking,
    *,
    judges: Iterable[JudgeFinding] = (),
    details: Mapping[str, object] | None = None,
    importances: bool | None = None,
    retrieval: Mapping[str, RetrievalRun | Mapping[str, RetrievalRun]] | None = None,
) -> str:
    """The text of the file that :func:`write` writes.

    It takes ``judges``, ``details``, ``importances`` and ``retrieval`` as that does.

    Raises:
        MirageError: a finding on judges is none, or a run is of no model of this ranking.
    """
    if isinstance(ranking, Ranking):
        rankings: Mapping[str, Ranking] = {ranking.language: ranking}
        means: Mapping[str, float] = {}
        left_out = {}
    else:
        rankings, means = ranking, ranking.mean_ranks
        left_out = {f"{code} is left out": why for code, why in ranking.left_out.items()}
    if importances is None:
        importances = isinstance(ranking, Ranking)
    agreement = dict.fromkeys(known for part in rankings.values() for known in part.agreement)
    voted = (finding for part in rankings.values() for finding in _measured(part.evidence))
    tables = list(findings([*judges, *voted, *agreement]))
    runs = runs_by_language(ranking, retrieval or {})
    report = _Report(ranking, rankings, means, sample(rankings, runs), runs)
    overview = report.overview(tables, {**left_out, **(details or {})}, importances)
    main = tag(
        "main",
        tag("div", overview, id="overview"),
        tag("article", id="page", hidden=True),
        id="main",
    )
    navigation = report.navigation(with_judges=bool(tables))
    return whole(report.title, report.lead, navigation, main, report.data(), "report.js")


# Parts --------------------------------------------------------------------------------------------


class _Report:
    """The rankings, with what several parts of the page need to know of them."""

    def __init__(
        self,
        whole: Ranking | MultilingualRanking,
        rankings: Mapping[str, Ranking],
        means: Mapping[str, float],
        shown: Sample,
        retrieval: Mapping[str, Mapping[str, RetrievalRun]],
    ) -> None:
        self.whole, self.retrieval = whole, retrieval
        self.rankings, self.means, self.sample = rankings, means, shown
        ordered = [*means, *(model for ranking in rankings.values() for model in ranking.models)]
        self.places = {model: place for place, model in enumerate(dict.fromkeys(ordered))}
        entries = [entry for ranking in rankings.values() for entry in ranking]
        # Where all are new, or none is, nothing is worth a mark.
        new = {entry.model for entry in entries if not entry.anchor}
        self.new = new if any(entry.anchor for entry in entries) else set()
        self.matrices = {code: _matrix(ranking, self.new) for code, ranking in rankings.items()}

    @property
    def several(self) -> bool:
        return len(self.rankings) > 1

    @property
    def title(self) -> str:
        if self.several:
            return f"Ranking in {len(self.rankings)} languages"
        (ranking,) = self.rankings.values()
        return label(ranking.title) or f"Ranking in {sections.language(ranking.language).name}"

    @property
    def lead(self) -> str:
        words = f"{len(self.places)} models"
        return f"{words}, {len(self.new)} of them new" if self.new else words

    def navigation(self, *, with_judges: bool) -> Element:
        first, ranking = next(iter(self.rankings.items()))
        parts = {"leaderboard": "Leaderboard", "features": "Features", "pairs": "Pairwise"}
        if ranking.findings and not self.several:
            parts = {"findings": "Findings", **parts}
        if not any(entry.features for entry in ranking):
            del parts["features"]
        links = [("#findings", "Findings")] if self.several and self.whole.findings else []
        links += [("#ranks", "Ranks")] if self.several else []
        links += [(f"#{first}-{part}", words) for part, words in parts.items()]
        links += [("#judges", "Judges")] if with_judges else []
        links.append(("#provenance", "Provenance"))
        items = (tag("li", tag("a", words, href=href)) for href, words in links)
        return tag("nav", tag("ul", items), aria_label="Sections")

    def overview(
        self, judges: list[Element], details: Mapping[str, object], importances: bool
    ) -> Iterator[Child]:
        yield from found.about(self.rankings.values())
        if isinstance(self.whole, MultilingualRanking):
            names = {code: sections.language(code).name for code in self.rankings}
            yield found.pooled_findings(self.whole, self.places, names)
            if self.several:
                yield sections.heat_map(self.whole, self.places, self.new)
                yield _picker(self.rankings)
        for code, ranking in self.rankings.items():
            yield self._panel(code, ranking, importances)
        if judges:
            yield tag("section", tag("h2", "Judges", id="judges"), judges)
        yield self._provenance(details)

    def _panel(self, code: str, ranking: Ranking, importances: bool) -> Element:
        about = code, ranking, self.places, self.new
        shown = {model: self.sample.places(code, model) for model in ranking.findings}
        parts: list[Child] = [
            found.findings(code, ranking, self.places, shown),
            sections.leaderboard(*about, failures_shown=3 if self.several else 20),
            sections.features(*about),
            stability(code, ranking, self.places),
            retrieved(code, ranking, self.places, self.retrieval[code]),
        ]
        evidence = ranking.evidence
        if importances and evidence is not None and evidence.ranker is not None:
            parts.append(_importance(code, evidence.ranker))
        matrix = self.matrices[code]
        parts.append(sections.pairwise(code, matrix if isinstance(matrix, str) else ""))
        if evidence is not None and evidence.judgments is not None:
            columns = _columns(ranking, self.new)
            parts.append(sections.verdicts(code, ranking, evidence.judgments, columns, self.places))
        name = sections.language(code).name
        own = sections.language(code).native_name
        native = tag("span", own, lang=code) if own != name else None
        heading: list[Child] = [tag("h2", name, " ", native)]
        if self.several:  # one alone has its title at the top of the page
            heading.append(tag("p", tag("bdi", label(ranking.title)), class_="lead"))
        return tag("section", heading, parts, id=code, class_="panel", aria_label=name)

    def _provenance(self, details: Mapping[str, object]) -> Element:
        made_by = {**_versions(), **details}
        parts: list[Child] = [sections.definitions(_labelled(made_by.items()))]
        for code, ranking in self.rankings.items():
            name = f"{sections.language(code).name}: what the ranking was made from"
            rows = sections.definitions(_labelled(_facts(ranking)))
            parts.append(tag("details", tag("summary", name), rows, open=not self.several))
        notes = list(self.sample.notes)
        if any(len(ranking) > COLUMNS for ranking in self.rankings.values()):
            notes.append(
                f"Win probabilities are shown against {COLUMNS} models of each language: the new "
                "ones, and others from best to worst in even steps."
            )
        if notes:
            parts += [tag("h3", "What is not shown"), tag("ul", (tag("li", n) for n in notes))]
        return tag("section", tag("h2", "Provenance", id="provenance"), parts)

    # What the script reads.

    def data(self) -> dict[str, Any]:
        return {
            "models": [label(model) for model in self.places],
            "languages": {code: self._language(code) for code in self.rankings},
            "marks": found.MARKS,
        }

    def _language(self, code: str) -> dict[str, Any]:
        ranking, language = self.rankings[code], sections.language(code)
        names = list(dict.fromkeys(name for entry in ranking for name in entry.features))
        pages = self.sample.pages.get(code, {})
        matrix = self.matrices[code]
        return {
            "name": language.name,
            "direction": language.direction,
            "level": f"{100 * ranking.level:g}",
            "judged": ranking.evidence is not None and ranking.evidence.judgments is not None,
            "features": [label(name) for name in names],
            "entries": [
                {
                    "model": self.places[entry.model],
                    "rank": entry.rank,
                    "logit": rounded(entry.logit),
                    "interval": [rounded(end) for end in entry.interval],
                    "ranks": entry.rank_interval,
                    "new": entry.model in self.new,
                    "answered": entry.answered,
                    "failed": entry.failed,
                    "unfamiliar": elements.cut(entry.unfamiliar, 500)[0],
                    "features": [rounded(entry.features.get(name, math.nan)) for name in names],
                    "findings": found.plain_findings(
                        ranking.findings[entry.model], self.sample.places(code, entry.model)
                    )
                    if entry.model in ranking.findings
                    else None,
                }
                for entry in ranking
            ],
            "pairs": None if isinstance(matrix, str) else matrix,
            "evidence": ranking.evidence is not None,
            "queries": self.sample.queries.get(code, {}),
            "pages": {str(self.places[model]): kinds for model, kinds in pages.items()},
            "scored": _scored(ranking),
        }


def _scored(ranking: Ranking) -> list[str]:
    """The features of single responses, in the order in which these have them."""
    tables = [] if ranking.evidence is None else list(ranking.evidence.tables.values())
    return [label(name) for name in tables[0].features] if tables else []


def _measured(evidence: Evidence | None) -> list[JudgeFinding]:
    """What the votes behind a ranking say about the judges who cast them."""
    if evidence is None or not evidence.votes:
        return []
    return measure_judges(evidence.votes, evidence.dataset or (), evidence.runs.values())


def _importance(code: str, ranker: SurrogateRanker) -> Element:
    """Return what the surrogate goes by: the costs of the simulated faults, or its features."""
    if costs := fault_costs(ranker, code):
        return sections.fault_costs(code, costs, len(ranker.data[code].query_ids))
    try:
        importances = ranker.importances(repeats=REPEATS)
    except FeatureError as error:  # too few models to hold any out
        return sections.without_importance(code, str(error))
    return sections.importance(code, importances, REPEATS)


def _picker(rankings: Mapping[str, Ranking]) -> Element:
    options = (
        tag("option", f"{entry.name} ({entry.code}) {entry.native_name}", value=entry.code)
        for entry in map(sections.language, rankings)
    )
    choice = tag("label", "Language ", tag("select", options, id="language"))
    return tag("p", choice, class_="picker")


def _matrix(ranking: Ranking, new: set[str]) -> dict[str, Any] | str:
    """Win probabilities of all models against some, in thousandths; or why there are none."""
    columns = _columns(ranking, new)
    try:
        rows = [
            [None if a == b else round(1000 * ranking.p_better(a, b)) for b in columns]
            for a in ranking.models
        ]
    except MirageError as error:
        return elements.cut(str(error), 500)[0]
    return {"columns": [ranking.models.index(model) for model in columns], "rows": rows}


def _columns(ranking: Ranking, new: set[str]) -> list[str]:
    """All models, or the new ones and others in even steps; best first."""
    if len(ranking) <= COLUMNS:
        return list(ranking.models)
    own = [model for model in ranking.models if model in new][: COLUMNS // 2]
    others = [model for model in ranking.models if model not in own]
    steps = COLUMNS - len(own)
    columns = {others[round(i * (len(others) - 1) / (steps - 1))] for i in range(steps)} | {*own}
    return [model for model in ranking.models if model in columns]


# Provenance ---------------------------------------------------------------------------------------


def _versions() -> dict[str, str]:
    mirage, *packages = ("mirage-rag", "numpy", "scipy", "scikit-learn")
    python = {mirage: _version(mirage), "Python": platform.python_version()}
    return python | {package: _version(package) for package in packages}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a folder, not installed
        return "not known"


def _facts(ranking: Ranking) -> Iterator[tuple[str, object]]:
    yield "ranking", ranking.title
    evidence = ranking.evidence
    if evidence is None:
        yield "made from", "not at hand: this ranking came without responses and surrogate"
        return
    dataset, ranker, judgments = evidence.dataset, evidence.ranker, evidence.judgments
    if dataset is not None:
        yield "dataset", f"{dataset.name}, {len(dataset)} queries"
    for model, run in evidence.runs.items():
        times = f" asked {len(run.repeats)} times" if len(run.repeats) > 1 else ""
        counts = f"{len(run.responses)}, {len(run.failed)} of them failed"
        yield (
            f"responses of {label(model)}",
            f"{len(run)} queries{times}: {counts}" if times else counts,
        )
    if judgments is not None:
        ties = int((judgments.score == 0.5).sum())
        judges = ", ".join(sorted({vote.judge for vote in evidence.votes}))
        yield "judgments", f"{len(judgments)}, {ties} of them ties"
        yield from [("judges", judges)] if judges else []
    if ranker is not None and dataset is not None:
        learnt = ranker.data[dataset.language]
        yield "surrogate", f"{ranker.recipe}, estimator {ranker.estimator}, seed {ranker.seed}"
        yield (
            "learnt from",
            f"{len(learnt.models)} models on {len(learnt.query_ids)} queries, {len(learnt.y)} "
            f"tournaments, languages {', '.join(ranker.data)}",
        )
        yield "features", ", ".join(learnt.features)
    yield from _flat(evidence.provenance)


def _flat(facts: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, object]]:
    """Nested facts as lines: ``validation.tau``."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, list | tuple):
            yield f"{before}{name}", ", ".join(map(str, value))
        else:
            yield f"{before}{name}", value


def _labelled(facts: Iterable[tuple[str, object]]) -> list[tuple[str, str]]:
    return [(label(name), elements.cut(str(value), 1000)[0]) for name, value in facts]

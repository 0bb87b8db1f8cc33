"""Write rankings as one self-contained HTML file, the report.

The file contains its style and script. A content security policy lists their hashes, so that
nothing else can run or load. :mod:`mirage.report.elements` escapes every text from models and
files. The same rankings give the same file, byte for byte.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from mirage._base.garbage import rare_collection
from mirage.errors import MirageError
from mirage.ranking import Evidence, MultilingualRanking, Ranking
from mirage.report import _findings as findings_html
from mirage.report import elements as elements
from mirage.report import sections as sections
from mirage.report._responses import Sample, sample
from mirage.report._retrieval import retrieved, runs_by_language
from mirage.report._stability import stability
from mirage.report._systems import accuracy, comparisons, systems
from mirage.report.elements import Child, label, rounded, tag
from mirage.report.file import save, whole
from mirage.report.judges import JudgeFinding, findings, measure_judges
from mirage.retrieval import RetrievalRun
from mirage.surrogate import SurrogateRanker
from mirage.surrogate.fault_costs import fault_costs

COLUMNS = 40
"""Largest number of columns in the table of win probabilities."""


def write(ranking: Ranking | MultilingualRanking, path: str | Path, **options: Any) -> None:
    """Write the report of a ranking to an HTML file.

    Args:
        ranking: Ranking in one language or in several.
        path: Path of the file.
        options: Further contents of the page, as keyword arguments of :func:`render`.
    """
    save(render(ranking, **options), path)


@rare_collection()
def render(
    ranking: Ranking | MultilingualRanking,
    *,
    judges: Iterable[JudgeFinding] = (),
    details: Mapping[str, object] | None = None,
    retrieval: Mapping[str, RetrievalRun | Mapping[str, RetrievalRun]] | None = None,
) -> str:
    """Return the HTML page that :meth:`mirage.Ranking.write` writes, as a string.

    Args:
        ranking: Ranking in one language or in several.
        judges: Measurements of the judges to show, such as position bias, in addition to those that
            are computed from the ranking's votes.
        details: Further entries for the provenance in the report, by name.
        retrieval: Retrieval run of each model, by model name. If the ranking has several languages,
            each model has a mapping from language code to retrieval run.

    Raises:
        MirageError: If ``judges`` contains an object that is not such a measurement, or if
            ``retrieval`` names a model that is not in the ranking.

    Example:
        >>> from mirage import Leaderboard
        >>> from mirage.report._page import render
        >>> render(Leaderboard.published("sw"))[:15]
        '<!doctype html>'
    """
    if isinstance(ranking, Ranking):
        rankings: Mapping[str, Ranking] = {ranking.language: ranking}
        models: Sequence[str] = ()
        left_out = {}
    else:
        rankings, models = ranking, ranking.models
        left_out = {f"{code} is left out": why for code, why in ranking.left_out.items()}
    agreement = dict.fromkeys(result for part in rankings.values() for result in part.agreement)
    measured = (result for part in rankings.values() for result in _measure_votes(part.evidence))
    tables = list(findings([*judges, *measured, *agreement]))
    runs = runs_by_language(ranking, retrieval or {})
    report = _Report(ranking, rankings, models, sample(rankings, runs), runs)
    overview = report.overview(tables, {**left_out, **(details or {})})
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
    """A builder of the sections of a report.

    Attributes:
        whole: The ranking that the report is written for.
        rankings: The rankings by language.
        sample: The responses to show.
        retrieval: Retrieval runs by language and model.
        model_indices: Position of each model in the page's list of models; links contain it.
        new: Names of the models to mark as new.
        matrices: The table of win probabilities by language. If a language has none, the value is
            a text with the reason.
    """

    def __init__(
        self,
        whole: Ranking | MultilingualRanking,
        rankings: Mapping[str, Ranking],
        models: Sequence[str],
        responses: Sample,
        retrieval: Mapping[str, Mapping[str, RetrievalRun]],
    ) -> None:
        self.whole, self.retrieval = whole, retrieval
        self.rankings, self.sample = rankings, responses
        ordered = [*models, *(model for ranking in rankings.values() for model in ranking.models)]
        self.model_indices = {model: index for index, model in enumerate(dict.fromkeys(ordered))}
        entries = [entry for ranking in rankings.values() for entry in ranking]
        # If all models are new, or none is, marking them would be useless.
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
        count = f"{len(self.model_indices)} models"
        return f"{count}, {len(self.new)} of them new" if self.new else count

    def navigation(self, *, with_judges: bool) -> Element:
        first, ranking = next(iter(self.rankings.items()))
        parts = {"leaderboard": "Leaderboard", "features": "Features", "pairs": "Pairwise"}
        if ranking.comparisons:
            parts = {"leaderboard": "Leaderboard", "comparisons": "Query by query", **parts}
        if systems(ranking):
            parts = {"accuracy": "Accuracy", **parts}
        if ranking.findings and not self.several:
            parts = {"findings": "Findings", **parts}
        if not any(entry.features for entry in ranking):
            del parts["features"]
        links = [("#findings", "Findings")] if self.several and self.whole.findings else []
        links += [("#ranks", "Ranks")] if self.several else []
        links += [(f"#{first}-{part}", title) for part, title in parts.items()]
        links += [("#judges", "Judges")] if with_judges else []
        links.append(("#provenance", "Provenance"))
        items = (tag("li", tag("a", title, href=href)) for href, title in links)
        return tag("nav", tag("ul", items), aria_label="Sections")

    def overview(self, judges: list[Element], details: Mapping[str, object]) -> Iterator[Child]:
        yield from findings_html.about(self.rankings.values())
        if isinstance(self.whole, MultilingualRanking):
            names = {code: sections.language(code).name for code in self.rankings}
            yield findings_html.pooled_findings(self.whole, self.model_indices, names)
            if self.several:
                yield sections.heat_map(self.whole, self.model_indices, self.new)
                yield _picker(self.rankings)
        for code, ranking in self.rankings.items():
            yield self._panel(code, ranking)
        if judges:
            yield tag("section", tag("h2", "Judges", id="judges"), judges)
        yield self._provenance(details)

    def _panel(self, code: str, ranking: Ranking) -> Element:
        arguments = code, ranking, self.model_indices, self.new
        positions = {model: self.sample.places(code, model) for model in ranking.findings}
        parts: list[Child] = [
            findings_html.findings(code, ranking, self.model_indices, positions),
            accuracy(code, ranking, self.model_indices),
            sections.leaderboard(*arguments, failures_shown=3 if self.several else 20),
            comparisons(code, ranking),
            sections.features(*arguments),
            stability(code, ranking, self.model_indices),
            retrieved(code, ranking, self.model_indices, self.retrieval[code]),
        ]
        evidence = ranking.evidence
        if not self.several and evidence is not None and evidence.ranker is not None:
            parts.append(_fault_costs(code, evidence.ranker))
        matrix = self.matrices[code]
        parts.append(sections.pairwise(code, matrix if isinstance(matrix, str) else ""))
        if evidence is not None and evidence.judgments is not None:
            columns = _columns(ranking, self.new)
            parts.append(
                sections.verdicts(code, ranking, evidence.judgments, columns, self.model_indices)
            )
        name = sections.language(code).name
        native_name = sections.language(code).native_name
        native = tag("span", native_name, lang=code) if native_name != name else None
        heading: list[Child] = [tag("h2", name, " ", native)]
        if self.several:  # a single ranking has its title at the top of the page
            heading.append(tag("p", tag("bdi", label(ranking.title)), class_="lead"))
        return tag("section", heading, parts, id=code, class_="panel", aria_label=name)

    def _provenance(self, details: Mapping[str, object]) -> Element:
        facts = {**_versions(), **details}
        parts: list[Child] = [sections.definitions(_format_facts(facts.items()))]
        for code, ranking in self.rankings.items():
            name = f"{sections.language(code).name}: data behind the ranking"
            rows = sections.definitions(_format_facts(_facts(ranking)))
            parts.append(tag("details", tag("summary", name), rows, open=not self.several))
        notes = list(self.sample.notes)
        if any(len(ranking) > COLUMNS for ranking in self.rankings.values()):
            notes.append(
                f"Win probabilities are shown against {COLUMNS} models of each language: new "
                "models, and others evenly spaced from best to worst."
            )
        if notes:
            parts += [tag("h3", "What is not shown"), tag("ul", (tag("li", n) for n in notes))]
        return tag("section", tag("h2", "Provenance", id="provenance"), parts)

    # Data for the page's script.

    def data(self) -> dict[str, Any]:
        return {
            "models": [label(model) for model in self.model_indices],
            "languages": {code: self._language(code) for code in self.rankings},
            "marks": findings_html.MARKS,
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
                    "model": self.model_indices[entry.model],
                    "rank": entry.rank,
                    "logit": rounded(entry.logit),
                    "interval": [rounded(end) for end in entry.interval],
                    "ranks": entry.rank_interval,
                    "new": entry.model in self.new,
                    "answered": entry.answered,
                    "failed": entry.failed,
                    "unfamiliar": elements.cut(entry.unfamiliar, 500)[0],
                    "features": [rounded(entry.features.get(name, math.nan)) for name in names],
                    "findings": findings_html.plain_findings(
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
            "pages": {str(self.model_indices[model]): kinds for model, kinds in pages.items()},
            "scored": _response_features(ranking),
        }


def _response_features(ranking: Ranking) -> list[str]:
    """Return the names of the features that the page lists for each response, in order."""
    tables = [] if ranking.evidence is None else list(ranking.evidence.tables.values())
    return [label(name) for name in tables[0].features] if tables else []


def _measure_votes(evidence: Evidence | None) -> list[JudgeFinding]:
    """Measure the agreement and biases of the judges; return no results if there are no votes."""
    if evidence is None or not evidence.votes:
        return []
    return measure_judges(evidence.votes, evidence.dataset or (), evidence.runs.values())


def _fault_costs(code: str, ranker: SurrogateRanker) -> Child:
    """Return a section that shows how much each kind of fault lowers the logit.

    Returns ``None`` if the surrogate (the regression that predicts logits) was not trained on
    systems with simulated faults.
    """
    costs = fault_costs(ranker, code)
    return sections.fault_costs(code, costs, len(ranker.data[code].query_ids)) if costs else None


def _picker(rankings: Mapping[str, Ranking]) -> Element:
    options = (
        tag("option", f"{entry.name} ({entry.code}) {entry.native_name}", value=entry.code)
        for entry in map(sections.language, rankings)
    )
    choice = tag("label", "Language ", tag("select", options, id="language"))
    return tag("p", choice, class_="picker")


def _matrix(ranking: Ranking, new: set[str]) -> dict[str, Any] | str:
    """Return the table of win probabilities, or the reason why it is missing.

    The keys of the table are ``rows`` and ``columns``. Each row has the probabilities of one model,
    in thousandths. The columns are given as positions in the ranking.
    """
    columns = _columns(ranking, new)
    try:
        table = ranking.p_better_matrix(ranking.models, columns).tolist()
    except MirageError as error:
        return elements.cut(str(error), 500)[0]
    rows = [
        [None if a == b else round(1000 * p) for b, p in zip(columns, row, strict=True)]
        for a, row in zip(ranking.models, table, strict=True)
    ]
    return {"columns": [ranking.models.index(model) for model in columns], "rows": rows}


def _columns(ranking: Ranking, new: set[str]) -> list[str]:
    """Return the models that have a column in the table of win probabilities, best first.

    If there are more than ``COLUMNS`` models, new models get at most half of the columns. The other
    columns are for other models, evenly spaced by rank.
    """
    if len(ranking) <= COLUMNS:
        return list(ranking.models)
    new_columns = [model for model in ranking.models if model in new][: COLUMNS // 2]
    rest = [model for model in ranking.models if model not in new_columns]
    steps = COLUMNS - len(new_columns)
    columns = {rest[round(i * (len(rest) - 1) / (steps - 1))] for i in range(steps)} | {
        *new_columns
    }
    return [model for model in ranking.models if model in columns]


# Provenance ---------------------------------------------------------------------------------------


_UNKNOWN = "unknown"


def _versions() -> dict[str, str]:
    mirage, *packages = ("mirage-rag", "numpy", "scipy", "scikit-learn")
    python = {mirage: _version(mirage), "Python": platform.python_version()}
    versions = {package: _version(package) for package in packages}
    return python | {package: number for package, number in versions.items() if number != _UNKNOWN}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # mirage runs from a folder, or the package is not installed
        return _UNKNOWN


def _facts(ranking: Ranking) -> Iterator[tuple[str, object]]:
    yield "ranking", ranking.title
    evidence = ranking.evidence
    if evidence is None:
        yield "data", "not available: this ranking came without responses and surrogate"
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
        training = ranker.data[dataset.language]
        yield "surrogate", f"{ranker.recipe}, estimator {ranker.estimator}, seed {ranker.seed}"
        yield (
            "training data",
            f"{len(training.models)} models on {len(training.query_ids)} queries, "
            f"{len(training.y)} tournaments, languages {', '.join(ranker.data)}",
        )
        yield "features", ", ".join(training.features)
    yield from _flatten(evidence.provenance)


def _flatten(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield nested facts with dotted names, such as ``validation.tau``.

    Each name begins with ``prefix``.
    """
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            yield f"{prefix}{name}", ", ".join(map(str, value))
        else:
            yield f"{prefix}{name}", value


def _format_facts(facts: Iterable[tuple[str, object]]) -> list[tuple[str, str]]:
    return [(label(name), elements.cut(str(value), 1000)[0]) for name, value in facts]

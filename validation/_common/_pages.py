"""Pages of docs/validation/coverage/: nominal and observed rates, from the files in results/."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SIMULATIONS = ("repeats", "replications", "arenas", "series")
"""Names of the option that sets the number of simulations; a file always has its value."""

LEVEL, ALPHA, DOUBT = 0.95, 0.05, 2
Figures = Mapping[str, Any]


class Column(NamedTuple):
    """A figure of a section.

    Attributes:
        figure: Name in the file.
        title: Name in the table.
        nominal: Nominal rate; ``None`` for a power or a width.
        share: Part of the simulations that the figure is a mean of.
        present: Name of the share of simulations in which there is an interval, if the file has it.
    """

    figure: str
    title: str
    nominal: float | None = LEVEL
    share: float = 1.0
    present: str = ""


class Section(NamedTuple):
    """A table of a page: its title and text, its columns, and the names above its rows."""

    title: str
    text: str
    columns: tuple[Column, ...]
    path: tuple[str, ...] = ()


class Page(NamedTuple):
    """A page about a family of estimators: its script, title, text and sections."""

    script: str
    title: str
    text: str
    sections: tuple[Section, ...]


VERDICTS = (
    Column("false worse", "false `worse`", ALPHA),
    Column("false no worse", "false `no worse`", ALPHA),
)
RANKS = (
    Column("all ranks", "all rank intervals"),
    Column("lowest", "rank interval of the worst model"),
    Column("winner", "`winner_interval`"),
    Column("uncorrected", "interval in the first row", None),
    Column("width", "width of a rank interval", None),
)
PAGES: Mapping[str, Page] = {
    "gate": Page(
        "coverage/gate_errors",
        "The gate",
        "A verdict `worse` is an error if the mean loss over all possible queries is 0. A verdict "
        "`no worse` is an error if this mean is the margin, 0.1.",
        (
            Section(
                "Shapes of change",
                "Losses of single queries are drawn from twelve distributions with the mean 0. For "
                "false `no worse`, they are rescaled to the mean 0.1. A row gives the shares of "
                "queries that lose or win, and how much. In the rows *skewed*, one side is at most "
                "0.15, and the other has an exponential tail. In *normal, 0.1*, losses have a "
                "normal distribution with a standard deviation of 0.1. *features* is the number of "
                "independent features that the gate compares.",
                VERDICTS,
                ("shapes",),
            ),
            Section(
                "Clusters",
                "The queries of a cluster share a part of their loss. This part is normal, "
                "takes one of three values, or is skewed. A row begins with the sizes of the "
                "clusters: *10 of 4* are ten clusters of four queries. In *20 of 20 / rank*, "
                "the first cluster has 20 queries and the k-th of the 20 clusters has 20 / k, "
                "rounded down.",
                VERDICTS,
                ("clusters",),
            ),
            Section(
                "Noise between runs",
                "All answers of a run shift by a normal deviate on the logit scale. A row begins "
                "with the standard deviation of this noise. *40 queries x 3* are three answers to "
                "each of 40 queries. A baseline of one run cannot include the noise; three runs "
                "can.",
                VERDICTS,
                ("days",),
            ),
        ),
    ),
    "history": Page(
        "coverage/history",
        "Histories of commits",
        "Series of runs of one system, compared after each commit. All chances of a run shift by a "
        "normal deviate on the logit scale with the standard deviation `day`.",
        (
            Section(
                "Series of 100 commits without a loss",
                "The share of series with any alarm. Rows begin with the numbers of queries, of "
                "answers to each, and of queries per cluster. A commit changes nothing; permutes "
                "the chances of a tenth of the queries; or changes queries so that the mean of a "
                "population stays the same, from a fixed base or from commit to commit. In the "
                "last case the mean of these queries changes for good, so alarms are not false.",
                (
                    Column("none", "no change", ALPHA),
                    Column("permuted", "permuted", ALPHA),
                    Column("around a base", "around a base", ALPHA),
                    Column("from commit to commit", "from commit to commit", None),
                ),
                ("false alarms",),
            ),
            Section(
                "A tenth of the facts lost",
                "The share of losses that are found within five commits.",
                (Column("none", "no change", None), Column("permuted", "permuted", None)),
                ("found",),
            ),
            Section(
                "Texts in 18 languages",
                "Series of 20 runs of simulated systems through `compare_commits`.",
                (
                    Column("no change", "no change", ALPHA, share=0.45),
                    Column("another manner", "change of style", ALPHA, share=0.45),
                    Column("a tenth lies", "found: a tenth lies", None, share=0.45),
                ),
                ("texts",),
            ),
        ),
    ),
    "paired": Page(
        "coverage/paired",
        "Paired differences",
        "Differences of two systems on the same queries (`mirage.statistics.paired_means`). If the "
        "systems are alike, a significant difference is a false positive; otherwise its rate is "
        "the power.",
        (
            Section(
                "Populations",
                "",
                (
                    Column("coverage", "coverage", present="draws with an interval"),
                    Column("draws with an interval", "with an interval", None),
                    Column("significant", "significant", None),
                ),
            ),
        ),
    ),
    "ranks": Page(
        "coverage/rank_sets",
        "Rank intervals and the first model",
        "Nearly equal models, a fifth of the verdicts ties, and models that are better on some "
        "queries than on others. All rank intervals of a table should hold together.",
        (
            *(
                Section(f"{models} models", "", RANKS, (f"{models} models",))
                for models in (3, 8, 19, 40)
            ),
            Section(
                "Mean logit over 18 languages",
                "Eight models, 14 queries in each language; a third of the simulations.",
                (Column("logit", "interval of the mean logit"), *RANKS),
                ("mean over 18 languages",),
            ),
        ),
    ),
    "judged-rankings": Page(
        "coverage/judged_ranking",
        "Judged rankings",
        "Models in even steps of logit, a fifth of the verdicts ties. `spread` is the standard "
        "deviation of a model's logit from query to query.",
        (
            Section(
                "Sizes",
                "",
                (
                    Column("coverage: logit", "logit", present="logits with an interval"),
                    Column("coverage: logit, tournaments", "logit, 500 tournaments", share=1 / 3),
                    Column("coverage: rank", "rank interval"),
                    Column(
                        "coverage: rank, tournaments", "rank interval, tournaments", share=1 / 3
                    ),
                    Column("width: rank", "width of a rank interval", None),
                ),
            ),
        ),
    ),
    "intervals": Page(
        "coverage/intervals",
        "Logits, biases and agreement",
        "Verdicts on one query are correlated. A row begins with the name of a design:\n\n"
        "| design | how the verdicts on six models are drawn and used |\n"
        "| --- | --- |\n"
        "| no ties | all pairs of models are judged, without ties |\n"
        "| half | 30 % of the verdicts are ties, which count as half a win |\n"
        "| drop | 30 % of the verdicts are ties, which are dropped |\n"
        "| davidson | verdicts follow Davidson's model, in which ties have a parameter |\n"
        "| intransitive | preferences have a part that no order of the models explains |\n"
        "| star | only the pairs of the first model with each other model are judged |\n"
        "| clusters 0.2, 0.7 | as *no ties*, but five queries form a cluster with this "
        "correlation |\n"
        "| untold 0.2, 0.7 | the same, but the clusters are not passed to the library |\n\n"
        "Without the clusters, intervals are too narrow, so figures in bold are expected there.",
        (
            Section(
                "Logits of six models",
                "*wrong*: `p_better` is above 0.95 for the worse of two neighbours.",
                (
                    Column("logit", "one fit"),
                    Column("tourn.", "tournaments"),
                    Column("rank", "rank interval"),
                    Column("wrong", "wrong", ALPHA),
                ),
                ("rankings",),
            ),
            Section(
                "Biases of judges",
                "Here the designs differ less. *half* and *davidson* have 30 % ties in the column "
                "of the verbosity bias, and *star* has only its pairs there. For Fleiss' kappa, "
                "all designs but *no ties* have ties. Otherwise the designs without clusters equal "
                "*no ties*.",
                (
                    Column("position", "position bias"),
                    Column("verbosity", "verbosity bias"),
                    Column("self", "self-preference"),
                    Column("kappa", "Fleiss' kappa"),
                ),
                ("votes",),
            ),
            Section(
                "Agreement of annotators",
                "",
                (Column("AC1", "AC1"), Column("alpha", "Krippendorff's alpha")),
                ("sentences",),
            ),
            Section(
                "The permutation test of the gate",
                "Three features of two runs of one system, each 0 or 1 on a query. In *half*, "
                "*drop* and *davidson*, half of the queries do not change. In *star*, half of the "
                "values are missing. In *intransitive*, changes are skewed instead: a few "
                "queries lose much, and many gain little.",
                (Column("gate", "false positives", ALPHA),),
                ("gate",),
            ),
            Section(
                "Predicted logits",
                "A model that the surrogate has not seen (ridge regression, 19 models).",
                (Column("surrogate", "interval of the logit"),),
                ("surrogate",),
            ),
        ),
    ),
    "retrieval": Page(
        "coverage/retrieval_intervals",
        "Retrieval measures",
        "Queries are drawn from the judged topics of NoMIRACL and MIRACL in four languages. A "
        "difference is that of BM25 with two settings. The runs of the test are alike.",
        (
            Section(
                "Measures",
                "",
                (
                    Column("coverage: mean", "mean"),
                    Column("coverage: difference", "difference"),
                    Column("false positive rate", "false positives", ALPHA),
                ),
            ),
        ),
    ),
    "grids": Page(
        "coverage/grids",
        "Grids of pipelines",
        "Queries are drawn from simulated grids of three retrievers, two rerankers and three "
        "generators. The test compares all 18 cells, which are alike.",
        (
            Section(
                "Populations",
                "",
                (
                    Column("coverage: mean", "mean of a cell"),
                    Column("coverage: difference", "difference of cells"),
                    Column("coverage: share", "share of the variance"),
                    Column("coverage: setting", "mean of a setting"),
                    Column("coverage: tau", "tau of metric and judge"),
                    Column("false positive rate", "false positives", ALPHA),
                ),
            ),
        ),
    ),
}


def pages() -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of each page."""
    for name, page in PAGES.items():
        results = json.loads(_results(page).read_text(encoding="utf-8"))
        yield ROOT / "docs" / "validation" / "coverage" / f"{name}.md", _text(page, results)


def simulations(results: Mapping[str, Any]) -> int:
    """Return the number of simulations in a cell."""
    (number,) = (
        int(results["arguments"][name]) for name in SIMULATIONS if name in results["arguments"]
    )
    return number


def command(results: Mapping[str, Any]) -> str:
    """Return the command that wrote a file."""
    script = (ROOT / results["script"]).read_text(encoding="utf-8")
    words = ["python", results["script"]]
    for name, value in results["arguments"].items():
        is_positional = f'add_argument("{name}"' in script
        words += [str(value)] if is_positional else [f"--{name}", str(value)]
    return " ".join(words)


def _results(page: Page) -> Path:
    return ROOT / "validation" / "results" / f"{Path(page.script).name}.json"


def _text(page: Page, results: Mapping[str, Any]) -> str:
    number = simulations(results)
    file = _results(page).relative_to(ROOT).as_posix()
    tables = [_table(section, results, number) for section in page.sections]
    blank = " A cell without an interval is blank." if any("|  |" in t for t in tables) else ""
    parts = [
        f"# Validation: {page.title}",
        f"<!-- python validation/report.py -->\n\n{page.text}",
        f"`{command(results)}`: {number:,} simulations in each cell "
        f"({results['date']}, commit {results['commit'][:7]}, "
        f"[all figures](https://github.com/mirage-rag/mirage/blob/main/{file})).",
        "Standard errors are in brackets, in units of the last digit. A figure in bold is worse "
        f"than its nominal rate by more than two standard errors.{blank}",
    ]
    for section, table in zip(page.sections, tables, strict=True):
        parts += [f"## {section.title}", *filter(None, [section.text]), table]
    return "\n\n".join(parts) + "\n"


def _table(section: Section, results: Mapping[str, Any], number: int) -> str:
    figures = results["figures"]
    for name in section.path:
        figures = figures[name]
    titles = [_title(column) for column in section.columns]
    rows = [
        (label, *(_cell(cell, column, number) for column in section.columns))
        for label, cell in _cells(figures)
        if any(cell.get(column.figure) is not None for column in section.columns)
    ]
    lines = [("design", *titles), ("---",) * (len(titles) + 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _title(column: Column) -> str:
    if column.nominal is None:
        return column.title
    return f"{column.title} ({'at most ' if column.nominal < 0.5 else ''}{column.nominal:g})"


def _cells(figures: Figures, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Figures]]:
    """Yield the label and the figures of each cell of a table."""
    below = {name: value for name, value in figures.items() if isinstance(value, dict)}
    if not below:
        yield "; ".join(path) or "all", figures
    for name, value in below.items():
        yield from _cells(value, (*path, name))


def _cell(cell: Figures, column: Column, number: int) -> str:
    value = cell.get(column.figure)
    if value is None:
        return ""
    error = cell.get(f"{column.figure}, standard error")
    if error is None and (value > 1 or column.figure == "lowest"):
        return f"{value:.3f}"
    if not error:
        count = max(number * column.share * (cell.get(column.present) or 1.0), 1.0)
        share = (value * count + 1) / (count + 2)  # as if one more were right and one wrong
        error = math.sqrt(share * (1 - share) / count)
    text = f"{value:.3f} ({1000 * error:.0f})"
    if column.nominal is None:
        return text
    excess = column.nominal - value if column.nominal > 0.5 else value - column.nominal
    return f"**{text}**" if excess > DOUBT * error else text

"""Pages of docs/validation/coverage/: nominal and observed rates, from the files in results/."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SIMULATIONS = ("repeats", "replications", "arenas", "series")
"""Names of the option that sets the number of simulations; a file always has its value."""

LEVEL, ALPHA, DOUBT = 0.95, 0.05, 2
Figures = Mapping[str, Any]
Labels = tuple[tuple[str, str], ...]
"""Regular expressions that match a part of a name in the file, and the words on the page."""


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
    """A table of a page.

    Attributes:
        title: Heading.
        text: Sentences that say what a row and each column mean.
        columns: Columns after the first, which has the label of the row.
        path: Names in the file above the names of the rows.
        labels: Replacements in the labels of the rows, made before those of the page.
    """

    title: str
    text: str
    columns: tuple[Column, ...]
    path: tuple[str, ...] = ()
    labels: Labels = ()


class Page(NamedTuple):
    """A page about a family of estimators.

    Attributes:
        script: Script that writes the figures.
        title: Title.
        text: What was checked, and why it matters to a user of the library.
        sections: Tables.
        labels: Replacements in the labels of all rows.
        blank: Sentence that explains blank cells.
    """

    script: str
    title: str
    text: str
    sections: tuple[Section, ...]
    labels: Labels = ()
    blank: str = (
        "A cell is blank if the library gave no interval, for example because there are too few "
        "queries."
    )


VERDICTS = (
    Column("false worse", "false `worse`", ALPHA),
    Column("false no worse", "false `no worse`", ALPHA),
)
RANKS = (
    Column("all ranks", "all rank intervals"),
    Column("lowest", "worst rank interval"),
    Column("winner", "`winner_interval`"),
    Column("uncorrected", "uncorrected interval", None),
    Column("width", "width of a rank interval", None),
)
PAGES: Mapping[str, Page] = {
    "gate": Page(
        "coverage/gate_errors",
        "The gate",
        "This page shows how often the verdicts of the [gate](../../guides/ci.md#three-verdicts) "
        "are wrong in simulations, and thus how far you can trust a verdict about your system. The "
        "gate (`mirage check`, or `assert_no_regression` in pytest) compares the answers of a "
        "system with those of a baseline. Its verdict is `worse`, `no worse` or `inconclusive`. No "
        "rate of wrong verdicts exceeds 5 % by more than two standard errors, with one exception: "
        "if whole runs vary from day to day, a baseline of one run is not enough. In this case, "
        "the gate wrongly says `worse` in up to 28 % of simulations, and wrongly says `no worse` "
        "in up to 9 %. With a baseline of three runs, both rates stay below 4 %, so record three "
        "runs.\n\n"
        "Two rates are measured; each should be at most 5 %:\n\n"
        "- *False `worse`*: the verdict is `worse`, although the simulated system has a true mean "
        "loss of 0.\n"
        "- *False `no worse`*: the verdict is `no worse`, although the true mean loss of the "
        "simulated system equals the margin (the loss that `no worse` must rule out), here 0.1."
        "\n\n"
        "In each table, a row is one way to simulate a comparison.",
        (
            Section(
                "Distributions of changes",
                "Here the losses of single queries are drawn from one of twelve distributions with "
                "a mean of 0. To measure false `no worse`, each loss is multiplied by 0.9 and "
                "increased by 0.1, so that the mean is 0.1. The name of a row says which share of "
                "the queries loses or gains, and how much. In the rows named *skewed*, either the "
                "losses or the gains are at most 0.15, and the others have an exponential tail. In "
                "the rows named *normal, 0.1*, losses have a normal distribution with a standard "
                "deviation of 0.1. *features* is the number of independent features (automatic "
                "measures of answers) that the gate compares.",
                VERDICTS,
                ("shapes",),
                (
                    (r"10 % lost, 10 % won", "10 % lose 1, 10 % gain 1"),
                    (r"win \.25, 10 % \.5", "gain .25, 10 % gain .5"),
                    (r"\bwin\b", "gain"),
                    (r" \.(\d)", r" 0.\1"),
                ),
            ),
            Section(
                "Clusters",
                "Here the queries of a cluster share a part of their loss. The name of a row first "
                "gives the sizes of the clusters: *10 of 4* means ten clusters of four queries. In "
                "*20 clusters of sizes 20 / k*, the k-th cluster has 20 / k queries, rounded down. "
                "After the semicolon is the distribution of the shared part: normal, one of three "
                "values, or skewed.",
                VERDICTS,
                ("clusters",),
                ((r"20 of 20 / rank", "20 clusters of sizes 20 / k"),),
            ),
            Section(
                "Noise between runs",
                "Here all answers of a run become better or worse together, as on a bad day of a "
                "model's API: on every query, the log-odds of a right answer are shifted by the "
                "same normally distributed amount. The name of a row gives the standard deviation "
                "of this noise, the number of queries and of answers to each query, and the number "
                "of runs in the baseline. The noise can be estimated from a baseline of three "
                "runs, but not from a baseline of one run. Therefore, rates above 5 % (bold) are "
                "expected with a baseline of one run.",
                VERDICTS,
                ("days",),
                (
                    (r"queries x 1,", "queries, 1 answer each,"),
                    (r"queries x 3,", "queries, 3 answers each,"),
                ),
            ),
        ),
    ),
    "history": Page(
        "coverage/history",
        "Histories of commits",
        "[`mirage history`](../../guides/ci.md#over-many-commits) tests after each commit whether "
        "a feature (an automatic measure of answers) has dropped and stayed lower. This page shows "
        "how often it raises a false alarm, and how often it finds a real drop. With 40 queries "
        "and 15 earlier commits, it finds most drops if the answers to a tenth of the queries "
        "become wrong. With 5 queries, or if each query is asked only once in a run, it finds "
        "few.\n\n"
        "In the simulations, each query has a probability of a right answer. The system is run "
        "once at each commit, and each query is asked once or three times in a run. Two features "
        "are measured. The name of a row has these parts:\n\n"
        "- the number of queries, and how often each is asked in a run;\n"
        "- *day noise*: all answers of a run become better or worse together, as on a bad day of "
        "a model's API. The number is the standard deviation of this effect on the logit scale "
        "(the logarithm of the odds of a right answer);\n"
        "- *clusters of five*: five queries tend to be right or wrong together.",
        (
            Section(
                "False alarms in 100 commits without a loss",
                "Each number is the share of simulated histories of 100 commits that have at least "
                "one alarm. The columns differ in what a commit changes:\n\n"
                "- *no change*: nothing.\n"
                "- *permuted*: a tenth of the queries exchange their probabilities of a right "
                "answer, so the mean stays the same.\n"
                "- *around a base*: for each query at random, the probability of a right answer "
                "either falls by 0.02 (with a probability of 95 %) or rises by 0.38. Each commit "
                "starts from the same probabilities. The mean over all possible queries stays the "
                "same.\n"
                "- *from commit to commit*: a tenth of the queries change in this way, and the "
                "changes add up over the commits. The mean over these queries then really "
                "changes. Therefore these alarms are not false, and there is no nominal rate.",
                (
                    Column("none", "no change", ALPHA),
                    Column("permuted", "permuted", ALPHA),
                    Column("around a base", "around a base", ALPHA),
                    Column("from commit to commit", "from commit to commit", None),
                ),
                ("false alarms",),
            ),
            Section(
                "Power if a tenth of the answers become wrong",
                "At one commit, the first of the two features becomes 0 on a tenth of the queries. "
                "Each number is the share of simulated histories with an alarm at this commit or "
                "at one of the next four. The name of a row gives the number of commits before the "
                "loss. In the column *permuted*, a tenth of the queries also exchange their "
                "probabilities at each commit, as above.",
                (Column("none", "no other change", None), Column("permuted", "permuted", None)),
                ("found",),
            ),
            Section(
                "Texts in 18 languages",
                "Here `mirage history` (in Python, `compare_commits`) tests texts of simulated "
                "systems, measured with the features that `mirage check` compares. A history has "
                "15 commits without a change, and then five commits of a changed system. There are "
                "54 histories, three in each language. The columns are the shares of histories "
                "with an alarm in the last five commits, in three cases:\n\n"
                "- *no change*: nothing changed (false alarms).\n"
                "- *another style*: only the style of writing changed (false alarms).\n"
                "- *a tenth becomes false*: a tenth of the answers became false (power).",
                (
                    Column("no change", "no change", ALPHA, share=0.45),
                    Column("another manner", "another style", ALPHA, share=0.45),
                    Column("a tenth lies", "a tenth becomes false", None, share=0.45),
                ),
                ("texts",),
                ((r"^all$", "all languages"),),
            ),
        ),
        (
            (r"^(\d+) 1 1;", r"\1 queries, asked once;"),
            (r"^(\d+) 3 1;", r"\1 queries, asked 3 times;"),
            (r"^(\d+) 3 5;", r"\1 queries, asked 3 times, clusters of five;"),
            (r"; after (\d+);", r"; loss after \1 commits;"),
            (r"; day ", "; day noise "),
        ),
        "A cell is blank if this combination was not simulated.",
    ),
    "paired": Page(
        "coverage/paired",
        "Paired differences",
        "`mirage.statistics.paired_means` compares two systems that answered the same queries. "
        "This page shows how often its 95 % interval contains the true mean difference, and how "
        "often its test finds a difference at a significance level of 0.05. Only with skewed "
        "differences on 20 queries is the coverage too low (0.906).",
        (
            Section(
                "Coverage, false positives and power",
                "The name of a row gives the distribution of the differences between the systems "
                "and the number of queries:\n\n"
                "| part of the row name | meaning |\n"
                "| --- | --- |\n"
                "| equal systems | the true mean difference is 0 |\n"
                "| labels | answers are right or wrong, so a difference is -1, 0 or 1 |\n"
                "| 10 % differ, 50 % differ | share of queries on which the labels differ |\n"
                "| scores | each system has a score of about 0 to 1 |\n"
                "| 2 % fail, 5 % fail | one system has a score of 0 on this share of the queries, "
                "and slightly better scores on the others |\n"
                "| normal | normal distribution with this standard deviation |\n"
                "| heavy tails | Student's t distribution with 3 degrees of freedom |\n"
                "| skewed | log-normal distribution |\n"
                "| difference 0.04 | the true mean difference is 0.04 |\n"
                "| clusters of four | four queries mostly have the same difference |\n\n"
                "The columns are:\n\n"
                "- *coverage*: share of intervals that contain the true mean difference;\n"
                "- *with an interval*: share of simulations that gave an interval. There is none "
                "with fewer than ten clusters, or if all differences are 0. A query without a "
                "cluster counts as a cluster;\n"
                "- *significant*: share of simulations with p <= 0.05. This is the false positive "
                "rate for equal systems, and the power in the other rows;\n"
                "- *without a range*: the same if the range of the metric is not known. The "
                "p-value and the interval then do not allow for rare large differences that the "
                "queries lack. All differences except those with heavy tails and log-normal ones "
                "have a range of -1 to 1.\n\n"
                "Allowing for rare differences costs power if there are few queries and "
                "differences are far smaller than the range. It costs none if answers are right or "
                "wrong.",
                (
                    Column("coverage", "coverage", present="draws with an interval"),
                    Column("draws with an interval", "with an interval", None),
                    Column("significant", "significant", None),
                    Column(
                        "coverage without a range",
                        "coverage without a range",
                        None,
                        present="draws with an interval",
                    ),
                    Column("significant without a range", "significant without a range", None),
                ),
            ),
        ),
        (
            (r"^alike: ", "equal systems: "),
            (r"in fours", "clusters of four"),
            (r",? \+\.(\d+)", r", difference 0.\1"),
        ),
        "A coverage is blank if no simulation gave an interval.",
    ),
    "ranks": Page(
        "coverage/rank_sets",
        "Rank intervals and the first model",
        "A printed ranking has a 95 % interval for the rank of each model. Below the ranking, an "
        "interval for the logit (strength) of the first model is printed. This page shows how "
        "often these intervals contain the true values.\n\n"
        "The first four tables have rankings from judgments in one language, one row per number "
        "of judged queries. In these tables, the models are almost equally good (logits from 0.1 "
        "to -0.1). This is the hardest case: which model comes first is mostly luck. Rank "
        "intervals are then nearly as wide as the ranking, as they should be. A fifth of the "
        "simulated verdicts are ties, and each model is better on some queries than on others. "
        "The columns are:\n\n"
        "| column | meaning |\n"
        "| --- | --- |\n"
        "| all rank intervals | share of simulations in which all rank intervals of a ranking "
        "contain the true ranks at the same time |\n"
        "| worst rank interval | the lowest coverage of the rank interval of any single "
        "model |\n"
        "| `winner_interval` | coverage of the interval of the first model's logit, which is "
        "corrected for its selection as the best |\n"
        "| uncorrected interval | coverage of the first model's interval in its row of the "
        "printed ranking, without this correction; no rate is claimed for this interval |\n"
        "| width of a rank interval | mean number of ranks in an interval |",
        (
            *(
                Section(
                    f"{models} models",
                    f"Each ranking has {models} models.",
                    RANKS,
                    (f"{models} models",),
                )
                for models in (3, 8, 19, 40)
            ),
            Section(
                "Mean logit over 18 languages",
                "These rankings have eight models and 14 queries in each language. Each row comes "
                "from 100 simulations. *Similar models* have true logits from 0.3 to -0.3, and "
                "*unequal models* from 1.5 to -1.5. In rows with *translated queries*, all "
                "languages have the same queries, and a model's strength on a query has the given "
                "correlation between any two languages. In the other rows, each language has "
                "queries of its own. The first column is the coverage of the interval "
                "of a model's mean logit over the languages.",
                (Column("logit", "interval of the mean logit"), *RANKS),
                ("mean over 18 languages",),
                (
                    (r"^near", "similar models"),
                    (r"^far", "unequal models"),
                    (r", (0\.\d+)$", r", translated queries, correlation \1"),
                    (r", different$", ", different queries in each language"),
                ),
            ),
        ),
    ),
    "judged-rankings": Page(
        "coverage/judged_ranking",
        "Judged rankings",
        "`Ranking.from_judgments` gives each model a logit and a rank, each with a 95 % interval. "
        "This page shows how often these intervals contain the true value, for different numbers "
        "of models and queries. A logit is a model's strength in comparisons with the others. In "
        "the simulations, the logits of the models are equally spaced, every pair is judged on "
        "every query, and a fifth of the verdicts are ties. The coverage of logits is close to "
        "95 %, and that of rank intervals close to 100 %, because they hold for all models at "
        "once.",
        (
            Section(
                "Coverage by number of models and queries",
                "The name of a row gives the number of models, the largest and the smallest logit, "
                "the *spread* and the number of queries. The spread is the standard deviation of "
                "a model's logit across queries: with a spread above 0, verdicts on the same query "
                "are correlated. The columns are:\n\n"
                "- *logit*, *rank interval*: coverage of the intervals that the library gives by "
                "default;\n"
                "- columns with *bootstrap*: coverage with `tournaments=500`, in a third of the "
                "simulations. These intervals come from 500 bootstrap samples of the queries;\n"
                "- *width of a rank interval*: mean number of ranks in an interval.",
                (
                    Column("coverage: logit", "logit", present="logits with an interval"),
                    Column("coverage: logit, tournaments", "logit, bootstrap", share=1 / 3),
                    Column("coverage: rank", "rank interval"),
                    Column("coverage: rank, tournaments", "rank interval, bootstrap", share=1 / 3),
                    Column("width: rank", "width of a rank interval", None),
                ),
            ),
        ),
        ((r"models to (\d\.\d)", r"models, logits \1 to -\1"),),
    ),
    "intervals": Page(
        "coverage/intervals",
        "Logits, biases and agreement",
        "This page shows how often the 95 % intervals of logits (the strengths of models in "
        "comparisons), of judges' biases and of the agreement of annotators contain the true "
        "value. It also shows how often the permutation test of the "
        "[gate](../../guides/ci.md#three-verdicts) (the comparison of a run with a baseline) "
        "raises a false alarm. If queries form clusters, pass the clusters: without them, "
        "intervals are too narrow, and there are too many false alarms.\n\n"
        "Verdicts on the same query are correlated in all simulations. The name of a row gives a "
        "*design*, the way in which the verdicts are drawn and used, and a number of queries. "
        "The designs are:\n\n"
        "| design | how the verdicts on six models are drawn and used |\n"
        "| --- | --- |\n"
        "| no ties | all pairs of models are judged, without ties |\n"
        "| ties count half | 30 % of the verdicts are ties, which count as half a win |\n"
        "| ties dropped | 30 % of the verdicts are ties, which are dropped |\n"
        "| ties in the model | verdicts follow Davidson's model, in which ties have a parameter |\n"
        "| intransitive | preferences are partly circular, so no order of the models explains "
        "them |\n"
        "| one against all | only the pairs of the first model with each other model are judged |\n"
        "| clusters, correlation 0.2 or 0.7 | as *no ties*, but five queries form a cluster, "
        "and the deviations of a model from its usual strength on them have this correlation |\n"
        "| clusters ignored, correlation 0.2 or 0.7 | the same, but the clusters are not passed to "
        "the library |\n\n"
        "Rates in bold are expected in the rows *clusters ignored*, because the library cannot "
        "know there that the queries are correlated.",
        (
            Section(
                "Logits of six models",
                "The columns are:\n\n"
                "- *one fit*: coverage of the intervals of a single Bradley-Terry fit. These are "
                "the intervals of a judged ranking;\n"
                "- *bootstrap*: coverage of intervals from 200 bootstrap samples of the queries;\n"
                "- *rank interval*: coverage of the intervals of the ranks;\n"
                "- *wrong*: share of pairs of neighbouring models for which `p_better` is above "
                "0.95 for the weaker model.",
                (
                    Column("logit", "one fit"),
                    Column("tourn.", "bootstrap"),
                    Column("rank", "rank interval"),
                    Column("wrong", "wrong", ALPHA),
                ),
                ("rankings",),
            ),
            Section(
                "Biases of judges",
                "Each column is the coverage of the interval of one measure: the preference for "
                "the answer shown first, for the longer answer, and for the judge's own answers, "
                "and the agreement of three judges (Fleiss' kappa).\n\n"
                "If a design does not matter to a measure, the row is a repetition of *no ties* "
                "with other random numbers. For the verbosity bias, *ties count half*, *ties in "
                "the model* and *one against all* do matter. For Fleiss' kappa, a fifth of the "
                "true labels are ties in all designs but *no ties*.\n\n"
                "Intervals are too narrow if few verdicts differ. With one pair of responses per "
                "query, the interval of a share, such as the position bias, contains the true "
                "share in 87 % of the cases at 14 and 20 queries, 86 % at 40, 88 % at 60 and 92 % "
                "at 100, for the share at which this is lowest. If two judges agree only by "
                "chance and give one verdict in four fifths of the cases, the interval of kappa "
                "contains the true value in 61 % of the cases at 14 queries, 65 % at 20, 88 % at "
                "40, 91 % at 60 and 94 % at 100 (`python validation/coverage/few_differences.py`).",
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
                "Three annotators label three sentences per query with one of three labels. The "
                "columns are the coverage of the intervals of two measures of their agreement. No "
                "models are compared, so only clusters make a difference between the rows.",
                (Column("AC1", "AC1"), Column("alpha", "Krippendorff's alpha")),
                ("sentences",),
                ((r"^no ties;", "no clusters;"),),
            ),
            Section(
                "The permutation test of the gate",
                "Two runs of the same system are compared on three features. Each number is the "
                "share of simulations in which the test calls any feature worse, which is a false "
                "alarm. A feature is 0 or 1 on each query, except in the rows *few large losses, "
                "many small gains*, in which the changes are skewed. The three kinds of row with "
                "*half of the queries unchanged* are repetitions with other random numbers.",
                (Column("gate", "false positives", ALPHA),),
                ("gate",),
                (
                    (r"^no ties;", "no clusters;"),
                    (r"^half;", "half of the queries unchanged;"),
                    (r"^drop;", "half of the queries unchanged, second repetition;"),
                    (r"^davidson;", "half of the queries unchanged, third repetition;"),
                    (r"^star;", "half of the values missing;"),
                    (r"^intransitive;", "few large losses, many small gains;"),
                ),
            ),
            Section(
                "Predicted logits",
                "A surrogate, here a ridge regression that predicts a logit from measures of the "
                "answers, is trained on 19 models. It then predicts the logit of a model that it "
                "has not seen. The column is the coverage of the interval of this prediction. Rows "
                "differ only in the clusters of the queries.",
                (Column("surrogate", "interval of the logit"),),
                ("surrogate",),
                ((r"^no ties;", "no clusters;"),),
            ),
        ),
        (
            (r"^half;", "ties count half;"),
            (r"^drop;", "ties dropped;"),
            (r"^davidson;", "ties in the model;"),
            (r"^star;", "one against all;"),
            (r"^clusters (\S+);", r"clusters, correlation \1;"),
            (r"^untold (\S+);", r"clusters ignored, correlation \1;"),
        ),
    ),
    "retrieval": Page(
        "coverage/retrieval_intervals",
        "Retrieval measures",
        "`mirage.retrieval.evaluate` gives the mean of a retrieval measure, such as nDCG@10, with "
        "a 95 % interval, and compares two runs with a test. This page shows how often the "
        "interval contains the true mean, and how often the test calls two equal runs different. "
        "With 20 queries, the intervals are somewhat wider than necessary, and the test is "
        "conservative. With 100 queries, most rates are close to the nominal ones. With 5 queries, "
        "there is no interval.\n\n"
        "Queries are drawn at random from the questions with relevance judgments in the datasets "
        "NoMIRACL and MIRACL, in four languages, and BM25 retrieves the passages. The mean over "
        "all these questions is the true mean. The script reads the datasets from the folder that "
        "the environment variable `MIRAGE_DATA` names.",
        (
            Section(
                "Coverage and false positives by measure",
                "The name of a row gives a measure and the number of queries in the sample. "
                "nDCG@10 is high if relevant passages come early in the first ten results. R@10 "
                "(recall) is the share of the relevant passages that are among the first ten, and "
                "RR@10 is 1 divided by the position of the first relevant passage. The columns "
                "are:\n\n"
                "- *mean*: coverage of the interval of the mean;\n"
                "- *difference*: coverage of the interval of the difference between two settings "
                "of BM25;\n"
                "- *false positives*: share of simulations in which two equal runs have p <= 0.05. "
                "To simulate equal runs, the values of the two settings are swapped at random for "
                "each query;\n"
                "- *rare failures*: the same for two runs with equal means, one of which has the "
                "value 0 on 2 % of the queries, while the other one has 2 % lower values on all "
                "queries.",
                (
                    Column("coverage: mean", "mean"),
                    Column(
                        "coverage: difference",
                        "difference",
                        present="differences with an interval",
                    ),
                    Column("false positive rate", "false positives", ALPHA),
                    Column("false positive rate: rare failures", "rare failures", ALPHA),
                ),
            ),
        ),
    ),
    "grids": Page(
        "coverage/grids",
        "Grids of pipelines",
        "A [grid](../../guides/grids.md) compares all combinations of the components of a RAG "
        "pipeline. This page shows how often the 95 % intervals in its result table contain the "
        "true value, and how often its test finds a difference that does not exist. All these "
        "rates are close to the nominal ones or better.\n\n"
        "The simulated grids have three retrievers, two rerankers and three generators, which "
        "makes 18 pipelines. Components change the probability of a right answer, on some queries "
        "more than on others.",
        (
            Section(
                "Coverage and false positives by kind of grid",
                "The name of a row gives the importance of the components and the number of "
                "queries in the sample. In *one component matters*, only the retriever affects the "
                "answers. In *queries asked twice*, all components matter, and each query occurs "
                "twice with almost the same answers; the two form a cluster. In *rare failures*, "
                "the metric is a score. One reranker fails completely on 2 % of the queries, and "
                "the other components change the score by 0.01 to 0.04. Half of the equal "
                "pipelines then fail on 2 % of the queries, and are slightly better than the "
                "others on the rest. To measure Kendall's tau, a judge is simulated as well, and "
                "its verdicts are compared with a metric. The columns are:\n\n"
                "| column | meaning |\n"
                "| --- | --- |\n"
                "| pipeline | coverage of the interval of a pipeline's mean |\n"
                "| difference | coverage of the interval of the difference of two pipelines |\n"
                "| share of the variance | coverage of the interval of the share of the variance "
                "that a component explains |\n"
                "| component | coverage of the interval of the mean of all pipelines that share a "
                "component, such as a retriever |\n"
                "| tau | coverage of the interval of Kendall's tau between the metric and the "
                "judge |\n"
                "| false positives | share of simulations in which any two pipelines are called "
                "different, although all 18 pipelines have the same probabilities of a right "
                "answer |\n\n"
                "With 20 queries, there is no interval of tau. Tau was not measured for *queries "
                "asked twice*.",
                (
                    Column("coverage: mean", "pipeline"),
                    Column("coverage: difference", "difference"),
                    Column("coverage: share", "share of the variance"),
                    Column("coverage: setting", "component"),
                    Column("coverage: tau", "tau"),
                    Column("false positive rate", "false positives", ALPHA),
                ),
            ),
        ),
        (
            (r"^all matter", "all components matter"),
            (r"^one matters", "one component matters"),
            (r"^little matters", "components matter little"),
            (r"^asked twice", "queries asked twice"),
        ),
        "A cell is blank if there were too few queries for an interval, or if the rate was not "
        "measured.",
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
    tables = [_table(section, page.labels, results, number) for section in page.sections]
    blank = f" {page.blank}" if any("|  |" in table for table in tables) else ""
    worse = "worse than its nominal rate by more than two standard errors"
    bold = f"A rate in bold is {worse}." if "**" in "".join(tables) else f"No rate is {worse}."
    lead, _, rest = page.text.partition("\n\n")
    if lead.endswith(":"):  # the table or list that follows belongs to the first paragraph
        lead, rest = page.text, ""
    parts = [
        f"# Validation: {page.title}",
        f"<!-- python validation/report.py -->\n\n{lead}",
        f"This command reproduces the figures: `{command(results)}`. They come from "
        f"{number:,} simulations per row"
        f"{', unless a section says otherwise' if len(page.sections) > 1 else ''} "
        f"({results['date']}, commit {results['commit'][:7]}, "
        f"[all figures](https://github.com/mirage-rag/mirage/blob/main/{file})).",
        *([rest] if rest else []),
        "The nominal rate, the one that the library claims, is in brackets in the column title. "
        "The number in brackets after a rate is its standard error in thousandths: 0.950 (12) "
        f"means 0.950 with a standard error of 0.012. {bold}{blank} {_note_on_errors(results)}",
    ]
    for section, table in zip(page.sections, tables, strict=True):
        parts += [f"## {section.title}", section.text, table]
    return "\n\n".join(parts) + "\n"


def _note_on_errors(results: Mapping[str, Any]) -> str:
    """Return how the standard errors in the tables were computed; see :func:`_cell`."""
    if ', standard error"' in json.dumps(results["figures"]):
        return (
            "For rates of 0 and 1, the standard error is computed after adding one success and one "
            "failure."
        )
    return (
        "Standard errors are computed after adding one success and one failure to the simulations, "
        "so that they are above 0 even if a rate is 0 or 1."
    )


def _table(section: Section, labels: Labels, results: Mapping[str, Any], number: int) -> str:
    figures = results["figures"]
    for name in section.path:
        figures = figures[name]
    titles = [_title(column) for column in section.columns]
    rows = [
        (
            _label(label, (*section.labels, *labels)),
            *(_cell(cell, column, number) for column in section.columns),
        )
        for label, cell in _cells(figures)
        if any(cell.get(column.figure) is not None for column in section.columns)
    ]
    lines = [("row", *titles), ("---",) * (len(titles) + 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _label(name: str, labels: Labels) -> str:
    """Return the name of a row in the file in the words of the page."""
    for pattern, words in labels:
        name = re.sub(pattern, words, name)
    return name


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

"""The gate's verdicts on the 40 bundled queries in 18 languages.

Baselines and later runs are texts that people wrote. For each query there are two true answers in
different words, a terse true one, the reference and a false one. If no passage answers, there are
two abstentions and an invention. The features are those that ``assert_no_regression`` compares by
default, and the test is the library's, at alpha 0.05.

- a truth becomes a lie: every answerable query is answered falsely, the abstentions stay;
- inventing: if no passage answers, the response invents; the true answers stay;
- a tenth of citations lost: each citation is dropped with probability 0.1, in 200 seeds a language;
- a paraphrase: the same system in other true words.

A second table counts verdicts. The baseline is the first true text of each query. The changes are:

- 6 of 30 answers are denied, or merely mentioned before a lie, in words of the phrase files, or
  exchanged with the wrong answer that the text mentions as well;
- all answers are "xxxx yyyy [1]", or the first sentence of an irrelevant passage; both also on
  queries that have a reference and no other label;
- changes of style, each on all answers: headings, bullets, bold type, an opener, a closer, a
  signature, a footer, an emoji, a table, JSON, numbering (``--held-back`` takes other phrases).

A third table shows how often the gate detects that 3 of 30 answers turned wrong. Each query is
asked once, or three times. All other answers stay the same, or vary between the two true texts.

A fourth table counts false alarms among runs whose answers are all reworded: each is drawn from
four true texts, on 5 to 100 queries. In half of the runs, one answer in twenty is also wrong.
The script also prints how often a true text is classified as right while another one of the same
query is classified as wrong.

    python validation/truth/gate.py [SEEDS]     # 200 by default; some minutes on two cores
    python validation/truth/gate.py --part power 20             # five languages
    python validation/truth/gate.py --part wording 400 --jobs 1
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import ROOT

from mirage import FeatureSuite, FeatureTable, MirageDataset, Query, Response, Run
from mirage.languages import LANGUAGES
from mirage.surrogate.drafts import Texts, bundled_texts
from mirage.testing.comparison import Comparison, compare
from mirage.testing.gate import gated
from mirage.text import split_sentences

Responses = Mapping[str, str]

CITATION = re.compile(r"\s?\[[^\]]+\]")
SHARE, ALPHA = 0.1, 0.05
MANNERS = ("reference", "true 1", "true 2", "terse")
CHANGES = {
    "truth to lies": [(manner, "false") for manner in MANNERS],
    "inventing where no passage answers": [("true 1", "inventing"), ("reference", "inventing")],
    "a tenth of citations lost": [
        ("reference", "lost"),
        ("true 1", "lost"),
        ("true 2", "lost"),
        ("terse", "lost"),
    ],
    "paraphrase": [
        ("true 1", "true 2"),
        ("true 2", "true 1"),
        ("true 1", "terse"),
        ("true 2", "terse"),
        ("terse", "true 1"),
        ("reference", "true 1"),
        ("reference", "terse"),
    ],
}
Row = tuple[str, str, str]


def texts_of(dataset: MirageDataset, manner: str, base: str = "") -> dict[str, str]:
    """Return the responses of one manner; a liar and an inventor otherwise answer like ``base``."""
    written = bundled_texts(dataset.language)
    return {query.id: _text(query, written[query.id], manner, base) for query in dataset}


def _text(query: Query, texts: Texts, manner: str, base: str) -> str:
    if manner == ("false" if query.answerable else "inventing"):
        return texts.false
    manner = base or manner
    if manner == "reference":
        return query.reference or ""
    return texts.terse if manner == "terse" else texts.true[int(manner[-1]) - 1]


def spoiled(texts: Responses, seed: int) -> dict[str, str]:
    """Return the responses after each citation was dropped with probability 0.1."""
    rng = np.random.default_rng(seed)
    return {
        id_: CITATION.sub(lambda found: "" if rng.random() < SHARE else found[0], text)
        for id_, text in texts.items()
    }


def alarms_in(code: str, seeds: int) -> Counter[Row]:
    """Return the alarms of one language: by change, pair, and feature or ``any``."""
    dataset = MirageDataset.bundled(code)
    suite = FeatureSuite(gated(dataset))
    lower = [name for name, facts in suite.facts.items() if facts.direction_in(code) == "lower"]

    def scored(texts: Responses, queries: MirageDataset = dataset) -> FeatureTable:
        responses = tuple(Response(query_id=query.id, text=texts[query.id]) for query in queries)
        run = Run(model="m", language=code, responses=responses)
        return suite.score(queries, run, progress=False)

    def rescored(before: FeatureTable, old: Responses, new: Responses) -> FeatureTable:
        changed = [place for place, id_ in enumerate(dataset.query_ids) if old[id_] != new[id_]]
        if not changed:
            return before
        values = before.values.copy()
        values[changed] = scored(new, MirageDataset([dataset[i] for i in changed])).values
        return FeatureTable("m", code, before.query_ids, before.features, values)

    found: Counter[Row] = Counter()
    for change, pairs in CHANGES.items():
        for first, second in pairs:
            old = texts_of(dataset, first)
            before = scored(old)
            for seed in range(seeds if second == "lost" else 1):
                base = first if second in ("false", "inventing") else ""
                new = spoiled(old, seed) if second == "lost" else texts_of(dataset, second, base)
                worse = compare(before, rescored(before, old, new), lower).regressed(ALPHA)
                pair = f"{first} → {second}"
                found[change, pair, "runs"] += 1
                found[change, pair, "any"] += bool(worse)
                found.update((change, pair, feature.feature) for feature in worse)
    return found


def main(seeds: int = 200, codes: tuple[str, ...] = tuple(LANGUAGES), jobs: int = 2) -> None:
    """Print the first table."""
    tasks = (delayed(alarms_in)(code, seeds) for code in codes)
    by_language = dict(zip(codes, Parallel(n_jobs=jobs)(tasks), strict=True))
    found: Counter[Row] = sum(by_language.values(), Counter())
    for change, pairs in CHANGES.items():
        print(f"{change}: alarms of runs")
        for first, second in pairs:
            pair = f"{first} → {second}"
            alarms, runs = found[change, pair, "any"], found[change, pair, "runs"]
            shares = {
                code: counts[change, pair, "any"] / counts[change, pair, "runs"]
                for code, counts in by_language.items()
            }
            add_figure(alarms / runs, "alarms", change, pair)
            least, most = min(shares, key=shares.get), max(shares, key=shares.get)
            features = Counter({key[2]: n for key, n in found.items() if key[:2] == (change, pair)})
            del features["any"], features["runs"]
            by = ", ".join(f"{name} {100 * n / runs:.0f}" for name, n in features.most_common())
            print(
                f"  {pair:24} {alarms:5} of {runs:5} ({100 * alarms / runs:5.1f} %; least "
                f"{least} {100 * shares[least]:.0f}, most {most} {100 * shares[most]:.0f})  {by}",
                flush=True,
            )


# Verdicts -----------------------------------------------------------------------------------------

PHRASES = {
    False: ROOT / "mirage" / "data" / "phrases",
    True: ROOT / "tests" / "data" / "phrases",
}
VERDICTS = ("worse", "no worse", "inconclusive")
FLIPS = ("wrong answer", "refusal", "denial", "mention-lie", "invention")
UNLABELLED: dict[str, Any] = {
    "relevant": (),
    "answers": (),
    "wrong_answers": (),
    "answerable": None,
}
Style = Callable[[str], str]


def phrases(code: str, held_back: bool) -> dict[str, Any]:
    """Return the phrases of a language: those that ship, or those that are held back for tests."""
    path = PHRASES[held_back] / f"{code}.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def styles(code: str, held_back: bool) -> dict[str, Style]:
    """Return changes of style by name; none of them should raise an alarm."""
    manners = phrases(code, held_back)["manners"]

    def lines(text: str, mark: Callable[[int], str]) -> str:
        sentences = split_sentences(text, code)
        return "\n".join(f"{mark(i)}{sentence}" for i, sentence in enumerate(sentences, 1))

    def bold(text: str) -> str:
        first, *rest = split_sentences(text, code)
        return " ".join([f"**{first}**", *rest])

    heading, label = manners["headings"][0], manners["labels"][0]
    return {
        "heading": lambda text: f"## {heading}\n\n{text}",
        "bullets": lambda text: lines(text, lambda _: "- "),
        "bold": bold,
        "opener": lambda text: f"{manners['openers'][0]} {text}",
        "closer": lambda text: f"{text} {manners['closers'][0]}",
        "signature": lambda text: f"{text}\n\n{manners['signatures'][0]}",
        "footer": lambda text: f"{text}\n\n---\n{manners['disclaimers'][0]}",
        "emoji": lambda text: f"✅ {text} 😊",
        "table": lambda text: f"| {label} |\n| --- |\n| {text} |",
        "JSON": lambda text: json.dumps({"answer": text}, ensure_ascii=False),
        "numbering": lambda text: lines(text, lambda i: f"{i}. "),
    }


def wronged(query: Query, texts: Texts, kind: str, words: Mapping[str, Any], refusal: str) -> str:
    """Return the response to one query after its right answer turned wrong."""
    if kind in ("wrong answer", "invention"):
        return texts.false
    if kind == "refusal":
        return refusal
    templates = words["faults"]["denial" if kind == "denial" else "mention_lie"]
    template = templates[int(query.id.strip("q")) % len(templates)]
    parts = {"true": texts.true[0], "right": query.answers[0][0], "false": texts.false}
    return re.sub(r"\{(\w+)\}", lambda match: parts[match[1]], template)


class Bench:
    """The gate on the queries of one language, with features cached by response."""

    def __init__(self, code: str, *, only_references: bool = False) -> None:
        self.code = code
        queries = MirageDataset.bundled(code)
        if only_references:
            queries = MirageDataset(query.model_copy(update=UNLABELLED) for query in queries)
        self.dataset = queries
        self.suite = FeatureSuite(gated(queries))
        facts = self.suite.facts
        self.lower = [name for name in facts if facts[name].direction_in(code) == "lower"]
        self.cache: dict[tuple[str, str], np.ndarray[Any, Any]] = {}

    def rows(self, texts: Responses) -> np.ndarray[Any, Any]:
        """Return the features of one response per query, ``(queries, features)``."""
        ids = [id_ for id_ in texts if (id_, texts[id_]) not in self.cache]
        if ids:
            responses = tuple(Response(query_id=id_, text=texts[id_]) for id_ in ids)
            run = Run(model="m", language=self.code, responses=responses)
            queries = MirageDataset(self.dataset[id_] for id_ in ids)
            table = self.suite.score(queries, run, progress=False)
            for id_, row in zip(ids, table.select(ids).values, strict=True):
                self.cache[id_, texts[id_]] = row
        return np.stack([self.cache[id_, text] for id_, text in texts.items()])

    def table(self, repeats: list[dict[str, str]]) -> FeatureTable:
        """Return the features of a run, each of whose repeats has a response per query."""
        values = np.stack([self.rows(texts) for texts in repeats])
        known = ~np.isnan(values)
        counts = np.maximum(known.sum(axis=0), 1)
        means = np.where(known.any(axis=0), np.nansum(values, axis=0) / counts, np.nan)
        several = values if len(repeats) > 1 else None
        names = self.suite.names
        return FeatureTable("m", self.code, tuple(repeats[0]), names, means, repeats=several)

    def compare(self, before: list[dict[str, str]], after: list[dict[str, str]]) -> Comparison:
        """Return the comparison of two runs."""
        same = np.array(
            [len({run[id_] for run in (*before, *after)}) == 1 for id_ in before[0]], dtype=bool
        )
        return compare(self.table(before), self.table(after), self.lower, identical=same)


def verdicts_in(code: str, held_back: bool) -> dict[str, Counter[str]]:
    """Return the verdicts of one language, and the features of the alarms, by cell."""
    counts: dict[str, Counter[str]] = {}
    written, words = bundled_texts(code), phrases(code, held_back)
    for only_references in (False, True):
        bench = Bench(code, only_references=only_references)
        full = MirageDataset.bundled(code)
        true = {query.id: written[query.id].true[0] for query in full}
        cells = {
            "xxxx": dict.fromkeys(true, "xxxx yyyy [1]"),
            "irrelevant first sentence": {query.id: irrelevant(query) for query in full},
            "identical": dict(true),
        }
        if only_references:
            cells = {f"{cell}, references only": texts for cell, texts in cells.items()}
        else:
            six = [query for query in full if query.answerable][:6]
            for kind, verb in (("denial", "denied"), ("mention-lie", "mention-lied")):
                lies = {q.id: wronged(q, written[q.id], kind, words, "") for q in six}
                cells[f"{verb} 6 of 30"] = true | lies
            cells["swapped 6 of 30"] = true | swapped(full, written)
            for name, style in styles(code, held_back).items():
                cells[f"style: {name}"] = {id_: style(text) for id_, text in true.items()}
        for cell, texts in cells.items():
            comparison = bench.compare([true], [texts])
            counts[cell] = Counter([comparison.verdict])
            counts[cell].update(change.feature for change in comparison.regressed(ALPHA))
    return counts


def swapped(dataset: MirageDataset, written: Mapping[str, Texts]) -> Responses:
    """Return six true texts in which the right answer and a wrong one are exchanged."""
    lies: dict[str, str] = {}
    for query in dataset:
        if len(query.answers) != 1 or not query.wrong_answers or len(lies) == 6:
            continue
        right, wrong = (
            "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
            for forms in (query.answers[0], [f for forms in query.wrong_answers for f in forms])
        )
        texts = (*written[query.id].true, query.reference or "")
        for text in texts:
            here, rival = re.search(right, text), re.search(wrong, text)
            if here and rival:
                lies[query.id] = re.sub(
                    f"({right})|(?:{wrong})",
                    lambda match, a=here[0], b=rival[0]: b if match[1] else a,
                    text,
                )
                break
    return lies


def irrelevant(query: Query) -> str:
    """Return the first sentence of the first passage that is not relevant, with its citation."""
    passage = next(p for p in query.passages if p.id not in query.relevant)
    return f"{split_sentences(passage.text, query.language)[0]} [{passage.id}]"


def show_verdicts(codes: tuple[str, ...], held_back: bool, jobs: int) -> None:
    """Print how often each verdict is given, cell by cell."""
    by_language = Parallel(n_jobs=jobs)(delayed(verdicts_in)(code, held_back) for code in codes)
    print(f"verdicts in {len(codes)} languages: {', '.join(VERDICTS)}; features of the alarms")
    for cell in by_language[0]:
        total: Counter[str] = sum((counts[cell] for counts in by_language), Counter())
        features = ", ".join(f"{n} {k}" for n, k in total.most_common() if n not in VERDICTS)
        numbers = "".join(f"{total[verdict]:5}" for verdict in VERDICTS)
        where = [
            code
            for code, counts in zip(codes, by_language, strict=True)
            if counts[cell]["worse" if "style" in cell else "no worse"] and "identical" not in cell
        ]
        print(f"  {cell:42}{numbers}  {features} {' '.join(where)}")
        for verdict in VERDICTS:
            add_figure(total[verdict], "verdicts", cell, verdict)


# Power --------------------------------------------------------------------------------------------


def found_in(code: str, seeds: int) -> Counter[tuple[str, int, bool, str]]:
    """Return how often 3 of 30 wrong answers are detected, by kind, repeats and variation.

    If no answer turned wrong, it is the rate of false alarms.
    """
    bench, written = Bench(code), bundled_texts(code)
    words = phrases(code, held_back=False)
    closed = [query for query in bench.dataset if query.answerable]
    rest = [query for query in bench.dataset if not query.answerable]
    counts: Counter[tuple[str, int, bool, str]] = Counter()
    for kind, repeats, varying in product((*FLIPS, "nothing"), (1, 3), (False, True)):
        asked = closed[:20] + rest if kind == "invention" else closed
        for seed in range(seeds):
            rng = np.random.default_rng([seed, repeats, varying])

            chooser = rng if varying else None
            before, after = ([true_texts(asked, chooser) for _ in range(repeats)] for _ in range(2))
            pool = rest if kind == "invention" else closed
            turned = 0 if kind == "nothing" else 3
            for query in (pool[i] for i in rng.choice(len(pool), turned, replace=False)):
                refusal = written[rest[0].id].true[0]
                text = wronged(query, written[query.id], kind, words, refusal)
                for texts in after:
                    texts[query.id] = text
            counts[kind, repeats, varying, bench.compare(before, after).verdict] += 1
    return counts


def true_texts(queries: Iterable[Query], rng: np.random.Generator | None) -> dict[str, str]:
    """Return a true text for each query: the first one, or one at random."""
    texts = {}
    for query in queries:
        written = bundled_texts(query.language)[query.id].true
        texts[query.id] = written[0 if rng is None else int(rng.random() < 0.5)]
    return texts


def show_power(codes: tuple[str, ...], seeds: int, jobs: int) -> None:
    """Print how often 3 answers of 30 that turned from right to wrong are detected."""
    total: Counter[Any] = sum(
        Parallel(n_jobs=jobs)(delayed(found_in)(code, seeds) for code in codes), Counter()
    )
    print(f"3 of 30 answers turned wrong, {', '.join(codes)}, {seeds} draws each: verdicts in %")
    for kind, repeats, varying in product((*FLIPS, "nothing"), (1, 3), (False, True)):
        cells = [total[kind, repeats, varying, verdict] for verdict in VERDICTS]
        shares = "".join(f"{100 * n / sum(cells):7.1f}" for n in cells)
        rest = "others vary" if varying else "others stay"
        for verdict, count in zip(VERDICTS, cells, strict=True):
            names = kind, f"asked {repeats}x, {rest}", verdict
            add_figure(count / sum(cells), "3 of 30 turned wrong", *names)
        print(f"  {kind:13} asked {repeats}x, {rest}: {shares}  ({', '.join(VERDICTS)})")


# False alarms ---------------------------------------------------------------------------------

FACTS = ("answer_match", "wrong_answer", "abstention", "invention")


def readings_in(code: str) -> tuple[Bench, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return features of four true texts, ``(texts, queries, features)``, and of a wrong one."""
    bench = Bench(code)
    true = np.stack([bench.rows(texts_of(bench.dataset, manner)) for manner in MANNERS])
    written = bundled_texts(code)
    return bench, true, bench.rows({query.id: written[query.id].false for query in bench.dataset})


def show_wording(codes: tuple[str, ...], seeds: int, jobs: int) -> None:
    """Print how often features misread a reworded answer, and how often that raises an alarm."""
    benches, right, false = zip(
        *Parallel(n_jobs=jobs)(delayed(readings_in)(code) for code in codes), strict=True
    )
    names, lower = benches[0].suite.names, benches[0].lower
    sign = np.array([1.0 if name in lower else -1.0 for name in names])
    columns = [names.index(name) for name in FACTS]
    true, wrong = np.concatenate(right, axis=1), np.concatenate(false)
    pairs = list(permutations(range(len(MANNERS)), 2))
    flips = [((true[b] - true[a]) * sign)[:, columns] >= 0.5 for a, b in pairs]
    print(f"another true text reads as wrong: {100 * np.any(flips, axis=2).mean():.1f} %")
    add_figure(np.any(flips, axis=2).mean(), "wording", "true texts that read as wrong")
    rng = np.random.default_rng(0)
    for unstable, queries in product((0.0, 0.05), (5, 20, 30, 40, 60, 100)):
        alarms = 0
        for seed in range(seeds):
            # At most 40 queries are of one language, so that its misreadings come together.
            start = 40 * (seed % len(codes)) if queries <= 40 else 0
            pool = np.arange(start, start + 40) if queries <= 40 else np.arange(len(wrong))
            ids = rng.permutation(pool)[: min(queries, len(pool))]
            tables = []
            for _ in range(2):
                values = true[rng.integers(len(MANNERS), size=len(ids)), ids]
                slips = rng.random(len(ids)) < unstable
                values[slips] = wrong[ids[slips]]
                tables.append(FeatureTable("m", codes[0], tuple(map(str, ids)), names, values))
            alarms += bool(compare(*tables, lower).regressed(ALPHA))
        print(
            f"  {queries:3} queries, {unstable:.2f} wrong at random: false alarms "
            f"{100 * alarms / seeds:4.1f} %",
            flush=True,
        )
        row = f"{unstable:.2f} wrong at random", f"{queries} queries"
        add_figure(alarms / seeds, "wording", "false positive rate", *row)


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("seeds", nargs="?", type=int, default=200)
    parser.add_argument("--part", choices=["alarms", "verdicts", "power", "wording"])
    parser.add_argument("--held-back", action="store_true", help="phrases of the tests")
    parser.add_argument("--jobs", type=int, default=2, help="processes; 2 by default")
    options = parser.parse_args()
    languages = ("en",) if options.quick else tuple(LANGUAGES)
    if options.quick:
        options.seeds, options.jobs = 1, 1
    if options.part in (None, "alarms"):
        main(options.seeds, languages, options.jobs)
    if options.part in (None, "verdicts"):
        show_verdicts(languages, options.held_back, options.jobs)
    if options.part in (None, "power"):
        some = languages if options.quick else ("en", "de", "ja", "ar", "sw")
        show_power(some, options.seeds, options.jobs)
    if options.part in (None, "wording"):
        show_wording(languages, options.seeds, options.jobs)
    save(parser, options)

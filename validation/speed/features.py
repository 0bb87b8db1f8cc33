"""How many responses per second the offline features score, and the time of each.

    python validation/speed/features.py [responses]

The texts are questions, passages and answers of MEMERAG (in the folder that MIRAGE_DATA names), in
English, German and Spanish. Citations are added to the answers, and a reference and relevant
passages to the queries. In the first measurement no text occurs twice, so caches help no more than
in a first run. The other measurements score several runs on the same queries, together and one
after the other, and responses whose passages have just been read. The script uses one core, and
loads everything that a process loads once beforehand. Rates are per second of processor time.

The comparison calls langid, sacrebleu and rouge_score one after the other for each response, as a
simple script does, for four of the features. It gets answers that are already parsed; the time of
our suite includes parsing.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import DATA, require_data

from mirage.dataset import MirageDataset
from mirage.features import FeatureSuite, answered
from mirage.languages import Language
from mirage.models import Passage, Query, Response, Run
from mirage.sources import memerag
from mirage.text import parse, split_sentences, tokenize

Work = list[tuple[MirageDataset, Run]]


THE_PEERS_FOUR = ("target_language", "english_language", "answer_bleu", "answer_rougeL")


RUNS = 12
"""Number of runs that are scored together."""


def main(responses: int = 1250) -> None:
    """Print the rates of the suite and of the other packages, and the share of each feature."""
    features = len(FeatureSuite.default())
    # numpy would multiply langid's matrices, for the peer, with every core.
    with threadpool_limits(1):
        score(workload(30, skip=2 * responses), FeatureSuite.default())
        ours = score(workload(responses), FeatureSuite.default())
        spent = shares(workload(responses, skip=responses))
        clear_caches()
        known = score(workload(300), FeatureSuite.default())
        known = score(rotate(workload(300)), FeatureSuite.default()) * responses / 300
        clear_caches()
        four = score(workload(responses), FeatureSuite(THE_PEERS_FOUR))
        theirs = call_one_by_one(workload(responses))
        clear_caches()
        runs = copies(workload(responses // 2, skip=2 * responses))
        together = sum(len(run) for _, several in runs for run in several)
        in_one_call = score_together(runs)
        clear_caches()
        one_by_one = score([(data, run) for data, several in runs for run in several])
    print(f"{responses} responses, one core")
    add_figure(responses / ours, f"{features} features, responses per second")
    add_figure(together / in_one_call, f"{RUNS} runs together, responses per second")
    add_figure(together / one_by_one, f"{RUNS} runs one by one, responses per second")
    add_figure(responses / known, "passages read before, responses per second")
    add_figure(responses / four, "4 features, responses per second")
    add_figure(responses / theirs, "langid, sacrebleu and rouge_score, responses per second")
    add_figure(theirs / ours, f"{features} features, times the peers' rate")
    add_figure(theirs / four, "4 features, times the peers' rate")
    for name, seconds in spent.items():
        add_figure(seconds / spent.total(), "share of the time", name)
    print(f"  all {features} features, every text new       {responses / ours:6.0f} responses/s")
    print(f"  {RUNS} runs on the same queries, together {together / in_one_call:6.0f} responses/s")
    print(f"  the same, one run after the other     {together / one_by_one:6.0f} responses/s")
    print(f"  passages read before                  {responses / known:6.0f} responses/s")
    for name, seconds in spent.items():
        print(f"    {name:20s} {100 * seconds / spent.total():5.1f} %")
    print(f"  a suite of the 4 that the peer has    {responses / four:6.0f} responses/s")
    print(f"  langid, sacrebleu, rouge_score calls  {responses / theirs:6.0f} responses/s")
    print(
        f"  rate of the suite of {features}, of 4, over that of the calls: "
        f"{theirs / ours:.2f}, {theirs / four:.2f}"
    )


def score(work: Work, suite: FeatureSuite | None = None) -> float:
    """Return the seconds that the suite takes, including parsing."""
    start = time.process_time()
    for dataset, run in work:
        (suite or FeatureSuite.default()).score(dataset, run)
    return time.process_time() - start


def score_together(work: Iterable[tuple[MirageDataset, Sequence[Run]]]) -> float:
    """Return the seconds of the default suite for all runs of each dataset in one call."""
    start = time.process_time()
    for dataset, runs in work:
        FeatureSuite.default().score_all(dataset, runs)
    return time.process_time() - start


def rotate(work: Work) -> Work:
    """Return other answers to the same queries."""
    return [(dataset, runs[1]) for dataset, runs in copies(work)]


def copies(work: Work) -> list[tuple[MirageDataset, list[Run]]]:
    """Return each run together with others whose answers begin at another word."""
    return [
        (
            dataset,
            [
                Run(
                    model=f"model {number}",
                    language=run.language,
                    responses=tuple(
                        response.model_copy(update={"text": rotated(response.text or "", number)})
                        for response in run
                    ),
                )
                for number in range(RUNS)
            ],
        )
        for dataset, run in work
    ]


def clear_caches() -> None:
    """Clear the caches of texts, but keep what loads once in a process."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("mirage.features", "mirage.text")):
            for function in vars(module).values():
                # What loads once, such as word lists, has a cache without a limit.
                if hasattr(function, "cache_clear") and function.cache_info().maxsize is not None:
                    function.cache_clear()


def shares(work: Work) -> Counter[str]:
    """Return the seconds of parsing and of each feature; first use pays for shared work."""
    spent: Counter[str] = Counter()

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        spent[name] += time.process_time() - start

    for dataset, run in work:
        for i in range(0, len(dataset), 64):
            with timed("parsing"):
                batch = [answered(query, run[query.id]) for query in dataset[i : i + 64]]
            for feature in FeatureSuite.default(dataset.language):
                with timed(feature.name):
                    feature.compute(batch)
    return spent


def call_one_by_one(work: Work) -> float:
    """Return the seconds of other packages for language, BLEU and ROUGE-L of parsed answers."""
    import sacrebleu
    from langid.langid import LanguageIdentifier, model
    from rouge_score.rouge_scorer import RougeScorer

    class Tokenizer:
        def __init__(self, code: str) -> None:
            self.code = code

        def tokenize(self, text: str) -> list[str]:
            return tokenize(text, self.code)

    identifier = LanguageIdentifier.from_modelstring(model, norm_probs=True)
    seconds = 0.0
    for dataset, run in work:
        entry = Language.of(dataset.language)
        rouge = RougeScorer(["rougeL"], tokenizer=Tokenizer(entry.code))
        answers = [answered(query, run[query.id]).parsed.answer_text for query in dataset]
        references = [
            parse(query.reference or "", entry, query.passage_ids).answer_text for query in dataset
        ]
        start = time.process_time()
        for answer, reference in zip(answers, references, strict=True):
            probabilities = dict(identifier.rank(answer))
            assert probabilities[entry.code] + probabilities["en"] >= 0
            sacrebleu.sentence_bleu(
                answer, [reference], tokenize=entry.bleu_tokenizer, use_effective_order=True
            )
            rouge.score(reference, answer)
        seconds += time.process_time() - start
    return seconds


def workload(responses: int, skip: int = 0) -> Work:
    """Return datasets and runs with this number of responses in total, after the first ``skip``."""
    sources = [
        memerag.load(DATA / "memerag" / "memerag" / f"{code}.jsonl", code)
        for code in ("en", "de", "es")
    ]
    answers = [
        (query, source.run[query.id].text or "") for source in sources for query in source.dataset
    ]
    pairs = islice(enumerate(cycle(answers)), skip, skip + responses)
    made = [example(query, text, n, n // len(answers)) for n, (query, text) in pairs]
    work = []
    for code in sorted({query.language for query, _ in made}):
        of_code = [(query, response) for query, response in made if query.language == code]
        run = Run(model="memerag", language=code, responses=tuple(r for _, r in of_code))
        work.append((MirageDataset((query for query, _ in of_code), name=code), run))
    return work


def example(query: Query, answer: str, number: int, turn: int) -> tuple[Query, Response]:
    """Return a query with a reference, and a response with one or two citations a sentence."""
    passages = tuple(
        Passage(id=f"{number}#{i}", text=rotated(passage.text, turn))
        for i, passage in enumerate(query.passages)
    )
    ids = [passage.id for passage in passages]
    cited = [
        f"{sentence} [{ids[i % 5]}]" + (f"[{ids[(i + 1) % 5]}]" if i % 2 else "")
        for i, sentence in enumerate(split_sentences(rotated(answer, turn), query.language))
    ]
    reference = " ".join(split_sentences(passages[0].text, query.language)[:2])
    made = Query(
        id=str(number),
        language=query.language,
        text=query.text,
        passages=passages,
        relevant=(ids[0],),
        reference=f"##Reason: [{ids[0]}]\n##Answer: {reference}",
    )
    text = f"##Reason: {query.text} [{ids[0]}]\n##Answer: {' '.join(cited)}"
    return made, Response(query_id=made.id, text=text)


def rotated(text: str, turn: int) -> str:
    """Return the same words, beginning ``3 * turn`` words later."""
    words = text.split(" ")
    cut = 3 * turn % len(words)
    return " ".join(words[cut:] + words[:cut])


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("responses", default=1250, nargs="?", type=int)
    options = parser.parse_args()
    require_data("memerag")
    main(60 if options.quick else options.responses)
    save(parser, options)

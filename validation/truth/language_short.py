"""How well the language of short texts is identified, compared with langid.

    python validation/truth/language_short.py  # the first table needs MIRAGE_DATA

The first table has MIRACL's questions by their length, each scored like an answer without passages:
among the values, the share of at least 0.5 for the question's language; the share without a value,
because the text is too short; and langid's share over its 97 languages (it has no Yoruba).

The second table has answers in one language of the bundled corpora to queries in another language:
the share of values below 0.5 for terse answers (and the share without a value) and for full ones.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser
from _shared import DATA

from mirage.features import NotComputed, answered
from mirage.features.language import target_language
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query, Response

LENGTHS = ((1, 4), (5, 7), (8, 99))  # words
MOST = 400  # questions of a language

Value = float | NotComputed


def main(codes: Sequence[str]) -> None:
    """Print both tables."""
    if (DATA / "miracl").exists():
        questions(codes)
    wrong_languages(codes)


def questions(codes: Sequence[str]) -> None:
    """Print the table of MIRACL's questions, Mirage next to langid."""
    langid = _langid()
    print("MIRACL's questions: share with P >= 0.5 for their language, of those with a number")
    header = "".join(f"{f'{low} to {high} words':>21}" for low, high in LENGTHS)
    print(f"    {header}{'all':>21}\n    " + "   langid   ours    NaN" * 4)
    for code in codes:
        texts = topics(code)
        groups = [
            [text for text in texts if low <= words(text, code) <= high] for low, high in LENGTHS
        ]
        cells = ""
        names = (*(f"{low} to {high} words" for low, high in LENGTHS), "all")
        for group, name in zip((*groups, texts), names, strict=True):
            figures = triple(group, code, langid)
            cells += row(figures)
            for column, figure in zip(("langid", "ours", "not computed"), figures, strict=True):
                add_figure(figure, "MIRACL's questions", code, name, column)
        print(f"  {code}{cells}")


def row(figures: tuple[float, float, float]) -> str:
    """Return the cells of some questions."""
    peer, right, lacking = figures
    if math.isnan(peer) and math.isnan(right) and math.isnan(lacking):
        return f"{'-':>9}{'-':>7}{'-':>7}"
    return f"{peer:9.3f}{right:7.3f}{lacking:7.3f}"


def triple(
    texts: Sequence[str], code: str, langid: Callable[[str, str], float]
) -> tuple[float, float, float]:
    """Return the shares by langid and by Mirage, and the share without a value."""
    if not texts:
        return math.nan, math.nan, math.nan
    ours = [value(Query(id="q", language=code, text="?"), text) for text in texts]
    theirs = [langid(text, code) for text in texts]
    right, lacking = shares(ours, lambda share: share >= 0.5)
    peer = sum(share >= 0.5 for share in theirs) / len(theirs)
    return peer, right, lacking


def wrong_languages(codes: Sequence[str]) -> None:
    """Print the table of answers in each language to queries in each other one."""
    records = corpora()
    print("\nanswers in another language than the query: share of numbers below 0.5")
    print("      terse    NaN   English   least, in        full   least, in")
    for code in codes:
        rows = {kind: against(code, records, kind) for kind in ("terse", "true")}
        terse, full = rows["terse"], rows["true"]
        least, least_full = (min(table, key=lambda key: table[key][0]) for table in (terse, full))
        print(
            f"  {code}{mean(low for low, _ in terse.values()):8.3f}"
            f"{mean(lacking for _, lacking in terse.values()):7.3f}"
            f"{terse.get('en', (float('nan'),))[0]:10.3f}{terse[least][0]:8.3f} {least}"
            f"{mean(low for low, _ in full.values()):13.3f}{full[least_full][0]:8.3f} {least_full}"
        )
        for kind, table in rows.items():
            names = "answers in another language", code, kind
            add_figure(mean(low for low, _ in table.values()), *names, "below 0.5")
            add_figure(min(low for low, _ in table.values()), *names, "below 0.5, least")
            add_figure(mean(none for _, none in table.values()), *names, "not computed")


def against(
    code: str, records: dict[str, list[dict[str, Any]]], kind: str
) -> dict[str, tuple[float, float]]:
    """Return by language of the answers: the share of values below 0.5, and without a value."""
    found = {}
    for other in records:
        if other == code:
            continue
        values = []
        for asked, said in zip(records[code], records[other], strict=True):
            texts = said.get("responses", {}).get(kind, [])
            values += [
                value(query(asked, code), text)
                for text in ([texts] if isinstance(texts, str) else texts)
            ]
        found[other] = shares(values, lambda share: share < 0.5)
    return found


def shares(values: Sequence[Value], wanted: Callable[[float], bool]) -> tuple[float, float]:
    """Return the share of values that are as expected, and the share without a value."""
    numbers = [value for value in values if not isinstance(value, NotComputed)]
    return mean(map(wanted, numbers)), 1 - len(numbers) / len(values)


def value(asked: Query, text: str) -> Value:
    """Return the feature of one answer."""
    return target_language(answered(asked, Response(query_id=asked.id, text=text)))


def query(record: dict[str, Any], code: str) -> Query:
    """Return a query of the corpora with its passages."""
    passages = [Passage(**passage) for passage in record["passages"]]
    return Query(id=record["id"], language=code, text=record["text"], passages=passages)


def topics(code: str) -> list[str]:
    """Return MIRACL's development questions, evenly spaced in the file."""
    path = DATA / "miracl" / "topics" / f"{code}-dev.tsv"
    texts = [line.split("\t")[1] for line in path.read_text(encoding="utf-8").splitlines()]
    return texts[:: -(-len(texts) // MOST)]


def corpora() -> dict[str, list[dict[str, Any]]]:
    """Return the sources of the bundled benchmark."""
    import build

    return {code: build.build(code) for code in LANGUAGES}


def words(text: str, code: str) -> int:
    """Return the words of a question; without spaces, four characters count as one word."""
    spaced = LANGUAGES[code].tokens == "word"
    return len(text.split()) if spaced else -(-len(text) // 4)


def mean(values: Iterable[float]) -> float:
    """Return the mean, or NaN if there is none."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else float("nan")


def _langid() -> Callable[[str, str], float]:
    try:
        from langid.langid import LanguageIdentifier, model
    except ImportError:
        return lambda *_: float("nan")
    identifier = LanguageIdentifier.from_modelstring(model, norm_probs=True)
    return lambda text, code: dict(identifier.rank(text)).get(code, 0.0)


if __name__ == "__main__":
    parser = script_parser(__doc__)
    options = parser.parse_args()
    main(("en",) if options.quick else tuple(LANGUAGES))
    save(parser, options)

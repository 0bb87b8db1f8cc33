"""Twenty damaged variants of each format: one clear error each, which names the file."""

from __future__ import annotations

import copy
import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cases import each_case
from formats import FILES

from mirage.errors import MirageError
from mirage.scores._archives import members
from mirage.scores.reading import FORMATS, read_scores

Edit = Callable[[Any], None]


class Anatomy(NamedTuple):
    """Where a format has what can be damaged.

    Attributes:
        file: Name of the undamaged file.
        entries: Function that returns the list of entries of a document.
        holder: Function that returns the object with the list of entries, and its key.
        items: Keys of an entry that name its item; all are needed to lose it.
        scores: Function that returns the objects with scores in an entry, and the key of each.
        container: Key of the container of the scores in an entry; empty if they are columns.
    """

    file: str
    entries: Callable[[Any], list[Any]]
    holder: Callable[[Any], tuple[Any, Any]] | None
    items: tuple[str, ...]
    scores: Callable[[Any], list[tuple[Any, Any]]]
    container: str = ""


def columns(*names: str) -> Callable[[Any], list[tuple[Any, Any]]]:
    return lambda entry: [(entry, name) for name in names]


def spans(document: Any) -> list[Any]:
    return document["resourceSpans"][0]["scopeSpans"][0]["spans"]


def event_scores(span: Any) -> list[tuple[Any, Any]]:
    values = [a["value"] for a in span["events"][0]["attributes"] if "score" in a["key"]]
    return [(value, "doubleValue") for value in values]


ANATOMIES: Mapping[str, Anatomy] = {
    "ragas": Anatomy(
        *("ragas-before.csv", lambda rows: rows, None, ("user_input",)),
        columns("exact_match", "string_present"),
    ),
    "trulens": Anatomy(
        *("trulens.csv", lambda rows: rows, None, ("input",)),
        columns("exact", "overlap"),
    ),
    "lm_eval": Anatomy(
        *("lm_eval-before.jsonl", lambda rows: rows, None, ("doc_id",)),
        columns("exact_match"),
        "metrics",
    ),
    "deepeval": Anatomy(
        "deepeval-before.json",
        lambda document: document["testCases"],
        lambda document: (document, "testCases"),
        ("name", "input"),
        lambda case: [(metric, "score") for metric in case["metricsData"]],
        "metricsData",
    ),
    "promptfoo": Anatomy(
        "promptfoo.json",
        lambda document: document["results"]["results"],
        lambda document: (document["results"], "results"),
        ("vars",),
        lambda result: [
            (result, "score"),
            *((result["namedScores"], name) for name in result["namedScores"]),
        ],
        "namedScores",
    ),
    "inspect_ai": Anatomy(
        "inspect_ai-before.eval",
        lambda document: document["samples"],
        lambda document: (document, "samples"),
        ("id",),
        lambda sample: [(score, "value") for score in sample["scores"].values()],
        "scores",
    ),
    "pydantic_evals": Anatomy(
        "pydantic_evals-before.json",
        lambda document: document["cases"],
        lambda document: (document, "failures"),
        ("name",),
        lambda case: [
            (score, "value") for kind in ("scores", "assertions") for score in case[kind].values()
        ],
        "scores",
    ),
    "phoenix": Anatomy(
        *("phoenix-before.json", lambda rows: rows, None, ("example_id",)),
        lambda run: [(annotation, "score") for annotation in run["annotations"]],
        "annotations",
    ),
    "langfuse": Anatomy(
        "langfuse-before.json",
        lambda document: document["data"],
        None,
        ("experimentItemId",),
        lambda item: [(score, "value") for score in item["scores"][:1]],
        "scores",
    ),
    "otel": Anatomy(
        "otel-before.json",
        spans,
        lambda document: (document["resourceSpans"][0]["scopeSpans"][0], "spans"),
        ("attributes",),
        event_scores,
        "events",
    ),
}


def load(path: Path) -> Any:
    if path.suffix == ".eval":
        pytest.importorskip("zstandard")
        parts = [(name, json.loads(data)) for name, data in members(path)]
        samples = [part for name, part in parts if name.startswith("samples/")]
        return {**next(part for name, part in parts if name == "header.json"), "samples": samples}
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".csv":
        return list(csv.DictReader(io.StringIO(text)))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)


def dump(document: Any, path: Path) -> None:
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, document[0].keys())
            writer.writeheader()
            writer.writerows(document)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in document), encoding="utf-8")
    elif path.suffix == ".eval":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("header.json", json.dumps({**document, "samples": None}))
            for number, sample in enumerate(document["samples"]):
                archive.writestr(f"samples/{number}.json", json.dumps(sample))
    else:
        path.write_text(json.dumps(document), encoding="utf-8")


# Damage to bytes ----------------------------------------------------------------------------------


def truncated(data: bytes, share: float) -> bytes:
    """Cut a file within a row: in a table, after the first cell."""
    at = int(len(data) * share)
    if data.startswith((b"user_input", b"app_name")):
        at = data.index(b",", data.index(b"\n", at)) + 1
    return data[:at]


BYTES: Mapping[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "only white space": lambda _: b"\n \n",
    "cut early": lambda data: truncated(data, 0.2),
    "cut late": lambda data: truncated(data, 0.7),
    "not UTF-8": lambda data: b"\xff" + data,
    "UTF-16": lambda data: data[:400].decode("utf-8", "replace").encode("utf-16"),
    "an error page": lambda _: b"<!doctype html><title>502 Bad Gateway</title>",
    "a number": lambda _: b"42",
    "deep nesting": lambda _: b"[" * 200_000,
    "noise": lambda data: bytes((byte * 7 + 13) % 256 for byte in data[:500]),
}


# Damage to values ---------------------------------------------------------------------------------


def edits(anatomy: Anatomy, table: bool) -> Iterator[tuple[str, Edit]]:
    def entry_edit(change: Callable[[Any], None], number: int = 2) -> Edit:
        return lambda document: change(anatomy.entries(document)[number])

    def all_scores(value: Any) -> Edit:
        def change(document: Any) -> None:
            for entry in anatomy.entries(document):
                for owner, key in anatomy.scores(entry):
                    owner[key] = value

        return change

    def one_score(value: Any) -> Callable[[Any], None]:
        def change(entry: Any) -> None:
            owner, key = anatomy.scores(entry)[0]
            owner[key] = value

        return change

    def blank(entry: Any) -> None:
        for key in anatomy.items:
            entry[key] = "" if table else None

    def gone(document: Any) -> None:
        for entry in anatomy.entries(document):
            for key in anatomy.items:
                del entry[key]

    yield "an item without a name", entry_edit(blank)
    yield "no item has a name", gone
    yield "a score in words", entry_edit(one_score("quite high"))
    yield "an infinite score", entry_edit(one_score("1e999" if table else float("inf")))
    yield "every score is missing", all_scores("" if table else None)
    yield "another score in words", entry_edit(one_score("4 of 5"), 9)
    if table:
        yield "no rows", lambda document: document.__delitem__(slice(1, None)) or blank(document[0])
        yield "a score with a unit", entry_edit(one_score("0.5 %"))
        yield "two scores in one cell", entry_edit(one_score("0.5;0.7"))
        yield "a list as a score", entry_edit(one_score("[0.5]"))
        return
    yield "a list as a score", entry_edit(one_score([0.5, [1]]))
    yield "an entry is a text", lambda document: anatomy.entries(document).__setitem__(2, "x")
    if anatomy.container:
        yield (
            "scores are a text",
            entry_edit(lambda entry: entry.__setitem__(anatomy.container, "x")),
        )
        yield (
            "scores are a number",
            entry_edit(lambda entry: entry.__setitem__(anatomy.container, 3)),
        )


def variants(name: str) -> Iterator[tuple[str, Any]]:
    anatomy = ANATOMIES[name]
    yield from BYTES.items()
    yield from edits(anatomy, anatomy.file.endswith(".csv"))


def test_every_format_has_twenty_variants() -> None:
    assert set(ANATOMIES) == set(FORMATS)
    assert {name: len([*variants(name)]) for name in ANATOMIES} == dict.fromkeys(ANATOMIES, 20)


@pytest.mark.parametrize("name", ANATOMIES)
@each_case("variant", dict.fromkeys(variant for name in ANATOMIES for variant, _ in variants(name)))
def test_a_damaged_file_gets_one_clear_error(name: str, variant: str, tmp_path: Path) -> None:
    source = FILES / ANATOMIES[name].file
    path = tmp_path / source.name
    damage = dict(variants(name)).get(variant)
    if damage is None:
        return  # a table, or no table
    if variant in BYTES:
        path.write_bytes(damage(source.read_bytes()))
    else:
        document = copy.deepcopy(load(source))
        damage(document)
        dump(document, path)
    with pytest.raises(MirageError) as caught:
        read_scores(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert 20 < len(message) < 700 + len(str(path))


@pytest.mark.parametrize("name", ANATOMIES)
def test_what_writes_the_variants_damages_nothing_itself(name: str, tmp_path: Path) -> None:
    source = FILES / ANATOMIES[name].file
    dump(load(source), tmp_path / source.name)
    again, first = read_scores(tmp_path / source.name), read_scores(source)
    assert [(e.item, e.scores) for e in again.entries] == [
        (e.item, e.scores) for e in first.entries
    ]

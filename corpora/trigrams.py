"""Rebuild the tables of letter n-grams in ``mirage/data/trigrams.npz`` from the models of lingua.

    pip download 'lingua-language-detector<2' --no-deps  # 93 MB; its models are data files
    pip install brotli
    python corpora/trigrams.py lingua_language_detector-1.4.2-py3-none-any.whl

lingua (https://github.com/pemistahl/lingua-py, Apache-2.0, Peter M. Stahl) counted the n-grams in
text from the Wortschatz corpora of Leipzig University. Only the tables of up to three letters are
kept, and only those of the languages between which Mirage distinguishes. Versions 1.4 and 2.1 of
lingua have the same tables.
"""

from __future__ import annotations

import argparse
import io
import json
import zipfile
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mirage.text._trigrams import languages_by_script

TABLES = Path(__file__).parents[1] / "mirage" / "data" / "trigrams.npz"
SIZES = ("unigrams", "bigrams", "trigrams")


def main(wheel: Path) -> None:
    """Write the tables of every script."""
    arrays: dict[str, Any] = {}
    with zipfile.ZipFile(wheel) as models:
        for script, codes in languages_by_script().items():
            frequencies = {code: read_model(models, code) for code in codes}
            grams = sorted(set().union(*frequencies.values()), key=lambda gram: (len(gram), gram))
            rows = {gram: row for row, gram in enumerate(grams, start=1)}
            text = "".join(grams)  # all letters have one code unit
            arrays[f"{script}.grams"] = np.frombuffer(text.encode("utf-16-le"), "<u2")
            parents = [0, *(rows.get(gram[:-1]) or rows.get(gram[:-2], 0) for gram in grams)]
            arrays[f"{script}.parents"] = np.array(parents, "<u4")
            counts = [sum(len(gram) == size for gram in grams) for size in (1, 2, 3)]
            arrays[f"{script}.counts"] = np.array(counts, "<u4")
            for code, model in frequencies.items():
                arrays |= columns(f"{script}.{code}", model, rows)
    write(arrays)


def read_model(models: zipfile.ZipFile, code: str) -> dict[str, Fraction]:
    """Return the relative frequency of each n-gram of a language."""
    import brotli

    frequencies = {}
    for size in SIZES:
        path = f"lingua/language-models/{code}/{size}.json.br"
        entries = json.loads(brotli.decompress(models.read(path)))["ngrams"]
        for fraction, grams in entries.items():
            frequencies |= dict.fromkeys(grams.split(" "), Fraction(fraction))
    return frequencies


def columns(name: str, model: dict[str, Fraction], rows: dict[str, int]) -> dict[str, Any]:
    """Return the arrays of a language: the rows of its n-grams as differences, and fractions."""
    by_row = sorted((rows[gram], fraction) for gram, fraction in model.items())
    steps = [row - before for before, row in pairwise([0, *(row for row, _ in by_row)])]
    fractions = sorted({fraction for _, fraction in by_row})
    positions = {fraction: position for position, fraction in enumerate(fractions)}
    return {
        f"{name}.steps": np.array(steps, "<u2"),
        f"{name}.values": np.array([positions[fraction] for _, fraction in by_row], "<u2"),
        f"{name}.numerators": np.array([value.numerator for value in fractions], "<u4"),
        f"{name}.denominators": np.array([value.denominator for value in fractions], "<u4"),
    }


def write(arrays: dict[str, Any]) -> None:
    """Write an ``.npz`` file that is the same in every run."""
    with zipfile.ZipFile(TABLES, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, array, allow_pickle=False)
            member = zipfile.ZipInfo(f"{name}.npy")  # its date is 1980
            archive.writestr(member, content.getvalue(), zipfile.ZIP_DEFLATED, 9)
    print(f"{TABLES}: {TABLES.stat().st_size:,} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheel", type=Path, help="wheel of lingua-language-detector 1.4")
    main(parser.parse_args().wheel)

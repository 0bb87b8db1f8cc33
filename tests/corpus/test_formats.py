"""Files of each format become documents, and passages that keep code, tables and lists whole."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.corpus import Corpus, chunk, read_documents, read_passages
from mirage.corpus._formats import FORMATS, parse_file
from mirage.errors import DatasetError, MissingPackageError
from mirage.models import Passage

for _package in ("docutils", "docx", "fpdf", "pypdf", "selectolax"):
    pytest.importorskip(_package, reason="needs the extra documents, and fpdf2")

WORDS = " ".join(f"word{n}" for n in range(70))
CODE = "\n".join(f"    step_{n}(a, b)" for n in range(15))
ITEM = "Fill in the form " + " ".join(f"field{n}" for n in range(20))


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def passages_of(path: Path, size: int = 100, overlap: int = 0) -> list[Passage]:
    return list(read_passages(path, size, overlap=overlap))


def document_of(path: Path) -> Passage:
    (document,) = read_documents(path)
    return document


# Documents of each format that say the same ------------------------------------------------------

MARKDOWN = f"""\
# Leave

{WORDS}

```bash
# not a title
{CODE}
```

## Parents

- {ITEM}
- {ITEM}

| weeks | pay |
| --- | --- |
| 14 | full |
"""

RST = f"""\
Leave
=====

{WORDS}

.. code-block:: bash

    # not a title
{CODE}

Parents
-------

* {ITEM}
* {ITEM}

===== ====
weeks pay
===== ====
14    full
===== ====
"""

HTML = f"""\
<!doctype html><html><head><title>Intranet</title><style>p {{}}</style></head><body>
<nav>Home | Staff</nav><main><h1>Leave</h1><p>{WORDS}</p>
<pre># not a title
{CODE}</pre>
<h2>Parents</h2><ul><li>{ITEM}</li><li>{ITEM}</li></ul>
<table><tr><th>weeks</th><th>pay</th></tr><tr><td>14</td><td>full</td></tr></table>
</main><footer>Imprint</footer></body></html>
"""


def word_document() -> bytes:
    from docx import Document

    document = Document()
    document.add_heading("Leave", 1)
    document.add_paragraph(WORDS)
    code = document.styles.add_style("Source Code", 1)
    for line in ("# not a title", *CODE.split("\n")):
        document.add_paragraph(line, style=code)
    document.add_heading("Parents", 2)
    for _ in range(2):
        document.add_paragraph(ITEM, style="List Bullet")
    table = document.add_table(2, 2)
    for row, texts in zip(table.rows, (("weeks", "pay"), ("14", "full")), strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def pdf(*pages: str, title: str = "", password: str = "") -> bytes:
    from fpdf import FPDF

    writer = FPDF()
    writer.set_font("helvetica", size=11)
    if title:
        writer.set_title(title)
    if password:
        writer.set_encryption(owner_password=f"{password}!", user_password=password)
    for page in pages:
        writer.add_page()
        if page:
            writer.multi_cell(0, 6, page)
    return bytes(writer.output())


SAME: dict[str, Callable[[], str | bytes]] = {
    "leave.md": lambda: MARKDOWN,
    "leave.rst": lambda: RST,
    "leave.html": lambda: HTML,
    "leave.docx": word_document,
}


@pytest.mark.parametrize("name", SAME)
def test_no_passage_is_cut_inside_code_a_table_or_a_list_item(tmp_path: Path, name: str) -> None:
    cut = passages_of(write(tmp_path, name, SAME[name]()), 80)
    for whole in (CODE, ITEM, "14"):
        lines = [line.strip() for line in whole.split("\n")]
        holders = [p for p in cut if all(line in p.text for line in lines)]
        assert holders, f"{whole!r} is cut: {[p.text for p in cut]}"
    assert all(max(len(p.text.split()), 1) <= 80 for p in cut)


@pytest.mark.parametrize("name", SAME)
def test_the_title_of_a_passage_is_its_path_of_headings(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, SAME[name]())
    assert document_of(path).title == "Leave"
    titles = [passage.title for passage in passages_of(path, 80)]
    assert titles[0] == "Leave"
    assert set(titles) == {"Leave", "Leave > Parents"}
    assert titles == sorted(titles)


@pytest.mark.parametrize("name", SAME)
def test_the_code_of_a_document_keeps_its_lines(tmp_path: Path, name: str) -> None:
    text = document_of(write(tmp_path, name, SAME[name]())).text
    assert "\n    step_3(a, b)\n    step_4(a, b)\n" in text.replace("        step", "    step")


def test_code_longer_than_a_passage_is_cut_between_lines(tmp_path: Path) -> None:
    code = "\n".join(f"call {n} with many words" for n in range(50))
    cut = passages_of(write(tmp_path, "a.md", f"# A\n\n```\n{code}\n```\n"), 30)
    assert len(cut) > 5
    lines = {*code.split("\n"), "# A", "", "```"}
    assert all(line in lines for passage in cut for line in passage.text.split("\n"))


def test_a_passage_that_begins_in_code_keeps_the_indentation(tmp_path: Path) -> None:
    code = "\n".join(f"    call {n} with many words" for n in range(50))
    cut = passages_of(write(tmp_path, "a.md", f"Text:\n\n{code}\n"), 30)
    assert all(passage.text.startswith("    call") for passage in cut[1:])


def test_lines_of_plain_text_that_begin_with_a_hash_are_no_titles(tmp_path: Path) -> None:
    script = write(tmp_path, "install.txt", "# install the tools first\npip install tools\n")
    assert document_of(script).title == "install"
    fenced = write(tmp_path, "b.md", "Run:\n\n```\n# a comment\nmake\n```\n\n## Later\n\nText.\n")
    assert document_of(fenced).title == "b"
    assert passages_of(fenced)[0].title == "b"


def test_a_heading_stays_with_what_follows_it(tmp_path: Path) -> None:
    text = "# A\n\n" + "word " * 36 + "\n\n## B\n\n" + "other " * 30
    cut = passages_of(write(tmp_path, "a.md", text), 40)
    assert [p.text.split("\n")[-1] for p in cut if p.text.endswith("B")] == []
    assert [p.title for p in cut] == ["A", "A > B"]


def test_overlap_repeats_no_part_of_an_item(tmp_path: Path) -> None:
    items = "\n".join(f"- item {n} has some words" for n in range(40))
    for passage in passages_of(write(tmp_path, "a.md", items), 30, overlap=8):
        assert all(line.startswith("- item") for line in passage.text.split("\n"))


def test_a_heading_loses_its_markup_in_titles(tmp_path: Path) -> None:
    path = write(tmp_path, "a.md", "The *new* `mirage` [tool](http://x)\n====\n\nText.\n")
    assert document_of(path).title == "The new mirage tool"


def test_text_that_nobody_sees_is_left_out(tmp_path: Path) -> None:
    from docx import Document

    hidden = "SECRET order"
    document = Document()
    document.add_paragraph("Visible text.").add_run(hidden).font.hidden = True
    file = io.BytesIO()
    document.save(file)
    files: dict[str, str | bytes] = {
        "a.md": f"---\nnote: {hidden}\n---\nVisible text.\n\n<!-- {hidden} -->\n\n"
        f"[//]: # ({hidden})\n",
        "a.rst": f"Visible text.\n\n.. {hidden}\n\n.. raw:: html\n\n   <b>{hidden}</b>\n",
        "a.html": f"<p>Visible text.<!-- {hidden} --><p hidden>{hidden}<p style='display: none'>"
        f"{hidden}<span style='font-size:0px'>{hidden}</span><script>'{hidden}'</script>",
        "a.docx": file.getvalue(),
    }
    for name, content in files.items():
        text = document_of(write(tmp_path, name, content)).text
        assert "Visible text." in text
        assert hidden not in text, name


def test_rst_includes_no_other_file(tmp_path: Path) -> None:
    write(tmp_path, "secret.txt", "the password")
    secret = tmp_path / "secret.txt"
    source = f"Text.\n\n.. include:: {secret}\n\n.. csv-table::\n   :file: {secret}\n"
    assert "the password" not in document_of(write(tmp_path, "a.rst", source)).text


def test_directives_of_sphinx_keep_their_source(tmp_path: Path) -> None:
    source = (
        "Title\n=====\n\nSee :ref:`setup`.\n\n.. versionadded:: 2.0\n   The ``retry`` option.\n"
    )
    text = document_of(write(tmp_path, "a.rst", source)).text
    assert "See :ref:`setup`." in text
    assert ".. versionadded:: 2.0\n       The ``retry`` option." in text


def test_html_is_read_in_the_encoding_that_it_declares(tmp_path: Path) -> None:
    page = "<meta charset=iso-8859-1><p>Größe “10”".replace("“", "").replace("”", "")
    assert document_of(write(tmp_path, "a.html", page.encode("latin-1"))).text == "Größe 10"
    assert document_of(write(tmp_path, "b.html", "<p>ที่นี่")).text == "ที่นี่"
    with pytest.raises(DatasetError, match=r"c\.html, line 1: not UTF-8"):
        document_of(write(tmp_path, "c.html", b"<p>\xff\xfa"))


# PDF ----------------------------------------------------------------------------------------------


def test_pdf_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.pdf", pdf("The mill opened in 1904.", WORDS, title="The mill"))
    document = document_of(path)
    assert document.title == "The mill"
    assert document.text.startswith("The mill opened in 1904.\n\nword0 word1")
    (passage,) = passages_of(path)
    assert passage.id == "a.pdf#0"


def test_an_encrypted_or_damaged_file_is_one_error_that_names_it(tmp_path: Path) -> None:
    whole = pdf("text", password="x")
    for name, content, reason in (
        ("a.pdf", whole, "the file is encrypted; save it without a password"),
        ("b.pdf", b"%PDF-1.4 nothing", "cannot be read as PDF"),
        ("c.pdf", pdf("text")[:300], "cannot be read as PDF"),
        ("d.docx", b"PK\x03\x04 nothing", "the file is not a Word document"),
        ("e.docx", word_document()[:-500], "the file is not a Word document"),
    ):
        with pytest.raises(DatasetError, match=rf"{name}: {reason}"):
            document_of(write(tmp_path, name, content))


def test_a_scanned_pdf_is_reported_as_without_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scan = write(tmp_path, "scan.pdf", pdf("", ""))
    with pytest.raises(DatasetError, match=r"scan\.pdf: no text on 2 of 2 pages"):
        list(read_documents(scan))
    write(tmp_path, "half.pdf", pdf("The mill.", ""))
    write(tmp_path, "whole.pdf", pdf("The inn."))
    assert [d.id for d in read_documents(tmp_path)] == ["half.pdf", "whole.pdf"]
    messages = [record.getMessage() for record in caplog.records]
    assert any(
        "scan.pdf: some of the content was skipped: no text on 2 of 2 pages" in each
        for each in messages
    )
    assert any(
        "half.pdf: some of the content was skipped: no text on 1 of 2 pages" in each
        for each in messages
    )
    assert len(messages) == 2


# What is not read --------------------------------------------------------------------------------


def test_files_of_other_formats_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "a.txt", "The mill.")
    for name in ("b.png", "c.png", "d.xlsx", "README", ".hidden"):
        write(tmp_path, name, b"\x89")
    assert len(Corpus.build(tmp_path)) == 1
    (message,) = [record.getMessage() for record in caplog.records]
    assert "skipped 4 files in formats that cannot be read: .png (2)" in message
    assert ".xlsx (1)" in message
    assert "no extension (1)" in message


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("a.html", "selectolax.lexbor"),
        ("a.pdf", "pypdf"),
        ("a.docx", "docx"),
        ("a.rst", "docutils.core"),
    ],
)
def test_a_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackageError, match=r"pip install .*\[documents\]"):
        document_of(write(tmp_path, name, "text"))


# Any content --------------------------------------------------------------------------------------

MARKUP = st.text(st.sampled_from("ab #*-=`|<>/!.:[]()\n\t\r\0{}_&;é中\\\"'+~1")) | st.text(
    st.characters(codec="utf-8")
)


def texts_or_error(path: Path, content: bytes) -> list[str] | str:
    """Return the texts of the blocks of a file, or the error that it gives."""
    try:
        return [block.text for block in parse_file(path, content).blocks]
    except DatasetError as error:
        return str(error)


@given(st.sampled_from(sorted(FORMATS)), st.binary() | MARKUP.map(str.encode))
def test_any_content_is_read_or_one_error_of_ours(ending: str, content: bytes) -> None:
    texts = texts_or_error(Path(f"a{ending}"), content)
    assert isinstance(texts, list) or texts.startswith((f"a{ending}: ", f"a{ending}, line "))


@given(MARKUP, st.integers(1, 9), st.integers(0, 3))
def test_passages_of_any_markdown_hold_all_of_its_blocks(
    text: str, size: int, overlap: int
) -> None:
    from mirage.corpus._structure import assemble

    parsed = parse_file(Path("a.md"), text.encode())
    document = assemble("a.md", parsed, "a")
    cut = list(chunk([document], size, overlap=min(overlap, size - 1)))
    lengths = [len(passage.text.split()) for passage in cut]
    assert all(length > 0 for length in lengths)
    if not overlap:
        whole: Any = "".join("".join(passage.text for passage in cut).split())
        assert whole == "".join(document.text.split()) or not cut


@pytest.mark.parametrize(
    ("name", "deep"),
    [
        ("a.md", "> " * 20_000),
        ("a.rst", "* " * 2000),
        ("a.html", "<div>" * 50_000),
        ("a.html", "<ul><li>" * 900),
    ],
)
def test_deep_nesting_is_read_or_one_error(name: str, deep: str) -> None:
    texts = texts_or_error(Path(name), f"{deep}text".encode())
    assert name in texts if isinstance(texts, str) else "text" in texts[-1]

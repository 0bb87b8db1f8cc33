"""Tests of elements: any text stays that text, and the rest of the page does not change."""

from __future__ import annotations

import json

from cases import each_case
from hostile import STRINGS
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import Reader

from mirage._base.quoting import html_characters, script_json
from mirage.report.drawing import Scale
from mirage.report.elements import cut, data, document, label, tag

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=200)


def assert_harmless(text: str) -> None:
    page = document(tag("p", tag("bdi", text), data_v=text))
    page.encode("utf-8")
    reader = Reader(page)
    assert reader.tags == ["p", "bdi"]
    assert reader.attributes == {"data-v": html_characters(text)}
    assert reader.text.strip() == html_characters(text).strip()


@each_case("text", STRINGS)
def test_hostile_text_stays_text(text: str) -> None:
    assert_harmless(text[:20_000])


@settings(deadline=None)  # a busy machine takes longer now and then
@given(ANY_TEXT)
def test_any_text_stays_text(text: str) -> None:
    assert_harmless(text)


@each_case("text", STRINGS)
def test_no_text_ends_a_block_of_json(text: str) -> None:
    text = text[:20_000]
    page = document(data({"x": [text]}, "data"))
    assert page.count("<") == 3  # the doctype, and the tags of the script
    inside = page.split(">", 2)[2].rpartition("</script>")[0]
    assert json.loads(inside) == {"x": [json.loads(script_json(text))]}
    page.encode("utf-8")


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn")), max_size=100))
def test_script_json_round_trips(text: str) -> None:
    assert json.loads(script_json(text)) == text


def test_texts_and_elements_keep_their_order() -> None:
    page = document(tag("p", "a", tag("b", "c"), "d", None, [tag("i"), "e"], hidden=True, id=None))
    assert '<p hidden="">a<b>c</b>d<i></i>e</p>' in page


def test_control_characters_are_shown_and_invalid_ones_replaced() -> None:
    assert html_characters("a\x00b\x1bc\x7f\n\t") == "a␀b␛c␡\n\t"
    assert html_characters("a\ud800b\ufffe") == "a\ufffdb\ufffd"
    assert html_characters("\ud83d\ude00") == "😀"  # two halves of one character


def test_a_name_is_one_line_that_can_be_seen() -> None:
    assert label("two\nlines\u202e") == r"two lines\u202e"
    assert label("\u200b") == r"\u200b"
    assert label("") == '""'
    assert label("\u00a0") == r'"\xa0"'
    assert label("می\u200cخواهم") == "می\u200cخواهم"
    assert len(label("x" * 1000)) == 120
    assert label("x" * 1000).endswith("…")


def test_a_cut_text_comes_with_the_length_of_the_whole() -> None:
    assert cut("abc", 3) == ("abc", 0)
    assert cut("abcd", 3) == ("abc", 4)


def test_a_scale_leaves_the_same_margin_on_both_sides() -> None:
    scale = Scale.over([-1.0, 3.0, float("nan")])
    assert [scale.at(value) for value in (-1, 0, 1, 3)] == ["4.0%", "27.0%", "50.0%", "96.0%"]
    assert [scale.at(value) for value in (-9, 9)] == ["4.0%", "96.0%"]  # outside the range

"""Lexical support and relevance: values worked by hand, properties, and real labels."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from subsets import MOSTLY_SLOW_LANGUAGES

from mirage.dataset import MirageDataset
from mirage.features import NotComputed, answered, feature
from mirage.features.lexical import SUPPORTED_AT, _RunIndex, sentence_support
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query, Response
from mirage.text import split_sentences
from mirage.text.content import FULL_MATCH_SHARE, NO_MATCH_SHARE, best_matches, grams, index_words

NILE = Query(
    id="q",
    language="en",
    text="Which river is the longest in Africa?",
    passages=(
        Passage(
            id="1#0", title="Nile", text="The Nile is the longest river in Africa, 6,650 km long."
        ),
        Passage(
            id="2#0", title="Congo", text="The Congo crosses the equator twice on its way west."
        ),
        Passage(id="3#0", title="Oslo", text="Oslo lies at a fjord and has many museums."),
    ),
    relevant=("1#0",),
)


def value(name: str, text: str, query: Query = NILE) -> float:
    computed = feature(name).compute([answered(query, Response(query_id=query.id, text=text))])[0]
    assert isinstance(computed, float)
    return computed


# Support ------------------------------------------------------------------------------------------


def test_wording_score_worked_by_hand() -> None:
    # Folded, the sentence is " xb " and so is the passage: 4 characters of 3 kinds. With one added
    # to each count and to the total, a space has (2 + 1) / 8 and each letter (1 + 1) / 8. All of
    # it is one run, and the passage has all its words.
    bits = 2 * math.log2(8 / 3) + 2 * math.log2(8 / 2)
    expected = 0.6 + 0.4 * bits / (bits + 50)
    assert sentence_support("Xb.", ["xb!"], "en") == pytest.approx(expected)
    # A passage beside it costs nothing. 4 spaces and one of each letter in 8 characters of 5 kinds.
    bits = 2 * math.log2(14 / 5) + 2 * math.log2(14 / 2)
    for passages in (["xb", "cd"], ["cd", "xb"]):
        expected = 0.6 + 0.4 * bits / (bits + 50)
        assert sentence_support("xb", passages, "en") == pytest.approx(expected)


def content_score(sentence: str, passages: list[str], **settings: Any) -> float:
    """Return the content score before a part of it counts in full."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mirage.features.lexical.FULL_CONTENT_SHARE", 1.0)
        patch.setattr("mirage.features.lexical.CONTENT_WEIGHT", 1.0)
        return sentence_support(sentence, passages, "en", **settings)


def test_content_score_worked_by_hand() -> None:
    # The passage has one of two words of five letters; the other may be phrasing and counts half.
    passage = ["Heron."]
    assert content_score("The heron zooms.", passage) == pytest.approx(5 / (5 + 5 / 2))
    # ... or twice, if another shown passage holds it.
    assert content_score("The heron zooms.", passage, others=["zooms"]) == pytest.approx(
        5 / (5 + 2 * 5)
    )
    # The question holds "heron", which counts for half as many letters.
    with_question = content_score("The heron zooms.", passage, question="Which heron?")
    assert with_question == pytest.approx(2.5 / (2.5 + 5 / 2))
    # A number counts ten letters, unless the question states it or it is that of an item.
    assert content_score("Heron 7.", passage) == pytest.approx(5 / (5 + 10))
    assert (
        content_score("Heron 7.", ["Heron 7."])
        == content_score("Heron 7.", passage, question="7?")
        == 1
    )
    assert content_score("7. Heron", passage) == 1


def test_a_word_matches_another_form() -> None:
    # " da", "dar", "ark", "rke", "ker": "dark" has three of five.
    assert best_matches(("darker",), "Dark.", "en")[0] == pytest.approx((3 / 5 - 0.3) / 0.4)
    assert best_matches(("dark",), "Darker.", "en")[0] == 1
    assert best_matches(("dark",), "Arkansas", "en")[0] < 0.5
    table = index_words(("It is dark. It was day.",), "en").sentence_matches(("dark",))
    assert table.tolist() == [[0, 1, 0]]
    assert best_matches(("河流",), "长河流入大海。", "zh")[0] == 1
    assert best_matches(("河流",), "河水流入大海。", "zh")[0] == 0


WORDS = st.text("abk가", min_size=1, max_size=6)


@given(st.lists(WORDS, unique=True), st.lists(st.lists(WORDS, max_size=5), max_size=4))
def test_a_table_of_matches_equals_the_shared_ngrams_of_each_pair_of_words(
    words: list[str], sentences: list[list[str]]
) -> None:
    for code, length in (("fi", 3), ("ko", 2)):
        passage = "\n".join(" ".join(sentence) for sentence in sentences)
        rows = index_words((passage,), code).sentence_matches(words)[:, 1:]
        spoken = [text.split() for text in split_sentences(passage, code)]
        every = {other for sentence in spoken for other in sentence}
        assert rows.shape == (len(words), len(spoken))
        for word, row in zip(words, rows.tolist(), strict=True):
            parts = grams(word, length)
            for sentence, value in zip(spoken, row, strict=True):
                shares = [len(parts & grams(other, length)) / len(parts) for other in sentence]
                share = (max(shares, default=0) - NO_MATCH_SHARE) / (
                    FULL_MATCH_SHARE - NO_MATCH_SHARE
                )
                similar = float(word in sentence) if word in every else min(1.0, max(0.0, share))
                assert value == similar


def test_words_in_one_place_support_more_than_words_far_apart() -> None:
    far = "The heron fishes. It rains. It snows. It is late. It is cold. Whoever zooms falls."
    near = "The heron zooms. It rains. It snows. It is late. It is cold. Whoever fishes falls."
    assert content_score("Herons zoom.", [far]) < content_score("Herons zoom.", [near])


def test_an_unknown_number_halves_the_wording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirage.features.lexical.CONTENT_WEIGHT", 0.0)
    passage = ["The tower was opened in the year 1889 and is 330 metres high."]

    def support(year: int, before: str = "") -> float:
        return sentence_support(f"{before}The tower was opened in the year {year}.", passage, "en")

    listed, unknown = support(1889, "2. "), support(1898)
    monkeypatch.setattr("mirage.features.lexical.UNKNOWN_NUMBER_FACTOR", 1.0)
    assert unknown == support(1898) / 2
    assert listed == support(1889, "2. ")  # an item of a list states no 2


def test_more_of_a_passage_is_not_less_support() -> None:
    passage = ["Divers found the wreck of the ship in 1985, at a depth of 3,800 metres."]
    sentences = ["Zebras eat grass.", "Zebras found grass.", "Divers found grass."]
    sentences += ["Divers found the wreck.", "Divers found the wreck of the ship in 1985."]
    supports = [sentence_support(sentence, passage, "en") for sentence in sentences]
    assert supports == sorted(supports)
    assert supports[-1] > SUPPORTED_AT > supports[0]


TOLD = {
    "en": (
        "Water boils at only about 70 degrees on top of Mount Everest, so food takes longer.",
        "Up on Everest it's boiling at roughly 70 degrees already, which is why meals take longer.",
        "Whales sing for hours, and sailors hear their songs across whole oceans.",
    ),
    "de": (
        "Auf dem Gipfel kocht Wasser schon bei etwa 70 Grad, deshalb brauchen Speisen länger.",
        "Oben am Gipfel reichen rund 70 Grad, bis das Wasser kocht, also dauern Speisen länger.",
        "Wale singen stundenlang, und Seeleute hören ihre Lieder über ganze Meere hinweg.",
    ),
    "ru": (
        "На вершине вода кипит уже при 70 градусах, поэтому пища готовится дольше.",
        "Там, на вершине, воде хватает 70 градусов, чтобы закипеть: готовить пищу надо дольше.",
        "Киты поют часами, и моряки слышат их песни через целые океаны.",
    ),
    "ar": (
        "يغلي الماء على قمة الجبل عند نحو 70 درجة فقط، لذلك يستغرق طهي الطعام وقتا أطول.",
        "فوق القمة يكفي الماء 70 درجة كي يغلي، فيحتاج الطعام إلى وقت أطول.",
        "تغني الحيتان ساعات طويلة ويسمع البحارة أغانيها عبر المحيطات.",
    ),
    "hi": (
        "चोटी पर पानी लगभग 70 डिग्री पर ही उबलता है, इसलिए खाना पकने में अधिक समय लगता है।",
        "वहाँ चोटी पर पानी 70 डिग्री में उबलने लगता है, तो खाना देर से पकता है।",
        "व्हेल घंटों गाती हैं और नाविक उनके गीत महासागरों के पार सुनते हैं।",
    ),
    "zh": (
        "在山顶上,水只要大约70度就会沸腾,所以煮食物需要更长时间。",
        "到了山顶,70度水就沸腾了,难怪食物要煮更久。",
        "鲸鱼会连续唱几个小时,水手隔着大洋也能听见歌声。",
    ),
    "ko": (
        "산꼭대기에서는 물이 약 70도에서 끓기 때문에 음식을 익히는 데 시간이 더 걸린다.",
        "꼭대기에서는 물이 70도면 끓어서 음식 익히는 시간이 길어져요.",
        "고래는 몇 시간씩 노래하고 선원들은 바다 건너에서 그 노래를 듣는다.",
    ),
    "sw": (
        "Kileleni maji huchemka kwa nyuzi 70 tu, kwa hiyo chakula huchukua muda mrefu kupikwa.",
        "Huko kileleni maji yanachemka kwa nyuzi 70, ndiyo maana kupika chakula kunachukua muda.",
        "Nyangumi huimba kwa saa nyingi, na mabaharia husikia nyimbo zao kupitia bahari.",
    ),
}


@each_case("code", TOLD)
def test_a_paraphrase_is_nearer_to_a_quote_than_to_an_invention(code: str) -> None:
    true_text, reworded_text, false_text = TOLD[code]
    # The passage also says something else, as passages do.
    passage = [f"{true_text} {TOLD[code][0].replace('70', '100')}"]
    quote, paraphrase, invention = (
        sentence_support(text, passage, code) for text in (true_text, reworded_text, false_text)
    )
    assert quote - paraphrase < paraphrase - invention
    assert sentence_support(reworded_text.replace("70", "38"), passage, code) < paraphrase


# With so many characters, an integer has no room for n-grams of five of them.
MANY_CHARACTERS = "".join(map(chr, range(0x4E00, 0x4E00 + 5000)))


@settings(max_examples=examples(200), deadline=None)
@given(
    st.text("ab z", max_size=20),
    st.lists(st.text("abc ", max_size=30), min_size=1, max_size=3),
    st.booleans(),
)
def test_runs_are_the_longest(text: str, sources: list[str], many: bool) -> None:
    index = _RunIndex([*sources, MANY_CHARACTERS] if many else sources)
    longest = [
        [
            max(end for end in range(i, len(text) + 1) if end == i or text[i:end] in source)
            for i in range(len(text))
        ]
        for source in sources
    ]
    rows = index.run_ends(text, index.ranks(text), range(len(sources)))
    assert rows.tolist() == longest
    counts = index.counts[: len(sources)].sum(axis=1).tolist()
    assert counts == [len(source) for source in sources]


@settings(max_examples=examples(100), deadline=None)
@given(
    sentence=st.text(max_size=60),
    passages=st.lists(st.text(max_size=80), max_size=4),
    code=st.sampled_from(sorted(LANGUAGES)),
)
def test_support_is_between_0_and_1(sentence: str, passages: list[str], code: str) -> None:
    support = sentence_support(sentence, passages, code)
    assert 0 <= support <= 1
    assert sentence_support(sentence, passages, code) == support
    assert sentence_support(sentence, [], code) == 0


def test_support_counts_cited_passages_only() -> None:
    statement = "The Nile is the longest river in Africa"
    right, wrong, none = (
        value("support_lexical", f"{statement}{c}.") for c in (" [1]", " [3]", "")
    )
    assert right > SUPPORTED_AT > wrong > none == 0
    everything = value("support_lexical_all", f"{statement}.")
    assert everything == value("support_lexical_all", f"{statement} [3].") > SUPPORTED_AT


def test_support_is_the_mean_over_sentences() -> None:
    first = value("support_lexical", "The Nile is the longest river in Africa [1].")
    both = value("support_lexical", "The Nile is the longest river in Africa [1]. It is blue.")
    # What cites nothing has 0.8 of its support by what the answer cites. New words weigh: of the
    # first sentence none that the question has not ("river", "longest", "Africa"), but "Nile".
    blue = 0.8 * sentence_support("It is blue.", [f"Nile\n{NILE['1#0'].text}"], "en")
    assert both == pytest.approx((first + blue) / 2)
    assert value("support_lexical", "The Nile is the longest river in Africa.") == 0


def test_a_sentence_that_repeats_the_question_weighs_nothing() -> None:
    statement = "The Nile is 6,650 km long [1]."
    question = "Which river is the longest in Africa?"
    assert value("support_lexical", f"{question} {statement}") == value(
        "support_lexical", statement
    )
    assert value("support_lexical", f"{question} [1]") > 0  # with no other all weigh the same


@pytest.mark.parametrize("name", ["support_lexical", "support_lexical_all", "relevance_lexical"])
def test_empty_answers_and_unknown_passages(name: str) -> None:
    assert value(name, "") == 0
    response = Response(query_id="q", text="It is the Nile [1].")
    bare = NILE.model_copy(update={"passages": (), "id": "bare"})
    unknown = feature(name).compute([answered(Query(**bare.model_dump()), response)])[0]
    assert isinstance(unknown, NotComputed)
    elsewhere = response.model_copy(update={"shown": ("9#9",)})
    missing = feature(name).compute([answered(NILE, elsewhere)])[0]
    assert isinstance(missing, NotComputed)
    assert "'9#9'" in missing.reason


def test_titles_count_as_text_of_passages() -> None:
    titled = Passage(id="1#0", title="Kilimanjaro National Park", text="It lies in Tanzania.")
    query = Query(id="t", language="en", text="Where?", passages=(titled,))
    bare = Query(
        id="b",
        language="en",
        text="Where?",
        passages=(titled.model_copy(update={"title": ""}),),
    )
    answer = "Kilimanjaro National Park lies in Tanzania [1]."
    assert value("support_lexical", answer, query) > value("support_lexical", answer, bare)


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_references_are_supported_by_what_they_cite(code: str) -> None:
    right, wrong = [], []
    for query in MirageDataset.bundled(code):
        for sentence in answered(
            query, Response(query_id="r", text=query.reference)
        ).parsed.sentences:
            other_passages = [
                p for p in query.passages if p.id not in {*sentence.citations, *query.relevant}
            ]
            if not sentence.citations:
                continue
            cited = [query[passage].text for passage in sentence.citations]
            right.append(sentence_support(sentence.text, cited, code))
            wrong.append(
                max(sentence_support(sentence.text, [p.text], code) for p in other_passages)
            )
    assert len(right) >= 30
    # The other passages tell the same of something else, in the same words: the best of them
    # holds much of a true sentence too, but hardly ever as much as what the sentence cites.
    assert np.mean(np.array(right) > wrong) >= 0.9
    assert np.mean(right) > 1.25 * np.mean(wrong)


# Relevance ----------------------------------------------------------------------------------------


def test_relevance_worked_by_hand() -> None:
    # "xyz" folds to " xyz ". Of its n-grams the first passage (" xy ") holds " x", "xy" and " xy",
    # the second (" z ") has "z " only; one of two passages has each, so all weigh the same.
    passages = (Passage(id="1#0", text="xy"), Passage(id="2#0", text="z"))
    query = Query(id="q", language="en", text="xyz", passages=passages)
    assert value("relevance_lexical", "So [1].", query) == 1
    assert value("relevance_lexical", "So [2].", query) == pytest.approx(1 / 3)
    assert value("relevance_lexical", "So [1][2].", query) == pytest.approx(2 / 3)
    assert value("relevance_lexical", "So.", query) == 0


def test_relevance_counts_grams_of_two_to_five_characters() -> None:
    # " abc " has 4, 3, 2 and 1 grams of 2, 3, 4 and 5 characters. Of these ten " xabcx " holds
    # "ab", "bc" and "abc", which both passages hold; the other seven one of them holds.
    passages = (Passage(id="1#0", text="abc"), Passage(id="2#0", text="xabcx"))
    query = Query(id="q", language="en", text="abc", passages=passages)
    rare, common = math.log(1 + 1.5 / 1.5), math.log(1 + 0.5 / 2.5)
    expected = 3 * common / (7 * rare + 3 * common)
    assert value("relevance_lexical", "So [2].", query) == pytest.approx(expected)


def test_the_best_shown_passage_has_relevance_one() -> None:
    assert value("relevance_lexical", "The Nile [1].") == 1
    assert value("relevance_lexical", "The Congo [2].") < 1


def test_relevance_without_shared_grams_is_zero() -> None:
    assert value("relevance_lexical", "So [1].", NILE.model_copy(update={"text": "何ですか"})) == 0
    assert value("relevance_lexical", "So [1].", NILE.model_copy(update={"text": "?!"})) == 0


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_passages_on_the_question_are_nearer_than_those_on_another(code: str) -> None:
    # Which of the passages on it answers a question, its words do not tell in the bundled data.
    near: dict[bool, list[float]] = {True: [], False: []}
    dataset = MirageDataset.bundled(code)[:11]
    for query, other in pairwise(dataset):
        mixed = query.model_copy(update={"passages": (*query.passages, *other.passages)})
        for passage in mixed.passages:
            nearness = value("relevance_lexical", f"So [{passage.id}].", mixed)
            near[passage in query.passages].append(nearness)
    assert np.mean(near[True]) > np.mean(near[False]) + 0.3
    assert max(near[True]) == 1

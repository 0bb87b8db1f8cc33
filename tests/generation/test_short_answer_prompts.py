"""Prompts for short answers, and the oracle."""

from __future__ import annotations

import math
import re
from collections import Counter

import pytest
from cases import each_case

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, GenerationError, SettingError, UnknownNameError
from mirage.features import FeatureSuite
from mirage.features.language import language_probabilities
from mirage.generation import OracleAnswer, ShortAnswerPrompt, respond
from mirage.generation.short_answers import _WORDS
from mirage.languages import ALL_LANGUAGES, LANGUAGES
from mirage.models import Passage, Query
from mirage.pipeline import Pipeline


def text_of(query: Query, **settings: object) -> str:
    (message,) = ShortAnswerPrompt(**settings)(query).messages  # type: ignore[arg-type]
    return str(message["content"])


QUERY = Query(
    id="q",
    language="sw",
    text="Nani?",
    passages=(Passage(id="1#0", text="Ada.", title="T"), Passage(id="2#0", text="Bo.")),
)


def test_every_language_has_its_own_prompt() -> None:
    assert _WORDS.keys() == ALL_LANGUAGES.keys()
    for code, words in _WORDS.items():
        assert words.material.count("{word}") == 1
        assert len(set(words)) == 5
        for sentence in (words.passages, words.closed, words.brief):
            assert language_probabilities(sentence, code)[code] > 0.9, (code, sentence)


@each_case("code", LANGUAGES)
def test_the_whole_prompt_is_in_the_language_of_the_question(code: str) -> None:
    query = QUERY.model_copy(update={"language": code})
    text, words = text_of(query), _WORDS[code]
    for sentence in (words.passages, words.brief, words.reply):
        assert text.count(sentence) == 2  # before the passages and after the question
    assert re.findall(r"^<(\w+) \w+>$", text, re.M) == ["passage", "passage", "question"]
    assert "T\nAda." in text
    assert words.reply not in text_of(query, reply_in_language=False)


def test_instructions_may_be_in_english() -> None:
    text = text_of(QUERY, language="en")
    assert "with the help of the passages" in text
    assert "Answer in Swahili. Jibu kwa Kiswahili." in text
    assert "Swahili" not in text_of(QUERY, language="en", reply_in_language=False)


def test_without_passages_it_is_closed_book() -> None:
    query = QUERY.model_copy(update={"passages": ()})
    text = text_of(query)
    assert _WORDS["sw"].closed in text
    assert _WORDS["sw"].passages not in text
    assert ShortAnswerPrompt()(query).shown == ()
    assert ShortAnswerPrompt()(QUERY).shown == ("1#0", "2#0")


def test_the_prompt_fits_into_its_context() -> None:
    long = QUERY.model_copy(
        update={"passages": tuple(Passage(id=str(i), text="neno " * 300) for i in range(9))}
    )
    prompt = ShortAnswerPrompt(passage_tokens=100, context_tokens=1000)
    ids = prompt(long).shown
    assert ids == tuple(map(str, range(len(ids))))
    assert 1 < len(ids) < 9
    with pytest.raises(GenerationError, match="tokens of the context remain"):
        ShortAnswerPrompt(context_tokens=260)(long)
    with pytest.raises(SettingError, match="do not fit into a context"):
        ShortAnswerPrompt(answer_tokens=9000)
    with pytest.raises(UnknownNameError, match="did you mean 'sw'"):
        ShortAnswerPrompt(language="Swahili")


@pytest.mark.parametrize("code", ["ar", "en", "ja", "th"])
def test_the_oracle_returns_the_gold_answers(code: str) -> None:
    dataset = MirageDataset.bundled(code)
    run = OracleAnswer().run(dataset, progress=False)
    names = ("qa_match", "qa_char3_recall")
    table = FeatureSuite(names).score(dataset, run)
    measured = [query.id for query in dataset if query.answers]
    assert table.select(measured).values.min() == 1.0
    without = Counter(response.error for response in run.failed)
    assert without == {"the query has no short answer": len(dataset) - len(measured)}
    assert math.isnan(table["qa_match"][dataset.query_ids.index(run.failed[0].query_id)])


def test_the_oracle_fails_on_queries_without_gold() -> None:
    dataset = MirageDataset.bundled("en")
    with pytest.raises(DatasetError, match=r"call OracleAnswer\(\)\.run"):
        respond(OracleAnswer(), dataset)
    with pytest.raises(DatasetError, match=r"call OracleAnswer\(\)\.run"):
        Pipeline(None, generator=OracleAnswer()).run(dataset)

"""Tests of evaluation sets from MIRACL's judgments, and of training data from a teacher."""

from __future__ import annotations

import json
import re
import runpy
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from cases import each_case
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_server import ChatServer, last_user_text
from profiles import examples
from subsets import MOSTLY_SLOW_LANGUAGES

from mirage.dataset import MirageDataset
from mirage.errors import DatasetError, GenerationError, SettingError, UnknownNameError
from mirage.generation import OpenAIGenerator, RagPrompt
from mirage.languages import LANGUAGES
from mirage.models import Passage, Query, Response, Run
from mirage.testsets import MIRACL_RECIPE, build_benchmark, build_training_set, write_training_set
from mirage.testsets.evaluation_sets import Benchmark, DropReason, Recipe
from mirage.testsets.training_sets import TrainingExample, read_training_set, relevant_only
from mirage.text import parse

EXAMPLE = Path(__file__).parents[2] / "examples" / "build_benchmark.py"

# --- MIRACL's development topics against the paper's Table 1
#
# The paper's training sets are not tested, because they need MIRACL's training topics.


def miracl(data_dir: Path, code: str, recipe: Recipe | None = None, seed: int = 0) -> Benchmark:
    folder = data_dir / "miracl"
    topics, qrels = folder / "topics" / f"{code}-dev.tsv", folder / "qrels" / f"{code}-dev.tsv"
    return build_benchmark(topics, qrels, language=code, recipe=recipe, seed=seed)


def judged_ids(data_dir: Path, code: str) -> tuple[set[str], set[str]]:
    """Return the ids with a relevant and those with a non-relevant passage, without the library."""
    lines = (data_dir / "miracl" / "qrels" / f"{code}-dev.tsv").read_text("utf-8").splitlines()
    rows = [line.split() for line in lines]
    return {row[0] for row in rows if row[3] == "1"}, {row[0] for row in rows if row[3] == "0"}


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_benchmarks_have_the_sizes_of_the_paper(data_dir: Path, code: str) -> None:
    published = json.loads((data_dir / "published" / "mirage_bench.json").read_text("utf-8"))
    benchmark = miracl(data_dir, code, MIRACL_RECIPE[code])
    assert len(benchmark.dataset) == published["evaluation_queries"][code]
    assert benchmark.dataset.language == code


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_every_miracl_query_is_accounted_for(data_dir: Path, code: str) -> None:
    relevant, other = judged_ids(data_dir, code)
    dataset, dropped = miracl(data_dir, code)
    assert set(dataset.query_ids) == relevant & other
    assert dropped == dict.fromkeys(relevant - other, "no non-relevant passage")
    topics = (data_dir / "miracl" / "topics" / f"{code}-dev.tsv").read_text("utf-8")
    order = [line.split("\t")[0] for line in topics.splitlines()]
    assert [query_id for query_id in order if query_id not in dropped] == list(dataset.query_ids)


def test_telugu_keeps_some_queries_with_only_relevant_passages(data_dir: Path) -> None:
    relevant, other = judged_ids(data_dir, "te")
    assert (len(relevant & other), len(relevant - other)) == (84, 744)
    dataset, dropped = miracl(data_dir, "te", MIRACL_RECIPE["te"])
    assert len(set(dataset.query_ids) - other) == 72
    assert len(set(dataset.query_ids) & other) == 78
    reasons = dict.fromkeys(relevant - other, "no non-relevant passage")
    reasons |= dict.fromkeys(relevant & other, "not sampled")
    assert dropped == {id_: why for id_, why in reasons.items() if id_ not in dataset.query_ids}


def test_arabic_is_a_sample_that_depends_on_the_seed(data_dir: Path) -> None:
    dataset, dropped = miracl(data_dir, "ar", MIRACL_RECIPE["ar"])
    assert dataset == miracl(data_dir, "ar", MIRACL_RECIPE["ar"]).dataset
    other = miracl(data_dir, "ar", MIRACL_RECIPE["ar"], seed=1).dataset
    assert len(other) == 1501
    assert set(other.query_ids) != set(dataset.query_ids)
    assert Counter(dropped.values()) == {"not sampled": 1395}
    assert len(miracl(data_dir, "ar").dataset) == 2896


@pytest.mark.slow
def test_the_example_prints_the_papers_numbers(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MIRAGE_DATA", str(data_dir))
    runpy.run_path(str(EXAMPLE))["main"]()
    _, *rows = capsys.readouterr().out.splitlines()
    table = {code: list(map(int, numbers)) for code, *numbers in map(str.split, rows)}
    assert set(table) == set(LANGUAGES)
    assert table["te"] == [828, 0, 0, 0, 672, 6, 150, 150]
    assert table["sw"] == [482, 0, 0, 0, 1, 0, 481, 481]
    assert [row[-2] for row in table.values()] == [row[-1] for row in table.values()]
    assert sum(row[-2] for row in table.values()) == 11195


# --- Each rule


def build(
    folder: Path,
    topics: Mapping[str, str],
    judged: Mapping[str, Mapping[str, int]],
    recipe: Recipe | None = None,
    seed: int = 0,
    texts: bool = False,
) -> Benchmark:
    paths = folder / "topics.tsv", folder / "qrels.tsv", folder / "passages.jsonl"
    grades = [(q, p, grade) for q, passages in judged.items() for p, grade in passages.items()]
    paths[0].write_text("".join(f"{id_}\t{text}\n" for id_, text in topics.items()), "utf-8")
    paths[1].write_text("".join(f"{q} Q0 {p} {grade}\n" for q, p, grade in grades), "utf-8")
    rows = ({"docid": id_, "text": f"text of {id_}"} for id_ in {p for _, p, _ in grades})
    paths[2].write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return build_benchmark(
        paths[0],
        str(paths[1]),
        paths[2] if texts else None,
        language="en",
        recipe=recipe,
        seed=seed,
    )


TOPICS = {"2": "Both?", "1": "Only right?", "3": "Only wrong?", "4": "Not judged?"}
JUDGED = {
    "1": {"a#1": 1, "a#2": 2},
    "2": {"b#1": 0, "b#2": 1, "b#3": 0},
    "3": {"c#1": 0, "c#2": -1},
    "5": {"d#1": 1, "d#2": 0},
}


def test_dropped_queries_have_a_reason(tmp_path: Path) -> None:
    dataset, dropped = build(tmp_path, TOPICS, JUDGED)
    assert dataset.query_ids == ("2",)
    assert dropped == {
        "1": "no non-relevant passage",
        "3": "no relevant passage",
        "4": "no judgment",
        "5": "no topic",
    }


def test_queries_with_only_relevant_passages_are_kept_on_request(tmp_path: Path) -> None:
    dataset, dropped = build(tmp_path, TOPICS, JUDGED, Recipe(relevant_only=5))
    assert dataset.query_ids == ("2", "1")
    assert set(dropped) == {"3", "4", "5"}


def test_a_query_shows_passages_if_their_texts_are_given(tmp_path: Path) -> None:
    (bare,) = build(tmp_path, TOPICS, JUDGED).dataset
    (query,) = build(tmp_path, TOPICS, JUDGED, texts=True).dataset
    assert (bare.passage_ids, bare.relevant) == ((), ("b#2",))
    assert (query.passage_ids, query.relevant) == (("b#1", "b#2", "b#3"), ("b#2",))
    assert query["b#3"].text == "text of b#3"


def test_a_benchmark_round_trips_through_its_file(tmp_path: Path) -> None:
    dataset = build(tmp_path, TOPICS, JUDGED, Recipe(relevant_only=1), texts=True).dataset
    dataset.save(tmp_path / "benchmark.jsonl")
    assert MirageDataset.load(tmp_path / "benchmark.jsonl") == dataset


def test_an_empty_benchmark_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        build(tmp_path, TOPICS, {"1": {"a#1": 1}, "3": {"c#1": 0}, "9": {"a#1": 1}})
    assert str(caught.value) == (
        f"{tmp_path / 'topics.tsv'}: no query is left for a benchmark (no judgment: 2, no "
        "non-relevant passage: 1, no relevant passage: 1, no topic: 1); check "
        f"that {tmp_path / 'qrels.tsv'} has the qrels for these topics"
    )


@pytest.mark.parametrize("fields", [{"sample": -1}, {"relevant_only": -1}])
def test_a_recipe_refuses_negative_numbers(fields: dict[str, int]) -> None:
    with pytest.raises(SettingError, match="at least 0, got Recipe"):
        Recipe(**fields)


@settings(max_examples=examples(120), deadline=None)
@given(
    topics=st.lists(st.integers(0, 30).map(str), unique=True, min_size=1),
    judged=st.dictionaries(
        st.integers(0, 30).map(str),
        st.dictionaries(st.sampled_from("abcd"), st.integers(-1, 2), min_size=1),
    ),
    sample=st.none() | st.integers(0, 20),
    relevant_only=st.integers(0, 5),
    seed=st.integers(0, 3),
)
def test_any_judgments_are_sampled_and_dropped_correctly(
    tmp_path_factory: pytest.TempPathFactory,
    topics: list[str],
    judged: dict[str, dict[str, int]],
    sample: int | None,
    relevant_only: int,
    seed: int,
) -> None:
    kinds = {
        query_id: (any(g > 0 for g in grades.values()), any(g <= 0 for g in grades.values()))
        for query_id, grades in judged.items()
        if query_id in topics
    }
    both = [query_id for query_id, kind in kinds.items() if kind == (True, True)]
    bare = [query_id for query_id, kind in kinds.items() if kind == (True, False)]
    sampled = len(both) if sample is None else min(sample, len(both))
    extra = min(relevant_only, len(bare))
    folder = tmp_path_factory.mktemp("any")
    texts = dict.fromkeys(topics, "Why?")
    recipe = Recipe(sample, relevant_only)
    if sampled + extra == 0:
        with pytest.raises(DatasetError, match="no query is left"):
            build(folder, texts, judged, recipe, seed)
        return
    dataset, dropped = build(folder, texts, judged, recipe, seed)
    assert len(set(both) & set(dataset.query_ids)) == sampled
    assert len(set(bare) & set(dataset.query_ids)) == extra
    assert len(dataset) == sampled + extra
    assert set(dropped) == (set(topics) | set(judged)) - set(dataset.query_ids)
    expected: dict[str, DropReason] = dict.fromkeys(judged, "no topic")
    expected |= dict.fromkeys(topics, "no judgment") | dict.fromkeys(kinds, "no relevant passage")
    expected |= dict.fromkeys(both, "not sampled")
    expected |= dict.fromkeys(bare, "no non-relevant passage")
    assert dropped == {query_id: expected[query_id] for query_id in dropped}
    assert (dataset, dropped) == build(folder, texts, judged, recipe, seed)


# --- Training data


def query(
    relevant: tuple[str, ...] = ("d#7", "d#2"),
    passage_ids: tuple[str, ...] = ("d#0", "d#2", "d#5", "d#7", "1969"),
    query_id: str = "q",
) -> Query:
    passages = tuple(Passage(id=id_, text=f"text of {id_}") for id_ in passage_ids)
    return Query(id=query_id, language="en", text="Why?", passages=passages, relevant=relevant)


def run(*responses: Response, language: str = "en") -> Run:
    return Run(model="teacher", language=language, responses=responses)


def training_text(
    text: str | None, shown_ids: tuple[str, ...] | None = None, prompt: RagPrompt | None = None
) -> str:
    """Return the training text of a teacher's response, or the reason why there is none."""
    # The second query always gives an example, so that the set is not empty.
    dataset = MirageDataset([query(), query(("d#2",), ("d#2",), "good")])
    error = "timed out" if text is None else None
    good = Response(query_id="good", text="##Reason: so [d#2]\n##Answer: x [d#2].")
    teacher = run(Response(query_id="q", text=text, error=error, shown=shown_ids), good)
    examples, omitted = build_training_set(dataset, teacher, prompt)
    assert {example.query_id for example in examples} | set(omitted) == {"q", "good"}
    return omitted["q"] if omitted else examples[0].messages[-1].content


def test_relevant_only() -> None:
    unanswerable = query(relevant=(), query_id="none")
    hidden = query(relevant=("z#1",), query_id="hidden")
    full = query()
    assert full.passage_ids[0] == "d#0"
    only = relevant_only(MirageDataset([unanswerable, full, hidden]))
    assert only.query_ids == ("q",)
    assert only["q"].passage_ids == ("d#2", "d#7")  # in the order of the query, not of the qrels
    assert (only["q"].text, only["q"].relevant) == (full.text, full.relevant)


def test_relevant_only_needs_relevant_passages() -> None:
    with pytest.raises(DatasetError, match=r"no query of bare has a relevant passage .* qrels"):
        relevant_only(MirageDataset([query(relevant=())], name="bare"))


@each_case(
    ("cited", "written"),
    [
        ("[d#2]", "[d#2]"),
        ("[1]", "[d#2]"),
        ("[2].", "[d#7]."),
        ("[1][2]", "[d#2][d#7]"),
        ("[2, 1]", "[d#7][d#2]"),
        ("[1-2]", "[d#2][d#7]"),
        ("[Passage 2]", "[d#7]"),
        ("【1】", "[d#2]"),
        (r"\[1\]", "[d#2]"),
        ("[[2]]", "[d#7]"),
        ("[[1-2]]", "[d#2][d#7]"),
        ("[2](https://x.y/z)", "[d#7]"),
        ("[१]", "[d#2]"),
        ("[1, 17]", "[d#2]"),
        ("[2] [sic]", "[d#7] [sic]"),
        ("[2] [2024]", "[d#7] [2024]"),
        ("[1]\n", "[d#2]\n"),
    ],
)
def test_citations_by_position_become_ids(cited: str, written: str) -> None:
    text = "##Reason: as {0}\n##Answer: It is so {0}"
    assert training_text(text.format(cited)) == text.format(written)


def test_positions_count_in_the_order_that_the_teacher_saw() -> None:
    text = "##Reason: so [1]\n##Answer: It is [2]."
    assert training_text(text) == "##Reason: so [d#2]\n##Answer: It is [d#7]."
    assert training_text(text, ("d#7", "d#2")) == "##Reason: so [d#7]\n##Answer: It is [d#2]."


@each_case(
    ("text", "reason"),
    [
        (None, "failed"),
        ("", "malformed"),
        ("It is so [d#2].", "malformed"),
        ("##Answer: It is so [d#2].\n##Reason: so", "malformed"),
        ("##Reason: so [d#2]\n##Answer:", "malformed"),
        ("##Reason: so\n##Answer: It is so.", "no citation"),
        ("##Reason: so\n##Answer: It is so [sic] [1969].", "no citation"),
        (
            "##Reason: so [d#2]\n##Answer: It is so [d#0].",
            "unknown citation",
        ),  # an irrelevant passage that the teacher was not shown
        ("##Reason: so [d#2]\n##Answer: It is so [99#4].", "unknown citation"),
        ("##Reason: so [3]\n##Answer: It is so [1].", "unknown citation"),
        ("##Reason: so [d#2]\n##Answer: Since [1969].", "ambiguous citation"),
    ],
)
def test_unfit_responses_have_a_reason(text: str | None, reason: str) -> None:
    assert training_text(text) == reason


@pytest.mark.parametrize("seed", range(4))
def test_a_cited_passage_must_fit_into_the_prompt(seed: int) -> None:
    whole = RagPrompt()(query()).messages[0]["content"]
    answer, room = 1024 + 64, len(whole) - 100  # too little for all five passages
    prompt = RagPrompt(seed=seed, count=len, context_tokens=answer + room)
    shown_ids = prompt(query()).shown
    assert 0 < len(shown_ids) < 5
    for position, id_ in enumerate(("d#2", "d#7"), 1):
        text = training_text(f"##Reason: so\n##Answer: It is [{position}].", prompt=prompt)
        fits = id_ in shown_ids
        assert text == (f"##Reason: so\n##Answer: It is [{id_}]." if fits else "does not fit")
    both = training_text("##Reason: so\n##Answer: It is [1] [2].", prompt=prompt)
    assert (both == "does not fit") is not {"d#2", "d#7"}.issubset(shown_ids)


def test_a_query_must_fit_into_the_prompt() -> None:
    good, long = query(query_id="good"), query().model_copy(update={"text": "Why? " * 50_000})
    answers = (Response(query_id=id_, text="##Reason: r\n##Answer: [1]") for id_ in ("good", "q"))
    examples, omitted = build_training_set(MirageDataset([good, long]), run(*answers))
    assert [example.query_id for example in examples] == ["good"]
    assert omitted == {"q": "does not fit"}


def test_prompts_show_irrelevant_passages_too() -> None:
    dataset = MirageDataset([query(query_id=str(n)) for n in range(20)])
    text = "##Reason: so [1]\n##Answer: It is [2]."
    teacher = run(*(Response(query_id=id_, text=text) for id_ in dataset.query_ids))
    examples, omitted = build_training_set(dataset, teacher)
    assert omitted == {}
    orders = set()
    for example, original in zip(examples, dataset, strict=True):
        user, assistant = example.messages
        assert (user.role, assistant.role) == ("user", "assistant")
        assert user.content == RagPrompt()(original).messages[0]["content"]
        offsets = {passage.id: user.content.index(passage.text) for passage in original.passages}
        orders.add(tuple(sorted(offsets, key=offsets.__getitem__)))
        assert assistant.content == "##Reason: so [d#2]\n##Answer: It is [d#7]."
    assert len(orders) > 10  # of 120
    assert build_training_set(dataset, teacher).examples == examples
    assert build_training_set(dataset, teacher, RagPrompt(seed=1)).examples != examples
    alone = build_training_set(dataset[7:8], run(teacher["7"])).examples
    assert alone == examples[7:8]


def test_queries_without_a_teacher_response_are_omitted() -> None:
    dataset = MirageDataset([query(), query(relevant=(), query_id="none"), query(query_id="late")])
    teacher = run(Response(query_id="q", text="##Reason: so\n##Answer: It is [1]."))
    examples, omitted = build_training_set(dataset, teacher)
    assert [example.query_id for example in examples] == ["q"]
    assert omitted == {"none": "no relevant passage", "late": "failed"}


def test_a_teacher_that_was_shown_irrelevant_passages_is_refused() -> None:
    teacher = run(Response(query_id="q", text="x [1]", shown=("d#2", "d#0")))
    with pytest.raises(DatasetError, match=r"'teacher' was shown passage 'd#0' for query 'q'"):
        build_training_set(MirageDataset([query()]), teacher)


def test_teachers_without_usable_responses_raise_errors() -> None:
    dataset = MirageDataset([query()], name="whys")
    with pytest.raises(GenerationError, match=r"'teacher' failed on all 1 queries .* timed out"):
        build_training_set(dataset, run(Response(query_id="q", text=None, error="timed out")))
    with pytest.raises(
        DatasetError, match=r"'teacher' to whys can be used as a training example \(malformed: 1\)"
    ):
        build_training_set(dataset, run(Response(query_id="q", text="It is so [1].")))
    with pytest.raises(UnknownNameError, match="'p'"):
        build_training_set(dataset, run(Response(query_id="p", text="x")))
    with pytest.raises(DatasetError, match=r"in 'sw', but .* 'en'"):
        build_training_set(dataset, run(Response(query_id="q", text="x"), language="sw"))


def without_noise(item: Query) -> str:
    """Return the reference without citations of irrelevant passages, which no teacher is shown."""
    noise = "|".join(re.escape(id_) for id_ in item.passage_ids if id_ not in item.relevant)
    return re.sub(rf" ?\[({noise})\]", "", item.reference or "")


@pytest.mark.parametrize("code", MOSTLY_SLOW_LANGUAGES)
def test_citations_in_the_style_of_each_language_become_ids(code: str) -> None:
    dataset = MirageDataset.bundled(code)
    teacher_queries = relevant_only(dataset)
    entry = LANGUAGES[code]
    opening, closing = entry.brackets[-1]
    responses, expected = [], []
    for item in teacher_queries:
        text = without_noise(dataset[item.id])
        expected.append(text)
        for position, id_ in enumerate(item.passage_ids, 1):
            digit = entry.digits[position] if entry.digits else str(position)
            text = text.replace(f"[{id_}]", f"{opening}{digit}{closing}")
        assert text != expected[-1]
        responses.append(Response(query_id=item.id, text=text))
    examples, omitted = build_training_set(dataset, run(*responses, language=code))
    assert set(omitted.values()) == {"no relevant passage"}
    assert [example.messages[-1].content for example in examples] == expected
    assert {example.language for example in examples} == {code}


ID = st.from_regex(r"[a-z]{1,2}#[0-9]{1,2}", fullmatch=True)
FORMS = (
    "[{}]",
    "【{}】",
    "[[{}]]",
    r"\[{}\]",
    "[Passage {}]",
    "([{}])",
    "[{}](https://x.y)",
    "[ {} ]",
)
PROSE = " and ", ". It is", "\n", "[sic]", "[1969]", "[]", " (1) ", "1. ", "[\n1]"


@settings(deadline=None)
@given(data=st.data())
def test_any_response_cites_the_same_passages_after_shuffling(data: st.DataObject) -> None:
    ids = data.draw(st.lists(ID, min_size=2, max_size=8, unique=True))
    shown_ids = data.draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))
    reference = st.sampled_from(
        [*shown_ids, *map(str, range(1, len(shown_ids) + 1)), f"1-{len(shown_ids)}"]
    )
    names = reference | st.lists(reference, min_size=1, max_size=3).map(", ".join)
    cited = st.builds(str.format, st.sampled_from(FORMS), names)
    body = "".join(data.draw(st.lists(st.sampled_from(PROSE) | cited)))
    text = f"##Reason: {body} [1]\n##Answer: x {body}"

    item = query(tuple(shown_ids), tuple(ids))
    prompt = RagPrompt(seed=data.draw(st.integers(0, 9)))
    teacher = run(Response(query_id="q", text=text, shown=tuple(shown_ids)))
    (example,) = build_training_set(MirageDataset([item]), teacher, prompt).examples
    after = parse(example.messages[-1].content, "en", prompt(item).shown)
    before = parse(text, "en", shown_ids)
    assert before.citations == after.citations
    assert before.sentences == after.sentences


def test_a_training_set_of_an_llm_teacher_round_trips_through_a_file(
    server: ChatServer, tmp_path: Path
) -> None:
    # The teacher cites the passage that its prompt shows first, by its position.
    server.answer = lambda _: "##Reason: It says so [1].\n##Answer: So it is [1]."
    dataset = MirageDataset.bundled("sw")
    generator = OpenAIGenerator("t", base_url=server.url, api_key="k", cache=tmp_path / "cache")
    teacher = generator.run(relevant_only(dataset), progress=False)
    noise = {p.text for q in dataset for p in q.passages if p.id not in q.relevant}
    prompts = "".join(map(last_user_text, server.requests))
    assert not any(text in prompts for text in noise)

    examples, _ = build_training_set(dataset, teacher)
    training_prompts = [example.messages[0].content for example in examples]
    assert all(any(text in prompt for text in noise) for prompt in training_prompts)
    for example in examples:
        first = (teacher[example.query_id].shown or ())[0]
        answer = f"##Reason: It says so [{first}].\n##Answer: So it is [{first}]."
        assert example.messages[-1].content == answer

    write_training_set(examples, tmp_path / "train.jsonl")
    assert read_training_set(tmp_path / "train.jsonl") == examples
    lines = (tmp_path / "train.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == len(examples) == 30
    for line in map(json.loads, lines):
        assert list(line) == ["query_id", "language", "messages", "question"]
        assert line["question"] == dataset[line["query_id"]].text
        assert [set(message) for message in line["messages"]] == [{"role", "content"}] * 2


def test_an_invalid_training_file_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    row = TrainingExample(query_id="q", language="en", messages=()).model_dump_json()
    path.write_text(row + "\n" + row.replace("[]", '[{"role": "tool", "content": ""}]'), "utf-8")
    with pytest.raises(DatasetError) as caught:
        read_training_set(path)
    assert str(caught.value).startswith(f"{path}, line 2, field 'messages.0.role': Input should be")

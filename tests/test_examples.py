"""The examples run, and README shows what they print."""

from __future__ import annotations

import json
import re
import runpy
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from cases import each_case
from injections import marked
from llm_server import ChatServer, last_user_text

from mirage import FeatureSuite, MirageDataset, respond
from mirage.errors import JudgmentError
from mirage.features.overlap import rouge_l
from mirage.surrogate.drafts import MANNERS
from mirage.surrogate.faults import FAULTS
from mirage.testsets.askable import corpus_of
from mirage.text import tokenize

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
Step = Callable[..., str]


@pytest.fixture
def step(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Step:
    """Runs a script in this process, offline unless it gets an endpoint, and gives its output."""

    def refuse(_: socket.socket, address: object) -> None:
        pytest.fail(f"an example that is to run offline connects to {address}")

    def run_here(script: str, *arguments: str, online: bool = False, **environment: str) -> str:
        if not online:
            monkeypatch.setattr(socket.socket, "connect", refuse)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        runpy.run_path(str(ROOT / "examples" / script), run_name="__main__")
        return capsys.readouterr().out

    return run_here


def test_quickstart_prints_what_readme_shows(step: Step) -> None:
    printed = step("quickstart.py")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.split("```text\nbundled-sw")[1].split("```")[0].splitlines()[1:]
    lines = set(printed.splitlines())
    assert [line for line in shown if line.strip() != "..." and line not in lines] == []


# The examples that need nothing --------------------------------------------------------


def cells(printed: str, first: str) -> list[str]:
    """The columns of the one line that starts with this word."""
    (line,) = [line for line in printed.splitlines() if line.split()[:1] == [first]]
    return line.removeprefix(first).split()


def test_the_table_of_examples_has_every_script_once() -> None:
    readme = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    scripts = sorted([*SCRIPTS, "board/build.py"])
    assert sorted(re.findall(r"\]\(([\w/]+\.py)\)", readme)) == scripts
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", readme, re.MULTILINE)]
    assert numbers == list(range(1, len(scripts) + 1))


@each_case("script", SCRIPTS)
def test_a_script_says_how_to_run_it(script: str) -> None:
    source = (ROOT / "examples" / script).read_text(encoding="utf-8")
    assert f"python examples/{script}" in source.split('"""')[1]


def test_a_file_is_ranked_and_its_failures_are_listed(step: Step) -> None:
    printed = step("rank_a_file.py")
    assert cells(printed, "*")[1] == "first-passage"
    _, failed, accuracy_and_findings, *_ = " ".join(printed.split()).split("first-passage: ")
    assert failed.strip() == (
        "2 of 40 queries failed: q05 (HTTP 503 from the index), q40 (no response to this query)"
    )
    assert accuracy_and_findings.startswith("right on ")
    found = accuracy_and_findings.split(" first-passage ")[1]
    # Failures are no faults: both are queries that a passage answers, of which there are 30.
    assert " of 28 queries" in found
    assert " of 30 queries" not in found


def test_a_file_of_ones_own_is_ranked(step: Step, tmp_path: Path) -> None:
    file = tmp_path / "perfect.jsonl"
    rows = [{"query_id": q.id, "text": q.reference} for q in MirageDataset.bundled("sw")]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    printed = step("rank_a_file.py", "sw", str(file))
    rank, model, *_ = cells(printed, "*")
    assert model == "perfect"
    # Truthful anchors in other manners are as good; every fault of an answer ranks below.
    assert int(rank) <= len(MANNERS) + 1
    below = printed[printed.index("*  ") :]
    for kind in set(FAULTS) - {"truncated"}:  # which keeps the half that mostly has the answer
        assert f"  anchor/{kind} " in below
    notes = " ".join(printed.split("anchor/garbled")[1].split())
    assert "perfect: right on 40 of 40 queries" in notes
    assert " failed" not in notes
    assert "More often than" not in notes  # it has no fault


def test_an_async_system_is_asked_again_what_it_failed_on(step: Step) -> None:
    first, second = step("async_with_failures.py").split("\n2 questions asked, 0 failed")
    assert first.startswith("40 questions asked, 2 failed")
    assert cells(first, "*")[1] == "my-rag"
    notes = " ".join(first.split("my-rag:")[1].split())
    reason = "TimeoutError: the index gave no passages in 2 s"
    assert notes.startswith(f"2 of 40 queries failed: q03 ({reason}), q11 ({reason})")
    assert re.search(r"my-rag: rank \d+, logit", second)


def test_two_versions_are_compared_question_by_question(step: Step) -> None:
    printed = step("compare_two_versions.py")
    assert cells(printed, "citation_recall@10")[2:] == ["0", "0"]  # the same passages
    # What is cited sentence by sentence is supported better, wherever anything changes.
    old, new, better, worse = cells(printed, "support_lexical")
    assert float(new) > float(old) + 0.1
    assert (int(better), int(worse)) == (30, 0)
    # Answers stand in the middle of passages, so two sentences lose four.
    old, new, better, worse = cells(printed, "answer_match")
    assert float(new) < float(old) - 0.05
    assert (int(better), int(worse)) == (0, 4)
    # Better support does not outweigh lost answers.
    assert float(printed.split("P(new is better than old) = ")[1].split()[0]) < 0.05
    asked, before, after = re.split(r"\n(?:old|new):\n", printed)
    (lost,) = re.findall(r"\((q\d\d), answer_match -1\.00\)", asked)
    query = MirageDataset.bundled("en")[lost]
    match = FeatureSuite(["answer_match"], "en")
    for text, value in ((before, 1), (after, 0)):
        table = match.score(MirageDataset([query]), respond({lost: text}, MirageDataset([query])))
        assert table.values.tolist() == [[value]]
    assert (before.count("[1"), after.count("[1")) == (1, 2)  # citations


@pytest.mark.slow
def test_the_languages_without_spaces_are_found(step: Step) -> None:
    printed = step("all_languages.py")
    means, by_language = printed.split("my-rag by language")
    assert means.startswith("Mean logit over 18 languages")
    rows = [line.split() for line in by_language.splitlines()[2:]]
    assert len(rows) == 18
    assert {code for code, *_ in rows[:3]} == {"ja", "th", "zh"}
    # No title shares a "word" with the question, so that the first passage is taken: of 30
    # questions it is relevant to five, and alone to one or two.
    assert {recall for _, _, recall, *_ in rows[:3]} == {"0.09"}
    assert float(rows[3][2]) > 0.15
    assert cells(by_language, "en")[-1] == "1.00"


def test_a_dataset_of_ones_own_says_what_is_missing(step: Step) -> None:
    printed = step("own_dataset.py")
    assert cells(printed, "citation_recall@10") == ["0.50", "1.00", "0.00", "nan"]
    assert cells(printed, "answer_rougeL")[2:] == ["nan", "nan"]
    assert "q2 has no answer_bleu: the query has no reference" in printed
    assert "q3 has no citation_map@10: the query has no relevant passage" in printed
    missing = {
        id_: set(re.findall(rf"^{id_} has no (\S+):", printed, re.M)) for id_ in ("q1", "q2", "q3")
    }
    of_gold = {"answer_match", "answer_bleu", "answer_rougeL", "abstention"}
    of_gold |= {"fact_agreement", "incorrect_attempt"}
    of_relevant = {"citation_recall@10", "citation_map@10", "fact_precision"}
    # Nobody listed wrong answers, and where a passage answers there is nothing to invent.
    assert missing["q1"] == {"wrong_answer", "invention"}
    assert missing["q2"] == missing["q1"] | of_gold
    assert missing["q3"] == missing["q2"] | of_relevant


def test_a_grid_is_planned_run_and_compared(
    step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the script writes into the current folder
    page = tmp_path / "grid.html"
    printed = step("grid.py", str(page))
    assert "words: 6 cells" in printed
    assert "differences of nDCG@10" in printed
    assert "q01" in page.read_text()
    generated = next(line for line in step("grid.py").splitlines() if "generate" in line)
    assert generated.split()[1:4] == ["6", "6", "0"]


def test_own_parts_are_cells_of_a_grid(
    step: Step, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the script writes into the current folder
    printed = step("own_parts.py")
    rows = [line.split() for line in printed.splitlines() if line.split()[1:2] == ["mine"]]
    recall = {row[0]: float(row[5].strip("*")) for row in rows if len(row) > 5}
    assert recall["bm25"] > recall["titles"] > 0.2
    generated = next(line for line in step("own_parts.py").splitlines() if "generate" in line)
    assert generated.split()[1:4] == ["4", "4", "0"]


@pytest.mark.slow
def test_a_pipeline_is_measured_ranked_and_reported(step: Step, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    printed = step("pipeline.py", str(page))
    assert re.search(r"R@10 +0\.[789]\d\d  \[0\.\d+, 0\.\d+\]", printed)
    assert "10 without a relevant passage" in printed
    assert re.search(r"my-rag is number \d+ of 30", printed)
    assert '"scores"' in page.read_text(encoding="utf-8")


def test_short_answers_are_measured_in_four_ways(step: Step) -> None:
    rows = step("short_answers.py").splitlines()[1:]
    values = {row[:16].strip(): [float(word) for word in row[16:].split()] for row in rows}
    assert values["oracle answer"] == [1, 1, 1, 1]
    match, exact, f1, characters = values["a sentence"]
    assert (match, exact, characters) == (1, 0, 1)
    assert f1 < 1
    match, *_, characters = values["other spelling"]
    assert match < 0.5 < characters < 1


def test_systems_with_passages_of_their_own_are_measured_on_them(step: Step) -> None:
    printed = step("own_passages.py")
    rows = {line.split()[0]: [*map(float, line.split()[1:])] for line in printed.splitlines()[1:]}
    assert rows["langchain_system"] == rows["llamaindex_system"]
    recall, _, support = rows["langchain_system"]
    assert support > 0.7
    assert recall > rows["text_only"][0] + 0.1


def test_features_of_ones_own_tell_systems_apart(step: Step) -> None:
    printed = step("own_feature.py")
    assert printed.split()[:3] == ["citation_recall@10", "names_the_answer", "numbers_shown"]
    found = {
        line[:14].strip(): [
            (float(mean), int(n)) for mean, n in re.findall(r"(\d\.\d+) on +(\d+)", line)
        ]
        for line in printed.splitlines()[1:]
    }
    assert found["reference"][1] == (1.0, 30)  # ten questions have no answer
    # Of 20 references with numbers three give a sum, and one the year that was asked for.
    assert found["reference"][2] == (0.9, 20)
    assert found["first passage"][1][0] < 0.5
    assert found["made up"][2][0] < 0.1


def test_judgments_become_a_ranking(step: Step) -> None:
    printed = step("rank_from_judgments.py")
    assert printed.startswith("60 judgments on 12 queries")
    names = ["large", "small + reranker", "small", "keyword search"]
    lines = printed.splitlines()[2:6]
    for rank, (line, name) in enumerate(zip(lines, names, strict=True), 1):
        assert f"  {name}  " in line
        logit, low, high = map(float, re.findall(r"-?\d+\.\d+", line))
        assert line.split()[0] == str(rank)
        assert low < logit < high


def test_judgments_in_a_file_of_ones_own(step: Step, tmp_path: Path) -> None:
    file = tmp_path / "verdicts.csv"
    rows = ["query_id,model_a,model_b,verdict", "1,x,y,b", '2,"y",x,a', "3,x,y,tie", "4,x,y,a"]
    file.write_text("\r\n".join(rows), encoding="utf-8-sig")  # as a spreadsheet program does
    printed = step("rank_from_judgments.py", str(file))
    assert printed.startswith("4 judgments on 4 queries")
    assert printed.index("  y  ") < printed.index("  x  ")
    file.write_text("\n".join([*rows, "5,x,y,draw"]), encoding="utf-8")
    with pytest.raises(JudgmentError, match="row 4: verdict 'draw' is not 'a', 'b'"):
        step("rank_from_judgments.py", str(file))
    file.write_text("\n".join(rows).replace("model_b", "other"), encoding="utf-8")
    with pytest.raises(JudgmentError, match="row 0: model_b is missing"):
        step("rank_from_judgments.py", str(file))


@pytest.mark.slow
def test_a_surrogate_of_ones_own_ranks_what_nobody_judged(step: Step) -> None:
    printed = step("train_a_surrogate.py")
    assert "20 systems, 7600 verdicts" in printed
    assert float(printed.split("tau ")[1].split(",")[0]) > 0.3
    assert float(printed.split("judged logit: ")[1].split("%")[0]) >= 80
    _, *model = cells(printed, "*")[:3]
    assert model == ["(?)", "my-rag"]
    assert printed.index("  reference ") < printed.index("(?) my-rag")
    assert "my-rag is unlike every system that this board learned from" in printed
    assert sum(line[:7].strip(" *").isdigit() for line in printed.splitlines()) == 21


@pytest.mark.slow
def test_a_board_of_three_small_systems(step: Step, tmp_path: Path) -> None:
    printed = step("board/build.py", str(tmp_path))
    views = [line for line in printed.splitlines() if not line.startswith(" ")]
    assert views == ["all", "sw", "en"]
    assert printed.count("2026-11-17-anna-nearest-sentence") == 3
    names = {path.relative_to(tmp_path / "site").as_posix() for path in tmp_path.rglob("site/**/*")}
    assert {"index.html", "board.json", "data/all.json", "data/sw.json"} <= names
    assert {"board/.gitlab-ci.yml", "board/.github/workflows/board.yml"} <= {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("board/**/*.yml")
    }


def test_a_benchmark_of_ones_own_files(step: Step, tmp_path: Path) -> None:
    texts = {
        "topics.tsv": "1\tWho?\n2\tWhere?\n3\tWhen?\n",
        "qrels.tsv": "1 Q0 d1 1\n1 Q0 d2 0\n2 Q0 d1 1\n3 Q0 d2 0\n",
        "passages.jsonl": '{"id": "d1", "text": "She."}\n{"id": "d2", "text": "There."}\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    printed = step("build_benchmark.py", "sw", *(str(tmp_path / name) for name in texts))
    topics, *dropped, kept, paper = cells(printed, "sw")
    assert (topics, kept, paper) == ("3", "1", "-")
    assert sum(map(int, dropped)) == 2


# What needs data or endpoints ---------------------------------------------------------------------


@pytest.mark.slow
def test_the_nomiracl_arena_goes_all_the_way(step: Step, data_dir: Path) -> None:
    printed = step("nomiracl_arena.py", "id", MIRAGE_DATA=str(data_dir))
    judged, ranking = printed.split("nomiracl-id: Indonesian, 120 queries\n")
    assert len(judged.splitlines()) == 10
    table = ranking.splitlines()[1:11]
    held_out = [line for line in table if line.startswith("*")]
    assert len(held_out) == 2
    for model in ("Mixtral-8x7B-Instruct-v0.1", "llama-2-7b-chat"):
        assert sum(f" {model} " in line for line in held_out) == 1
        assert f"\n{model} answers although no passage does on " in ranking


@pytest.mark.slow
def test_the_arena_puts_the_better_endpoint_first(step: Step) -> None:
    corpus = MirageDataset.bundled("en")

    def answer(request: Mapping[str, Any]) -> str:
        query = next(query for query in corpus if query.text in last_user_text(request))
        if request["model"] == "strong":
            return query.reference or ""
        if request["model"] == "weak":
            return f"##Answer: {query.passages[-1].text}"
        shown = dict(marked(last_user_text(request))[0])
        a, b = (similarity(shown[f"response-{of}"], query.reference or "") for of in "ab")
        return f"A has {a:.2f}, and B {b:.2f}.\n[[{'A' if a > b else 'B' if b > a else 'C'}]]"

    def similarity(response: str, reference: str) -> float:
        return rouge_l(tokenize(reference, "en"), tokenize(response, "en"))

    with ChatServer(answer) as server:
        weak = f"weak@{server.url}"
        printed = step(
            "arena.py",
            "en",
            online=True,
            ARENA_MODELS=f"{weak},strong",
            ARENA_JUDGE="judge",
            OPENAI_BASE_URL=server.url,
            OPENAI_API_KEY="sk-canary",
        )
        assert {request["model"] for request in server.requests} == {"strong", "weak", "judge"}
    judged, unjudged = printed.split("By features alone")
    for ranking in (judged, unjudged):
        assert ranking.index(" strong ") < ranking.index(f" {weak} ")
        assert "simulated/uncited" in ranking
    assert "canary" not in printed


def test_the_arena_says_what_it_needs(step: Step) -> None:
    with pytest.raises(SystemExit, match="ARENA_MODELS names two or more models"):
        step("arena.py", ARENA_MODELS="", ARENA_JUDGE="")


def test_the_stand_in_writes_documents_and_answers_until_it_is_stopped(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "from_documents.py"), "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as stand_in:
        assert stand_in.stdout is not None
        lines = [stand_in.stdout.readline() for _ in range(3)]
        url = lines[1].split("=")[1].split()[0]
        document = (tmp_path / "handbook" / "mill-hall.md").read_text(encoding="utf-8")
        asked = f"{document}\n\nIn which year did the Mill Hall open?"
        chat = {"model": "any", "messages": [{"role": "user", "content": asked}]}
        told = httpx.post(f"{url}/chat/completions", json=chat).json()
        stand_in.send_signal(signal.SIGINT)
    assert stand_in.returncode == 0
    year = re.findall(r"opened in (\d+)", document)[0]
    said = told["choices"][0]["message"]["content"]
    assert said == f"The Mill Hall opened in {year} [mill-hall.md]."


def test_the_documents_are_longer_than_one_passage(tmp_path: Path) -> None:
    stand_in = runpy.run_path(str(ROOT / "examples" / "from_documents.py"))
    stand_in["write_handbook"](tmp_path / "handbook")
    passages = Counter(passage.document_id for passage in corpus_of(tmp_path / "handbook", "en"))
    assert len(passages) == 80
    assert min(passages.values()) >= 3


@pytest.mark.slow
def test_which_judge_needs_no_key(step: Step, data_dir: Path) -> None:
    printed = step("which_judge.py", "de", MIRAGE_DATA=str(data_dir))
    table = printed.split("By language")[0].splitlines()
    assert "458 sentences" in table[0]
    judges = ("support_lexical", "words_found", "names_and_numbers")
    for name, line in zip(judges, table[2:], strict=False):
        assert line.startswith(name)
        assert line.endswith("*") == (name != "support_lexical")
    assert "10 sentences were left out: Challenging to determine" in table


def test_which_judge_measures_an_endpoint_in_four_ways(step: Step, tmp_path: Path) -> None:
    folder = tmp_path / "memerag" / "memerag"
    folder.mkdir(parents=True)
    rows = [
        {
            "query_id": n,
            "query": f"What is number {n}?",
            "context": [{"text": f"Number {n} is blue."}],
            "answer": [
                {
                    "sentence": f"Number {n} is {'red' if n % 2 else 'blue'}.",
                    "factuality": "Not Supported" if n % 2 else "Supported",
                    "fine_grained_factuality": "Contradiction" if n % 2 else "Direct paraphrase",
                    "relevance": "Directly answers the question",
                }
            ],
        }
        for n in range(40)
    ]
    (folder / "en.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def answer(request: Mapping[str, Any]) -> str:
        texts, rules = marked(last_user_text(request))
        wrong = "Guidelines:" in rules and "red" in dict(texts)["sentence"]
        return f"<answer>{'Not Supported' if wrong else 'Supported'}</answer>"

    with ChatServer(answer) as server:
        printed = step(
            "which_judge.py",
            *("--endpoint", server.url, "--model", "small"),
            online=True,
            MIRAGE_DATA=str(tmp_path),
            JUDGE_API_KEY="sk-canary",
        )
        assert len(server.requests) == 4 * 40
        assert server.headers[0]["authorization"] == "Bearer sk-canary"
    assert printed.count("40 calls (and 0 answers from the cache)") == 4
    lines = [line.split() for line in printed.splitlines()]
    assert ["small", "guidelines+cot", "100.0"] in lines
    assert ["small", "zero-shot", "50.0**"] in lines
    assert "canary" not in printed


def test_which_judge_says_where_the_data_is(
    step: Step, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        step("which_judge.py", MIRAGE_DATA=str(tmp_path))
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert "get https://github.com/amazon-science/MEMERAG" in err


@pytest.mark.parametrize(
    "name", ["papers/nomiracl", "truth/simulated_arena", "speed/features", "speed/bradley_terry"]
)
def test_validation_scripts_can_be_imported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = ROOT / "validation" / f"{name}.py"
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path])
    assert '__name__ == "__main__"' in script.read_text(encoding="utf-8")
    runpy.run_path(str(script))

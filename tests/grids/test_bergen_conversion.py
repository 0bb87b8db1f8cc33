"""BERGEN's configuration as a grid; the files are our own, in the form that BERGEN's have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from cases import each_case
from typer.testing import CliRunner

from mirage.cli import app
from mirage.errors import DatasetError
from mirage.generation import TemplatePrompt
from mirage.grids import Grid
from mirage.grids.bergen import Conversion, FileResult, NotConvertedError, convert, template
from mirage.grids.config import read_config


def model(target: str, **arguments: object) -> str:
    return yaml.safe_dump({"init_args": {"_target_": f"models.{target}", **arguments}})


def data(query: str, doc: str | None, **arguments: object) -> str:
    document: dict[str, object] = {"train": {"doc": None, "query": None}}
    document["dev"] = {
        "query": {"init_args": {"_target_": f"modules.processors.any.{query}", **arguments}},
        "doc": None
        if doc is None
        else {"init_args": {"_target_": f"modules.dataset_processor.{doc}", **arguments}},
    }
    return yaml.safe_dump(document)


MERGED = """\
dev:
  doc:
    init_args:
      _target_: modules.dataset_processor.MergedDocDataset
      in_dataset_names: [kilt-100w, wiki-100w-fr, wiki-100w-da]
      in_dataset_splits: [full, train, train]
      out_dataset_name: wiki-100w-en-fr
      split: train
  query:
    init_args: {_target_: modules.dataset_processor.MKQA, split: train, lang: fr}
"""

FILES = {
    "retriever/words.yaml": model("retrievers.bm25.BM25", model_name="bm25"),
    "retriever/e5.yaml": model(
        "retrievers.dense.Dense",
        model_name="some/e5",
        max_len=256,
        pooler={"_target_": "models.retrievers.dense.MeanPooler"},
        similarity={"_target_": "models.retrievers.dense.CosineSim"},
        prompt_q="query: ",
        prompt_d="passage: ",
    ),
    "retriever/cls.yaml": model(
        "retrievers.dense.Dense",
        model_name="some/cls",
        pooler={"_target_": "models.retrievers.dense.ClsPooler"},
        similarity={"_target_": "models.retrievers.dense.DotProduct"},
    ),
    "retriever/two.yaml": model(
        "retrievers.dense.Dense", model_name="some/doc", query_encoder_name="some/query"
    ),
    "retriever/odd.yaml": model(
        "retrievers.dense.Dense", model_name="some/odd", pooler={"_target_": "x.MaxPooler"}
    ),
    "retriever/llm.yaml": model(
        "retrievers.dense_llm.DenseLLM",
        model_name="some/decoder",
        adapters=True,
        max_len=256,
        prompt_q="query:  ",
        similarity={"_target_": "models.retrievers.dense.CosineSim"},
    ),
    "retriever/terms.yaml": model(
        "retrievers.splade.Splade",
        model_name="some/doc",
        query_encoder_name="some/query",
        max_len=128,
    ),
    "retriever/adapter.yaml": model("retrievers.repllama.RepLlama", model_name="some/lora"),
    "retriever/oracle_provenance.yaml": model("retrievers.oracle_provenance.OracleProvenance"),
    "reranker/pairs.yaml": model(
        "rerankers.crossencoder.CrossEncoder", model_name="some/pairs", max_len=512
    ),
    "context_processor/dslr/half.yaml": model(
        "context_processors.dslr_ce.DSLR_CE",
        model_name="some/pairs",
        threshold=0.5,
        always_select_title=True,
    ),
    "context_processor/prune/prune.yaml": model(
        "context_processors.provence.ProvenceCompressor", model_name="some/provence", name="prune",
        threshold=0.1, batch_size=8, always_select_title=True, reorder=True, top_k=5,
    ),
    "context_processor/extract/top2.yaml": model(
        "context_processors.recomp.RecompExtractiveCompressor", batch_size=64, top_k=2,
        alway_select_title=True,
    ),
    "context_processor/extract/t30.yaml": model(
        "context_processors.recomp.RecompExtractiveCompressor", threshold=30
    ),
    "context_processor/lingua.yaml": model(
        "context_processors.llmlingua2.LLMLingua2", model_name="x", rate=0.5
    ),
    "query_generator/copy.yaml": model("query_generators.copy.CopyQuery"),
    "query_generator/translate/fr.yaml": model(
        "query_generators.translate_query.TranslateQuery",
        model_name="some/nllb",
        src_lang="fra_Latn",
        tgt_lang="eng_Latn",
    ),
    "generator/plain.yaml": model(
        "generators.llm.LLM", model_name="some/llm", max_new_tokens=128, max_length=2048,
        quantization=None, batch_size=4,
    ),
    "generator/four.yaml": model(
        "generators.llm.LLM", model_name="some/llm", max_new_tokens=64, quantization="int4"
    ),
    "generator/eight.yaml": model(
        "generators.llm.LLM", model_name="some/llm", quantization="int8"
    ),
    "generator/served.yaml": model(
        "generators.vllm.VLLM", model_name="some/llm", max_new_tokens=32, max_length=4096,
        batch_size=256,
    ),
    "generator/served_awq.yaml": model(
        "generators.vllm.LLM", model_name="some/llm", max_length=4096, quantization="awq",
        gpu_memory_utilization=0.7,
    ),
    "generator/gpt.yaml": model("generators.llm_openai.OpenAI", model_name="gpt-4o-mini"),
    "generator/again.yaml": 'size: 77\n' + model(
        "generators.vllm.VLLM", model_name="some/${dataset_folder}", max_new_tokens="${size}"
    ),
    "generator/oracle_answer.yaml": model("generators.oracle_answer.OracleAnswer"),
    "generator/compressed.yaml": model("generators.llm_cocom.LLMCocom", model_name="x"),
    "generator/unset.yaml": model("generators.llm.LLM", model_name=None),
    "generator/other_llm.yaml": model("generators.llm_xrag.LLM", model_name="x"),
    "generator/lost.yaml": model("generators.llm.LLM", model_name="${nowhere.name}"),
    "prompt/basic.yaml": (
        'system: "Be brief."\nuser: f"Texts:\\n{docs}\\n\\nQuestion:\\ {question}"\n'
        'system_without_docs: "Be brief."\nuser_without_docs: f"Question:\\ {question}"\n'
    ),
    "prompt/plain.yaml": 'user: "Texts:\\n{docs}\\nQuestion: {question}"\n',
    "prompt/de/own.yaml": 'user: eval(f"{docs} Frage:\\ {question}")\n',
    "prompt/upper.yaml": 'user: f"{docs} {question.upper()}"\n',
    "prompt/none.yaml": 'system: ""\nuser: ""\n',
    "dataset/kilt_nq.yaml": data("KILTNQ", "KILT100w", split="validation")
    .replace("validation:", "dev:"),
    "dataset/popqa.yaml": data("POPQA", "KILT100w", split="test", idx_max=50),
    "dataset/wiki_qa.yaml": data("WIKIQA", "KILT100w"),
    "dataset/mkqa/mkqa_fr.retrieve_fr.yaml": data("MKQA", "Wiki_monolingual_100w", lang="fr"),
    "dataset/mkqa/mkqa_fr.retrieve_en_fr.yaml": MERGED,
    "dataset/mkqa/mkqa_it.retrieve_it.yaml": data("MKQA", "Wiki_monolingual_100w", lang="it"),
    "dataset/mkqa/mkqa_pt.retrieve_en.yaml": data("MKQA", "KILT100w", lang="pt"),
    "dataset/mkqa/mkqa_da.retrieve_da.yaml": data("MKQA", "Wiki_monolingual_100w", lang="da"),
    "dataset/mkqa/mkqa_zhhk.yaml": data("MKQA", None, lang="zh_hk"),
    "dataset/mmlu.yaml": data("MMLU", "ODQAWikiCorpora100WTamber", split="test"),
    "dataset/kilt_triviaqa.yaml": data("KILTTriviaqa", "KILT100w", split="validation"),
    "dataset/squad.yaml": data("SquadQuestions", "SquadDocuments"),
    "dataset/code_rag.yaml": data(
        "CodeRAGBench_MBPP", "CodeRAGBench_library_documentation", split="train"
    ),
    "dataset/syllabus.yaml": data("SyllabusQA", "SyllabusQA_syllabi", split="test"),
    "dataset/bioasq11b.yaml": data("BIOASQ11B", None, data_path="/some/where/bioasq.csv"),
    "dataset/movies.yaml": data("ParaphraseRC", None, split="validation"),
    "dataset/frames.yaml": data("Frames", "Wikipedia2023_full", split="test"),
    "dataset/xor/xor_ru.yaml": data("XORQA", "Wiki_monolingual_100w", lang="ru"),
    "dataset/tydi.yaml": data("TydiQA", None, langcode="sw", language="swahili"),
    "dataset/beir/scifact.yaml": data(
        "IRDSQueryProcessor", "IRDSDocProcessor", irds_name="beir/scifact/test"
    ),
    "dataset/science.yaml": data("RobustQA_Science", "LoTTE"),
    "dataset/code.yaml": data("SomeQueries", None),
    "dataset/broken.yaml": "dev: [",
    "train/lora.yaml": "trainer: {}\n",
    "rag.yaml": (
        "defaults: [_self_, {retriever: words}, {generator: null}, {prompt: plain}, "
        "{context_processor: prune}]\n"
        "retrieve_top_k: 40\nrerank_top_k: 30\ngeneration_top_k: 5\ndataset_folder: folder\n"
        "eval_split: dev\n"
    ),
}  # fmt: skip

REASONS = {
    "retriever/odd.yaml": "the pooler must be one of MeanPooler, ClsPooler, got MaxPooler",
    "context_processor/extract/t30.yaml": "threshold is a limit on dot products",
    "context_processor/lingua.yaml": "llmlingua2.LLMLingua2 is a class of BERGEN",
    "generator/compressed.yaml": "llm_cocom.LLMCocom is a class of BERGEN",
    "generator/unset.yaml": "does not set model_name",
    "generator/other_llm.yaml": "llm_xrag.LLM is a class of BERGEN",
    "generator/lost.yaml": "${nowhere.name} has no value",
    "prompt/upper.yaml": "uses the expression 'question.upper()'",
    "prompt/none.yaml": "the prompt is empty",
    "dataset/mkqa/mkqa_da.retrieve_da.yaml": "unknown language 'da'",
    "dataset/code.yaml": "write its questions to a JSON Lines file",
    "dataset/broken.yaml": "not valid YAML",
    "train/lora.yaml": "mirage finetune",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "bergen" / "config" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "bergen"


@pytest.fixture
def conversion(folder: Path) -> Conversion:
    return convert(folder)


def by_path(conversion: Conversion) -> Mapping[str, FileResult]:
    return {file.path: file for file in conversion.files}


def test_every_file_is_converted_or_has_a_reason(conversion: Conversion) -> None:
    results = by_path(conversion)
    assert results.keys() == FILES.keys() - {"rag.yaml"}
    assert {path for path, file in results.items() if file.reason} == REASONS.keys()
    for path, reason in REASONS.items():
        assert reason in results[path].reason
    printed = str(conversion)
    assert printed.startswith(f"{len(FILES) - 1 - len(REASONS)} of {len(FILES) - 1} files")
    for path in REASONS:
        assert path in printed


def test_models_become_entries(conversion: Conversion) -> None:
    grid = conversion.grid
    assert grid["retrievers"] == {
        "words": {"kind": "bm25"},
        "e5": {
            "kind": "dense",
            "model": "some/e5",
            "max_length": 256,
            "similarity": "cosine",
            "pooling": "mean",
            "query_prefix": "query: ",
            "passage_prefix": "passage: ",
        },
        "cls": {"kind": "dense", "model": "some/cls", "similarity": "dot", "pooling": "cls"},
        "two": {
            "kind": "dense", "model": "some/doc", "query_model": "some/query", "similarity": "dot"
        },
        "llm": {
            "kind": "dense",
            "model": "some/decoder",
            "max_length": 256,
            "similarity": "cosine",
            "query_prefix": "query:  ",
            "pooling": "last",
        },
        "terms": {
            "kind": "sparse", "model": "some/doc", "query_model": "some/query", "max_length": 128
        },
        "adapter": {
            "kind": "dense",
            "model": "some/lora",
            "similarity": "dot",
            "query_prefix": "query: ",
            "passage_prefix": "passage: ",
            "pooling": "last",
        },
    }  # fmt: skip
    assert grid["rerankers"] == {"pairs": {"kind": "cross-encoder", "model": "some/pairs"}}
    # A probability of 0.5 is a logit of 0.
    assert grid["processors"] == {
        "dslr-half": {"kind": "sentence-pruner", "model": "some/pairs", "threshold": 0.0},
        "extract-top2": {
            "kind": "extractive-compressor",
            "model": "fangyuan/nq_extractive_compressor",
            "pooling": "mean",
            "sentences": 2,
        },
        "prune": {
            "kind": "sentence-pruner", "model": "some/provence", "tokens": True, "threshold": 0.1
        },
    }  # fmt: skip
    assert grid["grid"]["processor"] == ["prune"]
    assert grid["rewriters"]["translate-fr"]["language"] == "en"
    local = {"kind": "transformers", "model": "some/llm"}
    assert grid["generators"] == {
        "plain": {
            "kind": "transformers", "model": "some/llm", "max_new_tokens": 128, "batch_size": 4
        },
        "four": local | {"load_in": "4bit", "max_new_tokens": 64},
        "eight": local | {"load_in": "8bit"},
        "served": {
            "kind": "vllm", "model": "some/llm", "max_new_tokens": 32, "batch_size": 256,
            "max_model_len": 4096,
        },
        "served_awq": {
            "kind": "vllm", "model": "some/llm", "quantization": "awq",
            "gpu_memory_utilization": 0.7,
        },
        "gpt": {"kind": "openai", "model": "gpt-4o-mini", "api_key": "${ENV:OPENAI_API_KEY}"},
        "again": {"kind": "vllm", "model": "some/folder", "max_new_tokens": 77},
        "oracle_answer": {"kind": "oracle-answer"},
    }  # fmt: skip
    results = by_path(conversion)
    assert "idx_max: 50 is left out" in results["dataset/popqa.yaml"].changes
    assert results["retriever/e5.yaml"].changes == ()
    assert any("peft" in change for change in results["retriever/adapter.yaml"].changes)
    for name in ("four", "eight"):
        changes = results[f"generator/{name}.yaml"].changes
        assert any("bitsandbytes" in change for change in changes)
    assert any("package vllm" in change for change in results["generator/served.yaml"].changes)


def test_prompts_become_templates(conversion: Conversion) -> None:
    prompts = conversion.grid["prompts"]
    assert list(prompts) == ["basic", "de-own", "plain"]
    assert prompts["basic"] == {
        "kind": "template",
        "user": "Texts:\n{passages}\n\nQuestion: {question}",
        "system": "Be brief.",
        "closed_book_user": "Question: {question}",
        "closed_book_system": "Be brief.",
        "passage": "Document {number}: {title} {text}",
    }
    assert prompts["de-own"]["user"] == "{passages} Frage: {question}"


def test_data_become_datasets_and_corpora(conversion: Conversion) -> None:
    datasets, corpora = conversion.grid["datasets"], conversion.grid["corpora"]
    assert datasets["kilt_nq"]["path"] == "data/nq-dev-kilt.jsonl"
    assert datasets["popqa"] == {
        "form": "answers", "hub": "akariasai/PopQA", "config": "default", "split": "test",
        "language": "en", "fields": {"answers": "possible_answers"},
    }  # fmt: skip
    assert datasets["wiki_qa"]["where"] == {"label": 1}
    assert datasets["tydi"]["where"] == {"id": "swahili-*"}
    assert datasets["mkqa_fr.retrieve_fr"] == datasets["mkqa_fr.retrieve_en_fr"]
    assert datasets["beir-scifact"] == {
        "form": "beir", "path": "data/scifact", "language": "en"
    }  # fmt: skip
    assert corpora["wiki-100w-en-fr"] == {"of": ["kilt-100w", "wiki-100w-fr", "wiki-100w-da"]}
    assert "language" not in corpora["wiki-100w-da"]
    assert corpora["wiki-100w-it"]["language"] == "it"
    assert corpora["odqa-wiki-corpora-wiki-text-100w-tamber"] == {
        "hub": "castorini/odqa-wiki-corpora",
        "config": "wiki-text-100w-tamber",
        "split": "train",
        "language": "en",
    }
    assert corpora["library-documentation"]["fields"] == {"text": "doc_content", "title": "doc_id"}
    assert corpora["wikipedia-2023-full"] == {
        "path": "data/wikipedia/20231101.en/*.parquet",
        "language": "en",
        "fields": {"id": "url"},
    }
    assert datasets["mmlu"] == {
        "form": "answers", "hub": "cais/mmlu", "config": "all", "split": "test",
        "language": "en", "fields": {"choices": "choices"},
    }  # fmt: skip
    assert datasets["syllabus"]["path"] == "data/syllabusqa-test.csv"
    assert datasets["syllabus"]["fields"] == {"question": "{syllabus_name}: {question}"}
    assert datasets["bioasq11b"]["path"] == "data/bioasq.tsv"
    assert datasets["movies"]["fields"]["question"] == "{title}: {question}"
    assert datasets["kilt_triviaqa"]["split"] == "validation"
    assert datasets["kilt_triviaqa"]["qrels"] == "data/triviaqa-dev_id-kilt.jsonl"
    italian, chinese = datasets["mkqa_it.retrieve_it"], datasets["mkqa_zhhk"]
    assert (italian["form"], italian["language"], italian["judged"]) == ("mkqa", "it", True)
    assert (chinese["language"], chinese["fields"]) == (
        "zh",
        {
            "id": "example_id",
            "question": "queries.zh_hk",
            "answers": "answers.zh_hk.text",
        },
    )
    assert conversion.corpora == {
        "kilt_nq": "kilt-100w",
        "popqa": "kilt-100w",
        "wiki_qa": "kilt-100w",
        "mkqa_fr.retrieve_fr": "wiki-100w-fr",
        "mkqa_it.retrieve_it": "wiki-100w-it",
        "mkqa_pt.retrieve_en": "kilt-100w",
        "mmlu": "odqa-wiki-corpora-wiki-text-100w-tamber",
        "kilt_triviaqa": "kilt-100w",
        "squad": "squad",
        "code_rag": "library-documentation",
        "syllabus": "SyllabusQA_syllabi",
        "frames": "wikipedia-2023-full",
        "mkqa_fr.retrieve_en_fr": "wiki-100w-en-fr",
        "xor_ru": "wiki-100w-ru",
        "beir-scifact": "beir-scifact",
        "science": "LoTTE",
    }


def test_the_grid_can_be_read_and_planned(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "grid.yaml"
    result = CliRunner().invoke(app, ["grid", "from-bergen", str(folder), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "files converted" in result.output
    assert "#   popqa: kilt-100w" in out.read_text()
    config = read_config(out)
    assert config.name == "grid"
    assert (config.grid.retriever, config.grid.prompt) == (("words",), ("plain",))
    assert (config.grid.retrieve_k, config.grid.rerank_k, config.grid.show_k) == (
        (40,),
        (30,),
        (5,),
    )
    assert len(Grid.read(out).cells) == 1
    printed = CliRunner().invoke(app, ["grid", "from-bergen", str(folder / "config"), "--json"])
    files = json.loads(printed.stdout)["files"]
    assert {file["path"] for file in files if file["reason"]} == REASONS.keys()


@each_case(
    ("source", "expected"),
    [
        ('f"{docs}\\n\\n{question}"', "{passages}\n\n{question}"),
        ("f'Q:\\ {question}'", "Q: {question}"),
        ('f"""Say {{yes}}: {question}"""', "Say {{yes}}: {question}"),
        ('"A " + f"{question}" + "{x}"', "A {question}{{x}}"),
        ("Plain {question} and {docs}", "Plain {question} and {passages}"),
        ("Plain {{json}} {question}", "Plain {{json}} {question}"),
        ('"quoted" {question}', '"quoted" {question}'),
    ],
)
def test_python_strings_are_parsed(source: str, expected: str) -> None:
    assert template(source) == expected
    TemplatePrompt(expected)


@pytest.mark.parametrize(
    "source",
    [
        'f"{question!r}"',
        'f"{question:>10}"',
        "f\"{__import__('os').system('touch here')}\"",
        "eval(question)() + f'{question}'",
        'f"{question[0]}"',
        'f"{other}"',
        'f"{question',
        "{question.__class__}",
        "{other} {question}",
        "{question",
    ],
)
def test_other_expressions_are_refused_and_never_run(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotConvertedError):
        template(source)
    assert not list(tmp_path.iterdir())


def test_interpolations_end(folder: Path) -> None:
    (folder / "config" / "generator" / "plain.yaml").write_text(
        "a: ${b}\nb: ${a}\n" + FILES["generator/plain.yaml"]
    )
    result = by_path(convert(folder))["generator/plain.yaml"]
    assert "form a cycle" in result.reason


def test_another_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="not a configuration folder of BERGEN"):
        convert(tmp_path)
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "a.yaml").write_text("dev: {query: null}\n")
    with pytest.raises(DatasetError, match=r"dataset/a\.yaml: none of the splits has queries"):
        convert(tmp_path)

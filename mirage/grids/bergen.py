"""Conversion of BERGEN configuration files to a grid file.

BERGEN (Rau et al. 2024, arXiv 2407.01102) is a library for benchmarking RAG. It is configured by a
folder of Hydra files: one YAML file per retriever, reranker, context processor, query generator,
generator, prompt and dataset. Most files name a Python class (``_target_``) and its arguments. The
files are only parsed; Python code that they contain or name is never imported or run.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from mirage._base.inputs import read_text
from mirage._base.tables import Printed, Table
from mirage.errors import DatasetError
from mirage.grids import _entries as entries
from mirage.grids.config import AxesEntry, GridConfig
from mirage.languages import ALL_LANGUAGES

VLLM = "http://localhost:8000/v1"
TRANSLATOR = "gpt-4o-mini"

SECTIONS: Mapping[str, tuple[str, Any]] = {
    "dataset": ("datasets", entries.DatasetEntry),
    "retriever": ("retrievers", entries.RetrieverEntry),
    "reranker": ("rerankers", entries.RerankerEntry),
    "context_processor": ("processors", entries.ProcessorEntry),
    "query_generator": ("rewriters", entries.RewriterEntry),
    "generator": ("generators", entries.GeneratorEntry),
    "prompt": ("prompts", entries.PromptEntry),
}
"""For each folder of BERGEN's configuration, the section of a grid file and its type of entry."""

OTHER_FOLDERS = {
    "train": "training is the command mirage finetune, which has BERGEN's settings as defaults",
}

METRICS = ("qa_match", "qa_exact", "qa_f1", "qa_char3_recall")

Entry = dict[str, Any]


class NotConvertedError(DatasetError):
    """An error for a file that cannot be converted to a grid entry; its message is the reason."""


class FileResult(NamedTuple):
    """The result of converting one configuration file.

    Attributes:
        path: The path of the file relative to BERGEN's folder ``config``.
        kind: The folder that contains the file, such as ``retriever``.
        name: The name of the entry in the grid file; empty if the file was not converted.
        reason: The reason why the file could not be converted; empty if it was converted.
        changes: Notes on differences from BERGEN, and on steps that the user still has to take.
    """

    path: str
    kind: str
    name: str = ""
    reason: str = ""
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Conversion(Printed):
    """A grid that was converted from BERGEN's configuration; prints as a report.

    Attributes:
        grid: The content of the grid file.
        files: The result of each configuration file, sorted by folder and then by path.
        corpora: A mapping from the name of each dataset to the name of the corpus that BERGEN uses
            for it.
    """

    grid: Mapping[str, Any]
    files: tuple[FileResult, ...]
    corpora: Mapping[str, str]

    @property
    def converted(self) -> tuple[FileResult, ...]:
        """The configuration files that were converted."""
        return tuple(file for file in self.files if not file.reason)

    def to_yaml(self) -> str:
        """Return the content of the grid file as YAML."""
        import yaml

        head = [
            "# Converted from BERGEN by mirage grid from-bergen. Every entry is defined below; the",
            "# axes of `grid` use one of each, so list those that you want to combine. BERGEN's",
            "# datasets have these corpora:",
            *(f"#   {dataset}: {corpus}" for dataset, corpus in self.corpora.items()),
        ]
        text = yaml.safe_dump(dict(self.grid), sort_keys=False, allow_unicode=True, width=100)
        return "\n".join(head) + "\n" + str(text)

    def _tables(self) -> tuple[Table, ...]:
        kinds = dict.fromkeys(file.kind for file in self.files)
        rows = []
        for kind in kinds:
            files = [file for file in self.files if file.kind == kind]
            converted = [file for file in files if not file.reason]
            changed = sum(bool(file.changes) for file in converted)
            counts = (len(files), len(converted), changed, len(files) - len(converted))
            rows.append((kind, *map(str, counts)))
        total = (len(self.files), len(self.converted))
        share = f"{100 * total[1] / total[0]:.0f} %" if total[0] else "none"
        summary = Table(
            f"{total[1]} of {total[0]} files converted ({share})",
            ("kind", "files", "converted", "with changes", "not converted"),
            tuple(rows),
            name=0,
            notes=(
                *_grouped("not converted", ((f.reason, f.path) for f in self.files if f.reason)),
                *_grouped("", ((change, f.name) for f in self.files for change in f.changes)),
            ),
        )
        return (summary,)


def _grouped(label: str, pairs: Iterator[tuple[str, str]]) -> Iterator[str]:
    """Yield one line for each distinct text: the names paired with it, then the text.

    Args:
        label: A label for the start of each line; may be empty.
        pairs: Pairs of a text, such as a reason, and the file or entry that it is about.
    """
    by_text: dict[str, list[str]] = {}
    for text, name in pairs:
        by_text.setdefault(text, []).append(name)
    for text, names in by_text.items():
        listed = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        yield f"{f'{label}: ' if label else ''}{listed}: {text}"


def convert(folder: str | Path, name: str = "bergen") -> Conversion:
    """Convert a folder of BERGEN's configuration files to the content of a grid file.

    Args:
        folder: The folder ``config`` of BERGEN, or the folder that contains it.
        name: The name of the grid.

    Returns:
        The grid, and a report on the files.

    Raises:
        DatasetError: If the folder is not a configuration of BERGEN, or none of its datasets can be
            converted.
    """
    root = Path(folder)
    root = root / "config" if (root / "config").is_dir() else root
    kinds = [kind for kind in (*SECTIONS, *OTHER_FOLDERS) if (root / kind).is_dir()]
    if not kinds:
        raise DatasetError(
            f"{root}: this is not a configuration folder of BERGEN, because it has none of the "
            f"folders {', '.join(SECTIONS)}"
        )
    converter = _Converter(root)
    for kind in kinds:
        for path in sorted((root / kind).rglob("*.y*ml")):
            converter.add(kind, path)
    if not converter.sections["datasets"]:
        raise DatasetError(f"{root}: no dataset can be converted; {converter.first_reason()}")
    return converter.conversion(name)


class _Converter:
    """A converter of BERGEN's configuration files, which collects the entries of the grid."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sections: dict[str, dict[str, Entry]] = {
            name: {} for name in ("datasets", "corpora", "rewriters", "retrievers", "rerankers",
                                  "processors", "generators", "prompts")
        }  # fmt: skip
        self.files: list[FileResult] = []
        self.corpora: dict[str, str] = {}
        self.settings = self._settings()

    def _settings(self) -> dict[str, Any]:
        """Return BERGEN's main settings (``rag.yaml``), to which other files may refer."""
        path = self.root / "rag.yaml"
        document = _load(path) if path.is_file() else {}
        return document if isinstance(document, dict) else {}

    def first_reason(self) -> str:
        """Return the path of the first file that was not converted, with the reason, or ""."""
        return next((f"{file.path}: {file.reason}" for file in self.files if file.reason), "")

    def add(self, kind: str, path: Path) -> None:
        """Convert one file, and record its entry or the reason why it has none."""
        relative = path.relative_to(self.root).as_posix()
        try:
            if kind in OTHER_FOLDERS:
                raise NotConvertedError(OTHER_FOLDERS[kind])
            name = self._name(path.relative_to(self.root / kind))
            document = _resolve(_load(path), self.settings)
            changes = self._add_entry(kind, name, document)
        except DatasetError as error:
            reason = str(error).removeprefix(f"{path}: ")
            self.files.append(FileResult(relative, kind, reason=reason))
        else:
            self.files.append(FileResult(relative, kind, name, changes=changes))

    def _name(self, path: Path) -> str:
        """Return the name of a file's entry: its folders and its file name, joined by ``-``.

        A folder is left out if the file name begins with the name of the folder.
        """
        *folders, stem = path.with_suffix("").parts
        parts = [each for each in folders if not stem.startswith(each)]
        name = "-".join((*parts, stem))
        return f"{name}-file" if name in ("none", "oracle") else name

    def _add_entry(self, kind: str, name: str, document: Any) -> tuple[str, ...]:
        """Convert a document, add its entry to the grid, and return notes for the user."""
        if not isinstance(document, Mapping):
            raise NotConvertedError("the file must contain a YAML mapping")
        changes: list[str] = []
        section, entry_type = SECTIONS[kind]
        if kind == "dataset":
            entry = self._dataset(name, document, changes)
        elif kind == "prompt":
            entry = _prompt(document, changes)
        else:
            target, arguments = _target(document)
            converters = CONVERTERS[kind]
            if target not in converters:
                raise NotConvertedError(
                    f"{target} is a class of BERGEN that Mirage has no counterpart for; pass a "
                    "component of your own (kind: own)"
                )
            converted = converters[target](arguments, changes)
            if converted is None:
                return tuple(changes)
            entry = converted
        _check(entry_type, entry)
        self.sections[section][name] = entry
        return tuple(changes)

    def _dataset(self, name: str, document: Mapping[str, Any], changes: list[str]) -> Entry:
        """Return the entry of a dataset's queries, and add its corpus to the grid.

        Notes for the user are appended to ``changes``. The functions that convert other kinds of
        files do the same.
        """
        wanted = str(self.settings.get("eval_split", "dev"))
        for split in dict.fromkeys((wanted, "dev", "test", "train")):
            part = document.get(split) or {}
            if not isinstance(part, Mapping):
                raise NotConvertedError(f"the value of the split {split!r} must be a mapping")
            if part.get("query"):
                break
        else:
            raise NotConvertedError(
                "none of the splits has queries; add 'query' to dev, test or train"
            )
        if split != wanted:
            changes.append(f"the split {wanted!r} has no queries, so {split!r} is used")
        target, arguments = _target(part["query"])
        if target not in QUERIES:
            raise NotConvertedError(
                f"{target} is Python code of BERGEN, which is not executed; write its questions "
                "to a JSON Lines file with id, question and answers, and set 'form: answers' and "
                "the path of that file"
            )
        entry = QUERIES[target](arguments, changes)
        _note_unused(arguments, QUERY_ARGUMENTS, changes)
        _check(entries.DatasetEntry, entry)
        if part.get("doc"):
            self.corpora[name] = self._corpus(*_target(part["doc"]), changes)
        return entry

    def _corpus(self, target: str, arguments: Entry, changes: list[str]) -> str:
        """Add a corpus to the grid, and return its name.

        ``target`` is the class of BERGEN that reads the corpus, and ``arguments`` are the arguments
        of this class.
        """
        if target == "MergedDocDataset":
            parts = [str(each) for each in arguments.get("in_dataset_names", ())]
            names = [self._corpus(*_merged_part(part), changes) for part in parts]
            name = str(arguments.get("out_dataset_name") or "-".join(names))
            self.sections["corpora"].setdefault(name, {"of": names})
            return name
        if target in CORPORA:
            name, entry = CORPORA[target](arguments, changes)
        else:
            name = target
            entry = {"path": f"data/{target}.jsonl"}
            changes.append(
                f"{target} is Python code of BERGEN: write its passages as JSON Lines with id and "
                f"text to data/{target}.jsonl"
            )
        _check(entries.CorpusEntry, entry)
        self.sections["corpora"].setdefault(name, entry)
        return name

    def conversion(self, name: str) -> Conversion:
        """Return the converted grid, which uses one entry on each axis.

        The entry is the default that ``rag.yaml`` names or, if that was not converted, the first
        entry of the section. A context processor is used only if ``rag.yaml`` names it.
        """
        defaults: dict[str, str] = {}
        for each in self.settings.get("defaults") or ():
            if isinstance(each, Mapping):
                defaults |= {str(axis): str(value) for axis, value in each.items() if value}
        axes: dict[str, Any] = {}
        for kind, axis in (
            ("dataset", "dataset"),
            ("retriever", "retriever"),
            ("reranker", "reranker"),
            ("generator", "generator"),
            ("prompt", "prompt"),
        ):
            names = self.sections[SECTIONS[kind][0]]
            default = defaults.get(kind, "").replace("/", "-")
            if names:
                axes[axis] = [default if default in names else next(iter(names))]
        processor = defaults.get("context_processor", "").replace("/", "-")
        if processor in self.sections["processors"]:
            axes["processor"] = [processor]
        corpus = self.corpora.get(axes["dataset"][0])
        if corpus is None:
            for axis in ("retriever", "reranker", "processor"):
                axes.pop(axis, None)
        else:
            axes["corpus"] = [corpus]
        for key, axis in (
            ("retrieve_top_k", "retrieve_k"),
            ("rerank_top_k", "rerank_k"),
            ("generation_top_k", "show_k"),
        ):
            if isinstance(self.settings.get(key), int):
                axes[axis] = [self.settings[key]]
        grid = {
            "name": name,
            **{section: content for section, content in self.sections.items() if content},
            "grid": {axis: axes[axis] for axis in AxesEntry.model_fields if axis in axes},
            "metrics": list(METRICS),
        }
        _check(GridConfig, grid)
        return Conversion(grid, tuple(self.files), dict(sorted(self.corpora.items())))


# Reading ------------------------------------------------------------------------------------------

_INTERPOLATION = re.compile(r"\$\{([^${}]*)\}")


def _load(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(read_text(path, "settings"))
    except (yaml.YAMLError, RecursionError) as error:
        problem = str(getattr(error, "problem", None) or error).partition("\n")[0]
        raise NotConvertedError(f"not valid YAML ({problem})") from None


def _resolve(value: Any, *documents: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a document in which Hydra's interpolations, such as ``${a.b}``, have been replaced.

    Values are looked up first in the document itself, then in ``documents``, such as BERGEN's main
    settings.
    """
    documents = (value, *documents) if depth == 0 and isinstance(value, Mapping) else documents
    if depth > 20:
        raise NotConvertedError(
            "the interpolations ${a.b} form a cycle, or the YAML is nested too deeply"
        )
    if isinstance(value, Mapping):
        return {str(k): _resolve(v, *documents, depth=depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_resolve(each, *documents, depth=depth + 1) for each in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    whole = _INTERPOLATION.fullmatch(value)
    if whole:
        return _resolve(_lookup(whole[1], documents), *documents, depth=depth + 1)
    text = _INTERPOLATION.sub(lambda match: str(_lookup(match[1], documents)), value)
    if text == value:
        raise NotConvertedError(f"the interpolation in {value!r} does not have the form ${{a.b}}")
    return _resolve(text, *documents, depth=depth + 1)


def _lookup(key: str, documents: tuple[Mapping[str, Any], ...]) -> Any:
    for document in documents:
        value: Any = document
        for part in key.strip().split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            return value
    raise NotConvertedError(
        f"the interpolation ${{{key}}} has no value, neither in the file nor in rag.yaml"
    )


def _target(document: Any) -> tuple[str, Entry]:
    """Return the name of the class that a document describes, and the arguments for the class.

    For classes of models, the name includes the module, as in ``llm.LLM``, because several modules
    of BERGEN have classes with the same name.
    """
    arguments = document.get("init_args", document) if isinstance(document, Mapping) else {}
    if not isinstance(arguments, Mapping) or not isinstance(arguments.get("_target_"), str):
        raise NotConvertedError("the key _target_ must be set to the name of a class of BERGEN")
    path = str(arguments["_target_"])
    parts = path.split(".")
    is_model = parts[0] == "models" and len(parts) > 1
    name = ".".join(parts[-2:]) if is_model else parts[-1]
    return name, {str(key): value for key, value in arguments.items() if key != "_target_"}


def _check(entry_type: Any, entry: Entry) -> None:
    """Raise an error if an entry is not valid, for example because its language is unknown."""
    try:
        TypeAdapter(entry_type).validate_python(entry)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = first["msg"].removeprefix("Value error, ")
        keys = ".".join(str(part) for part in first["loc"])
        raise NotConvertedError(f"{keys}: {message}" if keys else message) from None


def _model(arguments: Entry) -> str:
    name = arguments.get("model_name")
    if not isinstance(name, str) or name in ("", "???"):
        raise NotConvertedError(
            "the file does not set model_name; add an entry for this model to the grid yourself"
        )
    return name


QUERY_ARGUMENTS = {
    *("split", "lang", "langcode", "language", "irds_name", "hf_path", "label", "data_path"),
}
SPEED = frozenset({"batch_size", "batch_size_sim", "name"})


def _note_unused(arguments: Entry, used: set[str], changes: list[str]) -> None:
    """Add a note to ``changes`` for each argument of BERGEN that the entry does not use.

    ``used`` contains the names of the arguments that the entry uses. Arguments that affect only
    speed get no note.
    """
    for key, value in arguments.items():
        if key not in used | SPEED and value is not None:
            changes.append(f"{key}: {value!r} is left out")


# Prompts ------------------------------------------------------------------------------------------

SLOTS = {"question": "{question}", "query": "{question}", "docs": "{passages}"}


def _prompt(document: Mapping[str, Any], changes: list[str]) -> Entry:
    keys = {
        "user": "user",
        "system": "system",
        "user_without_docs": "closed_book_user",
        "system_without_docs": "closed_book_system",
    }
    entry: Entry = {"kind": "template"}
    for key, ours in keys.items():
        text = document.get(key)
        if text is not None and not isinstance(text, str):
            raise NotConvertedError(f"{key} must be a string, got {type(text).__name__}")
        if text:
            entry[ours] = template(text)
    if "user" not in entry:
        raise NotConvertedError("the prompt is empty, so the model would not see the question")
    entry["passage"] = "Document {number}: {title} {text}"
    if extra := [key for key in document if key not in keys]:
        changes.append(f"{', '.join(extra)}: left out")
    return entry


def template(text: str) -> str:
    """Convert a prompt of BERGEN to a template with the slots ``{question}`` and ``{passages}``.

    BERGEN's prompt is plain text with ``{question}`` and ``{docs}``, or the source code of a Python
    string such as ``f"Question: {question}"``. BERGEN evaluates this code; this function only
    parses it.

    Args:
        text: The prompt of BERGEN.

    Raises:
        NotConvertedError: If the prompt uses any expression except the question and the documents.

    Example:
        >>> template('f"Context: {docs}\\n\\nQuestion: {question}"')
        'Context: {passages}\\n\\nQuestion: {question}'
    """
    source = text.strip()
    if re.match(r"eval\s*\(|[rRfFuU]{0,2}['\"]", source):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # BERGEN writes "\ " for a space after a colon
                tree = ast.parse(source.replace("\n", "\\n"), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            if source.startswith(("f", "eval")):
                raise NotConvertedError(
                    f"the prompt cannot be parsed as a Python string: {source[:60]!r}"
                ) from None
        else:
            return _literal(tree).replace(":\\ ", ": ")
    parts = []
    try:
        for literal, slot, form, conversion in Formatter().parse(text):
            parts.append(literal.replace("{", "{{").replace("}", "}}"))
            if slot is not None:
                if form or conversion or slot not in SLOTS:
                    raise NotConvertedError(f"the prompt uses {{{slot}}}; {_ONLY}")
                parts.append(SLOTS[slot])
    except ValueError as error:
        raise NotConvertedError(f"the prompt is not a valid template ({error})") from None
    return "".join(parts).replace(":\\ ", ": ")


_ONLY = (
    "a template can only use the question and the documents, so pass a prompt of your own "
    "(kind: own)"
)


def _literal(node: ast.expr) -> str:
    """Convert a parsed Python expression, such as an f-string, to a template."""
    match node:
        case ast.Constant(value=str() as text):
            return text.replace("{", "{{").replace("}", "}}")
        case ast.JoinedStr(values=values):
            return "".join(map(_literal, values))
        case ast.FormattedValue(value=ast.Name(id=name), conversion=-1, format_spec=None) if (
            name in SLOTS
        ):
            return SLOTS[name]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _literal(left) + _literal(right)
        case ast.Call(func=ast.Name(id="eval"), args=[argument], keywords=[]):
            return _literal(argument)
        case ast.Name(id=name) if name in SLOTS:
            return SLOTS[name]
    expression = node.value if isinstance(node, ast.FormattedValue) else node
    raise NotConvertedError(f"the prompt uses the expression {ast.unparse(expression)!r}; {_ONLY}")


# Models -------------------------------------------------------------------------------------------


def _bm25(arguments: Entry, changes: list[str]) -> Entry:
    changes.append(
        "BERGEN's BM25 (Pyserini) stems English words and drops stop words: set analyzer: stems "
        "or best (extra retrieval)"
    )
    _note_unused(arguments, {"model_name"}, changes)
    return {"kind": "bm25"}


def _oracle(arguments: Entry, changes: list[str]) -> None:  # noqa: ARG001
    changes.append("this is the built-in retriever oracle: list it in grid.retriever")


POOLERS = {"MeanPooler": "mean", "ClsPooler": "cls"}


def _dense(arguments: Entry, changes: list[str]) -> Entry:
    similarity = _class_of(arguments.get("similarity"))
    entry = {
        "kind": "dense",
        **_encoders(arguments),
        "similarity": "cosine" if similarity == "CosineSim" else "dot",
    }
    pooler = _class_of(arguments.get("pooler"))
    if pooler in POOLERS:
        entry["pooling"] = POOLERS[pooler]
    elif pooler:
        raise NotConvertedError(f"the pooler must be one of {', '.join(POOLERS)}, got {pooler}")
    for theirs, ours in (("prompt_q", "query_prefix"), ("prompt_d", "passage_prefix")):
        if arguments.get(theirs):
            entry[ours] = str(arguments[theirs])
    used = {"pooler", "similarity", "prompt_q", "prompt_d"}
    _note_unused(arguments, used | ENCODER_ARGUMENTS, changes)
    return entry


ENCODER_ARGUMENTS = {"model_name", "query_encoder_name", "max_len"}


def _encoders(arguments: Entry) -> Entry:
    """Return the settings of an encoder: its models, and the maximum number of tokens.

    The model for questions is included only if it differs from the model for passages. Texts above
    the maximum number of tokens are truncated.
    """
    entry: Entry = {"model": _model(arguments)}
    if arguments.get("query_encoder_name") not in (None, entry["model"]):
        entry["query_model"] = str(arguments["query_encoder_name"])
    if isinstance(arguments.get("max_len"), int):
        entry["max_length"] = arguments["max_len"]
    return entry


def _class_of(value: Any) -> str:
    target = value.get("_target_") if isinstance(value, Mapping) else value
    return str(target or "").rpartition(".")[2]


def _splade(arguments: Entry, changes: list[str]) -> Entry:
    _note_unused(arguments, ENCODER_ARGUMENTS, changes)
    return {"kind": "sparse", **_encoders(arguments)}


ADAPTER = "needs the package peft if the model is an adapter, and memory for a large model"


def _dense_llm(arguments: Entry, changes: list[str]) -> Entry:
    changes.append(ADAPTER)
    entry = _dense(arguments | {"pooler": None, "adapters": None}, changes)
    return entry | {"pooling": "last"}


def _repllama(arguments: Entry, changes: list[str]) -> Entry:
    changes += (ADAPTER, "the prefixes are those of RepLLaMA's model card, not those of BERGEN")
    prefixes = {"prompt_q": "query: ", "prompt_d": "passage: "}
    return _dense(prefixes | arguments, changes) | {"pooling": "last"}


def _cross_encoder(arguments: Entry, changes: list[str]) -> Entry:
    _note_unused(arguments, {"model_name"}, changes)
    return {"kind": "cross-encoder", "model": _model(arguments)}


def _dslr(arguments: Entry, changes: list[str]) -> Entry:
    threshold = arguments.get("threshold")
    if not isinstance(threshold, int | float) or not 0 < threshold < 1:
        raise NotConvertedError(
            f"threshold must be a probability between 0 and 1, got {threshold!r}"
        )
    # BERGEN's threshold is a probability, but the pruner's threshold is a logit.
    logit = round(math.log(threshold / (1 - threshold)), 6)
    _note_unused(arguments, {"model_name", "threshold", "always_select_title"}, changes)
    return {"kind": "sentence-pruner", "model": _model(arguments), "threshold": logit}


def _provence(arguments: Entry, changes: list[str]) -> Entry:
    threshold = arguments.get("threshold", 0.1)
    if not isinstance(threshold, int | float) or not 0 < threshold < 1:
        raise NotConvertedError(
            f"threshold must be a probability between 0 and 1, got {threshold!r}"
        )
    changes.append("titles are always kept, and passages are not reordered: use a reranker")
    used = {"model_name", "threshold", "always_select_title", "reorder", "top_k"}
    _note_unused(arguments, used, changes)
    model = _model(arguments)
    return {"kind": "sentence-pruner", "model": model, "tokens": True, "threshold": threshold}


RECOMP = "fangyuan/nq_extractive_compressor"


def _recomp(arguments: Entry, changes: list[str]) -> Entry:
    if arguments.get("threshold") is not None:
        raise NotConvertedError(
            "threshold is a limit on dot products of vectors that are not normalised, which "
            "Mirage does not support; use 'kind: extractive-compressor' with 'sentences' or "
            "'tokens'"
        )
    changes.append("sentences are ranked by cosine similarity, not by dot product")
    _note_unused(arguments, {"model_name", "top_k", "alway_select_title"}, changes)
    return {
        "kind": "extractive-compressor",
        "model": str(arguments.get("model_name") or RECOMP),
        "pooling": "mean",
        "sentences": arguments.get("top_k", 3),
    }


def _copy(arguments: Entry, changes: list[str]) -> None:  # noqa: ARG001
    changes.append("queries are used as they are if a retriever has no rewriter")


NLLB = {
    "arb_Arab": "ar", "ben_Beng": "bn", "deu_Latn": "de", "eng_Latn": "en", "spa_Latn": "es",
    "pes_Arab": "fa", "fin_Latn": "fi", "fra_Latn": "fr", "hin_Deva": "hi", "ind_Latn": "id",
    "ita_Latn": "it", "jpn_Jpan": "ja", "kor_Hang": "ko", "por_Latn": "pt", "rus_Cyrl": "ru",
    "swh_Latn": "sw", "tel_Telu": "te", "tha_Thai": "th", "yor_Latn": "yo", "zho_Hans": "zh",
}  # fmt: skip
"""The ISO 639-1 code of each language code of the translation model NLLB."""


def _translate(arguments: Entry, changes: list[str]) -> Entry:
    code = str(arguments.get("tgt_lang"))
    if code not in NLLB:
        raise NotConvertedError(f"tgt_lang {code!r} is not a language that Mirage supports")
    changes.append(f"{TRANSLATOR} translates instead of NLLB: choose a model, and set rewriter: in "
                   "the retrievers that use it")  # fmt: skip
    return {"kind": "llm", "model": TRANSLATOR, "language": NLLB[code]}


BITS = {"int4": "4bit", "int8": "8bit"}


def _transformers(arguments: Entry, changes: list[str]) -> Entry:
    used = {"model_name", "max_new_tokens", "max_length", "quantization", "local_path"}
    _note_context(arguments, changes)
    _note_unused(arguments, used, changes)
    entry = {"kind": "transformers", "model": _model(arguments)}
    quantization = str(arguments.get("quantization") or "no").lower()
    if quantization in BITS:
        entry["load_in"] = BITS[quantization]
        changes.append("needs the packages bitsandbytes and accelerate")
    return entry | _whole_numbers(arguments, "max_new_tokens", "batch_size")


def _whole_numbers(arguments: Entry, *names: str) -> Entry:
    return {name: arguments[name] for name in names if isinstance(arguments.get(name), int)}


def _served(model: str, arguments: Entry) -> Entry:
    tokens = arguments.get("max_new_tokens")
    limit = {"max_tokens": tokens} if isinstance(tokens, int) else {}
    return {"kind": "openai", "model": model, "base_url": VLLM, **limit}


def _vllm(arguments: Entry, changes: list[str]) -> Entry:
    changes.append(
        f"needs the package vllm; to use a server instead, set kind: openai and base_url: {VLLM}"
    )
    _note_context(arguments, changes)
    entry = {"kind": "vllm", "model": _model(arguments)}
    settings = ("quantization", "gpu_memory_utilization")
    entry |= {name: arguments[name] for name in settings if arguments.get(name) is not None}
    entry |= _whole_numbers(arguments, "max_new_tokens", "batch_size")
    # BERGEN limits the context only of models that are not quantised.
    if isinstance(arguments.get("max_length"), int) and "quantization" not in entry:
        entry["max_model_len"] = arguments["max_length"]
    _note_unused(arguments, {"model_name", "max_new_tokens", "max_length", *settings}, changes)
    return entry


def _openai(arguments: Entry, changes: list[str]) -> Entry:
    _note_context(arguments, changes)
    _note_unused(arguments, {"model_name", "max_new_tokens", "max_length"}, changes)
    entry = _served(_model(arguments), arguments)
    del entry["base_url"]
    return entry | {"api_key": "${ENV:OPENAI_API_KEY}"}


def _note_context(arguments: Entry, changes: list[str]) -> None:
    if isinstance(arguments.get("max_length"), int):
        changes.append("max_length: set context_tokens of the prompt instead, by default 8192")


def _oracle_answer(arguments: Entry, changes: list[str]) -> Entry:  # noqa: ARG001
    return {"kind": "oracle-answer"}


Converter = Callable[[Entry, list[str]], Entry | None]

CONVERTERS: Mapping[str, Mapping[str, Converter]] = {
    "retriever": {
        "bm25.BM25": _bm25,
        "dense.Dense": _dense,
        "dense_llm.DenseLLM": _dense_llm,
        "repllama.RepLlama": _repllama,
        "splade.Splade": _splade,
        "oracle_provenance.OracleProvenance": _oracle,
    },
    "reranker": {"crossencoder.CrossEncoder": _cross_encoder},
    "context_processor": {
        "dslr_ce.DSLR_CE": _dslr,
        "provence.ProvenceCompressor": _provence,
        "recomp.RecompExtractiveCompressor": _recomp,
    },
    "query_generator": {"copy.CopyQuery": _copy, "translate_query.TranslateQuery": _translate},
    "generator": {
        "llm.LLM": _transformers,
        "hf.HF": _transformers,
        "vllm.VLLM": _vllm,
        "vllm.LLM": _vllm,
        "llm_vllm.LLM": _vllm,
        "llm_openai.OpenAI": _openai,
        "openai.OpenAI": _openai,
        "oracle_answer.OracleAnswer": _oracle_answer,
    },
}
"""For each folder and class of BERGEN, the function that converts the arguments to an entry."""


# Data ---------------------------------------------------------------------------------------------

_SPLITS = {"validation": "dev", "dev": "dev", "train": "train", "test": "test"}


def _kilt(task: str) -> Callable[[Entry, list[str]], Entry]:
    def make(arguments: Entry, changes: list[str]) -> Entry:
        split = _SPLITS.get(str(arguments.get("split")), "dev")
        file = f"{task}-{split}-kilt.jsonl"
        changes.append(f"put {KILT}{file} into data/")
        return {"form": "kilt", "path": f"data/{file}", "language": "en"}

    return make


KILT = "https://dl.fbaipublicfiles.com/KILT/"


def _triviaqa(arguments: Entry, changes: list[str]) -> Entry:
    # KILT's files have the ids of TriviaQA's questions and the relevant pages, but no questions.
    split = _SPLITS.get(str(arguments.get("split")), "dev")
    file = f"triviaqa-{split}_id-kilt.jsonl"
    changes.append(f"put {KILT}{file} into data/; the answers are those of TriviaQA")
    source = {"split": "validation" if split == "dev" else split}
    maker = _hub("mandarjoshi/trivia_qa", "unfiltered.nocontext", answers="answer.aliases")
    return maker(source, changes) | {"qrels": f"data/{file}", "judged": True}


def _hub(
    name: str,
    config: str = "default",
    language: str = "en",
    where: Entry | None = None,
    **fields: str,
) -> Callable[[Entry, list[str]], Entry]:
    def make(arguments: Entry, changes: list[str]) -> Entry:  # noqa: ARG001
        entry = {"form": "answers", "hub": name, "config": config}
        entry["split"] = str(arguments.get("split") or "test")
        rest = {"language": language, "fields": fields, "where": where}
        return entry | {key: value for key, value in rest.items() if value}

    return make


def _jsonl(url: str, **fields: str) -> Callable[[Entry, list[str]], Entry]:
    def make(arguments: Entry, changes: list[str]) -> Entry:  # noqa: ARG001
        changes.append(f"put {url} into data/")
        path = f"data/{url.rpartition('/')[2]}"
        return {"form": "answers", "path": path, "language": "en", "fields": fields}

    return make


def _mkqa(arguments: Entry, changes: list[str]) -> Entry:
    changes.append(
        "put mkqa.jsonl.gz of apple/ml-mkqa and KILT's nq-train-kilt.jsonl into data/; aliases "
        "count as answers too"
    )
    language, _, variant = str(arguments.get("lang")).partition("_")
    entry: Entry = {"form": "mkqa", "path": "data/mkqa.jsonl.gz", "language": language}
    if variant and variant != "cn":
        key = f"{language}_{variant}"
        fields = {"question": f"queries.{key}", "answers": f"answers.{key}.text"}
        entry |= {"form": "answers", "fields": {"id": "example_id", **fields}}
    return entry | {"qrels": "data/nq-train-kilt.jsonl", "judged": True}


def _xor(arguments: Entry, changes: list[str]) -> Entry:
    changes.append(
        "put xor_dev_full_v1_1.jsonl of XOR-TyDi QA into data/; BERGEN adds the language's words "
        "for yes and no to the answers"
    )
    path = "data/xor_dev_full_v1_1.jsonl"
    return {"form": "xor-tydi", "path": path, "language": str(arguments.get("lang"))}


def _tydi(arguments: Entry, changes: list[str]) -> Entry:
    name = str(arguments.get("language") or "english")
    maker = _hub(
        "google-research-datasets/tydiqa", "secondary_task", str(arguments.get("langcode") or "en"),
        {"id": f"{name}-*"}, answers="answers.text",
    )  # fmt: skip
    return maker(arguments, changes)


def _bioasq(arguments: Entry, changes: list[str]) -> Entry:
    if not arguments.get("hf_path"):
        raise NotConvertedError(
            "the files of BioASQ can only be downloaded after a registration; set hf_path to a "
            "dataset on the Hugging Face hub"
        )
    maker = _hub(str(arguments["hf_path"]), question="content", answers="label")
    return maker(arguments, changes)


def _techqa(arguments: Entry, changes: list[str]) -> Entry:  # noqa: ARG001
    changes.append("only the split 'test' is used; BERGEN joins train, validation and test")
    return _hub("rojagtap/tech-qa", answers="answer")({}, changes)


def _beir(arguments: Entry, changes: list[str]) -> Entry:
    parts = str(arguments.get("irds_name")).split("/")
    if parts[0] != "beir" or len(parts) < 2:
        raise NotConvertedError(
            f"the ir_datasets dataset {'/'.join(parts)!r} is not a dataset of BEIR; write its "
            "queries to a JSON Lines file yourself"
        )
    changes.append(f"put BEIR's folder {parts[1]} into data/")
    return {"form": "beir", "path": f"data/{parts[1]}", "language": "en"}


def _syllabus(arguments: Entry, changes: list[str]) -> Entry:
    file = f"{arguments.get('split') or 'test'}.csv"
    site = "https://raw.githubusercontent.com/umass-ml4ed/SyllabusQA/main/data/dataset_split/"
    changes.append(f"put {site}{file} into data/ as syllabusqa-{file}")
    fields = {"question": "{syllabus_name}: {question}"}
    path = f"data/syllabusqa-{file}"
    return {"form": "answers", "path": path, "language": "en", "fields": fields}


def _bioasq_file(arguments: Entry, changes: list[str]) -> Entry:
    file = Path(str(arguments.get("data_path") or "bioasq.tsv")).name
    changes.append(f"put BioASQ's file into data/ as {Path(file).stem}.tsv")
    path = f"data/{Path(file).stem}.tsv"
    fields = {"answers": "ideal_answer"}
    return {"form": "answers", "path": path, "language": "en", "fields": fields}


def _squad(arguments: Entry, changes: list[str]) -> Entry:  # noqa: ARG001
    maker = _hub("rajpurkar/squad", "plain_text", answers="answers.text")
    return maker({"split": "validation"}, changes)


QUERIES: Mapping[str, Callable[[Entry, list[str]], Entry]] = {
    "KILTNQ": _kilt("nq"),
    "KILTTriviaqa": _triviaqa,
    "KILTHotpotqa": _kilt("hotpotqa"),
    "KILTAidayago2": _kilt("aidayago2"),
    "KILTCweb": _kilt("cweb"),
    "KILTEli5": _kilt("eli5"),
    "KILTFever": _kilt("fever"),
    "KILTStructuredZeroshot": _kilt("structured_zeroshot"),
    "KILTSTrex": _kilt("trex"),
    "KILTWned": _kilt("wned"),
    "KILTWow": _kilt("wow"),
    "MKQA": _mkqa,
    "XORQA": _xor,
    "TydiQA": _tydi,
    "IRDSQueryProcessor": _beir,
    "BIOASQ12B": _bioasq,
    "TechQA": _techqa,
    "POPQA": _hub("akariasai/PopQA", answers="possible_answers"),
    "ASQA": _hub("din0s/asqa", question="ambiguous_question", answers="qa_pairs.short_answers"),
    "SCIQ": _hub("allenai/sciq", answers="correct_answer"),
    "truthful_qa": _hub("truthfulqa/truthful_qa", "generation", answers="best_answer"),
    "WIKIQA": _hub("microsoft/wiki_qa", where={"label": 1}, id="question_id"),
    "NQOpen": _hub("google-research-datasets/nq_open", "nq_open", answers="answer"),
    "SquadQuestions": _squad,
    "SquadQuestionsChunked": _squad,
    "MMLU": _hub("cais/mmlu", "all", choices="choices"),
    "wikimultihopqa": _hub(
        "scholarly-shadows-syndicate/2wikimultihopqa_with_q_gpt35", answers="answer"
    ),
    "SimpleQA": _hub("basicv8vc/SimpleQA", question="problem", answers="answer"),
    "Frames": _hub("google/frames-benchmark", question="Prompt", answers="Answer"),
    "TimeSensitiveQA": _hub("diwank/time-sensitive-qa", id="idx", answers="targets"),
    "KILTMULTIQA": _hub("dmrau/combined_qa", question="content", answers="label"),
    "MultiQA": _hub("dmrau/multi_qa", question="content", answers="label"),
    "BIOASQ11B_Ragged": _hub("jenhsia/ragged", "bioasq", question="input", answers="output.answer"),
    "CodeRAGBench_HumanEval": _hub(
        "code-rag-bench/humaneval", id="task_id", question="prompt", answers="canonical_solution"
    ),
    "CodeRAGBench_MBPP": _hub("code-rag-bench/mbpp", id="task_id", question="text", answers="code"),
    "FiQA": _hub("LLukas22/fiqa", question="question", answers="answer"),
    "SearchQA": _hub("kyunghyuncho/search_qa", "train_test_val", answers="answer"),
    "CovidQA": _hub("deepset/covid_qa_deepset", answers="answers.text"),
    "ParaphraseRC": _hub(
        "ibm/duorc",
        "ParaphraseRC",
        where={"no_answer": False},
        id="question_id",
        question="{title}: {question}",
    ),
    "SyllabusQA": _syllabus,
    "BIOASQ11B": _bioasq_file,
    **{
        f"RobustQA_{domain.title()}": _jsonl(
            "https://raw.githubusercontent.com/awslabs/rag-qa-arena/refs/heads/main/data/"
            f"annotations_{domain}_with_citation.jsonl",
            id="qid",
            answers="answer",
        )
        for domain in ("lifestyle", "recreation", "science", "technology", "writing")
    },
}
"""For each query class of BERGEN, the function that converts its arguments to a dataset entry."""


def _kilt_corpus(arguments: Entry, changes: list[str]) -> tuple[str, Entry]:  # noqa: ARG001
    changes.append(
        f"put {KILT}kilt_knowledgesource.json into data/; BERGEN's passages have other ids"
    )
    path = "data/kilt_knowledgesource.json"
    return "kilt-100w", {"path": path, "language": "en", "chunk": {"size": 100}}


def _wikipedia(arguments: Entry, changes: list[str]) -> tuple[str, Entry]:
    code = str(arguments.get("lang"))
    changes.append(
        f"hf download wikimedia/wikipedia --repo-type dataset --include '20231101.{code}/*' "
        "--local-dir data/wikipedia"
    )
    path = f"data/wikipedia/20231101.{code}/*.parquet"
    entry: Entry = {"path": path, "chunk": {"size": 100}}
    if code in ALL_LANGUAGES:
        entry["language"] = code
    else:
        changes.append(f"{code} is not a supported language; its text is split at spaces")
    return f"wiki-100w-{code}", entry


def _beir_corpus(arguments: Entry, changes: list[str]) -> tuple[str, Entry]:  # noqa: ARG001
    path = f"{_beir(arguments, [])['path']}/corpus.jsonl"
    return f"beir-{path.split('/')[1]}", {"path": path, "language": "en"}


def _hub_corpus(
    name: str, config: str = "default", split: str = "train", **fields: str
) -> Callable[[Entry, list[str]], tuple[str, Entry]]:
    def make(arguments: Entry, changes: list[str]) -> tuple[str, Entry]:  # noqa: ARG001
        entry: Entry = {"hub": name, "config": config, "split": split, "language": "en"}
        short = name.partition("/")[2]
        suffix = "" if config in ("default", "corpus", "plain_text") else f"-{config}"
        return f"{short}{suffix}", entry | ({"fields": fields} if fields else {})

    return make


def _full_wikipedia(arguments: Entry, changes: list[str]) -> tuple[str, Entry]:
    _, entry = _wikipedia(arguments | {"lang": "en"}, changes)
    del entry["chunk"]
    return "wikipedia-2023-full", entry | {"fields": {"id": "url"}}


def _ms_marco(arguments: Entry, changes: list[str]) -> tuple[str, Entry]:  # noqa: ARG001
    changes.append("put BEIR's folder msmarco into data/")
    return "ms-marco", {"path": "data/msmarco/corpus.jsonl", "language": "en"}


def _merged_part(name: str) -> tuple[str, Entry]:
    """Return the class and arguments of a corpus of BERGEN, given its name.

    A merged corpus of BERGEN lists the corpora that it consists of by such names.
    """
    if name == "kilt-100w":
        return "KILT100w", {}
    if name.startswith("wiki-100w-"):
        return "Wiki_monolingual_100w", {"lang": name.removeprefix("wiki-100w-")}
    return name, {}


CORPORA: Mapping[str, Callable[[Entry, list[str]], tuple[str, Entry]]] = {
    "KILT100w": _kilt_corpus,
    "Wiki_monolingual_100w": _wikipedia,
    "IRDSDocProcessor": _beir_corpus,
    "MsMarcoCollection": _ms_marco,
    "Wikipedia2023_full": _full_wikipedia,
    "Wikipedia2023_section": _hub_corpus("rasdani/cohere-wikipedia-2023-11-en"),
    "SquadDocuments": _hub_corpus("rajpurkar/squad", "plain_text", "validation", text="context"),
    "FiQA_corpus": _hub_corpus("BeIR/fiqa", "corpus", "corpus"),
    **{
        f"ODQAWikiCorpora{name}": _hub_corpus("castorini/odqa-wiki-corpora", config)
        for name, config in (
            ("100WTamber", "wiki-text-100w-tamber"),
            ("100WKarpukhin", "wiki-text-100w-karpukhin"),
            ("63tamber", "wiki-text-6-3-tamber"),
            ("63tamberALL", "wiki-all-6-3-tamber"),
        )
    },
    **{
        f"CodeRAGBench_{name}": _hub_corpus(f"code-rag-bench/{dataset}", text=text, **fields)
        for name, dataset, text, fields in (
            ("programming_solutions", "programming-solutions", "text", {"title": "title"}),
            ("online_tutorials", "online-tutorials", "text", {"title": "title"}),
            ("library_documentation", "library-documentation", "doc_content", {"title": "doc_id"}),
            ("stackoverflow", "stackoverflow-posts", "text", {}),
            ("gitrepospython", "github-repos-python", "text", {}),
            ("gitrepos", "github-repos", "text", {}),
        )
    },
}
"""For each passage class of BERGEN, the function that returns the name and entry of the corpus."""

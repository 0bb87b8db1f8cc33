"""Grids: all combinations of pipeline components and datasets, run and measured."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage._base.files import check_name
from mirage._base.progress import progress_bar
from mirage.errors import MirageError, SettingError, UnknownNameError
from mirage.grids._metrics import cutoff_of, is_of_ranking
from mirage.grids._nodes import Nodes, Settings
from mirage.grids._running import Runner
from mirage.grids.cells import Cell
from mirage.grids.config import DEPTHS, NONE, GridConfig, read_config
from mirage.grids.plan import Plan, make_plan
from mirage.grids.store import ResultStore
from mirage.grids.tables import ResultTable
from mirage.leaderboard import Leaderboard

if TYPE_CHECKING:
    from mirage.arena import PairwiseJudge
    from mirage.dataset import MirageDataset
    from mirage.executors import Executor
    from mirage.llm import Budget
    from mirage.models import Run
    from mirage.ranking import Ranking

EMPTY_IF_CLOSED_BOOK = ("corpus", *DEPTHS)
"""Axes on which tables show nothing for closed-book cells (cells without retrieval).

On every other axis, tables show ``none`` for a component that such a cell does not use.
"""

GENERATION_AXES = ("generator", "prompt")
"""Axes that do not affect which passages are retrieved and shown."""


class Grid:
    """RAG pipelines and the datasets to run them on, defined by one YAML file.

    A *cell* is one combination of a dataset and the settings of each component; it becomes one row
    of the result table. Running a cell takes several *steps*: build the corpus, build the index,
    rank passages, generate responses, and compute metrics. The result of a step is stored in a
    :class:`ResultStore` under a digest of the step's inputs. All cells that need the same step
    share its result, so no step runs twice. If a run was interrupted, the same call resumes it.

    Use :meth:`read` to create a grid from a file. Methods that use results have two arguments in
    common. ``store`` is a result store or its folder; by default it is the store that :meth:`store`
    returns. ``limit`` is the number of queries to use from the start of each dataset, at least 1;
    by default all queries are used.

    Args:
        config: The validated content of the file.
        folder: The folder in which the default store is created. The store is a folder named
            ``NAME.store``, where ``NAME`` is the name of the grid.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> text = (
        ...     "name: small\\ndatasets: {sw: {form: bundled, language: sw}}\\n"
        ...     "corpora: {sw: {dataset: sw}}\\nretrievers: {bm25: {kind: bm25}}\\n"
        ...     "grid: {dataset: sw, corpus: sw, retriever: [oracle, bm25]}\\nmetrics: ['R@5']"
        ... )
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "small.yaml")
        ...     size = path.write_text(text)
        ...     grid = Grid.read(path)
        >>> [cell["retriever"] for cell in grid.cells]
        ['oracle', 'bm25']
    """

    def __init__(self, config: GridConfig, folder: str | Path = ".") -> None:
        self.config = config
        self.folder = Path(folder)

    @classmethod
    def read(
        cls, path: str | Path, *, parts: Mapping[str, Any] | None = None, trust: bool = False
    ) -> Grid:
        """Read a grid from a YAML file; paths in it are relative to its folder.

        Args:
            path: The path of the file.
            parts: Your own objects for the entries of ``kind: own``, by the name of the entry.
                They are retrievers, rewriters, rerankers, processors, generators and prompts that
                you wrote in Python. If each such entry has a ``version``, only :meth:`run` and
                :meth:`shown` need the objects.
            trust: Whether every API key that the file names may be sent to the addresses in the
                file. By default only the key in ``OPENAI_API_KEY`` is sent, and only to OpenAI and
                to the host of ``OPENAI_BASE_URL``. A grid that would send any other key does not
                run.

        Raises:
            DatasetError: If the file is invalid; the message names the file, the line and the
                problem.
        """
        return cls(read_config(path, parts=parts, trust=trust), Path(path).parent)

    @property
    def name(self) -> str:
        """The name of the grid in the file."""
        return self.config.name

    def __repr__(self) -> str:
        return f"Grid({self.name!r}, cells={len(self.cells)})"

    @cached_property
    def cells(self) -> tuple[Settings, ...]:
        """The settings of each cell as a mapping from axis to setting, one per row of the results.

        An axis is something in which cells can differ, such as ``retriever`` or ``show_k``.
        """
        return tuple(self.config.grid.combinations())

    @property
    def datasets(self) -> dict[str, MirageDataset]:
        """The datasets that cells use, by their names in the file.

        Raises:
            DatasetError: If a file cannot be read.
        """
        names = dict.fromkeys(cell["dataset"] for cell in self.cells)
        return {name: self.config.datasets[name].dataset() for name in names}

    def store(self, folder: str | Path | None = None) -> ResultStore:
        """Return the store of the grid's results.

        Args:
            folder: The folder of the store; by default ``NAME.store`` beside the file.

        Raises:
            DatasetError: If the grid's name is not a valid folder name.
        """
        if folder is None:
            check_name(self.name, "the grid's name")
            folder = self.folder / f"{self.name}.store"
        return ResultStore(folder)

    def run(
        self,
        store: ResultStore | str | Path | None = None,
        *,
        limit: int | None = None,
        budget: Budget | None = None,
        executor: Executor | None = None,
        progress: bool = True,
    ) -> ResultTable:
        """Run all steps that are not in the store, and return the results of all cells.

        If a cell fails, the table contains the reason and the other cells run. A query that a
        system did not answer counts as failed, and is tried again in the next run.

        Args:
            store: The store of results, or its folder; by default :meth:`store`.
            limit: The number of queries to use from the start of each dataset; all by default. A
                later run with a higher limit reuses the results.
            budget: The budget of all LLM calls together; unlimited by default.
            executor: The executor whose workers encode, rerank, answer and compute features, such
                as :func:`mirage.executors.ray_executor`. The calling process writes the store, and
                the table is the same as without an executor.
            progress: Whether to show progress bars for cells and steps.

        Raises:
            SettingError: If ``limit`` is below 1, or if the file would send an API key to an
                address that must not receive it; see ``trust`` of :meth:`read`.
            DatasetError: If a dataset cannot be read.
        """
        runner = self._runner(store, limit, budget=budget, executor=executor, progress=progress)
        return self._table(runner, progress)

    def table(
        self, store: ResultStore | str | Path | None = None, *, limit: int | None = None
    ) -> ResultTable:
        """Return a table of the results that are already in the store, without running anything.

        If the results of a cell are not stored, its ``failure`` contains "not run yet".

        Args:
            store: The store of results, or its folder; by default :meth:`store`.
            limit: The number of queries to use from the start of each dataset; all by default.

        Raises:
            SettingError: If ``limit`` is below 1.
            DatasetError: If a dataset cannot be read.
        """
        return self._table(self._runner(store, limit, stored_only=True), progress=False)

    def runs(
        self, store: ResultStore | str | Path | None = None, *, limit: int | None = None
    ) -> list[Run | None]:
        """Return the stored responses of each cell, in the order of :attr:`cells`.

        An item is ``None`` if the cell has no generator, or if its responses are not in the store.
        Each response contains the passages that its generator was given.

        Args:
            store: The store of results, or its folder; by default :meth:`store`.
            limit: The number of queries to use from the start of each dataset; all by default.

        Raises:
            SettingError: If ``limit`` is below 1.
        """
        runner = self._runner(store, limit, stored_only=True)
        return [self._run_of(runner, cell) for cell in self.cells]

    def shown(
        self,
        settings: Mapping[str, str | int],
        store: ResultStore | str | Path | None = None,
        *,
        limit: int | None = None,
        progress: bool = True,
    ) -> MirageDataset:
        """Return the queries of a cell with the passages that its pipeline shows to the generator.

        You can fine-tune a model on these passages, for example. Retrieval, reranking and context
        processing run if their results are not in the store yet; their results are then stored. No
        responses are generated.

        Args:
            settings: Settings of the cell by axis, such as ``{"dataset": "nq", "retriever":
                "bm25"}``. They may match several cells if all of them show the same passages.
            store: The store of results, or its folder; by default :meth:`store`.
            limit: The number of queries to use from the start of the dataset; all by default.
            progress: Whether to show progress bars.

        Raises:
            UnknownNameError: If ``settings`` names an axis that the grid does not have.
            SettingError: If no cell has these settings, if the cells with these settings show
                different passages, if one of them has no generator, or if ``limit`` is below 1.
            DatasetError: If a dataset cannot be read.
        """
        cells = self._select_cells(settings)
        retrieval_axes = [axis for axis in cells[0] if axis not in GENERATION_AXES]
        ambiguous = [axis for axis in retrieval_axes if len({cell[axis] for cell in cells}) > 1]
        if ambiguous:
            values = sorted({cell[ambiguous[0]] for cell in cells})
            raise SettingError(
                f"the settings {dict(settings)} select {len(cells)} cells of {self.name}, which "
                f"show different passages; also set {ambiguous[0]} to one of {', '.join(values)}"
            )
        return self._runner(store, limit, progress=progress).queries_with_passages(cells[0])

    def _select_cells(self, settings: Mapping[str, str | int]) -> list[Settings]:
        for axis in settings:
            if axis not in self.cells[0]:
                raise UnknownNameError("axis", axis, self.cells[0], f"in the grid {self.name!r}")
        cells = [
            cell
            for cell in self.cells
            if all(cell[axis] == str(value) for axis, value in settings.items())
        ]
        if not cells:
            raise SettingError(
                f"no cell of {self.name} has the settings {dict(settings)}; Grid.cells lists the "
                "settings of each cell"
            )
        if any(cell["generator"] == NONE for cell in cells):
            raise SettingError(
                f"a cell of {self.name} with the settings {dict(settings)} has no generator, so "
                "it shows no passages; select only cells that have a generator"
            )
        return cells

    def _run_of(self, runner: Runner, cell: Settings) -> Run | None:
        try:
            run = None if cell["generator"] == NONE else runner.responses(cell)
        except MirageError:
            return None
        return None if run is None else run.model_copy(update={"model": self._system_name(cell)})

    def _system_name(self, cell: Settings) -> str:
        """Return a name for a cell's pipeline, unique among the pipelines on the same dataset.

        The name lists the retriever, reranker and generator, and every other setting in which the
        pipelines on this dataset differ.
        """
        cells = [each for each in self.cells if each["dataset"] == cell["dataset"]]
        distinguishing = [axis for axis in cell if len({each[axis] for each in cells} - {NONE}) > 1]
        axes = [
            axis for axis in cell if axis in {*distinguishing, "retriever", "reranker", "generator"}
        ]
        words = [
            f"{axis}={cell[axis]}" if axis in DEPTHS else cell[axis]
            for axis in axes
            if cell[axis] != NONE
        ]
        return " + ".join([*(["closed book"] if cell["retriever"] == NONE else []), *words])

    def leaderboard(
        self,
        dataset: str = "",
        *,
        judge: PairwiseJudge | None = None,
        store: ResultStore | str | Path | None = None,
        limit: int | None = None,
        out: str | Path | None = None,
        seed: int = 0,
        progress: bool = True,
    ) -> Ranking:
        """Return a ranking of the pipelines that were run on one dataset.

        With a judge, every pair of pipelines is compared on the queries, and a Bradley-Terry model
        converts the verdicts to one logit per pipeline. Without a judge, a surrogate ranks the
        pipelines among the systems of the bundled leaderboard. (A surrogate is a regression that
        predicts an LLM judge's ranking from features of the responses.) The surrogate requires the
        bundled queries. It leaves out closed-book pipelines (without retrieval), because its
        features use the passages.

        Args:
            dataset: The name of the dataset in the file; optional if the grid has only one dataset.
            judge: The judge that compares responses; by default the surrogate ranks the pipelines.
            store: The store of results, or its folder; by default :meth:`store`.
            limit: The number of queries to use from the start of the dataset; all by default.
            out: A file to which the verdicts are appended; see :class:`mirage.PairwiseJudge`.
            seed: Random seed.
            progress: Whether to show progress bars if stderr is a terminal.

        Raises:
            UnknownNameError: If there is no such dataset.
            SettingError: If the grid has several datasets and ``dataset`` is not set, if no
                pipeline was run, or if the queries are not bundled and ``judge`` is not set.
            JudgmentError: If fewer than two pipelines were run.
        """
        names = list(dict.fromkeys(cell["dataset"] for cell in self.cells))
        dataset = names[0] if not dataset and len(names) == 1 else dataset
        if not dataset:
            raise SettingError(
                f"{self.name} has several datasets ({', '.join(names)}); set dataset= to one of "
                "them"
            )
        if dataset not in names:
            raise UnknownNameError("dataset", dataset, names)
        pairs = zip(self.cells, self.runs(store, limit=limit), strict=True)
        runs = [run for cell, run in pairs if run is not None and cell["dataset"] == dataset]
        if not runs:
            raise SettingError(
                f"no pipeline of {self.name} has been run on {dataset}; run the grid first"
            )
        queries = self.config.datasets[dataset].dataset()[:limit]
        if judge is not None:
            judged = judge.compare(
                queries, runs, queries=len(queries), out=out, seed=seed, progress=progress
            )
            return Leaderboard.from_judgments(judged, queries, runs, seed=seed).ranking
        if self.config.datasets[dataset].form != "bundled":
            raise SettingError(
                f"dataset {dataset} does not have the form 'bundled', but the bundled leaderboard "
                "ranks only responses to the bundled queries; pass a judge as judge="
            )
        level = self.config.datasets[dataset].level
        board = Leaderboard.bundled(queries.language, level=level)
        # The surrogate uses features of passages, which closed-book responses do not have.
        open_book = {run.model: run for run in runs if any(each.passages for each in run)}
        return board.rank_many(open_book, seed=seed, progress=progress)

    def _table(self, runner: Runner, progress: bool) -> ResultTable:
        for name in dict.fromkeys(cell["dataset"] for cell in self.cells):
            runner.dataset(name)
        by_position: dict[int, Cell] = {}
        with (
            closing(runner),
            progress_bar(len(self.cells), f"cells of {self.name}", progress) as bar,
        ):
            for position in sorted(range(len(self.cells)), key=self._process_order):
                settings = self.cells[position]
                try:
                    cell = runner.cell(settings)
                except MirageError as error:
                    cell = Cell(settings, failure=str(error))
                by_position[position] = cell
                bar.update()
        cells = [by_position[position] for position in range(len(self.cells))]
        shortfalls = (f"{node}: {why}" for node, why in runner.shortfalls())
        notes = (
            *runner.nodes.order_notes(self.cells),
            *self._depth_notes(),
            *shortfalls,
            *runner.resource_notes(),
        )
        table_cells = tuple(map(self._without_unused_axes, cells))
        return ResultTable(self.name, table_cells, self.config.metrics, notes, self.config.order)

    def _depth_notes(self) -> list[str]:
        """Return a note about retrieval measures without a cutoff, which read whole rankings."""
        names = [name for name in filter(is_of_ranking, self.config.metrics) if not cutoff_of(name)]
        depths = [
            min(int(cell[axis]) for axis in DEPTHS[:2] if cell[axis] != NONE)
            for cell in self.cells
            if cell["retriever"] != NONE
        ]
        if not names or not depths:
            return []
        numbers = " or ".join(map(str, sorted(set(depths))))
        return [f"{', '.join(names)}: of the first {numbers} passages (retrieve_k and rerank_k)"]

    def _process_order(self, position: int) -> int:
        """Return the sort key of a cell, given its position; cells with lower keys run first.

        Cells with the same vLLM generator run one after the other, so that the process of each vLLM
        model starts only once.
        """
        name = self.cells[position]["generator"]
        has_process = name != NONE and self.config.generators[name].kind == "vllm"
        return 1 + list(self.config.generators).index(name) if has_process else 0

    def plan(
        self, store: ResultStore | str | Path | None = None, *, limit: int | None = None
    ) -> Plan:
        """Estimate the steps, calls, cost, time and disk space of :meth:`run`, without running it.

        Steps whose results are already in the store count as done.

        Args:
            store: The store of results, or its folder; by default :meth:`store`.
            limit: The number of queries to use from the start of each dataset; all by default.

        Raises:
            DatasetError: If a dataset cannot be read.
        """
        result_store = store if isinstance(store, ResultStore) else self.store(store)
        return make_plan(self.config, self.cells, result_store, Nodes(self.config), limit=limit)

    def _without_unused_axes(self, cell: Cell) -> Cell:
        """Return a cell without the axes that the table does not need.

        An axis is kept if at least one cell uses it. An axis with numbers of passages, such as
        ``show_k``, is kept only if cells differ in it.
        """
        settings = {
            axis: "" if value == NONE and axis in EMPTY_IF_CLOSED_BOOK else value
            for axis, value in cell.settings.items()
            if axis in self._axes
        }
        return replace(cell, settings=settings)

    @cached_property
    def _axes(self) -> tuple[str, ...]:
        values = {
            axis: {cell[axis] for cell in self.cells} - {NONE}
            for axis in (self.cells[0] if self.cells else ())
        }
        return tuple(axis for axis, settings in values.items() if len(settings) > (axis in DEPTHS))

    def _runner(
        self,
        store: ResultStore | str | Path | None,
        limit: int | None = None,
        *,
        budget: Budget | None = None,
        executor: Executor | None = None,
        progress: bool = False,
        stored_only: bool = False,
    ) -> Runner:
        if limit is not None and limit < 1:
            raise SettingError(f"limit must be at least 1, got limit={limit}")
        # Keys are checked before any step runs, not when the first request is sent.
        if not stored_only:
            for entry in self.config.endpoints.values():
                entry.check_key()
            for own in self.config.own_parts.values():
                own.part()
        result_store = store if isinstance(store, ResultStore) else self.store(store)
        nodes = Nodes(self.config)
        return Runner(
            self.config,
            result_store,
            nodes,
            limit=limit,
            budget=budget,
            executor=executor,
            progress=progress,
            stored_only=stored_only,
        )

"""A grid: pipelines and datasets, each combination of which is measured."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mirage._base.files import check_name
from mirage._base.progress import progress_bar
from mirage.benchmarking._nodes import Nodes, Settings
from mirage.benchmarking._running import Runner
from mirage.benchmarking.cells import Cell
from mirage.benchmarking.config import DEPTHS, NONE, GridConfig, read_config
from mirage.benchmarking.plan import Plan, make_plan
from mirage.benchmarking.store import ResultStore
from mirage.benchmarking.tables import ResultTable
from mirage.errors import MirageError, SettingError, UnknownNameError
from mirage.leaderboard import Leaderboard

if TYPE_CHECKING:
    from mirage.arena import PairwiseJudge
    from mirage.dataset import MirageDataset
    from mirage.executors import Executor
    from mirage.llm import Budget
    from mirage.models import Run
    from mirage.ranking import Ranking

__all__ = ["Grid"]

UNNAMED = ("corpus", *DEPTHS)
"""Axes that a closed-book cell has no setting of; of the others it has ``none``."""

ANSWERING = ("generator", "prompt")
"""Axes that change nothing in what is found and shown."""


class Grid:
    """Pipelines on datasets, as one YAML file says: every combination is a cell of one table.

    What was done once is never done again: each step (a corpus, an index, what a retriever found,
    the responses, their metrics) is kept in a :class:`ResultStore` under what goes into it, and
    cells that share a step share what came of it. The same call goes on where one was killed.

    Make one with :meth:`read`.

    Args:
        config: what the file says.
        folder: where the store is by default: ``NAME.store`` in it.
    """

    def __init__(self, config: GridConfig, folder: str | Path = ".") -> None:
        self.config = config
        self.folder = Path(folder)

    @classmethod
    def read(cls, path: str | Path, *, trust: bool = False) -> Grid:
        """Read the grid of a YAML file; paths in it are relative to its folder.

        Args:
            path: The file.
            trust: Send the keys that the file names to the addresses that it names. By default the
                key in ``OPENAI_API_KEY`` goes to OpenAI and to the host of ``OPENAI_BASE_URL``,
                and a grid that would send any other key anywhere is not run.

        Raises:
            DatasetError: names the file, the line, and what is wrong there.
        """
        return cls(read_config(path, trust=trust), Path(path).parent)

    @property
    def name(self) -> str:
        """What the file calls it."""
        return self.config.name

    def __repr__(self) -> str:
        return f"Grid({self.name!r}, cells={len(self.cells)})"

    @cached_property
    def cells(self) -> tuple[Settings, ...]:
        """The settings of each cell, by axis, in the order of the table."""
        return tuple(self.config.grid.combinations())

    @property
    def datasets(self) -> dict[str, MirageDataset]:
        """The queries by the name that the file gives them, those of the cells.

        Raises:
            DatasetError: a file cannot be read.
        """
        names = dict.fromkeys(cell["dataset"] for cell in self.cells)
        return {name: self.config.datasets[name].dataset() for name in names}

    def store(self, folder: str | Path | None = None) -> ResultStore:
        """Return the store of the grid's steps, by default ``NAME.store`` beside the file.

        Raises:
            DatasetError: the grid's name would lead to another folder.
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
        """Do what has not been done, and measure every cell.

        A cell that fails says why in the table, and the others go on. A query that a system did
        not answer is counted as failed, and asked again the next time.

        Args:
            store: where steps are kept; by default :meth:`store`.
            limit: queries of each dataset, the first ones. A later run with more goes on from them.
            budget: what all LLMs may spend together.
            executor: whose workers encode, rerank, answer and compute features, such as
                :func:`mirage.executors.ray_executor`; the store is written here. The table is the
                same.
            progress: show bars, by cell and by step.

        Raises:
            SettingError: ``limit`` is below 1, or a key would go to an address that the file names
                and that it does not belong to.
            DatasetError: a dataset cannot be read.
        """
        runner = self._runner(store, limit, budget=budget, executor=executor, progress=progress)
        return self._table(runner, progress)

    def table(
        self, store: ResultStore | str | Path | None = None, *, limit: int | None = None
    ) -> ResultTable:
        """The table of what was run; nothing is done, and a cell that was not run says so.

        Args:
            store: where steps are kept; by default :meth:`store`.
            limit: queries of each dataset, the first ones.

        Raises:
            SettingError: ``limit`` is below 1.
            DatasetError: a dataset cannot be read.
        """
        return self._table(self._runner(store, limit, done=True), progress=False)

    def runs(
        self, store: ResultStore | str | Path | None = None, *, limit: int | None = None
    ) -> list[Run | None]:
        """The responses of each cell, in the order of the table; ``None`` where it has none.

        Each response carries the passages that it was made from.

        Args:
            store: where steps are kept; by default :meth:`store`.
            limit: queries of each dataset, the first ones.

        Raises:
            SettingError: ``limit`` is below 1.
            DatasetError: a dataset cannot be read.
        """
        runner = self._runner(store, limit, done=True)
        return [self._run_of(runner, cell) for cell in self.cells]

    def shown(
        self,
        settings: Mapping[str, str | int],
        store: ResultStore | str | Path | None = None,
        *,
        limit: int | None = None,
        progress: bool = True,
    ) -> MirageDataset:
        """The queries of a cell, showing what its pipeline finds, such as to fine-tune a model on.

        What was not found yet is, and is kept in the store. Nothing is generated.

        Args:
            settings: of the cell, by axis, such as ``{"dataset": "nq", "retriever": "bm25"}``: as
                many as tell what is shown.
            store: where steps are kept; by default :meth:`store`.
            limit: queries of the dataset, the first ones.
            progress: show bars.

        Raises:
            UnknownNameError: cells have no such axis.
            SettingError: no cell has these settings, or those that do show different passages;
                ``limit`` is below 1.
            DatasetError: a dataset cannot be read.
        """
        cells = self._cells_of(settings)
        alike = [axis for axis in cells[0] if axis not in ANSWERING]
        several = [axis for axis in alike if len({cell[axis] for cell in cells}) > 1]
        if several:
            values = sorted({cell[several[0]] for cell in cells})
            raise SettingError(
                f"{len(cells)} cells of {self.name} have {dict(settings)}, and show different "
                f"passages; say which {several[0]}: {', '.join(values)}"
            )
        return self._runner(store, limit, progress=progress).shown(cells[0])

    def _cells_of(self, settings: Mapping[str, str | int]) -> list[Settings]:
        for axis in settings:
            if axis not in self.cells[0]:
                raise UnknownNameError(f"axis of {self.name}", axis, self.cells[0])
        cells = [
            cell
            for cell in self.cells
            if all(cell[axis] == str(value) for axis, value in settings.items())
        ]
        if not cells:
            raise SettingError(f"no cell of {self.name} has {dict(settings)}")
        if any(cell["generator"] == NONE for cell in cells):
            raise SettingError(
                f"a cell of {self.name} with {dict(settings)} has no generator to show passages to"
            )
        return cells

    def _run_of(self, runner: Runner, cell: Settings) -> Run | None:
        try:
            run = None if cell["generator"] == NONE else runner.responses(cell)
        except MirageError:
            return None
        return None if run is None else run.model_copy(update={"model": self._system(cell)})

    def _system(self, cell: Settings) -> str:
        """What a pipeline is called: what sets it apart from the others on its dataset."""
        others = [each for each in self.cells if each["dataset"] == cell["dataset"]]
        apart = [axis for axis in cell if len({each[axis] for each in others} - {NONE}) > 1]
        axes = [axis for axis in cell if axis in {*apart, "retriever", "reranker", "generator"}]
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
        """The pipelines that were run, ranked by a judge, or among the systems of a board.

        A judge compares any two of them on the queries, and Bradley-Terry turns its verdicts into
        logits. Without a judge they are placed among the systems of the bundled board, by its
        surrogate; that takes bundled queries, and leaves out what is closed book, for it goes by
        passages.

        Args:
            dataset: its name in the file; may be left out where there is one.
            judge: compares responses.
            store: where steps are kept; by default :meth:`store`.
            limit: queries of the dataset, the first ones.
            out: a file of votes that grows; see :class:`mirage.PairwiseJudge`.
            seed: of all that is drawn.
            progress: show progress bars on stderr, if that is a terminal.

        Raises:
            UnknownNameError: there is no such dataset.
            SettingError: no name is given and there are several, no pipeline was run, or there is
                no judge for queries that are not bundled.
            JudgmentError: fewer than two pipelines were run.
        """
        names = list(dict.fromkeys(cell["dataset"] for cell in self.cells))
        dataset = names[0] if not dataset and len(names) == 1 else dataset
        if not dataset:
            raise SettingError(f"{self.name} is on {', '.join(names)}: give the name of one")
        if dataset not in names:
            raise UnknownNameError("dataset", dataset, names)
        pairs = zip(self.cells, self.runs(store, limit=limit), strict=True)
        runs = [run for cell, run in pairs if run is not None and cell["dataset"] == dataset]
        if not runs:
            raise SettingError(f"no pipeline of {self.name} was run on {dataset}: run the grid")
        queries = self.config.datasets[dataset].dataset()[:limit]
        if judge is not None:
            judged = judge.compare(
                queries, runs, queries=len(queries), out=out, seed=seed, progress=progress
            )
            return Leaderboard.from_judgments(queries, runs, judged, seed=seed).ranking
        if self.config.datasets[dataset].form != "bundled":
            raise SettingError(
                f"{dataset} are not the bundled queries, which alone have a board: give judge="
            )
        board = Leaderboard.bundled(queries.language)
        open_book = {run.model: run for run in runs if any(each.passages for each in run)}
        return board.rank_all(open_book, seed=seed, progress=progress)

    def _table(self, runner: Runner, progress: bool) -> ResultTable:
        for name in dict.fromkeys(cell["dataset"] for cell in self.cells):
            runner.dataset(name)
        cells = []
        with progress_bar(len(self.cells), f"cells of {self.name}", progress) as bar:
            for settings in self.cells:
                try:
                    cell = runner.cell(settings)
                except MirageError as error:
                    cell = Cell(settings, failure=str(error))
                cells.append(cell)
                bar.update()
        shortfalls = (f"{node}: {why}" for node, why in runner.shortfalls())
        notes = (*runner.nodes.order_notes(self.cells), *shortfalls)
        plain = tuple(map(self._plain, cells))
        return ResultTable(self.name, plain, self.config.metrics, notes)

    def plan(
        self, store: ResultStore | str | Path | None = None, *, limit: int | None = None
    ) -> Plan:
        """What :meth:`run` would do and what it would take; nothing is sent or written.

        Args:
            store: where steps are kept; by default :meth:`store`.
            limit: queries of each dataset, the first ones.
        """
        place = store if isinstance(store, ResultStore) else self.store(store)
        return make_plan(self.config, self.cells, place, Nodes(self.config), limit=limit)

    def _plain(self, cell: Cell) -> Cell:
        """Without the axes that no cell has a setting of, and numbers that are all the same."""
        settings = {
            axis: "" if value == NONE and axis in UNNAMED else value
            for axis, value in cell.settings.items()
            if axis in self._axes
        }
        return Cell(settings, cell.scores, cell.failure, cell.query_ids, cell.values, cell.clusters)

    @cached_property
    def _axes(self) -> tuple[str, ...]:
        values = {
            axis: {cell[axis] for cell in self.cells} - {NONE}
            for axis in (self.cells[0] if self.cells else ())
        }
        return tuple(axis for axis, of in values.items() if len(of) > (axis in DEPTHS))

    def _runner(
        self,
        store: ResultStore | str | Path | None,
        limit: int | None = None,
        *,
        budget: Budget | None = None,
        executor: Executor | None = None,
        progress: bool = False,
        done: bool = False,
    ) -> Runner:
        if limit is not None and limit < 1:
            raise SettingError(f"a grid is run on 1 query or more, not {limit}")
        if not done:
            for entry in self.config.endpoints.values():
                entry.check_key()
        place = store if isinstance(store, ResultStore) else self.store(store)
        nodes = Nodes(self.config)
        return Runner(
            self.config,
            place,
            nodes,
            limit=limit,
            budget=budget,
            executor=executor,
            progress=progress,
            done=done,
        )

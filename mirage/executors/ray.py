"""An executor on a Ray cluster (Moritz et al. 2018, arXiv 1712.05889); needs the extra ``ray``."""

from __future__ import annotations

import hashlib
import logging
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeVar
from weakref import WeakKeyDictionary

from mirage._base.logs import logger
from mirage._base.packages import package
from mirage.errors import ExecutorError, SettingError
from mirage.executors.base import Once, note_item, sending

T = TypeVar("T")
R = TypeVar("R")

_LOG = logger("mirage.executors")
_LOSSES = 5  # an item at which this many workers were lost counts as the cause
_AHEAD = 2  # items sent to each worker at a time: one in progress and one waiting
_LOOK_S = 30.0  # seconds without any result after which a warning is logged
_CANCEL_ATTEMPTS = 10  # Ray may miss a cancellation while a task starts, so it is repeated
_CANCEL_WAIT_S = 0.5  # the wait between these attempts


def ray_executor(
    address: str | None = None,
    *,
    processes: int | None = None,
    cpus: float = 1.0,
    gpus: float = 0.0,
    **init: Any,
) -> RayExecutor:
    """Return an executor on a Ray cluster, or on this machine if there is no cluster.

    If this process does not use Ray yet, ``ray.init`` is called. It joins the cluster at
    ``address``, the one in the environment variable ``RAY_ADDRESS``, or one that ``ray start``
    started on this machine. If there is none, it starts Ray on this machine. Close the executor
    after use, or use it in a ``with`` block.

    Args:
        address: Address of a cluster; ``"auto"`` for the cluster that this machine is part of.
        processes: Number of workers. By default, as many as the CPUs (and GPUs) of the cluster
            allow now; set it if the cluster grows on demand.
        cpus: Number of CPUs per worker, and of threads that torch and BLAS use in a worker. Ray
            reserves the CPUs for plain functions, but not for a :class:`Once`.
        gpus: Number of GPUs that Ray reserves per worker if its function is a :class:`Once`. With a
            fraction such as 0.5, workers share a GPU.
        init: Further arguments of ``ray.init``, such as ``runtime_env={"pip": ["polars"]}`` or
            ``num_cpus=2``.

    Raises:
        ExecutorError: If the cluster cannot be reached, or Ray cannot be started.
        SettingError: If ``processes``, ``cpus`` or ``gpus`` is out of range.
        MissingPackageError: If the extra ``ray`` is not installed.
    """
    if (processes is not None and processes < 1) or cpus <= 0 or gpus < 0:
        raise SettingError(
            "processes must be at least 1, cpus above 0 and gpus at least 0; got "
            f"processes={processes}, cpus={cpus}, gpus={gpus}"
        )
    ray = package("ray")
    started = not ray.is_initialized()
    if started:
        quiet = {"include_dashboard": False, "logging_level": logging.ERROR}
        try:
            ray.init(address=address, **quiet | init)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            where = f"at {address}" if address else "on this machine"
            raise ExecutorError(f"cannot start or join a Ray cluster {where} ({error})") from error
    return RayExecutor(processes, cpus, gpus, started)


class RayExecutor:
    """An executor on a Ray cluster; use :func:`ray_executor` to create one.

    Plain functions run as Ray tasks. A :class:`~mirage.executors.base.Once` runs in Ray actors
    (processes that keep their state between calls). The actors live until the executor is closed,
    so each actor loads its model only once. If a worker or machine is lost, the executor sends its
    item to another worker; after five losses with the same item, it raises an error. Ray's retries
    are disabled.

    Args:
        processes: Number of workers; ``None`` for as many as the cluster allows now.
        cpus: Number of CPUs per worker, and of threads in a worker.
        gpus: Number of GPUs that Ray reserves per worker if its function is a ``Once``.
        started: Whether :func:`ray_executor` has started Ray. If true, closing the executor also
            shuts Ray down.
    """

    def __init__(self, processes: int | None, cpus: float, gpus: float, started: bool) -> None:
        self._ray = package("ray")
        self._processes, self._cpus, self._gpus = processes, cpus, gpus
        self._started = started
        # Weak keys: when a function is garbage collected, Ray ends the actors that hold it.
        self._pools: WeakKeyDictionary[Once[Any, Any], _Actors] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"RayExecutor(workers={self.workers})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def workers(self) -> int:
        """The number of items that are processed at a time."""
        if self._processes is not None:
            return self._processes
        resources = self._ray.cluster_resources()
        fit = resources.get("CPU", 1.0) / self._cpus
        if self._gpus:
            fit = min(fit, resources.get("GPU", 0.0) / self._gpus)
        return max(1, int(fit))

    def close(self) -> None:
        """End the workers, and shut Ray down if it was started for this executor."""
        for pool in self._pools.values():
            pool.end()
        self._pools.clear()
        if self._started:
            self._ray.shutdown()

    def map(self, function: Callable[[T], R], items: Iterable[T], /) -> Iterator[tuple[int, R]]:
        """Yield the index and result of each item; see :meth:`Executor.map`.

        Args:
            function: The function. A :class:`Once` is sent to the workers only once, even if it is
                used in several calls.
            items: The items.
        """
        pool = self._pool_for(function)
        numbered, more = enumerate(items), True
        again: deque[tuple[int, T]] = deque()
        losses: Counter[int] = Counter()
        under_way: dict[Any, tuple[int, T]] = {}
        try:
            while more or again or under_way:
                while (more or again) and pool.has_room(len(under_way)):
                    entry = again.popleft() if again else next(numbered, None)
                    if entry is None:
                        more = False
                    else:
                        under_way[self._send(pool, *entry)] = entry
                for ref in self._wait_for_calls(pool, under_way):
                    number, item = under_way.pop(ref)
                    outcome = self._fetch_outcome(ref, number)
                    is_suspect = pool.on_returned(ref, lost=outcome is None)
                    if outcome is None:
                        losses[number] += is_suspect
                        _check_losses(number, losses[number])
                        again.append((number, item))
                        continue
                    with note_item(number):
                        yield number, outcome.result()
        finally:
            pool.dismiss(list(under_way))

    def _pickle(self, function: object) -> bytes:
        try:
            with sending(self._ray.util.get_node_ip_address()):
                pickled: bytes = self._ray.cloudpickle.dumps(function)
        except Exception as error:  # pickling may raise any error
            raise ExecutorError(
                f"the function {function!r} cannot be sent to workers ({type(error).__name__}: "
                f"{error}); check that it can be pickled"
            ) from error
        return pickled

    def _pool_for(self, function: Callable[[Any], Any]) -> _Tasks | _Actors:
        options: dict[str, Any] = {"scheduling_strategy": "SPREAD"}
        if not isinstance(function, Once):
            options |= {"num_cpus": self._cpus, "max_retries": 0}
            return _Tasks(self._ray, options, self._pickle(function), self.workers)
        if function not in self._pools:
            if self._gpus:  # actors hold their GPUs, and new actors would wait for them forever
                for pool in self._pools.values():
                    pool.end()
                self._pools.clear()
            # Without num_cpus, Ray reserves no CPUs for an idle actor, so tasks can still run.
            options |= {"max_restarts": 0, "max_task_retries": 0}
            options |= {"num_gpus": self._gpus} if self._gpus else {}
            options["runtime_env"] = {"env_vars": {"OMP_NUM_THREADS": str(max(1, int(self._cpus)))}}
            pickled = self._pickle(function)
            self._pools[function] = _Actors(self._ray, options, pickled, self.workers)
        return self._pools[function]

    def _send(self, pool: _Tasks | _Actors, number: int, item: object) -> Any:
        try:
            return pool.send(item)
        except Exception as error:
            raise ExecutorError(
                f"item {number}, counted from 0, cannot be sent to a worker "
                f"({type(error).__name__}: {error}); check that it can be pickled"
            ) from error

    def _wait_for_calls(self, pool: _Tasks | _Actors, under_way: Iterable[Any]) -> list[Any]:
        """Wait until a call has finished, and return its reference in a list.

        ``under_way`` are the references of the calls in progress. The list is empty if a worker has
        started instead, or if nothing has happened for 30 seconds. In the second case, a warning is
        logged.
        """
        refs = [*under_way, *pool.starting]
        if not refs:  # all items are finished
            return []
        ready, _ = self._ray.wait(refs, timeout=_LOOK_S)
        if not ready:
            _LOG.warning(
                "no result arrived for %g s; %d items are being computed, and the free resources "
                "of the cluster are %s",
                _LOOK_S,
                len(refs) - len(pool.starting),
                self._ray.available_resources(),
            )
        for ref in [ref for ref in ready if ref in pool.starting]:
            pool.on_started(ref)
            ready.remove(ref)
        return list(ready)

    def _fetch_outcome(self, ref: Any, number: int) -> _Outcome | None:
        """Return the outcome of a call on item ``number``, or ``None`` if its worker was lost."""
        errors = self._ray.exceptions
        try:
            outcome: _Outcome = self._ray.get(ref)
        except errors.RayTaskError as error:
            raise ExecutorError(
                f"a worker cannot send back the result of item {number}, counted from 0 "
                f"({error}); check that it can be pickled"
            ) from error
        except errors.RayError as error:
            _LOG.warning(
                "item %d is computed again, because its worker was lost: %s",
                number,
                str(error).strip().split("\n")[0],
            )
            return None
        return outcome


def _check_losses(number: int, losses: int) -> None:
    if losses >= _LOSSES:
        raise ExecutorError(
            f"item {number}, counted from 0, was lost because {losses} workers ended while "
            "computing it; check whether it needs more memory than a worker has, or terminates "
            "its process"
        )


# Workers ------------------------------------------------------------------------------------------


class _Tasks:
    """A pool that calls a plain function in Ray tasks, which any process of the cluster may run."""

    starting: tuple[Any, ...] = ()

    def __init__(self, ray: Any, options: dict[str, Any], pickled: bytes, workers: int) -> None:
        self._ray, self._most = ray, _AHEAD * workers
        self._task = ray.remote(_work).options(**options)
        self._key = hashlib.sha256(pickled).hexdigest()
        self._function = ray.put(pickled)

    def has_room(self, under_way: int) -> bool:
        return under_way < self._most

    def send(self, item: object) -> Any:
        return self._task.remote(self._key, self._function, item)

    def on_started(self, ref: Any) -> None: ...

    def on_returned(self, _: Any, *, lost: bool) -> bool:
        """Return whether the call was lost; if so, its item may have crashed the worker."""
        return lost

    def dismiss(self, refs: Iterable[Any]) -> None:
        """Cancel the calls with these references, because their results are no longer needed."""
        remaining = list(refs)
        for _ in range(_CANCEL_ATTEMPTS):
            if not remaining:
                return
            for ref in remaining:
                self._ray.cancel(ref)
            _, remaining = self._ray.wait(
                remaining, num_returns=len(remaining), timeout=_CANCEL_WAIT_S, fetch_local=False
            )


@dataclass(eq=False)
class _Slot:
    """A Ray actor with a copy of the function, and its unfinished calls."""

    actor: Any
    refs: dict[Any, None] = field(default_factory=dict)  # in the order in which they are executed


class _Actors:
    """A pool that calls a :class:`~mirage.executors.base.Once` in Ray actors.

    Each actor has a copy of the function. Items are sent only to actors that have started.
    """

    def __init__(self, ray: Any, options: dict[str, Any], pickled: bytes, workers: int) -> None:
        self._ray, self._workers = ray, workers
        self._actor = ray.remote(_Worker).options(**options)
        self._key = hashlib.sha256(pickled).hexdigest()
        self._function = ray.put(pickled)
        self._slots: list[_Slot] = []
        self._slot_of: dict[Any, _Slot] = {}
        self.starting: dict[Any, _Slot] = {}
        self._failures = 0  # actors that failed to start, in a row

    def has_room(self, _: int) -> bool:
        while len(self._slots) + len(self.starting) < self._workers:
            actor = self._actor.remote(self._key, self._function)
            self.starting[actor.ready.remote()] = _Slot(actor)
        return any(len(slot.refs) < _AHEAD for slot in self._slots)

    def send(self, item: object) -> Any:
        slot = min(self._slots, key=lambda slot: len(slot.refs))
        ref = slot.actor.work.remote(item)
        slot.refs[ref] = None
        self._slot_of[ref] = slot
        return ref

    def on_started(self, ref: Any) -> None:
        """Add a started actor to the pool, or count a failure if the actor failed to start."""
        slot = self.starting.pop(ref)
        try:
            self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            self._failures += 1
            if self._failures >= _LOSSES:
                raise ExecutorError(
                    f"{_LOSSES} Ray workers in a row could not start; check that Mirage and the "
                    f"files of the model are on every machine; the last error: {error}"
                ) from error
        else:
            self._failures = 0
            self._slots.append(slot)

    def on_returned(self, ref: Any, *, lost: bool) -> bool:
        """Forget a finished or lost call, and end the actor of a lost call.

        Returns:
            Whether the call was lost while the worker was executing it, so its item may have
            crashed the worker.
        """
        slot = self._slot_of.pop(ref)
        is_first = next(iter(slot.refs)) == ref
        if not lost:
            del slot.refs[ref]
        elif slot in self._slots:
            self._slots.remove(slot)
            self._ray.kill(slot.actor)
        return lost and is_first

    def dismiss(self, refs: Iterable[Any]) -> None:
        """End the actors that run the calls with these references; their results are not needed."""
        for slot in {self._slot_of.pop(ref) for ref in refs}:
            if slot in self._slots:
                self._slots.remove(slot)
            self._ray.kill(slot.actor)

    def end(self) -> None:
        for slot in [*self._slots, *self.starting.values()]:
            self._ray.kill(slot.actor)
        self._slots, self.starting = [], {}


# In a worker --------------------------------------------------------------------------------------


class _Outcome(NamedTuple):
    """The outcome of an item: a result, or an error with its traceback in the worker."""

    value: Any
    error: Exception | None = None
    trace: str = ""

    def result(self) -> Any:
        if self.error is not None:
            self.error.add_note(f"in a worker: {self.trace}")
            raise self.error
        return self.value


_functions: dict[str, Callable[[Any], Any]] = {}


def _work(key: str, pickled: bytes, item: object) -> _Outcome:
    """Call a function with an item, and return its result or error.

    ``pickled`` is the pickled function, and ``key`` identifies it. A process keeps the last
    function that it used, so it unpickles a function only once unless functions alternate.
    """
    try:
        if key not in _functions:
            _functions.clear()
            _functions[key] = package("ray.cloudpickle").loads(pickled)
        return _Outcome(_functions[key](item))
    except Exception as error:
        trace = "".join(traceback.format_exception(error)).rstrip()
        return _Outcome(None, _picklable_error(error, trace), trace)


class _Worker:
    """A Ray actor: a process that holds a function and calls it with items."""

    def __init__(self, key: str, pickled: bytes) -> None:
        self._key, self._pickled = key, pickled

    def ready(self) -> None: ...

    def work(self, item: object) -> _Outcome:
        return _work(self._key, self._pickled, item)


def _picklable_error(error: Exception, trace: str) -> Exception:
    """Return an error that can be pickled: the error itself or, if that fails, an ExecutorError.

    The ExecutorError has the message of the error and its traceback ``trace``.
    """
    cloudpickle = package("ray.cloudpickle")
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:  # pickling may raise any error
        return ExecutorError(f"{type(error).__name__}: {error}\n{trace}")
    return error

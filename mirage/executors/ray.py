"""Work on the machines of a Ray cluster (Moritz et al. 2018, arXiv 1712.05889); extra ``ray``."""

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
from mirage.executors.base import Once, naming_item, sending

__all__ = ["RayExecutor", "ray_executor"]

T = TypeVar("T")
R = TypeVar("R")

_LOG = logger("mirage.executors")
_LOSSES = 5  # workers that an item may take with it, after which it is taken for the cause
_AHEAD = 2  # items that a worker has, one of which it works on
_LOOK_S = 30.0  # without any news after which it is said that nothing happens
_TOLD = 10  # times that work is told to stop which nobody waits for
_HEARD_S = 0.5  # after which it is told again


def ray_executor(
    address: str | None = None,
    *,
    processes: int | None = None,
    cpus: float = 1.0,
    gpus: float = 0.0,
    **init: Any,
) -> RayExecutor:
    """An executor on Ray: on the cluster that this program is in, or else on this machine alone.

    Where Ray is not running in this process yet it is started as ``ray.init`` does it: it joins
    the cluster of ``address``, of the environment's ``RAY_ADDRESS``, or one that ``ray start``
    began on this machine, and otherwise begins one here. Close it when all is done, or use it in a
    ``with`` block.

    Args:
        address: of a cluster, ``"auto"`` for the one that this machine is part of.
        processes: workers; by default as many as the cluster has CPUs (or GPUs) for. Give a number
            where the cluster grows on demand.
        cpus: CPUs that Ray counts for a worker, which are also the threads that torch and BLAS
            take in it.
        gpus: GPUs that a worker with something to load has for itself; a part of one, such as 0.5,
            shares it.
        init: what else ``ray.init`` takes, such as ``runtime_env={"pip": ["polars"]}``
            or ``num_cpus=2``.

    Raises:
        ExecutorError: the cluster cannot be reached, or Ray cannot be started.
        SettingError: ``processes``, ``cpus`` or ``gpus`` that make no sense.
        MissingPackageError: the extra ``ray`` is not installed.
    """
    if (processes is not None and processes < 1) or cpus <= 0 or gpus < 0:
        raise SettingError(
            f"processes={processes} is to be 1 or more, cpus={cpus} above 0 and gpus={gpus} 0 or "
            "more"
        )
    ray = package("ray", "ray")
    started = not ray.is_initialized()
    if started:
        quiet = {"include_dashboard": False, "logging_level": logging.ERROR}
        try:
            ray.init(address=address, **quiet | init)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            where = f"at {address}" if address else "here"
            raise ExecutorError(f"no Ray cluster {where} ({error})") from error
    return RayExecutor(processes, cpus, gpus, started)


class RayExecutor:
    """Works on a Ray cluster; made by :func:`ray_executor`.

    A plain function becomes tasks of Ray, an :class:`~mirage.executors.Once` is held by actors,
    which stay until the executor is closed, so that what it loads is loaded once by each. Tasks and
    actors are sent again by us and not by Ray: an item whose worker or machine is gone is given
    to another, five times at most.

    ``processes``, ``cpus`` and ``gpus`` are as there; where Ray was ``started`` for it, closing it
    ends Ray.
    """

    def __init__(self, processes: int | None, cpus: float, gpus: float, started: bool) -> None:
        self._ray = package("ray", "ray")
        self._processes, self._cpus, self._gpus = processes, cpus, gpus
        self._started = started
        # An actor whose handle is gone ends: those of a function that nobody has any more do.
        self._crews: WeakKeyDictionary[Once[Any, Any], _Actors] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"RayExecutor(workers={self.workers})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def workers(self) -> int:
        """How many items are worked on at a time."""
        if self._processes is not None:
            return self._processes
        there = self._ray.cluster_resources()
        fit = there.get("CPU", 1.0) / self._cpus
        if self._gpus:
            fit = min(fit, there.get("GPU", 0.0) / self._gpus)
        return max(1, int(fit))

    def close(self) -> None:
        """End the workers, and Ray where it was started for this executor."""
        for crew in self._crews.values():
            crew.end()
        self._crews.clear()
        if self._started:
            self._ray.shutdown()

    def map(self, function: Callable[[T], R], items: Iterable[T], /) -> Iterator[tuple[int, R]]:
        """As :meth:`Executor.map`.

        Args:
            function: as there; a :class:`Once` is sent once, however often it is mapped.
            items: as there.
        """
        crew = self._crew_of(function)
        numbered, more = enumerate(items), True
        again: deque[tuple[int, T]] = deque()
        losses: Counter[int] = Counter()
        under_way: dict[Any, tuple[int, T]] = {}
        try:
            while more or again or under_way:
                while (more or again) and crew.has_room(len(under_way)):
                    entry = again.popleft() if again else next(numbered, None)
                    if entry is None:
                        more = False
                    else:
                        under_way[self._sent(crew, *entry)] = entry
                for ref in self._finished(crew, under_way):
                    number, item = under_way.pop(ref)
                    outcome = self._outcome(ref, number)
                    is_suspect = crew.returned(ref, lost=outcome is None)
                    if outcome is None:
                        losses[number] += is_suspect
                        _check_losses(number, losses[number])
                        again.append((number, item))
                        continue
                    with naming_item(number):
                        yield number, outcome.result()
        finally:
            crew.dismiss(list(under_way))

    def _sendable(self, function: object) -> bytes:
        try:
            with sending(self._ray.util.get_node_ip_address()):
                pickled: bytes = self._ray.cloudpickle.dumps(function)
        except Exception as error:  # of anything that refuses to be pickled
            raise ExecutorError(
                f"{function!r} cannot be sent to workers ({type(error).__name__}: {error})"
            ) from error
        return pickled

    def _crew_of(self, function: Callable[[Any], Any]) -> _Tasks | _Actors:
        options: dict[str, Any] = {"scheduling_strategy": "SPREAD"}
        if not isinstance(function, Once):
            options |= {"num_cpus": self._cpus, "max_retries": 0}
            return _Tasks(self._ray, options, self._sendable(function), self.workers)
        if function not in self._crews:
            if self._gpus:  # they are held, and those of others would never be had
                for crew in self._crews.values():
                    crew.end()
                self._crews.clear()
            # Without a number of CPUs Ray counts none for an actor that waits, so tasks can run.
            options |= {"max_restarts": 0, "max_task_retries": 0}
            options |= {"num_gpus": self._gpus} if self._gpus else {}
            options["runtime_env"] = {"env_vars": {"OMP_NUM_THREADS": str(max(1, int(self._cpus)))}}
            pickled = self._sendable(function)
            self._crews[function] = _Actors(self._ray, options, pickled, self.workers)
        return self._crews[function]

    def _sent(self, crew: _Tasks | _Actors, number: int, item: object) -> Any:
        try:
            return crew.send(item)
        except Exception as error:
            raise ExecutorError(
                f"item {number}, counted from 0, cannot be sent to a worker "
                f"({type(error).__name__}: {error})"
            ) from error

    def _finished(self, crew: _Tasks | _Actors, under_way: Iterable[Any]) -> list[Any]:
        """What has come back; nothing where a worker has become ready or there is no news."""
        refs = [*under_way, *crew.starting]
        if not refs:  # there was no item, or none is left
            return []
        done, _ = self._ray.wait(refs, timeout=_LOOK_S)
        if not done:
            _LOG.warning(
                "nothing has come back for %g s; %d items are under way, and the cluster has %s "
                "free",
                _LOOK_S,
                len(refs) - len(crew.starting),
                self._ray.available_resources(),
            )
        for ref in [ref for ref in done if ref in crew.starting]:
            crew.started(ref)
            done.remove(ref)
        return list(done)

    def _outcome(self, ref: Any, number: int) -> _Outcome | None:
        """What came of an item; ``None`` where it is lost with its worker."""
        errors = self._ray.exceptions
        try:
            outcome: _Outcome = self._ray.get(ref)
        except errors.RayTaskError as error:
            raise ExecutorError(
                f"what came of item {number}, counted from 0, cannot be sent back ({error})"
            ) from error
        except errors.RayError as error:
            _LOG.warning("item %d is done again: %s", number, str(error).strip().split("\n")[0])
            return None
        return outcome


def _check_losses(number: int, losses: int) -> None:
    if losses >= _LOSSES:
        raise ExecutorError(
            f"item {number}, counted from 0, was lost with {losses} workers; does it take more "
            "memory than a worker has, or end its process?"
        )


# Those who do the work ----------------------------------------------------------------------------


class _Tasks:
    """Tasks of Ray, each of which any process of the cluster does."""

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

    def started(self, ref: Any) -> None: ...

    def returned(self, _: Any, *, lost: bool) -> bool:
        """Something came back, or is lost; whether it may be what ended its worker."""
        return lost

    def dismiss(self, refs: Iterable[Any]) -> None:
        """Nobody waits for these any more; what Ray misses, for it was to begin, is told again."""
        left = list(refs)
        for _ in range(_TOLD):
            if not left:
                return
            for ref in left:
                self._ray.cancel(ref)
            _, left = self._ray.wait(
                left, num_returns=len(left), timeout=_HEARD_S, fetch_local=False
            )


@dataclass(eq=False)
class _Seat:
    """A process that holds a function, and what it has to do."""

    actor: Any
    refs: dict[Any, None] = field(default_factory=dict)  # in the order in which they are done


class _Actors:
    """Actors of Ray, each of which holds the function; items go to those that are there."""

    def __init__(self, ray: Any, options: dict[str, Any], pickled: bytes, workers: int) -> None:
        self._ray, self._workers = ray, workers
        self._actor = ray.remote(_Worker).options(**options)
        self._key = hashlib.sha256(pickled).hexdigest()
        self._function = ray.put(pickled)
        self._seats: list[_Seat] = []
        self._of: dict[Any, _Seat] = {}
        self.starting: dict[Any, _Seat] = {}
        self._failures = 0  # in a row, of actors that did not start

    def has_room(self, _: int) -> bool:
        while len(self._seats) + len(self.starting) < self._workers:
            actor = self._actor.remote(self._key, self._function)
            self.starting[actor.ready.remote()] = _Seat(actor)
        return any(len(seat.refs) < _AHEAD for seat in self._seats)

    def send(self, item: object) -> Any:
        seat = min(self._seats, key=lambda seat: len(seat.refs))
        ref = seat.actor.work.remote(item)
        seat.refs[ref] = None
        self._of[ref] = seat
        return ref

    def started(self, ref: Any) -> None:
        """An actor is there, or could not start."""
        seat = self.starting.pop(ref)
        try:
            self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            self._failures += 1
            if self._failures >= _LOSSES:
                raise ExecutorError(f"no worker starts ({error})") from error
        else:
            self._failures = 0
            self._seats.append(seat)

    def returned(self, ref: Any, *, lost: bool) -> bool:
        """Something came back, or is lost; whether it may be what ended its worker."""
        seat = self._of.pop(ref)
        is_first = next(iter(seat.refs)) == ref
        if not lost:
            del seat.refs[ref]
        elif seat in self._seats:
            self._seats.remove(seat)
            self._ray.kill(seat.actor)
        return lost and is_first

    def dismiss(self, refs: Iterable[Any]) -> None:
        """Nobody waits for these any more: who has them is ended, and the others stay."""
        for seat in {self._of.pop(ref) for ref in refs}:
            if seat in self._seats:
                self._seats.remove(seat)
            self._ray.kill(seat.actor)

    def end(self) -> None:
        for seat in [*self._seats, *self.starting.values()]:
            self._ray.kill(seat.actor)
        self._seats, self.starting = [], {}


# In a worker --------------------------------------------------------------------------------------


class _Outcome(NamedTuple):
    """What came of an item: a result, or an error and where in the worker it was met."""

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
    """What came of an item; the function is unpickled once in a process."""
    try:
        if key not in _functions:
            _functions.clear()
            _functions[key] = package("ray.cloudpickle", "ray").loads(pickled)
        return _Outcome(_functions[key](item))
    except Exception as error:
        trace = "".join(traceback.format_exception(error)).rstrip()
        return _Outcome(None, _as_it_can_travel(error, trace), trace)


class _Worker:
    """Holds a function in a process of its own."""

    def __init__(self, key: str, pickled: bytes) -> None:
        self._key, self._pickled = key, pickled

    def ready(self) -> None: ...

    def work(self, item: object) -> _Outcome:
        return _work(self._key, self._pickled, item)


def _as_it_can_travel(error: Exception, trace: str) -> Exception:
    """The error itself, or the same in words."""
    cloudpickle = package("ray.cloudpickle", "ray")
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:  # whatever its class does
        return ExecutorError(f"{type(error).__name__}: {error}\n{trace}")
    return error
